// @vitest-environment happy-dom
/** Values as they are shown: with marks for what nobody would see, and each in a direction of its own. */
import { type ComponentChild, render } from "preact";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { laidOut } from "../src/chat/json";
import { ArgumentsForm } from "../src/view/arguments_form";
import { JsonText, preview } from "../src/view/json_text";
import { draftOf, fieldsOf } from "../src/view/schema_fields";
import { Value } from "../src/view/value";

let root: HTMLElement;

beforeEach(() => {
  root = document.createElement("div");
  document.body.append(root);
});

afterEach(() => {
  render(null, root);
  root.remove();
});

function show(node: ComponentChild): HTMLElement {
  render(node, root);
  return root;
}

const marks = () => [...root.querySelectorAll(".agui-mark")].map((mark) => mark.textContent);

test("a mark says what it is, and to a screen reader that it is one", () => {
  show(<Value text={"\u202e4321"} />);
  expect(root.innerHTML).not.toContain("\u202e");
  expect(root.querySelector("bdi")?.textContent).toBe("U+202E4321");
  const mark = root.querySelector(".agui-mark");
  expect(mark?.getAttribute("role")).toBe("img");
  expect(mark?.getAttribute("aria-label")).toBe("Invisible character U+202E");
});

describe("JSON", () => {
  test("has a mark for what nobody would see, in names and in values", () => {
    show(<JsonText text={JSON.stringify({ "order\u200b_id": "\u202e4321", lone: "\ud800" })} />);
    expect(marks()).toEqual(["U+200B", "U+202E"]);
    expect(root.textContent).toContain("\\ud800"); // as JSON says it
  });

  test("isolates each text that may run the other way, and is itself written from left to right", () => {
    show(<JsonText text={JSON.stringify({ שם: "שלום 1", id: "1234", n: 5 })} />);
    expect([...root.querySelectorAll("bdi")].map((each) => each.textContent)).toEqual(['"שם"', '"שלום 1"']);
    expect(root.querySelector("pre")?.getAttribute("dir")).toBe("ltr");
    expect(root.textContent).toBe('{\n  "שם": "שלום 1",\n  "id": "1234",\n  "n": 5\n}');
  });

  test("that is no JSON has its marks too, and half an emoji at its cut is none", () => {
    show(<JsonText text={`not found: \u2066x${"😀".repeat(3_000)}`} />);
    expect(marks()).toEqual(["U+2066"]);
  });

  test("nested deeper than anybody reads is not laid out, and not longer for it", () => {
    const nested = (levels: number) => `${'{"a":['.repeat(levels)}1${"]}".repeat(levels)}`;
    expect(laidOut(JSON.parse(nested(10)))).toContain("\n    ");
    const deep = nested(1_000);
    expect(laidOut(JSON.parse(deep))).toBe(deep);
    show(<JsonText text={deep} />);
    expect(root.querySelector("pre")?.textContent).toBe(`${deep.slice(0, 4_000)}…`);
    expect(preview(deep)).toEqual([]);
  });

  test("has its numbers as they were written, and of a name that stands there twice the value that runs", () => {
    const text = '{"id": 1, "n": [9007199254740993, 1.0, 1e400], "id": 12345678901234567890}';
    show(<JsonText text={text} />);
    expect(root.textContent).toBe(
      '{\n  "id": 12345678901234567890,\n  "n": [\n    9007199254740993,\n    1.0,\n    1e400\n  ]\n}',
    );
    expect(preview(text)).toEqual(["12345678901234567890", "9007199254740993"]);
  });

  test("that no stack is deep enough for is shown as it came", () => {
    const deep = "[".repeat(100_000) + "]".repeat(100_000);
    show(<JsonText text={deep} />);
    expect(root.textContent).toContain("[[[[");
    expect(preview(deep)).toEqual([]);
  });
});

describe("arguments", () => {
  const given = { order_id: "\u202e4321", "amount\u200b": 5, note: "fine", color: "r\u200bed" };
  const schema = { type: "object", properties: { color: { enum: ["r\u200bed", "red"] } } };

  test("stand in inputs as they are, and beside these with their marks", () => {
    const fields = fieldsOf(given, schema);
    const drafts = Object.fromEntries(fields.map((field) => [field.name, draftOf(field)]));
    show(<ArgumentsForm fields={fields} drafts={drafts} checked={false} onDraft={() => {}} />);
    const input = root.querySelector<HTMLInputElement>("input[name=order_id]");
    expect(input?.value).toBe("\u202e4321");
    const [described = ""] = input?.getAttribute("aria-describedby")?.split(" ") ?? [];
    const beside = document.getElementById(described);
    expect(beside?.querySelector("p")?.textContent).toMatch(/cannot be seen/);
    expect(beside?.querySelector("pre")?.textContent).toBe("U+202E4321");
    expect(root.querySelectorAll(".agui-unseen")).toHaveLength(1);
    expect([...root.querySelectorAll("option")].map((each) => each.textContent)).toContain("r[U+200B]ed");
    expect([...root.querySelectorAll("label")].map((each) => each.textContent)).toContain("AmountU+200B");
    expect(root.querySelector("input[name=note]")?.hasAttribute("aria-describedby")).toBe(false);
  });
});
