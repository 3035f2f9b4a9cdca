/** JSON, or any text, to read: laid out where it can be, and cut where it is long. */
import { useState } from "preact/hooks";
import type { JsonValue } from "../chat/contract";
import { isObject } from "../chat/json";
import { useTexts } from "./texts";

const SHOWN_CHARACTERS = 4_000;
const PREVIEW_CHARACTERS = 120;

export function JsonText({ text }: { text: string }) {
  const { say } = useTexts();
  const [whole, setWhole] = useState(false);
  const laidOut = pretty(text);
  const cut = laidOut.length > SHOWN_CHARACTERS;
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached without a mouse */}
      <pre class="agui-json" tabIndex={0} dir="auto">
        {cut && !whole ? `${laidOut.slice(0, SHOWN_CHARACTERS)}…` : laidOut}
      </pre>
      {cut && (
        <button type="button" class="agui-button agui-quiet" onClick={() => setWhole(!whole)}>
          {say(whole ? "showLess" : "showMore")}
        </button>
      )}
    </>
  );
}

/** JSON with indentation; any other text as it is. */
function pretty(text: string): string {
  const value = parsed(text);
  return value === undefined || typeof value === "string" ? text : JSON.stringify(value, null, 2);
}

/** One line about the arguments: the values in them. */
export function preview(text: string): string {
  const value = parsed(text);
  if (value === undefined) return "";
  const words = leaves(value).join(" · ").replace(/\s+/g, " ");
  return words.length > PREVIEW_CHARACTERS ? `${words.slice(0, PREVIEW_CHARACTERS)}…` : words;
}

/** The single values, in order; of a list only the first. */
function leaves(value: JsonValue): string[] {
  if (Array.isArray(value)) return value.slice(0, 1).flatMap(leaves);
  if (isObject(value)) return Object.values(value).flatMap((inner) => (inner === undefined ? [] : leaves(inner)));
  return value === null ? [] : [String(value)];
}

function parsed(text: string): JsonValue | undefined {
  if (!/^\s*[[{]/.test(text)) return undefined;
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    return undefined;
  }
}
