// The streams beside this file, anew: node tests/recorded/record.mjs http://127.0.0.1:8000 (a gateway of `make run`)
import { writeFile } from "node:fs/promises";

const [, , gateway] = process.argv;
const thread = `recorded-${Date.now()}`;
const tools = [
  {
    name: "set_theme",
    description: "Change the theme of this page: its colours become light or dark.",
    parameters: { type: "object", properties: { theme: { enum: ["light", "dark"] } }, required: ["theme"] },
  },
];
let messages = [];
let runs = 0;

async function record(name, { say, add = [], resume, to = "run" }) {
  if (say) messages.push({ id: `user-${name}`, role: "user", content: say });
  messages.push(...add);
  const body = { threadId: thread, runId: `${thread}-${++runs}`, protocolVersion: "1.0", messages, tools, resume };
  const response = await fetch(`${gateway}/agents/assistant/${to}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`${name}: ${response.status} ${await response.text()}`);
  const text = await response.text();
  await writeFile(new URL(`${name}.txt`, import.meta.url), text);
  return text
    .split("\n")
    .filter((line) => line.startsWith("data: "))
    .map((line) => JSON.parse(line.slice(6)));
}

await record("search", { say: "What was the population of Seattle in 2023?" });
await record("state", { say: "Add milk to my list" });
const called = await record("frontend-tool", { say: "Use the dark theme" });
const call = called.find((event) => event.type === "TOOL_CALL_START");
const answer = { id: "answer", role: "tool", toolCallId: call.toolCallId, content: "The page is dark now." };
const asked = called.find((event) => event.type === "TOOL_CALL_START");
messages.push({
  id: asked.parentMessageId,
  role: "assistant",
  toolCalls: [
    { id: call.toolCallId, type: "function", function: { name: "set_theme", arguments: '{"theme":"dark"}' } },
  ],
});
await record("frontend-tool-answered", { add: [answer] });
messages = [];
const paused = await record("approval", { say: "Refund order 1234, 20 dollars" });
const { interrupts } = paused.at(-1).outcome;
const payload = { approved: true, editedArgs: { order_id: "1234", amount: 7 } };
messages = [];
await record("approved", { resume: [{ interruptId: interrupts[0].id, status: "resolved", payload }] });
await record("connect", { to: "connect" });
