/** The conversation so far. Below: the entries' views, scrolling. */
import { useComputed } from "@preact/signals";
import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Entry } from "../chat/contract";
import { Activity } from "./activity";
import { ApprovalCard } from "./approval";
import { CallCard, isOver } from "./call_card";
import { useChat } from "./chat_context";
import { Answer, Unanswered, UserMessage } from "./messages";
import { Reasoning } from "./reasoning";
import { useKeptPlace } from "./scrolling";
import { useTexts } from "./texts";

/** Entries shown of a long thread; older ones come when the reader goes there. */
const SHOWN = 60;
const MORE = 60;

export function Transcript({ view }: { view: RefObject<HTMLDivElement | null> }) {
  const { conversation } = useChat();
  const entries = conversation.entries.value;
  const thread = conversation.threadId.value;
  const [shown, setShown] = useState({ thread, from: 0, of: 0 });
  const from = fromOf(shown, thread, entries.length);
  useKeptPlace(view, from);
  const lastAnswer = entries.at(-1)?.kind === "answer" ? entries.length - 1 : -1;
  const lastUser = lastIndexOf(entries, "user");
  return (
    <>
      {from > 0 && (
        <Earlier
          key={from}
          view={view}
          onSeen={() => setShown({ thread, from: Math.max(0, from - MORE), of: entries.length })}
        />
      )}
      {entries.slice(from).map((entry, index) => (
        <Shown
          key={`${entry.kind} ${entry.id}`}
          entry={entry}
          last={from + index === lastAnswer || from + index === lastUser}
        />
      ))}
      {lastAnswer < 0 && <Unanswered />}
      <LooseApprovals />
      <Waiting />
    </>
  );
}

/** Where the shown part begins: at the start where it was put by the reader, else a bounded way before the end. */
function fromOf(shown: { thread: string; from: number; of: number }, thread: string, count: number): number {
  const end = Math.max(0, count - SHOWN);
  return shown.of > 0 && shown.thread === thread ? Math.min(shown.from, end) : end - (end % MORE);
}

function lastIndexOf(entries: readonly Entry[], kind: Entry["kind"]): number {
  for (let index = entries.length - 1; index >= 0; index--) if (entries[index]?.kind === kind) return index;
  return -1;
}

function Shown({ entry, last }: { entry: Entry; last: boolean }) {
  switch (entry.kind) {
    case "user":
      return <UserMessage entry={entry} last={last} />;
    case "answer":
      return <Answer entry={entry} last={last} />;
    case "reasoning":
      return <Reasoning entry={entry} />;
    case "call":
      return <CallCard call={entry} />;
    case "activity":
      return <Activity entry={entry} />;
  }
}

/** What stands before what is shown: asks for it when the reader comes near. */
function Earlier({ view, onSeen }: { view: RefObject<HTMLDivElement | null>; onSeen: () => void }) {
  const { say } = useTexts();
  const mark = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (mark.current === null) return;
    const seen = new IntersectionObserver((marks) => marks.some((each) => each.isIntersecting) && onSeen(), {
      root: view.current,
      rootMargin: "800px 0px 0px",
    });
    seen.observe(mark.current);
    return () => seen.disconnect();
  });
  return (
    <div class="agui-earlier" ref={mark}>
      <button type="button" class="agui-button agui-quiet" onClick={onSeen}>
        {say("earlier")}
      </button>
    </div>
  );
}

/** Questions about calls that are not in the conversation. */
function LooseApprovals() {
  const { conversation } = useChat();
  const calls = useComputed(
    () => new Set(conversation.entries.value.map((entry) => (entry.kind === "call" ? entry.id : ""))),
  );
  const loose = conversation.approvals.value.filter(
    (each) => each.callId === undefined || !calls.value.has(each.callId),
  );
  return (
    <>
      {loose.map((approval) => (
        <div key={approval.id} class="agui-call" data-status="approval">
          <ApprovalCard approval={approval} onChoose={(choice) => conversation.choose(approval.id, choice)} />
        </div>
      ))}
    </>
  );
}

/** Something is being worked at, and nothing of it is to be seen yet. */
function Waiting() {
  const { conversation } = useChat();
  const { say } = useTexts();
  const seen = useComputed(() => {
    const last = conversation.entries.value.at(-1);
    if (last?.kind === "answer" || last?.kind === "reasoning") return last.open.value;
    return last?.kind === "call" && !isOver(last);
  });
  const phase = conversation.phase.value;
  // alone in the view and behind a thread are two elements: one that is pushed down is a jump to who watches
  const key = conversation.entries.value.length ? "behind" : "alone";
  if (phase === "loading") {
    return (
      <div key={key} class="agui-loading" role="status">
        <span class="agui-hidden">{say("loading")}</span>
        <i />
        <i />
        <i />
      </div>
    );
  }
  if ((phase !== "waiting" && phase !== "streaming") || seen.value) return null;
  return (
    <div key={key} class="agui-waiting" aria-hidden="true">
      <i />
      <i />
      <i />
    </div>
  );
}
