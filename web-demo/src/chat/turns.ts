/** One turn at a time: beginning another ends the one before. Below: nothing. */

export interface Turn {
  readonly signal: AbortSignal;
  /** Resolves when it is over, by itself or because it was given up. */
  readonly over: Promise<void>;
  /** Nobody asked for it: it changes nothing but what is shown, and gives way to everything. Until it finds something. */
  quiet: boolean;
  /** Was the thread only opened? Then what its last run left open is of another day. */
  readonly opens: boolean;
}

export class Turns {
  #current: { readonly turn: Turn; readonly abort: AbortController } | undefined;

  /** `onRest`: the current turn is over, or was abandoned. */
  constructor(private readonly onRest: () => void) {}

  get current(): Turn | undefined {
    return this.#current?.turn;
  }

  /** Do `work` as the current turn. */
  async take(work: (turn: Turn) => Promise<void>, { quiet = false, opens = false } = {}): Promise<void> {
    this.giveUp();
    const abort = new AbortController();
    let done = () => {};
    const over = new Promise<void>((resolve) => {
      done = resolve;
    });
    const turn: Turn = { signal: abort.signal, over, quiet, opens };
    this.#current = { turn, abort };
    try {
      await work(turn);
    } finally {
      if (this.current === turn) this.#rest();
      done();
    }
  }

  /** Abandon the current turn; what it showed stays. */
  giveUp(turn = this.current): void {
    const current = this.#current;
    if (!current || current.turn !== turn) return;
    current.abort.abort();
    this.#rest();
  }

  #rest(): void {
    this.#current = undefined;
    this.onRest();
  }
}
