/**
 * What a widget remembers of itself from one page of the site to the next: in the tab, whether the panel is open, what
 * was not read, whether an answer was under way; in the browser, the threads that were begun there. The thread that is
 * shown is the conversation's to keep. Below: nothing.
 */
import { signal } from "@preact/signals";

interface Kept {
  readonly open?: boolean;
  readonly unread?: number;
  /** An answer was under way, or the person's decision was asked for. */
  readonly busy?: boolean;
}

export class Recollection {
  readonly #place: string;

  constructor(scope: string) {
    this.#place = `agui-chat seen ${scope}`;
  }

  get kept(): Kept {
    try {
      return JSON.parse(sessionStorage.getItem(this.#place) ?? "{}") as Kept;
    } catch {
      return {};
    }
  }

  keep(changes: Kept): void {
    try {
      sessionStorage.setItem(this.#place, JSON.stringify({ ...this.kept, ...changes }));
    } catch {
      // switched off, or full: the next page starts with a closed panel
    }
  }
}

/** More are not remembered. */
const MOST_THREADS = 200;

export class BegunThreads {
  /** The last one begun comes last. */
  readonly ids = signal<readonly string[]>([]);
  readonly #place: string;

  constructor(scope: string) {
    this.#place = `agui-chat begun ${scope}`;
    this.look();
  }

  add(id: string): void {
    this.#keep([...this.#others(id), id].slice(-MOST_THREADS));
  }

  forget(id: string): void {
    this.#keep(this.#others(id));
  }

  /** Other tabs begin and forget some too. */
  look(): void {
    try {
      this.ids.value = JSON.parse(localStorage.getItem(this.#place) ?? "[]") as string[];
    } catch {
      // switched off: those of this page are known as long as it is there
    }
  }

  #others(id: string): readonly string[] {
    this.look();
    return this.ids.peek().filter((each) => each !== id);
  }

  #keep(ids: readonly string[]): void {
    this.ids.value = ids;
    try {
      localStorage.setItem(this.#place, JSON.stringify(ids));
    } catch {
      // as above: there is nothing to go back to
    }
  }
}
