import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { type Scene, scene, tool } from "./conversation_scene";
import { GatewayProcess } from "./gateway_process";
import { until } from "./until";

const WORDS = "one two three four five six";
let gateway: GatewayProcess;
let tabs: Scene[] = [];

beforeAll(async () => {
  const answers = {
    slow: [[{ text: WORDS, chunk_characters: 1, delta_seconds: 0.1 }]],
    paint: [[{ tool: "paint", arguments: {} }], [{ text: "It said: {{result}}" }]],
    refund: [[{ tool: "refund", arguments: { order: "7", amount: 20 } }], [{ text: "It said: {{result}}" }]],
  };
  const tools = [{ type: "PythonTool", name: "refund", parameters: { function: "shop:refund" }, approval: "always" }];
  gateway = await GatewayProcess.start([{ id: "clerk", answers, tools }]);
});

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date"] });
  vi.stubGlobal("window", new EventTarget());
  vi.stubGlobal("document", Object.assign(new EventTarget(), { visibilityState: "visible" }));
});

afterEach(() => {
  for (const { conversation } of tabs) conversation.close();
  tabs = [];
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

afterAll(() => gateway?.stop());

async function tab(threadId?: string): Promise<Scene> {
  const made = scene(gateway.url, "clerk");
  tabs.push(made);
  await made.conversation.open(threadId);
  return made;
}

/** The person comes back to the tab after a while. */
function comeBack(): void {
  vi.setSystemTime(Date.now() + 5_000);
  document.dispatchEvent(new Event("visibilitychange"));
}

test("a tab that is looked at again shows what another one added, without a word of loading", async () => {
  const one = await tab();
  await one.conversation.send("hello");
  const other = await tab(one.conversation.threadId.value);
  await one.conversation.send("again");
  const phases: string[] = [];
  other.conversation.phase.subscribe((phase) => void phases.push(phase));
  comeBack();
  await until(() => other.lines().length === 4);
  expect(other.lines()).toEqual(["user: hello", "answer: hello", "user: again", "answer: again"]);
  expect(phases).toEqual(["idle"]);
});

test("a thread that was deleted elsewhere is said to be gone, and what was said stays to be read", async () => {
  const one = await tab();
  await one.conversation.send("hello");
  await fetch(`${gateway.url}/threads/${one.conversation.threadId.value}`, { method: "DELETE" });
  expect(one.conversation.problem.value).toBeUndefined();
  comeBack();
  await until(() => one.conversation.problem.value !== undefined);
  expect(one.conversation.problem.value).toMatchObject({ code: "thread_not_found", retryable: false });
  expect(one.lines()).toEqual(["user: hello", "answer: hello"]);
});

test("an answer that another tab asked for is followed", async () => {
  const one = await tab();
  await one.conversation.send("hello");
  const other = await tab(one.conversation.threadId.value);
  void one.conversation.send("slow");
  await until(() => one.lines()[3]?.startsWith("answer: one"));
  comeBack();
  await until(() => other.conversation.phase.value === "streaming");
  await other.idle();
  expect(other.lines()[3]).toBe(`answer: ${WORDS}`);
});

test("a call that another tab's run left to its page is that tab's", async () => {
  const one = await tab();
  await one.conversation.send("hello");
  const other = await tab(one.conversation.threadId.value);
  other.conversation.setTools([tool("paint", () => "by the wrong tab")]);
  one.conversation.setTools([tool("paint", () => "by the right tab", { confirm: true })]);
  const sent = one.conversation.send("paint");
  const question = await until(() => one.call("paint")?.question.value);
  vi.setSystemTime(Date.now() + 5_000);
  document.dispatchEvent(new Event("visibilitychange")); // both hear it; the one that is asking keeps its question
  await until(() => other.call("paint"));
  await other.idle();
  expect(other.call("paint")?.question.value).toBeUndefined();
  expect(other.call("paint")?.status.value).toBe("waiting");
  question.accept();
  await sent;
  expect(one.lines().at(-1)).toBe("answer: It said: by the right tab");
});

/** What a conversation does where the browser has no channel between tabs, or the other tab is another browser. */
function withoutChannel(): void {
  vi.stubGlobal("BroadcastChannel", undefined);
}

async function said(threadId: string): Promise<string[]> {
  const page = (await (await fetch(`${gateway.url}/threads/${threadId}/messages`)).json()) as {
    messages: { role: string; content: string }[];
  };
  return page.messages.map(({ role, content }) => `${role}: ${content}`);
}

test("what a stale tab says goes behind what it had not seen, and deletes nothing", async () => {
  withoutChannel();
  const one = await tab();
  await one.conversation.send("hello");
  const other = await tab(one.conversation.threadId.value);
  await one.conversation.send("again");
  await other.conversation.send("from the stale one");
  const all = ["hello", "hello", "again", "again", "from the stale one", "from the stale one"];
  const lines = all.map((words, place) => `${place % 2 ? "answer" : "user"}: ${words}`);
  expect(other.lines()).toEqual(lines);
  expect(other.conversation.problem.value).toBeUndefined();
  expect(await said(one.conversation.threadId.value)).toEqual(lines.map((each) => each.replace("answer", "assistant")));
});

test("an edit in a stale tab shows what came, and is made only if the person wants it again", async () => {
  withoutChannel();
  const one = await tab();
  await one.conversation.send("hello");
  const other = await tab(one.conversation.threadId.value);
  await one.conversation.send("again");
  const first = other.conversation.entries.value[0]?.id ?? "";

  await other.conversation.edit(first, "hello there");

  expect(other.conversation.problem.value).toMatchObject({ code: "stale_history", retryable: true });
  expect(other.lines()).toEqual(["user: hello", "answer: hello", "user: again", "answer: again"]);
  await other.conversation.retry();
  expect(other.conversation.problem.value).toBeUndefined();
  expect(other.lines()).toEqual(["user: hello there", "answer: hello there"]);
  expect(await said(one.conversation.threadId.value)).toEqual(["user: hello there", "assistant: hello there"]);
});

test("an approval that another tab has given is not given again by a stale one", async () => {
  withoutChannel();
  const one = await tab();
  await one.conversation.send("refund");
  const other = await tab(one.conversation.threadId.value);
  const approve = ({ conversation }: Scene) =>
    conversation.choose(conversation.approvals.value[0]?.id ?? "", { approved: true });
  approve(one);
  await one.idle();
  const answered = await said(one.conversation.threadId.value);
  approve(other);
  await until(() => other.lines().length === one.lines().length);
  await other.idle();
  expect(other.lines()).toEqual(one.lines());
  expect(await said(one.conversation.threadId.value)).toEqual(answered);
});

test("tabs that are looked at follow each other live", async () => {
  const one = await tab();
  await one.conversation.send("hello");
  const other = await tab(one.conversation.threadId.value);
  const sent = one.conversation.send("slow");
  await until(() => other.conversation.phase.value === "streaming");
  expect(one.conversation.phase.value).not.toBe("idle");
  await sent;
  await other.idle();
  expect(other.lines()).toEqual(one.lines());
  await other.conversation.send("and back");
  await until(() => one.lines().length === 6 && one.conversation.phase.value === "idle");
  expect(one.lines()).toEqual(other.lines());
});

test("a call of a run that is followed live is its own tab's to answer", async () => {
  const one = await tab();
  await one.conversation.send("hello");
  const other = await tab(one.conversation.threadId.value);
  const painted: string[] = [];
  other.conversation.setTools([tool("paint", () => void painted.push("wrong"))]);
  one.conversation.setTools([tool("paint", () => void painted.push("right"))]);
  await one.conversation.send("paint");
  await until(() => other.lines().length === one.lines().length);
  await other.idle();
  expect(painted).toEqual(["right"]);
});

test("a tab in the background looks when the person comes back to it", async () => {
  const one = await tab();
  await one.conversation.send("hello");
  const other = await tab(one.conversation.threadId.value);
  Object.assign(document, { visibilityState: "hidden" });
  await one.conversation.send("again");
  expect(other.lines()).toHaveLength(2);
  Object.assign(document, { visibilityState: "visible" });
  document.dispatchEvent(new Event("visibilitychange"));
  await until(() => other.lines().length === 4);
});
