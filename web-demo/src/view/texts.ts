/** The words that the views show: whoever shows them gives a table for all that is below. */
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import { type Words, wordsIn } from "../chat/texts";

export const TextsContext = createContext<Words | undefined>(undefined);

let english: Words | undefined;

/** The words of this chat; English where nobody gave others. */
export function useTexts(): Words {
  const words = useContext(TextsContext);
  if (words !== undefined) return words;
  english ??= wordsIn();
  return english;
}
