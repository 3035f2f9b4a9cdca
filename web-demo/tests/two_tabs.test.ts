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
  };
  gateway = await GatewayProcess.start([{ id: "clerk", answers }]);
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
