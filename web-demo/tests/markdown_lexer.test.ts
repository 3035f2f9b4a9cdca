/** Our markdown beside marked's: the same answers look the same. */
import { Lexer, type Token, Tokenizer, type Tokens } from "marked";
import { describe, expect, test } from "vitest";
import { lexInline } from "../src/view/markdown_inline";
import { type Links, lexBlocks } from "../src/view/markdown_lexer";
import { randomNumbers } from "./legal_streams";

const LINKS: Links = {
  home: { href: "https://home.example/", title: "" },
  "two words": { href: "https://two.example/", title: "" },
};

/** Without what `markdown_blocks` does not let it read, and HTML has no say in where a paragraph ends. */
class WordsOnly extends Tokenizer {
  override html(): undefined {}
  override tag(): undefined {}
  override lheading(): undefined {}
  override def(): undefined {}
}

function theirs(text: string): Token[] {
  const lexer = new Lexer({ gfm: true, breaks: true, tokenizer: new WordsOnly() });
  for (const [name, link] of Object.entries(LINKS)) lexer.tokens.links[name] = { href: link.href, title: "" };
  return lexer.lex(text);
}

/** What there is to see of tokens, one line each. */
function shown(tokens: readonly Token[], indent = ""): string {
  const lines: string[] = [];
  let words = "";
  const flush = () => {
    const seen = lines.length > 0 ? words : words.trimStart();
    if (seen) lines.push(`${indent}${JSON.stringify(seen.replace(/[ \t]+/g, " "))}`);
    words = "";
  };
  const put = (line: string, within: readonly Token[] = []) => {
    flush();
    lines.push(indent + line);
    const inner = shown(within, `${indent}  `);
    if (inner) lines.push(inner);
  };
  for (const token of tokens) {
    const { tokens: within = [] } = token as Tokens.Generic;
    switch (token.type) {
      case "space":
      case "checkbox":
        break;
      case "text":
        if (within.length > 0) put("text", within);
        else words += (token as Tokens.Text).text;
        break;
      case "escape":
        words += (token as Tokens.Escape).text;
        break;
      case "codespan":
        put(`code ${JSON.stringify((token as Tokens.Codespan).text)}`);
        break;
      case "code":
        put(`block ${(token as Tokens.Code).lang ?? ""} ${JSON.stringify((token as Tokens.Code).text.trimEnd())}`);
        break;
      case "heading":
        put(`heading ${(token as Tokens.Heading).depth}`, within);
        break;
      case "link":
      case "image":
        put(`${token.type} ${(token as Tokens.Link).href}`, token.type === "link" ? within : []);
        break;
      case "list": {
        const list = token as Tokens.List;
        put(`list ${list.ordered} ${list.start}`);
        for (const item of list.items) {
          lines.push(`${indent} - ${item.task ? item.checked : ""}`);
          lines.push(shown(item.tokens, `${indent}   `));
        }
        break;
      }
      case "table": {
        const table = token as Tokens.Table;
        put(`table ${table.align.join(",")}`);
        for (const row of [table.header, ...table.rows]) {
          for (const cell of row) lines.push(`${indent} | ${shown(cell.tokens, `${indent}   `).trim()}`);
          lines.push(`${indent} .`);
        }
        break;
      }
      default:
        put(token.type, within);
    }
  }
  flush();
  return lines.join("\n");
}

function expectTheSame(text: string): void {
  const blocks = lexBlocks(text, LINKS);
  expect(blocks.map(({ raw }) => raw).join("")).toBe(text);
  expect(shown(blocks), JSON.stringify(text)).toBe(shown(theirs(text)));
}

const BLOCKS = [
  "# Heading",
  "## Two *stars* ##",
  "#no heading",
  "####### seven",
  "###",
  "---",
  "***",
  "_ _ _",
  "text\n---",
  "Some words.",
  "Two lines\nof words  \nand a third\\\nand a fourth",
  "  indented words\n    and more",
  "```js\nconst a = 1;\n\n  b();\n```",
  "~~~\ncode\n~~~",
  "```\nnever closed\n",
  "````md\n```\ninner\n```\n````",
  "   ```\n   x\n   ```",
  "    indented code\n\n    more",
  "\tby a tab",
  "> quoted\n> more",
  "> quoted\nlazily",
  "> # in a quote\n>\n> - list\n> - more",
  ">> twice\n> once",
  "> ```\n> code\n> ```",
  "- one\n- two\n- three",
  "* one\n* two",
  "+ one",
  "- one\n\n- two",
  "- one\n  going on\n- two\nlazily",
  "1. one\n2. two\n3. three",
  "7) seven\n8) eight",
  "1. one\n   - inner\n   - more\n2. two",
  "- one\n  - inner\n    - deeper\n- two",
  "- one\n\n  a paragraph\n\n- two",
  "- a\n\n\n- b\n- c",
  "1. one\n\n   ```js\n   code\n   ```\n2. two",
  "- [ ] to do\n- [x] done\n- [X] too",
  "- a\n1. b",
  "- > quoted in a list\n- # heading in a list",
  "-\n- empty before",
  "- \n  text",
  "10. ten\n    more of ten\n11. eleven",
  "- a\n + b\n",
  "-no list",
  "1.no list",
  "- one\n    indented by four",
  "| a | b |\n|---|--:|\n| 1 | 2 |\n| `x` | **y** |",
  "a | b\n:-: | :--\n1 | 2 | 3\n4",
  "| a |\n|---|\n| \\| |",
  "| a | b |\n| --- |\nno table",
  "words\n| a | b |\n|---|---|\n| 1 | 2 |\nafter",
  "[home]: https://elsewhere.example",
  "words\n# heading\nwords",
  "words\n> quote",
  "words\n- list",
  "words\n2. no list",
  "words\n```\ncode\n```",
];

const INLINES = [
  "*a*",
  "**a**",
  "***a***",
  "_a_",
  "__a__",
  "*a **b** c*",
  "**a *b* c**",
  "a*b*c",
  "a_b_c",
  "snake_case_name",
  "2 * 3 * 4",
  "* a *",
  "**not closed",
  "*a\nb*",
  "~~gone~~",
  "~gone~",
  "~~~no~~~",
  "a ~~b **c** d~~",
  "`code`",
  "`` a ` b ``",
  "` a `",
  "`not closed",
  "`a\nb`",
  "**`x`**",
  "*`*`*",
  "[a](https://a.example)",
  '[a](https://a.example "title")',
  "[a](<https://a.example/b c>)",
  "[*a* `b`](https://a.example/(x))",
  "![alt](https://a.example/i.png)",
  "[![alt](https://a.example/i.png)](https://a.example)",
  "[home]",
  "[words][home]",
  "[home][]",
  "[Two  Words]",
  "[nothing]",
  "[a](not closed",
  "[a] (b)",
  "[]()",
  "[a](  )",
  "\\[a](b)",
  "[a\\]b](https://a.example)",
  "<https://a.example/x>",
  "<me@a.example>",
  "<b>raw</b>",
  "a < b > c",
  "https://a.example/path?x=1&y=2.",
  "(see https://a.example/x(y))",
  "www.a.example, and more",
  "http://",
  "me@a.example",
  "**https://a.example**",
  "https://a.example/*star*",
  "\\*not\\*",
  "\\a",
  "a\\",
  "&amp; &lt;b&gt;",
  "end  \nnext",
  "end\\\nnext",
  "a\n\n b",
  "日本語**強調**です",
  "„**zitiert**“",
  "👍*ok*",
  "don't",
  "5 * 3 = 15 and 4 * 2",
  "**Note:** words",
  "**bold**text",
  "__init__",
  'a**"b"**c',
  "*a*b*c*",
  "**a**b**",
  "*_a_*",
  "***a** b*",
  "**a* b***",
  "foo*bar",
  "_(a)_.",
  "[a]: b",
];

describe("markdown as marked reads it", () => {
  test.each(BLOCKS)("block %j", (text) => expectTheSame(text));
  test.each(INLINES)("words %j", (text) => expectTheSame(text));

  test("put together at random", () => {
    const random = randomNumbers(5);
    // alone they are read the same; what stands before them changes what marked makes of them, and should not
    const odd = ["https://a.example/*star*", "-\n- empty before", "- \n  text", "[a](  )"];
    const [blocks, inlines] = [BLOCKS, INLINES].map((all) => all.filter((text) => !odd.includes(text))) as [
      string[],
      string[],
    ];
    const one = <T>(things: readonly T[]): T => things[Math.floor(random() * things.length)] as T;
    const different: string[] = [];
    for (let round = 0; round < 3_000; round++) {
      const parts = Array.from({ length: 2 + Math.floor(random() * 4) }, () =>
        random() < 0.5 ? one(blocks) : Array.from({ length: 3 }, () => one(inlines)).join(one([" ", ", ", "\n"])),
      );
      // a table right behind a list's item is marked's in the item, and GitHub's and ours is not
      const isTable = parts.some((part) => /^\|?[^\n]*\|[^\n]*\n[|: -]+$/m.test(part));
      const text = parts.join(one(isTable ? ["\n\n"] : ["\n\n", "\n\n", "\n"]));
      const ours = lexBlocks(text, LINKS);
      expect(ours.map(({ raw }) => raw).join("")).toBe(text);
      if (shown(ours) !== shown(theirs(text))) different.push(text);
    }
    different.sort((one, other) => one.length - other.length);
    // a few of a thousand, where many oddities meet and marked is not what CommonMark says
    expect(different.length, different.slice(0, 8).join("\n=====\n")).toBeLessThan(10);
  });
});

describe("lists and quotations in each other, 300 levels deep", () => {
  const levels = (line: (level: number) => string) => Array.from({ length: 300 }, (_, level) => line(level)).join("\n");
  const SHAPES = [
    ["lists", levels((level) => `${"  ".repeat(level)}- item ${level}`)],
    ["numbered lists", levels((level) => `${"   ".repeat(level)}1. item ${level}`)],
    ["quotations", levels((level) => `${"> ".repeat(level + 1)}item ${level}`)],
    ["both in turns", levels((level) => `${"> - ".repeat(level)}item ${level}`)],
    ["lists on one line", `${"- ".repeat(300)}item 299`],
    ["quotations on one line", `${"> ".repeat(300)}item 299`],
  ] as const;

  /** How deep they go, and how many characters all of them are made of: each level reads what is in it once. */
  const measured = (tokens: readonly Token[]): { depth: number; read: number } => {
    const all = tokens.map((token) => {
      const { tokens: inner = [], items = [] } = token as Tokens.Generic;
      const { depth, read } = inner.length + items.length > 0 ? measured([...inner, ...items]) : { depth: 0, read: 0 };
      return { depth: depth + 1, read: read + token.raw.length };
    });
    return { depth: Math.max(...all.map(({ depth }) => depth)), read: all.reduce((sum, { read }) => sum + read, 0) };
  };

  test.each(SHAPES)("%s: are read a bounded number of times, and no word is lost", (_name, text) => {
    const tokens = lexBlocks(text, {});
    const { depth, read } = measured(tokens);
    expect(depth).toBeLessThan(50); // two for each list: it and its item
    expect(read).toBeLessThan(50 * text.length);
    const words = shown(tokens);
    for (const item of text.match(/item \d+/g) ?? []) expect(words).toContain(item);
    expect(tokens.map(({ raw }) => raw).join("")).toBe(text);
  });

  test("what would stand deeper than twenty levels stands side by side there", () => {
    const [top] = lexBlocks(SHAPES[0][1], {});
    let list = top as Tokens.List;
    for (let level = 0; level < 20; level++) {
      expect(list.items).toHaveLength(1);
      list = list.items[0]?.tokens.find(({ type }) => type === "list") as Tokens.List;
    }
    expect(list.items.map((item) => item.text)).toEqual(Array.from({ length: 280 }, (_, each) => `item ${each + 20}`));
  });
});

test("white space without end in an item costs no square of it", () => {
  const text = `- a${" ".repeat(300_000)}b`;
  expect(lexBlocks(text, {})[0]?.raw).toBe(text);
});

describe("brackets without end", () => {
  test.each([
    ["before addresses", "[".repeat(2_000) + " https://a.example".repeat(100)],
    ["of pictures before addresses", "![".repeat(8_000) + " a@b.example".repeat(1_000)],
    ["that are closed", "[".repeat(2_000) + "]".repeat(2_000)],
    ["that close nothing", "*a ".repeat(2_000) + "]".repeat(2_000)],
  ])("%s are looked through a bounded number of times", (_name, text) => {
    expect(searched(() => lexInline(text, {}))).toBeLessThan(200 * text.length);
  });

  test("are no link by its name where they hold more than a name may have", () => {
    const types = (name: string) =>
      lexInline(`[${name}]`, { [name]: { href: "https://a.example", title: null } }).map(({ type }) => type);
    expect(types("a".repeat(999))).toEqual(["link"]);
    expect(types("a".repeat(1_000))).toEqual(["text"]);
  });
});

/** How many characters and members are looked through by what searches texts and lists. */
function searched(work: () => unknown): number {
  const { indexOf, trim } = String.prototype;
  const { some, findLastIndex } = Array.prototype;
  let sum = 0;
  String.prototype.indexOf = function (what, from = 0) {
    const at = indexOf.call(this, what, from);
    sum += (at < 0 ? this.length : at) - from;
    return at;
  };
  String.prototype.trim = function () {
    sum += this.length;
    return trim.call(this);
  };
  Array.prototype.some = function (...given: Parameters<typeof some>) {
    sum += this.length;
    return some.apply(this, given);
  };
  Array.prototype.findLastIndex = function (...given: Parameters<typeof findLastIndex>) {
    sum += this.length;
    return findLastIndex.apply(this, given);
  };
  try {
    work();
    return sum;
  } finally {
    Object.assign(String.prototype, { indexOf, trim });
    Object.assign(Array.prototype, { some, findLastIndex });
  }
}
