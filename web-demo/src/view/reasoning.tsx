/** What a model thought before it answered: folded away. */
import type { ReasoningEntry } from "../chat/contract";
import { Disclosure } from "./disclosure";
import { Icon } from "./icons";
import { Markdown } from "./markdown";
import { useTexts } from "./texts";

export function Reasoning({ entry }: { entry: ReasoningEntry }) {
  return (
    <div class="agui-reasoning" part="reasoning" data-open={entry.open.value || undefined} data-testid="reasoning">
      <Disclosure kind="agui-reasoning-head" head={<Head entry={entry} />}>
        {() => <Thoughts entry={entry} />}
      </Disclosure>
    </div>
  );
}

function Head({ entry }: { entry: ReasoningEntry }) {
  const { say, duration } = useTexts();
  const milliseconds = entry.milliseconds.value;
  if (entry.open.value) {
    return (
      <>
        <Icon name="thought" />
        <span class="agui-shimmer">{say("thinking")}…</span>
      </>
    );
  }
  return (
    <>
      <Icon name="thought" />
      <span>
        {milliseconds === undefined ? say("thought") : say("thoughtFor", { duration: duration(milliseconds) })}
      </span>
    </>
  );
}

function Thoughts({ entry }: { entry: ReasoningEntry }) {
  return <Markdown text={entry.text.value} open={entry.open.value} />;
}
