/** The arguments of a call as a form. Below: schema_fields. Above: approval. */
import { useId } from "preact/hooks";
import { directionOf } from "../chat/direction";
import { parted, spelledOut } from "../chat/unseen";
import { JsonText } from "./json_text";
import { type Draft, type Field, readDraft } from "./schema_fields";
import { useTexts } from "./texts";
import { Value } from "./value";

export type Drafts = Readonly<Record<string, Draft>>;

interface ArgumentsFormProps {
  readonly fields: readonly Field[];
  readonly drafts: Drafts;
  /** Whether what is wrong is said already. */
  readonly checked: boolean;
  readonly onDraft: (name: string, draft: Draft) => void;
}

export function ArgumentsForm({ fields, drafts, checked, onDraft }: ArgumentsFormProps) {
  return (
    <div class="agui-fields">
      {fields.map((field) => (
        <FieldRow
          key={field.name}
          field={field}
          draft={drafts[field.name] ?? ""}
          checked={checked}
          onDraft={(draft) => onDraft(field.name, draft)}
        />
      ))}
    </div>
  );
}

interface FieldRowProps {
  readonly field: Field;
  readonly draft: Draft;
  readonly checked: boolean;
  readonly onDraft: (draft: Draft) => void;
}

function FieldRow({ field, draft, checked, onDraft }: FieldRowProps) {
  const { say } = useTexts();
  const id = useId();
  const reading = readDraft(field, draft);
  const problem = checked && "problem" in reading ? say(reading.problem, reading.values) : "";
  const value = typeof draft === "string" && field.kind !== "choice" ? draft : "";
  const described = [isUnseen(value) && "unseen", field.hint && "hint", problem && "problem"].filter(Boolean);
  const common = {
    id,
    name: field.name,
    "aria-describedby": described.map((each) => `${id}-${each}`).join(" ") || undefined,
    "aria-invalid": problem ? true : undefined,
  } as const;
  return (
    <div class={`agui-field agui-field-${field.kind}`}>
      <label for={id}>
        <Value text={field.label} />
        {field.required && <span aria-hidden="true"> *</span>}
      </label>
      <FieldInput field={field} draft={draft} common={common} onDraft={onDraft} />
      <Unseen id={`${id}-unseen`} value={value} />
      {field.hint && (
        <p id={`${id}-hint`} class="agui-hint">
          <Value text={field.hint} />
        </p>
      )}
      {problem && (
        <p id={`${id}-problem`} class="agui-field-problem">
          {problem}
        </p>
      )}
    </div>
  );
}

function isUnseen(value: string): boolean {
  return parted(value).length > 1;
}

/** An input shows no marks: what stands in it, to read, where not all of it can be seen there. */
export function Unseen({ id, value }: { id?: string; value: string }) {
  const { say } = useTexts();
  if (!isUnseen(value)) return null;
  return (
    <div id={id} class="agui-unseen">
      <p>{say("unseenWarning")}</p>
      <JsonText text={value} />
    </div>
  );
}

interface FieldInputProps {
  readonly field: Field;
  readonly draft: Draft;
  readonly common: { readonly id: string; readonly name: string };
  readonly onDraft: (draft: Draft) => void;
}

function FieldInput({ field, draft, common, onDraft }: FieldInputProps) {
  if (typeof draft === "boolean") {
    return (
      <input {...common} type="checkbox" checked={draft} onChange={(event) => onDraft(event.currentTarget.checked)} />
    );
  }
  if (field.kind === "choice") {
    return (
      <select {...common} value={draft} onChange={(event) => onDraft(event.currentTarget.value)}>
        {(!field.required || draft === "") && <option value="">–</option>}
        {field.choices.map((choice, index) => (
          <option key={index} value={String(index)}>
            {spelledOut(typeof choice === "string" ? choice : JSON.stringify(choice))}
          </option>
        ))}
      </select>
    );
  }
  const typed = {
    ...common,
    value: draft,
    dir: directionOf(draft),
    required: field.required,
    onInput: (event: Event) => onDraft((event.currentTarget as HTMLInputElement).value),
  };
  if (field.kind === "json" || (field.kind === "text" && (draft.length > 80 || draft.includes("\n")))) {
    const rows = Math.min(Math.max(draft.split("\n").length, 2), 8);
    return (
      <textarea
        {...typed}
        rows={rows}
        spellcheck={field.kind === "text"}
        class={field.kind === "json" ? "agui-mono" : ""}
      />
    );
  }
  return <input {...typed} type="text" inputMode={field.kind === "text" ? "text" : "decimal"} autocomplete="off" />;
}
