/** Questions that have to be answered before anything else: one at a time, in the browser's own modal dialog. */
import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { SENTENCE, spelledOut } from "../chat/unseen";
import { marked } from "../view/value";
import { words } from "./language";

interface Asked {
  readonly text: string;
  readonly yes: string;
  readonly no: string;
  readonly danger: boolean;
  readonly answer: (yes: boolean) => void;
}

/** What is left out is "yes" and "no". */
interface Wording {
  readonly yes?: string;
  readonly no?: string;
  /** What is agreed to cannot be undone. */
  readonly danger?: boolean;
}

const questions = signal<readonly Asked[]>([]);

/** Whether the person agrees; no, where the dialog is closed or `stop` comes first. */
export function ask(
  text: string,
  { yes = words.peek().say("accept"), no = words.peek().say("decline"), danger = false }: Wording = {},
  stop?: AbortSignal,
): Promise<boolean> {
  return new Promise((resolve) => {
    const asked: Asked = {
      text,
      yes,
      no,
      danger,
      answer(agreed) {
        questions.value = questions.value.filter((each) => each !== asked);
        resolve(agreed);
      },
    };
    questions.value = [...questions.value, asked];
    stop?.addEventListener("abort", () => asked.answer(false));
  });
}

export function Questions() {
  const asked = questions.value[0];
  if (asked === undefined) return null;
  return (
    <Dialog label={spelledOut(asked.text, SENTENCE)} onClose={() => asked.answer(false)}>
      <p class="page-question" dir="auto">
        {marked(asked.text, SENTENCE)}
      </p>
      <div class="page-actions">
        <button type="button" class="agui-button" onClick={() => asked.answer(false)}>
          {asked.no}
        </button>
        <button
          type="button"
          class={`agui-button ${asked.danger ? "agui-danger" : "agui-primary"}`}
          onClick={() => asked.answer(true)}
        >
          {asked.yes}
        </button>
      </div>
    </Dialog>
  );
}

interface DialogProps {
  readonly label: string;
  readonly wide?: boolean;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}

/** Open as long as it is there. The focus goes back to where it was. */
export function Dialog({ label, wide = false, onClose, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const element = dialog.current;
    const before = document.activeElement;
    element?.showModal();
    return () => {
      element?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  const cancel = (event: Event) => {
    event.preventDefault();
    onClose();
  };
  return (
    <dialog ref={dialog} class={`agui page-dialog${wide ? " page-wide" : ""}`} aria-label={label} onCancel={cancel}>
      {children}
    </dialog>
  );
}
