/** The threads that there are, as a list to choose from. Below: the connection. */
import { batch, signal } from "@preact/signals";
import type { Connection } from "../wire/connection";
import { failure, RefusedError } from "../wire/problem";
import type { Problem, ThreadList, ThreadSummary } from "./contract";

export function createThreadList(connection: Connection): ThreadList {
  return new LiveThreadList(connection);
}

class LiveThreadList implements ThreadList {
  readonly threads = signal<readonly ThreadSummary[]>([]);
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

  async remove(threadId: string): Promise<void> {
    await this.#change(
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
      const known = cursor === undefined ? [] : this.threads.peek();
      const ids = new Set(known.map((each) => each.id));
      this.threads.value = [...known, ...answer.threads.filter((each) => !ids.has(each.id))];
      this.#cursor = answer.nextCursor;
      this.hasMore.value = answer.nextCursor !== undefined;
      this.problem.value = undefined;
      if (this.refused.peek() === told) this.refused.value = undefined; // what was refused meanwhile was not read yet
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
    this.refused.value = undefined;
    this.threads.value = change(before);
    try {
      await ask();
    } catch (error) {
      batch(() => {
        this.threads.value = before;
        this.refused.value = problemOf(error);
      });
    }
  }
}

function problemOf(error: unknown): Problem {
  const words = error instanceof Error ? error.message : String(error);
  return error instanceof RefusedError ? error.problem : failure("network", words);
}

function unlessGone(error: unknown): void {
  if (!(error instanceof RefusedError && error.status === 404)) throw error;
}
