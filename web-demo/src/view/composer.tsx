/** Where the person writes. Below: attachments. */
import type { RefObject } from "preact";
import { useRef, useState } from "preact/hooks";
import type { Attachment } from "../chat/contract";
import { directionOf } from "../chat/direction";
import { PROSE } from "../chat/unseen";
import { isShownImage, kindOf, type UploadLimits } from "./attachments";
import { useChat } from "./chat_context";
import { IconButton } from "./icon_button";
import { Icon } from "./icons";
import { LocalImage } from "./local_image";
import { useTexts } from "./texts";
import { Value } from "./value";

/** The message that is being put together. */
export interface Draft {
  readonly text: string;
  readonly attachments: readonly Attachment[];
  /** What is wrong with the files that were tried last. */
  readonly refused: string;
  /** Whether files are still on their way into it. */
  readonly reading: boolean;
  setText(text: string): void;
  add(files: Iterable<File>): Promise<void>;
  remove(attachment: Attachment): void;
  clear(): void;
}

export function useDraft(limits: UploadLimits | undefined): Draft {
  const texts = useTexts();
  const [text, setText] = useState("");
  const [attachments, setAttachments] = useState<readonly Attachment[]>([]);
  const [refused, setRefused] = useState("");
  const [reading, setReading] = useState(false);
  const current = useRef(attachments);
  const set = (changed: readonly Attachment[]) => {
    current.current = changed;
    setAttachments(changed);
  };
  return {
    text,
    attachments,
    refused,
    reading,
    setText,
    async add(files) {
      if (limits === undefined) return;
      setReading(true);
      try {
        const { readFiles } = await import("./file_reading");
        const add = (attachment: Attachment) => set([...current.current, attachment]);
        setRefused(await readFiles(files, () => current.current, add, limits, texts, kindOf));
      } catch {
        setRefused(texts.say("problem_network"));
      }
      setReading(false);
    },
    remove(attachment) {
      set(current.current.filter((each) => each !== attachment));
      setRefused("");
    },
    clear() {
      setText("");
      set([]);
      setRefused("");
    },
  };
}

interface ComposerProps {
  readonly draft: Draft;
  readonly limits: UploadLimits | undefined;
  readonly disabled: boolean;
  readonly area: RefObject<HTMLTextAreaElement | null>;
  readonly onSend: () => void;
}

export function Composer({ draft, limits, disabled, area, onSend }: ComposerProps) {
  const { say } = useTexts();
  const { conversation } = useChat();
  const phase = conversation.phase.value;
  const busy = phase !== "idle" && phase !== "loading";
  const empty = draft.text.trim() === "" && draft.attachments.length === 0 && !draft.reading;
  const send = () => {
    if (phase === "idle" && !empty && !disabled) onSend();
  };
  const onKey = (event: KeyboardEvent) => {
    // 229: an input method that has the key, in browsers that do not say so otherwise
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    send();
  };
  const onPaste = (event: ClipboardEvent) => {
    const files = [...(event.clipboardData?.files ?? [])];
    if (files.length === 0 || limits === undefined) return;
    event.preventDefault();
    void draft.add(files);
  };
  const onSubmit = (event: Event) => {
    event.preventDefault();
    send();
  };
  return (
    <form class="agui-composer" part="composer" onSubmit={onSubmit} data-disabled={disabled || undefined}>
      <Chips draft={draft} />
      {draft.refused && (
        <p class="agui-refused" role="alert">
          {draft.refused}
        </p>
      )}
      <div class="agui-grow" dir={directionOf(draft.text)} data-text={draft.text}>
        <textarea
          ref={area}
          rows={1}
          aria-label={say("message")}
          placeholder={say("placeholder")}
          value={draft.text}
          disabled={disabled}
          onInput={(event) => draft.setText(event.currentTarget.value)}
          onKeyDown={onKey}
          onPaste={onPaste}
          enterkeyhint="send"
        />
      </div>
      <div class="agui-composer-row">
        {limits !== undefined && <Attach draft={draft} limits={limits} disabled={disabled} />}
        <span class="agui-space" />
        {busy ? <Stop area={area} /> : <Send disabled={empty || disabled} />}
      </div>
    </form>
  );
}

function Send({ disabled }: { disabled: boolean }) {
  const { say } = useTexts();
  return (
    <button
      type="submit"
      class="agui-send"
      part="send-button"
      aria-label={say("send")}
      title={say("send")}
      disabled={disabled}
    >
      <Icon name="send" />
    </button>
  );
}

function Stop({ area }: Pick<ComposerProps, "area">) {
  const { say } = useTexts();
  const { conversation } = useChat();
  const onClick = (event: MouseEvent) => {
    if (event.detail === 0) area.current?.focus(); // by the keyboard, which would be left on a button that goes
    conversation.stop();
  };
  return (
    <button
      type="button"
      class="agui-send agui-stop"
      part="stop-button"
      aria-label={say("stop")}
      title={say("stop")}
      disabled={conversation.phase.value === "stopping"}
      onClick={onClick}
    >
      <Icon name="stop" />
    </button>
  );
}

function Attach({ draft, limits, disabled }: { draft: Draft; limits: UploadLimits; disabled: boolean }) {
  const { say, bytes } = useTexts();
  const input = useRef<HTMLInputElement>(null);
  const hint = say("attachLimits", { limit: bytes(limits.maxBytes) });
  const onChange = (event: Event) => {
    const chosen = event.currentTarget as HTMLInputElement;
    void draft.add([...(chosen.files ?? [])]);
    chosen.value = "";
  };
  return (
    <>
      <input
        type="file"
        class="agui-hidden"
        tabIndex={-1}
        aria-hidden="true"
        multiple
        ref={input}
        accept={`${limits.accept.filter((type) => !/[^/]\*$/.test(type)).join(",")},.docx,.xlsx,.pptx,.md,.csv`}
        onChange={onChange}
        data-testid="file-input"
      />
      <IconButton
        icon="attach"
        class="agui-icon-button"
        name={`${say("attach")}. ${hint}`}
        title={hint}
        disabled={disabled}
        onClick={() => input.current?.click()}
      />
    </>
  );
}

function Chips({ draft }: { draft: Draft }) {
  const { say } = useTexts();
  if (draft.attachments.length === 0) return null;
  return (
    <ul class="agui-chips" aria-label={say("attachments")}>
      {draft.attachments.map((attachment, index) => (
        <li key={index} class="agui-chip">
          <Thumbnail attachment={attachment} />
          <span class="agui-chip-name">
            <Value text={attachment.name} kept={PROSE} />
          </span>
          <Size attachment={attachment} />
          <IconButton
            icon="close"
            name={say("removeAttachment", { name: attachment.name })}
            onClick={() => draft.remove(attachment)}
          />
        </li>
      ))}
    </ul>
  );
}

function Size({ attachment }: { attachment: Attachment }) {
  const { bytes } = useTexts();
  return <span class="agui-hint">{bytes(attachment.bytes)}</span>;
}

function Thumbnail({ attachment }: { attachment: Attachment }) {
  const [broken, setBroken] = useState(false);
  if (!isShownImage(attachment) || broken) return <Icon name={attachment.kind === "image" ? "image" : "file"} />;
  return <LocalImage attachment={attachment} kind="agui-thumbnail" name="" onBroken={() => setBroken(true)} />;
}
