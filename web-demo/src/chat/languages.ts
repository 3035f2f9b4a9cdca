/**
 * The languages besides English: each a file of its own beside the page, asked for where it is needed, so that nobody
 * carries those of others.
 *
 * Below: the texts. `public/texts/` holds the files.
 */
import { type TextChanges, type Words, wordsIn } from "./texts";

export const LANGUAGES = ["ar", "de", "es", "fr", "he", "ja", "pt", "zh"] as const;
const OLD_NAMES: { readonly [code: string]: string } = { iw: "he" };

/** The file for a language; undefined where there is none, and for English, which is built in. */
export function textsFile(language: string): string | undefined {
  const code = language.toLowerCase().split(/[-_]/)[0] ?? "";
  return LANGUAGES.find((each) => each === (OLD_NAMES[code] ?? code));
}

/**
 * Words in that language, with what the host page says differently. English, formats included, where we do not speak it
 * and the host page gives no texts in it either.
 */
export async function fetchWords(baseUrl: string, language: string, changes: TextChanges = {}): Promise<Words> {
  const file = textsFile(language);
  if (file === undefined) return wordsIn(Object.keys(changes).length > 0 ? language : "en", {}, changes);
  try {
    const response = await fetch(`${baseUrl}/texts/${file}.json`);
    if (!response.ok) throw new Error(`the gateway answered ${response.status}`);
    return wordsIn(language, (await response.json()) as TextChanges, changes);
  } catch (error) {
    console.warn(`agui-chat: the texts in ${language} did not come, so it speaks English`, error);
    return wordsIn("en", {}, changes);
  }
}
