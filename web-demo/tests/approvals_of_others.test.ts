import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { Connection } from "../src/wire/connection";
import { HttpAgentReader } from "../src/wire/http_agent_reader";
import { type MakeReader, READERS, type Scene, scene } from "./conversation_scene";
import { GatewayProcess } from "./gateway_process";
import { until } from "./until";

const KEY = "staff-0123456789abcdef";
const HEADERS = { Authorization: `Bearer ${KEY}`, "Content-Type": "application/json" };
let gateway: GatewayProcess;
let opened: Scene | undefined;

beforeAll(async () => {
  const answers = {
    refund: [[{ tool: "refund", arguments: { order: "7", amount: 20 } }], [{ text: "It said: {{result}}" }]],
  };
  const refund = { type: "PythonTool", name: "refund", parameters: { function: "shop:refund" } };
  const tools = [{ ...refund, approval: "always", approvers: "keys" }];
  const keys = { api_keys: [{ name: "staff", key: KEY, approvals: true }] };
  gateway = await GatewayProcess.start([{ id: "clerk", answers, tools }], keys);
});

afterEach(() => {
  opened?.conversation.close();
  vi.useRealTimers();
});

afterAll(() => gateway?.stop());

/** A conversation that waits for somebody else's approval; and the minute passes faster. */
async function waiting(makeReader: MakeReader): Promise<Scene> {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  const connection = new Connection({ baseUrl: gateway.url, token: () => KEY });
  opened = scene(gateway.url, "clerk", { connection, makeReader });
  await opened.conversation.open();
  await opened.conversation.send("refund");
  return opened;
}

async function answer(body: object): Promise<void> {
  const listed = await fetch(`${gateway.url}/approvals`, { headers: HEADERS });
  const { approvals } = (await listed.json()) as { approvals: { id: string }[] };
  const url = `${gateway.url}/approvals/${approvals.at(-1)?.id}`;
  const response = await fetch(url, { method: "POST", headers: HEADERS, body: JSON.stringify(body) });
  expect(response.status).toBe(202);
}

test.each(READERS)("what somebody else approves is shown as soon as it has happened, over %s", async (_, reader) => {
  const { conversation, call, lines } = await waiting(reader);
  const [approval] = conversation.approvals.value;
  expect(approval).toMatchObject({ toolName: "refund", message: "", isForOthers: true });
  vi.advanceTimersByTime(3_000);
  await vi.waitFor(() => expect(conversation.approvals.value).toEqual([approval]), { timeout: 20_000 });

  await answer({ approved: true });
  vi.advanceTimersByTime(3_000);

  await until(() => lines().at(-1) === "answer: It said: Refunded 20 for 7.");
  expect(call("refund")?.status.value).toBe("done");
  expect(conversation.approvals.value).toEqual([]);
});

test("the person may give it up, and nothing runs", async () => {
  const { conversation, call, idle } = await waiting((connection) => new HttpAgentReader(connection, "clerk"));
  conversation.choose(conversation.approvals.value[0]?.id ?? "", { approved: false });
  await until(() => conversation.approvals.value.length === 0);
  await idle();
  expect(call("refund")?.status.value).toBe("declined");
  expect(conversation.problem.value).toBeUndefined();
});
