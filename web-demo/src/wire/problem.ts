/**
 * What the gateway answers instead of what was asked for, as a Problem. https://www.rfc-editor.org/rfc/rfc9457
 *
 * Below: the contract.
 */
import type { Problem } from "../chat/contract";
import type { WireStale } from "./ag_ui";

/** The gateway refused: before the first byte of a run, or any other request. */
export class RefusedError extends Error {
  override readonly name = "RefusedError";

  constructor(
    readonly status: number,
    readonly problem: Problem,
    /** With `stale_history`. */
    readonly stale?: WireStale,
  ) {
    super(problem.message);
  }
}

const CODE_OF_STATUS: { readonly [status: number]: string } = {
  401: "unauthenticated",
  403: "forbidden",
  404: "not_found",
  409: "conflict",
  413: "too_large",
  429: "rate_limited",
};
/** One word for what has several: views and texts need to know these alone. */
const SAME_AS: { readonly [code: string]: string } = {
  body_too_large: "too_large",
  too_many_requests: "rate_limited",
  thread_busy: "conflict",
};

/** The header by which every answer names its request. */
export const REQUEST_ID = "x-request-id";
/** How a model failed that will not answer the next time either, until somebody changes something. */
const LASTING =
  /^(?:model_(?:invalid|authentication|not_found|quota|context_overflow|content_filter)|refusal|content_filter|context_overflow)$/;

/** What an answer that is no success says. `body` is its text, JSON or not. */
export function refusal(status: number, body: string, headers: Headers): RefusedError {
  const told = readBody(body);
  const code = told.code ?? CODE_OF_STATUS[status] ?? (status >= 500 ? "unavailable" : "invalid_request");
  return new RefusedError(
    status,
    {
      code: SAME_AS[code] ?? code,
      message: told.detail ?? `The server answered ${status}.`,
      retryable: status >= 500 || status === 408 || status === 409 || status === 429 || status === 401,
      retryAfterSeconds: secondsOf(headers.get("retry-after")),
      requestId: headers.get(REQUEST_ID) ?? undefined,
    },
    told.stale,
  );
}

/** A run's RUN_ERROR as a problem. */
export function failure(code = "run_failed", message: string, requestId?: string): Problem {
  return { code, message, retryable: !LASTING.test(code), retryAfterSeconds: undefined, requestId };
}

function readBody(body: string): { code?: string; detail?: string; stale?: WireStale } {
  try {
    const json = JSON.parse(body) as ({ code?: unknown; detail?: unknown } & WireStale) | null;
    return {
      ...(typeof json?.code === "string" && { code: json.code }),
      ...(typeof json?.detail === "string" && { detail: json.detail }),
      ...(json?.missing && { stale: json }),
    };
  } catch {
    return {}; // a proxy's page
  }
}

function secondsOf(retryAfter: string | null | undefined): number | undefined {
  const seconds = retryAfter ? Number(retryAfter) : Number.NaN;
  return Number.isFinite(seconds) && seconds >= 0 ? seconds : undefined;
}
