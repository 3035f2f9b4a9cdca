/**
 * The deltas of a message that one read of the network brings, as one event: for readers that copy all messages for each
 * event, so that the number of events is what a long answer costs.
 *
 * Below: nothing. What is merged are the gateway's own frames of three kinds; all other bytes stay as they are.
 */

const DELTA =
  /^data: (\{"type":"(?:TEXT_MESSAGE_CONTENT|REASONING_MESSAGE_CONTENT|TOOL_CALL_ARGS)","(?:messageId|toolCallId)":"[^"\\]*","delta":")((?:[^"\\]|\\.)*)"\}(\nid: ?[^\n]*)?$/;
/** A frame that has come so far without its end is passed on as it comes. */
const LONG_FRAME_BYTES = 4096;
const LINE_FEED = 10;

/** The same events in fewer frames. */
export function withMergedDeltas(response: Response): Response {
  const merging = new Merging();
  const merged = response.body?.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform: (bytes, controller) => pass(merging.push(bytes), controller),
      flush: (controller) => pass(merging.rest, controller),
    }),
  );
  return new Response(merged ?? null, { status: response.status, headers: response.headers });
}

function pass(bytes: Uint8Array, controller: TransformStreamDefaultController<Uint8Array>): void {
  if (bytes.length > 0) controller.enqueue(bytes);
}

class Merging {
  /** The beginning of the last frame. */
  rest: Uint8Array = new Uint8Array();
  /** Whether a frame's beginning was passed on. */
  #isInside = false;

  push(bytes: Uint8Array): Uint8Array {
    const all = joined([this.rest, bytes]);
    this.rest = new Uint8Array();
    const begin = this.#isInside ? endOfFrame(all) : 0;
    if (begin < 0) return all;
    const end = endOfLastFrame(all, begin);
    const frames = mergedDeltas(new TextDecoder().decode(all.subarray(begin, end)));
    const left = all.subarray(end);
    this.#isInside = left.length > LONG_FRAME_BYTES;
    if (!this.#isInside) this.rest = left;
    return joined([all.subarray(0, begin), new TextEncoder().encode(frames), ...(this.#isInside ? [left] : [])]);
  }
}

/** `frames`: whole ones, each with the empty line behind it. */
function mergedDeltas(frames: string): string {
  const merged: string[] = [];
  let opening = "";
  let words: string[] = [];
  let id = "";
  const close = () => {
    if (opening) merged.push(`data: ${opening}${words.join("")}"}${id}`);
    opening = "";
    words = [];
  };
  for (const frame of frames.split("\n\n").slice(0, -1)) {
    const [, begin = "", delta = "", number = ""] = DELTA.exec(frame) ?? [];
    if (begin !== opening) close();
    if (begin) {
      opening = begin;
      words.push(delta);
      id = number;
    } else merged.push(frame);
  }
  close();
  return merged.map((frame) => `${frame}\n\n`).join("");
}

/** Where the first frame ends, with the empty line behind it; -1: it does not. */
function endOfFrame(bytes: Uint8Array): number {
  for (let at = bytes.indexOf(LINE_FEED); at >= 0; at = bytes.indexOf(LINE_FEED, at + 1)) {
    if (bytes[at + 1] === LINE_FEED) return at + 2;
  }
  return -1;
}

/** Where the last whole frame ends; `from` where there is none. */
function endOfLastFrame(bytes: Uint8Array, from: number): number {
  for (let at = bytes.lastIndexOf(LINE_FEED); at > from; at = bytes.lastIndexOf(LINE_FEED, at - 1)) {
    if (bytes[at - 1] === LINE_FEED) return at + 1;
  }
  return from;
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
