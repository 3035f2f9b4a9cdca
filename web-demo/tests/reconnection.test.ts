import { signal } from "@preact/signals";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import type { ConversationOptions } from "../src/chat/conversation";
import { passingMemory } from "../src/chat/memory";
import { BrokenNetwork } from "./broken_network";
import { type MakeReader, READERS, type Scene, scene, tool } from "./conversation_scene";
import { GatewayProcess } from "./gateway_process";
import { until } from "./until";

const WORDS = "one two three four five six seven eight nine ten";
const PAINT = { tool: "paint", arguments: { color: "red" } };
let gateway: GatewayProcess;
let network: BrokenNetwork;
let opened: Scene[] = [];
let reader: MakeReader;

beforeAll(async () => {
  const answers = {
    slow: [[{ reasoning: "Let me count." }, { text: WORDS, chunk_characters: 2, delta_seconds: 0.1 }]],
    paint: [
      [{ text: "Painting. ", chunk_characters: 2, delta_seconds: 0.1 }, PAINT],
      [{ text: "It said: {{result}}" }],
    ],
    refund: [[{ tool: "refund", arguments: { order: "7", amount: 20 } }], [{ text: "It said: {{result}}" }]],
  };
  const refund = { type: "PythonTool", name: "refund", parameters: { function: "shop:refund" }, approval: "always" };
  gateway = await GatewayProcess.start([{ id: "clerk", answers, tools: [refund] }]);
  network = await BrokenNetwork.before(gateway.port);
});

afterEach(() => {
  network.mend();
  for (const { conversation } of opened) conversation.close();
  opened = [];
  vi.unstubAllGlobals();
});

afterAll(async () => {
  await network?.close();
  await gateway?.stop();
});

function clerk(more: Partial<ConversationOptions> = {}): Scene {
  const made = scene(network.url, "clerk", { makeReader: reader, ...more });
  opened.push(made);
  return made;
}

/** Every phase from now on, each once in a row. */
function phases({ conversation }: Scene): string[] {
  const seen: string[] = [];
  conversation.phase.subscribe((phase) => void (seen.at(-1) === phase || seen.push(phase)));
  return seen;
}

describe.each(READERS)("over %s", (_name, makeReader) => {
  beforeEach(() => {
    reader = makeReader;
  });

  test("an answer whose connection breaks goes on where it was, with nothing lost and nothing twice", async () => {
    const here = clerk();
    const { conversation, lines } = here;
    const seen = phases(here);
    const sent = conversation.send("slow");
    await until(() => lines()[2]?.startsWith("answer: one"));
    const [, reasoning, answer] = conversation.entries.value;
    network.cut();
    await until(() => conversation.phase.value === "reconnecting");
    expect(lines()[2]).toMatch(/^answer: one/); // what was there stays
    network.mend();
    await sent;
    expect(lines()).toEqual(["user: slow", "reasoning: Let me count.", `answer: ${WORDS}`]);
    expect(conversation.entries.value.slice(1)).toEqual([reasoning, answer]); // the very objects
    expect(conversation.entries.value[2]).toBe(answer);
    expect(seen).toEqual(["idle", "waiting", "streaming", "reconnecting", "streaming", "idle"]);
    expect(conversation.problem.value).toBeUndefined();
  });

  test("an answer that was completed while there was no connection is there afterwards", async () => {
    const { conversation, lines } = clerk();
    const sent = conversation.send("slow");
    await until(() => lines()[2]?.startsWith("answer: one"));
    network.cut();
    const elsewhere = scene(gateway.url, "clerk"); // by another way
    opened.push(elsewhere);
    await elsewhere.conversation.open(conversation.threadId.value);
    expect(elsewhere.lines().at(-1)).toBe(`answer: ${WORDS}`);
    network.mend();
    await sent;
    expect(lines()).toEqual(["user: slow", "reasoning: Let me count.", `answer: ${WORDS}`]);
  });

  test("a message that is sent without a network goes when there is one, once", async () => {
    const { conversation, lines } = clerk();
    network.cut();
    const sent = conversation.send("hello");
    await until(() => conversation.phase.value === "reconnecting");
    expect(lines()).toEqual(["user: hello"]);
    const tries = network.connections.value;
    await until(() => network.connections.value > tries + 1, "two more tries");
    network.mend();
    await sent;
    expect(lines()).toEqual(["user: hello", "answer: hello"]);
    await conversation.send("again");
    expect(lines()).toEqual(["user: hello", "answer: hello", "user: again", "answer: again"]);
  });

  test("a message whose connection broke before the answer came is not said twice", async () => {
    const { conversation, lines } = clerk();
    network.deafen();
    const sent = conversation.send("hello");
    await until(() => network.unheard.value > 0); // so the gateway has the message, and the page does not know
    network.cut();
    network.mend();
    await sent;
    expect(lines()).toEqual(["user: hello", "answer: hello"]);
    const elsewhere = scene(gateway.url, "clerk");
    opened.push(elsewhere);
    await elsewhere.conversation.open(conversation.threadId.value);
    expect(elsewhere.lines()).toEqual(["user: hello", "answer: hello"]);
  });

  test("after a reload the thread is there, and its answer goes on", async () => {
    const memory = passingMemory();
    const before = clerk({ memory });
    void before.conversation.send("slow");
    await until(() => before.lines()[2]?.startsWith("answer: one"));
    before.conversation.close();

    const after = clerk({ memory });
    const seen = phases(after);
    const done = after.conversation.open(memory.get("thread") ?? before.conversation.threadId.value);
    await until(() => after.conversation.phase.value === "streaming");
    expect(after.lines()[2]).toMatch(/^answer: one.*…$/);
    await done;
    expect(after.lines()).toEqual(["user: slow", "reasoning: Let me count.", `answer: ${WORDS}`]);
    expect(seen).toEqual(["idle", "loading", "streaming", "idle"]);
  });

  test("a call that was left to the page is answered after a reload, by a tool that comes late", async () => {
    const memory = passingMemory();
    const before = clerk({ memory });
    before.conversation.setTools([tool("paint", () => new Promise(() => {}))]);
    void before.conversation.send("paint");
    await until(() => before.lines()[1]?.startsWith("answer: Pain"));
    before.conversation.close();

    const after = clerk({ memory });
    const done = after.conversation.open(before.conversation.threadId.value);
    await until(() => after.call("paint"));
    after.conversation.setTools([tool("paint", () => "painted")]);
    await done;
    expect(after.lines()).toEqual([
      "user: paint",
      "answer: Painting. ",
      'frontend paint({"color":"red"}) done: painted',
      "answer: It said: painted",
    ]);
  });

  test("a handler that was at work when the page was left is not run again", async () => {
    const memory = passingMemory();
    const before = clerk({ memory });
    const runs = signal(0);
    const leave = tool("paint", () => {
      runs.value++;
      return new Promise(() => {});
    });
    before.conversation.setTools([leave]);
    void before.conversation.send("paint");
    await until(() => runs.value === 1);
    before.conversation.close();

    const after = clerk({ memory });
    after.conversation.setTools([leave]);
    await after.conversation.open(before.conversation.threadId.value);
    expect(runs.value).toBe(1);
    expect(after.lines().at(-1)).toMatch(/^answer: It said: The page was left while this tool was at work/);
  });

  test("a call of another day is run only once somebody agrees", async () => {
    const before = clerk();
    before.conversation.setTools([tool("paint", () => new Promise(() => {}))]);
    void before.conversation.send("paint");
    await until(() => before.call("paint")?.status.value === "running");
    before.conversation.close();

    const after = clerk(); // its memory has never heard of the run
    after.conversation.setTools([tool("paint", () => "painted")]);
    const done = after.conversation.open(before.conversation.threadId.value);
    const question = await until(() => after.call("paint")?.question.value);
    expect(question.text).toBe("May “paint” be run?");
    question.accept();
    await done;
    expect(after.lines().at(-1)).toBe("answer: It said: painted");
  });

  test("an approval survives a reload", async () => {
    const before = clerk();
    await before.conversation.send("refund");
    before.conversation.close();
    const after = clerk();
    await after.conversation.open(before.conversation.threadId.value);
    const [approval] = after.conversation.approvals.value;
    expect(approval?.arguments).toEqual({ order: "7", amount: 20 });
    expect(after.call("refund")?.status.value).toBe("approval");
    after.conversation.choose(approval?.id ?? "", { approved: true });
    await until(() => after.lines().at(-1)?.includes("Refunded 20 for 7."));
  });

  test("a thread that nobody knows is empty", async () => {
    const { conversation } = clerk();
    await conversation.open("nobody-knows-this");
    expect(conversation.entries.value).toEqual([]);
    expect(conversation.phase.value).toBe("idle");
    expect(conversation.problem.value).toBeUndefined();
  });

  test("a gateway that is killed in the middle of an answer and comes back says so; the answer is tried again", async () => {
    const { conversation, lines } = clerk();
    const sent = conversation.send("slow");
    await until(() => lines()[2]?.startsWith("answer: one"));
    await gateway.kill();
    await until(() => conversation.phase.value === "reconnecting");
    await gateway.begin();
    await sent;
    expect(conversation.problem.value).toMatchObject({ code: "server_restarted", retryable: true });
    expect(lines()[2]).toMatch(/^answer: one/);
    await conversation.retry();
    expect(conversation.problem.value).toBeUndefined();
    expect(lines()).toEqual(["user: slow", "reasoning: Let me count.", `answer: ${WORDS}`]);
  });

  test("a device that goes offline says so at once; back online, it does not trust the connection that it had", async () => {
    const browser = new EventTarget();
    vi.stubGlobal("window", browser);
    vi.stubGlobal("document", Object.assign(new EventTarget(), { visibilityState: "visible" }));
    const here = clerk();
    const { conversation, lines } = here;
    const sent = conversation.send("slow");
    await until(() => lines()[2]?.startsWith("answer: one"));
    network.deafen(); // the socket does not notice
    browser.dispatchEvent(new Event("offline"));
    await until(() => conversation.phase.value === "offline");
    const seen = phases(here);
    network.mend();
    browser.dispatchEvent(new Event("online"));
    await sent;
    expect(seen).toEqual(["offline", "reconnecting", "streaming", "idle"]);
    expect(lines()).toEqual(["user: slow", "reasoning: Let me count.", `answer: ${WORDS}`]);
  });

  test("stopping works without a network too", async () => {
    const { conversation, lines } = clerk();
    const sent = conversation.send("slow");
    await until(() => lines()[2]?.startsWith("answer: one"));
    network.cut();
    await until(() => conversation.phase.value === "reconnecting");
    conversation.stop();
    await sent;
    expect(conversation.phase.value).toBe("idle");
    network.mend();
  });
});
