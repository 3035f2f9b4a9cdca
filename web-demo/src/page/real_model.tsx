/** How to put a model behind the gateway: what the demonstration's label leads to. */
import type { Words } from "../chat/texts";
import { Icon } from "../view/icons";
import { Markdown } from "../view/markdown";
import { useTexts } from "../view/texts";
import { Dialog } from "./dialogs";

const WRITE = `\`\`\`sh
agui-gateway config example > gateway.yaml
\`\`\``;

const CHOOSE = `\`\`\`yaml
agents:
  - id: assistant
    model:
      model_provider: openai/v1/chat/completions
      model_id: gpt-oss-120b
      endpoint: http://127.0.0.1:11434/v1
      credential: {openai_api_key: "\${env:OPENAI_API_KEY}"}
\`\`\``;

const SERVE = `\`\`\`sh
agui-gateway config check gateway.yaml
agui-gateway serve --config gateway.yaml
\`\`\``;

export function RealModel({ onClose }: { onClose: () => void }) {
  const { say } = useTexts();
  return (
    <Dialog label={say("realModel")} wide onClose={onClose}>
      <header class="page-dialog-head">
        <h2>{say("realModel")}</h2>
        <button type="button" class="agui-icon-button" aria-label={say("dismiss")} onClick={onClose}>
          <Icon name="close" />
        </button>
      </header>
      <Markdown text={how(say)} open={false} />
    </Dialog>
  );
}

function how(say: Words["say"]): string {
  return [say("realModelWhy"), WRITE, say("realModelChoose"), CHOOSE, say("realModelServe"), SERVE].join("\n\n");
}
