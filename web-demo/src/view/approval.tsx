/** A tool that runs only if a person agrees: its arguments to look at and to change, and the choice. */
import { useId, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Approval, ApprovalChoice, JsonValue } from "../chat/contract";
import { same } from "../chat/json";
import { spelledOut } from "../chat/unseen";
import { ArgumentsForm, type Drafts } from "./arguments_form";
import { useNow } from "./clock";
import { leave, stay, takeFocus } from "./focus";
import { Icon } from "./icons";
import { draftOf, fieldsOf, readDraft } from "./schema_fields";
import { useTexts } from "./texts";
import { marked } from "./value";

interface ApprovalCardProps {
  readonly approval: Approval;
  readonly onChoose: (choice: ApprovalChoice) => void;
}

export function ApprovalCard({ approval, onChoose }: ApprovalCardProps) {
  const { say } = useTexts();
  const id = useId();
  const card = useRef<HTMLElement>(null);
  const choice = approval.choice.value;
  const choose = (made: ApprovalChoice) => {
    if (card.current !== null) leave(card.current);
    onChoose(made);
  };
  useLayoutEffect(() => {
    if (choice === undefined && card.current !== null) takeFocus(card.current);
  }, [choice]);
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset is laid out unlike everything else
    <section class="agui-approval" part="approval" role="group" aria-labelledby={id} tabIndex={-1} ref={card}>
      <header>
        <Icon name="shield" />
        <strong id={id}>{say("approvalNeeded")}</strong>
        {choice === undefined && <Expiry until={approval.expiresAt} />}
      </header>
      <p class="agui-approval-message" dir={approval.message ? "auto" : undefined}>
        {approval.message
          ? marked(approval.message)
          : say(approval.isForOthers ? "approvalByOthers" : "approvalFor", { tool: spelledOut(approval.toolName) })}
      </p>
      {choice ? (
        <Decided choice={choice} />
      ) : approval.isForOthers ? (
        <button type="button" class="agui-button" onClick={() => choose({ approved: false })}>
          {say("cancel")}
        </button>
      ) : (
        <Decision approval={approval} onChoose={choose} />
      )}
    </section>
  );
}

function Expiry({ until }: { until: Date | undefined }) {
  const { say, relative } = useTexts();
  const now = useNow(until);
  if (until === undefined) return null;
  const over = until <= now;
  return (
    <span class="agui-expiry" data-over={over || undefined}>
      {over ? say("expired") : say("expires", { when: relative(until, now) })}
    </span>
  );
}

function Decided({ choice }: { choice: ApprovalChoice }) {
  const { say } = useTexts();
  const words = !choice.approved ? "denied" : choice.editedArgs === undefined ? "approved" : "approvedChanged";
  return (
    <p class="agui-decided" data-approved={choice.approved}>
      <Icon name={choice.approved ? "check" : "close"} />
      <span>
        {say(words)}
        {!choice.approved && choice.reason ? `: ${choice.reason}` : ""}
      </span>
    </p>
  );
}

function Decision({ approval, onChoose }: ApprovalCardProps) {
  const { say } = useTexts();
  const fields = useMemo(() => fieldsOf(approval.arguments, approval.schema), [approval]);
  const [drafts, setDrafts] = useState<Drafts>(() =>
    Object.fromEntries(fields.map((field) => [field.name, draftOf(field)])),
  );
  const [checked, setChecked] = useState(false);
  const [denying, setDenying] = useState(false);
  const reasonButton = useRef<HTMLButtonElement>(null);
  const wasDenying = useRef(false);
  useLayoutEffect(() => {
    if (wasDenying.current && !denying) reasonButton.current?.focus();
    wasDenying.current = denying;
  }, [denying]);
  const now = useNow(approval.expiresAt);
  const over = approval.expiresAt !== undefined && approval.expiresAt <= now;

  const approve = (event: Event) => {
    event.preventDefault();
    const read: [string, JsonValue][] = [];
    for (const field of fields) {
      const reading = readDraft(field, drafts[field.name] ?? "");
      if ("problem" in reading) {
        setChecked(true);
        const form = event.currentTarget as HTMLFormElement;
        const input = form.elements.namedItem(field.name);
        if (input instanceof HTMLElement) input.focus();
        return;
      }
      if (reading.value !== undefined) read.push([field.name, reading.value]);
    }
    const edited = Object.fromEntries(read); // also a member that is called __proto__
    onChoose(same(edited, approval.arguments) ? { approved: true } : { approved: true, editedArgs: edited });
  };

  return (
    <>
      <form onSubmit={approve} noValidate>
        <ArgumentsForm
          fields={fields}
          drafts={drafts}
          checked={checked}
          onDraft={(name, draft) => setDrafts({ ...drafts, [name]: draft })}
        />
        {!denying && (
          <div class="agui-actions">
            <button type="submit" class="agui-button agui-primary" disabled={over}>
              {say("approve")}
            </button>
            <button type="button" class="agui-button" onClick={() => onChoose({ approved: false })}>
              {say("deny")}
            </button>
            <button type="button" class="agui-button agui-quiet" ref={reasonButton} onClick={() => setDenying(true)}>
              {say("denyWithReason")}
            </button>
          </div>
        )}
      </form>
      {denying && (
        <Denial
          onBack={() => setDenying(false)}
          onDeny={(reason) => onChoose(reason ? { approved: false, reason } : { approved: false })}
        />
      )}
    </>
  );
}

function Denial({ onBack, onDeny }: { onBack: () => void; onDeny: (reason: string) => void }) {
  const { say } = useTexts();
  const input = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => input.current?.focus(), []);
  const onKey = (event: KeyboardEvent) => {
    if (event.key !== "Escape" || event.isComposing) return;
    stay(event);
    onBack();
  };
  const deny = (event: Event) => {
    event.preventDefault();
    onDeny(input.current?.value.trim() ?? "");
  };
  return (
    <form class="agui-denial" onSubmit={deny} onKeyDown={onKey}>
      <label>
        {say("denyReason")}
        <input type="text" ref={input} maxLength={500} autocomplete="off" />
      </label>
      <div class="agui-actions">
        <button type="submit" class="agui-button agui-danger">
          {say("deny")}
        </button>
        <button type="button" class="agui-button agui-quiet" onClick={onBack}>
          {say("cancel")}
        </button>
      </div>
    </form>
  );
}
