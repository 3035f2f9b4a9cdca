/**
 * One chat on a host page: its conversation, what it remembers, and what the page is told of it.
 *
 * Below: the conversation, the lean reader, the visitor. Above: the element, which hands in what the host page says, and
 * the shell, which shows it. A page on which nobody opens the chat costs the gateway nothing.
 */
import { computed, effect, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import type { Conversation, FrontendTool, JsonValue, ThreadList, ThreadSummary } from "../chat/contract";
import { createConversation } from "../chat/conversation";
import { fetchWords } from "../chat/languages";
import { type Memory, storageMemory } from "../chat/memory";
import { type Words, wordsIn } from "../chat/texts";
import { createThreadList } from "../chat/threads";
import type { WireContext } from "../wire/ag_ui";
import { Connection } from "../wire/connection";
import { LeanReader } from "../wire/lean_reader";
import type { HostEventName, HostEvents } from "./host_events";
import { type ChatNews, ObservedReader } from "./observed_reader";
import { BegunThreads, Recollection } from "./recollection";
import type { Settings } from "./settings";
import { siteFetch } from "./site_fetch";
import { Visitor } from "./visitor";

export type TellHost = <Name extends HostEventName>(name: Name, detail: HostEvents[Name]) => void;

export interface ChatWidgetOptions {
  /** Tells several of the same agent on one page apart. */
  readonly id: string;
  readonly context: () => readonly WireContext[];
  readonly tell: TellHost;
}

/** So many are looked through for a first thread of the visitor's. */
const PAGES = 10;

/** What only the site can mend: the visitor reads that there is no chat, whoever put it there reads why in the console. */
const OF_THE_SITE = /^(?:unauthenticated|forbidden|agent_not_found|publishable_key_\w+|\w+_not_allowed)$/;

export class ChatWidget {
  readonly settings: Signal<Settings>;
  readonly words: Signal<Words> = signal(wordsIn());
  readonly tools: Signal<readonly FrontendTool[]> = signal([]);
  readonly isOpen = signal(false);
  /** Answers that came, and decisions that were asked for, while the panel was closed. */
  readonly unread = signal(0);
  /** Whether it was ever opened: only then there is something to show. */
  readonly wasOpened = signal(false);
  /** Whether the person closed it on a page before this one: then a page does not open it by itself. */
  readonly wasClosed: boolean;
  readonly conversation: Conversation;
  readonly threads: ThreadList;
  /** Of the threads those that this visitor had with this agent. */
  readonly ownThreads: ReadonlySignal<readonly ThreadSummary[]>;
  /** Whether there can be no more of them. */
  readonly hasAllThreads: ReadonlySignal<boolean>;
  /** Whether they are shown in place of the conversation. */
  readonly isListing = signal(false);
  readonly #begun: BegunThreads | undefined;
  readonly #memory: Memory;
  readonly #kept: Recollection;
  readonly #tell: TellHost;
  readonly #endings: (() => void)[] = [];
  #restored: Promise<void> | undefined;
  #wantedState: JsonValue | undefined;
  #language = "";

  constructor(settings: Settings, { id, context, tell }: ChatWidgetOptions) {
    const { gateway, agent, key } = settings;
    const scope = [gateway, agent, key ?? "", id].join(" ");
    this.settings = signal(settings);
    this.#tell = tell;
    this.#kept = new Recollection(scope);
    this.#memory = storageMemory(`agui-chat ${scope} `, (name) => (name === "thread" ? localStorage : sessionStorage));
    const ask = siteFetch(gateway, key === undefined ? "server.cors_origins" : "the `origins` of this publishable key");
    const visitor = key === undefined ? { fetch: ask } : new Visitor(gateway, key, ask);
    const connection = new Connection({ baseUrl: gateway, ...visitor });
    const reader = new ObservedReader(new LeanReader(connection, agent), context, (name, news) =>
      this.#heard(name, news),
    );
    this.conversation = createConversation({
      connection,
      agentId: agent,
      reader,
      memory: this.#memory,
      ask: (tool) => this.words.peek().say("mayRun", { tool }),
    });
    this.threads = createThreadList(connection);
    // Without a key the gateway tells no visitors apart, and its list is everybody's: what this browser began is theirs.
    const begun = key === undefined ? new BegunThreads(scope) : undefined;
    this.#begun = begun;
    this.ownThreads = computed(() =>
      this.threads.threads.value.filter(
        (each) => each.agentId === agent && (!begun || begun.ids.value.includes(each.id)),
      ),
    );
    this.hasAllThreads = computed(() => {
      const { value } = this.threads.threads;
      return begun?.ids.value.every((id) => value.some((each) => each.id === id)) ?? false;
    });
    const { open, unread = 0, busy = false } = this.#kept.kept;
    this.isOpen.value = open === true && !settings.inline;
    this.wasClosed = open === false;
    this.unread.value = unread;
    this.#watch();
    if (busy) void this.restore(); // the page before this one was left in the middle of something
  }

  get threadId(): string {
    return this.#restored ? this.conversation.threadId.peek() : (this.#memory.get("thread") ?? "");
  }

  get state(): JsonValue | undefined {
    return this.#wantedState ?? this.conversation.state.peek();
  }

  /** The page's side of the shared state. What it says before the thread is there counts for more than the thread's. */
  setState(state: JsonValue): void {
    this.#wantedState = state;
    void this.#restored?.then(() => this.#handState());
  }

  setTools(tools: readonly FrontendTool[]): void {
    this.tools.value = tools;
    this.conversation.setTools(tools);
  }

  open(): void {
    if (this.isOpen.peek() || this.settings.peek().inline) return;
    this.isOpen.value = true;
    this.#kept.keep({ open: true });
    this.#tell("open", {});
  }

  close(): void {
    if (!this.isOpen.peek()) return;
    this.isOpen.value = this.isListing.value = false;
    this.#kept.keep({ open: false });
    this.#tell("close", {});
  }

  async send(text: string): Promise<void> {
    await this.restore();
    await this.conversation.send(text);
  }

  newThread(): Promise<void> {
    return this.openThread();
  }

  async openThread(threadId?: string): Promise<void> {
    this.isListing.value = false;
    this.#restored = this.conversation.open(threadId);
    await this.#restored;
    this.#handState();
  }

  /**
   * For good. The list stays; where the thread is the one behind it, a new one is there at once: nothing in it goes on.
   * If it is refused, it is there again.
   */
  async removeThread(id: string): Promise<void> {
    const { threadId, entries } = this.conversation;
    const wasOpen = this.threadId === id;
    if (wasOpen) this.#restored = this.conversation.open();
    const instead = threadId.peek();
    if (await this.threads.remove(id)) this.#begun?.forget(id);
    else if (wasOpen && threadId.peek() === instead && !entries.peek().length)
      this.#restored = this.conversation.open(id);
  }

  /** Show the threads there are, or the conversation again. */
  toggleThreads(): void {
    this.isListing.value = !this.isListing.peek();
    if (this.isListing.peek()) void this.#look();
  }

  /** On a gateway that others use too, theirs may come first. */
  async #look(): Promise<void> {
    const { threads } = this;
    this.#begun?.look();
    await threads.refresh();
    for (let page = 1; page < PAGES && this.isListing.peek() && !this.ownThreads.peek().length; page++) {
      if (this.hasAllThreads.peek() || threads.refused.peek()) return;
      await threads.more();
    }
  }

  /** Show the thread that was shown before, if there was one; once. */
  restore(): Promise<void> {
    this.#restored ??= this.conversation.open(this.#memory.get("thread"));
    return this.#restored.then(() => this.#handState());
  }

  dispose(): void {
    for (const end of this.#endings) end();
    this.conversation.close();
  }

  #handState(): void {
    if (this.#wantedState === undefined) return;
    this.conversation.setState(this.#wantedState);
    this.#wantedState = undefined;
  }

  #watch(): void {
    const { conversation, settings, isOpen, unread } = this;
    const shown = () => isOpen.value || settings.value.inline;
    const always = (work: () => void) => this.#endings.push(effect(work));
    always(() => {
      if (!shown()) return;
      this.wasOpened.value = true;
      void this.restore();
    });
    always(() => {
      if (shown()) unread.value = 0;
    });
    let counted = 0;
    always(() => {
      const count = unread.value;
      this.#kept.keep({ unread: count });
      if (count !== counted) this.#tell("unread", { count });
      counted = count;
    });
    always(() =>
      this.#kept.keep({ busy: conversation.phase.value !== "idle" || conversation.approvals.value.length > 0 }),
    );
    always(() => {
      if (conversation.approvals.value.length > 0 && !shown()) unread.value = unread.peek() + 1;
    });
    let warned = "";
    always(() => {
      const problem = conversation.problem.value;
      if (!problem) return;
      this.#tell("error", problem);
      if (!OF_THE_SITE.test(problem.code) || warned === problem.message) return;
      warned = problem.message;
      console.warn(`agui-chat: ${warned}`);
    });
    let thread = conversation.threadId.peek();
    always(() => {
      const threadId = conversation.threadId.value;
      if (threadId !== thread) this.#tell("thread", { threadId });
      thread = threadId;
    });
    always(() => void this.#speak(settings.value));
  }

  async #speak({ gateway, language, texts }: Settings): Promise<void> {
    const wanted = JSON.stringify([language, texts]);
    if (wanted === this.#language) return;
    this.#language = wanted;
    const words = await fetchWords(gateway, language, texts);
    if (this.#language === wanted) this.words.value = words;
  }

  #heard<Name extends keyof ChatNews>(name: Name, news: ChatNews[Name]): void {
    const isAnswer = name === "message" && (news as ChatNews["message"]).role === "assistant";
    if (isAnswer && !this.isOpen.peek() && !this.settings.peek().inline) this.unread.value = this.unread.peek() + 1;
    if (name === "run-started") this.#begun?.add((news as ChatNews["run-started"]).threadId);
    this.#tell(name, news as HostEvents[Name]);
  }
}
