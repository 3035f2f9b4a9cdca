/** Where a server's key is entered. */
import { useRef } from "preact/hooks";
import { useTexts } from "../view/texts";
import { Dialog } from "./dialogs";
import type { Session } from "./session";

export function KeyDialog({ session }: { session: Session }) {
  const { say } = useTexts();
  const input = useRef<HTMLInputElement>(null);
  const needed = session.keyNeeded.value;
  if (needed === "no") return null;
  const enter = (event: Event) => {
    event.preventDefault();
    const key = input.current?.value.trim();
    if (key) void session.useKey(key);
  };
  const close = () => {
    session.keyNeeded.value = "no";
  };
  return (
    <Dialog label={say("keyNeeded")} onClose={close}>
      <form class="page-key" onSubmit={enter}>
        <h2>{say("keyNeeded")}</h2>
        {needed === "wrong" && (
          <p class="agui-field-problem" role="alert">
            {say("keyWrong")}
          </p>
        )}
        <label>
          {say("key")}
          <input
            ref={input}
            type="password"
            autocomplete="off"
            spellcheck={false}
            required
            aria-describedby="key-hint"
          />
        </label>
        <p class="agui-hint" id="key-hint">
          {say("keyHint")}
        </p>
        <div class="page-actions">
          {session.hasKey.value && (
            <button type="button" class="agui-button agui-quiet" onClick={() => void session.useKey(undefined)}>
              {say("keyForget")}
            </button>
          )}
          <button type="button" class="agui-button" onClick={close}>
            {say("cancel")}
          </button>
          <button type="submit" class="agui-button agui-primary">
            {say("keyUse")}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
