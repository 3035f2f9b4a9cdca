/** The code in the README works as it stands there, against a real gateway. */
import { readFile } from "node:fs/promises";
import { HttpAgent } from "@ag-ui/client";
import { effect } from "@preact/signals";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createConversation } from "../src/chat/conversation";
import { passingMemory } from "../src/chat/memory";
import { Connection } from "../src/wire/connection";
import { HttpAgentReader } from "../src/wire/http_agent_reader";
import { GatewayProcess } from "./gateway_process";
import { until } from "./until";

let gateway: GatewayProcess;
let blocks: string[];

beforeAll(async () => {
  const answers = { Hello: [[{ tool: "set_theme", arguments: { theme: "dark" } }], [{ text: "It is {{result}}." }]] };
  gateway = await GatewayProcess.start([{ id: "assistant", answers }]);
  const readme = await readFile(new URL("../README.md", import.meta.url), "utf8");
  blocks = [...readme.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code]) => String(code));
});

afterAll(() => gateway?.stop());

/** Runs a block of the README with these names in its scope; gives what `result` is afterwards. */
async function run(code: string, scope: Record<string, unknown>, result: string): Promise<unknown> {
  const body = code.replace(/^import .*$/gm, "").replaceAll("https://gateway.example", gateway.url);
  const AsyncFunction = Object.getPrototypeOf(async () => undefined).constructor;
  return new AsyncFunction(...Object.keys(scope), `${body}\nreturn ${result};`)(...Object.values(scope));
}

test("there is one block for HttpAgent, and one for a conversation", () => {
  expect(blocks.map((code) => code.includes("HttpAgent({"))).toEqual([true, false]);
});

test("HttpAgent says hello, and its messages are shown", async () => {
  const shown: unknown[][] = [];
  await run(String(blocks[0]), { HttpAgent, show: (messages: unknown[]) => shown.push(messages) }, "agent");
  expect(shown.length).toBeGreaterThan(0);
});

test("a conversation is opened, drawn, and runs the page's tool", async () => {
  const themes: string[] = [];
  const drawn: number[] = [];
  const memory = passingMemory();
  const scope = {
    Connection,
    HttpAgentReader,
    createConversation,
    effect,
    storageMemory: () => memory,
    key: "",
    setTheme: (theme: string) => {
      themes.push(theme);
      return theme;
    },
    draw: (entries: readonly unknown[]) => drawn.push(entries.length),
  };
  const conversation = (await run(String(blocks[1]), scope, "conversation")) as ReturnType<typeof createConversation>;
  await until(() => conversation.phase.value === "idle", "idle");
  expect(themes).toEqual(["dark"]);
  expect(drawn.at(-1)).toBe(conversation.entries.value.length);
  expect(memory.get("thread")).toBeTruthy();
  conversation.close();
});
