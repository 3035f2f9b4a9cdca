/** Earlier conversations of a visitor, in place of the one that is shown. Below: the widget. */
import { useLayoutEffect, useRef } from "preact/hooks";
import type { ThreadSummary } from "../chat/contract";
import { useTexts } from "../view/texts";
import type { ChatWidget } from "./chat_widget";

export const THREADS_ID = "threads";

export function Threads({ widget }: { widget: ChatWidget }) {
  const { say, problem } = useTexts();
  const place = useRef<HTMLElement>(null);
  useLayoutEffect(() => place.current?.focus({ preventScroll: true }), []);
  const { hasMore, loading, problem: trouble } = widget.threads;
  const threads = widget.ownThreads.value;
  const onKey = (event: KeyboardEvent) => {
    if (event.key !== "Escape") return;
    event.preventDefault(); // the panel stays
    widget.toggleThreads();
  };
  return (
    <nav
      ref={place}
      id={THREADS_ID}
      class="agui agui-threads"
      part="threads"
      aria-label={say("threads")}
      aria-busy={loading.value}
      tabIndex={-1}
      onKeyDown={onKey}
    >
      {trouble.value && (
        <p class="agui-hint" role="alert">
          {problem(trouble.value)}
        </p>
      )}
      {hasMore.value === false && threads.length === 0 && <p class="agui-hint">{say("noThreads")}</p>}
      <ul>
        {threads.map((thread) => (
          <li key={thread.id}>
            <Thread widget={widget} thread={thread} />
          </li>
        ))}
      </ul>
      {hasMore.value && (
        <button
          type="button"
          class="agui-button agui-quiet"
          disabled={loading.value}
          onClick={() => void widget.threads.more()}
        >
          {say("moreThreads")}
        </button>
      )}
    </nav>
  );
}

function Thread({ widget, thread }: { widget: ChatWidget; thread: ThreadSummary }) {
  const { say, relative, moment } = useTexts();
  const isCurrent = widget.conversation.threadId.value === thread.id;
  const onClick = () => (isCurrent ? widget.toggleThreads() : void widget.openThread(thread.id));
  return (
    <button type="button" part="thread" aria-current={isCurrent ? "true" : undefined} onClick={onClick}>
      <strong dir="auto">{thread.title || say("untitled")}</strong>
      <span class="agui-hint" title={moment(thread.updatedAt)}>
        {relative(thread.updatedAt)}
      </span>
    </button>
  );
}
