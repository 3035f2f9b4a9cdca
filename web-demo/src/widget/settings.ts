/** What an element was told by its attributes, understood. Below: the texts. */
import type { TextChanges } from "../chat/texts";

/** In the order of importance to a reader of HTML; each may also stand on the script tag, as `data-...`. */
export const ATTRIBUTES = [
  "agent",
  "key",
  "gateway",
  "theme",
  "lang",
  "dir",
  "open",
  "inline",
  "position",
  "heading",
  "greeting",
  "suggestions",
  "texts",
  "uploads",
] as const;

export interface Settings {
  readonly agent: string;
  /** A publishable key; undefined where the gateway asks for none. */
  readonly key: string | undefined;
  readonly gateway: string;
  readonly theme: "light" | "dark" | "auto";
  /** BCP 47: the element's own, else that of the page around it, else the browser's. */
  readonly language: string;
  readonly direction: "ltr" | "rtl" | undefined;
  /** Part of the page instead of a bubble over it. */
  readonly inline: boolean;
  /** The corner: at the end of a line of text (right, in English), or at its start. */
  readonly position: "start" | "end";
  readonly heading: string | undefined;
  readonly greeting: string | undefined;
  readonly suggestions: readonly string[];
  readonly texts: TextChanges;
  /** Whether files may be sent along. */
  readonly uploads: boolean;
}

export function readSettings(element: HTMLElement, gateway: string): Settings {
  const told = (name: (typeof ATTRIBUTES)[number]) => element.getAttribute(name)?.trim() || undefined;
  const theme = told("theme");
  const direction = told("dir");
  return {
    agent: told("agent") ?? "assistant",
    key: told("key"),
    gateway: new URL(told("gateway") ?? gateway, document.baseURI).href.replace(/\/+$/, ""),
    theme: theme === "light" || theme === "dark" ? theme : "auto",
    language: element.closest("[lang]")?.getAttribute("lang") || navigator.language,
    direction: direction === "ltr" || direction === "rtl" ? direction : undefined,
    inline: element.hasAttribute("inline"),
    position: told("position") === "start" ? "start" : "end",
    heading: told("heading"),
    greeting: told("greeting"),
    suggestions: readSuggestions(told("suggestions")),
    texts: readTexts(told("texts")),
    uploads: element.hasAttribute("uploads"),
  };
}

/** A JSON array, or lines, or questions with a `|` between them. */
function readSuggestions(text: string | undefined): readonly string[] {
  if (text === undefined) return [];
  const parsed = parse(text);
  const list = Array.isArray(parsed) ? parsed.map(String) : text.split(/[|\n]/);
  return list.map((each) => each.trim()).filter(Boolean);
}

function readTexts(text: string | undefined): TextChanges {
  if (text === undefined) return {};
  const parsed = parse(text);
  if (parsed && typeof parsed === "object" && !Array.isArray(parsed)) return parsed as TextChanges;
  console.error("agui-chat: `texts` is no JSON object, so it is left out");
  return {};
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
