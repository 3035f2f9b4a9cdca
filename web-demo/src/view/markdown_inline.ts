/**
 * The inside of a line of markdown: emphasis, code, links. GitHub's dialect, with every line break kept; raw HTML is text.
 * https://github.github.com/gfm/#inlines
 *
 * Below: nothing. Above: markdown_lexer. One pass finds what stands for itself; stars and underscores wait for each other.
 */
import type { Token } from "marked";

export type Links = Readonly<Record<string, { readonly href: string; readonly title: string | null }>>;

const PUNCTUATION = /[\p{P}\p{S}]/u;
const ESCAPABLE = /[!-/:-@[-`{-~]/;
const SPACE = /\s/;
const AUTOLINK = /<([a-zA-Z][\w+.-]{1,31}:[^\s<>]*)>/y;
const MAIL_LINK = /<([\w.!#$%&'*+/=?^`{|}~-]+@[\w-]+(?:\.[\w-]+)+)>/y;
const BARE = /(?:https?:\/\/|ftp:\/\/|www\.)[a-z\d-][^\s<]*/iy;
const BARE_MAIL = /[\w.+-]+@[\w-]+(?:\.[\w-]+)*\.[\w-]*[a-z0-9](?![\w-])/iy;
const DESTINATION =
  /\(\s*(?:<((?:\\.|[^\n<>\\])*)>|((?:\\.|[^\s()\\]|\((?:\\.|[^\s()\\]|\((?:\\.|[^\s()\\])*\))*\))*))(?:\s+("(?:\\[\s\S]|[^"\\])*"|'(?:\\[\s\S]|[^'\\])*'|\((?:\\[\s\S]|[^()\\])*\)))?\s*\)/y;
const REFERENCE = /\[((?:\\.|[^[\]\\])*)\]/y;
/** CommonMark's limit, which keeps brackets in brackets from being looked up again and again. */
const LONGEST_LABEL = 999;
/** What cannot begin anything is text as a whole. */
const PLAIN = /[^\\`<![\]*_~\nhfwHFW@]+/y;

interface Node {
  token: Token;
  /** Of a run of `*`, `_` or `~` that may open or close something. */
  run?: { mark: string; count: number; whole: number; opens: boolean; closes: boolean };
}

/** One that may begin a link or a picture. */
interface Bracket {
  /** Among the nodes. */
  readonly place: number;
  /** Where it ends. */
  readonly at: number;
  readonly isImage: boolean;
  /** Whether it, or one around it, may begin a link. */
  readonly mayLink: boolean;
}

export function lexInline(source: string, links: Links): Token[] {
  return new InlineLexer(source, links).read();
}

class InlineLexer {
  readonly #nodes: Node[] = [];
  /** Those that are open, the innermost last. */
  readonly #brackets: Bracket[] = [];
  /** So many of them, the outermost, begin no link any more: there is one in them. */
  #spent = 0;
  #at = 0;
  /** The next end of a link that says where it leads; -1: there is none. */
  #end = 0;

  constructor(
    private readonly source: string,
    private readonly links: Links,
  ) {}

  read(): Token[] {
    const { source } = this;
    while (this.#at < source.length) {
      if (!this.#special(source[this.#at] as string)) this.#text(this.#match(PLAIN)?.[0] ?? source[this.#at] ?? "");
    }
    emphasise(this.#nodes, 0);
    return tokensOf(this.#nodes);
  }

  /** Whether something other than text begins here; if so it was taken. */
  #special(mark: string): boolean {
    switch (mark) {
      case "\\":
        return this.#escape();
      case "`":
        return this.#code();
      case "<":
        return this.#autolink();
      case "\n":
        return this.#break();
      case "!":
        return this.source[this.#at + 1] === "[" && this.#open("![");
      case "[":
        return this.#open("[");
      case "]":
        return this.#close();
      case "*":
      case "_":
      case "~":
        return this.#run(mark);
      case "@":
        return this.#mail();
      default:
        return /[hfw]/i.test(mark) && this.#address();
    }
  }

  #escape(): boolean {
    const next = this.source[this.#at + 1] ?? "";
    if (next === "\n") {
      this.#at += 1;
      return this.#break();
    }
    if (!ESCAPABLE.test(next)) return false;
    return this.#take({ type: "escape", raw: `\\${next}`, text: next });
  }

  #code(): boolean {
    const [fence = ""] = this.#match(/`+/y) ?? [];
    const begin = this.#at + fence.length;
    const runs = /`+/g;
    runs.lastIndex = begin;
    for (let run = runs.exec(this.source); run; run = runs.exec(this.source)) {
      if (run[0].length !== fence.length) continue;
      const inner = this.source.slice(begin, run.index).replaceAll("\n", " ");
      const isPadded = /^ .*\S.* $|^ .*[^ ].* $/.test(inner) || /^ [^ ]+ $/.test(inner);
      const text = isPadded ? inner.slice(1, -1) : inner;
      return this.#take({ type: "codespan", raw: this.source.slice(this.#at, run.index + fence.length), text });
    }
    this.#text(fence);
    return true;
  }

  #autolink(): boolean {
    const address = this.#match(AUTOLINK);
    const mail = address ? undefined : this.#match(MAIL_LINK);
    const [raw, text = ""] = address ?? mail ?? [];
    return raw !== undefined && this.#take(linkTo(mail ? `mailto:${text}` : text, text, raw));
  }

  #address(): boolean {
    if (this.#isInLink() || /[\p{L}\p{N}]/u.test(this.source[this.#at - 1] ?? "")) return false;
    const found = this.#match(BARE)?.[0];
    if (found === undefined) return false;
    const text = withoutEnd(found);
    return this.#take(linkTo(/^www/i.test(text) ? `http://${text}` : text, text, text));
  }

  /** Behind what was taken for text before its @. */
  #mail(): boolean {
    const last = this.#nodes.at(-1)?.token;
    const begun = last?.type === "text" ? /[\w.+-]+$/.exec(last.raw)?.[0] : undefined;
    if (last?.type !== "text" || !begun || this.#isInLink()) return false;
    BARE_MAIL.lastIndex = this.#at - begun.length;
    const found = BARE_MAIL.exec(this.source)?.[0];
    if (found === undefined || found.length <= begun.length) return false;
    last.raw = last.text = last.raw.slice(0, -begun.length);
    this.#at -= begun.length;
    return this.#take(linkTo(`mailto:${found}`, found, found));
  }

  #break(): boolean {
    const last = this.#nodes.at(-1)?.token;
    if (last?.type === "text") last.raw = last.text = last.raw.replace(/ +$/, "");
    const [raw = ""] = this.#match(/\n[ \t]*/y) ?? [];
    if (this.#at + raw.length < this.source.length) return this.#take({ type: "br", raw });
    this.#at += raw.length;
    return true;
  }

  #run(mark: string): boolean {
    const begin = this.#at;
    while (this.source[this.#at] === mark) this.#at++;
    const count = this.#at - begin;
    const before = [...this.source.slice(Math.max(0, begin - 2), begin)].at(-1) ?? " ";
    const after = [...this.source.slice(this.#at, this.#at + 2)][0] ?? " ";
    const [spaceBefore, spaceAfter] = [SPACE.test(before), SPACE.test(after)];
    const [pointBefore, pointAfter] = [PUNCTUATION.test(before), PUNCTUATION.test(after)];
    const left = !spaceAfter && (!pointAfter || spaceBefore || pointBefore);
    const right = !spaceBefore && (!pointBefore || spaceAfter || pointAfter);
    const raw = mark.repeat(count);
    const opens = left && (mark !== "_" || !right || pointBefore);
    const closes = right && (mark !== "_" || !left || pointAfter);
    const may = (opens || closes) && (mark !== "~" || count <= 2);
    this.#nodes.push({ token: textToken(raw), ...(may && { run: { mark, count, whole: count, opens, closes } }) });
    return true;
  }

  #open(mark: string): boolean {
    const isImage = mark === "![";
    this.#at += mark.length;
    const mayLink = !isImage || this.#mayLink();
    this.#brackets.push({ place: this.#nodes.length, at: this.#at, isImage, mayLink });
    this.#nodes.push({ token: textToken(mark) });
    return true;
  }

  #close(): boolean {
    const bracket = this.#brackets.pop();
    if (!bracket) return false;
    const { at, isImage } = bracket;
    const around = this.#brackets.length;
    const text = this.source.slice(at, this.#at);
    const target = isImage || around >= this.#spent ? this.#target(text) : undefined;
    this.#spent = Math.min(this.#spent, around);
    if (!target) return false;
    const inner = this.#nodes.splice(bracket.place).slice(1);
    emphasise(inner, 0);
    const raw = this.source.slice(at - (isImage ? 2 : 1), target.end);
    const { href, title } = target;
    this.#at = target.end - raw.length;
    if (!isImage) this.#spent = around;
    return this.#take({ type: isImage ? "image" : "link", raw, href, title, text, tokens: tokensOf(inner) });
  }

  /** Where the brackets that end here lead, and where that is said to its end. */
  #target(text: string): { href: string; title: string | null; end: number } | undefined {
    const inline = this.#match(DESTINATION, this.#at + 1);
    if (inline) {
      const [raw, pointed, plain = "", title] = inline;
      const href = unescaped(pointed ?? plain);
      return { href, title: title ? unescaped(title.slice(1, -1)) : null, end: this.#at + 1 + raw.length };
    }
    const named = this.#match(REFERENCE, this.#at + 1);
    for (const [name, end] of [
      [named?.[1] || text, this.#at + 1 + (named?.[0].length ?? 0)],
      [text, this.#at + 1],
    ] as const) {
      if (name.length > LONGEST_LABEL) continue;
      const key = name.trim().replace(/\s+/g, " ").toLowerCase();
      const link = Object.hasOwn(this.links, key) ? this.links[key] : undefined;
      if (link) return { ...link, end };
    }
    return undefined;
  }

  #mayLink(): boolean {
    return this.#brackets.length > this.#spent && this.#brackets.at(-1)?.mayLink === true;
  }

  /** Whether what is open becomes a link: only then are addresses in it words. */
  #isInLink(): boolean {
    if (!this.#mayLink()) return false;
    if (this.#end >= 0 && this.#end < this.#at) this.#end = this.source.indexOf("](", this.#at);
    return this.#end >= 0;
  }

  #match(pattern: RegExp, at = this.#at): RegExpExecArray | undefined {
    pattern.lastIndex = at;
    return pattern.exec(this.source) ?? undefined;
  }

  #take(token: Token): true {
    this.#nodes.push({ token });
    this.#at += token.raw.length;
    return true;
  }

  #text(raw: string): void {
    const last = this.#nodes.at(-1);
    this.#at += raw.length;
    const isBracket = this.#brackets.at(-1)?.place === this.#nodes.length - 1;
    if (last && last.token.type === "text" && !last.run && !isBracket) {
      last.token.raw += raw;
      last.token.text = last.token.raw;
    } else {
      this.#nodes.push({ token: textToken(raw) });
    }
  }
}

function textToken(raw: string): Token {
  return { type: "text", raw, text: raw } as Token;
}

function linkTo(href: string, text: string, raw: string): Token {
  return { type: "link", raw, href, title: null, text, tokens: [textToken(text)] } as Token;
}

/** An address without the punctuation of the sentence around it. */
function withoutEnd(address: string): string {
  let text = address;
  for (;;) {
    const before = text;
    text = text.replace(/(?:[?!.,:;*_~'"]|&\w+;)+$/, "");
    const open = text.split("(").length;
    if (text.endsWith(")") && text.split(")").length > open) text = text.slice(0, -1);
    if (text === before) return text;
  }
}

function unescaped(text: string): string {
  return text.replace(/\\([!-/:-@[-`{-~])/g, "$1");
}

/** Let the runs from there on find their partners. https://spec.commonmark.org/0.31.2/#phase-2-inline-structure */
function emphasise(nodes: Node[], from: number): void {
  const bottoms = new Map<string, number>();
  for (let close = from; close < nodes.length; close++) {
    const closer = nodes[close]?.run;
    if (!closer?.closes) continue;
    const kind = `${closer.mark}${closer.opens}${closer.whole % 3}`;
    const bottom = bottoms.get(kind) ?? from;
    let open = close - 1;
    while (open >= bottom && !fits(nodes[open]?.run, closer)) open--;
    if (open < bottom) {
      bottoms.set(kind, close);
      continue;
    }
    close = join(nodes, open, close) - 1;
  }
}

type Run = NonNullable<Node["run"]>;

function fits(opener: Run | undefined, closer: Run): boolean {
  if (!opener?.opens || opener.mark !== closer.mark || opener.count === 0) return false;
  if (closer.mark === "~") return opener.count === closer.count;
  const isOdd = (opener.closes || closer.opens) && (opener.whole + closer.whole) % 3 === 0;
  return !isOdd || (opener.whole % 3 === 0 && closer.whole % 3 === 0);
}

/** What is between the two becomes one; where the closer, or what is behind it, is now. */
function join(nodes: Node[], open: number, close: number): number {
  const [opener, closer] = [nodes[open]?.run as Run, nodes[close]?.run as Run];
  const width = closer.mark === "~" ? closer.count : Math.min(2, opener.count, closer.count);
  const tokens = tokensOf(nodes.slice(open + 1, close));
  const mark = closer.mark.repeat(width);
  const type = closer.mark === "~" ? "del" : width === 2 ? "strong" : "em";
  const text = tokens.map(({ raw }) => raw).join("");
  const joined: Node = { token: { type, raw: mark + text + mark, text, tokens } as Token };
  const rest = [opener, closer].map((run, place) => {
    run.count -= width;
    const node = nodes[place === 0 ? open : close] as Node;
    node.token = textToken(run.mark.repeat(run.count));
    return run.count > 0 ? [node] : [];
  }) as [Node[], Node[]];
  nodes.splice(open, close - open + 1, ...rest[0], joined, ...rest[1]);
  return open + rest[0].length + 1;
}

/** As tokens, with texts that stand side by side in one. */
function tokensOf(nodes: readonly Node[]): Token[] {
  const tokens: Token[] = [];
  for (const { token } of nodes) {
    const last = tokens.at(-1);
    if (token.type === "text" && last?.type === "text") tokens[tokens.length - 1] = textToken(last.raw + token.raw);
    else if (token.type !== "text" || token.raw) tokens.push(token);
  }
  return tokens;
}
