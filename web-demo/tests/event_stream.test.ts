import { expect, test } from "vitest";
import { eventStream } from "../src/wire/event_stream";

/** A response whose body is these pieces, and ends, breaks or goes on. */
function response(pieces: readonly Uint8Array[], then: "end" | "break" | "go on"): Response {
  const rest = [...pieces];
  return new Response(
    new ReadableStream<Uint8Array>({
      pull(controller) {
        const piece = rest.shift();
        if (piece) controller.enqueue(piece);
        else if (then === "end") controller.close();
        else if (then === "break") controller.error(new TypeError("network error"));
        else return new Promise(() => {});
      },
    }),
  );
}

const HELLO = new TextEncoder().encode("hello");
const patient = { signal: new AbortController().signal };

test("a stream that the server ends is not lost", async () => {
  const stream = eventStream(response([HELLO, HELLO], "end"), patient);
  expect(await stream.response.text()).toBe("hellohello");
  expect(stream.lost).toBeUndefined();
});

test("what came before a connection broke is good, and the body says nothing of an error", async () => {
  const stream = eventStream(response([HELLO], "break"), patient);
  expect(await stream.response.text()).toBe("hello");
  expect(stream.lost?.message).toBe("the connection broke");
});

test("a connection on which nothing comes any more is lost", async () => {
  const stream = eventStream(response([HELLO], "go on"), { ...patient, silenceMilliseconds: 30 });
  expect(await stream.response.text()).toBe("hello");
  expect(stream.lost?.message).toBe("nothing came for 0.03 s");
});

test("a stream that nobody wants any more ends", async () => {
  const unwanted = new AbortController();
  const stream = eventStream(response([HELLO], "go on"), { signal: unwanted.signal });
  const read = stream.response.text();
  unwanted.abort();
  expect(await read).toMatch(/^(hello)?$/);
});

test("between the pieces of a long burst the page gets to do other things", async () => {
  const stream = eventStream(response([new Uint8Array(50_000)], "end"), patient);
  const turns: number[] = [];
  let isOver = false;
  const elsewhere = new MessageChannel();
  elsewhere.port1.onmessage = () => {
    if (isOver) return elsewhere.port1.close();
    turns.push(turns.length);
    elsewhere.port2.postMessage(undefined);
  };
  elsewhere.port2.postMessage(undefined);
  expect((await stream.response.arrayBuffer()).byteLength).toBe(50_000);
  isOver = true;
  expect(turns.length).toBeGreaterThan(10);
});
