/** JSON, or any text, to read: laid out where it can be, and cut where it is long. */
import { useState } from "preact/hooks";
import type { JsonValue } from "../chat/contract";
import { isDeep, isObject, laidOut, plain, valueIn } from "../chat/json";
import { useTexts } from "./texts";
import { marked, Value } from "./value";

const SHOWN_CHARACTERS = 4_000;
/** Of one value, and values, in a line about arguments: more does not fit into it. */
const PREVIEW_CHARACTERS = 120;
const PREVIEW_VALUES = 20;

const JSON_BEGINS = /^\s*[[{]/;
const STRING = /("(?:\\.|[^"\\])*"?)/;

export function JsonText({ text }: { text: string }) {
  const { say } = useTexts();
  const [whole, setWhole] = useState(false);
  const value = parsed(text);
  const all = value === undefined ? text : laidOut(value);
  const cut = all.length > SHOWN_CHARACTERS;
  const shown = cut && !whole ? `${beginning(all, SHOWN_CHARACTERS)}…` : all;
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached without a mouse */}
      <pre class="agui-json" tabIndex={0} dir={JSON_BEGINS.test(text) ? "ltr" : "auto"}>
        {JSON_BEGINS.test(text) ? <Isolated json={shown} /> : marked(shown)}
      </pre>
      {cut && (
        <button type="button" class="agui-button agui-quiet" onClick={() => setWhole(!whole)}>
          {say(whole ? "showLess" : "showMore")}
        </button>
      )}
    </>
  );
}

/** JSON in which no text turns those beside it around. */
function Isolated({ json }: { json: string }) {
  const parts = [""];
  for (const [place, part] of json.split(STRING).entries()) {
    if (place % 2 && /[^\0-\x7f]/.test(part)) parts.push(part, "");
    else parts[parts.length - 1] += part;
  }
  return <>{parts.map((part, place) => (place % 2 ? <Value key={place} text={part} /> : marked(part)))}</>;
}

/** The values in the arguments, for one line about them. */
export function preview(text: string): string[] {
  const value = parsed(text);
  return (value === undefined ? [] : leaves(value)).slice(0, PREVIEW_VALUES).map((each) => {
    const words = each.replace(/[ \n\t]+/g, " ");
    return words.length > PREVIEW_CHARACTERS ? `${beginning(words, PREVIEW_CHARACTERS)}…` : words;
  });
}

/** Not between the two halves of a character. */
function beginning(text: string, length: number): string {
  return text.slice(0, length).replace(/[\ud800-\udbff]$/, "");
}

/** The single values, in order; of a list only the first. */
function leaves(value: JsonValue): string[] {
  if (Array.isArray(value)) return value.slice(0, 1).flatMap(leaves);
  if (isObject(value)) return Object.values(value).flatMap((inner) => (inner === undefined ? [] : leaves(inner)));
  return value === null ? [] : [plain(value)];
}

/** Undefined for what is no JSON, and for what is shown as it came. */
function parsed(text: string): JsonValue | undefined {
  const value = JSON_BEGINS.test(text) ? valueIn(text) : undefined;
  return value === undefined || isDeep(value) ? undefined : value;
}
