/** What the parts of one chat share. */
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Conversation, FrontendTool } from "../chat/contract";

export interface ChatParts {
  readonly conversation: Conversation;
  readonly tools: readonly FrontendTool[];
  /** Whether what an answer cost is told. */
  readonly tellsUsage: boolean;
}

export const ChatContext = createContext<ChatParts | undefined>(undefined);

export function useChat(): ChatParts {
  const parts = useContext(ChatContext);
  if (parts === undefined) throw new Error("this is a part of a chat, and there is no <Chat> around it");
  return parts;
}
