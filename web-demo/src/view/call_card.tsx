/** A tool call: what was called, where it runs, how it went; with the person's part in it, where there is one. */
import { untracked } from "@preact/signals";
import { Fragment } from "preact";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { CallEntry, CallStatus, Question } from "../chat/contract";
import type { TextKey } from "../chat/texts";
import { SENTENCE, spelledOut } from "../chat/unseen";
import { ApprovalCard } from "./approval";
import { useChat } from "./chat_context";
import { Disclosure } from "./disclosure";
import { leave, takeFocus } from "./focus";
import { Icon, type IconName } from "./icons";
import { JsonText, preview } from "./json_text";
import { Media } from "./media";
import { useTexts } from "./texts";
import { marked, Value } from "./value";

const STATUS: Readonly<Record<CallStatus, TextKey>> = {
  arguments: "toolWriting",
  running: "toolRunning",
  waiting: "toolWaiting",
  approval: "toolApproval",
  done: "toolDone",
  failed: "toolFailed",
  declined: "toolDeclined",
};
const STATUS_ICON: Readonly<Partial<Record<CallStatus, IconName>>> = {
  done: "check",
  failed: "alert",
  declined: "close",
};

/** Nothing comes of it any more. */
export function isOver(call: CallEntry): boolean {
  return STATUS_ICON[call.status.value] !== undefined;
}

export function CallCard({ call }: { call: CallEntry }) {
  const { conversation, tools } = useChat();
  const status = call.status.value;
  const question = call.question.value;
  const approval = conversation.approvals.value.find((each) => each.callId === call.id);
  const own = useMemo(() => {
    const tool = call.side === "frontend" ? tools.find((each) => each.name === call.name) : undefined;
    try {
      return untracked(() => tool?.render?.(call)); // drawn once: what it follows of the call, it follows itself
    } catch (error) {
      console.error(`the tool ${call.name} could not draw its call`, error);
      return undefined;
    }
  }, [call, tools]);
  const result = call.result.value;
  return (
    <div class="agui-call" part="tool-card" data-status={status} data-side={call.side} data-testid="tool-card">
      <Disclosure kind="agui-call-head" head={<CallHead call={call} />}>
        {() => <CallBody call={call} />}
      </Disclosure>
      {own !== undefined && <Drawn node={own} />}
      <Media media={call.media.value} />
      {(status === "failed" || status === "declined") && result && (
        <p class="agui-call-problem" dir="auto">
          {marked(result)}
        </p>
      )}
      {question !== undefined && <QuestionCard question={question} />}
      {approval !== undefined && (
        <ApprovalCard
          key={approval.id}
          approval={approval}
          onChoose={(choice) => conversation.choose(approval.id, choice)}
        />
      )}
    </div>
  );
}

function CallHead({ call }: { call: CallEntry }) {
  const { say, duration } = useTexts();
  const status = call.status.value;
  const milliseconds = call.milliseconds.value;
  const icon = STATUS_ICON[status];
  return (
    <>
      <span class="agui-call-icon">
        <Icon name={call.side === "frontend" ? "window" : "wrench"} />
      </span>
      <span class="agui-call-name">
        <Value text={call.name} />
      </span>
      <span class="agui-call-preview" dir="auto">
        {status !== "arguments" &&
          preview(call.arguments.value).map((text, place) => (
            <Fragment key={place}>
              {place > 0 && " · "}
              <Value text={text} />
            </Fragment>
          ))}
      </span>
      <span class="agui-badge" title={say(call.side === "frontend" ? "toolOnPage" : "toolInGateway")}>
        {say(call.side === "frontend" ? "sidePage" : "sideGateway")}
      </span>
      <span class="agui-call-status">
        {icon === undefined ? (
          <span class="agui-spinner" data-still={status === "waiting" || status === "approval" || undefined} />
        ) : (
          <Icon name={icon} />
        )}
        <span class={icon === "check" ? "agui-hidden" : ""}>{say(STATUS[status])}</span>
        {milliseconds !== undefined && <span class="agui-call-time">{duration(milliseconds)}</span>}
      </span>
    </>
  );
}

function CallBody({ call }: { call: CallEntry }) {
  const { say } = useTexts();
  const given = call.arguments.value;
  const result = call.result.value;
  const failed = call.status.value === "failed";
  return (
    <>
      <p class="agui-label">{say("toolArguments")}</p>
      {/^\s*(\{\s*\})?\s*$/.test(given) ? <p class="agui-hint">{say("toolNoArguments")}</p> : <JsonText text={given} />}
      {result !== undefined && (
        <>
          <p class="agui-label">{say(failed ? "toolError" : "toolResult")}</p>
          <JsonText text={result} />
        </>
      )}
    </>
  );
}

/** What the page itself draws for a call of one of its tools. */
function Drawn({ node }: { node: Node }) {
  const place = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => place.current?.replaceChildren(node), [node]);
  return <div class="agui-drawn" part="tool-rendered" ref={place} />;
}

function QuestionCard({ question }: { question: Question }) {
  const { say } = useTexts();
  const card = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (card.current !== null) takeFocus(card.current);
  }, []);
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset is laid out unlike everything else
    <div
      class="agui-question"
      part="question"
      role="group"
      aria-label={spelledOut(question.text, SENTENCE)}
      tabIndex={-1}
      ref={card}
    >
      <p dir="auto">{marked(question.text, SENTENCE)}</p>
      <div class="agui-actions">
        <button
          type="button"
          class="agui-button agui-primary"
          onClick={(event) => {
            leave(event.currentTarget);
            question.accept();
          }}
        >
          {say("accept")}
        </button>
        <button
          type="button"
          class="agui-button"
          onClick={(event) => {
            leave(event.currentTarget);
            question.decline();
          }}
        >
          {say("decline")}
        </button>
      </div>
    </div>
  );
}
