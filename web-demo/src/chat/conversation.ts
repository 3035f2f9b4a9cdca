/**
 * One thread with one agent, and the run under way in it: the contract's Conversation.
 *
 * Below: everything else of `chat/` and `wire/`. A turn is what follows from one thing that the person did: a run, the
 * frontend calls that it leaves to this page, the run that goes on with their answers, and so on, until it is the
 * person's turn again. There is one turn at a time; whoever begins another ends the one before.
 */
import { batch, type ReadonlySignal, signal } from "@preact/signals";
import type { WireContext, WireEvent, WireInput, WireMessage, WireResume } from "../wire/ag_ui";
import type { Connection } from "../wire/connection";
import { onReturn } from "../wire/network";
import type { RunReader } from "../wire/run_reader";
import { ApprovalDesk } from "./approvals";
import type {
  Approval,
  ApprovalChoice,
  Attachment,
  Conversation,
  Entry,
  FrontendTool,
  JsonValue,
  Phase,
  Problem,
  Usage,
} from "./contract";
import { EntryList } from "./entries";
import { Frames } from "./frames";
import { ToolDesk } from "./frontend_tools";
import { before, callsOf, upToLastInput, upToLastQuestion, userMessage } from "./history";
import { type Memory, passingMemory } from "./memory";
import { outcomeOf } from "./outcome";
import { Progress } from "./progress";
import { type Follower, type RunEnd, RunFollower } from "./run_follower";
import { SharedState } from "./shared_state";

export interface ConversationOptions {
  readonly connection: Connection;
  readonly agentId: string;
  /** `HttpAgentReader`, or the widget's `LeanReader`; for the same connection and agent. */
  readonly reader: RunReader;
  /** What survives a reload; without it, nothing does. */
  readonly memory?: Memory;
  /** The words of the question before a frontend tool that asks first. */
  readonly ask?: (toolName: string) => string;
}

/** A conversation with nothing in it yet. `open(memory.get("thread"))` takes up what the tab showed before. */
export function createConversation(options: ConversationOptions): Conversation {
  return new LiveConversation(options);
}

/** Told to the model where the person wrote something instead of answering. */
const INSTEAD = "The user wrote a message instead of answering.";
/** How long a run that is cancelled may take to tell its end. */
const STOP_MILLISECONDS = 2_000;
/** How long tools that a thread's open calls need may be registered after the thread was opened. */
const LATE_TOOLS_MILLISECONDS = 2_000;
/** For how long a reconnection's pieces are put together before they are shown. */
const RESTORE_MILLISECONDS = 100;
/** How long a tab has to be left alone before its thread is looked at anew: another tab may have gone on with it. */
const AWAY_MILLISECONDS = 3_000;

const SHOWS = /^(?:TEXT_MESSAGE|REASONING|TOOL_CALL|ACTIVITY|STATE_DELTA)/;

interface Turn {
  readonly abort: AbortController;
  readonly over: Promise<void>;
  /** Nobody asked for it: it changes nothing but what is shown, and gives way to everything. */
  readonly quiet: boolean;
}

class LiveConversation implements Conversation {
  readonly threadId = signal("");
  readonly phase = signal<Phase>("idle");
  readonly problem = signal<Problem | undefined>(undefined);
  readonly state = signal<JsonValue | undefined>(undefined);
  readonly usage = signal<Usage | undefined>(undefined);
  readonly entries: ReadonlySignal<readonly Entry[]>;
  readonly approvals: ReadonlySignal<readonly Approval[]>;

  readonly #options: ConversationOptions;
  readonly #memory: Memory;
  readonly #follower: RunFollower;
  readonly #frames = new Frames(() => this.#update());
  readonly #progress = new Progress();
  readonly #approvals = new ApprovalDesk();
  readonly #shared = new SharedState();
  readonly #desk: ToolDesk;
  readonly #entryList: EntryList;
  readonly #ignoreReturns: () => void;

  // What the signals will say with the next frame.
  #messages: readonly WireMessage[] = [];
  #phase: Phase = "idle";
  #problem: Problem | undefined;
  #usage: Usage | undefined;

  #context: readonly WireContext[] = [];
  #turn: Turn | undefined;
  /** The run that is read, or was asked for. */
  #runId = "";
  /** What the gateway did not take in, or may not have. */
  #unsent: WireInput | undefined;
  /** The page's calls are being answered. */
  #answering = false;
  /** What the person wrote instead of answering. */
  #instead: WireMessage | undefined;
  #lastActive = Date.now();

  constructor(options: ConversationOptions) {
    this.#options = options;
    this.#memory = options.memory ?? passingMemory();
    this.#follower = new RunFollower(options.reader);
    this.#desk = new ToolDesk({
      progress: this.#progress,
      memory: this.#memory,
      ask: options.ask ?? ((name) => `May “${name}” be run?`),
      onChange: () => this.#deskChanged(),
    });
    this.#entryList = new EntryList(this.#progress, (name) => this.#desk.has(name));
    this.entries = this.#entryList.shown;
    this.approvals = this.#approvals.open;
    this.threadId.value = crypto.randomUUID();
    this.#ignoreReturns = onReturn(() => this.#lookAgain());
  }

  // --- what the person does

  async open(threadId?: string): Promise<void> {
    this.#giveUp();
    this.#messages = [];
    this.#runId = "";
    this.#unsent = this.#instead = this.#usage = this.#problem = undefined;
    this.#approvals.clear();
    this.#progress.clear();
    this.#shared.clear();
    this.#entryList.clear();
    this.threadId.value = threadId ?? crypto.randomUUID();
    this.#memory.set("thread", this.threadId.value);
    if (threadId === undefined) this.#frames.now();
    else await this.#take("loading", (turn) => this.#follow((follower, signal) => this.#look(follower, signal), turn));
  }

  async send(text: string, attachments: readonly Attachment[] = []): Promise<void> {
    const message = userMessage(crypto.randomUUID(), text, attachments);
    if (this.#answering && this.#desk.isAsking) {
      this.#instead = message;
      this.#desk.declineAll(INSTEAD);
      return this.#turn?.over;
    }
    if (this.#turn) await this.#halt();
    this.#approvals.denyRest(INSTEAD);
    const resume = this.#approvals.answers();
    await this.#go([...this.#messages, message], resume);
  }

  async regenerate(): Promise<void> {
    if (this.#turn) await this.#halt();
    const messages = upToLastQuestion(this.#messages);
    if (messages) await this.#go(messages);
  }

  async edit(messageId: string, text: string): Promise<void> {
    if (this.#turn) await this.#halt();
    const found = before(this.#messages, messageId);
    if (!found) return;
    const [earlier, message] = found;
    const parts = Array.isArray(message.content) ? message.content : [];
    const files = parts.filter((part) => (part as { type?: unknown } | null)?.type !== "text");
    const content = files.length > 0 ? [...files, { type: "text", text }] : text;
    await this.#go([...earlier, { id: crypto.randomUUID(), role: "user", content }]);
  }

  async retry(): Promise<void> {
    if (this.#turn) await this.#halt();
    const unsent = this.#unsent;
    if (unsent) await this.#take("waiting", (turn) => this.#follow((...by) => this.#run(unsent, ...by), turn));
    else await this.#go(upToLastInput(this.#messages));
  }

  choose(approvalId: string, choice: ApprovalChoice): void {
    if (this.#approvals.choose(approvalId, choice)) void this.#go(this.#messages, this.#approvals.answers());
  }

  stop(): void {
    void this.#halt();
  }

  // --- what the page does

  setState(state: JsonValue): void {
    this.#shared.set(state);
    this.#frames.request();
  }

  setTools(tools: readonly FrontendTool[]): void {
    this.#desk.set(tools);
  }

  setContext(context: readonly WireContext[]): void {
    this.#context = [...context];
  }

  dismissProblem(): void {
    this.#problem = undefined;
    this.#frames.now();
  }

  close(): void {
    this.#ignoreReturns();
    this.#giveUp();
    this.#frames.stop();
  }

  // --- turns

  /** A new run on these messages. */
  async #go(messages: readonly WireMessage[], resume: readonly WireResume[] = []): Promise<void> {
    if (messages.length === 0) return;
    this.#usage = undefined;
    const input = this.#input(messages, resume);
    if (resume.length === 0) this.#approvals.clear();
    await this.#take("waiting", (turn) => this.#follow((...by) => this.#run(input, ...by), turn));
  }

  #input(messages: readonly WireMessage[], resume: readonly WireResume[] = []): WireInput {
    return {
      threadId: this.threadId.peek(),
      runId: crypto.randomUUID(),
      messages,
      tools: this.#desk.declarations(),
      context: this.#context,
      state: this.#shared.hand(),
      ...(resume.length > 0 && { resume }),
    };
  }

  async #take(phase: Phase, work: (turn: Turn) => Promise<void>, quiet = false): Promise<void> {
    this.#giveUp();
    let done = () => {};
    const turn: Turn = {
      abort: new AbortController(),
      over: new Promise((resolve) => {
        done = resolve;
      }),
      quiet,
    };
    this.#turn = turn;
    if (!quiet) {
      this.#problem = undefined;
      this.#enter(phase);
    }
    try {
      await work(turn);
    } finally {
      if (this.#turn === turn) this.#rest();
      done();
    }
  }

  /** The turn under way is nobody's any more; what it showed stays. */
  #giveUp(): void {
    const turn = this.#turn;
    this.#turn = undefined;
    turn?.abort.abort();
    if (turn) this.#rest();
  }

  #rest(): void {
    this.#turn = undefined;
    this.#answering = false;
    this.#progress.settle();
    this.#lastActive = Date.now();
    this.#phase = "idle";
    this.#frames.now();
  }

  /** End the turn under way, if there is one, and its run with it. */
  async #halt(): Promise<void> {
    const turn = this.#turn;
    if (!turn) return;
    if (!turn.quiet && !this.#answering && this.#runId && this.#phase !== "stopping") {
      this.#enter("stopping");
      const told = this.#options.connection.cancelRun(this.#runId).then(() => turn.over);
      await Promise.race([told.catch(() => undefined), pause(STOP_MILLISECONDS)]);
    } else if (this.#phase === "stopping") {
      await Promise.race([turn.over, pause(STOP_MILLISECONDS)]);
    }
    if (this.#turn === turn) this.#giveUp();
  }

  /** A run, and those that go on from it. */
  async #follow(first: (follower: Follower, signal: AbortSignal) => Promise<RunEnd>, turn: Turn): Promise<void> {
    const { signal } = turn.abort;
    const opened = this.#phase === "loading" || turn.quiet;
    let end = await first(this.#listener(turn), signal);
    for (let round = 0; !signal.aborted; round++) {
      this.#progress.settle();
      const next = await this.#after(end, turn, opened && round === 0);
      if (!next || signal.aborted) return;
      this.#enter("waiting");
      end = await this.#run(next, this.#listener(turn), signal);
    }
  }

  #run(input: WireInput, follower: Follower, signal: AbortSignal): Promise<RunEnd> {
    this.#messages = input.messages;
    this.#unsent = input;
    this.#runId = input.runId;
    this.#memory.set("run", input.runId);
    this.#progress.running = true;
    this.#frames.now();
    return this.#follower.run(input, follower, signal);
  }

  #look(follower: Follower, signal: AbortSignal): Promise<RunEnd> {
    this.#progress.running = true;
    return this.#follower.look(this.threadId.peek(), follower, signal);
  }

  /** The run is over. What the next one begins with, where it goes on without the person. */
  async #after(end: RunEnd, turn: Turn, opened: boolean): Promise<WireInput | undefined> {
    if (end.how === "aborted") return undefined;
    if (end.how === "refused" || end.how === "unreadable") {
      if (!turn.quiet) this.#problem = end.problem;
      this.#approvals.reopen();
      return undefined;
    }
    const outcome = outcomeOf(end.event);
    this.#usage = opened ? outcome.usage : added(this.#usage, outcome.usage);
    const isMine = end.runId === this.#memory.get("run");
    const concernsUs = !opened || isMine || end.how === "failed";
    if (concernsUs && this.#phase !== "stopping") this.#problem = outcome.problem;
    if (outcome.isInterrupt) this.#askForApproval(end.event);
    if (outcome.pendingCalls.length === 0 || turn.quiet || this.#phase === "stopping") return undefined;
    return this.#answer(outcome.pendingCalls, isMine, opened, turn.abort.signal);
  }

  #askForApproval(finished: WireEvent): void {
    this.#approvals.ask(finished, (id) => callsOf(this.#messages, new Set([id]))[0]);
    for (const { callId } of this.#approvals.open.peek()) {
      if (callId !== undefined) this.#progress.mark(callId, { status: "approval" });
    }
  }

  /** Answer the calls that the run left to this page. */
  async #answer(ids: readonly string[], isMine: boolean, opened: boolean, signal: AbortSignal) {
    const calls = callsOf(this.#messages, new Set(ids));
    const names = calls.map((call) => call.function.name);
    if (opened) await this.#desk.wait(names, LATE_TOOLS_MILLISECONDS, signal);
    const isOurs = isMine || names.some((name) => this.#desk.has(name)); // else some other page has to answer
    if (signal.aborted || !isOurs) return undefined;
    this.#answering = true;
    this.#enter("streaming");
    const answers = await this.#desk.answer(calls, signal, { ask: !isMine });
    if (signal.aborted) return undefined;
    this.#answering = false;
    const said = this.#instead ? [this.#instead] : [];
    this.#instead = undefined;
    return this.#input([...this.#messages, ...answers, ...said]);
  }

  #deskChanged(): void {
    if (this.#answering) this.#phase = this.#desk.isAsking ? "idle" : "streaming";
    this.#frames.request();
  }

  /** Another tab may have gone on with the thread while this one was not looked at. */
  #lookAgain(): void {
    const hasChosen = this.#approvals.open.peek().some((approval) => approval.choice.peek());
    const isBusy = this.#turn !== undefined || this.#unsent !== undefined || hasChosen;
    if (isBusy || this.#messages.length === 0 || Date.now() - this.#lastActive < AWAY_MILLISECONDS) return;
    void this.#take("idle", (turn) => this.#follow((...by) => this.#look(...by), turn), true);
  }

  // --- what a run tells

  #listener(turn: Turn): Follower {
    return {
      onEvent: (event) => this.#heard(event, turn),
      onMessages: (messages) => {
        this.#messages = messages;
        this.#frames.request();
      },
      onState: (state) => {
        this.#shared.told(state);
        this.#frames.request();
      },
      onConnect: () => {
        this.#progress.settle();
        this.#progress.running = true;
        if (this.entries.peek().length > 0) this.#frames.hold(RESTORE_MILLISECONDS);
      },
      onLost: (isOffline) => {
        if (turn.quiet) turn.abort.abort();
        else if (this.#phase !== "stopping") this.#enter(isOffline ? "offline" : "reconnecting");
      },
    };
  }

  #heard(event: WireEvent, turn: Turn): void {
    this.#progress.follow(event);
    if (event.type === "RUN_STARTED") {
      this.#runId = String(event.runId);
      this.#unsent = undefined;
      this.#takeUpApprovals();
      if (this.#phase !== "stopping" && !turn.quiet) this.#phase = "waiting";
    } else if (this.#phase !== "stopping" && SHOWS.test(event.type)) {
      this.#phase = "streaming";
    }
    this.#frames.request();
  }

  /** The run that has the answers is under way. */
  #takeUpApprovals(): void {
    for (const { callId, choice } of this.#approvals.open.peek()) {
      if (callId === undefined) continue;
      this.#progress.unmark(callId);
      if (choice.peek()?.approved) this.#progress.begin(callId);
      else if (choice.peek()) this.#progress.mark(callId, { status: "declined" });
    }
    this.#approvals.clear();
  }

  // --- what is shown

  #enter(phase: Phase): void {
    this.#phase = phase;
    this.#frames.request();
  }

  #update(): void {
    batch(() => {
      this.#entryList.update(this.#messages);
      this.phase.value = this.#phase;
      this.problem.value = this.#problem;
      this.state.value = this.#shared.value;
      this.usage.value = this.#usage;
    });
  }
}

function added(one: Usage | undefined, other: Usage | undefined): Usage | undefined {
  if (!one || !other) return one ?? other;
  return {
    inputTokens: one.inputTokens + other.inputTokens,
    outputTokens: one.outputTokens + other.outputTokens,
  };
}

function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
