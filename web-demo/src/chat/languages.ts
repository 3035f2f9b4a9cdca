/**
 * The languages besides English: each a file of its own beside the page, asked for where it is needed, so that nobody
 * carries those of others.
 *
 * Below: the texts. `public/texts/` holds the files, and in a folder of its own those of what only the page says.
 */
import { type TextChanges, type Words, wordsIn } from "./texts";

export const LANGUAGES = ["ar", "de", "es", "fr", "he", "ja", "pt", "zh"] as const;
/** Regions and scripts whose Chinese is written otherwise than ours is: our words say what they are, for the right font. */
const TRADITIONAL = /^zh[-_](?:.*[-_])?(?:hant|tw|hk|mo)\b/i;
const ENGLISH = /^en(?:[-_]|$)/i;
const OLD_NAMES: { readonly [code: string]: string } = { iw: "he" };

/** The file for a language; undefined where there is none, and for English, which is built in. */
export function textsFile(language: string): string | undefined {
  const code = language.toLowerCase().split(/[-_]/)[0] ?? "";
  return LANGUAGES.find((each) => each === (OLD_NAMES[code] ?? code));
}

/** The first of those languages that we speak; English where we speak none of them. */
export function spokenOf(languages: readonly string[]): string {
  return languages.find((each) => textsFile(each) !== undefined || ENGLISH.test(each)) ?? "en";
}

/** What a shell says besides: in English, and the folder that has the other languages' files. */
export interface MoreTexts {
  readonly english: TextChanges;
  readonly folder: string;
}

/**
 * Words in that language, with what the host page says differently. English, formats included, where we do not speak it
 * and the host page gives no texts in it either.
 */
export async function fetchWords(
  baseUrl: string,
  language: string,
  changes: TextChanges = {},
  more?: MoreTexts,
): Promise<Words> {
  const file = textsFile(language);
  const isKnown = ENGLISH.test(language) || Object.keys(changes).length > 0;
  if (file === undefined) return wordsIn(isKnown ? language : "en", more?.english, changes);
  try {
    const tables = ["texts", ...(more ? [more.folder] : [])].map((folder) =>
      fetchTable(`${baseUrl}/${folder}/${file}.json`),
    );
    const written = TRADITIONAL.test(language) && !Object.keys(changes).length ? "zh-Hans" : language;
    return wordsIn(written, Object.assign({}, more?.english, ...(await Promise.all(tables))), changes);
  } catch (error) {
    console.warn(`agui-chat: the texts in ${language} did not come, so it speaks English`, error);
    return wordsIn("en", more?.english, changes);
  }
}

async function fetchTable(url: string): Promise<TextChanges> {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`the gateway answered ${response.status}`);
  return response.json();
}
