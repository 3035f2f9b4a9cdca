/** What the person said and what was answered, each with what can be done about it. */
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { AnswerEntry, Attachment, UserEntry } from "../chat/contract";
import { directionOf } from "../chat/direction";
import { PROSE } from "../chat/unseen";
import { isShownImage } from "./attachments";
import { isOver } from "./call_card";
import { useChat } from "./chat_context";
import { CopyButton } from "./copy_button";
import { stay } from "./focus";
import { IconButton } from "./icon_button";
import { Icon } from "./icons";
import { LocalImage } from "./local_image";
import { Markdown } from "./markdown";
import { useTexts } from "./texts";
import { Value } from "./value";

/** `last`: it is the one that can be said differently. */
export function UserMessage({ entry, last }: { entry: UserEntry; last: boolean }) {
  const { say } = useTexts();
  const { conversation } = useChat();
  const [editing, setEditing] = useState(false);
  const editButton = useRef<HTMLButtonElement>(null);
  const wasEditing = useRef(false);
  useLayoutEffect(() => {
    if (wasEditing.current && !editing) editButton.current?.focus();
    wasEditing.current = editing;
  }, [editing]);
  if (editing) {
    const save = (text: string) => {
      setEditing(false);
      void conversation.edit(entry.id, text);
    };
    return (
      <div class="agui-edit">
        <SentFiles entry={entry} />
        <Edit text={entry.text} onSave={save} onCancel={() => setEditing(false)} />
      </div>
    );
  }
  return (
    <article class="agui-user" part="message user-message" aria-label={say("you")} data-testid="user-message">
      <SentFiles entry={entry} />
      <div class="agui-said">
        <div class="agui-tools" data-last={last || undefined}>
          <CopyButton text={() => entry.text} label={say("copy")} />
          {last && conversation.phase.value === "idle" && (
            <IconButton
              icon="edit"
              ref={editButton}
              name={say("edit")}
              title={say("edit")}
              onClick={() => setEditing(true)}
            />
          )}
        </div>
        {entry.text && (
          <p class="agui-bubble" dir="auto">
            {entry.text}
          </p>
        )}
      </div>
    </article>
  );
}

function SentFiles({ entry }: { entry: UserEntry }) {
  if (entry.attachments.length === 0) return null;
  return (
    <div class="agui-sent">
      {entry.attachments.map((attachment, index) => (
        <Sent key={index} attachment={attachment} />
      ))}
    </div>
  );
}

function Sent({ attachment }: { attachment: Attachment }) {
  const { say, bytes } = useTexts();
  const [broken, setBroken] = useState(false);
  if (isShownImage(attachment) && !broken) {
    const name = say("attachment", { name: attachment.name || say("image") });
    return <LocalImage attachment={attachment} kind="agui-sent-image" name={name} onBroken={() => setBroken(true)} />;
  }
  return (
    <span class="agui-chip">
      <Icon name={attachment.kind === "image" ? "image" : "file"} />
      <span class="agui-chip-name">
        <Value text={attachment.name || say("untitled")} kept={PROSE} />
      </span>
      {attachment.bytes > 0 && <span class="agui-hint">{bytes(attachment.bytes)}</span>}
    </span>
  );
}

interface EditProps {
  readonly text: string;
  readonly onSave: (text: string) => void;
  readonly onCancel: () => void;
}

function Edit({ text, onSave, onCancel }: EditProps) {
  const { say } = useTexts();
  const [draft, setDraft] = useState(text);
  const area = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => {
    area.current?.focus();
    area.current?.setSelectionRange(text.length, text.length);
  }, [text]);
  const save = () => {
    if (draft.trim() !== "") onSave(draft.trim());
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.isComposing) return;
    if (event.key === "Escape") {
      stay(event);
      onCancel();
    } else if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      save();
    }
  };
  return (
    <>
      <div class="agui-grow" dir={directionOf(draft)} data-text={draft}>
        <textarea
          ref={area}
          rows={1}
          aria-label={say("editMessage")}
          value={draft}
          onInput={(event) => setDraft(event.currentTarget.value)}
          onKeyDown={onKey}
        />
      </div>
      <div class="agui-actions">
        <button type="button" class="agui-button agui-primary" disabled={draft.trim() === ""} onClick={save}>
          {say("save")}
        </button>
        <button type="button" class="agui-button agui-quiet" onClick={onCancel}>
          {say("cancel")}
        </button>
      </div>
    </>
  );
}

/** `last`: it is the one that can be had anew. */
export function Answer({ entry, last }: { entry: AnswerEntry; last: boolean }) {
  const { say } = useTexts();
  const open = entry.open.value;
  const text = entry.text.value;
  return (
    <article
      class="agui-answer"
      part="message answer-message"
      aria-label={say("assistant")}
      aria-busy={open}
      data-open={open || undefined}
      data-testid="answer"
    >
      <Markdown text={text} open={open} />
      {!open && text !== "" && <AnswerTools entry={entry} last={last} />}
    </article>
  );
}

function AnswerTools({ entry, last }: { entry: AnswerEntry; last: boolean }) {
  const { say } = useTexts();
  const { conversation, tellsUsage } = useChat();
  const idle = conversation.phase.value === "idle";
  const usage = last && idle && tellsUsage ? conversation.usage.value : undefined;
  return (
    <div class="agui-tools" data-last={last || undefined}>
      <CopyButton text={() => entry.text.value} label={say("copy")} />
      {last && idle && <Again />}
      {usage !== undefined && (
        <span class="agui-usage" part="usage" data-testid="usage">
          {say("usage", { input: usage.inputTokens, output: usage.outputTokens })}
        </span>
      )}
    </div>
  );
}

/** A turn that ended without an answer: stopped, or failed, or with a tool's result as all there is to say. */
export function Unanswered() {
  const { phase, problem, approvals, entries } = useChat().conversation;
  const last = entries.value.at(-1);
  const isUnderWay = phase.value !== "idle" || approvals.value.length > 0 || (last?.kind === "call" && !isOver(last));
  if (last === undefined || isUnderWay || problem.value) return null;
  return (
    <div class="agui-tools" data-last>
      <Again />
    </div>
  );
}

function Again() {
  const { say } = useTexts();
  const { conversation } = useChat();
  return (
    <IconButton
      icon="again"
      name={say("regenerate")}
      title={say("regenerate")}
      onClick={() => void conversation.regenerate()}
    />
  );
}
