/**
 * A value as it is shown wherever one is: what nobody would see in it is a mark, and it turns none of its neighbours around.
 *
 * Below: unseen.
 */
import type { ComponentChildren } from "preact";
import { parted } from "../chat/unseen";
import { useTexts } from "./texts";

/** In a direction of its own. */
export function Value({ text, kept }: { text: string; kept?: RegExp }) {
  return <bdi>{marked(text, kept)}</bdi>;
}

/** For an element that has a direction of its own already. */
export function marked(text: string, kept?: RegExp): ComponentChildren {
  return parted(text, kept).map((part, place) => (place % 2 ? <Mark key={place} name={part} /> : part));
}

function Mark({ name }: { name: string }) {
  const { say } = useTexts();
  const label = say("unseen", { name });
  return (
    <span class="agui-mark" role="img" aria-label={label} title={label}>
      {name}
    </span>
  );
}
