import { expect, test } from "vitest";
import type { JsonObject, JsonValue } from "../src/chat/contract";
import { same } from "../src/chat/json";
import { misfits } from "../src/chat/schema_check";

const schema: JsonObject = {
  type: "object",
  properties: {
    color: { type: "string", enum: ["red", "blue"] },
    count: { type: "integer", minimum: 1, maximum: 9 },
    names: { type: "array", items: { type: "string", minLength: 2 }, maxItems: 2 },
    size: { type: ["number", "null"] },
    kind: { const: "paint" },
  },
  required: ["color"],
  additionalProperties: false,
};

test.each<[JsonValue, string[]]>([
  [{ color: "red" }, []],
  [{ color: "red", count: 3, names: ["ab"], size: null, kind: "paint" }, []],
  [{}, ["/color is missing"]],
  [[], ["the arguments: expected object, got array"]],
  [{ color: "green" }, ['/color: expected one of ["red","blue"]']],
  [{ color: "red", count: 1.5 }, ["/count: expected integer, got number"]],
  [{ color: "red", count: 0 }, ["/count: the number has to be at least 1"]],
  [{ color: "red", count: 10 }, ["/count: the number has to be at most 9"]],
  [{ color: "red", names: ["ab", "c"] }, ["/names/1: the length has to be at least 2"]],
  [{ color: "red", names: ["ab", "cd", "ef"] }, ["/names: the number of items has to be at most 2"]],
  [{ color: "red", kind: "hang" }, ['/kind: expected "paint"']],
  [{ color: "red", more: 1 }, ["/more is not known"]],
])("%j misfits by %j", (value, wrong) => {
  expect(misfits(value, schema, same)).toEqual(wrong);
});

test("what is not known of JSON Schema counts as fitting", () => {
  expect(misfits({ a: 1 }, { $ref: "#/$defs/a", allOf: [false] }, same)).toEqual([]);
  expect(misfits({ constructor: 1 }, { type: "object", properties: {} }, same)).toEqual([]);
});
