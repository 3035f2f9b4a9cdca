/**
 * What a widget remembers of itself from one page of the site to the next, in the tab: whether the panel is open, what
 * was not read, whether an answer was under way. The thread that is shown is the conversation's to keep. Below: nothing.
 */

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
