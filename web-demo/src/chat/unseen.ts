/**
 * What nobody would see in a value, or what turns its neighbours around: bidi controls, characters without a width,
 * control characters. A person who agrees to a value has to read what is there.
 *
 * Below: nothing. Line ends, and what emoji are made of, hide nothing.
 */

const CHARACTER = "[[\\p{Cc}\\p{Cs}\\p{Default_Ignorable_Code_Point}\\u2028\\u2029\\u2800\\ufff9-\\ufffb]--[\\n\\t]]";
/** Its groups: such a character, as often as it stands there; and the character once. */
const UNSEEN = new RegExp(`\\p{RGI_Emoji}|\\r\\n|((${CHARACTER})\\2*)`, "gv");
const PLAIN = /^[\n\t -~]*$/;
/** In what nothing runs with: what joins and parts letters in the words of many languages. */
export const PROSE = /\u200c|\u200d/;
/** And in our own sentences, what the values in them are put between. */
export const SENTENCE = /\u200c|\u200d|\u2068|\u2069/;

/**
 * The text, cut where it has such a character: what is seen and the name of what is not take turns ("12", "U+202E", "34").
 * Those that `kept` fits stay.
 */
export function parted(text: string, kept?: RegExp): string[] {
  if (PLAIN.test(text)) return [text];
  const parts: string[] = [];
  let at = 0;
  for (const { 1: run, 2: character, index } of text.matchAll(UNSEEN)) {
    if (!run || !character || kept?.test(run)) continue;
    parts.push(text.slice(at, index), nameOf(character, run.length / character.length));
    at = index + run.length;
  }
  return [...parts, text.slice(at)];
}

/** The same as one text, where nothing but text can stand. */
export function spelledOut(text: string, kept?: RegExp): string {
  return parted(text, kept)
    .map((part, place) => (place % 2 ? `[${part}]` : part))
    .join("");
}

function nameOf(character: string, count: number): string {
  const code = character.codePointAt(0)?.toString(16).toUpperCase().padStart(4, "0");
  return `U+${code}${count > 1 ? ` × ${count}` : ""}`;
}
