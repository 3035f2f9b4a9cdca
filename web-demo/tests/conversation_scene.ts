/** A conversation with a real gateway, for tests, and what one looks at in it. */
import type { CallEntry, Conversation, Entry, FrontendTool, JsonObject } from "../src/chat/contract";
import { type ConversationOptions, createConversation } from "../src/chat/conversation";
import { type Memory, passingMemory } from "../src/chat/memory";
import { Connection } from "../src/wire/connection";
import { HttpAgentReader } from "../src/wire/http_agent_reader";
import { LeanReader } from "../src/wire/lean_reader";
import type { RunReader } from "../src/wire/run_reader";
import { until } from "./until";

export type MakeReader = (connection: Connection, agentId: string) => RunReader;

/** Both readers, by name: a conversation is the same over either. */
export const READERS: readonly [string, MakeReader][] = [
  ["HttpAgent", (connection, agentId) => new HttpAgentReader(connection, agentId)],
  ["the lean reader", (connection, agentId) => new LeanReader(connection, agentId)],
];

export interface SceneOptions extends Partial<ConversationOptions> {
  readonly makeReader?: MakeReader;
}

export interface Scene {
  readonly conversation: Conversation;
  readonly memory: Memory;
  /** All that is shown, one line an entry. */
  lines(): string[];
  call(name: string): CallEntry | undefined;
  idle(): Promise<void>;
}

export function scene(url: string, agentId: string, { makeReader, ...more }: SceneOptions = {}): Scene {
  const connection = more.connection ?? new Connection({ baseUrl: url });
  const memory = more.memory ?? passingMemory();
  const reader = makeReader?.(connection, agentId) ?? new HttpAgentReader(connection, agentId);
  const conversation = createConversation({ agentId, reader, ...more, connection, memory });
  return {
    conversation,
    memory,
    lines: () => conversation.entries.value.map(line),
    call: (name) =>
      conversation.entries.value.find((entry) => entry.kind === "call" && entry.name === name) as CallEntry,
    idle: async () => void (await until(() => conversation.phase.value === "idle", "idle")),
  };
}

export function line(entry: Entry): string {
  switch (entry.kind) {
    case "user":
      return `user: ${entry.text}`;
    case "answer":
    case "reasoning":
      return `${entry.kind}: ${entry.text.value}${entry.open.value ? "…" : ""}`;
    case "call":
      return `${entry.side} ${entry.name}(${entry.arguments.value}) ${entry.status.value}: ${entry.result.value ?? ""}`;
    case "activity":
      return `activity: ${entry.type}`;
  }
}

export function tool(name: string, handler: FrontendTool["handler"], more: Partial<FrontendTool> = {}): FrontendTool {
  const parameters: JsonObject = { type: "object", properties: { color: { type: "string" } } };
  return { name, description: `Do ${name}.`, parameters, handler, ...more };
}
