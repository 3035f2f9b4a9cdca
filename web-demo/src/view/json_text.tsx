/** JSON, or any text, to read: laid out where it can be, and cut where it is long. */
import { useState } from "preact/hooks";
import type { JsonObject, JsonValue } from "../chat/contract";
import { isObject } from "./schema_fields";
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
export function pretty(text: string): string {
  const value = parsed(text);
  return value === undefined || typeof value === "string" ? text : JSON.stringify(value, null, 2);
}

/** One line about the arguments: their short values. */
export function preview(text: string): string {
  const value = parsed(text);
  if (!isObject(value)) return "";
  const words = (Object.values(value as JsonObject) as JsonValue[])
    .filter((inner) => typeof inner !== "object")
    .map((inner) => String(inner).replace(/\s+/g, " "))
    .join(" · ");
  return words.length > PREVIEW_CHARACTERS ? `${words.slice(0, PREVIEW_CHARACTERS)}…` : words;
}

function parsed(text: string): JsonValue | undefined {
  if (!/^\s*[[{]/.test(text)) return undefined;
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    return undefined;
  }
}
