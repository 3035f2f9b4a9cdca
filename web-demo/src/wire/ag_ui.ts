/**
 * AG-UI 1.0's words as they stand on the wire. https://docs.ag-ui.com/spec/1.0
 *
 * Below: the contract's JSON. Written here and not taken from @ag-ui/client, so that the widget, which does without that
 * client, has the same. Optional members are left out, never null.
 */
import type { JsonObject, JsonValue } from "../chat/contract";

/** An event as it stands on the wire. Unknown members are left alone. */
export interface WireEvent {
  readonly type: string;
  readonly [member: string]: JsonValue | undefined;
}

export interface WireCall {
  readonly id: string;
  readonly type: "function";
  /** `arguments` is JSON text exactly as the model wrote it, possibly unfinished or wrong. */
  readonly function: { name: string; arguments: string };
  encryptedValue?: string;
  metadata?: JsonObject;
}

/** A message as it stands in a RunAgentInput; which members there are depends on the role. */
export interface WireMessage {
  readonly id: string;
  readonly role: string;
  /** Text, or content parts, or (of an activity) an object. */
  content?: JsonValue;
  toolCalls?: WireCall[];
  toolCallId?: string;
  name?: string;
  error?: string;
  activityType?: string;
  encryptedValue?: string;
  metadata?: JsonObject;
  subagentRunId?: string;
}

/** A frontend tool as the agent is told of it. */
export interface WireTool {
  readonly name: string;
  readonly description: string;
  readonly parameters: JsonObject;
}

export interface WireContext {
  readonly description: string;
  readonly value: string;
}

/** The answer to an interrupt. */
export interface WireResume {
  readonly interruptId: string;
  readonly status: "resolved" | "cancelled";
  readonly payload?: JsonValue;
}

/** RunAgentInput; `protocolVersion`, `forwardedProps` are the reader's. */
export interface WireInput {
  readonly threadId: string;
  readonly runId: string;
  /** The whole history. */
  readonly messages: readonly WireMessage[];
  readonly tools: readonly WireTool[];
  readonly context: readonly WireContext[];
  /** Undefined: the thread's own. */
  readonly state: JsonValue | undefined;
  readonly resume?: readonly WireResume[];
  /** The last message that the page knows of the thread, null for none. Left out: the gateway asks for nothing. */
  readonly seen?: string | null;
}

/** What a gateway has behind the last message that the page has seen. */
export interface WireStale {
  /** The message that these follow; null: they are the thread's first. */
  readonly after: string | null;
  readonly missing: readonly WireMessage[];
}

/** What AG-UI has no field for. */
export function forwardedProps({ seen }: WireInput): JsonObject {
  return seen === undefined ? {} : { agui_gateway: { seen } };
}
