/** Waiting for signals to say something, with a deadline. */
import { effect } from "@preact/signals";

const DEADLINE_MILLISECONDS = 20_000;

/** Resolves with what `look` gives once it is not undefined or false; looked at anew whenever a signal in it changes. */
export async function until<Value>(look: () => Value | undefined | false, what = look.toString()): Promise<Value> {
  let stop = () => {};
  let late: ReturnType<typeof setTimeout> | undefined;
  try {
    return await new Promise<Value>((resolve, reject) => {
      late = setTimeout(
        () => reject(new Error(`not within ${DEADLINE_MILLISECONDS} ms: ${what}`)),
        DEADLINE_MILLISECONDS,
      );
      stop = effect(() => {
        const value = look();
        if (value !== undefined && value !== false) resolve(value);
      });
    });
  } finally {
    clearTimeout(late);
    stop();
  }
}
