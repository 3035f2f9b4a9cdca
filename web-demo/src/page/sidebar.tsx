/** The conversations there are, and what concerns the page as a whole. */
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { ThreadSummary } from "../chat/contract";
import { Icon } from "../view/icons";
import { useTexts } from "../view/texts";
import { ask } from "./dialogs";
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
      <Threads session={session} onChosen={leave} />
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

function Threads({ session, onChosen }: { session: Session; onChosen: () => void }) {
  const { say } = useTexts();
  const { threads, hasMore, loading } = session.threads;
  const current = session.conversation.value?.threadId.value;
  if (hasMore.value !== undefined && threads.value.length === 0) {
    return <p class="page-no-threads agui-hint">{say("noThreads")}</p>;
  }
  return (
    <div class="page-threads">
      <ul>
        {threads.value.map((thread) => (
          <ThreadRow
            key={thread.id}
            session={session}
            thread={thread}
            current={thread.id === current}
            onChosen={onChosen}
          />
        ))}
      </ul>
      {hasMore.value && (
        <button
          type="button"
          class="agui-button agui-quiet"
          disabled={loading.value}
          onClick={() => void session.threads.more()}
        >
          {say("moreThreads")}
        </button>
      )}
    </div>
  );
}

interface ThreadRowProps {
  readonly session: Session;
  readonly thread: ThreadSummary;
  readonly current: boolean;
  readonly onChosen: () => void;
}

function ThreadRow({ session, thread, current, onChosen }: ThreadRowProps) {
  const words = useTexts();
  const { say } = words;
  const [renaming, setRenaming] = useState(false);
  const title = thread.title || say("untitled");
  const remove = async () => {
    if (await ask(say("deleteThread", { title }), { yes: say("delete"), no: say("cancel"), danger: true })) {
      await session.removeThread(thread.id);
    }
  };
  if (renaming) {
    const rename = (text: string) => {
      setRenaming(false);
      if (text.trim() !== "" && text.trim() !== thread.title) void session.threads.rename(thread.id, text);
    };
    return (
      <li>
        <Rename title={thread.title} onDone={rename} onCancel={() => setRenaming(false)} />
      </li>
    );
  }
  return (
    <li class="page-thread" data-current={current || undefined}>
      <button
        type="button"
        class="page-thread-title"
        dir="auto"
        aria-current={current ? "true" : undefined}
        title={`${title}\n${words.relative(thread.updatedAt)}`}
        onClick={() => {
          if (!current) session.openThread(thread);
          onChosen();
        }}
      >
        {title}
      </button>
      <button
        type="button"
        class="agui-icon-button agui-small"
        aria-label={`${say("rename")}: ${title}`}
        title={say("rename")}
        onClick={() => setRenaming(true)}
      >
        <Icon name="edit" />
      </button>
      <button
        type="button"
        class="agui-icon-button agui-small"
        aria-label={`${say("delete")}: ${title}`}
        title={say("delete")}
        onClick={remove}
      >
        <PageIcon name="trash" />
      </button>
    </li>
  );
}

function Rename({ title, onDone, onCancel }: { title: string; onDone: (text: string) => void; onCancel: () => void }) {
  const { say } = useTexts();
  const input = useRef<HTMLInputElement>(null);
  const over = useRef(false);
  useLayoutEffect(() => input.current?.select(), []);
  const end = (save: boolean) => {
    if (over.current) return; // leaving the field because it goes away is not a second answer
    over.current = true;
    if (save) onDone(input.current?.value ?? "");
    else onCancel();
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "Escape") {
      event.stopPropagation();
      end(false);
    }
    if (event.key === "Enter" && !event.isComposing) end(true);
  };
  return (
    <input
      type="text"
      class="page-rename"
      ref={input}
      defaultValue={title}
      maxLength={500}
      aria-label={say("renameThread")}
      onKeyDown={onKey}
      onBlur={() => end(true)}
    />
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
