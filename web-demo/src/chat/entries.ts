/**
 * Messages -> what is shown: one entry for each thing said, thought or called, for as long as it lives.
 *
 * Below: history, progress. An entry is made once; what grows in it is a signal, so that a view whose list has not
 * changed does not look at the list.
 */
import { type Signal, signal } from "@preact/signals";
import type { WireCall, WireMessage } from "../wire/ag_ui";
import type { ActivityEntry, AnswerEntry, Attachment, CallEntry, CallStatus, Entry, ReasoningEntry } from "./contract";
import { attachmentsOf, mediumOf, textOf } from "./history";
import type { Progress } from "./progress";

type Writable<EntryType> = {
  -readonly [Key in keyof EntryType]: EntryType[Key] extends { readonly value: infer Value }
    ? Signal<Value>
    : EntryType[Key];
};

/** The type of the activity by which a gateway gives a medium that a model made. */
const MEDIUM = "agui_gateway.media";
/** In a tool message's metadata: the person did not want it. */
export const DECLINED = "declined";

export class EntryList {
  readonly shown: Signal<readonly Entry[]> = signal([]);
  readonly #known = new Map<string, Entry>();

  constructor(
    private readonly progress: Progress,
    private readonly isFrontend: (toolName: string) => boolean,
  ) {}

  /** Show these messages. Call in a batch. */
  update(messages: readonly WireMessage[]): void {
    const results = new Map<string, WireMessage>();
    for (const message of messages) {
      if (message.role === "tool" && message.toolCallId) results.set(message.toolCallId, message);
    }
    const entries = messages.flatMap((message) => this.#entriesOf(message, results));
    const before = this.shown.peek();
    if (entries.length !== before.length || entries.some((entry, place) => entry !== before[place])) {
      this.shown.value = entries;
    }
  }

  clear(): void {
    this.#known.clear();
    this.shown.value = [];
  }

  #entriesOf(message: WireMessage, results: ReadonlyMap<string, WireMessage>): Entry[] {
    switch (message.role) {
      case "user":
        return [this.#user(message)];
      case "assistant": {
        const calls = (message.toolCalls ?? []).map((call) => this.#call(call, results.get(call.id)));
        const says = textOf(message.content) !== "" || this.progress.isOpen(message.id);
        return says ? [this.#growing("answer", message), ...calls] : calls;
      }
      case "reasoning":
        return [this.#growing("reasoning", message)];
      case "activity":
        return [this.#activity(message)];
      default:
        return [];
    }
  }

  #user(message: WireMessage): Entry {
    return this.#entry(`user:${message.id}`, () => ({
      kind: "user",
      id: message.id,
      text: textOf(message.content),
      attachments: attachmentsOf(message.content),
    }));
  }

  #growing(kind: "answer" | "reasoning", message: WireMessage): Entry {
    const { id } = message;
    const entry = this.#entry(`${kind}:${id}`, (): Writable<AnswerEntry | ReasoningEntry> => {
      const growing = { id, text: signal(""), open: signal(false) };
      return kind === "answer" ? { kind, ...growing } : { kind, ...growing, milliseconds: signal(undefined) };
    }) as Writable<AnswerEntry> | Writable<ReasoningEntry>;
    entry.text.value = textOf(message.content);
    entry.open.value = this.progress.isOpen(id);
    if (entry.kind === "reasoning") entry.milliseconds.value = this.progress.milliseconds(id);
    return entry;
  }

  #activity(message: WireMessage): Entry {
    const entry = this.#entry(`activity:${message.id}`, (): Writable<ActivityEntry> => {
      const type = message.activityType ?? "";
      return { kind: "activity", id: message.id, type, content: signal(null), medium: signal(undefined) };
    }) as Writable<ActivityEntry>;
    const content = message.content ?? null;
    if (entry.type === MEDIUM && entry.content.peek() !== null) return entry; // it comes whole
    if (JSON.stringify(content) === JSON.stringify(entry.content.peek())) return entry;
    entry.content.value = content;
    if (entry.type === MEDIUM) entry.medium.value = mediumOf(content);
    return entry;
  }

  #call(call: WireCall, result: WireMessage | undefined): Entry {
    const side = this.isFrontend(call.function.name) ? "frontend" : "backend";
    const key = `call:${call.id}`;
    const known = this.#known.get(key) as CallEntry | undefined;
    if (known && known.side !== side) this.#known.delete(key); // its tool was registered since
    const entry = this.#entry(key, (): Writable<CallEntry> => {
      return {
        ...{ kind: "call", id: call.id, name: call.function.name, side },
        ...{ arguments: signal(""), status: signal<CallStatus>("arguments"), result: signal(undefined) },
        media: signal<readonly Attachment[]>([]),
        ...{ milliseconds: signal(undefined), question: signal(undefined) },
      };
    }) as Writable<CallEntry>;
    const mark = this.progress.callMark(call.id);
    entry.arguments.value = mark?.arguments ?? call.function.arguments;
    entry.status.value = this.#status(call, result);
    entry.result.value = result ? result.error || textOf(result.content) : mark?.result;
    if (entry.media.peek().length === 0 && Array.isArray(result?.content)) {
      entry.media.value = attachmentsOf(result.content);
    }
    entry.milliseconds.value = this.progress.milliseconds(call.id);
    entry.question.value = mark?.question;
    return entry;
  }

  #status(call: WireCall, result: WireMessage | undefined): CallStatus {
    const mark = this.progress.callMark(call.id)?.status;
    if (mark === "declined") return mark; // the gateway's answer to a call that was denied reads like a failure
    if (result?.metadata?.[DECLINED]) return "declined";
    if (result) return result.error || result.metadata?.isError ? "failed" : "done";
    if (mark) return mark;
    if (this.progress.isOpen(call.id)) return "arguments";
    return this.progress.running ? "running" : "failed";
  }

  #entry(key: string, make: () => Writable<Entry>): Entry {
    let entry = this.#known.get(key);
    if (!entry) {
      entry = make() as Entry;
      this.#known.set(key, entry);
    }
    return entry;
  }
}
