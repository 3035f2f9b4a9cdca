/**
 * A picture that goes with a message, drawn and not loaded: a page's policy that allows no images has nothing against it.
 *
 * Below: the contract.
 */
import { useEffect, useRef } from "preact/hooks";
import type { Attachment } from "../chat/contract";

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
    import("./file_reading")
      .then(({ draw }) => draw(attachment, () => (isGone ? null : canvas.current)))
      .catch(() => {
        if (!isGone) onBroken();
      });
    return () => {
      isGone = true;
    };
  }, [attachment]);
  return <canvas ref={canvas} class={kind} role={name ? "img" : "presentation"} aria-label={name || undefined} />;
}
