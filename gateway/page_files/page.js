import { events } from "/page/stream.js";

const PROMPTS = [
  "What was the population of Seattle in 2023?",
  "Add 17 and 25",
  "Refund order 1234, 20 dollars",
  "Use the dark theme",
];
const TOOLS = [
  {
    name: "set_theme",
    description: "Change the theme of this page: its colours become light or dark.",
    parameters: {
      type: "object",
      properties: { theme: { type: "string", enum: ["light", "dark"] } },
      required: ["theme"],
    },
  },
];
const HANDLERS = {
  set_theme({ theme }) {
    document.documentElement.style.colorScheme = theme;
    return `The page is ${theme} now.`;
  },
};

const $ = (id) => document.getElementById(id);
let agents = [];
let threadId;
let messages; // the AG-UI history, as every client keeps it
let shown; // the elements of what is being streamed, by entity id
let stopping;

function startThread() {
  threadId = crypto.randomUUID();
  messages = [];
  shown = new Map();
  $("messages").replaceChildren();
  $("prompts").hidden = false;
}

function item(kind, text = "") {
  const element = document.createElement("li");
  element.className = kind;
  element.textContent = text;
  $("messages").append(element);
  element.scrollIntoView({ block: "end" });
  return element;
}

function folded(title) {
  const element = item("folded");
  const details = document.createElement("details");
  const summary = document.createElement("summary");
  const body = document.createElement("pre");
  summary.textContent = title;
  details.append(summary, body);
  element.append(details);
  return { summary, body };
}

function assistant(id) {
  let message = messages.find((each) => each.id === id);
  if (!message) messages.push((message = { id, role: "assistant", content: "" }));
  return message;
}

function calls() {
  return messages.flatMap((message) => message.toolCalls ?? []);
}

const ON = {
  TEXT_MESSAGE_START({ messageId }) {
    assistant(messageId);
    shown.set(messageId, item("assistant"));
  },
  TEXT_MESSAGE_CONTENT({ messageId, delta }) {
    assistant(messageId).content += delta;
    shown.get(messageId).append(delta);
  },
  REASONING_START({ messageId }) {
    shown.set(messageId, folded("Reasoning"));
  },
  REASONING_MESSAGE_CONTENT({ messageId, delta }) {
    shown.get(messageId).body.append(delta);
  },
  TOOL_CALL_START({ toolCallId, toolCallName, parentMessageId }) {
    const call = { id: toolCallId, type: "function", function: { name: toolCallName, arguments: "" } };
    (assistant(parentMessageId).toolCalls ??= []).push(call);
    const where = toolCallName in HANDLERS ? "in this page" : "in the gateway";
    shown.set(toolCallId, folded(`Tool ${toolCallName}, ${where}`));
  },
  TOOL_CALL_ARGS({ toolCallId, delta }) {
    calls().find((call) => call.id === toolCallId).function.arguments += delta;
    shown.get(toolCallId).body.append(delta);
  },
  TOOL_CALL_RESULT({ messageId, toolCallId, content }) {
    const text = typeof content === "string" ? content : JSON.stringify(content);
    messages.push({ id: messageId, role: "tool", toolCallId, content: text });
    shown.get(toolCallId)?.body.append(`\n\n${text}`);
  },
  RUN_ERROR({ message, code }) {
    item("error", `${message} (${code})`);
  },
};

async function run(resume) {
  const agent = agents[$("agents").selectedIndex];
  stopping = new AbortController();
  $("stop").hidden = false;
  $("status").textContent = "Working…";
  let finished;
  try {
    const input = { threadId, runId: crypto.randomUUID(), messages, tools: TOOLS, ...(resume && { resume }) };
    for await (const event of events(`/agents/${encodeURIComponent(agent.id)}/run`, input, stopping.signal)) {
      ON[event.type]?.(event);
      if (event.type === "RUN_FINISHED") finished = event;
    }
  } catch (error) {
    item("error", error.name === "AbortError" ? "Stopped." : error.message);
  }
  $("stop").hidden = true;
  $("status").textContent = "";
  if (finished) await goOn(finished.outcome ?? {});
}

async function goOn(outcome) {
  if (outcome.type === "interrupt") return ask(outcome.interrupts);
  const pending = outcome.pendingToolCallIds ?? [];
  for (const id of pending) {
    const call = calls().find((each) => each.id === id);
    const result = HANDLERS[call.function.name](JSON.parse(call.function.arguments || "{}"));
    messages.push({ id: crypto.randomUUID(), role: "tool", toolCallId: id, content: result });
    shown.get(id)?.body.append(`\n\n${result}`);
  }
  if (pending.length) await run();
}

async function ask(interrupts) {
  const resume = [];
  for (const interrupt of interrupts) {
    resume.push({ interruptId: interrupt.id, status: "resolved", payload: await decision(interrupt) });
  }
  await run(resume);
}

function decision(interrupt) {
  const call = calls().find((each) => each.id === interrupt.toolCallId);
  const card = item("card");
  const words = document.createElement("p");
  const edited = document.createElement("textarea");
  words.textContent = interrupt.message;
  edited.value = call?.function.arguments ?? "{}";
  edited.setAttribute("aria-label", "Arguments");
  card.append(words, edited);
  return new Promise((resolve) => {
    const choose = (label, payload) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = label;
      button.addEventListener("click", () => {
        try {
          resolve(payload());
        } catch {
          edited.setCustomValidity("This is no JSON.");
          edited.reportValidity();
          return;
        }
        card.textContent = `${interrupt.message} ${label}.`;
      });
      card.append(button, " ");
    };
    choose("Approve", () => ({ approved: true, editedArgs: JSON.parse(edited.value) }));
    choose("Deny", () => ({ approved: false }));
  });
}

function say(text) {
  $("prompts").hidden = true;
  messages.push({ id: crypto.randomUUID(), role: "user", content: text });
  item("user", text);
  run();
}

$("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = $("words").value.trim();
  if (!text || !$("stop").hidden) return;
  $("words").value = "";
  say(text);
});
$("words").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    $("composer").requestSubmit();
  }
});
$("stop").addEventListener("click", () => stopping.abort());
$("fresh").addEventListener("click", startThread);

for (const text of PROMPTS) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = text;
  button.addEventListener("click", () => say(text));
  $("prompts").append(button);
}
startThread();
const answer = await fetch("/agents");
if (answer.ok) {
  agents = (await answer.json()).agents;
  $("agents").replaceChildren(...agents.map((agent) => new Option(agent.name)));
  $("about").textContent = agents[0]?.description ?? "";
} else {
  $("about").textContent = "This gateway asks for a key; use it from your own front end or with curl.";
}
