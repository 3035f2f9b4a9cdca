/** The threads that there are, as a list to choose from. Below: the connection. */
import { batch, computed, signal } from "@preact/signals";
import type { Connection } from "../wire/connection";
import { failure, RefusedError } from "../wire/problem";
import type { Problem, ThreadList, ThreadSummary } from "./contract";

export function createThreadList(connection: Connection): ThreadList {
  return new LiveThreadList(connection);
}

type Threads = readonly ThreadSummary[];

/** What the person wants changed, or has changed. */
interface Change {
  readonly apply: (threads: Threads) => Threads;
  /** How many lists had been asked for when it was done: those may not know of it. */
  asked: number;
}

class LiveThreadList implements ThreadList {
  readonly #known = signal<Threads>([]);
  readonly #changes = signal<readonly Change[]>([]);
  readonly threads = computed(() =>
    this.#changes.value.reduce((threads, { apply }) => apply(threads), this.#known.value),
  );
  readonly hasMore = signal<boolean | undefined>(undefined);
  readonly loading = signal(false);
  readonly problem = signal<Problem | undefined>(undefined);
  readonly refused = signal<Problem | undefined>(undefined);
  #cursor: string | undefined;
  /** Counts what was asked: the answer to an older question is of no interest. */
  #asked = 0;

  constructor(private readonly connection: Connection) {}

  refresh(): Promise<void> {
    return this.#load(undefined);
  }

  async more(): Promise<void> {
    if (this.#cursor === undefined || this.loading.peek()) return;
    this.refused.value = undefined;
    await this.#load(this.#cursor);
  }

  async rename(threadId: string, title: string): Promise<void> {
    const words = title.trim();
    if (words === "") return;
    await this.#change(
      (threads) => threads.map((each) => (each.id === threadId ? { ...each, title: words } : each)),
      () => this.connection.renameThread(threadId, words),
    );
  }

  remove(threadId: string): Promise<boolean> {
    return this.#change(
      (threads) => threads.filter((each) => each.id !== threadId),
      () => this.connection.deleteThread(threadId).catch(unlessGone),
    );
  }

  async #load(cursor: string | undefined): Promise<void> {
    const asked = ++this.#asked;
    const told = this.refused.peek();
    this.loading.value = true;
    const answer = await this.connection.threads(cursor).catch(problemOf);
    if (asked !== this.#asked) return;
    batch(() => {
      this.loading.value = false;
      if ("code" in answer) {
        (cursor === undefined ? this.problem : this.refused).value = answer;
        return;
      }
      const known = this.#known.peek();
      const isFirst = cursor === undefined;
      const older = isFirst && answer.nextCursor !== undefined ? after(answer.threads.at(-1), known) : [];
      this.#known.value = unique(isFirst ? [...answer.threads, ...older] : [...known, ...answer.threads]);
      if (isFirst) this.#changes.value = this.#changes.peek().filter((each) => each.asked >= asked);
      this.problem.value = undefined;
      if (this.refused.peek() === told) this.refused.value = undefined; // what was refused meanwhile was not read yet
      if (older.length > 0) return; // the next page is that after these, as before
      this.#cursor = answer.nextCursor;
      this.hasMore.value = answer.nextCursor !== undefined;
    });
  }

  /** Shown at once; taken back where the gateway does not agree. */
  async #change(apply: Change["apply"], ask: () => Promise<void>): Promise<boolean> {
    const change: Change = { apply, asked: Number.POSITIVE_INFINITY };
    this.refused.value = undefined;
    this.#changes.value = [...this.#changes.peek(), change];
    try {
      await ask();
      change.asked = this.#asked;
      return true;
    } catch (error) {
      batch(() => {
        this.#changes.value = this.#changes.peek().filter((each) => each !== change);
        this.refused.value = problemOf(error);
      });
      return false;
    }
  }
}

/** Of what is known, what still comes after the last one of a page: nothing for certain where that has changed. */
function after(last: ThreadSummary | undefined, known: Threads): Threads {
  const at = known.findIndex(({ id, updatedAt }) => id === last?.id && +updatedAt === +last.updatedAt);
  return at < 0 ? [] : known.slice(at + 1);
}

function unique(threads: Threads): Threads {
  const ids = new Set<string>();
  return threads.filter(({ id }) => !ids.has(id) && ids.add(id));
}

function problemOf(error: unknown): Problem {
  const words = error instanceof Error ? error.message : String(error);
  return error instanceof RefusedError ? error.problem : failure("network", words);
}

function unlessGone(error: unknown): void {
  if (!(error instanceof RefusedError && error.status === 404)) throw error;
}
