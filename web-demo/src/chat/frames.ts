/** One update per animation frame, however much happens in it. Below: nothing. */

/** A hidden tab draws no frames; its signals still change, for a title or a badge. */
const HIDDEN_MILLISECONDS = 250;

export class Frames {
  #cancel: (() => void) | undefined;
  #heldUntil = 0;

  constructor(private readonly update: () => void) {}

  /** Update with the next frame. */
  request(): void {
    this.#cancel ??= this.#schedule();
  }

  /** Update now: somebody clicked and looks at what it does. */
  now(): void {
    this.stop();
    this.update();
  }

  /** No update for so long: what comes now is the old picture put together again, piece by piece. */
  hold(milliseconds: number): void {
    this.stop();
    this.#heldUntil = Date.now() + milliseconds;
    this.request();
  }

  stop(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }

  #schedule(): () => void {
    const run = () => this.now();
    const held = this.#heldUntil - Date.now();
    if (held > 0 || typeof requestAnimationFrame !== "function") {
      const timer = setTimeout(run, Math.max(0, held));
      return () => clearTimeout(timer);
    }
    const frame = requestAnimationFrame(run);
    const timer = setTimeout(run, HIDDEN_MILLISECONDS);
    return () => {
      cancelAnimationFrame(frame);
      clearTimeout(timer);
    };
  }
}
