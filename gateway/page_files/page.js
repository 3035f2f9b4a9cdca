import { showMarkdown } from "/page/markdown.js";
import { events } from "/page/stream.js";

const PROMPTS = [
  "What was the population of Seattle in 2023?",
  "Add milk to my list",
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
const main = document.querySelector("main");
let agents = [];
let threadId;
let messages; // the AG-UI history, as every client keeps it
let state; // the thread's shared state; undefined until there is one
let shown; // the elements of what is being streamed, by entity id
let stopping; // what stops the run under way; undefined without one
let following = true; // whether the end of the conversation is kept in view

// --- what is on the page --------------------------------------------------------------------------------------------

function item(kind, text = "") {
  const element = document.createElement("li");
  element.className = kind;
  element.textContent = text;
  $("messages").append(element);
  return element;
}

/** A part that opens with a click; `first` and `second` are its two texts (the second may stay empty). */
function folded(title) {
  const details = document.createElement("details");
  const summary = document.createElement("summary");
  const [first, second] = [document.createElement("pre"), document.createElement("pre")];
  summary.textContent = title;
  details.append(summary, first, second);
  item("folded").append(details);
  return { summary, first, second };
}

function showText(message) {
  if (!shown.has(message.id)) shown.set(message.id, item("assistant"));
  const element = shown.get(message.id);
  if (element.waiting) return;
  element.waiting = true; // drawn once a frame, however many deltas come
  requestAnimationFrame(() => {
    element.waiting = false;
    showMarkdown(element, message.content);
  });
}

function showCall(call) {
  const where = call.function.name in HANDLERS ? "in this page" : "in the gateway";
  const part = folded(`Tool ${call.function.name}, ${where}`);
  part.first.textContent = call.function.arguments;
  shown.set(call.id, part);
}

function showResult(callId, text) {
  const part = shown.get(callId);
  if (!part) return;
  part.second.textContent = text;
  part.summary.textContent = part.summary.textContent.replace(/(: done)?$/, ": done");
}

function showState() {
  $("state").hidden = state === undefined || state === null || Object.keys(state).length === 0;
  $("state").querySelector("pre").textContent = JSON.stringify(state, null, 1);
}

/** A message of a snapshot. */
function showMessage(message) {
  const words = textOf(message.content);
  if (message.role === "user") item("user", words);
  if (message.role === "reasoning") folded("Reasoning").first.textContent = words;
  if (message.role === "assistant" && words) showText({ ...message, content: words });
  if (message.role === "tool") showResult(message.toolCallId, words);
  for (const call of message.toolCalls ?? []) showCall(call);
}

function textOf(content) {
  if (typeof content === "string") return content;
  return (content ?? []).map((part) => part.text ?? `[${part.type}]`).join("\n");
}

// --- what a run's events do to it -----------------------------------------------------------------------------------

function kept(id, role) {
  let message = messages.find((each) => each.id === id);
  if (!message) messages.push((message = { id, role, content: "" }));
  return message;
}

function callOf(id) {
  return messages.flatMap((message) => message.toolCalls ?? []).find((call) => call.id === id);
}

const ON = {
  TEXT_MESSAGE_START({ messageId }) {
    kept(messageId, "assistant");
  },
  TEXT_MESSAGE_CONTENT({ messageId, delta }) {
    const message = kept(messageId, "assistant");
    message.content += delta;
    showText(message);
  },
  REASONING_MESSAGE_START({ messageId }) {
    kept(messageId, "reasoning");
    shown.set(messageId, folded("Reasoning"));
  },
  REASONING_MESSAGE_CONTENT({ messageId, delta }) {
    kept(messageId, "reasoning").content += delta;
    shown.get(messageId).first.append(delta);
  },
  TOOL_CALL_START({ toolCallId, toolCallName, parentMessageId }) {
    const call = { id: toolCallId, type: "function", function: { name: toolCallName, arguments: "" } };
    (kept(parentMessageId, "assistant").toolCalls ??= []).push(call);
    showCall(call);
  },
  TOOL_CALL_ARGS({ toolCallId, delta }) {
    callOf(toolCallId).function.arguments += delta;
    shown.get(toolCallId).first.append(delta);
  },
  TOOL_CALL_RESULT({ messageId, toolCallId, content }) {
    messages.push({ id: messageId, role: "tool", toolCallId, content });
    showResult(toolCallId, textOf(content));
  },
  MESSAGES_SNAPSHOT(event) {
    messages = event.messages;
    $("messages").replaceChildren();
    $("prompts").hidden = messages.length > 0;
    messages.forEach(showMessage);
  },
  STATE_SNAPSHOT({ snapshot }) {
    state = snapshot;
    showState();
  },
  STATE_DELTA({ delta }) {
    state = delta.reduce(patched, structuredClone(state));
    showState();
  },
  RUN_ERROR({ message, code }) {
    item("error", `${message} (${code})`);
  },
};

/** `document` after one operation of RFC 6902. */
function patched(document, { op, path, value }) {
  const keys = path.split("/").slice(1).map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));
  const last = keys.pop();
  if (last === undefined) return value;
  const parent = keys.reduce((each, key) => each[key], document);
  if (!Array.isArray(parent)) {
    if (op === "remove") delete parent[last];
    else parent[last] = value;
  } else if (op === "add") {
    parent.splice(last === "-" ? parent.length : Number(last), 0, value);
  } else {
    parent.splice(Number(last), 1, ...(op === "remove" ? [] : [value]));
  }
  return document;
}

// --- runs -----------------------------------------------------------------------------------------------------------

/** Run (or, `to` "connect", look at what the thread has), and go on until it is the person's turn. */
async function run({ to = "run", resume } = {}) {
  const controller = (stopping = new AbortController());
  document.querySelectorAll(".card.open").forEach((card) => card.remove()); // the gateway asks again where it must
  busy(true);
  let finished;
  try {
    const input = { threadId, runId: crypto.randomUUID(), messages, tools: TOOLS, state, ...(resume && { resume }) };
    const url = `/agents/${encodeURIComponent(agents[$("agents").selectedIndex].id)}/${to}`;
    for await (const event of events(url, input, controller.signal)) {
      if (controller !== stopping) return; // another thread is shown by now
      ON[event.type]?.(event);
      if (event.type === "RUN_FINISHED") finished = event;
    }
  } catch (error) {
    if (controller !== stopping) return;
    item("error", error.name === "AbortError" ? "Stopped." : error.message);
  }
  stopping = undefined;
  busy(false);
  if (finished) await goOn(finished.outcome ?? {});
}

function busy(is) {
  $("stop").hidden = !is;
  $("send").hidden = is;
  $("messages").ariaBusy = is;
  $("status").textContent = is ? "Working…" : "";
}

async function goOn(outcome) {
  if (outcome.type === "interrupt") return ask(outcome.interrupts);
  const pending = outcome.pendingToolCallIds ?? [];
  for (const id of pending) {
    const content = useTool(callOf(id));
    messages.push({ id: crypto.randomUUID(), role: "tool", toolCallId: id, content });
    showResult(id, content);
  }
  if (pending.length) await run();
}

function useTool(call) {
  try {
    return HANDLERS[call.function.name](JSON.parse(call.function.arguments || "{}"));
  } catch (error) {
    return `The page could not do this: ${error.message}`;
  }
}

async function ask(interrupts) {
  const resume = await Promise.all(
    interrupts.map(async (interrupt) => ({
      interruptId: interrupt.id,
      status: "resolved",
      payload: await decision(interrupt),
    })),
  );
  await run({ resume });
}

function decision(interrupt) {
  const card = item("card open");
  const words = document.createElement("p");
  const edited = document.createElement("textarea");
  words.textContent = interrupt.message ?? "This needs your approval.";
  edited.value = callOf(interrupt.toolCallId)?.function.arguments ?? "{}";
  edited.setAttribute("aria-label", "Arguments, which you may change");
  edited.addEventListener("input", () => edited.setCustomValidity(""));
  card.append(words, edited);
  return new Promise((resolve) => {
    const choice = (label, outcome, payload) => {
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
        card.className = "card";
        card.textContent = `${words.textContent} ${outcome}.`;
      });
      card.append(button, " ");
    };
    choice("Approve", "Approved", () => ({ approved: true, editedArgs: JSON.parse(edited.value) }));
    choice("Deny", "Denied", () => ({ approved: false }));
  });
}

function say(text) {
  if (stopping || !agents.length) return;
  $("prompts").hidden = true;
  following = true;
  messages.push({ id: crypto.randomUUID(), role: "user", content: text });
  item("user", text);
  $("words").value = "";
  $("words").focus();
  run();
}

/** Show a thread: a new one, or, after a reload, the one that this tab had. */
function startThread(id) {
  stopping?.abort();
  stopping = undefined;
  threadId = id ?? crypto.randomUUID();
  sessionStorage.setItem("thread", threadId);
  messages = [];
  state = undefined;
  shown = new Map();
  $("messages").replaceChildren();
  $("prompts").hidden = false;
  busy(false);
  showState();
}

$("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = $("words").value.trim();
  if (text) say(text);
});
$("words").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    $("composer").requestSubmit();
  }
});
$("stop").addEventListener("click", () => stopping?.abort());
$("fresh").addEventListener("click", () => startThread());
$("agents").addEventListener("change", () => {
  $("about").textContent = agents[$("agents").selectedIndex].description;
  startThread();
});
main.addEventListener("scroll", () => {
  following = main.scrollHeight - main.scrollTop - main.clientHeight < 60;
});
new MutationObserver(() => {
  if (following) main.scrollTop = main.scrollHeight;
}).observe(main, { childList: true, subtree: true, characterData: true });

for (const text of PROMPTS) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = text;
  button.addEventListener("click", () => say(text));
  $("prompts").append(button);
}
const before = sessionStorage.getItem("thread");
startThread(before);
const answer = await fetch("/agents");
if (answer.ok) {
  agents = (await answer.json()).agents;
  $("agents").replaceChildren(...agents.map((agent) => new Option(agent.name)));
  $("about").textContent = agents[0].description;
  if (before) await run({ to: "connect" });
} else {
  $("about").textContent = "This gateway asks for a key; use it from your own front end or with curl.";
  $("prompts").hidden = $("send").disabled = true;
}
