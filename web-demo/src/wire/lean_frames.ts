/**
 * The bytes of an event stream -> its events: LF alone, one JSON object in each frame's `data:`.
 *
 * Below: AG-UI's words. Cut as the network likes to, in the middle of a character too.
 */
import type { WireEvent } from "./ag_ui";
import { UnreadableStreamError } from "./run_reader";

/** HttpAgent reads no larger frame either. */
const MAX_CHARACTERS = 10 * 1024 * 1024;

export class FrameReader {
  #decoder = new TextDecoder();
  #text = "";

  /** The events that are complete with these bytes. Raises UnreadableStreamError. */
  push(bytes: Uint8Array): WireEvent[] {
    const seen = Math.max(this.#text.length - 1, 0);
    this.#text += this.#decoder.decode(bytes, { stream: true });
    const events: WireEvent[] = [];
    let start = 0;
    for (let end = this.#text.indexOf("\n\n", seen); end >= 0; end = this.#text.indexOf("\n\n", start)) {
      this.#take(this.#text.slice(start, end), events);
      start = end + 2;
    }
    this.#text = this.#text.slice(start);
    if (this.#text.length > MAX_CHARACTERS) throw new UnreadableStreamError("a frame is longer than 10 MiB");
    return events;
  }

  /** The event of the frame that was left open where the stream ended properly. */
  end(): WireEvent[] {
    const events: WireEvent[] = [];
    this.#take(this.#text + this.#decoder.decode(), events);
    this.#text = "";
    return events;
  }

  #take(text: string, events: WireEvent[]): void {
    let data: string | undefined;
    for (const line of text.split("\n")) {
      if (line.startsWith("data:")) data = (data === undefined ? "" : `${data}\n`) + line.slice(5).replace(/^ /, "");
    }
    if (data !== undefined) events.push(parse(data));
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
