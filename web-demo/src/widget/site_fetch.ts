/**
 * fetch, as a page of a site has it. A browser fails alike where the gateway is away and where it lets in no page of this
 * origin: after some failures in a row this looks which of the two it is, since only the first passes.
 *
 * Below: problems.
 */
import type { Fetch } from "../wire/connection";
import { RefusedError } from "../wire/problem";

const TRIES = 3;

/** `allowedIn`: where an origin is allowed. Raises RefusedError where this one is not. */
export function siteFetch(gateway: string, allowedIn: string): Fetch {
  let failures = 0;
  return async (url, init) => {
    try {
      const response = await fetch(url, init);
      failures = 0;
      return response;
    } catch (error) {
      if (init.signal?.aborted || ++failures < TRIES || !(await isThere(gateway))) throw error;
      throw new RefusedError(403, {
        code: "origin_not_allowed",
        message: `the gateway lets in no page of ${location.origin}; add that to ${allowedIn}`,
        retryable: true,
        retryAfterSeconds: undefined,
      });
    }
  };
}

/** What every page may ask for; of the answer nothing is told but that there is one. */
function isThere(gateway: string): Promise<boolean> {
  return fetch(`${gateway}/widget.js`, { method: "HEAD", mode: "no-cors", cache: "no-store" }).then(
    () => true,
    () => false,
  );
}
