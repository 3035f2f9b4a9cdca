/** The threads that there are, as a list to choose from. Below: the connection. */
import { batch, type ReadonlySignal, signal } from "@preact/signals";
import type { Connection } from "../wire/connection";
import { failure, RefusedError } from "../wire/problem";
import type { Problem, ThreadSummary } from "./contract";

export interface ThreadList {
  /** The last used first. */
  readonly threads: ReadonlySignal<readonly ThreadSummary[]>;
  /** Undefined until they were first asked for. */
  readonly hasMore: ReadonlySignal<boolean | undefined>;
  readonly loading: ReadonlySignal<boolean>;
  readonly problem: ReadonlySignal<Problem | undefined>;
  /** Look anew: when it is opened, and when a run has begun or ended. What was shown stays until there is an answer. */
  refresh(): Promise<void>;
  /** The next page. */
  more(): Promise<void>;
  rename(threadId: string, title: string): Promise<void>;
  remove(threadId: string): Promise<void>;
}

export function createThreadList(connection: Connection): ThreadList {
  return new LiveThreadList(connection);
}

class LiveThreadList implements ThreadList {
  readonly threads = signal<readonly ThreadSummary[]>([]);
  readonly hasMore = signal<boolean | undefined>(undefined);
  readonly loading = signal(false);
  readonly problem = signal<Problem | undefined>(undefined);
  #cursor: string | undefined;
  /** Counts what was asked: the answer to an older question is of no interest. */
  #asked = 0;

  constructor(private readonly connection: Connection) {}

  refresh(): Promise<void> {
    return this.#load(undefined);
  }

  async more(): Promise<void> {
    if (this.#cursor !== undefined && !this.loading.peek()) await this.#load(this.#cursor);
  }

  async rename(threadId: string, title: string): Promise<void> {
    const words = title.trim();
    if (words === "") return;
    await this.#change(
      (threads) => threads.map((each) => (each.id === threadId ? { ...each, title: words } : each)),
      () => this.connection.renameThread(threadId, words),
    );
  }

  async remove(threadId: string): Promise<void> {
    await this.#change(
      (threads) => threads.filter((each) => each.id !== threadId),
      () => this.connection.deleteThread(threadId).catch(unlessGone),
    );
  }

  async #load(cursor: string | undefined): Promise<void> {
    const asked = ++this.#asked;
    this.loading.value = true;
    const page = await this.connection.threads(cursor).catch((error: unknown) => this.#tell(error));
    if (asked !== this.#asked) return;
    batch(() => {
      this.loading.value = false;
      if (!page) return;
      const known = cursor === undefined ? [] : this.threads.peek();
      const ids = new Set(known.map((each) => each.id));
      this.threads.value = [...known, ...page.threads.filter((each) => !ids.has(each.id))];
      this.#cursor = page.nextCursor;
      this.hasMore.value = page.nextCursor !== undefined;
      this.problem.value = undefined;
    });
  }

  /** Shown at once; taken back where the gateway does not agree. */
  async #change(
    change: (threads: readonly ThreadSummary[]) => readonly ThreadSummary[],
    ask: () => Promise<void>,
  ): Promise<void> {
    const before = this.threads.peek();
    this.#asked++; // a list that is on its way does not know of this
    this.loading.value = false;
    this.threads.value = change(before);
    try {
      await ask();
      this.problem.value = undefined;
    } catch (error) {
      this.threads.value = before;
      this.#tell(error);
    }
  }

  #tell(error: unknown): undefined {
    const words = error instanceof Error ? error.message : String(error);
    this.problem.value = error instanceof RefusedError ? error.problem : failure("network", words);
  }
}

function unlessGone(error: unknown): void {
  if (!(error instanceof RefusedError && error.status === 404)) throw error;
}
