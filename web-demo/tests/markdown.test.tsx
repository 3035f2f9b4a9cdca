// @vitest-environment happy-dom
import type { Tokens } from "marked";
import { render } from "preact";
import { afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { Markdown } from "../src/view/markdown";
import { MarkdownReader } from "../src/view/markdown_blocks";

const shown: HTMLElement[] = [];

function show(text: string, open = false): HTMLElement {
  const element = document.createElement("div");
  document.body.append(element);
  shown.push(element);
  render(<Markdown text={text} open={open} />, element);
  return element;
}

/** A long text comes piece by piece. */
async function whole(element: HTMLElement): Promise<HTMLElement> {
  await vi.waitFor(() => expect(element.querySelector("[aria-busy]")).toBeNull(), { timeout: 20_000, interval: 5 });
  return element;
}

afterEach(() => {
  for (const element of shown.splice(0)) {
    render(null, element);
    element.remove();
  }
});

describe("what is written from right to left", () => {
  const direction = (text: string, kind: string) => show(text).querySelector(kind)?.getAttribute("dir");

  test("lists, quotations and tables stand on the side of their first letter, whatever the page's language", () => {
    expect(direction("1. أولًا ثبّت `agui-gateway`\n2. Use it.", "ol")).toBe("rtl");
    expect(direction("- 12: שלום", "ul")).toBe("rtl");
    expect(direction("- One: שלום", "ul")).toBe("ltr");
    expect(direction("- [x] שלום", "ul")).toBe("rtl");
    expect(direction("> هذا", "blockquote")).toBe("rtl");
    expect(direction("| السنة | n |\n|---|---:|\n| 2023 | 5 |", ".agui-table")).toBe("rtl");
    expect(direction("| Year | n |\n|---|---:|\n| 2023 | 5 |", ".agui-table")).toBe("ltr");
  });

  test("where there is no letter, they stand as everything does", () => {
    expect(direction("- 12\n- 13", "ul")).toBeNull();
  });

  test("the word for a picture is not the paragraph's first", () => {
    expect(direction("![a cat](https://example.org/cat.png) is shown", "a")).toBe("auto");
    expect(direction("[a link](https://example.org) is shown", "a")).toBeNull();
  });
});

describe("where a link leads", () => {
  const words = (text: string) => show(text).querySelector("a")?.textContent;

  test("stands beside words that name another place", () => {
    expect(words("[bank.example](https://evil.example/x)")).toBe("bank.example (evil.example)");
    expect(words("[https://www.bank.example/login](https://evil.example/x)")).toContain("(evil.example)");
    expect(words("[bank.example, not evil.example](https://evil.example/)")).toContain("(evil.example)");
    expect(words("<https://bank.example@evil.example/>")).toContain("(evil.example)");
    expect(words("[help@bank.example](mailto:help@evil.example)")).toContain("(help@evil.example)");
    expect(words("[bücher.example](https://bücher.example/)")).toContain("(xn--bcher-kva.example)");
  });

  test("does not where they name the same, or none", () => {
    expect(words("[the docs](https://docs.example/)")).toBe("the docs");
    expect(words("[docs.example](https://www.docs.example:8443/)")).toBe("docs.example");
    expect(words("<https://docs.example/a.html>")).toBe("https://docs.example/a.html");
    expect(words("www.docs.example")).toBe("www.docs.example");
    expect(words("me@docs.example")).toBe("me@docs.example");
  });

  test("stands beside words that nobody could read as they are", () => {
    expect(words("[\u202egro.elpmaxe//:sptth](https://evil.example/)")).toBe(
      "U+202Egro.elpmaxe//:sptth (evil.example)",
    );
    expect(words("<https://evil.example/\u200bx>")).toBe("https://evil.example/U+200Bx (evil.example)");
  });
});

test("what nobody would see has a mark in code, which is copied and run, and stays in prose", () => {
  const shown = show("می\u200cخواهم `rm \u202ex` 👩‍💻\n\n```sh\nrm \u2066y\n```");
  expect([...shown.querySelectorAll("code .agui-mark")].map((mark) => mark.textContent)).toEqual(["U+202E", "U+2066"]);
  expect(shown.querySelector("p")?.textContent).toBe("می\u200cخواهم rm U+202Ex 👩‍💻");
});

test("columns of sentences are wide, those of words and numbers are not", () => {
  const table = show("| Year | Remarks |\n|---|---|\n| 2021 | up |\n| 2022 | People moved away to the suburbs |");
  expect([...table.querySelectorAll("th")].map((head) => head.className)).toEqual(["", "agui-wide"]);
});

describe("code", () => {
  const code = `let a = 1; // one\n/* two\n${"let b;\n".repeat(60)}*/ let c;`;
  const read = (shown: Element) =>
    [...shown.querySelectorAll(".agui-lines")].map((lines) => lines.textContent).join("\n");

  // the colours are a file of their own: the first code has one colour until it is there
  beforeAll(async () => {
    const first = show(`\`\`\`ts\n${code}\n\`\`\``);
    expect(read(first)).toBe(code);
    await vi.waitFor(() => expect(first.querySelector(".agui-code-word")).not.toBeNull(), { timeout: 20_000 });
  });

  test("is in colours as far as that costs little: neither line by line without end, nor in a line without end", async () => {
    const long = "let b;\n".repeat(10_000);
    const words = async (text: string) => {
      const element = await whole(show(`\`\`\`ts\n${text}\n\`\`\``));
      expect(read(element)).toBe(text);
      return element.querySelectorAll(".agui-code-word").length;
    };
    const coloured = await words(long);
    expect(coloured).toBeGreaterThan(3_000);
    expect(coloured).toBeLessThan(5_000);
    expect(await words("let b; ".repeat(2_000))).toBe(0);
  });

  test("is in colours, over all of its pieces, and its words are as they were", () => {
    const shown = show(`\`\`\`ts\n${code}\n\`\`\``);
    expect(read(shown)).toBe(code);
    expect([...shown.querySelectorAll(".agui-code-word")].map((each) => each.textContent)).toEqual(["let", "let"]);
    expect(shown.querySelectorAll(".agui-lines").length).toBeGreaterThan(1);
  });

  test("has none where it has no language", () => {
    expect(show(`\`\`\`\n${code}\n\`\`\``).querySelectorAll(".agui-lines > span")).toHaveLength(0);
  });

  test("while it comes, only its last piece is drawn anew", () => {
    const grown = show(`\`\`\`ts\n${code}`, true);
    const first = grown.querySelector(".agui-lines > span");
    render(<Markdown text={`\`\`\`ts\n${code} let d`} open />, grown);
    expect(grown.querySelector(".agui-lines > span")).toBe(first);
    expect(read(grown)).toBe(`${code} let d`);
  });
});

const SAMPLE = `# Report

Some **bold text**, *slanted* and \`code with **no** bold\`, ~~gone~~ and [a link](https://example.org/a?b=1&c=2 "title").
A second line, \\*escaped\\* and 2 * 3 * 4, snake_case_name, AT&amp;T.

- first **item**
- second
  - nested \`code\`
  - another

    a paragraph in it
- [ ] to do
- [x] done

1. one
2. two [ref][1] and <https://auto.example/x>
10. ten

> a quote
> - with a list

| Name | **Count** |
|:-----|------:|
| a \\| b | 1 |
| \`c|d\` | 22 |

\`\`\`python
def f(x):
    return "\`\`" + x  # **not bold**

\`\`\`

![a picture](https://evil.example/p.png?q=secret)

---
<b onclick="x()">html</b> text
    after

~~~
tilde \`\`\` inside
~~~

[1]: https://reference.example/one "One"
[^1]: https://foot.example/

Last paragraph with https://bare.example/path and mail@example.org.
`;

describe("what is written on", () => {
  test("every prefix shows the same whether it came in pieces or at once", () => {
    const element = document.createElement("div");
    document.body.append(element);
    shown.push(element);
    for (let end = 0; end <= SAMPLE.length; end++) {
      const prefix = SAMPLE.slice(0, end);
      render(<Markdown text={prefix} open={true} />, element);
      const whole = show(prefix, true);
      if (!whole.isEqualNode(element)) expect(element.innerHTML, JSON.stringify(prefix)).toBe(whole.innerHTML);
    }
    render(<Markdown text={SAMPLE} open={false} />, element);
    expect(element.isEqualNode(show(SAMPLE))).toBe(true);
  });

  test("texts put together at random show the same in pieces of any size", () => {
    const pieces = [
      "a", "- b", "\n", "\n\n", "  ", "**", "*", "`", "```", "~~~\n", "| a | b |", "|---|---|", "[x](", "https://e.org", ")", "> ", "# ",
      "1. ", "---", "\t", "    ", "<div>", "[x]: https://e.org", "\r\n", "[x]", "word ", "_", "&lt;", "\\", "![",
    ]; // biome-ignore format: a list of pieces
    let seed = 7;
    const random = (below: number) => {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
      return Math.floor((seed / 2_147_483_648) * below);
    };
    for (let round = 0; round < 400; round++) {
      const reader = new MarkdownReader();
      let text = "";
      for (let step = 0; step < 30; step++) {
        text += pieces[random(pieces.length)];
        const seen = JSON.stringify(reader.read(text, true));
        expect(seen, JSON.stringify(text)).toBe(JSON.stringify(new MarkdownReader().read(text, true)));
      }
      expect(JSON.stringify(reader.read(text, false)), JSON.stringify(text)).toBe(
        JSON.stringify(new MarkdownReader().read(text, false)),
      );
    }
  });

  test("a list without end is cut into parts that read as one", () => {
    const items = Array.from(
      { length: 130 },
      (_, index) => `${index % 7 === 3 ? "1" : index + 5}. item **${index}**${index === 50 ? "\n" : ""}\n    - inner`,
    );
    const text = `before\n\n${items.join("\n")}\n\nafter`;
    const reader = new MarkdownReader();
    for (let end = 0; end <= text.length; end += 13) {
      const seen = JSON.stringify(reader.read(text.slice(0, end), true));
      expect(seen).toBe(JSON.stringify(new MarkdownReader().read(text.slice(0, end), true)));
    }
    const lists = [...show(text).querySelectorAll("ol")];
    expect(lists.map((list) => list.start)).toEqual([5, 45, 85, 125]);
    expect(
      lists.flatMap((list) => [...list.children]).map((item) => item.querySelector("strong")?.textContent),
    ).toEqual(items.map((_, index) => String(index)));
  });

  test("a table without end is cut into parts that are one table", () => {
    const rows = Array.from({ length: 130 }, (_, index) => `| ${index} | ${index === 50 ? "[x]" : "**words**"} |\n`);
    const text = `before\n\n| n | what |\n|--:|---|\n${rows.join("")}\nafter`;
    const reader = new MarkdownReader();
    for (let end = 0; end <= text.length; end += 13) {
      const seen = JSON.stringify(reader.read(text.slice(0, end), true));
      expect(seen).toBe(JSON.stringify(new MarkdownReader().read(text.slice(0, end), true)));
    }
    expect(reader.read(text, true).map(({ type, goesOn = false }) => `${type} ${goesOn}`)).toEqual([
      ...["paragraph false", "table false", "table true", "table true", "table true", "paragraph false"],
    ]);
    const element = show(text);
    expect(element.querySelectorAll("table, thead").length).toBe(2);
    expect(
      [...element.querySelectorAll("td:first-child")].map((cell) => `${cell.className} ${cell.textContent}`),
    ).toEqual(rows.map((_, index) => `agui-right ${index}`));
    expect([...element.querySelectorAll("p")].map((each) => each.textContent)).toEqual(["before", "after"]);
    expect(show(`${text}\n\n[x]: https://example.org`).querySelector("td > a")?.textContent).toBe("x");
  });

  test("code without end is cut into parts that are one, wherever a part ends", () => {
    for (const [width, indent] of [
      [57, ""],
      [58, ""],
      [59, "  "],
      [60, ""],
      [11_990, ""],
      [11_998, ""],
    ] as const) {
      const lines = Array.from({ length: 1_200 }, (_, index) => (index % 3 ? "" : `  ${"x".repeat(width)}`));
      const code = lines.join("\n").slice(0, 26_000);
      const fenced = `before\n\n${indent}~~~js\n${code.replace(/^(?=.)/gm, indent)}\n`;
      for (const text of [fenced, `${fenced}${indent}~~~\n\nafter`]) {
        const reader = new MarkdownReader();
        for (let end = 0; end <= text.length; end += 997) {
          const seen = JSON.stringify(reader.read(text.slice(0, end), true));
          expect(seen).toBe(JSON.stringify(new MarkdownReader().read(text.slice(0, end), true)));
        }
        const parts = reader.read(text, false).filter(({ type }) => type === "code") as Tokens.Code[];
        expect(parts.length).toBeGreaterThan(1);
        expect(parts.map((part) => part.text).join("\n")).toBe(code);
      }
    }
  });

  test("what follows the last part of long code or a long table is read as it is", () => {
    const code = `${"x\n".repeat(6_000)}`;
    expect(new MarkdownReader().read(`\`\`\`\n${code}\`\`\`\n# One`, false).at(-1)?.type).toBe("heading");
    const rows = "| 1 | 2 |\n".repeat(42);
    expect(new MarkdownReader().read(`| a | b |\n|---|---|\n${rows}# One`, false).at(-1)?.type).toBe("heading");
    expect(new MarkdownReader().read(`| a | b |\n|---|---|\n${rows.repeat(4)}`, false).at(-1)?.type).toBe("table");
  });

  test("finished blocks stay the same objects, and the same elements", () => {
    const reader = new MarkdownReader();
    const [first] = reader.read("# One\n\nTwo\n\nThr", true);
    expect(reader.read("# One\n\nTwo\n\nThree and more", true)[0]).toBe(first);
    const element = show("# One\n\nTwo\n\nThr", true);
    const heading = element.querySelector("h3");
    render(<Markdown text={"# One\n\nTwo\n\nThree"} open={true} />, element);
    expect(element.querySelector("h3")).toBe(heading);
  });

  test.each([
    ["some **bold te", "some bold te"],
    ["some **", "some"],
    ["a [link", "a link"],
    ["a [link](https://exa", "a link"],
    ["see ![alt text](htt", "see alt text"],
    ["run `npm i", "run npm i"],
    ["- one\n-", "one"],
    ["- one\n- [", "one"],
    ["text\n\n##", "text"],
    ["text\n\n``", "text"],
    ["a ~~gone", "a gone"],
    ["**a *b", "a b"],
  ])("%j looks calm", (text, words) => {
    expect(show(text, true).textContent?.trim()).toBe(words);
  });

  test("no prefix shows a mark that is only half there", () => {
    for (let end = 1; end <= SAMPLE.length; end++) {
      const prefix = SAMPLE.slice(0, end);
      const element = show(prefix, true);
      for (const code of element.querySelectorAll("pre, code")) code.remove();
      const words = element.textContent ?? "";
      expect(words, JSON.stringify(prefix.slice(-60))).not.toMatch(/\*\*|\]\(|```|\|-|!\[|~~[a-z]/);
    }
  });

  test("an open fence is code, and its language comes once it is written out", () => {
    expect(show("```pyth", true).querySelector("figcaption span")?.textContent).toBe("Code");
    const element = show("```python\nprint(1)\n``", true);
    expect(element.querySelector("figcaption span")?.textContent).toBe("python");
    expect(element.querySelector("code")?.textContent).toBe("print(1)");
  });

  test("the head of a table is a table before its rule is there", () => {
    for (const text of ["| a | b", "| a | b |\n", "| a | b |\n|--", "| a | b |\n|---|---|\n| 1"]) {
      expect(show(text, true).querySelectorAll("th").length, text).toBe(2);
    }
  });
});

describe("what is hostile", () => {
  const ADDRESSES = [
    "javascript:alert(1)", "JaVaScRiPt:alert(1)", "java\tscript:alert(1)", "java&#10;script:alert(1)", "&#106;avascript:alert(1)",
    "&#x6A;avascript&colon;alert(1)", "javascript&#58;alert(1)", "\u0001javascript:alert(1)", " javascript:alert(1)", "%6Aavascript:alert(1)",
    "vbscript:msgbox(1)", "data:text/html,<script>alert(1)</script>", "data:image/svg+xml;base64,PHN2Zz4=", "blob:https://e.org/1",
    "file:///etc/passwd", "//evil.example/x", "/relative", "about:blank", "view-source:javascript:1", "feed:javascript:alert(1)",
    "intent://x#Intent;end", "ws://evil.example", "http:", "https://", "javascript://example.com/%0aalert(1)", "jAvAsCrIpT&#x0000003A;alert(1)",
  ]; // biome-ignore format: a list of addresses

  test.each(ADDRESSES)("%j is never an address to go to", (address) => {
    const forms = [
      `[x](${address})`, `[x](<${address}>)`, `![x](${address})`, `<${address}>`, `[x][1]\n\n[1]: ${address}\n`,
      `[![x](${address})](${address})`, `| a |\n|---|\n| [x](${address}) |`, `- > [x](${address} "t")`, `[x](${address}`,
    ]; // biome-ignore format: a list of forms
    for (const form of forms) {
      for (const open of [true, false]) {
        const element = show(form, open);
        expectHarmless(element);
        for (const link of element.querySelectorAll("a"))
          expect(link.href, form).toMatch(/^(?:https?:\/\/[\w.]|mailto:)/);
        if (!/https?:|evil/.test(address)) expect(element.querySelector("a"), form).toBeNull();
      }
    }
  });

  test.each([
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<a href='javascript:alert(1)'>x</a>",
    "<style>*{display:none}</style>",
    "a <b onmouseover=alert(1)>b</b> c",
    "<!-- comment --> <![CDATA[ x ]]> <?php x ?>",
    "```html\n<script>alert(1)</script>\n```",
    "`<img src=x onerror=alert(1)>`",
    "| <script> |\n|---|\n| <img src=x onerror=1> |",
    "- <details open ontoggle=alert(1)>",
    "```<script>\nx\n```",
    "[<img src=x onerror=alert(1)>](https://e.org)",
    '[x](https://e.org "onmouseover=alert(1)")',
    "[x](https://e.org/\"onmouseover='alert(1)')",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
    "[^1]\n\n[^1]: javascript:alert(1)\n",
    "[__proto__]\n\n[__proto__]: https://e.org\n",
  ])("%j is words", (text) => {
    for (const open of [true, false]) expectHarmless(show(text, open));
  });

  test("raw HTML is seen as it was written", () => {
    expect(show("<b>x</b> & <script>y</script>").textContent).toBe("<b>x</b> & <script>y</script>");
  });

  test("an image is a link that names its host, and nothing loads it", () => {
    const element = show("![the secret](https://evil.example/p.png?q=1)");
    expect(element.querySelectorAll("img, picture, source, video, audio, object, embed, iframe").length).toBe(0);
    expect(element.textContent).toContain("evil.example");
    expect(element.textContent).toContain("the secret");
  });

  test("links open apart from this page, and tell it nothing", () => {
    const link = show("[x](https://e.org)").querySelector("a");
    expect(link?.target).toBe("_blank");
    expect(link?.rel.split(" ").sort()).toEqual(["nofollow", "noopener", "noreferrer"]);
  });

  test.each([
    ["stars", "*".repeat(20_000)],
    ["open brackets", "[".repeat(20_000)],
    ["half images", "![a](".repeat(5_000)],
    ["deep quotes", `${">".repeat(20_000)}a`],
    ["deep lists", `${"- ".repeat(5_000)}a`],
    ["emphasis", "**a _b ".repeat(4_000)],
    ["emphasis in words", "a*".repeat(10_000)],
    ["code marks", "`a ``b ".repeat(3_000)],
    ["fences", "```\n".repeat(5_000)],
  ])("%s without end are shown, and soon: what costs by the square or worse outlives the test", (_name, text) => {
    expectHarmless(show(text, true));
  });
});

function expectHarmless(element: HTMLElement): void {
  const allowed = new Set(
    "DIV P H3 H4 UL OL LI INPUT BLOCKQUOTE HR TABLE THEAD TBODY TR TH TD SECTION FIGURE FIGCAPTION PRE CODE SPAN STRONG EM DEL A BR BUTTON SVG PATH".split(
      " ",
    ),
  );
  for (const inner of element.querySelectorAll("*")) {
    expect(allowed, inner.outerHTML.slice(0, 200)).toContain(inner.tagName.toUpperCase());
    for (const { name } of inner.attributes)
      expect(name, inner.outerHTML.slice(0, 200)).not.toMatch(/^on|^src|^style$/);
  }
}
