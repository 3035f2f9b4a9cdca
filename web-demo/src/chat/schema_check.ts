/**
 * Do arguments fit a tool's JSON Schema? The basics of it, for what a model gets wrong.
 *
 * What is not known here (references, combinations, formats) counts as fitting: the handler is this page's own and looks for
 * itself. It lies beside the widget and comes with the first call, so it imports nothing that the widget has.
 */
import type { JsonObject, JsonValue } from "./contract";

/** Whether two values are the same, as json.ts says. */
type Same = (one: JsonValue | undefined, other: JsonValue | undefined) => boolean;

/** What does not fit, each with a JSON pointer; empty: nothing. */
export function misfits(value: JsonValue, schema: JsonValue | undefined, same: Same, at = ""): string[] {
  if (!isObject(schema)) return schema === false ? [`${at || "/"} is not allowed`] : [];
  const wrong: string[] = [];
  const types = [schema.type ?? []].flat().map(String);
  if (types.length > 0 && !types.some((type) => isOfType(value, type))) {
    return [`${at || "the arguments"}: expected ${types.join(" or ")}, got ${typeOf(value)}`];
  }
  if (Array.isArray(schema.enum) && !schema.enum.some((choice) => same(choice, value))) {
    wrong.push(`${at || "/"}: expected one of ${JSON.stringify(schema.enum)}`);
  }
  if (schema.const !== undefined && !same(schema.const, value)) {
    wrong.push(`${at || "/"}: expected ${JSON.stringify(schema.const)}`);
  }
  if (typeof value === "number") wrong.push(...outside(value, schema, "minimum", "maximum", at, "number"));
  if (typeof value === "string") wrong.push(...outside(value.length, schema, "minLength", "maxLength", at, "length"));
  if (Array.isArray(value)) {
    wrong.push(...outside(value.length, schema, "minItems", "maxItems", at, "number of items"));
    for (const [place, item] of value.entries()) wrong.push(...misfits(item, schema.items, same, `${at}/${place}`));
  }
  if (isObject(value)) wrong.push(...membersThatMisfit(value, schema, same, at));
  return wrong;
}

function membersThatMisfit(value: JsonObject, schema: JsonObject, same: Same, at: string): string[] {
  const wrong: string[] = [];
  const properties = isObject(schema.properties) ? schema.properties : {};
  for (const name of Array.isArray(schema.required) ? schema.required.map(String) : []) {
    if (!Object.hasOwn(value, name)) wrong.push(`${at}/${name} is missing`);
  }
  for (const [name, member] of Object.entries(value)) {
    if (Object.hasOwn(properties, name)) wrong.push(...misfits(member, properties[name], same, `${at}/${name}`));
    else if (schema.additionalProperties === false) wrong.push(`${at}/${name} is not known`);
    else wrong.push(...misfits(member, schema.additionalProperties, same, `${at}/${name}`));
  }
  return wrong;
}

function outside(size: number, schema: JsonObject, least: string, most: string, at: string, what: string): string[] {
  const [low, high] = [schema[least], schema[most]];
  if (typeof low === "number" && size < low) return [`${at || "/"}: the ${what} has to be at least ${low}`];
  if (typeof high === "number" && size > high) return [`${at || "/"}: the ${what} has to be at most ${high}`];
  return [];
}

function isOfType(value: JsonValue, type: string): boolean {
  return type === "integer" ? Number.isInteger(value) : type === typeOf(value);
}

function isObject(value: JsonValue | undefined): value is JsonObject {
  return value !== undefined && typeOf(value) === "object";
}

function typeOf(value: JsonValue): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : typeof value;
}
