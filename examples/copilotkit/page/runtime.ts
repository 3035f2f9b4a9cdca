import { createServer } from "node:http";
import { HttpAgent } from "@ag-ui/client"; // 0.0.59: the version that the runtime itself has
import { type AgentRunnerConnectRequest, CopilotRuntime, InMemoryAgentRunner } from "@copilotkit/runtime/v2";
import { createCopilotNodeListener } from "@copilotkit/runtime/v2/node";

const agents = "http://127.0.0.1:8000/agents";

/** A page that was reloaded gets the conversation from the gateway, and not from this process's memory. */
class GatewayRunner extends InMemoryAgentRunner {
  override connect({ threadId, agentId, headers }: AgentRunnerConnectRequest) {
    const thread = new HttpAgent({ url: `${agents}/${agentId}/connect`, headers });
    const nothing = { messages: [], tools: [], context: [], state: {}, forwardedProps: {} };
    return thread.run({ threadId, runId: crypto.randomUUID(), ...nothing });
  }
}

const runtime = new CopilotRuntime({
  agents: { assistant: new HttpAgent({ url: `${agents}/assistant/run` }) },
  runner: new GatewayRunner(),
});
createServer(createCopilotNodeListener({ runtime, basePath: "/api/copilotkit" })).listen(3000);
