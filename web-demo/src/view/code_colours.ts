/**
 * Code told apart: comments, texts, numbers, and the words of its language. Below: nothing.
 *
 * One expression for each family of languages, and no grammar: what it does not know stays as it is, and nothing is left
 * out or put in. Code is read in pieces, each of which says what it leaves open for the next. The expressions look
 * neither far back nor far ahead, so that no code takes them long.
 */

export type CodeKind = "comment" | "text" | "number" | "word";

export interface CodePart {
  /** Undefined: nothing in particular. */
  readonly kind: CodeKind | undefined;
  readonly text: string;
}

export interface ColouredCode {
  readonly parts: readonly CodePart[];
  /** What opened a comment or a text that is not over: "" where there is none. */
  readonly open: string;
}

interface Family {
  /** Its groups: comment, word, text, number; and what is a word only where `words` has it. */
  readonly expression: RegExp;
  readonly words: ReadonlySet<string>;
}

/** By what opens them: comments and texts of more than one line. */
const CLOSERS: { readonly [opener: string]: string } = {
  "/*": "*/",
  "<!--": "-->",
  '"""': '"""',
  "'''": "'''",
  "`": "`",
};
const NEVER = "(?!)";
const DOUBLE = /"(?:\\.|[^"\\\n])*"?/.source;
const SINGLE = /'(?:\\.|[^'\\\n])*'?/.source;
/** One character: a single quote that stands alone is no text, but a lifetime, say. */
const CHARACTER = /'(?:\\[^'\n]{1,10}|[^'\\\n])'/.source;
const TRIPLE = /"""[\s\S]*?(?:"""|(?![\s\S]))|'''[\s\S]*?(?:'''|(?![\s\S]))/.source;
const BACKTICK = /`(?:\\[\s\S]|[^`\\])*`?/.source;
const BLOCK = /\/\*[\s\S]*?(?:\*\/|(?![\s\S]))/.source;
const SLASHES = `//.*|${BLOCK}`;
const HASH = /(?<!\S)#.*/.source;
const NUMBER = /\b\d(?:[\w.]|(?<=[eE])[+-])*/.source;
const NAME = /[\p{L}_$][\p{L}\p{N}_$]*(?:'\p{L}+)?/u.source;

// the words that tell a language's lines apart, not all that there are
const SHARED =
  "async await break case class continue do else false for from if import in is null return true try while";
const CURLY = `${SHARED} catch const default enum export extends fn func function impl int interface let match mut new nil private pub public static struct switch this throw type typeof use var void`;
const SCRIPT = `${SHARED} False None True and as def done elif elsif end except export fi lambda local not or pass raise self then with yield`;
const QUERY = `${SHARED} and as between by create delete distinct end exists group having insert into join left like limit not on or order select set table then union update values when where with`;
const DATA = "false no null true yes";

function family(comment: string, text: string, words: string, word = NEVER): Family {
  const expression = new RegExp(`(${comment})|(${word})|(${text})|(${NUMBER})|${NAME}`, "gmu");
  return { expression, words: new Set(words.split(" ")) };
}

const FAMILIES: readonly (readonly [string, Family])[] = [
  [
    "js javascript jsx mjs ts typescript tsx php dart scss less graphql",
    family(SLASHES, `${DOUBLE}|${SINGLE}|${BACKTICK}`, CURLY),
  ],
  [
    "java c h cpp c++ cs csharp go rust rs swift kotlin scala zig proto",
    family(SLASHES, `${DOUBLE}|${CHARACTER}|${BACKTICK}`, CURLY),
  ],
  [
    "py python sh bash zsh shell console rb ruby r perl elixir powershell",
    family(HASH, `${TRIPLE}|${DOUBLE}|${SINGLE}`, SCRIPT),
  ],
  ["sql lua", family(`--.*|${BLOCK}`, `${DOUBLE}|${SINGLE}`, `${QUERY} ${QUERY.toUpperCase()}`)],
  [
    "yaml yml toml ini conf properties env hcl dockerfile makefile nginx",
    family(
      HASH,
      `${DOUBLE}|${SINGLE}`,
      DATA,
      /(?<=^[ \t-]{0,40}|[{,][ \t]{0,4})[\w.-]{1,80}(?=[ \t]{0,8}[:=](?:\s|$))/.source,
    ),
  ],
  ["json jsonc json5 jsonl", family(SLASHES, DOUBLE, DATA, /"(?:\\.|[^"\\\n])*"(?=\s{0,8}:)/.source)],
  ["css", family(BLOCK, `${DOUBLE}|${SINGLE}`, "", /@[\w-]+|(?<![\w-])[\w-]{1,80}(?=:\s)/.source)],
  [
    "html xml svg vue",
    family(/<!--[\s\S]*?(?:-->|(?![\s\S]))/.source, `(?<==)(?:${DOUBLE}|${SINGLE})`, "", /<\/?[\w:-]+|\/?>/.source),
  ],
  ["diff patch", family(/^(?:@@|diff|index|---|\+\+\+).*/.source, /^\+.*/.source, "", /^-.*/.source)],
];
const KNOWN = new Map(FAMILIES.flatMap(([names, each]) => names.split(" ").map((name) => [name, each] as const)));

/** `open`: what the piece before left open. A language that is not known has no colours. */
export function colourCode(code: string, language: string, open = ""): ColouredCode {
  const known = KNOWN.get(language.toLowerCase());
  if (known === undefined) return { parts: [{ kind: undefined, text: code }], open: "" };
  const parts: CodePart[] = [];
  const add = (kind: CodeKind | undefined, text: string) => text !== "" && parts.push({ kind, text });
  let at = 0;
  if (open !== "") {
    const closer = CLOSERS[open] ?? "";
    const end = code.indexOf(closer);
    at = end < 0 ? code.length : end + closer.length;
    add(open === "/*" || open === "<!--" ? "comment" : "text", code.slice(0, at));
    if (end < 0) return { parts, open };
  }
  let left = "";
  known.expression.lastIndex = at;
  for (let match = known.expression.exec(code); match !== null; match = known.expression.exec(code)) {
    const kind = kindOf(match, known.words);
    if (kind === undefined) continue;
    add(undefined, code.slice(at, match.index));
    add(kind, match[0]);
    at = match.index + match[0].length;
    if (at === code.length) left = leftOpen(match[0]);
  }
  add(undefined, code.slice(at));
  return { parts, open: left };
}

function kindOf(match: RegExpExecArray, words: ReadonlySet<string>): CodeKind | undefined {
  const [all, comment, word, text, number] = match;
  if (comment !== undefined) return "comment";
  if (text !== undefined) return "text";
  if (number !== undefined) return "number";
  return word !== undefined || words.has(all) ? "word" : undefined;
}

function leftOpen(text: string): string {
  const opener = Object.keys(CLOSERS).find((each) => text.startsWith(each));
  if (opener === undefined) return "";
  return text.length >= 2 * opener.length && text.endsWith(CLOSERS[opener] ?? "") ? "" : opener;
}
