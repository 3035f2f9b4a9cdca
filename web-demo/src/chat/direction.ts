/** Which way a text runs: by its first letter, as `dir="auto"` finds it where an element's own text decides. */

const LETTER = /\p{L}/u;
export const RIGHT_TO_LEFT_LETTER = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;

/** Undefined where there is no letter. */
export function directionOf(text: string): "ltr" | "rtl" | undefined {
  const letter = LETTER.exec(text)?.[0];
  if (letter === undefined) return undefined;
  return RIGHT_TO_LEFT_LETTER.test(letter) ? "rtl" : "ltr";
}
