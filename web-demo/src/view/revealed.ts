/**
 * A long text that is there at once is shown piece by piece, one a frame: no frame draws more than it has the time for.
 *
 * Below: nothing. A text that grows as it is written comes in smaller pieces anyway, and is shown as it comes.
 */
import { useLayoutEffect, useRef, useState } from "preact/hooks";

/** Characters that are drawn in one frame. */
const PIECE = 12_000;
/** A piece ends behind a line, where one ends so near to its end. */
const LINE = 2_000;

/** The beginning of `text` that is to be shown now; the rest follows by itself. */
export function useRevealed(text: string): string {
  const shown = useRef("");
  const [, drawAgain] = useState(0);
  const from = text.startsWith(shown.current) ? shown.current.length : 0;
  shown.current = text.slice(0, endOfPiece(text, from));
  const isWhole = shown.current.length === text.length;
  useLayoutEffect(() => {
    if (isWhole) return;
    const frame = requestAnimationFrame(() => drawAgain((count) => count + 1));
    return () => cancelAnimationFrame(frame);
  });
  return shown.current;
}

function endOfPiece(text: string, from: number): number {
  const end = from + PIECE;
  if (text.length <= end || document.hidden) return text.length; // a hidden page has no frames, and nobody waits for it
  const line = text.lastIndexOf("\n", end) + 1;
  return line > end - LINE ? line : end;
}
