/**
 * The bytes of an event stream -> its frames: LF alone, one JSON object in `data:`, the event's number in `id:`.
 *
 * Below: AG-UI's words. Cut as the network likes to, in the middle of a character too.
 */
import type { WireEvent } from "./ag_ui";
import { UnreadableStreamError } from "./run_reader";

export interface Frame {
  readonly event: WireEvent;
  /** What to go on behind when the stream breaks; undefined where the frame had none. */
  readonly id: string | undefined;
}

/** HttpAgent reads no larger frame either. */
const MAX_CHARACTERS = 10 * 1024 * 1024;

export class FrameReader {
  #decoder = new TextDecoder();
  #text = "";

  /** The frames that are complete with these bytes. Raises UnreadableStreamError. */
  push(bytes: Uint8Array): Frame[] {
    const seen = Math.max(this.#text.length - 1, 0);
    this.#text += this.#decoder.decode(bytes, { stream: true });
    const frames: Frame[] = [];
    let start = 0;
    for (let end = this.#text.indexOf("\n\n", seen); end >= 0; end = this.#text.indexOf("\n\n", start)) {
      this.#take(this.#text.slice(start, end), frames);
      start = end + 2;
    }
    this.#text = this.#text.slice(start);
    if (this.#text.length > MAX_CHARACTERS) throw new UnreadableStreamError("a frame is longer than 10 MiB");
    return frames;
  }

  /** The frame that was left open where the stream ended properly. */
  end(): Frame[] {
    const frames: Frame[] = [];
    this.#take(this.#text + this.#decoder.decode(), frames);
    this.#text = "";
    return frames;
  }

  #take(text: string, frames: Frame[]): void {
    let data: string | undefined;
    let id: string | undefined;
    for (const line of text.split("\n")) {
      if (line.startsWith("data:")) data = (data === undefined ? "" : `${data}\n`) + line.slice(5).replace(/^ /, "");
      else if (line.startsWith("id:")) id = line.slice(3).trim();
    }
    if (data !== undefined) frames.push({ event: parse(data), id });
  }
}

function parse(data: string): WireEvent {
  let event: unknown;
  try {
    event = JSON.parse(data);
  } catch {
    throw new UnreadableStreamError("a frame holds no JSON");
  }
  if (typeof event !== "object" || !event || Array.isArray(event)) {
    throw new UnreadableStreamError("a frame holds no object");
  }
  const { type } = event as { type?: unknown };
  if (typeof type !== "string" || !type) throw new UnreadableStreamError("a frame has no event type");
  return event as WireEvent;
}
