import { expect, test } from "vitest";
import { SharedState } from "../src/chat/shared_state";

test("what the page changes while the agent works survives what the agent says", () => {
  const shared = new SharedState();
  shared.told({ list: ["milk"], theme: "light" });
  shared.set({ list: ["milk"], theme: "dark" });
  shared.told({ list: ["milk", "eggs"], theme: "light" });
  expect(shared.value).toEqual({ list: ["milk", "eggs"], theme: "dark" });
});

test("both may add to one list", () => {
  const shared = new SharedState();
  shared.told({ list: ["milk"] });
  shared.set({ list: ["milk", "tea"] });
  shared.told({ list: ["milk", "eggs"] });
  expect(shared.value).toEqual({ list: ["milk", "tea", "eggs"] });
});

test("where both cannot be, the agent's stands", () => {
  const shared = new SharedState();
  shared.told({ list: [{ name: "milk" }] });
  shared.set({ list: [{ name: "soy milk" }] });
  shared.told({});
  expect(shared.value).toEqual({});
});

test("what a run began with is the agent's", () => {
  const shared = new SharedState();
  shared.set({ theme: "dark" });
  expect(shared.hand()).toEqual({ theme: "dark" });
  shared.told({ theme: "light" });
  expect(shared.value).toEqual({ theme: "light" });
});

test("nobody has said anything yet: that is not an empty state", () => {
  expect(new SharedState().hand()).toBeUndefined();
});

test("what the page was given never changes under it", () => {
  const shared = new SharedState();
  const mine = { list: ["milk"] };
  shared.set(mine);
  shared.told({ list: ["eggs"] });
  expect(mine).toEqual({ list: ["milk"] });
  expect(shared.value).toBe(shared.value);
});
