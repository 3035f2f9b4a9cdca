/** What nobody would see in a value has a name, and nothing else has. */
import { describe, expect, test } from "vitest";
import { wordsIn } from "../src/chat/texts";
import { PROSE, parted, SENTENCE, spelledOut } from "../src/chat/unseen";

const named = (...codes: number[]) => codes.map((code) => [code.toString(16), String.fromCodePoint(code)] as const);

test.each(
  named(
    ...[0x061c, 0x200e, 0x200f, 0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x2066, 0x2067, 0x2068, 0x2069], // bidi controls
    ...[0x200b, 0x200c, 0x200d, 0x2060, 0xfeff], // without a width
    ...[0x00ad, 0x034f, 0x115f, 0x1160, 0x17b4, 0x180e, 0x3164, 0xffa0, 0x2800], // soft hyphen, joiners, fillers, blanks
    ...[0xfe00, 0xfe0f, 0xe0100, 0xe0001, 0xe0041, 0xe007f, 0xfff9, 0xfffb], // selectors, tags, annotations
    ...[0x00, 0x07, 0x08, 0x0b, 0x0d, 0x1b, 0x7f, 0x85, 0x9b, 0x2028, 0x2029], // controls, and lines that are none
    ...[0xd800, 0xdfff], // half a character
  ),
)("%s is named", (code, character) => {
  const name = `U+${code.toUpperCase().padStart(4, "0")}`;
  expect(parted(`a${character}b`)).toEqual(["a", name, "b"]);
  expect(spelledOut(character)).toBe(`[${name}]`);
});

test("what hides nothing stays: letters of all kinds, line ends, and what emoji are made of", () => {
  const texts = [
    "plain\ttext\r\nof two lines",
    "Größe, цена, 価格, السعر, מחיר, नमस्ते, e\u0301",
    "👩‍💻 👨‍👩‍👧‍👦 ❤️ 1️⃣ 👍🏽 🏴󠁧󠁢󠁥󠁮󠁧󠁿 🇩🇪",
    "“quoted” – 1 234 €",
  ];
  for (const text of texts) expect(parted(text)).toEqual([text]);
});

test("what emoji are made of is named where it stands alone", () => {
  expect(spelledOut("a\u200db \ufe0f 🏴\u{e0067}")).toBe("a[U+200D]b [U+FE0F] 🏴[U+E0067]");
});

test("one that stands there again and again is named once", () => {
  expect(spelledOut(`a${"\u200b".repeat(5_000)}b\u202e\u202d`)).toBe("a[U+200B × 5000]b[U+202E][U+202D]");
});

test("letters are joined and parted in prose, and values stand between isolates in our sentences", () => {
  expect(spelledOut("می\u200cخواهم \u202e", PROSE)).toBe("می\u200cخواهم [U+202E]");
  expect(spelledOut("\u2068x\u2069 \u2067", SENTENCE)).toBe("\u2068x\u2069 [U+2067]");
});

describe("a value in one of our sentences", () => {
  test("is named as it is, and turns nothing around", () => {
    const { say } = wordsIn("en");
    expect(say("approvalFor", { tool: "re\u202efund" })).toBe("“re[U+202E]fund” runs only if you agree.");
    expect(say("removeItem", { name: "חלב 2" })).toBe("Remove \u2068חלב 2\u2069");
    expect(say("removeItem", { name: "milk" })).toBe("Remove milk");
    expect(wordsIn("he").say("removeItem", { name: "milk" })).toBe("Remove \u2068milk\u2069");
  });

  test("cannot end what isolates it", () => {
    expect(wordsIn("en").say("removeItem", { name: "חלב\u2069" })).toBe("Remove \u2068חלב[U+2069]\u2069");
  });
});
