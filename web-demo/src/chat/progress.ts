/**
 * What messages do not tell: what is open, how long it took, and how a call stands that this page works on.
 *
 * Below: AG-UI's words.
 */
import type { WireEvent } from "../wire/ag_ui";
import type { CallStatus, Question } from "./contract";

/** How a call stands. What is undefined is read from the messages. */
export interface CallMark {
  status?: CallStatus;
  result?: string | undefined;
  question?: Question | undefined;
  /** What it runs with, where a person changed what the model wrote. */
  arguments?: string;
}

/** What comes so soon behind a snapshot was there before: its beginning was not watched. */
const OLD_NEWS_MILLISECONDS = 100;

export class Progress {
  /** Is a run under way? */
  running = false;
  readonly #open = new Set<string>();
  readonly #begun = new Map<string, number>();
  readonly #took = new Map<string, number>();
  readonly #marks = new Map<string, CallMark>();
  #snapshotAt = Number.NEGATIVE_INFINITY;

  isOpen(id: string): boolean {
    return this.#open.has(id);
  }

  milliseconds(id: string): number | undefined {
    return this.#took.get(id);
  }

  callMark(id: string): CallMark | undefined {
    return this.#marks.get(id);
  }

  mark(id: string, mark: CallMark): void {
    this.#marks.set(id, { ...this.#marks.get(id), ...mark });
  }

  unmark(id: string): void {
    this.#marks.delete(id);
  }

  /** Something begins or ends now, whichever event says so. */
  begin(id: string): void {
    if (!this.#begun.has(id)) this.#begun.set(id, performance.now());
  }

  end(id: string): void {
    const begun = this.#begun.get(id);
    if (begun !== undefined && !this.#took.has(id)) this.#took.set(id, performance.now() - begun);
  }

  follow(event: WireEvent): void {
    const id = String(event.messageId ?? "");
    const call = String(event.toolCallId ?? "");
    switch (event.type) {
      case "MESSAGES_SNAPSHOT":
        this.#snapshotAt = performance.now();
        break;
      case "TEXT_MESSAGE_START":
      case "REASONING_MESSAGE_START":
        this.#open.add(id);
        if (performance.now() - this.#snapshotAt > OLD_NEWS_MILLISECONDS) this.begin(id);
        break;
      case "TEXT_MESSAGE_END":
      case "REASONING_MESSAGE_END":
        this.#open.delete(id);
        this.end(id);
        break;
      case "TOOL_CALL_START":
        this.#open.add(call);
        break;
      case "TOOL_CALL_END":
        this.#open.delete(call);
        if (performance.now() - this.#snapshotAt > OLD_NEWS_MILLISECONDS) this.begin(call);
        break;
      case "TOOL_CALL_RESULT":
        this.end(call);
        break;
    }
  }

  /** Nothing is open any more: the run is over, or is not read any more. */
  settle(): void {
    this.running = false;
    this.#open.clear();
  }

  /** Another thread. */
  clear(): void {
    this.settle();
    this.#begun.clear();
    this.#took.clear();
    this.#marks.clear();
  }
}
