/** What an agent can do with this page. What it is told is English, whatever the page speaks with the person. */
import { effect } from "@preact/signals";
import type { CallEntry, FrontendTool } from "../chat/contract";
import { booking, fillBooking } from "./booking";
import { ask } from "./dialogs";
import { words } from "./language";
import { narrow, showPanel, sidebar } from "./layout";
import { theme } from "./theme";

const PARTS = ["booking form", "shared list", "conversations", "theme switch", "message field"] as const;
const HIGHLIGHT_MS = 2_600;

const setTheme: FrontendTool = {
  name: "set_theme",
  description: "Change the theme of this page: its colours become light or dark.",
  parameters: {
    type: "object",
    properties: { theme: { type: "string", enum: ["light", "dark"] } },
    required: ["theme"],
  },
  handler(args) {
    theme.value = args.theme === "dark" ? "dark" : "light";
    return `The page is ${theme.value} now.`;
  },
};

const fillForm: FrontendTool = {
  name: "fill_form",
  description: "Fill in the booking form of this page.",
  parameters: {
    type: "object",
    properties: {
      name: { type: "string" },
      email: { type: "string", format: "email" },
      date: { type: "string", format: "date" },
      guests: { type: "integer", minimum: 1, maximum: 20 },
      note: { type: "string" },
    },
  },
  confirm: (args) => {
    const lost = Object.entries(booking.peek()).some(
      ([name, value]) => value !== "" && args[name] !== undefined && String(args[name]) !== value,
    );
    return lost ? words.peek().say("bookReplace") : undefined;
  },
  handler(args) {
    const names = fillBooking(args);
    if (names.length === 0) throw new Error("nothing to fill in: give name, email, date, guests or note");
    if (!narrow.peek()) showPanel();
    return `Filled in: ${names.join(", ")}. Nothing is booked yet: the person has to press Book.`;
  },
  render: (call) => (narrow.peek() ? shortcut(call) : undefined),
};

const confirm: FrontendTool = {
  name: "confirm",
  description: "Ask the person to confirm something, in a dialog with yes and no.",
  parameters: { type: "object", properties: { question: { type: "string" } }, required: ["question"] },
  async handler(args, { signal }) {
    const agreed = await ask(String(args.question), {}, signal);
    return { confirmed: agreed };
  },
};

const highlight: FrontendTool = {
  name: "highlight",
  description: "Highlight a part of this page so that the person finds it.",
  parameters: { type: "object", properties: { part: { type: "string", enum: [...PARTS] } }, required: ["part"] },
  async handler(args) {
    const part = String(args.part);
    if (part === "booking form") showPanel();
    if (part === "conversations" || part === "theme switch") sidebar.value = true;
    await new Promise((resolve) => setTimeout(resolve)); // what was opened is on the page then, painted or not
    const element = partOf(part);
    if (element === null) throw new Error(`there is no ${part} on the page at the moment`);
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    element.scrollIntoView({ block: "nearest", behavior: calm ? "instant" : "smooth" });
    element.classList.add("page-highlighted");
    setTimeout(() => element.classList.remove("page-highlighted"), HIGHLIGHT_MS);
    return `The ${part} is highlighted for a moment.`;
  },
};

export const pageTools: readonly FrontendTool[] = [setTheme, fillForm, confirm, highlight];

function partOf(part: string): Element | null {
  if (part === "message field") return document.querySelector(".agui-composer");
  if (part === "shared list") return document.querySelector(".agui-list");
  return document.querySelector(`[data-part="${CSS.escape(part)}"]`);
}

/** On a narrow page the form lies elsewhere: the call's card leads there. */
function shortcut(call: CallEntry): Node {
  const place = document.createElement("div");
  effect(() => {
    if (call.status.value !== "done" || place.firstChild !== null) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "agui-button";
    button.textContent = words.peek().say("showForm");
    button.addEventListener("click", showPanel);
    place.append(button);
  });
  return place;
}
