import { expect, test } from "vitest";
import { outcomeOf } from "../src/chat/outcome";

const FINISHED = { type: "RUN_FINISHED", threadId: "t", runId: "r" };

test("a run that stopped after its last step says so", () => {
  const stopped = outcomeOf({ ...FINISHED, result: { stopReason: "max_iterations" }, outcome: { type: "success" } });
  expect(stopped.problem?.code).toBe("max_iterations");
  expect(stopped.problem?.message).toContain("Ask it to go on.");
  expect(outcomeOf({ ...FINISHED, outcome: { type: "success" } }).problem).toBeUndefined();
});

test("what asking again cannot mend offers no retry, and every problem names its request", () => {
  const failed = (code: string) => outcomeOf({ type: "RUN_ERROR", code, message: "m" }, "req-1").problem;
  for (const code of ["model_authentication", "model_not_found", "model_invalid", "model_quota", "content_filter"]) {
    expect(failed(code)).toMatchObject({ retryable: false, requestId: "req-1" });
  }
  for (const code of ["model_server", "model_network", "model_throttled", "server_restarted", "store_unavailable"]) {
    expect(failed(code)).toMatchObject({ retryable: true, requestId: "req-1" });
  }
});
