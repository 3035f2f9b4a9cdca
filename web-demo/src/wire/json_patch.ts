/**
 * JSON Patch: documents changed by a list of operations, and the list that makes one document of another.
 * https://www.rfc-editor.org/rfc/rfc6902
 *
 * Below: JSON. Documents are never changed where they stand: what an operation does not touch is shared by the old and
 * the new one. What cannot be done is refused as fast-json-patch refuses it, to which `tests/json_patch.test.ts` holds it.
 */
import type { JsonObject, JsonValue } from "../chat/contract";
import { same } from "../chat/json";

export interface Operation {
  readonly op: "add" | "remove" | "replace" | "move" | "copy" | "test";
  /** JSON Pointer. */
  readonly path: string;
  readonly from?: string;
  readonly value?: JsonValue;
}

type Container = JsonValue[] | JsonObject;

/** The patch does not fit the document, or is none. */
export class PatchError extends Error {
  override readonly name = "PatchError";
}

/** The document after all operations; raises PatchError where one of them cannot be done. */
export function applyPatch(document: JsonValue, patch: unknown): JsonValue {
  if (!Array.isArray(patch)) throw new PatchError("a patch is a list");
  return (patch as Operation[]).reduce(apply, document);
}

function apply(document: JsonValue, operation: Operation): JsonValue {
  const { op, path, from, value } = operation ?? {};
  const keys = keysOf(path);
  switch (op) {
    case "add": {
      const parent = keys.length > 0 ? find(document, keys.slice(0, -1)) : undefined;
      const end = Array.isArray(parent) ? parent.length : Number.POSITIVE_INFINITY;
      if (Number(keys.at(-1)) > end) throw new PatchError(`${path} is behind the end`); // what is moved goes to the end
      return put(document, keys, given(value), true);
    }
    case "replace":
      find(document, keys);
      return put(document, keys, given(value), false);
    case "remove":
      return take(document, keys);
    case "copy":
      return put(document, keys, find(document, keysOf(from)), true);
    case "move": {
      const source = keysOf(from);
      const moved = find(document, source);
      return keys.length === 0 ? moved : put(take(document, source), keys, moved, true);
    }
    case "test":
      if (!same(find(document, keys), given(value))) throw new PatchError(`${path} is something else`);
      return document;
    default:
      throw new PatchError(`there is no operation ${JSON.stringify(op)}`);
  }
}

function keysOf(path: string | undefined): string[] {
  if (typeof path !== "string" || (path && path[0] !== "/")) throw new PatchError(`${JSON.stringify(path)} is no path`);
  const keys = path
    .split("/")
    .slice(1)
    .map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));
  const isForbidden = keys.some(
    (key, place) => key === "__proto__" || (key === "prototype" && keys[place - 1] === "constructor"),
  );
  if (isForbidden) throw new PatchError(`${path} leads out of the document`);
  return keys;
}

function given(value: JsonValue | undefined): JsonValue {
  if (value === undefined) throw new PatchError("the operation has no value");
  return value;
}

function find(document: JsonValue, keys: readonly string[]): JsonValue {
  let node: JsonValue | undefined = document;
  for (const key of keys) {
    const container: Container = asContainer(node);
    node = member(container, Array.isArray(container) ? String(indexIn(container, key)) : key);
    if (node === undefined) throw new PatchError(`there is no /${keys.join("/")}`);
  }
  return node;
}

/** With the value in that place; `insert`: before what is there, in an array. */
function put(node: JsonValue, [key, ...rest]: readonly string[], value: JsonValue, insert: boolean): JsonValue {
  if (key === undefined) return value;
  const container = asContainer(node);
  if (Array.isArray(container)) {
    const index = indexIn(container, key);
    const inner = rest.length > 0 ? put(find(container, [key]), rest, value, insert) : value;
    return container.toSpliced(index, rest.length === 0 && insert ? 0 : 1, inner);
  }
  return { ...container, [key]: rest.length > 0 ? put(find(container, [key]), rest, value, insert) : value };
}

function take(node: JsonValue, keys: readonly string[]): JsonValue {
  const [key, ...rest] = keys;
  if (key === undefined) return null;
  const inner = find(node, [key]);
  const container = asContainer(node);
  if (rest.length > 0) return put(container, [key], take(inner, rest), false);
  if (Array.isArray(container)) return container.toSpliced(indexIn(container, key), 1);
  const { [key]: _, ...others } = container;
  return others;
}

function asContainer(node: JsonValue | undefined): Container {
  if (typeof node !== "object" || node === null) throw new PatchError("there is nothing below a value");
  return node;
}

function member(container: Container, key: string): JsonValue | undefined {
  return Object.hasOwn(container, key) ? (container as JsonObject)[key] : undefined;
}

function indexIn(array: readonly JsonValue[], key: string): number {
  if (key === "-") return array.length;
  if (!/^\d+$/.test(key)) throw new PatchError(`${JSON.stringify(key)} is no place in a list`);
  return Number(key);
}

/** What makes `after` of `before`. */
export function difference(before: JsonValue, after: JsonValue, path = ""): Operation[] {
  if (same(before, after)) return [];
  const isDeep = typeof before === "object" && typeof after === "object" && before && after;
  if (!isDeep || Array.isArray(before) !== Array.isArray(after)) return [{ op: "replace", path, value: after }];
  const at = (key: string) => `${path}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
  const gone = Object.keys(before).filter((key) => !Object.hasOwn(after, key));
  const removed = gone.reverse().map((key): Operation => ({ op: "remove", path: at(key) }));
  const rest = Object.entries(after).flatMap(([key, value]): Operation[] => {
    const old = member(before, key);
    return old === undefined ? [{ op: "add", path: at(key), value }] : difference(old, value, at(key));
  });
  return [...removed, ...rest];
}
