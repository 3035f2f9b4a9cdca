import { afterAll, beforeAll, expect, test } from "vitest";
import { createThreadList } from "../src/chat/threads";
import { Connection } from "../src/wire/connection";
import { scene } from "./conversation_scene";
import { freePort, GatewayProcess } from "./gateway_process";

let gateway: GatewayProcess;

beforeAll(async () => {
  gateway = await GatewayProcess.start([{ id: "clerk" }], { api_keys: [{ name: "a", key: "secret-key-of-a-1234" }] });
});
afterAll(() => gateway?.stop());

const connection = (key = "secret-key-of-a-1234") => new Connection({ baseUrl: `${gateway.url}/`, token: () => key });

async function say(text: string): Promise<string> {
  const { conversation } = scene(gateway.url, "clerk", { connection: connection() });
  await conversation.send(text);
  conversation.close();
  return conversation.threadId.value;
}

test("threads are listed by the pages, renamed and removed", async () => {
  const list = createThreadList(connection());
  expect(list.hasMore.value).toBeUndefined();
  const ids: string[] = [];
  for (let number = 0; number < 32; number++) ids.unshift(await say(`thread ${number}`));
  await list.refresh();
  expect(list.threads.value.map((thread) => thread.id)).toEqual(ids.slice(0, 30));
  expect(list.threads.value[0]).toMatchObject({ title: "thread 31", agentId: "clerk" });
  expect(list.hasMore.value).toBe(true);
  await list.more();
  expect(list.threads.value.map((thread) => thread.id)).toEqual(ids);
  expect(list.hasMore.value).toBe(false);

  await list.rename(ids[0] ?? "", "  A new name ");
  await list.remove(ids[1] ?? "");
  await list.remove(ids[1] ?? ""); // it is gone: that is what was wanted
  expect(list.refused.value).toBeUndefined();
  const anew = createThreadList(connection());
  await anew.refresh();
  expect(anew.threads.value.slice(0, 2).map((thread) => thread.title)).toEqual(["A new name", "thread 29"]);
});

test("a rename that is refused is taken back, and said why", async () => {
  const id = await say("hello");
  const list = createThreadList(connection());
  await list.refresh();
  await list.rename(id, "x".repeat(501));
  expect(list.threads.value.find((thread) => thread.id === id)?.title).toBe("hello");
  expect(list.refused.value?.code).toBe("invalid_request");
  await list.refresh();
  expect(list.refused.value).toBeUndefined();
});

test("what was refused while the list was looked at anew is still said, and a list that does not come is another thing", async () => {
  const id = await say("hello");
  const list = createThreadList(connection());
  await list.refresh();
  const renaming = list.rename(id, "x".repeat(501));
  const looking = list.refresh();
  await Promise.all([renaming, looking]);
  expect([list.refused.value?.code, list.problem.value]).toEqual(["invalid_request", undefined]);
  await list.rename(id, "short");
  expect([list.refused.value, list.threads.value.find((thread) => thread.id === id)?.title]).toEqual([
    undefined,
    "short",
  ]);
});

test("of two changes one is refused: the other one stays done", async () => {
  const [kept, gone] = [await say("kept"), await say("gone")];
  const list = createThreadList(connection());
  await list.refresh();
  const renaming = list.rename(kept, "x".repeat(501));
  expect(await list.remove(gone)).toBe(true);
  await renaming;
  const titles = list.threads.value.map((thread) => [thread.id, thread.title]);
  expect(titles).toContainEqual([kept, "kept"]);
  expect(titles.map(([id]) => id)).not.toContain(gone);
});

test("a list that does not know of a change yet does not take it back", async () => {
  const id = await say("hello");
  let send = (): void => undefined;
  const sending = new Promise<void>((resolve) => {
    send = resolve;
  });
  const fetchLater = async (url: string, init: RequestInit) => {
    if (init.method === "DELETE") await sending;
    return fetch(url, init);
  };
  const key = "secret-key-of-a-1234";
  const list = createThreadList(new Connection({ baseUrl: gateway.url, token: () => key, fetch: fetchLater }));
  const ids = () => list.threads.value.map((thread) => thread.id);
  await list.refresh();
  const removing = list.remove(id);
  await list.refresh(); // when a run ends meanwhile
  expect(ids()).not.toContain(id);
  send();
  await removing;
  expect(ids()).not.toContain(id);
  await list.refresh();
  expect(ids()).not.toContain(id);
  expect(list.threads.value.length).toBeGreaterThan(0);
});

test("who looks at older ones goes on looking at them when a run begins or ends", async () => {
  const list = createThreadList(connection());
  for (let number = 0; number < 32; number++) await say(`of many ${number}`);
  await list.refresh();
  await list.more();
  const before = list.threads.value.map((thread) => thread.id);
  expect(before.length).toBeGreaterThan(30);
  const id = await say("one more");
  await list.refresh();
  expect(list.threads.value.map((thread) => thread.id)).toEqual([id, ...before]);
});

test("a wrong key is a problem with words, for the list and for a conversation", async () => {
  const list = createThreadList(connection("wrong"));
  await list.refresh();
  expect(list.problem.value).toMatchObject({ code: "unauthenticated", retryable: true });

  const keys = ["wrong", "secret-key-of-a-1234"];
  const changing = new Connection({ baseUrl: gateway.url, token: () => keys[0] });
  const { conversation, lines } = scene(gateway.url, "clerk", { connection: changing });
  await conversation.send("hello");
  expect(conversation.problem.value?.code).toBe("unauthenticated");
  keys.shift();
  await conversation.retry();
  expect(lines()).toEqual(["user: hello", "answer: hello"]);
  conversation.close();
});

test("agents and their capabilities are told", async () => {
  expect(await connection().agents()).toEqual([{ id: "clerk", name: "clerk", description: "" }]);
  expect(await connection().capabilities("clerk")).toHaveProperty("multimodal.input.image", true);
});

test("without a gateway there is a problem too", async () => {
  const list = createThreadList(new Connection({ baseUrl: `http://127.0.0.1:${await freePort()}` }));
  await list.refresh();
  expect(list.problem.value?.code).toBe("network");
});
