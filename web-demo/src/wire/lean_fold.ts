/**
 * Events -> messages and state: what a run leaves behind, the same as HttpAgent 1.0.0 would have it.
 *
 * Below: JSON Patch. The messages are changed where they stand; whoever wants to keep one as it was copies it.
 * `tests/lean_reader.test.ts` holds this to HttpAgent itself.
 */
import type { JsonObject, JsonValue } from "../chat/contract";
import type { WireCall, WireEvent, WireMessage } from "./ag_ui";
import { applyPatch } from "./json_patch";

const ROLES = /^(?:developer|system|assistant|user|tool|activity|reasoning)$/;

export class RunFold {
  messages: WireMessage[];
  /** Undefined: the thread's own, which nothing told yet. */
  state: JsonValue | undefined;

  constructor(messages: WireMessage[] = [], state?: JsonValue) {
    this.messages = messages;
    this.state = state;
  }

  message(id: JsonValue | undefined): WireMessage | undefined {
    return this.messages.find((message) => message.id === id);
  }

  call(id: JsonValue | undefined): WireCall | undefined {
    for (const message of this.messages) {
      const call = message.toolCalls?.find((each) => each.id === id);
      if (call) return call;
    }
    return undefined;
  }

  /** Take in an event that is no chunk. What does not fit is left out with a warning, as HttpAgent does. */
  apply(event: WireEvent): void {
    switch (event.type) {
      case "RUN_STARTED":
        for (const message of known((event.input as JsonObject | undefined)?.messages)) {
          if (!this.message(message.id)) this.messages.push(message);
        }
        break;
      case "TEXT_MESSAGE_START":
        this.#open(event, String(event.role ?? "assistant"));
        break;
      case "REASONING_MESSAGE_START":
        this.#open(event, "reasoning");
        break;
      case "TEXT_MESSAGE_CONTENT":
      case "REASONING_MESSAGE_CONTENT":
      case "TEXT_MESSAGE_END":
      case "REASONING_MESSAGE_END":
        this.#append(event);
        break;
      case "TOOL_CALL_START":
        this.#startCall(event);
        break;
      case "TOOL_CALL_ARGS":
      case "TOOL_CALL_END": {
        const call = this.call(event.toolCallId);
        if (!call) warn(event, "no such call");
        else call.function.arguments += String(event.delta ?? "");
        annotate(call, event);
        break;
      }
      case "TOOL_CALL_RESULT":
        this.#result(event);
        break;
      case "REASONING_ENCRYPTED_VALUE": {
        const entity = event.subtype === "tool-call" ? this.call(event.entityId) : this.message(event.entityId);
        if (entity && !("role" in entity && entity.role === "activity")) {
          entity.encryptedValue = String(event.encryptedValue);
        }
        break;
      }
      case "STATE_SNAPSHOT":
        this.state = event.snapshot ?? null;
        break;
      case "STATE_DELTA": {
        const changed = patched(this.state, event.delta, event);
        if (changed) this.state = changed.document;
        break;
      }
      case "MESSAGES_SNAPSHOT":
        this.#replace(known(event.messages), event);
        break;
      case "ACTIVITY_SNAPSHOT":
        this.#showActivity(event);
        break;
      case "ACTIVITY_DELTA":
        this.#changeActivity(event);
        break;
    }
  }

  #open(event: WireEvent, role: string): void {
    let message = this.message(event.messageId);
    if (message?.role === "activity") {
      warn(event, "is an activity");
      return;
    }
    if (!message) {
      message = { id: String(event.messageId), role, content: "", ...ownerOf(event) };
      if (role !== "reasoning" && event.name !== undefined) message.name = String(event.name);
      this.messages.push(message);
    }
    annotate(message, event);
  }

  #append(event: WireEvent): void {
    const message = this.message(event.messageId);
    if (!message || message.role === "activity") {
      warn(event, message ? "is an activity" : "no such message");
      return;
    }
    if (event.delta !== undefined) {
      message.content = (typeof message.content === "string" ? message.content : "") + String(event.delta);
    }
    annotate(message, event);
  }

  #startCall(event: WireEvent): void {
    const id = String(event.toolCallId);
    const name = String(event.toolCallName);
    let call = this.call(id);
    if (call) {
      call.function.name = name;
    } else {
      call = { id, type: "function", function: { name, arguments: "" } };
      const parent = this.#parent(event, id);
      parent.toolCalls ??= [];
      parent.toolCalls.push(call);
    }
    annotate(call, event);
  }

  /** The assistant message that a call belongs to; a new one where there is none. */
  #parent(event: WireEvent, callId: string): WireMessage {
    const named = event.parentMessageId ? this.message(event.parentMessageId) : undefined;
    if (named?.role === "assistant") return named;
    const id = named || !event.parentMessageId ? callId : String(event.parentMessageId);
    const taken = this.message(id);
    const message: WireMessage = { id, role: "assistant", toolCalls: [], ...(taken ? {} : ownerOf(event)) };
    this.messages.push(message);
    return message;
  }

  #result(event: WireEvent): void {
    const toolCallId = String(event.toolCallId);
    const message: WireMessage = {
      id: String(event.messageId),
      toolCallId,
      role: "tool",
      content: event.content ?? "",
      ...ownerOf(event),
    };
    annotate(message, event);
    let place = this.messages.findIndex(
      (each) => each.role === "assistant" && each.toolCalls?.some((call) => call.id === toolCallId),
    );
    if (place < 0) place = this.messages.length;
    else
      do place++;
      while (this.messages[place]?.role === "tool");
    this.messages.splice(place, 0, message);
  }

  /** By id: what is left out is gone, but for the kinds that the snapshot has nothing of because only we keep them. */
  #replace(given: WireMessage[], event: WireEvent): void {
    const has = (role: string) => given.some((message) => message.role === role);
    const owned = ownedActivities(event);
    const stays = ({ role, activityType }: WireMessage) =>
      (role === "reasoning" && !has("reasoning")) ||
      (role === "activity" && (owned ? !owned.includes(activityType ?? "") : owned === undefined && !has("activity")));
    const byId = new Map(given.map((message) => [message.id, message]));
    this.messages = this.messages
      .filter((message) => byId.has(message.id) || stays(message))
      .map((message) => byId.get(message.id) ?? message);
    const there = new Set(this.messages.map((message) => message.id));
    this.messages.push(...given.filter((message) => !there.has(message.id)));
  }

  #showActivity(event: WireEvent): void {
    const place = this.messages.findIndex((message) => message.id === event.messageId);
    const before = this.messages[place];
    const activity: WireMessage = {
      id: String(event.messageId),
      role: "activity",
      activityType: String(event.activityType),
      content: structuredClone(event.content ?? {}),
      ...ownerOf(event),
    };
    const replace = event.replace ?? true;
    if (!before) this.messages.push(activity);
    else if (replace) {
      if (before.role === "activity" && before.metadata) activity.metadata = before.metadata;
      this.messages[place] = activity;
    }
    annotate(before && !replace ? (before.role === "activity" ? before : undefined) : activity, event);
  }

  #changeActivity(event: WireEvent): void {
    const place = this.messages.findIndex((message) => message.id === event.messageId);
    const before = this.messages[place];
    if (!before) return;
    if (before.role !== "activity") {
      warn(event, "is no activity");
      return;
    }
    annotate(before, event);
    const changed = patched(before.content ?? {}, event.patch, event);
    if (!changed) return;
    this.messages[place] = { ...before, content: changed.document, activityType: String(event.activityType) };
  }
}

/** What the patch makes of the document; undefined where it does not fit. */
function patched(document: JsonValue | undefined, patch: JsonValue | undefined, event: WireEvent) {
  try {
    return { document: applyPatch(document ?? null, patch ?? []) };
  } catch {
    warn(event, "the patch does not fit");
    return undefined;
  }
}

function known(messages: JsonValue | undefined): WireMessage[] {
  if (!Array.isArray(messages)) return [];
  return (messages as unknown as WireMessage[]).filter((message) => ROLES.test(message.role));
}

/** The types of activities that the snapshot speaks for, null for all; undefined where it does not say. */
function ownedActivities(event: WireEvent): readonly unknown[] | null | undefined {
  const own = (event.metadata as JsonObject | undefined)?.["@ag-ui/client"];
  if (own === undefined) return undefined;
  if (typeof own !== "object" || own === null || Array.isArray(own)) return [];
  const types = own.authoritativeActivityTypes;
  if (types === undefined || types === null) return types;
  return Array.isArray(types) && types.every((type) => typeof type === "string") ? types : [];
}

function annotate(target: { metadata?: JsonObject } | undefined, event: WireEvent): void {
  if (!target || event.metadata === undefined) return;
  target.metadata = { ...target.metadata, ...(structuredClone(event.metadata) as JsonObject) };
}

function ownerOf(event: WireEvent): { subagentRunId?: string } {
  return event.subagentRunId === undefined ? {} : { subagentRunId: String(event.subagentRunId) };
}

function warn(event: WireEvent, why: string): void {
  console.warn(`agui: ${event.type} was left out: ${why}`);
}
