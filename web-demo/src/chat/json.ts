/** What JSON values are, how they are read and written, and whether two are the same. Below: new ids. */
import { newId } from "../wire/new_id";
import type { JsonObject, JsonValue } from "./contract";

/**
 * What an exact number begins with: one that JavaScript would write differently (12345678901234567890, 1.0) is a text of
 * this mark and the number as it was written. The mark is this page's alone, so no text of anybody passes for a number.
 */
const MARK = newId();
const EXACT = new RegExp(`"${MARK}(.*?)"`, "g");
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*/g;

export function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A number, exact or of JavaScript's own. */
export function isNumber(value: JsonValue | undefined): boolean {
  return typeof value === "number" || isExact(value);
}

function isExact(value: JsonValue | undefined): boolean {
  return typeof value === "string" && value.startsWith(MARK);
}

/** The value that the text is, its numbers exact where they have to be; undefined where it is no JSON. */
export function valueIn(text: string): JsonValue | undefined {
  try {
    JSON.parse(text); // what is no JSON must not become it
    return JSON.parse(text.replace(TOKEN, exact)) as JsonValue;
  } catch {
    return undefined;
  }
}

function exact(token: string): string {
  return token[0] === '"' || String(Number(token)) === token ? token : `"${MARK}${token}"`;
}

/** JSON text in which exact numbers are numbers. */
export function withNumbers(text: string): string {
  return text.replace(EXACT, "$1");
}

/** The object that the text is, as a handler gets it; no text stands for an empty one. */
export function objectIn(text: string): JsonObject | undefined {
  try {
    const value = JSON.parse(text.trim() || "{}") as JsonValue;
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Whatever the order of their keys. */
export function same(one: JsonValue | undefined, other: JsonValue | undefined): boolean {
  if (one === other) return true;
  if (typeof one !== "object" || typeof other !== "object" || !one || !other) return false;
  const [mine, theirs] = [one, other] as JsonObject[];
  const keys = Object.keys(one);
  return (
    Array.isArray(one) === Array.isArray(other) &&
    keys.length === Object.keys(other).length &&
    keys.every((key) => Object.hasOwn(other, key) && same(mine?.[key], theirs?.[key]))
  );
}

/** Whether it is nested deeper than anybody reads. Laid out, each line would be indented by as much. */
export function isDeep(value: JsonValue, levels = 32): boolean {
  if (typeof value !== "object" || value === null) return false;
  return levels === 0 || Object.values(value).some((inner) => isDeep(inner, levels - 1));
}

/** As text to read. */
export function laidOut(value: JsonValue): string {
  return withNumbers(JSON.stringify(value, null, isDeep(value) ? 0 : 2));
}

/** As it stands where a single value is shown: a text without its quotation marks. */
export function plain(value: JsonValue): string {
  return typeof value === "string" && !isExact(value) ? value : laidOut(value);
}
