/**
 * The state that agent and page both edit.
 *
 * Below: JSON Patch. What the page changes while a run is under way is kept as a patch on what the agent last said,
 * so that neither side's change undoes the other's; where the two cannot both be, the agent's stands.
 */
import { applyPatch, difference, type Operation } from "../wire/json_patch";
import type { JsonObject, JsonValue } from "./contract";

export class SharedState {
  /** As the agent has it; undefined: nobody has said anything. */
  #theirs: JsonValue | undefined;
  #ours: readonly Operation[] = [];
  #value: JsonValue | undefined;

  /** As the page sees it: a new object only when it changed. */
  get value(): JsonValue | undefined {
    return this.#value;
  }

  /** The agent changed it. */
  told(state: JsonValue): void {
    this.#theirs = state;
    this.#value = this.#together();
  }

  /** The page changed it. */
  set(state: JsonValue): void {
    this.#ours = difference(wrapped(this.#theirs), wrapped(state));
    this.#value = this.#together();
  }

  /** What a run begins with; from there on it is the agent's too. */
  hand(): JsonValue | undefined {
    this.#theirs = this.#value;
    this.#ours = [];
    return this.#value;
  }

  clear(): void {
    this.#theirs = this.#value = undefined;
    this.#ours = [];
  }

  #together(): JsonValue | undefined {
    if (this.#ours.length === 0) return this.#theirs;
    try {
      return (applyPatch(wrapped(this.#theirs), this.#ours) as JsonObject).state;
    } catch {
      this.#ours = []; // the agent took away what the page changed
      return this.#theirs;
    }
  }
}

/** In an object, so that the whole of it can be replaced too. */
function wrapped(state: JsonValue | undefined): JsonObject {
  return state === undefined ? {} : { state: structuredClone(state) };
}
