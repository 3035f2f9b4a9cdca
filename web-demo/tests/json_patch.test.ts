/** Our JSON Patch beside fast-json-patch, which HttpAgent uses: the same documents, the same refusals. */
import fastJsonPatch, { type Operation as TheirOperation } from "fast-json-patch";
import { describe, expect, test } from "vitest";
import type { JsonObject, JsonValue } from "../src/chat/contract";
import { applyPatch, difference, type Operation, PatchError } from "../src/wire/json_patch";
import { randomNumbers } from "./legal_streams";

const KEYS = ["a", "b", "a/b", "m~n", "0", "1", "2", "-", "long list"];

class Documents {
  readonly #random: () => number;

  constructor(seed: number) {
    this.#random = randomNumbers(seed);
  }

  one<T>(things: readonly T[]): T {
    return things[Math.floor(this.#random() * things.length)] as T;
  }

  value(depth = 3): JsonValue {
    const kind = this.#random();
    if (depth === 0 || kind < 0.4) return this.one<JsonValue>([null, true, 0, 1.5, "", "text", "日本"]);
    const length = Math.floor(this.#random() * 4);
    if (kind < 0.7) return Array.from({ length }, () => this.value(depth - 1));
    return Object.fromEntries(Array.from({ length }, () => [this.one(KEYS.slice(0, 5)), this.value(depth - 1)]));
  }

  /** Most lead somewhere. */
  path(document: JsonValue): string {
    let path = "";
    let node: JsonValue | undefined = document;
    while (typeof node === "object" && node && this.#random() < 0.75) {
      const keys: string[] = Object.keys(node);
      const key: string = keys.length > 0 && this.#random() < 0.8 ? this.one(keys) : this.one(KEYS);
      path += `/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
      node = (node as JsonObject)[key];
    }
    return this.#random() < 0.03 ? this.one(["/__proto__/x", "/constructor/prototype/x", "no/slash"]) : path;
  }

  patch(document: JsonValue): Operation[] {
    const operations = Array.from({ length: 1 + Math.floor(this.#random() * 3) }, () => ({
      op: this.one(["add", "remove", "replace", "move", "copy", "test", "add", "wrong"]) as Operation["op"],
      path: this.path(document),
      ...(this.#random() < 0.95 && { from: this.path(document) }),
      ...(this.#random() < 0.95 && { value: this.value(1) }),
    }));
    // Left out, since theirs makes no JSON of it: a thing moved into itself (the RFC forbids it), what is put into a
    // document that the operation before made a mere value, and a source that is no pointer.
    return operations.filter(
      ({ op, path, from = "/" }) => path !== "" && from[0] === "/" && (op !== "move" || !path.startsWith(from)),
    );
  }
}

function outcome(work: () => JsonValue | undefined): { document?: JsonValue | undefined; refused?: boolean } {
  try {
    return { document: JSON.parse(JSON.stringify(work())) as JsonValue }; // theirs may hold itself, or nothing
  } catch {
    return { refused: true };
  }
}

describe("a patch", () => {
  test("does what fast-json-patch does, over 20,000 documents and patches made at random", () => {
    const documents = new Documents(7);
    let refusals = 0;
    for (let round = 0; round < 20_000; round++) {
      const document = { a: documents.value(), "long list": [1, 2, 3] };
      const before = structuredClone(document);
      const patch = documents.patch(document);
      const theirs = outcome(
        () =>
          fastJsonPatch.applyPatch(document, structuredClone(patch) as TheirOperation[], true, false)
            .newDocument as unknown as JsonValue,
      );
      const ours = outcome(() => applyPatch(document, patch));
      expect(ours, JSON.stringify({ document, patch })).toEqual(theirs);
      expect(document).toEqual(before);
      refusals += ours.refused ? 1 : 0;
    }
    expect(refusals).toBeGreaterThan(1_000);
    expect(refusals).toBeLessThan(19_000);
  });

  test.each<[Operation, JsonValue]>([
    [{ op: "add", path: "", value: [1] }, [1]],
    [{ op: "replace", path: "", value: { b: 1 } }, { b: 1 }],
    [{ op: "remove", path: "" }, null],
    [{ op: "move", path: "", from: "/a" }, { deep: [] }],
    [{ op: "copy", path: "", from: "/a/deep" }, []],
    [{ op: "test", path: "", value: { a: { deep: [] } } }, { a: { deep: [] } }],
  ])("of the whole document (%o) does too", (operation, after) => {
    const document = { a: { deep: [] } };
    const theirs = fastJsonPatch.applyPatch(structuredClone(document), [{ ...operation }] as TheirOperation[], true);
    expect(applyPatch(document, [operation])).toEqual(after);
    expect(theirs.newDocument).toEqual(after);
  });

  test("that is no list is refused", () => {
    expect(() => applyPatch({}, "no")).toThrow(PatchError);
    expect(() => applyPatch({}, [null])).toThrow(PatchError);
  });

  test("shares what it does not touch", () => {
    const document = { touched: [1], left: { deep: true } };
    expect((applyPatch(document, [{ op: "add", path: "/touched/-", value: 2 }]) as JsonObject).left).toBe(
      document.left,
    );
  });
});

test("the difference of two documents makes one of the other", () => {
  const documents = new Documents(11);
  for (let round = 0; round < 5_000; round++) {
    const [before, after] = [documents.value(), documents.value()];
    expect(applyPatch(before, difference(before, after)), JSON.stringify([before, after])).toEqual(after);
    expect(difference(before, structuredClone(before))).toEqual([]);
  }
});
