/** Who a visitor is: one token however many ask, renewed as the same visitor, and anew where that is refused. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { Visitor } from "../src/widget/visitor";
import { RefusedError } from "../src/wire/problem";

let server: Server;
let url: string;
/** What was asked for: the path, and the visitor that was to be renewed. */
let asked: string[];
/** Tokens that the server takes. */
let known: Set<string>;
let refusal: number | undefined;
let seconds: number;

beforeAll(async () => {
  server = createServer(async (request, response) => {
    let body = "";
    for await (const piece of request) body += piece;
    const { visitorToken = "nobody" } = JSON.parse(body || "{}") as { visitorToken?: string };
    const bearer = request.headers.authorization?.replace("Bearer ", "") ?? "";
    asked.push(request.url === "/visitors" ? visitorToken : `${request.url} ${bearer}`);
    if (request.url !== "/visitors") {
      response.writeHead(known.has(bearer) ? 200 : 401).end("{}");
    } else if (refusal !== undefined || (visitorToken !== "nobody" && !visitorToken.startsWith("visitor"))) {
      response.writeHead(refusal ?? 401, { "retry-after": "9" }).end('{"code": "limit_key_visitors_per_minute"}');
    } else {
      const token = `visitor-${asked.length}`;
      known.add(token);
      const expiresAt = new Date(Date.now() + seconds * 1_000).toISOString();
      response.writeHead(201).end(JSON.stringify({ visitorToken: token, expiresAt }));
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterAll(() => new Promise((resolve) => server.close(resolve)));

beforeEach(() => {
  vi.stubGlobal("navigator", {}); // without locks, as on a page that is not secure
  const kept = new Map<string, string>();
  vi.stubGlobal("localStorage", {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => void kept.set(key, value),
  });
  [asked, known, refusal, seconds] = [[], new Set(), undefined, 3_600];
});

test("many requests at once make one visitor, and a second page is the same one", async () => {
  const visitor = new Visitor(url, "pk_shop");
  const tokens = await Promise.all(Array.from({ length: 5 }, () => visitor.token()));
  expect(new Set(tokens).size).toBe(1);
  expect(await new Visitor(url, "pk_shop").token()).toBe(tokens[0]);
  expect(asked).toEqual(["nobody"]);
  expect(await new Visitor(url, "pk_other").token()).not.toBe(tokens[0]);
});

test("a token that is about to end is renewed before it is used", async () => {
  seconds = 30;
  const visitor = new Visitor(url, "pk_shop");
  const first = await visitor.token();
  seconds = 3_600;
  expect(await visitor.token()).not.toBe(first);
  expect(asked).toEqual(["nobody", first]);
});

test("a token that the gateway does not take any more is renewed, once for all that meet it", async () => {
  const visitor = new Visitor(url, "pk_shop");
  const token = await visitor.token();
  known.clear();
  const ask = () => visitor.fetch(`${url}/threads`, { headers: { Authorization: `Bearer ${token}` } });
  const answers = await Promise.all([ask(), ask(), ask()]);
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
  expect(asked.filter((each) => each === token)).toHaveLength(1);
});

test("a visitor that the gateway cannot know again is somebody new", async () => {
  const visitor = new Visitor(url, "pk_shop");
  localStorage.setItem(
    `agui-chat visitor ${url} pk_shop`,
    JSON.stringify({ visitorToken: "of another secret", expiresAt: "2000-01-01T00:00:00Z" }),
  );
  expect(await visitor.token()).toBe("visitor-2");
  expect(asked).toEqual(["of another secret", "nobody"]);
});

test("a refusal is told with its code and time, and a request keeps its own answer", async () => {
  refusal = 429;
  const visitor = new Visitor(url, "pk_shop");
  const error = await visitor.token().catch((each: unknown) => each);
  expect(error).toBeInstanceOf(RefusedError);
  expect((error as RefusedError).problem).toMatchObject({
    code: "limit_key_visitors_per_minute",
    retryAfterSeconds: 9,
  });
  expect((await visitor.fetch(`${url}/threads`, { headers: { Authorization: "Bearer old" } })).status).toBe(401);
});
