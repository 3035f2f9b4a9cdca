/** The language of the page: the first of the browser's that we speak. Below: the texts. */
import { effect, signal } from "@preact/signals";
import { fetchWords, spokenOf } from "../chat/languages";
import { type Words, wordsIn } from "../chat/texts";
import { pageEnglish } from "../chat/texts/en_page";

export const words = signal<Words>(wordsIn("en", pageEnglish));

effect(() => {
  const { lang, dir } = { lang: words.value.language, dir: words.value.direction };
  Object.assign(document.documentElement, { lang, dir });
});

/** Speak it from now on; English, where its texts do not come. */
export async function speak(baseUrl: string): Promise<void> {
  const more = { english: pageEnglish, folder: "texts/page" };
  words.value = await fetchWords(baseUrl, spokenOf(navigator.languages), {}, more);
}
