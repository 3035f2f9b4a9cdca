/** The lean reader beside the reader over HttpAgent: what they send, tell and raise is the same. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import type { JsonValue } from "../src/chat/contract";
import type { WireEvent, WireInput, WireMessage } from "../src/wire/ag_ui";
import { Connection } from "../src/wire/connection";
import { HttpAgentReader } from "../src/wire/http_agent_reader";
import { LeanReader } from "../src/wire/lean_reader";
import { RefusedError } from "../src/wire/problem";
import { ConnectionLostError, type RunReader, UnreadableStreamError } from "../src/wire/run_reader";
import { LegalStream } from "./legal_streams";

type Answer = (request: IncomingMessage, response: ServerResponse, body: string) => void;

let server: Server;
let connection: Connection;
let answer: Answer;

beforeAll(async () => {
  vi.spyOn(console, "warn").mockImplementation(() => {});
  server = createServer(async (request, response) => {
    let body = "";
    for await (const piece of request) body += piece;
    answer(request, response, body);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  connection = new Connection({ baseUrl: `http://127.0.0.1:${port}`, token: () => "secret" });
});

afterAll(() => {
  server.closeAllConnections();
  return new Promise((resolve) => server.close(resolve));
});

const ASKED: WireMessage = { id: "user-1", role: "user", content: "hello" };
const SHOWN: WireMessage = { id: "plan-1", role: "activity", activityType: "plan", content: { steps: [] } };
const INPUT: WireInput = {
  threadId: "thread",
  runId: "run",
  messages: [ASKED, SHOWN],
  tools: [{ name: "add", description: "", parameters: { type: "object" } }],
  context: [{ description: "cart", value: "[]" }],
  state: { list: ["bread"] },
};
const START: WireEvent = { type: "RUN_STARTED", threadId: "thread", runId: "run" };
const TEXT: WireEvent = { type: "TEXT_MESSAGE_START", messageId: "m", role: "assistant" };
const SAY: WireEvent = { type: "TEXT_MESSAGE_CONTENT", messageId: "m", delta: "hi" };

interface Told {
  messages: unknown;
  state: JsonValue | undefined;
  events: WireEvent[];
  error: unknown;
}

async function read(reader: RunReader, input = INPUT, signal = new AbortController().signal): Promise<Told> {
  const told: Told = { messages: undefined, state: undefined, events: [], error: undefined };
  const observer = {
    onMessages: (messages: readonly WireMessage[]) => {
      told.messages = JSON.parse(JSON.stringify(messages));
    },
    onState: (state: JsonValue) => {
      told.state = state;
    },
    onEvent: (event: WireEvent) => {
      told.events.push(event);
    },
  };
  await reader.read("run", input, observer, signal).catch((error: unknown) => {
    told.error = error;
  });
  return told;
}

const readers = () => [new HttpAgentReader(connection, "an agent"), new LeanReader(connection, "an agent")] as const;

function streamed(...events: readonly WireEvent[]): Answer {
  return (_request, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.end(events.map((event, number) => `data: ${JSON.stringify(event)}\nid: ${number}\n\n`).join(""));
  };
}

/** The types of events. Of deltas that follow each other it does not matter how many there were. */
function told(events: readonly WireEvent[]): string[] {
  const types = events.map(({ type }) => type);
  return types.filter((type, place) => !/_(?:CONTENT|ARGS)$/.test(type) || type !== types[place - 1]);
}

describe("both readers", () => {
  test("send the same request", async () => {
    const seen: unknown[] = [];
    answer = (request, response, body) => {
      const { authorization, accept, "content-type": type } = request.headers;
      seen.push({ method: request.method, url: request.url, authorization, accept, type, body: JSON.parse(body) });
      streamed(START, { type: "RUN_FINISHED", threadId: "thread", runId: "run" })(request, response, body);
    };
    const resume = [{ interruptId: "i", status: "resolved" as const, payload: { approved: true } }];
    for (const input of [INPUT, { ...INPUT, state: undefined }, { ...INPUT, resume }]) {
      for (const reader of readers()) await read(reader, input);
    }
    for (const number of [0, 2, 4]) expect(seen[number + 1]).toEqual(seen[number]);
    expect(seen[0]).toMatchObject({ url: "/agents/an%20agent/run", authorization: "Bearer secret" });
  });

  test.each(Array.from({ length: 25 }, (_, seed) => seed))("tell the same of a random stream (%i)", async (seed) => {
    const { events } = new LegalStream(seed + 1_000);
    answer = streamed(...events);
    const [http, lean] = readers();
    const [theirs, ours] = [await read(http), await read(lean)];
    expect(ours.messages).toEqual(theirs.messages);
    expect(ours.state).toEqual(theirs.state);
    expect(ours.error).toEqual(theirs.error);
    expect(told(ours.events.filter(({ type }) => !type.endsWith("CHUNK")))).toEqual(told(theirs.events));
  });

  test("raise what the gateway refuses", async () => {
    answer = (_request, response) => {
      response.writeHead(429, { "content-type": "application/problem+json", "retry-after": "7" });
      response.end(JSON.stringify({ code: "rate_limited", detail: "Too many runs.", status: 429 }));
    };
    const told = await Promise.all(readers().map((reader) => read(reader)));
    const [theirs, ours] = told.map(({ error }) => error as RefusedError) as [RefusedError, RefusedError];
    expect(ours).toBeInstanceOf(RefusedError);
    expect(ours.problem).toEqual(theirs.problem);
    expect(ours.problem.retryAfterSeconds).toBe(7);
  });

  test("take a stream that ends early or breaks for a lost connection, and keep what came", async () => {
    const breaking: Answer = (_request, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write([START, TEXT, SAY].map((event) => `data: ${JSON.stringify(event)}\n\n`).join(""), () => {
        setImmediate(() => response.destroy());
      });
    };
    for (const way of [streamed(START, TEXT, SAY), breaking]) {
      answer = way;
      for (const reader of readers()) {
        const told = await read(reader);
        expect(told.error).toBeInstanceOf(ConnectionLostError);
        expect(told.messages).toContainEqual({ id: "m", role: "assistant", content: "hi" });
      }
    }
  });

  test("do not try to read what cannot be read", async () => {
    answer = streamed(START, SAY);
    for (const reader of readers()) expect((await read(reader)).error).toBeInstanceOf(UnreadableStreamError);
  });

  test("tell nothing more once they are stopped", async () => {
    for (const reader of readers()) {
      const stop = new AbortController();
      answer = (_request, response) => {
        response.writeHead(200, { "content-type": "text/event-stream" });
        response.write(`data: ${JSON.stringify(START)}\n\n`);
        response.once("close", () => closed());
        setImmediate(() => stop.abort());
      };
      let closed = () => {};
      const gone = new Promise<void>((resolve) => {
        closed = resolve;
      });
      const told = await read(reader, INPUT, stop.signal);
      expect(told.error).toBeUndefined();
      await gone;
    }
  });
});

test("a silence that is longer than two heartbeats is a lost connection", async () => {
  answer = (_request, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(`data: ${JSON.stringify(START)}\n\n`);
  };
  const told = await read(new LeanReader(connection, "agent", { silenceMilliseconds: 50 }));
  expect(told.events).toHaveLength(1);
  expect(told.error).toBeInstanceOf(ConnectionLostError);
});
