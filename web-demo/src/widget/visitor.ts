/**
 * Who a visitor is to the gateway: a token that it gave for the site's publishable key, kept across pages and tabs.
 *
 * Below: connection, problem. The key stands in the site's HTML for all to see; the token is this visitor's alone, and
 * the threads are the token's.
 */
import { connectionLost, type Fetch } from "../wire/connection";
import { RefusedError, refusal } from "../wire/problem";

interface Ticket {
  readonly visitorToken: string;
  /** ISO 8601. */
  readonly expiresAt: string;
}

/** A token that is about to expire is renewed before it is used. */
const SPARE_MILLISECONDS = 60_000;

export class Visitor {
  readonly #url: string;
  readonly #key: string;
  readonly #place: string;
  #ticket: Ticket | undefined;
  #asking: Promise<Ticket> | undefined;

  constructor(
    baseUrl: string,
    key: string,
    private readonly siteFetch: Fetch = (url, init) => fetch(url, init),
  ) {
    this.#url = `${baseUrl}/visitors`;
    this.#key = key;
    this.#place = `agui-chat visitor ${baseUrl} ${key}`;
  }

  /** The token; asks the gateway for one where there is none that will do. Raises RefusedError, ConnectionLostError. */
  readonly token = async (): Promise<string> => {
    const ticket = this.#kept();
    return (ticket && isFresh(ticket) ? ticket : await this.#renew(ticket?.visitorToken)).visitorToken;
  };

  /** As fetch, but a token that the gateway no longer takes is renewed, once, and the request made again. */
  readonly fetch: Fetch = async (url, init) => {
    const response = await this.siteFetch(url, init);
    if (response.status !== 401) return response;
    const headers = new Headers(init.headers);
    const refused = headers.get("authorization")?.replace(/^Bearer /, "");
    const ticket = await this.#renew(refused).catch(() => undefined);
    if (!ticket) return response;
    headers.set("authorization", `Bearer ${ticket.visitorToken}`);
    return this.siteFetch(url, { ...init, headers });
  };

  /** One new token however many ask for it, in this tab and in the others. `old` is the one that will not do. */
  #renew(old: string | undefined): Promise<Ticket> {
    this.#asking ??= alone(this.#place, async () => {
      const kept = this.#kept();
      return kept && isFresh(kept) && kept.visitorToken !== old ? kept : this.#ask(old);
    }).finally(() => {
      this.#asking = undefined;
    });
    return this.#asking;
  }

  async #ask(old: string | undefined): Promise<Ticket> {
    const ask = (body: object) =>
      this.siteFetch(this.#url, {
        method: "POST",
        headers: { Authorization: `Bearer ${this.#key}`, "Content-Type": "application/json" },
        body: JSON.stringify(body),
      }).catch((error: unknown) => {
        throw connectionLost(error);
      });
    let response = await ask(old ? { visitorToken: old } : {});
    // the gateway's secret was changed: whoever it was, it is somebody new
    if (old && response.status >= 400 && response.status < 500 && response.status !== 429) response = await ask({});
    if (!response.ok) throw await refusalOf(response);
    this.#ticket = (await response.json()) as Ticket;
    try {
      localStorage.setItem(this.#place, JSON.stringify(this.#ticket));
    } catch {
      // switched off: a visitor for as long as the page is there
    }
    return this.#ticket;
  }

  #kept(): Ticket | undefined {
    try {
      const kept = localStorage.getItem(this.#place);
      if (kept) this.#ticket = JSON.parse(kept) as Ticket;
    } catch {
      // as above, or somebody wrote something else there
    }
    return this.#ticket;
  }
}

/** Why there is no token. A key that the gateway does not know is the site's mistake: no visitor can sign in to mend it. */
async function refusalOf(response: Response): Promise<RefusedError> {
  const refused = refusal(response.status, await response.text(), response.headers);
  if (response.status !== 401) return refused;
  return new RefusedError(401, { ...refused.problem, code: "publishable_key_unknown", retryable: false });
}

function isFresh(ticket: Ticket): boolean {
  return !!ticket.visitorToken && Date.parse(ticket.expiresAt) - Date.now() > SPARE_MILLISECONDS;
}

/** One at a time among all tabs of this site, where the browser can. */
function alone<Result>(name: string, work: () => Promise<Result>): Promise<Result> {
  return navigator.locks ? (navigator.locks.request(name, work) as Promise<Result>) : work();
}
