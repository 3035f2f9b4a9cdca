// @vitest-environment happy-dom
/** What a long answer costs is in proportion to its length: counted in characters that are read, never in seconds. */
import { render } from "preact";
import { afterEach, describe, expect, test, vi } from "vitest";

const read = vi.hoisted(() => ({ characters: 0, most: 0 }));

vi.mock("../src/view/markdown_lexer", async (actual) => {
  const lexer = await actual<typeof import("../src/view/markdown_lexer")>();
  const lexBlocks: typeof lexer.lexBlocks = (text, links) => {
    read.characters += text.length;
    return lexer.lexBlocks(text, links);
  };
  return { ...lexer, lexBlocks };
});

const { Markdown } = await import("../src/view/markdown");

const PARAGRAPH = "Some **words** that [lead](https://example.com) to `others`, and a few more of them. ";
/** How it begins, and what comes again and again. */
const KINDS: Readonly<Record<string, readonly [begin: string, unit: string]>> = {
  paragraphs: ["", `${PARAGRAPH.repeat(5)}\n\n`],
  "one paragraph": ["", PARAGRAPH],
  lines: ["", "a line of words\n"],
  "a list": ["", "- an item of **some** words\n"],
  "a table": ["| Thing | What it is |\n|---|---:|\n", "| an apple | red and **round**, as one of `others` |\n"],
  code: ["```ts\n", "const sum = values.reduce((sum, value) => sum + value, 0);\n"],
};

const shown: HTMLElement[] = [];

afterEach(() => {
  for (const element of shown.splice(0)) {
    render(null, element);
    element.remove();
  }
});

async function drawn(text: string): Promise<{ element: HTMLElement; characters: number; frames: number }> {
  const element = document.createElement("div");
  document.body.append(element);
  shown.push(element);
  read.characters = 0;
  let frames = 1;
  const seen = new MutationObserver(() => frames++);
  seen.observe(element, { childList: true, subtree: true });
  render(<Markdown text={text} open={false} />, element);
  await vi.waitFor(() => expect(element.querySelector("[aria-busy]")).toBeNull(), { timeout: 50_000, interval: 5 });
  seen.disconnect();
  return { element, characters: read.characters, frames };
}

const words = (element: HTMLElement) => element.textContent?.replace(/[\s*`[\]|]|\(https[^)]*\)/g, "");

describe.each(Object.entries(KINDS))("%s", (_, [begin, unit]) => {
  const of = (length: number) => begin + unit.repeat(Math.ceil(length / unit.length));

  test("twice the length is read at about twice the cost", async () => {
    const once = (await drawn(of(60_000))).characters;
    const twice = (await drawn(of(120_000))).characters;
    expect(twice / once).toBeLessThan(2.6);
    expect(twice).toBeLessThan(120_000 * 12);
  });

  test("it is drawn in several frames, to its last word", async () => {
    const { element, frames } = await drawn(`${of(50_000)}\n\nthe end`);
    expect(frames).toBeGreaterThan(3);
    expect(words(element)?.endsWith("theend")).toBe(true);
    const plain = (await drawn(of(3_000))).element;
    expect(words(element)?.startsWith(words(plain)?.slice(0, 2_500) ?? "-")).toBe(true);
  });
});

test("a text that is replaced while it is being shown is shown from its beginning", async () => {
  const { element } = await drawn("short");
  render(<Markdown text={"an item\n\n".repeat(8_000)} open={false} />, element);
  render(<Markdown text="another" open={false} />, element);
  await vi.waitFor(() => expect(element.querySelector("[aria-busy]")).toBeNull(), { timeout: 50_000, interval: 5 });
  expect(element.textContent).toBe("another");
});
