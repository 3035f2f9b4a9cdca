/** CopilotKit's chat: `?thread=` names the conversation, else the tab keeps one; `?suggest` asks for suggestions. */
import { CopilotChat, CopilotKitProvider, useConfigureSuggestions } from "@copilotkit/react-core/v2";
import { createRoot } from "react-dom/client";
import { Approval } from "./approval";
import "@copilotkit/react-core/v2/styles.css";

const asked = new URLSearchParams(location.search);
const threadId = asked.get("thread") ?? (sessionStorage.thread ??= crypto.randomUUID());

function Suggestions() {
  const agent = { consumerAgentId: "assistant", providerAgentId: "assistant" };
  useConfigureSuggestions({ instructions: "Suggest what to ask next.", available: "always", ...agent });
  return null;
}

createRoot(document.querySelector("main")!).render(
  <CopilotKitProvider runtimeUrl="/api/copilotkit" useSingleEndpoint={false} enableInspector={false}>
    {asked.has("suggest") && <Suggestions />}
    <CopilotChat agentId="assistant" threadId={threadId} />
    <Approval />
  </CopilotKitProvider>,
);
