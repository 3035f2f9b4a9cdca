/** What JSON values are, and whether two are the same. Below: nothing. */
import type { JsonObject, JsonValue } from "./contract";

export function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The object that the text is; no text stands for an empty one. */
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
  return JSON.stringify(value, null, isDeep(value) ? 0 : 2);
}
