/**
 * A reader that also tells the host page what happens: runs, messages, tool calls. Below: the reader.
 *
 * What a thread that is looked at already had is no news; what comes behind its snapshot is.
 */
import type { JsonObject, JsonValue } from "../chat/contract";
import { textOf } from "../chat/history";
import type { WireContext, WireEvent, WireInput, WireMessage } from "../wire/ag_ui";
import type { RunObserver, RunReader } from "../wire/run_reader";

/** The host page's events, without their prefix, and what their `detail` holds. */
export interface ChatNews {
  message: { id: string; role: "user" | "assistant"; text: string; threadId: string };
  "run-started": { threadId: string; runId: string };
  "run-finished": { threadId: string; runId: string; outcome: "success" | "interrupt" | "cancelled" | "error" };
  "tool-call": { id: string; name: string; arguments: string; threadId: string };
  state: { state: JsonValue };
}

export type Tell = <Name extends keyof ChatNews>(name: Name, detail: ChatNews[Name]) => void;

const STREAMED = /^(?:TEXT_MESSAGE|TOOL_CALL|REASONING)_/;

export class ObservedReader implements RunReader {
  readonly #told = new Set<string>();

  /** `context` is what the page says of itself, asked for anew with every run. */
  constructor(
    private readonly reader: RunReader,
    private readonly context: () => readonly WireContext[],
    private readonly tell: Tell,
  ) {}

  read(kind: "run" | "connect", input: WireInput, observer: RunObserver, signal: AbortSignal): Promise<void> {
    const { threadId } = input;
    if (kind === "run") this.#asked(input);
    const sent = kind === "run" ? { ...input, context: this.context() } : input;
    let messages: readonly WireMessage[] = input.messages;
    let run: { threadId: string; runId: string } | undefined;
    let begun = false;
    const begin = () => {
      if (!begun && run) this.tell("run-started", run);
      begun = true;
    };
    const look = (event: WireEvent) => {
      if (event.type === "RUN_STARTED") {
        run = { threadId, runId: String(event.runId) };
        begun = false;
        if (kind === "run") begin();
      } else if (STREAMED.test(event.type)) {
        begin();
        this.#streamed(event, messages, threadId);
      } else if ((event.type === "RUN_FINISHED" || event.type === "RUN_ERROR") && run && begun) {
        this.tell("run-finished", { ...run, outcome: outcomeOf(event) });
      }
    };
    return this.reader.read(
      kind,
      sent,
      {
        onAnswer: (requestId) => observer.onAnswer?.(requestId),
        onMessages: (all) => {
          messages = all;
          observer.onMessages(all);
        },
        onState: (state) => {
          observer.onState(state);
          this.tell("state", { state });
        },
        onEvent: (event) => {
          observer.onEvent(event);
          look(event);
        },
      },
      signal,
    );
  }

  /** What the person said, unless it was told before. */
  #asked({ messages, threadId }: WireInput): void {
    const last = messages.at(-1);
    if (last?.role === "user") this.#message(last, threadId);
  }

  #streamed(event: WireEvent, messages: readonly WireMessage[], threadId: string): void {
    if (event.type === "TEXT_MESSAGE_END") {
      const message = messages.find(({ id }) => id === event.messageId);
      if (message) this.#message(message, threadId);
    } else if (event.type === "TOOL_CALL_END") {
      const calls = messages.flatMap((message) => message.toolCalls ?? []);
      const call = calls.find(({ id }) => id === event.toolCallId);
      if (call) this.tell("tool-call", { id: call.id, ...call.function, threadId });
    }
  }

  #message(message: WireMessage, threadId: string): void {
    const { id, role, content } = message;
    if (this.#told.has(id) || (role !== "user" && role !== "assistant")) return;
    this.#told.add(id);
    this.tell("message", { id, role, text: textOf(content), threadId });
  }
}

function outcomeOf(event: WireEvent): ChatNews["run-finished"]["outcome"] {
  if (event.type === "RUN_ERROR") return "error";
  const type = (event.outcome as JsonObject | undefined)?.type;
  return type === "interrupt" || type === "cancelled" ? type : "success";
}
