/**
 * The bytes of an event stream, watched and paced: both readers read through this.
 *
 * Below: the reader's errors. Watched: a gateway says something at least every 15 seconds, a comment where there is
 * nothing else, so a longer silence is a connection that died without telling. Paced: a server that sends ten thousand
 * events at once must not keep the page from drawing until the last of them is taken in.
 */
import { isOffline, onOffline, onReturn, STALE_MILLISECONDS } from "./network";
import { ConnectionLostError } from "./run_reader";

/** Two and a half heartbeats. */
const SILENCE_MILLISECONDS = 40_000;
/** What is taken in between two chances to draw: some forty events. */
const PIECE_BYTES = 4096;

export interface EventStream {
  /** The response, to read the body of which is to read the stream. Its body ends early where the connection is lost. */
  readonly response: Response;
  /** Why the body ended; undefined while it has not, and where the server ended it. */
  readonly lost: ConnectionLostError | undefined;
}

export interface Watch {
  readonly silenceMilliseconds?: number;
  /** Aborted: the body ends. */
  readonly signal: AbortSignal;
}

/**
 * The stream behind a response that is one. A lost connection ends the body properly rather than with an error: the
 * bytes until then are good, and `lost` says the rest.
 */
export function eventStream(response: Response, { silenceMilliseconds = SILENCE_MILLISECONDS, signal }: Watch) {
  const stream: { response: Response; lost: ConnectionLostError | undefined } = { response, lost: undefined };
  if (!response.ok || !response.body) return stream;
  const source = response.body.getReader();
  let rest: Uint8Array = new Uint8Array();
  let taken = false;
  const lose = (why: string) => {
    stream.lost ??= new ConnectionLostError(why);
    source.cancel().catch(() => undefined); // it is gone either way
  };
  let wentOffline = isOffline();
  const ignore = onOffline(() => {
    wentOffline = true;
  });
  const isDoubtful = () => wentOffline && !isOffline(); // what is open may lead nowhere now
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        if (taken) await breath();
        if (rest.length === 0) {
          const read = await next(source, silenceMilliseconds, isDoubtful, signal);
          if (typeof read === "string") lose(read);
          if (typeof read === "string" || read.done) {
            ignore();
            return controller.close();
          }
          rest = read.value;
        }
        taken = true;
        controller.enqueue(rest.subarray(0, PIECE_BYTES));
        rest = rest.subarray(PIECE_BYTES);
      },
      cancel: () => {
        ignore();
        return source.cancel();
      },
    },
    { highWaterMark: 0 },
  );
  stream.response = new Response(body, { status: response.status, headers: response.headers });
  return stream as EventStream;
}

/** The next bytes, or why there are none. */
async function next(
  source: ReadableStreamDefaultReader<Uint8Array>,
  silence: number,
  isDoubtful: () => boolean,
  signal: AbortSignal,
) {
  const since = Date.now();
  let over = () => {};
  const givenUp = new Promise<string>((resolve) => {
    const timer = setTimeout(() => resolve(`nothing came for ${silence / 1000} s`), silence);
    // A machine that slept, and a tab that was frozen, stop timers too.
    const ignore = onReturn(() => {
      if (Date.now() - since > STALE_MILLISECONDS) resolve("nothing came while the tab was away");
      else if (isDoubtful()) resolve("the network was away");
    });
    const stop = () => resolve("the stream was given up");
    signal.addEventListener("abort", stop);
    if (signal.aborted) stop();
    over = () => {
      clearTimeout(timer);
      ignore();
      signal.removeEventListener("abort", stop);
    };
  });
  try {
    return await Promise.race([source.read(), givenUp]);
  } catch {
    return "the connection broke";
  } finally {
    over();
  }
}

/** A moment in which the page may draw and answer to clicks. Not a timer: those wait 4 ms, and 1 s in a hidden tab. */
function breath(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(undefined);
  });
}
