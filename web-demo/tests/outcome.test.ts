import { expect, test } from "vitest";
import { outcomeOf } from "../src/chat/outcome";

const FINISHED = { type: "RUN_FINISHED", threadId: "t", runId: "r" };

test("a run that stopped after its last step says so", () => {
  const stopped = outcomeOf({ ...FINISHED, result: { stopReason: "max_iterations" }, outcome: { type: "success" } });
  expect(stopped.problem?.code).toBe("max_iterations");
  expect(stopped.problem?.message).toContain("Ask it to go on.");
  expect(outcomeOf({ ...FINISHED, outcome: { type: "success" } }).problem).toBeUndefined();
});
