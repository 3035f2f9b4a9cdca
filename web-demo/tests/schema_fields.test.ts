import { describe, expect, test } from "vitest";
import type { JsonObject } from "../src/chat/contract";
import { laidOut, objectIn, same, valueIn } from "../src/chat/json";
import { type Draft, draftOf, fieldsOf, readDraft } from "../src/view/schema_fields";

const SCHEMA: JsonObject = {
  type: "object",
  properties: {
    order_id: { type: "string", minLength: 2, maxLength: 8 },
    amount: { type: "number", minimum: 1, maximum: 1000, description: "In dollars." },
    count: { type: "integer" },
    urgent: { type: "boolean" },
    speed: { enum: ["slow", "fast", 3] },
    tags: { type: "array", items: { type: "string" } },
    address: { $ref: "#/$defs/Address" },
    note: { anyOf: [{ type: "string" }, { type: "null" }], title: "A note" },
    either: { anyOf: [{ type: "string" }, { type: "number" }] },
  },
  required: ["order_id", "amount"],
  $defs: { Address: { type: "object", properties: { city: { type: "string" } } } },
};

function field(name: string, given: JsonObject = {}, schema: JsonObject | undefined = SCHEMA) {
  const found = fieldsOf(given, schema).find((each) => each.name === name);
  if (found === undefined) throw new Error(`no field ${name}`);
  return found;
}

function read(name: string, draft: Draft, given: JsonObject = {}) {
  return readDraft(field(name, given), draft);
}

describe("which fields there are", () => {
  test("those of the schema in its order, then what only the arguments have", () => {
    const names = fieldsOf({ hidden: 1, amount: 2 }, SCHEMA).map((each) => each.name);
    expect(names).toEqual([...Object.keys(SCHEMA.properties as JsonObject), "hidden"]);
  });

  test("without a schema each argument has the kind of its value", () => {
    const given = { a: "x", b: 1.5, c: true, d: [1], e: { f: 1 }, g: null };
    const kinds = fieldsOf(given, undefined).map((each) => each.kind);
    expect(kinds).toEqual(["text", "number", "boolean", "json", "json", "json"]);
  });

  test("each kind is told from the schema, through references and unions with null", () => {
    const kinds = Object.fromEntries(fieldsOf({}, SCHEMA).map((each) => [each.name, each.kind]));
    expect(kinds).toEqual({
      order_id: "text",
      amount: "number",
      count: "integer",
      urgent: "boolean",
      speed: "choice",
      tags: "json",
      address: "json",
      note: "text",
      either: "json",
    });
  });

  test("labels are titles or names spelled out, hints are descriptions", () => {
    expect([field("order_id").label, field("note").label, field("amount").hint]).toEqual([
      "Order id",
      "A note",
      "In dollars.",
    ]);
  });

  test("a value that is not what the schema says is shown as it is", () => {
    expect(field("amount", { amount: "twenty" }).kind).toBe("json");
    expect(field("urgent", { urgent: "yes" }).kind).toBe("json");
    expect(field("speed", { speed: "warp" }).kind).not.toBe("choice");
    expect(draftOf(field("amount", { amount: "twenty" }))).toBe('"twenty"');
  });

  test("a schema that refers to itself, or to the prototype of objects, ends", () => {
    const schema: JsonObject = {
      properties: {
        a: { $ref: "#/properties/a" },
        b: { $ref: "#/__proto__/toString" },
        constructor: { type: "string" },
      },
    };
    expect(fieldsOf({}, schema).map((each) => each.name)).toEqual(["a", "b", "constructor"]);
  });
});

describe("what comes back", () => {
  test("an untouched form gives the very arguments it was given", () => {
    const given: JsonObject = {
      order_id: "x",
      amount: 5000,
      urgent: false,
      speed: "fast",
      tags: ["a"],
      address: { city: "Rome" },
      note: null,
      extra: [null],
    };
    const back: JsonObject = {};
    for (const each of fieldsOf(given, SCHEMA)) {
      const reading = readDraft(each, draftOf(each));
      if ("value" in reading && reading.value !== undefined) back[each.name] = reading.value;
    }
    expect(same(back, given)).toBe(true);
  });

  test.each([
    ["order_id", "A-17", "A-17"],
    ["amount", "12.5", 12.5],
    ["amount", " 7 ", 7],
    ["count", "3", 3],
    ["urgent", true, true],
    ["speed", "1", "fast"],
    ["speed", "2", 3],
    ["tags", '["a", "b"]', ["a", "b"]],
    ["address", '{"city": "Rome"}', { city: "Rome" }],
    ["note", "hello", "hello"],
  ])("%s: %j is %j", (name, draft, value) => {
    expect(read(name, draft)).toEqual({ value });
  });

  test.each([
    ["order_id", "", "fieldRequired"],
    ["order_id", "a", "fieldTooShort"],
    ["order_id", "123456789", "fieldTooLong"],
    ["amount", "ten", "fieldNotNumber"],
    ["amount", "Infinity", "fieldNotNumber"],
    ["amount", "0.5", "fieldTooSmall"],
    ["amount", "1001", "fieldTooLarge"],
    ["count", "1.5", "fieldNotInteger"],
    ["tags", "[1,", "fieldNotJson"],
    ["tags", "{}", "fieldNotList"],
    ["address", "[]", "fieldNotObject"],
  ])("%s: %j is refused: %s", (name, draft, problem) => {
    expect(read(name, draft)).toMatchObject({ problem });
  });

  test("an optional argument that is emptied is left out", () => {
    expect(read("note", "", { note: "x" })).toEqual({ value: undefined });
    expect(read("count", "", { count: 1 })).toEqual({ value: undefined });
  });

  test("an optional tick that nobody touched stays left out", () => {
    expect(read("urgent", false)).toEqual({ value: undefined });
  });
});

describe("a number that JavaScript would write differently", () => {
  const NUMBERS = ["12345678901234567890", "9007199254740993", "0.12345678901234567890", "1e400", "-0", "1.0", "1E5"];

  /** As it goes to the gateway: the given arguments, with some of them said differently. */
  const sent = (given: string, drafts: Record<string, Draft> = {}) => {
    const fields = fieldsOf(valueIn(given) as JsonObject, SCHEMA);
    const members = fields.map((each): [string, unknown] => {
      const reading = readDraft(each, drafts[each.name] ?? draftOf(each));
      return [each.name, "value" in reading ? reading.value : reading.problem];
    });
    return laidOut(Object.fromEntries(members.filter(([, value]) => value !== undefined)) as JsonObject);
  };

  test.each(NUMBERS)("%s stands in its field as it was written, and is sent so", (number) => {
    const given = `{"order_id":"A-17","amount":${number},"tags":[{"deep":${number}}],"extra":${number},"text":"${number}"}`;
    const fields = Object.fromEntries(fieldsOf(valueIn(given) as JsonObject, SCHEMA).map((each) => [each.name, each]));
    for (const [name, kind] of [
      ["amount", "number"],
      ["extra", "number"],
      ["text", "text"],
    ] as const) {
      expect(fields[name]?.kind).toBe(kind);
      expect(fields[name] && draftOf(fields[name])).toBe(number);
    }
    expect(fields.tags && draftOf(fields.tags)).toContain(`"deep": ${number}\n`);
    expect(sent(given, { urgent: true }).replace(/\s/g, "")).toBe(given.replace(',"tags', ',"urgent":true,"tags'));
  });

  test("is sent as the person wrote it", () => {
    expect(
      sent("{}", { order_id: "A-17", count: " 12345678901234567890 ", tags: "[1.0]" }).replace(/\s/g, ""),
    ).toContain('"count":12345678901234567890,"tags":[1.0]');
    expect(read("count", "1e400")).toEqual({ problem: "fieldNotNumber" });
  });

  test("in what is no JSON makes none of it, and in texts and names it is none", () => {
    for (const text of ["[01]", "[1.]", "[+1.0]", "[-]", "{1.0: 1}", "1.0 2.0", '"1.0', ""]) {
      expect(valueIn(text)).toBeUndefined();
    }
    const text = '{"1.0":"\\"1.0","a\\\\":"1e400"}';
    expect(JSON.stringify(valueIn(text))).toBe(text);
  });

  test("is JavaScript's for a handler of the page", () => {
    expect(objectIn('{"a": 1.0, "b": 12345678901234567890}')).toEqual({ a: 1, b: 12345678901234567000 });
  });
});

test("sameness does not depend on the order of keys", () => {
  expect(same({ a: 1, b: [{ c: null }] }, { b: [{ c: null }], a: 1 })).toBe(true);
  expect(same({ a: 1 }, { a: 1, b: 2 })).toBe(false);
  expect(same([1, 2], [2, 1])).toBe(false);
  expect(same({ toString: 1 }, {})).toBe(false);
});
