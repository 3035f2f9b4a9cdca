/** The arguments of a call as a form. Below: schema_fields. Above: approval. */
import { useId } from "preact/hooks";
import { directionOf } from "./direction";
import { type Draft, type Field, readDraft } from "./schema_fields";
import { useTexts } from "./texts";

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
  const described = [field.hint && `${id}-hint`, problem && `${id}-problem`].filter(Boolean).join(" ") || undefined;
  const common = {
    id,
    name: field.name,
    "aria-describedby": described,
    "aria-invalid": problem ? true : undefined,
  } as const;
  return (
    <div class={`agui-field agui-field-${field.kind}`}>
      <label for={id}>
        {field.label}
        {field.required && <span aria-hidden="true"> *</span>}
      </label>
      <FieldInput field={field} draft={draft} common={common} onDraft={onDraft} />
      {field.hint && (
        <p id={`${id}-hint`} class="agui-hint">
          {field.hint}
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
            {typeof choice === "string" ? choice : JSON.stringify(choice)}
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
