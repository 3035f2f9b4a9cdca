/**
 * An answer's markdown as elements. Never as HTML: what a model writes can be words, and links that a person may follow.
 *
 * Below: markdown_blocks, links. Nothing is ever loaded: an image is a link that opens it.
 */
import { signal } from "@preact/signals";
import type { Token, Tokens } from "marked";
import type { ComponentChildren, RefObject, VNode } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { directionOf } from "../chat/direction";
import { PROSE, parted } from "../chat/unseen";
import type { ColouredCode, colourCode } from "./code_colours";
import { CopyButton } from "./copy_button";
import { Icon } from "./icons";
import { decoded, namesAnother, safeAddress } from "./links";
import { type Block as BlockToken, MarkdownReader } from "./markdown_blocks";
import { useRevealed } from "./revealed";
import { useTexts } from "./texts";
import { marked } from "./value";

const MAX_DEPTH = 24;
/** Lines of code in one element, so that a growing block lays out its end alone. */
const LINES_TOGETHER = 40;
/** What comes after so many characters of code stays in one colour: each part that has one is an element more. */
const MOST_COLOURED = 30_000;
/** So do these lines where they are longer together: while they grow they are drawn anew. */
const MOST_TOGETHER = 8_000;
/** A column in which something is longer has sentences, in characters. */
const SENTENCE = 24;

/** `open`: more will come. */
export function Markdown({ text: all, open: grows }: { text: string; open: boolean }) {
  const [reader] = useState(() => new MarkdownReader());
  const [nodes] = useState(() => new WeakMap<Token, VNode>());
  const text = useRevealed(all);
  const isBusy = text.length < all.length;
  const open = grows || isBusy;
  return useMemo(
    () => (
      <div class="agui-markdown" part="markdown" aria-busy={isBusy || undefined}>
        {whole(reader.read(text, open)).map((parts, index) => {
          const last = parts.at(-1) ?? parts[0];
          // The same element again is what the renderer does not look into.
          const node = nodes.get(last) ?? (
            <Block key={`${reader.round} ${index}`} token={parts[0]} parts={parts} depth={0} />
          );
          nodes.set(last, node);
          return node;
        })}
      </div>
    ),
    [reader, nodes, text, open, isBusy],
  );
}

type Parts<Kind> = [Kind, ...Kind[]];

/** Each block with the parts that go on with it. */
function whole(tokens: readonly BlockToken[]): Parts<BlockToken>[] {
  const blocks: Parts<BlockToken>[] = [];
  for (const token of tokens) {
    if (token.goesOn) blocks.at(-1)?.push(token);
    else blocks.push([token]);
  }
  return blocks;
}

interface BlockProps {
  readonly token: BlockToken;
  /** Of a long table or code: the token, and those that go on with it. */
  readonly parts?: Parts<BlockToken>;
  readonly depth: number;
}

function Block({ token, parts = [token], depth }: BlockProps): VNode | null {
  if (depth > MAX_DEPTH) return <p>{token.raw}</p>;
  const block = token as Tokens.Generic;
  switch (token.type) {
    case "heading":
      return <Heading token={token as Tokens.Heading} depth={depth} />;
    case "code":
      return <Code parts={parts as Parts<Tokens.Code>} />;
    case "list":
      return <List token={token as Tokens.List} isPart={token.isPart} depth={depth} />;
    case "table":
      return <Table parts={parts as Parts<Tokens.Table>} depth={depth} />;
    case "blockquote":
      return (
        <blockquote dir={directionOf(token.raw)}>
          <Blocks tokens={block.tokens ?? []} depth={depth + 1} />
        </blockquote>
      );
    case "hr":
      return <hr />;
    case "space":
    case "checkbox":
      return null;
    case "text":
      return <>{inline(block.tokens ?? [token], depth)}</>;
    case "paragraph":
      return <p dir="auto">{inline(block.tokens ?? [], depth)}</p>;
    default:
      return <p dir="auto">{token.raw}</p>;
  }
}

function Blocks({ tokens, depth }: { tokens: readonly Token[]; depth: number }) {
  return (
    <>
      {tokens.map((token, index) => (
        <Block key={index} token={token} depth={depth} />
      ))}
    </>
  );
}

/** One level below that of the conversation, however deep an answer begins: looks tell them apart. */
function Heading({ token, depth }: { token: Tokens.Heading; depth: number }) {
  return (
    <h3 dir="auto" class={`agui-h${Math.min(token.depth, 4)}`}>
      {inline(token.tokens, depth)}
    </h3>
  );
}

function List({ token, isPart, depth }: { token: Tokens.List; isPart?: boolean | undefined; depth: number }) {
  const read = token.items.map((item) => ({ item, raw: `${item.loose} ${item.raw}` }));
  const items = useUnchanged(read, ({ item }, index) => (
    <li key={index} class={item.task ? "agui-task" : undefined}>
      {item.task && (
        <input type="checkbox" checked={item.checked === true} disabled aria-label={plainText(item.tokens)} />
      )}
      <Blocks tokens={item.tokens} depth={depth + 1} />
    </li>
  ));
  const dir = directionOf(token.items.map((item) => item.text).join(" ")); // without the x of a box that is ticked
  const Kind = token.ordered ? "ol" : "ul";
  const start = token.ordered && token.start !== 1 ? { start: token.start || 0 } : undefined;
  return (
    <Kind class={isPart ? "agui-part" : undefined} dir={dir} {...start}>
      {items}
    </Kind>
  );
}

/** The rows behind the first part stand in its columns, and are laid out once they are near: a table costs by its length. */
function Table({ parts, depth }: { parts: Parts<Tokens.Table>; depth: number }) {
  const { say } = useTexts();
  const shown = useRef<HTMLTableElement>(null);
  const isLong = parts.length > 1;
  useColumns(shown, isLong);
  const rows = useUnchanged(parts, (part, index) => <Rows key={index} table={part} index={index} depth={depth} />);
  const [table] = parts;
  const isWide = (column: number) => table.rows.some((cells) => (cells[column]?.text.length ?? 0) > SENTENCE);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached without a mouse
    <section class="agui-table" dir={directionOf(table.raw)} tabIndex={0} aria-label={say("table")}>
      <table class={isLong ? "agui-long" : undefined} ref={shown}>
        <thead>
          <tr>{row(table.header, depth, isWide)}</tr>
        </thead>
        {rows}
      </table>
    </section>
  );
}

function Rows({ table, index, depth }: { table: Tokens.Table; index: number; depth: number }) {
  const rows = useUnchanged(
    table.rows.map((cells) => ({ cells, raw: cells.map((cell) => `${cell.align} ${cell.text}`).join("|") })),
    ({ cells }, place) => <tr key={place}>{row(cells, depth)}</tr>,
  );
  return <tbody class={index > 0 ? "agui-part" : undefined}>{rows}</tbody>;
}

/** `isWide`: which columns are, where the row is the table's head. */
function row(cells: readonly Tokens.TableCell[], depth: number, isWide?: (column: number) => boolean): VNode[] {
  const Cell = isWide ? "th" : "td";
  return cells.map((cell, index) => (
    <Cell
      key={index}
      class={[cell.align && `agui-${cell.align}`, isWide?.(index) && "agui-wide"].filter(Boolean).join(" ")}
      scope={isWide && "col"}
    >
      {inline(cell.tokens, depth + 1)}
    </Cell>
  ));
}

/** Tells the rows of a long table how wide its columns are, which its first part decides. */
function useColumns(shown: RefObject<HTMLTableElement | null>, isLong: boolean): void {
  useLayoutEffect(() => {
    const table = shown.current;
    if (!isLong || table === null) return;
    const cells = [...table.querySelectorAll("th")];
    const sizes = new ResizeObserver(() => {
      const widths = cells.map((cell) => `${cell.getBoundingClientRect().width}px`);
      table.style.setProperty("--columns", widths.join(" "));
    });
    for (const cell of cells) sizes.observe(cell);
    return () => sizes.disconnect();
  }, [isLong]);
}

/** What is drawn for each item; for those that read as they did the time before, the same element, which costs nothing. */
function useUnchanged<Item extends { readonly raw: string }>(
  items: readonly Item[],
  draw: (item: Item, index: number) => VNode,
): VNode[] {
  const before = useRef<{ raw: string; node: VNode }[]>([]);
  before.current = items.map((item, index) => {
    const known = before.current[index];
    return known?.raw === item.raw ? known : { raw: item.raw, node: draw(item, index) };
  });
  return before.current.map(({ node }) => node);
}

function Code({ parts }: { parts: Parts<Tokens.Code> }) {
  const { say } = useTexts();
  const language = /^[\w+#.-]{1,24}/.exec(parts[0].lang ?? "")?.[0] ?? "";
  const pieces = usePieces(parts, language);
  return (
    <figure class="agui-code" part="code" data-language={language || undefined}>
      <figcaption>
        <span>{language || say("code")}</span>
        <CopyButton text={() => parts.map(({ text }) => text).join("\n")} label={say("copyCode")} />
      </figcaption>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached without a mouse */}
      <pre tabIndex={0} dir="ltr">
        <code>{pieces}</code>
      </pre>
    </figure>
  );
}

interface Piece {
  readonly raw: string;
  readonly node: VNode;
  /** What it leaves open for the next one. */
  readonly open: string;
}

/** A file of its own, which comes with the first code. Until it is there, and where it is refused, code has one colour. */
const colours = signal<typeof colourCode | undefined>(undefined);
let asked = false;

function askForColours(): void {
  if (asked) return;
  asked = true;
  import("./code_colours").then(
    (file) => {
      colours.value = file.colourCode;
    },
    () => undefined,
  );
}

/** Code in pieces of some lines; those that read as they did the time before are the same elements. */
function usePieces(parts: readonly Tokens.Code[], language: string): VNode[] {
  const before = useRef<Piece[]>([]);
  const colour = language ? colours.value : undefined;
  useEffect(() => {
    if (language) askForColours();
  }, [language]);
  const pieces: Piece[] = [];
  let length = 0;
  for (const piece of parts.flatMap(piecesOf)) {
    length += piece.length;
    const shown = !colour || length > MOST_COLOURED || piece.length > MOST_TOGETHER ? "" : language;
    const open = pieces.at(-1)?.open ?? "";
    const raw = [shown, open, piece].join("\n");
    const known = before.current[pieces.length];
    pieces.push(known?.raw === raw ? known : { raw, ...drawn(colour?.(piece, shown, open), piece, pieces.length) });
  }
  before.current = pieces;
  return pieces.map(({ node }) => node);
}

function piecesOf(part: Tokens.Code): readonly string[] {
  const lines = part.text.split("\n");
  const texts = [];
  for (let line = 0; line < lines.length; line += LINES_TOGETHER) {
    texts.push(lines.slice(line, line + LINES_TOGETHER).join("\n"));
  }
  return texts;
}

function drawn(coloured: ColouredCode | undefined, code: string, key: number): { node: VNode; open: string } {
  const parts = coloured?.parts ?? [{ kind: undefined, text: code }];
  const node = (
    <span class="agui-lines" key={key}>
      {parts.map(({ kind, text }, index) =>
        kind === undefined ? (
          marked(text)
        ) : (
          <span key={index} class={`agui-code-${kind}`}>
            {marked(text)}
          </span>
        ),
      )}
    </span>
  );
  return { node, open: coloured?.open ?? "" };
}

function inline(tokens: readonly Token[], depth: number): ComponentChildren {
  return tokens.map((token) => span(token, depth + 1));
}

function span(token: Token, depth: number): ComponentChildren {
  if (depth > MAX_DEPTH) return token.raw;
  const within = () => inline((token as Tokens.Generic).tokens ?? [], depth);
  switch (token.type) {
    case "strong":
      return <strong>{within()}</strong>;
    case "em":
      return <em>{within()}</em>;
    case "del":
      return <del>{within()}</del>;
    case "codespan":
      return <code>{marked((token as Tokens.Codespan).text)}</code>;
    case "br":
      return <br />;
    case "link":
      return <Link token={token as Tokens.Link}>{within()}</Link>;
    case "image":
      return <RemoteImage token={token as Tokens.Image} />;
    case "text": {
      const text = token as Tokens.Text;
      return text.tokens === undefined ? decoded(text.text) : inline(text.tokens, depth);
    }
    case "escape":
      return (token as Tokens.Escape).text;
    case "checkbox":
      return null;
    default:
      return token.raw;
  }
}

/** A link that cannot be followed safely is its words. Where they name another place, the one that it leads to stands there too. */
function Link({ token, children }: { token: Tokens.Link; children: ComponentChildren }) {
  const url = safeAddress(token.href);
  if (url === undefined) return <>{children}</>;
  const words = token.tokens.map(wordsOf).join("");
  const isUnseen = parted(words, PROSE).length > 1;
  return (
    <Outward url={url}>
      {isUnseen ? marked(words, PROSE) : children}
      {(isUnseen || namesAnother(words, url)) && <Place url={url} />}
    </Outward>
  );
}

/** What is written in Latin letters and nothing else: a browser has made it so. */
function Place({ url }: { url: URL }) {
  return <span class="agui-host"> ({url.host || url.pathname})</span>;
}

function RemoteImage({ token }: { token: Tokens.Image }) {
  const { say } = useTexts();
  const url = safeAddress(token.href);
  const name = decoded(token.text) || say("image");
  if (url === undefined) return <>{name}</>;
  return (
    <Outward url={url} kind="agui-remote-image">
      <Icon name="image" /> {say("remoteImage", { name })}
      <Place url={url} />
    </Outward>
  );
}

function Outward({ url, kind, children }: { url: URL; kind?: string; children: ComponentChildren }) {
  return (
    // with a direction of its own it does not decide that of the paragraph, whose words are others'
    <a
      class={kind}
      dir={kind ? "auto" : undefined}
      href={url.href}
      title={url.href}
      target="_blank"
      rel="noopener noreferrer nofollow"
    >
      {children}
    </a>
  );
}

/** The words alone: what a screen reader is told of a finished answer. */
export function plainText(tokens: readonly Token[]): string {
  return tokens
    .map(wordsOf)
    .join("")
    .replace(/\s*\n\s*/g, "\n")
    .trim();
}

function wordsOf(token: Token): string {
  const any = token as Tokens.Generic;
  if (token.type === "list")
    return `${(token as Tokens.List).items.map((item) => plainText(item.tokens)).join("\n")}\n`;
  if (token.type === "table") {
    const { header, rows } = token as Tokens.Table;
    return `${[...((token as BlockToken).goesOn ? [] : [header]), ...rows].map((row) => row.map((cell) => plainText(cell.tokens)).join(", ")).join("\n")}\n`;
  }
  const end = ["paragraph", "heading", "code", "blockquote"].includes(token.type) ? "\n" : "";
  if (any.tokens !== undefined && token.type !== "image") return any.tokens.map(wordsOf).join("") + end;
  if (token.type === "br") return "\n";
  if (token.type === "hr" || token.type === "checkbox" || token.type === "space") return "";
  return decoded(any.text ?? token.raw) + end;
}
