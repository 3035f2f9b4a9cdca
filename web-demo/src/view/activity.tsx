/** Something that happens beside the conversation. Of its content only the words are known here. */
import type { ActivityEntry } from "../chat/contract";
import { isObject } from "../chat/json";
import { Disclosure } from "./disclosure";
import { Icon } from "./icons";
import { JsonText } from "./json_text";
import { Media } from "./media";
import { useTexts } from "./texts";
import { marked, Value } from "./value";

export function Activity({ entry }: { entry: ActivityEntry }) {
  const medium = entry.medium.value;
  if (medium) return <Media media={[medium]} />;
  return (
    <div class="agui-call agui-activity" part="activity">
      <Disclosure kind="agui-call-head" head={<Head entry={entry} />}>
        {() => <JsonText text={JSON.stringify(entry.content.value)} />}
      </Disclosure>
    </div>
  );
}

function Head({ entry }: { entry: ActivityEntry }) {
  const { say } = useTexts();
  const content = entry.content.value;
  const said = isObject(content) ? (content.title ?? content.text ?? content.message) : content;
  return (
    <>
      <span class="agui-call-icon">
        <Icon name="list" />
      </span>
      <span class="agui-call-name">
        <Value text={entry.type.replace(/[_-]+/g, " ").toLowerCase() || say("activity")} />
      </span>
      <span class="agui-call-preview" dir="auto">
        {typeof said === "string" && marked(said)}
      </span>
    </>
  );
}
