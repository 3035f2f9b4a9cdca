import { describe, expect, test } from "vitest";
import { type CodeKind, colourCode } from "../src/view/code_colours";

/** The parts of one kind. */
function told(kind: CodeKind, code: string, language: string, open = ""): string[] {
  return colourCode(code, language, open)
    .parts.filter((part) => part.kind === kind)
    .map((part) => part.text);
}

describe("what stands out in a language", () => {
  test("Python", () => {
    const code = `async def f(x: int = 0x1f) -> str:  # don't\n    return f"it's {x}" if x else None\n`;
    expect(told("word", code, "python")).toEqual(["async", "def", "return", "if", "else", "None"]);
    expect(told("comment", code, "python")).toEqual(["# don't"]);
    expect(told("text", code, "py")).toEqual([`"it's {x}"`]);
    expect(told("number", code, "PY")).toEqual(["0x1f"]);
  });

  test("TypeScript", () => {
    const code = "const url = `http://host`; // a comment\n/* two\nlines */ let returned = 1.5e-3 + x2;";
    expect(told("word", code, "ts")).toEqual(["const", "let"]);
    expect(told("comment", code, "ts")).toEqual(["// a comment", "/* two\nlines */"]);
    expect(told("text", code, "ts")).toEqual(["`http://host`"]);
    expect(told("number", code, "ts")).toEqual(["1.5e-3"]);
  });

  test("a shell's lines, where # is not always a comment, nor ' a text", () => {
    const code = "echo \"$#\" a$#b it's # so\nfor f in *; do cat 'a b'; done";
    expect(told("comment", code, "sh")).toEqual(["# so"]);
    expect(told("text", code, "sh")).toEqual(['"$#"', "'a b'"]);
    expect(told("word", code, "sh")).toEqual(["for", "in", "do", "done"]);
  });

  test("Rust's lifetimes are no texts", () => {
    const code = "fn f<'a>(x: &'a str) -> char { 'x' }";
    expect(told("text", code, "rust")).toEqual(["'x'"]);
    expect(told("word", code, "rust")).toEqual(["fn"]);
  });

  test("keys and values of settings", () => {
    const code = 'server:\n  - host: 127.0.0.1 # here\n    is_open: true\n    url: "http://a:1"\n{a: for, b: 2}';
    expect(told("word", code, "yaml")).toEqual(["server", "host", "is_open", "true", "url", "a", "b"]);
    expect(told("comment", code, "yaml")).toEqual(["# here"]);
    expect(told("text", code, "yaml")).toEqual(['"http://a:1"']);
    expect(told("word", '{"a": "b: c", "d" : [1, null]}', "json")).toEqual(['"a"', '"d"', "null"]);
    expect(told("text", '{"a": "b: c", "d" : [1, null]}', "json")).toEqual(['"b: c"']);
  });

  test("SQL, HTML, CSS and changes", () => {
    expect(told("word", "SELECT a FROM b -- where\nwhere c = 'select'", "sql")).toEqual(["SELECT", "FROM", "where"]);
    expect(told("word", '<a href="x=1">in</a><br/>', "html")).toEqual(["<a", ">", "</a", ">", "<br", "/>"]);
    expect(told("text", '<a href="x=1">"in"</a>', "html")).toEqual(['"x=1"']);
    expect(told("word", "@media x { a-b: hover; }", "css")).toEqual(["@media", "a-b"]);
    expect(told("text", "--- a\n+++ b\n-one\n+two", "diff")).toEqual(["+two"]);
    expect(told("word", "--- a\n+++ b\n-one\n+two", "diff")).toEqual(["-one"]);
  });
});

test("what is in several pieces goes on where the piece before ended", () => {
  const texts: [string, string, string, string][] = [
    ["ts", "a /* one", "if */ if", "/*"],
    ["python", 'x = """one', 'if """ if', '"""'],
    ["html", "<p><!-- one", "<b> --><i", "<!--"],
    ["js", "`one", "if ` if", "`"],
  ];
  for (const [language, first, second, opener] of texts) {
    expect(colourCode(first, language).open).toBe(opener);
    expect(colourCode("between", language, opener)).toMatchObject({ open: opener });
    expect(colourCode(second, language, opener).open).toBe("");
    expect(told("word", second, language, opener)).toHaveLength(1);
  }
  expect(colourCode("a /* over */", "ts").open).toBe("");
  expect(colourCode('"one line', "ts").open).toBe("");
});

const LANGUAGES = "ts rust python sql yaml json css html diff unheard-of".split(" ");

test.each(LANGUAGES)("nothing is left out or put in: %s", (language) => {
  const signs = [
    '"',
    "'",
    "`",
    "/*",
    "*/",
    "<!--",
    "-->",
    '"""',
    "#",
    "//",
    "--",
    "\\",
    "\n",
    " ",
    "if",
    "é",
    "😀",
    "1e",
    "-",
    ":",
    "<",
    "=",
  ];
  let seed = 7;
  const next = () => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
    return seed;
  };
  for (let run = 0; run < 300; run++) {
    const code = Array.from({ length: 40 }, () => signs[(next() >> 8) % signs.length]).join("");
    const open = colourCode(code.slice(0, 60), language).open;
    expect(
      colourCode(code, language)
        .parts.map((part) => part.text)
        .join(""),
    ).toBe(code);
    expect(
      colourCode(code, language, open)
        .parts.map((part) => part.text)
        .join(""),
    ).toBe(code);
  }
});

test.each(LANGUAGES)("no code is too long to be read: %s", (language) => {
  for (const unit of ["a", "-", '"', "'", "\\", " ", "/*", "<", ".", "a:", "{", "1", "`"]) {
    const code = unit.repeat(30_000 / unit.length);
    const parts = colourCode(code, language).parts;
    expect(parts.map((part) => part.text).join("")).toBe(code);
  }
});
