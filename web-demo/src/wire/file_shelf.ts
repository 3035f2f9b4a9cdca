/**
 * Where the bytes of attached files are while an HttpAgent works with the messages around them.
 *
 * Below: AG-UI's words. HttpAgent copies all messages with every event, so a photo in the first message would be copied
 * for each token of an answer: 2 ms a token for 5 MB. It gets a handle instead, as AG-UI's `file` sources have one; the
 * bytes are put back into what is sent and what is shown.
 */
import type { JsonObject, JsonValue } from "../chat/contract";
import type { WireMessage } from "./ag_ui";

/** Base64 characters; what is smaller is no burden. */
const HEAVY = 4096;

export class FileShelf {
  readonly #files = new Map<string, string>();

  /** The messages with handles for their files. */
  lighten(messages: readonly WireMessage[]): WireMessage[] {
    return this.#map(messages, (source) => {
      const { value } = source;
      if (source.type !== "data" || typeof value !== "string" || value.length < HEAVY) return source;
      const handle = `shelf:${this.#files.size}`;
      this.#files.set(handle, value);
      return { ...source, type: "file", value: handle };
    });
  }

  /** The same messages with their files. */
  restore(messages: readonly WireMessage[]): readonly WireMessage[] {
    if (this.#files.size === 0) return messages;
    return this.#map(messages, (source) => {
      const value = this.#files.get(String(source.value));
      return source.type === "file" && value !== undefined ? { ...source, type: "data", value } : source;
    });
  }

  /** The body of a request with the files of its messages. */
  fill(body: string): string {
    if (this.#files.size === 0) return body;
    const input = JSON.parse(body) as { messages: WireMessage[] };
    return JSON.stringify({ ...input, messages: this.restore(input.messages) });
  }

  #map(messages: readonly WireMessage[], change: (source: JsonObject) => JsonObject): WireMessage[] {
    return messages.map((message) => {
      if (!Array.isArray(message.content)) return message;
      return { ...message, content: message.content.map((part) => withSource(part, change)) };
    });
  }
}

function withSource(part: JsonValue, change: (source: JsonObject) => JsonObject): JsonValue {
  const source = part && typeof part === "object" && !Array.isArray(part) ? part.source : undefined;
  if (!source || typeof source !== "object" || Array.isArray(source)) return part;
  return { ...(part as JsonObject), source: change(source) };
}
