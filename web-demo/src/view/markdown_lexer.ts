/**
 * Markdown -> its blocks: GitHub's dialect without what we do not let it say. https://github.github.com/gfm/
 *
 * Below: markdown_inline. Raw HTML is text, a heading is `# ...` alone, and definitions are paragraphs (markdown_blocks
 * reads them). The tokens are those of marked, to which `tests/markdown_lexer.test.ts` holds this; marked itself is four
 * times as large. The `raw` of the blocks, one behind the other, is the text.
 */
import type { Token, Tokens } from "marked";
import { type Links, lexInline } from "./markdown_inline";

export type { Links };

const BLANK = /^[ \t]*$/;
const FENCE = /^( {0,3})(`{3,}(?=[^`]*$)|~{3,})(.*)$/;
const INDENTED = /^(?: {4}| {0,3}\t)/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$/;
const RULE = /^ {0,3}(?:(?:-[ \t]*){3,}|(?:_[ \t]*){3,}|(?:\*[ \t]*){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([*+-]|\d{1,9}[.)])(?:([ \t]+)(.*)|)$/;
/** Only such an item may end a paragraph. */
const FIRST_ITEM = /^ {0,3}(?:[*+-]|1[.)])[ \t]+[^ \t]/;
const DELIMITERS = /^ {0,3}(?:\| *)?:?-+:? *(?:\| *:?-+:? *)*(?:\| *)?$/;
const TASK = /^\[([ xX])\][ \t]+(?=\S)/;

/** Lists and quotations in each other: what would stand deeper stands side by side there. Each level reads all below it. */
const DEEPEST = 20;

export function lexBlocks(source: string, links: Links): Token[] {
  return new BlockLexer(source, links, true).read();
}

class BlockLexer {
  /** As they stand in the source, and without their ends. */
  readonly #lines: readonly string[];
  readonly #bare: readonly string[];
  readonly #tokens: Token[] = [];
  #at = 0;

  /** `top`: not within a list's item, where a paragraph may be no more than text. */
  constructor(
    source: string,
    private readonly links: Links,
    private readonly top: boolean,
    private readonly depth = 0,
  ) {
    this.#bare = source.split("\n");
    this.#lines = this.#bare.map((line, at) => (at < this.#bare.length - 1 ? `${line}\n` : line)).filter(Boolean);
  }

  read(): Token[] {
    while (this.#at < this.#lines.length) {
      this.#tokens.push(
        this.#blank() ??
          this.#fenced() ??
          this.#indented() ??
          this.#heading() ??
          this.#rule() ??
          this.#quote() ??
          this.#list() ??
          this.#table() ??
          this.#paragraph(),
      );
    }
    return this.#tokens;
  }

  /** The blocks in an item or a quotation. */
  #inside(text: string, top: boolean): Token[] {
    const depth = this.depth + 1;
    const source = depth === DEEPEST ? text.replace(/^[ \t>]+/gm, "") : text;
    return new BlockLexer(source, this.links, top, depth).read();
  }

  /** A line without its end; undefined behind the last. */
  #line(at = this.#at): string | undefined {
    return at < this.#lines.length ? this.#bare[at] : undefined;
  }

  /** The lines up to there, as they stand in the source. */
  #take(end: number): string {
    const raw = this.#lines.slice(this.#at, end).join("");
    this.#at = end;
    return raw;
  }

  #blank(): Token | undefined {
    let end = this.#at;
    while (BLANK.test(this.#line(end) ?? "-")) end++;
    return end === this.#at ? undefined : { type: "space", raw: this.#take(end) };
  }

  #fenced(): Token | undefined {
    const [, indent = "", fence, info = ""] = FENCE.exec(this.#line() ?? "") ?? [];
    if (fence === undefined) return undefined;
    const closing = new RegExp(`^ {0,3}${fence[0]}{${fence.length},}[ \\t]*$`);
    let end = this.#at + 1;
    while (end < this.#lines.length && !closing.test(this.#line(end) ?? "")) end++;
    const lines = this.#lines
      .slice(this.#at + 1, end)
      .map((line) => line.replace(new RegExp(`^ {0,${indent.length}}`), ""));
    const text = lines.join("").replace(/\n$/, "");
    const lang = info.trim().replace(/\\([!-/:-@[-`{-~])/g, "$1");
    return { type: "code", raw: this.#take(end + 1), lang, text };
  }

  #indented(): Token | undefined {
    let end = this.#at;
    for (let at = end; at < this.#lines.length; at++) {
      if (INDENTED.test(this.#line(at) ?? "") && !BLANK.test(this.#line(at) ?? "")) end = at + 1;
      else if (!BLANK.test(this.#line(at) ?? "")) break;
    }
    if (end === this.#at) return undefined;
    const text = this.#lines.slice(this.#at, end).map((line) => line.replace(/^(?: {0,3}\t| {1,4})/, ""));
    return { type: "code", raw: this.#take(end), codeBlockStyle: "indented", text: text.join("").replace(/\n$/, "") };
  }

  #heading(): Token | undefined {
    const found = HEADING.exec(this.#line() ?? "");
    if (!found) return undefined;
    const [, marks = "", given = ""] = found;
    const text = /^#+$/.test(given) ? "" : given.trim();
    const tokens = lexInline(text, this.links);
    return { type: "heading", raw: this.#take(this.#at + 1), depth: marks.length, text, tokens };
  }

  #rule(): Token | undefined {
    return RULE.test(this.#line() ?? "") ? { type: "hr", raw: this.#take(this.#at + 1) } : undefined;
  }

  #quote(): Token | undefined {
    if (this.depth > DEEPEST || !QUOTE.test(this.#line() ?? "")) return undefined;
    let end = this.#at;
    const inner: string[] = [];
    for (; end < this.#lines.length; end++) {
      const line = this.#line(end) ?? "";
      const before = inner.at(-1) ?? "";
      if (!QUOTE.test(line) && (!continues(before) || BLANK.test(line) || ITEM.test(line) || this.#interrupts(end)))
        break;
      inner.push(line.replace(QUOTE, ""));
    }
    const text = inner.join("\n");
    return { type: "blockquote", raw: this.#take(end), text, tokens: this.#inside(text, true) };
  }

  #list(): Token | undefined {
    const first = this.depth > DEEPEST ? null : ITEM.exec(this.#line() ?? "");
    if (!first) return undefined;
    const mark = first[2] ?? "";
    const kind = mark.at(-1) ?? "";
    const begin = this.#at;
    const items: Tokens.ListItem[] = [];
    for (;;) {
      const next = ITEM.exec(this.#line() ?? "");
      if (!next || next[2]?.at(-1) !== kind || RULE.test(this.#line() ?? "")) break;
      items.push(this.#item(next));
    }
    const raw = this.#lines.slice(begin, this.#at).join("");
    const last = items.at(-1);
    // what is blank behind the last item is not the list's
    const gap = /\n(?:[ \t]*\n)+$/.exec(raw)?.[0].slice(1) ?? "";
    if (gap) this.#at -= gap.split("\n").length - 1;
    if (last) last.raw = last.raw.replace(/\n\s*$/, "\n");
    const loose = items.some((item, place) => item.loose || (place < items.length - 1 && /\n[ \t]*\n$/.test(item.raw)));
    for (const item of items) {
      item.loose = loose;
      for (const token of loose ? item.tokens : []) if (token.type === "text") (token as Token).type = "paragraph";
    }
    const ordered = mark.length > 1;
    const start = ordered ? Number(mark.slice(0, -1)) : "";
    return { type: "list", raw: raw.slice(0, raw.length - gap.length), ordered, start, loose, items } as Tokens.List;
  }

  #item([, indent = "", mark = "", gap = "", rest = ""]: RegExpExecArray): Tokens.ListItem {
    const wide = gap.replaceAll("\t", "    ").length;
    const width = indent.length + mark.length + (rest === "" || wide > 4 ? 1 : wide);
    const lines = [wide > 4 ? `${" ".repeat(wide - 1)}${rest}` : rest];
    const inside = new RegExp(`^(?: {${width}}|\\t)`);
    const sibling = new RegExp(`^ {0,${Math.min(3, width - 1)}}(?:[*+-]|\\d{1,9}[.)])(?:[ \\t]|$)`);
    let fence = FENCE.exec(rest)?.[2];
    let end = this.#at + 1;
    for (; end < this.#lines.length; end++) {
      const line = this.#line(end) ?? "";
      const before = lines.at(-1) ?? "";
      if (BLANK.test(line)) {
        if (lines.length === 1 && rest === "") break;
        lines.push("");
        continue;
      }
      const isInside = inside.test(line);
      if (
        !isInside &&
        (fence || sibling.test(line) || BLANK.test(before) || !continues(before) || this.#interrupts(end))
      )
        break;
      const stripped = isInside ? line.replace(inside, "") : line.trimStart();
      const fenced: string | undefined = FENCE.exec(stripped)?.[2];
      if (fenced && (!fence || fenced.startsWith(fence))) fence = fence ? undefined : fenced;
      lines.push(stripped);
    }
    const raw = this.#take(end);
    const task = TASK.exec(rest);
    const text = lines.join("\n").replace(TASK, "").replace(/^\n+/, "").trimEnd();
    const tokens = this.#inside(text, false);
    const loose = tokens.some(({ type }) => type === "space");
    return {
      type: "list_item",
      raw,
      task: !!task,
      ...(task && { checked: task[1] !== " " }),
      loose,
      text,
      tokens,
    } as Tokens.ListItem;
  }

  #table(): Token | undefined {
    const delimiters = this.#isTable(this.#at);
    if (!delimiters) return undefined;
    const align = delimiters.map((cell) => {
      const right = cell.endsWith(":");
      return cell.startsWith(":") ? (right ? "center" : "left") : right ? "right" : null;
    });
    let end = this.#at + 2;
    while (end < this.#lines.length && !BLANK.test(this.#line(end) ?? "") && !this.#interrupts(end, false)) end++;
    const cells = (line: string): Tokens.TableCell[] => {
      const texts = split(line);
      return align.map((side, place) => {
        return new Cell(texts[place] ?? "", side, this.links);
      });
    };
    const header = cells(this.#line() ?? "");
    const rows = this.#lines.slice(this.#at + 2, end).map((line) => cells(line.replace(/\n$/, "")));
    return { type: "table", raw: this.#take(end), align, header, rows } as Tokens.Table;
  }

  #paragraph(): Token {
    let end = this.#at + 1;
    while (end < this.#lines.length && !BLANK.test(this.#line(end) ?? "") && !this.#interrupts(end)) end++;
    const raw = this.#take(end);
    const text = raw.replace(/\n$/, "").replace(/^[ \t]+/, "");
    const tokens = lexInline(text, this.links);
    return { type: this.top ? "paragraph" : "text", raw, text, tokens } as Token;
  }

  /** Whether a block begins there that does not wait for a blank line. */
  #interrupts(at: number, tables = true): boolean {
    const line = this.#line(at) ?? "";
    return (
      RULE.test(line) ||
      HEADING.test(line) ||
      QUOTE.test(line) ||
      FENCE.test(line) ||
      FIRST_ITEM.test(line) ||
      (tables && this.#isTable(at) !== undefined)
    );
  }

  /** The cells of the line below that head of a table; undefined where it is none. */
  #isTable(at: number): readonly string[] | undefined {
    const [head = "", below = ""] = [this.#line(at), this.#line(at + 1)];
    if (!below.includes("|") && !head.includes("|")) return undefined;
    if (!DELIMITERS.test(below) || INDENTED.test(head)) return undefined;
    const delimiters = split(below);
    return split(head).length === delimiters.length ? delimiters : undefined;
  }
}

/** One of many: its words are read once somebody looks at them. */
class Cell implements Tokens.TableCell {
  readonly header = false;
  #tokens: Token[] | undefined;

  constructor(
    readonly text: string,
    readonly align: Tokens.TableCell["align"],
    private readonly links: Links,
  ) {}

  get tokens(): Token[] {
    this.#tokens ??= lexInline(this.text, this.links);
    return this.#tokens;
  }
}

/** Whether a line that is no block of its own goes on with the paragraph that ends with this one. */
function continues(line: string): boolean {
  return !(BLANK.test(line) || HEADING.test(line) || RULE.test(line) || FENCE.test(line) || INDENTED.test(line));
}

/** The cells of a table's line. */
function split(line: string): string[] {
  const cells = line.trim().match(/(?:\\[\s\S]|[^|\\])+|\|/g) ?? [];
  const found: string[] = [""];
  for (const cell of cells) {
    if (cell === "|") found.push("");
    else found[found.length - 1] += cell;
  }
  if (found[0]?.trim() === "") found.shift();
  if (found.length > 0 && found.at(-1)?.trim() === "") found.pop();
  return found.map((cell) => cell.trim().replaceAll("\\|", "|"));
}
