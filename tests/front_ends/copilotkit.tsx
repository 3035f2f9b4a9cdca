/** CopilotKit's chat: `?thread=` names the conversation, `?suggest` asks for suggestions. */
import { CopilotChat, CopilotKitProvider, useConfigureSuggestions } from "@copilotkit/react-core/v2";
import { createRoot } from "react-dom/client";
import { Approval } from "./build/snippets/approval";

const asked = new URLSearchParams(location.search);

function Suggestions() {
  const agent = { consumerAgentId: "assistant", providerAgentId: "assistant" };
  useConfigureSuggestions({ instructions: "Suggest what to ask next.", available: "always", ...agent });
  return null;
}

createRoot(document.querySelector("main")!).render(
  <CopilotKitProvider runtimeUrl="/api/copilotkit" useSingleEndpoint={false} showDevConsole={false}>
    {asked.has("suggest") && <Suggestions />}
    <CopilotChat agentId="assistant" threadId={asked.get("thread")!} />
    <Approval />
  </CopilotKitProvider>,
);
