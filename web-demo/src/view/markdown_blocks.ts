/**
 * Markdown as blocks, read on while it grows: what is finished is lexed once and stays the same object.
 *
 * Below: markdown_lexer, markdown_calm. Above: markdown. Raw HTML is text here, and so is everything else that only a
 * browser's parser would make more of; a heading is `# ...` alone, so that a line of dashes never changes what is above it.
 */
import type { Token, Tokens } from "marked";
import { calm } from "./markdown_calm";
import { lexBlocks } from "./markdown_lexer";

/** Lines that end up as `[tag]: url` definitions, which are not shown. */
const DEFINITION = /^ {0,3}\[([^\]\n]+)\]:[ \t]*<?(https?:\/\/[^\s<>]+|mailto:[^\s<>]+)>?(?:[ \t]+["'(][^\n]*)?[ \t]*$/;

/** A longer list is finished in parts of so many items: what is read again with each piece stays small. */
const ITEMS_TOGETHER = 40;
/** So is a longer paragraph, in characters. Emphasis does not go from one part to the next. */
const LONGEST_PARAGRAPH = 12_000;
/** Where a paragraph may be parted: what follows is a word, and begins no other block. */
const BETWEEN_WORDS = /[ \n](?=\p{L}[\p{L}\p{M}])/gu;

type Links = Record<string, { href: string; title: string }>;

/** Reads one text that grows. */
export class MarkdownReader {
  #text = "";
  /** Where what is not finished begins. */
  #at = 0;
  /** How much was looked through for what is finished; it ends behind a line. */
  #looked = 0;
  #finished: Token[] = [];
  /** Which number the list at `#at` goes on with, where its first part is finished. */
  #number: number | undefined;
  #links: Links = {};
  /** Counts how often it began anew: the same text reads differently from then on, with other definitions. */
  round = 0;

  /**
   * The blocks of `text`. While it is `open`, it is expected to go on: what is unfinished at its end is shown calmly,
   * and what nothing that follows can change is kept, as the same objects each time.
   */
  read(text: string, open: boolean): readonly Token[] {
    const normal = text.includes("\r") ? text.replace(/\r\n?/g, "\n") : text;
    if (!normal.startsWith(this.#text)) this.#restart({});
    this.#text = normal;
    this.#finish();
    const tail = normal.slice(this.#at);
    const last = this.#lexed(open ? calm(tail) : tail);
    const links = open ? undefined : definitions(last, this.#links);
    if (links === undefined) return [...this.#finished, ...last.filter(isShown)];
    this.#restart(links);
    return this.read(text, open);
  }

  /** Move what is finished by now to the finished blocks. Only a line that is complete, or too long, changes that. */
  #finish(): void {
    const line = this.#text.lastIndexOf("\n") + 1;
    const end = this.#text.length - Math.max(line, this.#at) > LONGEST_PARAGRAPH ? this.#text.length : line;
    while (end > this.#looked) {
      const tail = this.#text.slice(this.#at, end);
      const blocks = this.#lexed(tail);
      const part = firstPart(blocks[0], tail, this.#links);
      const done = part === undefined ? blocks.slice(0, finishedCount(blocks, tail)) : [part];
      const links = definitions(done, this.#links);
      if (links !== undefined) {
        this.#restart(links);
        continue;
      }
      for (const block of done) {
        this.#at += block.raw.length;
        if (isShown(block)) this.#finished.push(block);
      }
      if (done.length === 0) this.#looked = end;
      else this.#number = numberBehind(part);
    }
  }

  #lexed(text: string): Token[] {
    const blocks = lexed(text, this.#links);
    const [first] = blocks;
    if (this.#number !== undefined && first?.type === "list") (first as Tokens.List).start = this.#number;
    return blocks;
  }

  #restart(links: Links): void {
    this.round++;
    this.#at = 0;
    this.#looked = 0;
    this.#finished = [];
    this.#number = undefined;
    this.#links = links;
  }
}

/** The beginning of a long list or paragraph as one of its own; undefined where it is not that long. */
function firstPart(block: Token | undefined, lines: string, links: Links): Token | undefined {
  if (block?.type === "paragraph") return firstWords(block, lines, links);
  const list = block as Tokens.List | undefined;
  if (list?.type !== "list" || list.items.length < ITEMS_TOGETHER + 2) return undefined;
  const raw = list.items.slice(0, ITEMS_TOGETHER).reduce((text, item) => text + item.raw, "");
  if (!lines.startsWith(raw)) return undefined;
  // Read by itself: whether its items stand apart must not depend on those that are still to come.
  const [part, ...rest] = lexed(raw, links);
  if (part?.type !== "list" || part.raw.trimEnd() !== raw.trimEnd() || rest.some((each) => each.type !== "space")) {
    return undefined;
  }
  return { ...(part as Tokens.List), raw, start: list.start };
}

function firstWords(block: Token, lines: string, links: Links): Token | undefined {
  if (block.raw.length <= LONGEST_PARAGRAPH || !lines.startsWith(block.raw)) return undefined;
  let end = 0;
  for (const { index } of block.raw.slice(0, LONGEST_PARAGRAPH).matchAll(BETWEEN_WORDS)) end = index + 1;
  if (end === 0) return undefined;
  const [part, ...rest] = lexed(block.raw.slice(0, end), links);
  return part?.type === "paragraph" && rest.length === 0 ? part : undefined;
}

/** Which number goes on behind the first part of a list. */
function numberBehind(part: Token | undefined): number | undefined {
  const list = part as Tokens.List | undefined;
  return list?.type === "list" && list.ordered ? Number(list.start) + list.items.length : undefined;
}

/** How many of the first blocks of these whole lines stay as they are: all before the last one, which may go on. */
function finishedCount(blocks: readonly Token[], lines: string): number {
  let at = 0;
  let count = 0;
  for (const [index, block] of blocks.entries()) {
    if (block.type !== "space") count = index;
    if (!lines.startsWith(block.raw, at)) return count;
    at += block.raw.length;
  }
  return count;
}

/** `known` with the definitions among `blocks`; undefined where there is no new one. */
function definitions(blocks: readonly Token[], known: Links): Links | undefined {
  let links: Links | undefined;
  for (const block of blocks) {
    for (const line of isDefinitions(block) ? block.raw.trim().split("\n") : []) {
      const [, tag = "", href = ""] = DEFINITION.exec(line) ?? [];
      const name = tag.toLowerCase().replace(/\s+/g, " ");
      if (!Object.hasOwn(links ?? known, name)) links = { ...(links ?? known), [name]: { href, title: "" } };
    }
  }
  return links;
}

function isDefinitions(block: Token): boolean {
  return (
    block.type === "paragraph" &&
    block.raw
      .trim()
      .split("\n")
      .every((line) => DEFINITION.test(line))
  );
}

function isShown(block: Token): boolean {
  return block.type !== "space" && !isDefinitions(block);
}

function lexed(text: string, links: Links): Token[] {
  try {
    return lexBlocks(text, links);
  } catch {
    // Nested deeper than the stack goes. Nobody writes that to be read; it is shown as it is.
    const paragraph: Tokens.Paragraph = { type: "paragraph", raw: text, text, tokens: [] };
    return [{ ...paragraph, tokens: [{ type: "text", raw: text, text }] }];
  }
}
