/**
 * A gateway as the front end asks it: addresses, the key, and what is there besides runs.
 *
 * Below: problems. Above: the readers, which read runs, and the lists of threads and agents. A key travels in a header
 * alone, never in an address.
 */
import type { AgentSummary, JsonObject, ThreadSummary } from "../chat/contract";
import { RefusedError, refusal } from "./problem";
import { ConnectionLostError } from "./run_reader";

export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

export interface ConnectionOptions {
  /** Where the gateway is: "https://gateway.example", with a path where a proxy gives it one. */
  readonly baseUrl: string;
  /** What goes into the Authorization header as a bearer token; asked before every request. */
  readonly token?: () => string | undefined | Promise<string | undefined>;
  /** In place of the browser's own, for a page that signs or renews something. */
  readonly fetch?: Fetch;
}

export interface ThreadPage {
  readonly threads: readonly ThreadSummary[];
  /** What to ask the next page with; undefined: this was the last. */
  readonly nextCursor: string | undefined;
}

/** What a failed fetch means, unless whoever fetched knows better. */
export function connectionLost(error: unknown): Error {
  if (error instanceof RefusedError) return error;
  return new ConnectionLostError("the gateway cannot be reached", { cause: error });
}

interface AgentPage {
  readonly agents: readonly AgentSummary[];
  readonly nextCursor?: string | null;
}

export class Connection {
  readonly baseUrl: string;
  readonly #token: () => string | undefined | Promise<string | undefined>;
  readonly #fetch: Fetch;

  constructor(options: ConnectionOptions) {
    this.baseUrl = options.baseUrl.replace(/\/+$/, "");
    this.#token = options.token ?? (() => undefined);
    this.#fetch = options.fetch ?? ((url, init) => fetch(url, init));
  }

  /** Where an agent's runs are begun, or its threads are looked at. */
  agentUrl(agentId: string, kind: "run" | "connect"): string {
    return `${this.baseUrl}/agents/${encodeURIComponent(agentId)}/${kind}`;
  }

  /** What every request carries. */
  async headers(): Promise<Record<string, string>> {
    const token = await this.#token();
    return token ? { Authorization: `Bearer ${token}` } : {};
  }

  /** As the browser's fetch; without a network, a ConnectionLostError in place of a TypeError. */
  fetch(url: string, init: RequestInit): Promise<Response> {
    return this.#fetch(url, init).catch((error: unknown) => {
      throw init.signal?.aborted ? error : connectionLost(error);
    });
  }

  async agents(): Promise<AgentSummary[]> {
    const found: AgentSummary[] = [];
    for (let cursor: string | null | undefined = ""; typeof cursor === "string"; ) {
      const query: string = cursor && `?${new URLSearchParams({ cursor })}`;
      const page = (await this.#ask("GET", `/agents${query}`)) as AgentPage;
      found.push(...page.agents.map(({ id, name, description }) => ({ id, name, description })));
      cursor = page.nextCursor;
    }
    return found;
  }

  /** AG-UI's AgentCapabilities. https://docs.ag-ui.com/spec/1.0/basic/capabilities */
  async capabilities(agentId: string): Promise<JsonObject> {
    return (await this.#ask("GET", `/agents/${encodeURIComponent(agentId)}/capabilities`)) as JsonObject;
  }

  /** Threads, the last used first. */
  async threads(cursor?: string, limit = 30): Promise<ThreadPage> {
    const query = new URLSearchParams({ limit: String(limit), ...(cursor !== undefined && { cursor }) });
    const page = (await this.#ask("GET", `/threads?${query}`)) as {
      threads: { id: string; title: string | null; agentId: string; updatedAt: string }[];
      nextCursor: string | null;
    };
    const threads = page.threads.map((thread) => ({
      id: thread.id,
      title: thread.title ?? "",
      agentId: thread.agentId,
      updatedAt: new Date(thread.updatedAt),
    }));
    return { threads, nextCursor: page.nextCursor ?? undefined };
  }

  /** The ids of the thread's questions that are open. */
  async interrupts(threadId: string): Promise<string[]> {
    const path = `/threads/${encodeURIComponent(threadId)}/messages?limit=1`;
    const { interrupts } = (await this.#ask("GET", path)) as { interrupts: { id: string }[] };
    return interrupts.map(({ id }) => id);
  }

  async renameThread(threadId: string, title: string): Promise<void> {
    await this.#ask("PATCH", `/threads/${encodeURIComponent(threadId)}`, { title });
  }

  async deleteThread(threadId: string): Promise<void> {
    await this.#ask("DELETE", `/threads/${encodeURIComponent(threadId)}`);
  }

  /** Stop a run, whoever watches it. It ends within a second. */
  async cancelRun(runId: string): Promise<void> {
    await this.#ask("POST", `/runs/${encodeURIComponent(runId)}/cancel`);
  }

  /** Raises RefusedError, ConnectionLostError. */
  async #ask(method: string, path: string, body?: JsonObject): Promise<unknown> {
    const response = await this.fetch(this.baseUrl + path, {
      method,
      headers: { ...(await this.headers()), ...(body && { "Content-Type": "application/json" }) },
      ...(body && { body: JSON.stringify(body) }),
    });
    if (!response.ok) throw refusal(response.status, await response.text(), response.headers);
    return response.status === 204 ? undefined : response.json();
  }
}
