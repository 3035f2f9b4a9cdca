/** What is shown of a conversation: what events say besides what they do to its messages. */
import { expect, test } from "vitest";
import { Picture } from "../src/chat/picture";

test("a wait for a busy model is known until something else comes", () => {
  const picture = new Picture(() => false);
  const before = Date.now();
  picture.hear({
    type: "CUSTOM",
    name: "agui_gateway.waiting",
    value: { code: "model_throttled", seconds: 12 },
  });
  picture.now();
  const until = picture.shown.retriesAt.value?.getTime() ?? 0;
  expect(until).toBeGreaterThanOrEqual(before + 12_000);
  expect(until).toBeLessThanOrEqual(Date.now() + 12_000);
  picture.hear({ type: "TEXT_MESSAGE_START", messageId: "m", role: "assistant" });
  picture.now();
  expect(picture.shown.retriesAt.value).toBeUndefined();
  picture.close();
});
