/**
 * What is shown of a conversation, and when: everything that changes changes the signals with the next frame.
 *
 * Below: entries, progress, the shared state, frames. The fields say how things are by now, the signals how they are
 * shown.
 */
import { batch, type ReadonlySignal, signal } from "@preact/signals";
import type { WireEvent, WireMessage } from "../wire/ag_ui";
import type { Entry, JsonValue, Phase, Problem, Usage } from "./contract";
import { EntryList } from "./entries";
import { Frames } from "./frames";
import { Progress } from "./progress";
import { SharedState } from "./shared_state";

/** For how long a reconnection's pieces are put together before they are shown. */
const RESTORE_MILLISECONDS = 100;

/** The CUSTOM event of a gateway that waits before it asks a model again. */
const WAITING = "agui_gateway.waiting";
const SHOWS = /^(?:TEXT_MESSAGE|REASONING|TOOL_CALL|ACTIVITY|STATE_DELTA)/;

export class Picture {
  readonly shown = {
    phase: signal<Phase>("idle"),
    problem: signal<Problem | undefined>(undefined),
    retriesAt: signal<Date | undefined>(undefined),
    state: signal<JsonValue | undefined>(undefined),
    usage: signal<Usage | undefined>(undefined),
  };
  readonly entries: ReadonlySignal<readonly Entry[]>;

  messages: readonly WireMessage[] = [];
  phase: Phase = "idle";
  problem: Problem | undefined;
  usage: Usage | undefined;
  readonly progress = new Progress();
  readonly state = new SharedState();

  readonly #frames = new Frames(() => this.#update());
  readonly #entryList: EntryList;

  constructor(isFrontend: (toolName: string) => boolean) {
    this.#entryList = new EntryList(this.progress, isFrontend);
    this.entries = this.#entryList.shown;
  }

  enter(phase: Phase): void {
    this.phase = phase;
    this.change();
  }

  /** What an event says besides what it does to the messages. True where it is something that one sees. */
  hear(event: WireEvent): boolean {
    this.progress.follow(event);
    const shows = SHOWS.test(event.type);
    const wait = event.name === WAITING ? (event.value as { seconds: number }) : undefined;
    this.shown.retriesAt.value = wait && new Date(Date.now() + wait.seconds * 1_000);
    if (shows && this.phase !== "stopping") this.phase = "streaming";
    this.change();
    return shows;
  }

  tell(messages: readonly WireMessage[]): void {
    this.messages = messages;
    this.change();
  }

  tellState(state: JsonValue): void {
    this.state.told(state);
    this.change();
  }

  /** Something changed: show it with the next frame. */
  change(): void {
    this.#frames.request();
  }

  /** Show it at once: somebody clicked, or somebody waited for this. */
  now(): void {
    this.#frames.now();
  }

  /** The thread's events come again from the beginning: keep what is shown until they are over. */
  restore(): void {
    this.progress.settle();
    this.progress.running = true;
    if (this.entries.peek().length > 0) this.#frames.hold(RESTORE_MILLISECONDS);
  }

  addUsage(usage: Usage | undefined): void {
    const before = this.usage;
    if (!usage || !before) {
      this.usage = before ?? usage;
      return;
    }
    this.usage = {
      inputTokens: before.inputTokens + usage.inputTokens,
      outputTokens: before.outputTokens + usage.outputTokens,
    };
  }

  /** Another thread. */
  clear(): void {
    this.messages = [];
    this.problem = this.usage = undefined;
    this.progress.clear();
    this.state.clear();
    this.#entryList.clear();
  }

  close(): void {
    this.#frames.stop();
  }

  #update(): void {
    batch(() => {
      this.#entryList.update(this.messages);
      this.shown.phase.value = this.phase;
      this.shown.problem.value = this.problem;
      this.shown.state.value = this.state.value;
      this.shown.usage.value = this.usage;
    });
  }
}
