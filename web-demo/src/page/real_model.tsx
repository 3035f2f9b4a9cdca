/** How to put a model behind the gateway: what the demonstration's label leads to. */
import { Icon } from "../view/icons";
import { Markdown } from "../view/markdown";
import { useTexts } from "../view/texts";
import { Dialog } from "./dialogs";

const HOW = `The answers here come from the **demo model**: rules that pick tools by the words of the question. It is there so that \
everything can be seen without a key. To talk to a language model, write the demonstration's configuration into a file:

\`\`\`sh
agui-gateway config example > gateway.yaml
\`\`\`

Put a model in place of the demo model, any that speaks OpenAI's chat completions (OpenAI, Ollama, vLLM, ...), or one on Amazon Bedrock:

\`\`\`yaml
agents:
  - id: assistant
    model:
      model_provider: openai/v1/chat/completions
      model_id: gpt-oss-120b
      endpoint: http://127.0.0.1:11434/v1
      credential: {openai_api_key: "\${env:OPENAI_API_KEY}"}
\`\`\`

Then check it, and serve it:

\`\`\`sh
agui-gateway config check gateway.yaml
agui-gateway serve --config gateway.yaml
\`\`\`
`;

export function RealModel({ onClose }: { onClose: () => void }) {
  const { say } = useTexts();
  return (
    <Dialog label="Put a real model behind it" wide onClose={onClose}>
      <header class="page-dialog-head">
        <h2>Put a real model behind it</h2>
        <button type="button" class="agui-icon-button" aria-label={say("dismiss")} onClick={onClose}>
          <Icon name="close" />
        </button>
      </header>
      <Markdown text={HOW} open={false} />
    </Dialog>
  );
}
