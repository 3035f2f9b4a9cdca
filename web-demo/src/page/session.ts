/**
 * What the page is about: a gateway, one of its agents, and one conversation with it.
 *
 * Below: chat/, wire/. Above: the shell. A key is kept until the tab is closed, and travels in a header alone.
 */
import { batch, effect, signal, untracked } from "@preact/signals";
import type {
  AgentSummary,
  Conversation,
  FrontendTool,
  JsonObject,
  Problem,
  ThreadList,
  ThreadSummary,
} from "../chat/contract";
import { createConversation } from "../chat/conversation";
import { storageMemory } from "../chat/memory";
import { createThreadList } from "../chat/threads";
import { Connection } from "../wire/connection";
import { HttpAgentReader } from "../wire/http_agent_reader";
import { onReturn } from "../wire/network";
import { failure, RefusedError } from "../wire/problem";
import { words } from "./language";

const KEY = "agui-key";
const AGENT = "agui-agent";

export class Session {
  readonly agents = signal<readonly AgentSummary[]>([]);
  readonly agent = signal<AgentSummary | undefined>(undefined);
  readonly conversation = signal<Conversation | undefined>(undefined);
  /** What answers is no language model, and says so: this page's tools and its form are there for it alone. */
  readonly isDemonstration = signal(false);
  /** A thread whose agent is no longer there: another one answers. */
  readonly orphan = signal<string | undefined>(undefined);
  /** Whether to ask for a key: because there is none, or because the one there is was refused. */
  readonly keyNeeded = signal<"no" | "missing" | "wrong">("no");
  readonly hasKey = signal(kept(KEY) !== undefined);
  /** The gateway has no agents: there is nobody to talk to, and nothing is wrong. */
  readonly isEmpty = signal(false);
  /** Why there is nothing to talk to. */
  readonly problem = signal<Problem | undefined>(undefined);
  readonly threads: ThreadList;
  readonly #connection: Connection;
  readonly #memory = storageMemory("agui-");
  readonly #tools: readonly FrontendTool[];
  /** How often an agent was chosen. */
  #asked = 0;

  constructor(baseUrl: string, tools: readonly FrontendTool[]) {
    this.#tools = tools;
    this.#connection = new Connection({ baseUrl, token: () => kept(KEY) });
    this.threads = createThreadList(this.#connection);
    // A thread is listed, and has a title, once its first run has begun; another order comes with each run.
    effect(() => {
      const phase = this.conversation.value?.phase.value;
      if (phase === "streaming" || phase === "idle") untracked(() => void this.threads.refresh());
    });
    // Another tab may have begun one meanwhile, or deleted one.
    onReturn(() => {
      if (this.conversation.peek() !== undefined) void this.threads.refresh();
    });
    effect(() => {
      const { problem, refused } = this.threads;
      if ((problem.value ?? refused.value)?.code === "unauthenticated") this.askForKey();
    });
  }

  /** Who is there; then what this tab showed before. */
  async start(): Promise<void> {
    try {
      this.agents.value = await this.#connection.agents();
    } catch (error) {
      const problem = error instanceof RefusedError ? error.problem : failure("network", String(error));
      if (problem.code === "unauthenticated") this.askForKey();
      this.problem.value = problem;
      return;
    }
    this.problem.value = undefined;
    this.keyNeeded.value = "no";
    this.isEmpty.value = this.agents.value.length === 0;
    const last = kept(AGENT);
    const known = this.agents.value.find((agent) => agent.id === last);
    const agent = known ?? this.agents.value[0];
    if (agent === undefined) return;
    const thread = this.#memory.get("thread");
    if (last !== undefined && known === undefined) this.orphan.value = thread;
    await this.#talkTo(agent, thread);
  }

  /** The thread that is open stays where its own agent is gone. */
  chooseAgent(id: string): void {
    const agent = this.agents.peek().find((each) => each.id === id);
    if (agent === undefined || agent.id === this.agent.peek()?.id) return;
    const open = this.conversation.peek()?.threadId.peek();
    void this.#talkTo(agent, open === this.orphan.peek() ? open : undefined);
  }

  openThread(thread: ThreadSummary): void {
    const agent = this.agents.peek().find((each) => each.id === thread.agentId);
    if (agent === undefined) this.orphan.value = thread.id;
    if (agent === undefined || agent.id === this.agent.peek()?.id) void this.conversation.peek()?.open(thread.id);
    else void this.#talkTo(agent, thread.id);
  }

  newThread(): void {
    void this.conversation.peek()?.open();
  }

  /** Where it is the open one, a new one is there at once: nothing in it goes on. If it is refused, it is open again. */
  async removeThread(id: string): Promise<void> {
    const conversation = this.conversation.peek();
    const wasOpen = conversation?.threadId.peek() === id;
    if (wasOpen) this.newThread();
    const instead = conversation?.threadId.peek();
    if ((await this.threads.remove(id)) || !wasOpen || conversation !== this.conversation.peek()) return;
    if (conversation.threadId.peek() === instead && conversation.entries.peek().length === 0) {
      await conversation.open(id);
    }
  }

  askForKey(): void {
    if (this.keyNeeded.peek() === "no") this.keyNeeded.value = this.hasKey.peek() ? "wrong" : "missing";
  }

  /** Undefined: forget the one there is. */
  async useKey(key: string | undefined): Promise<void> {
    keep(KEY, key);
    this.hasKey.value = key !== undefined;
    this.keyNeeded.value = "no";
    const conversation = this.conversation.peek();
    if (key === undefined || conversation?.problem.peek()?.code !== "unauthenticated") return this.start();
    // What was refused for want of this key is said again; to read the thread instead would lose it.
    await conversation.retry();
  }

  async #talkTo(agent: AgentSummary, threadId: string | undefined): Promise<void> {
    keep(AGENT, agent.id);
    const asked = ++this.#asked;
    this.conversation.peek()?.close();
    this.conversation.value = undefined; // nothing that is written meanwhile goes to the agent of before
    const isDemonstration = await this.#isDemonstration(agent);
    if (asked !== this.#asked) return; // another was chosen meanwhile
    const connection = this.#connection;
    const reader = new HttpAgentReader(connection, agent.id);
    const conversation = createConversation({
      connection,
      agentId: agent.id,
      reader,
      memory: this.#memory,
      ask: (tool) => words.peek().say("mayRun", { tool }),
    });
    conversation.setTools(isDemonstration ? this.#tools : []);
    batch(() => {
      this.isDemonstration.value = isDemonstration;
      this.agent.value = agent;
      this.conversation.value = conversation;
    });
    void conversation.open(threadId);
  }

  async #isDemonstration(agent: AgentSummary): Promise<boolean> {
    const known = await this.#connection.capabilities(agent.id).catch((): JsonObject => ({}));
    const identity = known.identity as JsonObject | undefined;
    const metadata = identity?.metadata as JsonObject | undefined;
    return metadata?.languageModel === false;
  }
}

function kept(name: string): string | undefined {
  try {
    return sessionStorage.getItem(name) ?? undefined;
  } catch {
    return undefined;
  }
}

function keep(name: string, value: string | undefined): void {
  try {
    if (value === undefined) sessionStorage.removeItem(name);
    else sessionStorage.setItem(name, value);
  } catch {
    // Storage is switched off: a reload forgets it.
  }
}
