/**
 * How a run is read: what the conversation asks of a reader, whichever one it is.
 *
 * Below: AG-UI's words. Two readers keep this contract: `http_agent_reader` over an unmodified HttpAgent, and
 * `lean_reader`, which does without. The conversation gets its reader handed in, so page and widget are one code base.
 */
import type { JsonValue } from "../chat/contract";
import type { WireEvent, WireInput, WireMessage } from "./ag_ui";

/** What a reader tells while it reads, in the order of the stream: first an event, then what it did to messages and state. */
export interface RunObserver {
  /** The gateway answers; its log knows the request by this id. */
  onAnswer?(requestId: string | undefined): void;
  /**
   * All messages as they are now: those of the input, and what came since. May be called for every delta, so do little.
   * The array and its messages are the reader's: look at them before you give control back, or when it tells the next.
   * A reader never changes a string in place, so what was read stays true.
   */
  onMessages(messages: readonly WireMessage[]): void;
  /** The thread's shared state, after a snapshot or a delta that applied. */
  onState(state: JsonValue): void;
  /** Every event, deltas included: for what messages do not tell (begin and end of things, outcome, usage, error). */
  onEvent(event: WireEvent): void;
}

export interface RunReader {
  /**
   * POST the input to the agent's `/run`, or to its `/connect` to look at a thread, and tell all that comes. The input
   * and its messages stay as they are; messages of the role `activity` are kept, and not sent.
   *
   * Resolves once the stream is over behind a RUN_FINISHED or RUN_ERROR, or once `signal` is aborted (nothing is told
   * after that).
   *
   * Rejects with a ConnectionLostError, an UnreadableStreamError, or a RefusedError of `problem`; what was told before
   * stays true. A reader need not try again by itself: whoever asked does.
   */
  read(kind: "run" | "connect", input: WireInput, observer: RunObserver, signal: AbortSignal): Promise<void>;
}

/** The bytes ended, broke or stayed away: the run may well go on, and can be taken up again. */
export class ConnectionLostError extends Error {
  override readonly name = "ConnectionLostError";
}

/** The stream held what no client can read: trying again would bring the same. */
export class UnreadableStreamError extends Error {
  override readonly name = "UnreadableStreamError";
}
