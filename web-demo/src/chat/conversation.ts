/**
 * One thread with one agent, and the run under way in it: the contract's Conversation.
 *
 * Below: everything else of `chat/` and `wire/`. A turn is what follows from one thing that the person did: a run, the
 * frontend calls that it leaves to this page, the run that goes on with their answers, and so on, until it is the
 * person's turn again.
 */
import { type ReadonlySignal, type Signal, signal } from "@preact/signals";
import type { WireContext, WireInput, WireMessage, WireResume, WireStale } from "../wire/ag_ui";
import type { Connection } from "../wire/connection";
import { onOffline, onReturn } from "../wire/network";
import { newId } from "../wire/new_id";
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
import { ToolDesk } from "./frontend_tools";
import { callsOf, caughtUp, lastSeen, saidDifferently, upToLastInput, upToLastQuestion, userMessage } from "./history";
import { type Memory, passingMemory } from "./memory";
import { outcomeOf } from "./outcome";
import { Picture } from "./picture";
import { type Follower, type RunEnd, RunFollower } from "./run_follower";
import { otherTabs } from "./tabs";
import { type Turn, Turns } from "./turns";

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
/** How long a tab has to be left alone before its thread is looked at anew, and how often one that waits for somebody looks. */
const AWAY_MILLISECONDS = 3_000;

/** The thread was deleted where this tab did not see it. */
const GONE: Problem = {
  code: "thread_not_found",
  message: "this thread is no longer there",
  retryable: false,
  retryAfterSeconds: undefined,
};

class LiveConversation implements Conversation {
  readonly threadId: Signal<string> = signal(newId());
  readonly entries: ReadonlySignal<readonly Entry[]>;
  readonly approvals: ReadonlySignal<readonly Approval[]>;
  // the picture's signals
  declare readonly phase: ReadonlySignal<Phase>;
  declare readonly problem: ReadonlySignal<Problem | undefined>;
  declare readonly retriesAt: ReadonlySignal<Date | undefined>;
  declare readonly state: ReadonlySignal<JsonValue | undefined>;
  declare readonly usage: ReadonlySignal<Usage | undefined>;

  readonly #connection: Connection;
  readonly #memory: Memory;
  readonly #follower: RunFollower;
  readonly #picture: Picture;
  readonly #desk: ToolDesk;
  readonly #approvals: ApprovalDesk;
  readonly #turns = new Turns(() => this.#rest());
  readonly #tabs = otherTabs((thread) => thread === this.#address && this.#wentOnElsewhere());
  readonly #ignore: readonly (() => void)[];

  #context: readonly WireContext[] = [];
  /** The run that is read, or was asked for; "" where there is none. */
  #runId = "";
  /** What the gateway did not take in, or may not have. */
  #unsent: WireInput | undefined;
  /** The last message that the gateway has told of, or taken in. */
  #seen: string | null = null;
  /** The page's calls are being answered. */
  #answering = false;
  /** What the person wrote instead of answering. */
  #instead: WireMessage | undefined;
  #lastActive = Date.now();

  constructor({ connection, reader, memory = passingMemory(), ask }: ConversationOptions) {
    this.#connection = connection;
    this.#memory = memory;
    this.#follower = new RunFollower(reader);
    this.#picture = new Picture((toolName) => this.#desk.has(toolName));
    const { progress } = this.#picture;
    this.#approvals = new ApprovalDesk(progress);
    this.#desk = new ToolDesk({
      progress,
      memory,
      ask: ask ?? ((name) => `May “${name}” be run?`),
      onChange: () => this.#deskChanged(),
    });
    this.entries = this.#picture.entries;
    this.approvals = this.#approvals.open;
    Object.assign(this, this.#picture.shown);
    const ignored = [onReturn(() => this.#lookAgain()), onOffline(() => this.#wentOffline())];
    const watch = setInterval(() => void this.#lookForApproval(), AWAY_MILLISECONDS);
    this.#ignore = [...ignored, () => this.#tabs.close(), () => clearInterval(watch)];
  }

  // --- what the person does

  async open(threadId?: string): Promise<void> {
    this.#turns.giveUp();
    this.#runId = "";
    this.#unsent = this.#instead = undefined;
    this.#seen = null;
    this.#approvals.clear();
    this.#picture.clear();
    this.threadId.value = threadId ?? newId();
    this.#memory.set("thread", this.threadId.value);
    if (threadId === undefined) return this.#picture.now();
    this.#picture.enter("loading");
    await this.#turns.take((turn) => this.#look(turn), { opens: true });
  }

  async send(text: string, attachments: readonly Attachment[] = []): Promise<void> {
    const message = userMessage(newId(), text, attachments);
    if (this.#answering && this.#desk.isAsking) {
      this.#instead = message;
      this.#desk.declineAll(INSTEAD);
      return this.#turns.current?.over;
    }
    if (this.#turns.current) await this.#halt();
    this.#approvals.denyRest(INSTEAD);
    await this.#go([...this.#picture.messages, message], this.#approvals.answers());
  }

  async regenerate(): Promise<void> {
    if (this.#turns.current) await this.#halt();
    await this.#go(upToLastQuestion(this.#picture.messages));
  }

  async edit(messageId: string, text: string): Promise<void> {
    if (this.#turns.current) await this.#halt();
    await this.#go(saidDifferently(this.#picture.messages, messageId, newId(), text));
  }

  async retry(): Promise<void> {
    if (this.#turns.current) await this.#halt();
    const unsent = this.#unsent;
    if (unsent) await this.#begin(unsent);
    else await this.#go(upToLastInput(this.#picture.messages));
  }

  choose(approvalId: string, choice: ApprovalChoice): void {
    const isLast = this.#approvals.choose(approvalId, choice);
    if (isLast) void this.#go(this.#picture.messages, this.#approvals.answers());
  }

  stop(): void {
    void this.#halt();
  }

  // --- what the page does

  setState(state: JsonValue): void {
    this.#picture.state.set(state);
    this.#picture.now();
  }

  setTools(tools: readonly FrontendTool[]): void {
    this.#desk.set(tools);
  }

  setContext(context: readonly WireContext[]): void {
    this.#context = [...context];
  }

  dismissProblem(): void {
    this.#picture.problem = undefined;
    this.#picture.now();
  }

  close(): void {
    for (const ignore of this.#ignore) ignore();
    this.#turns.giveUp();
    this.#picture.close();
  }

  // --- turns

  /** A new run on these messages. */
  async #go(messages: readonly WireMessage[], resume: readonly WireResume[] = []): Promise<void> {
    if (messages.length === 0) return;
    this.#picture.usage = undefined;
    if (resume.length === 0) this.#approvals.clear();
    await this.#begin(this.#input(messages, resume));
  }

  #input(messages: readonly WireMessage[], resume: readonly WireResume[] = []): WireInput {
    return {
      threadId: this.threadId.peek(),
      runId: newId(),
      messages,
      tools: this.#desk.declarations(),
      context: this.#context,
      state: this.#picture.state.hand(),
      seen: this.#seen,
      ...(resume.length > 0 && { resume }),
    };
  }

  async #begin(input: WireInput): Promise<void> {
    await this.#turns.take(async (turn) => {
      this.#picture.problem = undefined;
      await this.#goOn(turn, await this.#run(input, turn));
    });
  }

  async #look(turn: Turn): Promise<void> {
    this.#picture.progress.running = true;
    const isOld = turn.opens || turn.quiet; // a run that is followed from here on is another tab's all the same
    const end = await this.#follower.look(this.threadId.peek(), this.#listener(turn), turn.signal);
    if (turn.quiet && end.how === "finished" && end.isUnknownThread) this.#picture.problem = GONE;
    else await this.#goOn(turn, end, isOld);
  }

  #run(input: WireInput, turn: Turn): Promise<RunEnd> {
    const picture = this.#picture;
    picture.messages = input.messages;
    picture.phase = "waiting";
    picture.progress.running = true;
    picture.now();
    this.#unsent = input;
    this.#runId = input.runId;
    this.#memory.set("run", input.runId);
    return this.#follower.run(input, this.#listener(turn), turn.signal);
  }

  /** After a run those that go on from it. `isOld`: nobody here waited for the first. */
  async #goOn(turn: Turn, first: RunEnd, isOld = false): Promise<void> {
    let next = await this.#after(first, turn, isOld);
    while (next && !turn.signal.aborted) next = await this.#after(await this.#run(next, turn), turn, false);
  }

  /** The run is over. What the next one begins with, where it goes on without the person. */
  async #after(end: RunEnd, turn: Turn, isOld: boolean): Promise<WireInput | undefined> {
    const picture = this.#picture;
    if (end.how === "aborted") return undefined;
    picture.progress.settle();
    if (end.how === "refused" && end.stale && this.#unsent)
      return this.#catchUp(this.#unsent, end.stale, end.problem, turn);
    if (end.how === "refused" || end.how === "unreadable") {
      if (!turn.quiet) picture.problem = end.problem;
      this.#approvals.reopen();
      return undefined;
    }
    const outcome = outcomeOf(end.event, end.requestId);
    if (isOld) picture.usage = undefined;
    picture.addUsage(outcome.usage);
    const isMine = end.runId === this.#memory.get("run");
    const isStopped = picture.phase === "stopping";
    if (!isStopped && (!isOld || isMine || end.how === "failed")) picture.problem = outcome.problem;
    if (outcome.isInterrupt) this.#approvals.ask(end.event, picture.messages);
    const isForSomebodyElse = isOld && !turn.opens; // it was another tab that went on with the thread
    for (const callId of outcome.pendingCalls) picture.progress.mark(callId, { status: "waiting" });
    if (outcome.pendingCalls.length === 0 || isForSomebodyElse || isStopped) return undefined;
    return this.#answer(outcome.pendingCalls, turn, isMine, isOld);
  }

  /**
   * The thread went on where this tab did not see it. What the person says goes behind that; what would change the past
   * waits until the person has seen it, and wants it again.
   */
  async #catchUp(input: WireInput, stale: WireStale, problem: Problem, turn: Turn): Promise<WireInput | undefined> {
    const messages = caughtUp(input, stale);
    if (messages) return { ...input, messages, seen: lastSeen(stale.missing) };
    const isEdit = !input.messages.some(({ id }) => id === input.seen);
    this.#unsent = undefined;
    turn.quiet = true;
    await this.#look(turn);
    if (!isEdit || turn.signal.aborted) return undefined;
    this.#unsent = { ...input, seen: this.#seen };
    this.#picture.problem = problem;
    return undefined;
  }

  /** Answer the calls that the run left to this page. */
  async #answer(ids: readonly string[], turn: Turn, isMine: boolean, isOld: boolean): Promise<WireInput | undefined> {
    const { signal } = turn;
    const { messages } = this.#picture;
    const calls = callsOf(messages, new Set(ids));
    const names = calls.map((call) => call.function.name);
    if (isOld) await this.#desk.wait(names, LATE_TOOLS_MILLISECONDS, signal);
    const isOurs = isMine || names.some((name) => this.#desk.has(name)); // else some other page has to answer
    if (signal.aborted || !isOurs) return undefined;
    this.#answering = true;
    this.#picture.enter("streaming");
    const answers = await this.#desk.answer(calls, signal, { ask: !isMine });
    if (signal.aborted) {
      // Stopped, but nothing else was begun: what was answered goes with the next message.
      if (this.#picture.messages === messages) this.#picture.messages = [...messages, ...answers];
      return undefined;
    }
    this.#answering = false;
    const said = this.#instead ? [this.#instead] : [];
    this.#instead = undefined;
    return this.#input([...messages, ...answers, ...said]);
  }

  #deskChanged(): void {
    if (this.#answering) this.#picture.phase = this.#desk.isAsking ? "idle" : "streaming";
    this.#picture.change();
  }

  #rest(): void {
    this.#answering = false;
    this.#lastActive = Date.now();
    this.#picture.progress.settle();
    this.#picture.phase = "idle";
    this.#picture.now();
  }

  /** End the turn under way, and its run with it. */
  async #halt(): Promise<void> {
    const turn = this.#turns.current;
    if (!turn) return;
    const isStopping = this.#picture.phase === "stopping";
    if (isStopping) await Promise.race([turn.over, pause(STOP_MILLISECONDS)]);
    else if (!turn.quiet && !this.#answering && this.#runId) {
      this.#picture.enter("stopping");
      this.#picture.now();
      const told = this.#connection.cancelRun(this.#runId).then(() => turn.over);
      await Promise.race([told.catch(() => undefined), pause(STOP_MILLISECONDS)]);
    }
    this.#turns.giveUp(turn);
  }

  /** The run's connection may take long to notice. If anything comes over it nevertheless, that is shown. */
  #wentOffline(): void {
    const { current } = this.#turns;
    const isReading = current !== undefined && !current.quiet && !this.#answering;
    if (isReading && this.#picture.phase !== "stopping") this.#picture.enter("offline");
  }

  /** Another tab may have gone on with the thread while this one was not looked at. */
  #lookAgain(): void {
    const isFresh = this.#picture.messages.length === 0 || Date.now() - this.#lastActive < AWAY_MILLISECONDS;
    if (!isFresh && !this.#turns.current) this.#lookQuietly();
  }

  /** Another tab has gone on with it. One that is in the background looks when the person comes back. */
  #wentOnElsewhere(): void {
    if (globalThis.document?.visibilityState === "hidden") this.#lastActive = 0;
    else if (this.#turns.current?.quiet ?? true) this.#lookQuietly();
  }

  #lookQuietly(): void {
    if (this.#unsent || this.#approvals.isBeingAnswered) return;
    void this.#turns.take((turn) => this.#look(turn), { quiet: true });
  }

  /** Has somebody else answered what the person waits for? */
  async #lookForApproval(): Promise<void> {
    const awaited = this.#approvals.awaited;
    if (!awaited || this.#turns.current) return;
    const open = await this.#connection.interrupts(this.threadId.peek()).catch(() => [awaited]);
    if (!open.includes(awaited) && awaited === this.#approvals.awaited) this.#lookQuietly();
  }

  /** The thread's name among all tabs. */
  get #address(): string {
    return `${this.#connection.baseUrl} ${this.threadId.peek()}`;
  }

  // --- what a run tells

  #listener(turn: Turn): Follower {
    const picture = this.#picture;
    return {
      onEvent: (event) => {
        if (event.type === "RUN_STARTED") this.#started(String(event.runId), turn);
        if (picture.hear(event)) turn.quiet = false;
      },
      onMessages: (messages) => {
        this.#seen = lastSeen(messages);
        picture.tell(messages);
      },
      onState: (state) => picture.tellState(state),
      onConnect: () => picture.restore(),
      onLost: (isOffline) => {
        if (turn.quiet) this.#turns.giveUp(turn);
        else if (picture.phase !== "stopping") picture.enter(isOffline ? "offline" : "reconnecting");
      },
    };
  }

  #started(runId: string, turn: Turn): void {
    this.#runId = runId;
    if (this.#unsent) {
      this.#seen = lastSeen(this.#unsent.messages);
      this.#tabs.tell(this.#address);
    }
    this.#unsent = undefined;
    this.#approvals.takeUp();
    if (this.#picture.phase !== "stopping" && !turn.quiet) this.#picture.phase = "waiting";
  }
}

function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
