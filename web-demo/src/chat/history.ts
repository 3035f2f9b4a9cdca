/**
 * What a history of AG-UI messages holds, and how a person's wish changes it. Below: AG-UI's words. Pure.
 *
 * The messages that are sent are the history: an id that is left out leaves the thread.
 */
import type { WireCall, WireInput, WireMessage, WireStale } from "../wire/ag_ui";
import type { Attachment, JsonObject, JsonValue } from "./contract";

/** What a person said, as a message: text alone, or parts. */
export function userMessage(id: string, text: string, attachments: readonly Attachment[]): WireMessage {
  if (attachments.length === 0) return { id, role: "user", content: text };
  const files = attachments.map((file): JsonObject => {
    const source = { type: "data", value: file.data, mimeType: file.mimeType };
    return { type: file.kind, source, metadata: { filename: file.name } };
  });
  return { id, role: "user", content: text ? [...files, textPart(text)] : files };
}

/** The words of a message's content. */
export function textOf(content: JsonValue | undefined): string {
  if (typeof content === "string") return content;
  return partsOf(content)
    .map((part) => (typeof part.text === "string" ? part.text : ""))
    .filter(Boolean)
    .join("\n");
}

const KINDS = new Set(["image", "document", "audio", "video"]);

/** The files of a message's content; what is only an address elsewhere has no data. */
export function attachmentsOf(content: JsonValue | undefined): Attachment[] {
  return partsOf(content).flatMap((part) => {
    if (!KINDS.has(String(part.type))) return [];
    const source = (part.source ?? {}) as JsonObject;
    const name = (part.metadata as JsonObject | undefined)?.filename;
    const value = String(source.value ?? "");
    const [data, url] = source.type === "data" ? [value, ""] : ["", value];
    return attachment({ kind: part.type, name, mediaType: source.mimeType, data, url });
  });
}

/** The medium of an activity of a gateway: what a model made. */
export function mediumOf(content: JsonValue): Attachment | undefined {
  const medium = content as JsonObject | null;
  return typeof medium === "object" && KINDS.has(String(medium?.kind)) ? attachment(medium ?? {}) : undefined;
}

function attachment({ kind, name, mediaType, data, url }: { [name: string]: JsonValue | undefined }): Attachment {
  const text = String(data ?? "");
  return {
    kind: kind as Attachment["kind"],
    name: String(name ?? ""),
    mimeType: String(mediaType ?? ""),
    bytes: Math.floor((text.replace(/=+$/, "").length * 3) / 4),
    data: text,
    ...(url ? { url: String(url) } : {}),
  };
}

/** Up to the person's last message; empty if there is none. */
export function upToLastQuestion(messages: readonly WireMessage[]): WireMessage[] {
  return messages.slice(0, messages.findLastIndex((message) => message.role === "user") + 1);
}

/** Up to the last thing that the agent has yet to answer: without what a failed run said before it failed. */
export function upToLastInput(messages: readonly WireMessage[]): WireMessage[] {
  return messages.slice(0, messages.findLastIndex(({ role }) => role === "user" || role === "tool") + 1);
}

/** What was said before that message, and the message with other words, and an id of its own; empty where it is gone. */
export function saidDifferently(messages: readonly WireMessage[], id: string, newId: string, text: string) {
  const place = messages.findIndex((message) => message.id === id);
  if (place < 0) return [];
  const files = partsOf(messages[place]?.content).filter((part) => part.type !== "text");
  const said: WireMessage = { id: newId, role: "user", content: files.length > 0 ? [...files, textPart(text)] : text };
  return [...messages.slice(0, place), said];
}

/** The last message that the gateway sent or accepted; null if there is none. */
export function lastSeen(messages: readonly WireMessage[]): string | null {
  return messages.findLast(({ role }) => role !== "activity")?.id ?? null;
}

/**
 * What was to be sent, behind what the page had not seen of its thread; undefined where it says nothing new (an edit of
 * what came before, answers to calls): then it may not be what the person wants any more.
 */
export function caughtUp({ messages, seen }: WireInput, { after, missing }: WireStale): WireMessage[] | undefined {
  const place = (id: string | null | undefined) => (id ? messages.findIndex((message) => message.id === id) : -1);
  const [known, kept] = [place(seen), place(after)];
  const said = messages.slice(known + 1);
  const isEdit = (seen && known < 0) || (after && kept < 0);
  if (isEdit || !said.some(({ role }) => role === "user")) return undefined;
  return [...messages.slice(0, kept + 1), ...missing, ...said];
}

/** The calls of those ids, in the history's order. */
export function callsOf(messages: readonly WireMessage[], ids: ReadonlySet<string>): WireCall[] {
  return messages.flatMap((message) => (message.toolCalls ?? []).filter((call) => ids.has(call.id)));
}

function textPart(text: string): JsonObject {
  return { type: "text", text };
}

function partsOf(content: JsonValue | undefined): JsonObject[] {
  if (!Array.isArray(content)) return [];
  return content.filter((part): part is JsonObject => !!part && typeof part === "object" && !Array.isArray(part));
}
