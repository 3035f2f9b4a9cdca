/** The conversations there are, and what concerns the page as a whole. */
import { useLayoutEffect, useRef } from "preact/hooks";
import { Icon } from "../view/icons";
import { useTexts } from "../view/texts";
import { ThreadRows } from "../view/thread_rows";
import { PageIcon } from "./icons";
import { narrow, sidebar } from "./layout";
import type { Session } from "./session";
import { THEMES, theme } from "./theme";

const THEME_ICONS = { auto: "auto", light: "sun", dark: "moon" } as const;
const THEME_WORDS = { auto: "themeAuto", light: "themeLight", dark: "themeDark" } as const;

export function Sidebar({ session }: { session: Session }) {
  const { say } = useTexts();
  const closer = useRef<HTMLButtonElement>(null);
  const over = narrow.value && sidebar.value;
  const current = session.conversation.value?.threadId.value;
  useLayoutEffect(() => {
    if (over) closer.current?.focus();
  }, [over]);
  const leave = () => {
    if (narrow.peek()) sidebar.value = false;
  };
  return (
    <nav class="page-sidebar" aria-label={say("threads")} hidden={!sidebar.value} data-part="conversations">
      <div class="page-brand">
        <svg class="page-mark" viewBox="0 0 24 24" aria-hidden="true">
          <path d="M4 7.5A3.5 3.5 0 0 1 7.5 4h9A3.5 3.5 0 0 1 20 7.5v5a3.5 3.5 0 0 1-3.5 3.5H12l-4.5 4v-4A3.5 3.5 0 0 1 4 12.5z" />
          <path d="M8.5 8.2 11 10l-2.5 1.8M12.8 11.8h2.7" />
        </svg>
        <span>agui-gateway</span>
        <button
          type="button"
          class="agui-icon-button"
          ref={closer}
          aria-label={say("hideThreads")}
          title={say("hideThreads")}
          onClick={() => {
            sidebar.value = false;
          }}
        >
          {narrow.value ? <Icon name="close" /> : <PageIcon name="side" />}
        </button>
      </div>
      <button
        type="button"
        class="page-new"
        onClick={() => {
          session.newThread();
          leave();
        }}
      >
        <Icon name="edit" />
        {say("newConversation")}
      </button>
      <ThreadRows
        list={session.threads}
        threads={session.threads.threads.value}
        current={current}
        onChoose={(thread) => {
          if (thread.id !== current) session.openThread(thread);
          leave();
        }}
        onRemove={(thread) => void session.removeThread(thread.id)}
      />
      <div class="page-foot">
        <ThemeSwitch />
        <span class="agui-space" />
        {session.hasKey.value && <KeyButton session={session} />}
        <a href="docs">{say("api")}</a>
      </div>
    </nav>
  );
}

function KeyButton({ session }: { session: Session }) {
  const { say } = useTexts();
  const onClick = () => {
    session.keyNeeded.value = "missing";
  };
  return (
    <button
      type="button"
      class="agui-icon-button"
      aria-label={say("keyChange")}
      title={say("keyChange")}
      onClick={onClick}
    >
      <PageIcon name="key" />
    </button>
  );
}

function ThemeSwitch() {
  const { say } = useTexts();
  return (
    <fieldset class="page-themes" data-part="theme switch">
      <legend class="agui-hidden">{say("theme")}</legend>
      {THEMES.map((each) => (
        <label key={each} title={say(THEME_WORDS[each])}>
          <input
            type="radio"
            class="agui-hidden"
            name="theme"
            checked={theme.value === each}
            aria-label={say(THEME_WORDS[each])}
            onChange={() => {
              theme.value = each;
            }}
          />
          <PageIcon name={THEME_ICONS[each]} />
        </label>
      ))}
    </fieldset>
  );
}
