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

/** A longer list or table is finished in parts of so many items or rows: what is read again with each piece stays small. */
const ITEMS_TOGETHER = 40;
/** So are longer code and a longer paragraph, in characters. Emphasis does not go from one part to the next. */
const LONGEST = 12_000;
/** So many characters more are looked through at a time: what is behind the first part is read again for the next one. */
const STEP = 3_000;
/** Of a table: the names of its columns, and the line below. */
const HEAD_LINES = 2;
/** Where a paragraph may be parted: what follows is a word, and begins no other block. */
const BETWEEN_WORDS = /[ \n](?=\p{L}[\p{L}\p{M}])/gu;

type Links = Record<string, { href: string; title: string }>;

export type Block = Token & {
  /** It is a part of a longer block, and finished. */
  readonly isPart?: boolean;
  /** It is no block of its own, but goes on with the table or the code before it. */
  readonly goesOn?: boolean;
};

/** A block whose first parts are finished. */
interface Begun {
  /** What the next part is read behind: a table's head, or the line that opens code. */
  readonly head: string;
  /** Which number the list goes on with. */
  readonly number: number | undefined;
}

/** Reads one text that grows. */
export class MarkdownReader {
  #text = "";
  /** Where what is not finished begins. */
  #at = 0;
  /** How much was looked through for what is finished; it ends behind a line. */
  #looked = 0;
  #finished: Block[] = [];
  /** The block at `#at`, where its first part is finished. */
  #begun: Begun | undefined;
  #links: Links = {};
  /** Counts how often it began anew: the same text reads differently from then on, with other definitions. */
  round = 0;

  /**
   * The blocks of `text`. While it is `open`, it is expected to go on: what is unfinished at its end is shown calmly,
   * and what nothing that follows can change is kept, as the same objects each time.
   */
  read(text: string, open: boolean): readonly Block[] {
    const normal = text.includes("\r") ? text.replace(/\r\n?/g, "\n") : text;
    if (!normal.startsWith(this.#text)) this.#restart({});
    this.#text = normal;
    this.#finish();
    const tail = normal.slice(this.#at);
    const last = this.#lexed(tail, open);
    const links = open ? undefined : definitions(last, this.#links);
    if (links === undefined) return [...this.#finished, ...last.filter(isShown)];
    this.#restart(links);
    return this.read(text, open);
  }

  /** Move what is finished by now to the finished blocks. Only a line that is complete, or too long, changes that. */
  #finish(): void {
    const line = this.#text.lastIndexOf("\n") + 1;
    const end = this.#text.length - Math.max(line, this.#at) > LONGEST ? this.#text.length : line;
    while (end > this.#looked) {
      const from = Math.max(this.#looked, this.#at);
      const step = this.#text.indexOf("\n", from + Math.max(STEP, (from - this.#at) / 2)) + 1;
      const until = step > 0 && step < end ? step : end;
      const tail = this.#text.slice(this.#at, until);
      const blocks = this.#lexed(tail);
      const part = firstPart(blocks[0], tail, this.#links, this.#head);
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
      if (done.length === 0) this.#looked = until;
      else this.#begun = part && begunBy(part, this.#head);
    }
  }

  get #head(): string {
    return this.#begun?.head ?? "";
  }

  #lexed(tail: string, open = false): Block[] {
    const text = this.#head + tail;
    const [first, ...rest] = lexed(open ? calm(text) : text, this.#links);
    if (first === undefined) return [];
    const number = this.#begun?.number;
    if (number !== undefined && first.type === "list") (first as Tokens.List).start = number;
    if (this.#head) Object.assign(first, { raw: first.raw.slice(this.#head.length), goesOn: true });
    return [first, ...rest];
  }

  #restart(links: Links): void {
    this.round++;
    this.#at = 0;
    this.#looked = 0;
    this.#finished = [];
    this.#begun = undefined;
    this.#links = links;
  }
}

/** The beginning of a long block as one of its own; undefined where it is not that long. `head`: what it is read behind. */
function firstPart(block: Block | undefined, lines: string, links: Links, head: string): Block | undefined {
  const raw = block && rawOfPart(block, head);
  if (!block || !raw || !lines.startsWith(raw)) return undefined;
  // Read by itself: whether a list's items stand apart must not depend on those that are still to come.
  const [part] = lexed(head + raw, links);
  if (part?.type !== block.type || part.raw.trimEnd() !== (head + raw).trimEnd()) return undefined;
  const { start } = block as Tokens.List;
  return { ...part, raw, isPart: true, goesOn: !!head, ...(start !== undefined && { start }) } as Block;
}

/** What the first part of the block is; empty where it is not that long. */
function rawOfPart(block: Block, head: string): string {
  const { raw } = block;
  switch (block.type) {
    case "list": {
      const { items } = block as Tokens.List;
      return items.length < ITEMS_TOGETHER + 2
        ? ""
        : items
            .slice(0, ITEMS_TOGETHER)
            .map((item) => item.raw)
            .join("");
    }
    case "table": {
      const lines = ITEMS_TOGETHER + (head ? 0 : HEAD_LINES);
      const isLong = (block as Tokens.Table).rows.length >= ITEMS_TOGETHER + 2;
      return isLong ? firstLines(raw, lines) : "";
    }
    case "code": {
      if (raw.length <= LONGEST || (block as Tokens.Code).codeBlockStyle) return "";
      const first = head ? 0 : raw.indexOf("\n") + 1;
      const near = raw.lastIndexOf("\n", LONGEST - 1) + 1;
      const end = near > first ? near : raw.indexOf("\n", LONGEST) + 1;
      return end < raw.length ? raw.slice(0, end) : ""; // the fence that ends it is not of the first part
    }
    case "paragraph": {
      if (raw.length <= LONGEST) return "";
      let end = 0;
      for (const { index } of raw.slice(0, LONGEST).matchAll(BETWEEN_WORDS)) end = index + 1;
      return raw.slice(0, end);
    }
    default:
      return "";
  }
}

/** What follows the first part of a block is read with this in mind. */
function begunBy(part: Block, head: string): Begun {
  const list = part as Tokens.List;
  const number = list.type === "list" && list.ordered ? Number(list.start) + list.items.length : undefined;
  const lines = part.type === "table" ? HEAD_LINES : part.type === "code" ? 1 : 0;
  return { head: head || firstLines(part.raw, lines), number };
}

function firstLines(text: string, count: number): string {
  return text
    .split("\n", count)
    .map((line) => `${line}\n`)
    .join("");
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

function isShown(block: Block): boolean {
  return block.type !== "space" && !isDefinitions(block) && !(block.goesOn && isEmpty(block as Tokens.Code));
}

/** Nothing came behind the parts before, or nothing but the fence that ends code. */
function isEmpty({ raw, text }: Tokens.Code): boolean {
  return !raw || (text === "" && /^ {0,3}[`~]/.test(raw));
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
