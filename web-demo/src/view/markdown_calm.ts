/**
 * Markdown that is still being written, as it will most likely look: without the marks of what is only begun.
 *
 * Below: nothing. Above: markdown_blocks. Only looks: what is cut off or closed here shows as it is once more has come.
 * Works on the end of the text, from the start of a block on.
 */

const FENCE = /^[ \t]*(?:(?:[-*+>]|\d{1,9}[.)])[ \t]+)*(`{3,}|~{3,})(.*)$/;
/** A line that is nothing but the start of something: a bullet, a heading, a quote, a rule, a table, a task. */
const ONLY_MARKS =
  /^[ \t>]*(?:[-*+]|#{1,6}|`{1,2}|~{1,3}|\||[-*_=]{2,}|[*_]{1,3}|!?\[|(?:[-*+]|\d{1,9}[.)])[ \t]+(?:\[[ xX]?\]?|[*_`#>|!~-]{1,3}))[ \t]*$/;
const LEAF_START = /^[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?|#{1,6}[ \t]+|>[ \t]?)*/;
const BLOCK_START = /^[ \t]*(?:[-*+][ \t]|\d{1,9}[.)][ \t]|#{1,6}[ \t]|>|\|)/;
/** Emphasis in emphasis: what is nested deeper than this is noise, and stays as it is. */
const MAX_OPEN = 8;
const TABLE_RULE = /^[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;

/** `tail` with what is unfinished at its end closed or left out. */
export function calm(tail: string): string {
  const lines = tail.split("\n");
  const fence = openFence(lines);
  if (fence !== undefined) return calmCode(lines, fence);
  if (lines.length > 0 && ONLY_MARKS.test(lines[lines.length - 1] ?? "")) lines[lines.length - 1] = "";
  const start = leafStart(lines);
  const rows = lines.slice(start).filter((line) => line !== "");
  if (rows[0]?.trimStart().startsWith("|")) return calmTable(lines, start);
  const before = lines.slice(0, start).join("\n");
  const leaf = lines.slice(start).join("\n");
  const mark = LEAF_START.exec(leaf)?.[0] ?? "";
  return (start > 0 ? `${before}\n` : "") + mark + closed(leaf.slice(mark.length));
}

interface Fence {
  readonly line: number;
  readonly mark: string;
}

/** The code fence that is still open at the end. */
function openFence(lines: readonly string[]): Fence | undefined {
  let open: Fence | undefined;
  for (const [line, text] of lines.entries()) {
    const [, mark = "", rest = ""] = FENCE.exec(text) ?? [];
    if (mark === "") continue;
    if (open === undefined) {
      if (mark[0] === "~" || !rest.includes("`")) open = { line, mark };
    } else if (mark[0] === open.mark[0] && mark.length >= open.mark.length && rest.trim() === "") {
      open = undefined;
    }
  }
  return open;
}

/** Without a language that may not be written out yet, and without the first marks of the fence that ends it. */
function calmCode(lines: readonly string[], fence: Fence): string {
  const last = lines.length - 1;
  const text = lines[last] ?? "";
  if (fence.line === last) {
    return [...lines.slice(0, last), text.slice(0, text.indexOf(fence.mark) + fence.mark.length)].join("\n");
  }
  return (/^[ \t]*(`+|~+)$/.exec(text)?.[1]?.[0] === fence.mark[0] ? lines.slice(0, last) : lines).join("\n");
}

/** The line where the last paragraph, list item, heading or table begins. */
function leafStart(lines: readonly string[]): number {
  let table = false;
  for (let line = lines.length - 1; line >= 0; line--) {
    const text = lines[line] ?? "";
    const row = text.trimStart().startsWith("|");
    if (table && !row) return line + 1;
    if (row) table = true;
    else if (BLOCK_START.test(text)) return line;
    else if (text.trim() === "" && line < lines.length - 1) return line + 1;
  }
  return 0;
}

/** A head without its rule, or with half of it, is a table already. */
function calmTable(lines: readonly string[], start: number): string {
  const [head = "", rule = "", ...rows] = lines.slice(start);
  const columns = cells(head).length;
  const before = lines.slice(0, start);
  if (rows.length === 0 && !(TABLE_RULE.test(rule) && cells(rule).length === columns)) {
    return [...before, lines.length === start + 1 ? calmRow(head) : head, `|${" --- |".repeat(columns)}`].join("\n");
  }
  const last = lines[lines.length - 1] ?? "";
  return [...lines.slice(0, -1), rows.length > 0 ? calmRow(last) : last].join("\n");
}

function calmRow(row: string): string {
  const cell = row.lastIndexOf("|") + 1;
  return row.slice(0, cell) + closed(row.slice(cell));
}

function cells(row: string): string[] {
  return row
    .trim()
    .replace(/^\|/, "")
    .replace(/\|$/, "")
    .split(/(?<!\\)\|/);
}

/** The text of one paragraph with its open emphasis and code closed; of a half link only its words stay. */
function closed(leaf: string): string {
  let text = leaf.replace(/(?<!\\)[*_~]+[ \t]*$/, "").trimEnd();
  const open: string[] = [];
  const brackets: number[] = [];
  for (let at = 0; at < text.length; at++) {
    const char = text[at] ?? "";
    if (char === "\\") at++;
    else if (char === "`") {
      const run = runAt(text, at, char);
      const end = endOfCode(text, at + run.length, run);
      if (end === undefined) {
        const code = text.slice(at + run.length).replace(/`+$/, "");
        return text.slice(0, at) + (code === "" ? "" : run + code + run) + open.reverse().join("");
      }
      at = end - 1;
    } else if (char === "*" || char === "_" || char === "~") {
      const run = runAt(text, at, char);
      follow(open, run, text[at - 1] ?? " ", text[at + run.length] ?? " ");
      if (open.length > MAX_OPEN) return leaf;
      at += run.length - 1;
    } else if (char === "[") brackets.push(at);
    else if (char === "]" && brackets.length > 0) {
      const start = brackets.pop() ?? 0;
      const end = text[at + 1] === "(" ? text.indexOf(")", at) : at + 1 === text.length ? -1 : at + 1;
      if (end === -1) {
        text = withoutBracket(text.slice(0, at), start);
        break;
      }
      at = end - (text[at + 1] === "(" ? 0 : 1);
    }
  }
  const half = brackets.at(-1);
  if (half !== undefined && text[half] === "[") text = withoutBracket(text, half);
  return text.trimEnd() + open.reverse().join("");
}

function runAt(text: string, at: number, char: string): string {
  let end = at + 1;
  while (text[end] === char) end++;
  return text.slice(at, end);
}

function endOfCode(text: string, from: number, run: string): number | undefined {
  for (let at = text.indexOf(run, from); at >= 0; ) {
    const found = runAt(text, at, "`");
    if (found === run) return at + run.length;
    at = text.indexOf(run, at + found.length);
  }
  return undefined;
}

/** What a run of emphasis marks does to those that are open. */
function follow(open: string[], run: string, before: string, after: string): void {
  if (run.length > 3) return;
  const place = open.lastIndexOf(run);
  if (place >= 0 && before.trim() !== "") open.splice(place);
  else if (after.trim() !== "" && !(run[0] === "_" && /\w/.test(before)) && !(run === "~")) open.push(run);
}

function withoutBracket(text: string, at: number): string {
  return text.slice(0, text[at - 1] === "!" ? at - 1 : at) + text.slice(at + 1);
}
