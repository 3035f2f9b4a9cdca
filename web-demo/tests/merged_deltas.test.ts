/** Deltas that come in one read are one event; nothing else of a stream changes. */
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { withMergedDeltas } from "../src/wire/merged_deltas";
import { randomNumbers } from "./legal_streams";

const encoder = new TextEncoder();

/** The text of a response whose body came in these pieces. */
async function merged(pieces: readonly Uint8Array[]): Promise<string> {
  const rest = [...pieces];
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      const piece = rest.shift();
      if (piece) controller.enqueue(piece);
      else controller.close();
    },
  });
  return await withMergedDeltas(new Response(body)).text();
}

const delta = (id: string, text: string, number?: number) =>
  `data: ${JSON.stringify({ type: "TEXT_MESSAGE_CONTENT", messageId: id, delta: text })}${number ? `\nid: ${number}` : ""}\n\n`;

/** The events of a stream, with all deltas in a row of one thing as one. */
function folded(stream: string): unknown[] {
  const events: Record<string, unknown>[] = [];
  for (const frame of stream.split("\n\n")) {
    const line = frame.split("\n").find((each) => each.startsWith("data: "));
    if (!line) continue;
    const event = JSON.parse(line.slice(6)) as Record<string, unknown>;
    const last = events.at(-1);
    const same = (["type", "messageId", "toolCallId"] as const).every((name) => last?.[name] === event[name]);
    if (last && same && "delta" in event && Object.keys(event).length === 3 && typeof event.delta === "string") {
      last.delta = `${String(last.delta)}${event.delta}`;
    } else events.push(event);
  }
  return events;
}

test("the words of one read are one event, which has the last number", async () => {
  const stream = ["a", '"', "ü", "\n", "\ud83d", "\ude00"].map((text, index) => delta("m", text, index + 1)).join("");
  const once = await merged([encoder.encode(stream)]);
  expect(once.match(/^data:/gm)).toHaveLength(1);
  expect(folded(once)).toEqual([{ type: "TEXT_MESSAGE_CONTENT", messageId: "m", delta: 'a"ü\n😀' }]);
  expect(once).toContain("\nid: 6\n\n");
});

test("what is no plain delta stays as it is, where it is", async () => {
  const others = [
    ": keep-alive\n\n",
    'data: {"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"x","metadata":{"a":1}}\n\n',
    'data: {"type":"CUSTOM","name":"n","value":12345678901234567890}\n\n',
    'data: {"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":1}\n\n',
    "event: x\nretry: 5\ndata: {}\n\n",
  ];
  for (const other of others) {
    const stream = delta("m", "a") + other + delta("m", "b") + delta("n", "c");
    expect(await merged([encoder.encode(stream)])).toBe(stream);
  }
});

test("a frame that never ends is passed on as it comes", async () => {
  const long = `${delta("m", "a")}data: ${"x".repeat(20_000)}`;
  expect(await merged([encoder.encode(long), encoder.encode("y\n\n"), encoder.encode(delta("m", "b"))])).toBe(
    `${long}y\n\n${delta("m", "b")}`,
  );
});

test("ten thousand words in a few reads are a few events", async () => {
  const stream = encoder.encode(Array.from({ length: 10_000 }, (_, index) => delta("m", `${index} `)).join(""));
  const reads = Array.from({ length: 10 }, (_, index) =>
    stream.subarray((index * stream.length) / 10, ((index + 1) * stream.length) / 10),
  );
  expect((await merged(reads)).match(/^data:/gm)?.length).toBeLessThanOrEqual(20);
});

describe.each(["search", "approval", "frontend-tool", "state", "connect"])("the recorded %s", (name) => {
  const stream = readFileSync(new URL(`recorded/${name}.txt`, import.meta.url), "utf8");

  test("has the same events, however it is cut", async () => {
    const bytes = encoder.encode(stream);
    const random = randomNumbers(7);
    for (const longest of [1, 7, 100, 5_000]) {
      const pieces: Uint8Array[] = [];
      for (let at = 0; at < bytes.length; ) {
        const end = at + 1 + Math.floor(random() * longest);
        pieces.push(bytes.slice(at, end));
        at = end;
      }
      expect(folded(await merged(pieces))).toEqual(folded(stream));
    }
  });
});
