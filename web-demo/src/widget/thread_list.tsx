/** Earlier conversations of a visitor, in place of the one that is shown. Below: the widget. */
import { useLayoutEffect, useRef } from "preact/hooks";
import { useTexts } from "../view/texts";
import { ThreadRows } from "../view/thread_rows";
import type { ChatWidget } from "./chat_widget";

export const THREADS_ID = "threads";

export function Threads({ widget }: { widget: ChatWidget }) {
  const { say } = useTexts();
  const place = useRef<HTMLElement>(null);
  useLayoutEffect(() => place.current?.focus({ preventScroll: true }), []);
  const current = widget.conversation.threadId.value;
  const onKey = (event: KeyboardEvent) => {
    if (event.key !== "Escape" || event.isComposing) return;
    event.preventDefault(); // the panel stays
    widget.toggleThreads();
  };
  return (
    <nav
      ref={place}
      id={THREADS_ID}
      class="agui agui-earlier-threads"
      part="threads"
      aria-label={say("threads")}
      tabIndex={-1}
      onKeyDown={onKey}
    >
      <ThreadRows
        list={widget.threads}
        threads={widget.ownThreads.value}
        current={current}
        timed
        complete={widget.hasAllThreads.value}
        onChoose={({ id }) => (id === current ? widget.toggleThreads() : void widget.openThread(id))}
        onRemove={({ id }) => void widget.removeThread(id)}
      />
    </nav>
  );
}
