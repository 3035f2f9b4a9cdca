/**
 * A picture that goes with a message, drawn and not loaded: a page's policy that allows no images has nothing against it.
 *
 * Below: the contract.
 */
import { useEffect, useRef } from "preact/hooks";
import type { Attachment } from "../chat/contract";

/** Pixels of the longer side; more is never shown. */
const LONGEST_SIDE = 1_024;

interface LocalImageProps {
  readonly attachment: Attachment;
  readonly kind: string;
  /** Empty: its name stands beside it. */
  readonly name: string;
  readonly onBroken: () => void;
}

export function LocalImage({ attachment, kind, name, onBroken }: LocalImageProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    let isGone = false;
    draw(attachment, () => (isGone ? null : canvas.current)).catch(() => {
      if (!isGone) onBroken();
    });
    return () => {
      isGone = true;
    };
  }, [attachment]);
  return <canvas ref={canvas} class={kind} role={name ? "img" : "presentation"} aria-label={name || undefined} />;
}

async function draw({ data, mimeType }: Attachment, where: () => HTMLCanvasElement | null): Promise<void> {
  const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
  const picture = await createImageBitmap(new Blob([bytes], { type: mimeType }));
  const canvas = where();
  if (canvas) {
    const scale = Math.min(1, LONGEST_SIDE / Math.max(picture.width, picture.height));
    canvas.width = Math.max(1, Math.round(picture.width * scale));
    canvas.height = Math.max(1, Math.round(picture.height * scale));
    canvas.getContext("2d")?.drawImage(picture, 0, 0, canvas.width, canvas.height);
  }
  picture.close();
}
