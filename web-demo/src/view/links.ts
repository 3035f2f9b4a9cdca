/** Which of the addresses that a model writes may be followed. Below: nothing. */

const SCHEMES = new Set(["http:", "https:", "mailto:"]);
const NAMED = new Map(
  "amp& lt< gt> quot\" apos' nbsp\u00a0 copy© reg® trade™ hellip… ndash– mdash— lsquo‘ rsquo’ ldquo“ rdquo” bull• middot· times× deg° euro€ pound£ para¶ sect§ larr← rarr→ uarr↑ darr↓ le≤ ge≥ ne≠"
    .split(" ")
    .map((each) => [each.slice(0, -1), each.slice(-1)]),
);

/** The address, where it is a whole one of the web or of mail; undefined for everything else, relative ones too. */
export function safeAddress(address: string): URL | undefined {
  const text = decoded(address).trim();
  if (!URL.canParse(text)) return undefined;
  const url = new URL(text);
  return SCHEMES.has(url.protocol) ? url : undefined;
}

/** Whether the first host, or somebody's mail, that words name is not the address's. */
export function namesAnother(words: string, { host, pathname }: URL): boolean {
  const [named] = /[\p{L}\p{N}-]+(?:[.@][\p{L}\p{N}-]+)+/u.exec(words) ?? [];
  const bare = (name: string) => name.toLowerCase().replace(/^www\./, "");
  return named !== undefined && bare(named) !== bare(host.replace(/:\d+$/, "") || pathname);
}

/** Text with its character references (`&amp;`, `&#233;`) as characters. */
export function decoded(text: string): string {
  if (!text.includes("&")) return text;
  return text.replace(/&(?:#(\d{1,7})|#[xX]([\da-fA-F]{1,6})|([a-zA-Z]{2,8}));/g, (whole, decimal, hex, name) => {
    if (name !== undefined) return NAMED.get(name) ?? whole;
    const code = Number.parseInt(decimal ?? hex, decimal === undefined ? 16 : 10);
    return code > 0 && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff) ? String.fromCodePoint(code) : "\ufffd";
  });
}
