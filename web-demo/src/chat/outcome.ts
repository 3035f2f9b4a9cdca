/** How a run ended, read from its last event. Below: AG-UI's words, problems. Pure. */
import type { WireEvent } from "../wire/ag_ui";
import { failure } from "../wire/problem";
import type { JsonObject, JsonValue, Problem, Usage } from "./contract";

export interface Outcome {
  /** The calls that the page has to answer, in their order. */
  readonly pendingCalls: readonly string[];
  readonly isInterrupt: boolean;
  /** Where it did not end as it should. */
  readonly problem: Problem | undefined;
  readonly usage: Usage | undefined;
}

// What is said by its code, as `texts.ts` knows it, needs no words here.

/** What somebody who did not stop the run is told about its being stopped. */
const STOPPED: { readonly [code: string]: string } = {
  abandoned: "The answer was stopped: nobody was there to see it.",
  superseded: "",
  server_shutdown: "",
};
const CUT_OFF: { readonly [reason: string]: string } = {
  max_tokens: "The answer was cut off: it became too long.",
  max_iterations: "The answer was cut off: no steps are left. Ask it to go on.",
  content_filter: "",
  refusal: "",
  context_overflow: "",
};

/** `event` is a RUN_FINISHED or a RUN_ERROR. `requestId`: of the request that told it. */
export function outcomeOf(event: WireEvent, requestId?: string): Outcome {
  const outcome = (event.outcome ?? {}) as JsonObject;
  const pending = Array.isArray(outcome.pendingToolCallIds) ? outcome.pendingToolCallIds.map(String) : [];
  return {
    pendingCalls: pending,
    isInterrupt: outcome.type === "interrupt",
    problem: problemOf(event, outcome, requestId),
    usage: usageOf(event.usage),
  };
}

function problemOf(event: WireEvent, outcome: JsonObject, requestId?: string): Problem | undefined {
  if (event.type === "RUN_ERROR") {
    return failure(typeof event.code === "string" ? event.code : undefined, String(event.message ?? ""), requestId);
  }
  const code = String((event.metadata as JsonObject | undefined)?.code ?? "");
  if (outcome.type === "cancelled" && code in STOPPED) return failure(code, STOPPED[code] ?? "", requestId);
  const reason = String((event.result as JsonObject | null | undefined)?.stopReason ?? "");
  return reason in CUT_OFF ? failure(reason, CUT_OFF[reason] ?? "", requestId) : undefined;
}

/** The sums over models; undefined if none reported any. */
function usageOf(usage: JsonValue | undefined): Usage | undefined {
  if (!Array.isArray(usage) || usage.length === 0) return undefined;
  const sum = (member: string) => {
    return (usage as JsonObject[]).reduce((total, each) => total + (Number(each[member]) || 0), 0);
  };
  return { inputTokens: sum("inputTokens"), outputTokens: sum("outputTokens") };
}
