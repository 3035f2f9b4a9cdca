/** What a model thought before it answered: folded away. */
import type { ReasoningEntry } from "../chat/contract";
import { Disclosure } from "./disclosure";
import { Icon } from "./icons";
import { Markdown } from "./markdown";
import { useTexts } from "./texts";

/** What took less says nothing by its number. */
const A_MOMENT = 1_000;

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
  const words = () => {
    if (milliseconds === undefined) return say("thought");
    return milliseconds < A_MOMENT ? say("thoughtBriefly") : say("thoughtFor", { duration: duration(milliseconds) });
  };
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
      <span>{words()}</span>
    </>
  );
}

function Thoughts({ entry }: { entry: ReasoningEntry }) {
  return <Markdown text={entry.text.value} open={entry.open.value} />;
}
