import { HttpAgent } from "@ag-ui/client";

const agent = new HttpAgent({ url: "http://127.0.0.1:8000/agents/assistant/run" });
const log = document.querySelector("pre");
const show = (text) => log.append(text);

const setColor = {
  name: "set_color",
  description: "Set the background color of the page",
  parameters: { type: "object", properties: { color: { type: "string" } }, required: ["color"] },
};

async function run(parameters = {}) {
  let outcome;
  const { newMessages } = await agent.runAgent(
    { tools: [setColor], ...parameters },
    {
      onTextMessageContentEvent: ({ event }) => show(event.delta),
      onRunFinishedEvent: ({ event }) => {
        outcome = event.outcome;
      },
    },
  );
  show("\n");
  await answerCalls(newMessages);
  if (outcome?.type === "interrupt") await ask(outcome.interrupts);
}

// a frontend tool: the run has ended with its call; do it, and send the result with the next run
async function answerCalls(messages) {
  const answered = new Set(messages.map(({ toolCallId }) => toolCallId));
  const calls = messages.flatMap(({ toolCalls = [] }) => toolCalls).filter(({ id }) => !answered.has(id));
  const own = calls.filter((call) => call.function.name === setColor.name);
  for (const call of own) {
    document.body.style.background = JSON.parse(call.function.arguments).color;
    agent.addMessage({ id: crypto.randomUUID(), role: "tool", toolCallId: call.id, content: "done" });
  }
  if (own.length > 0) await run();
}

// an approval: the run has ended with a question; ask the person, and send the decision with the next run
async function ask(interrupts) {
  const resume = interrupts.map(({ id, message }) => ({
    interruptId: id,
    status: "resolved",
    payload: { approved: confirm(message ?? "May the tool run?") },
  }));
  await run({ resume });
}

document.querySelector("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const { words, send } = event.target.elements;
  agent.addMessage({ id: crypto.randomUUID(), role: "user", content: words.value });
  show(`> ${words.value}\n`);
  words.value = "";
  send.disabled = true; // one run at a time works on a thread
  await run().finally(() => {
    send.disabled = false;
  });
});
