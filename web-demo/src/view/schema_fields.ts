/**
 * A tool's arguments as fields that a person can change, and back. Below: the contract, JSON. Above: arguments_form.
 *
 * Every argument has a field, whether the schema names it or not: nothing runs that the person did not see. What the
 * schema says beyond single values (nested objects, patterns) is the gateway's to check.
 */
import type { JsonObject, JsonValue } from "../chat/contract";
import { isNumber, isObject, laidOut, plain, same, valueIn } from "../chat/json";
import type { TextKey, TextValues } from "../chat/texts";

export type FieldKind = "text" | "number" | "integer" | "boolean" | "choice" | "json";

export interface Field {
  readonly name: string;
  readonly label: string;
  readonly hint: string;
  readonly kind: FieldKind;
  readonly required: boolean;
  /** What it may be, for a `choice`. */
  readonly choices: readonly JsonValue[];
  readonly schema: JsonObject;
  /** What the model gave; undefined where it gave nothing. */
  readonly given: JsonValue | undefined;
}

/** What stands in a field: a text, whether a box is ticked, or which of the choices ("" for none). */
export type Draft = string | boolean;

export type Reading =
  | { readonly value: JsonValue | undefined }
  | { readonly problem: TextKey; readonly values?: TextValues };

const MAX_REFERENCES = 4;

/** The fields in the schema's order, then those that only the arguments have. */
export function fieldsOf(given: JsonObject, schema: JsonObject | undefined): Field[] {
  const properties = isObject(schema?.properties) ? schema.properties : {};
  const required = Array.isArray(schema?.required) ? schema.required : [];
  const names = [...Object.keys(properties), ...Object.keys(given).filter((name) => !Object.hasOwn(properties, name))];
  return names.map((name) => {
    const own = Object.hasOwn(properties, name) ? resolved(properties[name], schema ?? {}) : {};
    const value = Object.hasOwn(given, name) ? given[name] : undefined;
    return {
      name,
      label: typeof own.title === "string" ? own.title : spelledOut(name),
      hint: typeof own.description === "string" ? own.description : "",
      kind: kindOf(own, value),
      required: required.includes(name),
      choices: Array.isArray(own.enum) ? own.enum : [],
      schema: own,
      given: value,
    };
  });
}

/** What stands in the field at first. */
export function draftOf(field: Field): Draft {
  const { given } = field;
  if (field.kind === "boolean") return given === true;
  if (field.kind === "choice") {
    const place = field.choices.findIndex((choice) => same(choice, given));
    return place < 0 ? "" : String(place);
  }
  if (given === undefined || (given === null && field.kind !== "json")) return "";
  return field.kind === "json" ? laidOut(given) : plain(given);
}

/** The value that the draft stands for; undefined for an argument that is left out. */
export function readDraft(field: Field, draft: Draft): Reading {
  if (draft === draftOf(field) && (field.given !== undefined || !field.required)) return { value: field.given };
  if (typeof draft === "boolean") return { value: draft };
  if (draft.trim() === "" && !(field.kind === "text" && field.required && field.given !== undefined)) {
    return field.required ? { problem: "fieldRequired" } : { value: undefined };
  }
  switch (field.kind) {
    case "choice":
      return { value: field.choices[Number(draft)] };
    case "json":
      return readJson(field, draft);
    case "text":
      return readText(field, draft);
    default:
      return readNumber(field, draft);
  }
}

function readText({ schema }: Field, draft: string): Reading {
  const length = [...draft].length;
  if (typeof schema.minLength === "number" && length < schema.minLength) {
    return { problem: "fieldTooShort", values: { limit: schema.minLength } };
  }
  if (typeof schema.maxLength === "number" && length > schema.maxLength) {
    return { problem: "fieldTooLong", values: { limit: schema.maxLength } };
  }
  return { value: draft };
}

function readNumber({ kind, schema }: Field, draft: string): Reading {
  const value = Number(draft);
  if (!Number.isFinite(value)) return { problem: "fieldNotNumber" };
  if (kind === "integer" && !Number.isInteger(value)) return { problem: "fieldNotInteger" };
  if (typeof schema.minimum === "number" && value < schema.minimum) {
    return { problem: "fieldTooSmall", values: { limit: schema.minimum } };
  }
  if (typeof schema.maximum === "number" && value > schema.maximum) {
    return { problem: "fieldTooLarge", values: { limit: schema.maximum } };
  }
  return { value: valueIn(draft) ?? value };
}

function readJson({ schema }: Field, draft: string): Reading {
  const value = valueIn(draft);
  if (value === undefined) return { problem: "fieldNotJson" };
  if (schema.type === "array" && !Array.isArray(value)) return { problem: "fieldNotList" };
  if (schema.type === "object" && !isObject(value)) return { problem: "fieldNotObject" };
  return { value };
}

function kindOf(schema: JsonObject, given: JsonValue | undefined): FieldKind {
  // A choice must hold what the model gave, else the form would show another value than the one that runs.
  if (Array.isArray(schema.enum) && (given === undefined || schema.enum.some((item) => same(item, given))))
    return "choice";
  const types = Array.isArray(schema.type) ? schema.type.filter((type) => type !== "null") : [schema.type];
  const type = types.length === 1 ? types[0] : undefined;
  const fits = given === undefined || given === null;
  const kind = isNumber(given) ? "number" : typeof given;
  if ((type === "number" || type === "integer") && (fits || kind === "number")) return type;
  if (type === "boolean" && (given === undefined || kind === "boolean")) return "boolean";
  if (type === "string" && (fits || kind === "string")) return "text";
  if (type !== undefined) return "json";
  if (kind === "string") return "text";
  return kind === "number" || kind === "boolean" ? kind : "json";
}

/** The schema behind references and behind "or null". */
function resolved(schema: JsonValue | undefined, root: JsonObject): JsonObject {
  let own = isObject(schema) ? schema : {};
  for (let step = 0; step < MAX_REFERENCES; step++) {
    const union = own.anyOf ?? own.oneOf;
    if (typeof own.$ref === "string" && own.$ref.startsWith("#/")) {
      const target = own.$ref.slice(2).split("/").reduce<JsonValue | undefined>(inside, root);
      const { $ref: _, ...said } = own;
      own = { ...(isObject(target) ? target : {}), ...said };
    } else if (Array.isArray(union)) {
      const kept = union.filter((item) => isObject(item) && item.type !== "null");
      const { anyOf: _, oneOf: __, ...said } = own;
      own = kept.length === 1 && isObject(kept[0]) ? { ...kept[0], ...said } : said;
    } else return own;
  }
  return own;
}

function inside(value: JsonValue | undefined, key: string): JsonValue | undefined {
  return isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined;
}

/** order_id -> Order id */
function spelledOut(name: string): string {
  const words = name
    .replace(/([a-z\d])([A-Z])/g, "$1 $2")
    .replace(/[_-]+/g, " ")
    .trim();
  return words === "" ? name : words.charAt(0).toUpperCase() + words.slice(1);
}
