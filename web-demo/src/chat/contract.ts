/**
 * The conversation as views see it: the types that `wire/`, `chat/`, `view/`, `page/` and `widget/` share.
 *
 * Below: nothing. `wire/` reads runs, `chat/` keeps the conversation, `view/` shows it; the page and the widget are two
 * shells around the same three. Everything that changes while an answer streams is a signal, and all signals change
 * together at most once per animation frame, so that a view that reads them lays out once per frame, not once per token.
 */
import type { ReadonlySignal } from "@preact/signals";

export type JsonValue = null | boolean | number | string | JsonValue[] | { [key: string]: JsonValue };
export type JsonObject = { [key: string]: JsonValue };

/** What the person was last told about the run. `reconnecting`: the stream broke and is being taken up again. */
export type Phase = "idle" | "loading" | "waiting" | "streaming" | "stopping" | "reconnecting" | "offline";

/** A file that goes with a message. `data` is base64 without a prefix. */
export interface Attachment {
  readonly kind: "image" | "document" | "audio" | "video";
  readonly name: string;
  readonly mimeType: string;
  readonly bytes: number;
  /** Base64; empty where it is elsewhere. */
  readonly data: string;
  /** Where it is, if it is not here. */
  readonly url?: string;
}

/**
 * What is shown, in order. An entry is one object for as long as it lives; what grows in it is a signal. An id belongs to
 * one entry of its kind: a message that says something and calls a tool is two entries.
 */
export type Entry = UserEntry | AnswerEntry | ReasoningEntry | CallEntry | ActivityEntry;

export interface UserEntry {
  readonly kind: "user";
  readonly id: string;
  readonly text: string;
  readonly attachments: readonly Attachment[];
}

export interface AnswerEntry {
  readonly kind: "answer";
  readonly id: string;
  readonly text: ReadonlySignal<string>;
  readonly open: ReadonlySignal<boolean>;
}

export interface ReasoningEntry {
  readonly kind: "reasoning";
  readonly id: string;
  readonly text: ReadonlySignal<string>;
  readonly open: ReadonlySignal<boolean>;
  /** Undefined where it was not watched from its start (after a reload). */
  readonly milliseconds: ReadonlySignal<number | undefined>;
}

/**
 * `arguments`: the model is writing them. `running`: a backend tool works, or a handler of this page. `waiting`: it is
 * the person's turn (see `question`). `approval`: an approval card is open for it.
 */
export type CallStatus = "arguments" | "running" | "waiting" | "approval" | "done" | "failed" | "declined";

export interface CallEntry {
  readonly kind: "call";
  readonly id: string;
  readonly name: string;
  /** Where it runs: in the gateway, or here. */
  readonly side: "backend" | "frontend";
  /** JSON text as it comes, possibly unfinished. */
  readonly arguments: ReadonlySignal<string>;
  readonly status: ReadonlySignal<CallStatus>;
  /** Text, or what the error says where `status` is `failed` or `declined`. */
  readonly result: ReadonlySignal<string | undefined>;
  /** What the result has besides words. */
  readonly media: ReadonlySignal<readonly Attachment[]>;
  readonly milliseconds: ReadonlySignal<number | undefined>;
  /** Set while a frontend tool waits for the person. */
  readonly question: ReadonlySignal<Question | undefined>;
}

export interface ActivityEntry {
  readonly kind: "activity";
  readonly id: string;
  readonly type: string;
  readonly content: ReadonlySignal<JsonValue>;
  /** What a model made besides words, where that is what the activity is. */
  readonly medium: ReadonlySignal<Attachment | undefined>;
}

/** A frontend tool that asks first (`confirm`), or is itself a question. */
export interface Question {
  readonly text: string;
  accept(): void;
  decline(reason?: string): void;
}

/** An interrupt: a backend tool that runs only if a person agrees. */
export interface Approval {
  readonly id: string;
  readonly callId: string | undefined;
  readonly toolName: string;
  readonly message: string;
  /** As the model wrote them, numbers too: json.ts reads, shows and sends these. */
  readonly arguments: JsonObject;
  /** JSON Schema of `arguments`, where the gateway tells it. */
  readonly schema: JsonObject | undefined;
  readonly expiresAt: Date | undefined;
  /** Somebody else approves: the person here may only give it up. */
  readonly isForOthers: boolean;
  /** Undefined until the person chose; the run goes on once every open approval has a choice. */
  readonly choice: ReadonlySignal<ApprovalChoice | undefined>;
}

export type ApprovalChoice =
  | { readonly approved: true; readonly editedArgs?: JsonObject }
  | { readonly approved: false; readonly reason?: string };

/** Something went wrong, in words for a person: what happened, and what can be done. */
export interface Problem {
  /** A stable code: the gateway's, or `network`, `unauthenticated`, `rate_limited`, `too_large`. */
  readonly code: string;
  readonly message: string;
  readonly retryable: boolean;
  readonly retryAfterSeconds: number | undefined;
  /** By which the gateway's log knows what was asked, where it said so. */
  readonly requestId?: string | undefined;
}

export interface Usage {
  readonly inputTokens: number;
  readonly outputTokens: number;
}

export interface ThreadSummary {
  readonly id: string;
  readonly title: string;
  readonly agentId: string;
  readonly updatedAt: Date;
}

/** The threads that there are. */
export interface ThreadList {
  /** The last used first. */
  readonly threads: ReadonlySignal<readonly ThreadSummary[]>;
  /** Undefined until they were first asked for. */
  readonly hasMore: ReadonlySignal<boolean | undefined>;
  readonly loading: ReadonlySignal<boolean>;
  /** Why the list could not be looked at anew. */
  readonly problem: ReadonlySignal<Problem | undefined>;
  /** Why what the person last wanted here was not done: more of them, another title, a deletion. */
  readonly refused: ReadonlySignal<Problem | undefined>;
  /** Look anew: when it is opened, and when a run has begun or ended. What was shown stays until there is an answer. */
  refresh(): Promise<void>;
  /** The next page. */
  more(): Promise<void>;
  rename(threadId: string, title: string): Promise<void>;
  /** Whether it is gone. */
  remove(threadId: string): Promise<boolean>;
}

export interface AgentSummary {
  readonly id: string;
  readonly name: string;
  readonly description: string;
}

/** A tool of this page. `handler` gets arguments that fit `parameters`; what it returns or throws is the answer. */
export interface FrontendTool {
  readonly name: string;
  readonly description: string;
  readonly parameters: JsonObject;
  readonly handler: (
    args: JsonObject,
    call: { id: string; signal: AbortSignal },
  ) => JsonValue | undefined | Promise<JsonValue | undefined>;
  /** Ask the person first: always, or for the arguments for which this gives a question. */
  readonly confirm?: boolean | ((args: JsonObject) => string | undefined);
  /** What stands in the call's card instead of the arguments and the result. A DOM node, so that any library can make it. */
  readonly render?: (call: CallEntry) => Node | undefined;
}

/** One thread with one agent, and the run under way in it. */
export interface Conversation {
  readonly threadId: ReadonlySignal<string>;
  readonly entries: ReadonlySignal<readonly Entry[]>;
  readonly approvals: ReadonlySignal<readonly Approval[]>;
  readonly phase: ReadonlySignal<Phase>;
  readonly problem: ReadonlySignal<Problem | undefined>;
  /** When a model that was too busy is asked again, where that is what everybody waits for. */
  readonly retriesAt: ReadonlySignal<Date | undefined>;
  readonly state: ReadonlySignal<JsonValue | undefined>;
  /** Of the last turn: the run, and those that went on from it. Undefined before there is one, or if no model reported any. */
  readonly usage: ReadonlySignal<Usage | undefined>;

  /**
   * Say something. It is shown at once, and sent when there is a network. While an answer comes, that is stopped first;
   * what the page or an approval asks just then is answered with no. Like all that promise something here, it resolves
   * when it is the person's turn again, and never rejects: see `problem`.
   */
  send(text: string, attachments?: readonly Attachment[]): Promise<void>;
  /** Stop the answer where it is; what has come stays. */
  stop(): void;
  /** Ask for the last answer again. */
  regenerate(): Promise<void>;
  /** Say the given user message differently; what followed it is gone. */
  edit(messageId: string, text: string): Promise<void>;
  /** The failed run again. */
  retry(): Promise<void>;
  choose(approvalId: string, choice: ApprovalChoice): void;
  /** The page's side of the shared state; goes to the agent with the next run. */
  setState(state: JsonValue): void;
  setTools(tools: readonly FrontendTool[]): void;
  setContext(context: readonly { description: string; value: string }[]): void;
  /** Show another thread (its history, and its run where one is under way), or a new one. */
  open(threadId?: string): Promise<void>;
  dismissProblem(): void;
  close(): void;
}
