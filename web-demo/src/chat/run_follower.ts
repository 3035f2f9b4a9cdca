/**
 * A run followed to its end, however often the connection breaks.
 *
 * Below: a reader, the network. A run belongs to the gateway, not to the socket: one that is known there is looked at by
 * `/connect` (the thread so far, then the run's tail); one that may not have got there is posted again, under the same id,
 * which begins it, joins it or tells it again. So nothing is lost and nothing is done twice.
 */
import type { WireEvent, WireInput, WireStale } from "../wire/ag_ui";
import { isOffline, pauseBefore, waitForNetwork } from "../wire/network";
import { newId } from "../wire/new_id";
import { failure, RefusedError } from "../wire/problem";
import { ConnectionLostError, type RunObserver, type RunReader, UnreadableStreamError } from "../wire/run_reader";
import type { Problem } from "./contract";

/** `runId` is the id of the last reported run; undefined if there was none. */
interface Ended {
  readonly runId: string | undefined;
  readonly event: WireEvent;
  readonly requestId: string | undefined;
}

/** How it ended. */
export type RunEnd =
  | ({ readonly how: "failed" } & Ended)
  | ({
      readonly how: "finished";
      /** It was no run: the thread that was looked at is not there. */
      readonly isUnknownThread: boolean;
    } & Ended)
  /** The gateway took nothing in. */
  | { readonly how: "refused"; readonly problem: Problem; readonly stale: WireStale | undefined }
  | { readonly how: "unreadable"; readonly problem: Problem }
  | { readonly how: "aborted" };

export interface Follower extends RunObserver {
  /** A connection is about to be taken up again, which tells the thread from its beginning. */
  onConnect(): void;
  /** The connection was lost; it will be tried again. */
  onLost(offline: boolean): void;
}

/** What a proxy, or a gateway that restarts, answers: soon it is another answer. */
const PASSING = new Set([502, 503, 504]);
const PASSING_CODES = new Set(["unavailable", "shutting_down"]);
/** A connection that held so long was a good one: the next try is a first one again. */
const GOOD_MILLISECONDS = 5_000;

export class RunFollower {
  constructor(private readonly reader: RunReader) {}

  /** Begin a run and follow it. */
  run(input: WireInput, follower: Follower, signal: AbortSignal): Promise<RunEnd> {
    return this.#follow("run", input, follower, signal);
  }

  /** Look at a thread, and follow its run where one is under way. */
  look(threadId: string, follower: Follower, signal: AbortSignal): Promise<RunEnd> {
    return this.#follow("connect", looking(threadId), follower, signal);
  }

  async #follow(kind: "run" | "connect", input: WireInput, follower: Follower, signal: AbortSignal): Promise<RunEnd> {
    let begun = kind === "connect";
    for (let attempt = 1; ; attempt++) {
      const lap = new Lap(begun && kind === "run" ? looking(input.threadId) : input, follower);
      if (begun) follower.onConnect();
      const since = Date.now();
      const stopped = await lap.read(this.reader, begun ? "connect" : "run", signal);
      if (signal.aborted) return { how: "aborted" };
      const isUnknown = lap.end?.how === "finished" && lap.end.isUnknownThread;
      const forgotten = kind === "run" && begun && isUnknown; // the gateway lost what it had: begin anew
      if (forgotten) begun = false;
      else if (stopped) return stopped;
      else if (lap.end) return lap.end;
      begun ||= lap.runId !== undefined;
      if (forgotten) continue;
      if (Date.now() - since > GOOD_MILLISECONDS) attempt = 1;
      follower.onLost(isOffline());
      await waitForNetwork(pauseBefore(attempt), signal);
    }
  }
}

/** One connection. */
class Lap {
  runId: string | undefined;
  end: RunEnd | undefined;
  #hasMessages = false;
  #requestId: string | undefined;

  constructor(
    private readonly input: WireInput,
    private readonly follower: Follower,
  ) {}

  /** Resolves when the connection is over; with an end, where trying again would be no use. */
  async read(reader: RunReader, kind: "run" | "connect", signal: AbortSignal): Promise<RunEnd | undefined> {
    const { follower } = this;
    const observer: RunObserver = {
      onAnswer: (requestId) => {
        this.#requestId = requestId;
      },
      onMessages: (messages) => follower.onMessages(messages),
      onState: (state) => follower.onState(state),
      onEvent: (event) => {
        this.#note(event);
        follower.onEvent(event);
      },
    };
    try {
      await reader.read(kind, this.input, observer, signal);
    } catch (error) {
      if (signal.aborted) return { how: "aborted" };
      return whyNot(error);
    }
    return undefined;
  }

  #note(event: WireEvent): void {
    if (event.type === "RUN_STARTED") this.runId = String(event.runId);
    else if (event.type === "MESSAGES_SNAPSHOT") this.#hasMessages = true;
    else if (event.type === "RUN_FINISHED") this.end = this.#finished(event);
    else if (event.type === "RUN_ERROR") this.end = { how: "failed", ...this.#ended(event) };
  }

  /** For an unknown thread the gateway sends a run with the requested id and without messages. */
  #finished(event: WireEvent): RunEnd {
    const isUnknownThread = this.runId === this.input.runId && !this.#hasMessages;
    return { how: "finished", ...this.#ended(event), isUnknownThread };
  }

  #ended(event: WireEvent): Ended {
    return { runId: this.runId, event, requestId: this.#requestId };
  }
}

/** Undefined where another try may help. */
function whyNot(error: unknown): RunEnd | undefined {
  if (error instanceof ConnectionLostError) return undefined;
  if (error instanceof RefusedError) {
    if (PASSING.has(error.status) && PASSING_CODES.has(error.problem.code)) return undefined;
    return { how: "refused", problem: error.problem, stale: error.stale };
  }
  const message = error instanceof UnreadableStreamError ? error.message : String(error);
  return { how: "unreadable", problem: failure("unreadable", message) };
}

function looking(threadId: string): WireInput {
  const runId = `look-${newId()}`;
  return { threadId, runId, messages: [], tools: [], context: [], state: undefined };
}
