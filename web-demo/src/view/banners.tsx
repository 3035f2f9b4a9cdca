/** What went wrong and what to do about it, and how the connection is. */
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import type { Problem } from "../chat/contract";
import { useChat } from "./chat_context";
import { useNow } from "./clock";
import { IconButton } from "./icon_button";
import { Icon } from "./icons";
import { useTexts } from "./texts";

/** What the person can do besides trying again, and may know besides what it means. */
export interface ProblemExtras {
  /** Where the person can enter a key. */
  readonly onKey?: (() => void) | undefined;
  /** What is said of it to who can mend it. */
  readonly explain?: ((problem: Problem) => ComponentChildren) | undefined;
}

export function ProblemBanner({ problem, onKey, explain }: ProblemExtras & { problem: Problem }) {
  const { conversation } = useChat();
  const words = useTexts();
  const { say } = words;
  const after = problem.retryAfterSeconds;
  const until = useMemo(() => (after === undefined ? undefined : new Date(Date.now() + after * 1_000)), [problem]);
  const now = useNow(until);
  const wait = until !== undefined && until > now;
  const key = problem.code === "unauthenticated" ? onKey : undefined;
  return (
    <div class="agui-banner" part="banner" role="alert" data-code={problem.code}>
      <Icon name="alert" />
      <div class="agui-banner-words">
        <p>{key === undefined ? words.problem(problem) : say("keyNeeded")}</p>
        {explain?.(problem)}
        {problem.requestId && <p class="agui-hint">{say("requestId", { id: problem.requestId })}</p>}
        {wait && (
          <p class="agui-hint" aria-live="off">
            {say("retryWhen", { when: words.relative(until, now) })}
          </p>
        )}
      </div>
      {key !== undefined && (
        <button type="button" class="agui-button" onClick={key}>
          {say("keyEnter")}
        </button>
      )}
      {key === undefined && problem.retryable && (
        <button type="button" class="agui-button" disabled={wait} onClick={() => void conversation.retry()}>
          {say("retry")}
        </button>
      )}
      <IconButton icon="close" name={say("dismiss")} onClick={() => conversation.dismissProblem()} />
    </div>
  );
}

/** One calm line while the connection is away, or the model. */
export function ConnectionLine() {
  const { conversation } = useChat();
  const { say, relative } = useTexts();
  const phase = conversation.phase.value;
  const away = phase === "reconnecting" || phase === "offline";
  const until = phase === "idle" ? undefined : conversation.retriesAt.value;
  const now = useNow(until);
  const busy = until && until > now && say("modelBusy", { when: relative(until, now) });
  const words = away ? say(phase) : busy;
  return (
    <div class="agui-connection" role="status" data-phase={phase}>
      {words && (
        <>
          {phase === "offline" ? <Icon name="wifi" /> : <span class="agui-spinner" />}
          <span aria-live={away ? undefined : "off"}>{words}</span>
        </>
      )}
    </div>
  );
}
