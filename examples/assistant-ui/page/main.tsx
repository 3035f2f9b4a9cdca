/** assistant-ui before the gateway, without a server between: `?thread=` names the conversation, else the tab keeps one. */
import { HttpAgent } from "@ag-ui/client";
import {
  AssistantRuntimeProvider,
  ComposerPrimitive,
  MessagePrimitive,
  ThreadPrimitive,
  type ToolCallMessagePartProps,
} from "@assistant-ui/react";
import { useAgUiRuntime } from "@assistant-ui/react-ag-ui";
import { useMemo } from "react";
import { createRoot } from "react-dom/client";
import { threadHistory } from "./history";
import { OnceLoaded } from "./loaded";

const asked = new URLSearchParams(location.search);
const threadId: string = asked.get("thread") ?? (sessionStorage.thread ??= crypto.randomUUID());

function ToolCall({ toolName, result, approval, respondToApproval }: ToolCallMessagePartProps) {
  const waits = approval !== undefined && approval.approved === undefined;
  return (
    <section aria-label={toolName}>
      {waits && <button onClick={() => respondToApproval({ approved: true })}>Approve</button>}
      {waits && <button onClick={() => respondToApproval({ approved: false })}>Deny</button>}
      {result !== undefined && <output>{JSON.stringify(result)}</output>}
    </section>
  );
}

function Message() {
  return (
    <MessagePrimitive.Root>
      <MessagePrimitive.Parts components={{ tools: { Fallback: ToolCall } }} />
    </MessagePrimitive.Root>
  );
}

function Chat() {
  const agent = useMemo(() => new HttpAgent({ url: "http://127.0.0.1:8000/agents/assistant/run", threadId }), []);
  const history = useMemo(() => threadHistory(threadId), []);
  return (
    <AssistantRuntimeProvider runtime={useAgUiRuntime({ agent, adapters: { history } })}>
      <ThreadPrimitive.Root>
        <ThreadPrimitive.Messages components={{ Message }} />
        <OnceLoaded>
          <ComposerPrimitive.Root>
            <ComposerPrimitive.Input aria-label="Message" />
            <ComposerPrimitive.Send>Send</ComposerPrimitive.Send>
          </ComposerPrimitive.Root>
        </OnceLoaded>
      </ThreadPrimitive.Root>
    </AssistantRuntimeProvider>
  );
}

createRoot(document.querySelector("main")!).render(<Chat />);
