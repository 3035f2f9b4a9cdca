/**
 * Conversations to choose from, each in a row where it is renamed and deleted. Below: the contract alone. Above: the
 * page's sidebar, the widget's list.
 */
import type { RefObject } from "preact";
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { ThreadList, ThreadSummary } from "../chat/contract";
import { PROSE, spelledOut } from "../chat/unseen";
import { stay, takeFocus } from "./focus";
import { IconButton } from "./icon_button";
import type { IconName } from "./icons";
import { useTexts } from "./texts";
import { marked } from "./value";

interface ThreadRowsProps {
  readonly list: ThreadList;
  /** Those of the list that are shown. */
  readonly threads: readonly ThreadSummary[];
  /** The id of the one that is open. */
  readonly current: string | undefined;
  /** Whether the time stands in the row, or in its tooltip alone. */
  readonly timed?: boolean;
  /** Whether these are all, whatever more the list has. */
  readonly complete?: boolean;
  readonly onChoose: (thread: ThreadSummary) => void;
  readonly onRemove: (thread: ThreadSummary) => void;
}

export function ThreadRows(props: ThreadRowsProps) {
  const { list, threads, current, timed = false, complete = false, onChoose, onRemove } = props;
  const { say, problem } = useTexts();
  const place = useRef<HTMLDivElement>(null);
  const { loading } = list;
  const hasMore = list.hasMore.value && !complete;
  // without any, a list that did not come is not an empty one
  const trouble = list.refused.value ?? (threads.length === 0 ? list.problem.value : undefined);
  const remove = (thread: ThreadSummary, row: Element) => {
    const next = row.nextElementSibling ?? row.previousElementSibling;
    (next?.querySelector("button") ?? place.current)?.focus();
    onRemove(thread);
  };
  return (
    <div class="agui-threads" tabIndex={-1} ref={place} aria-busy={loading.value}>
      {trouble && (
        <p class="agui-hint" role="alert">
          {problem(trouble)}
        </p>
      )}
      {hasMore === false && threads.length === 0 && <p class="agui-hint">{say("noThreads")}</p>}
      <ul>
        {threads.map((thread) => (
          <Row
            key={thread.id}
            thread={thread}
            isCurrent={thread.id === current}
            timed={timed}
            onChoose={() => onChoose(thread)}
            onRename={(title) => void list.rename(thread.id, title)}
            onRemove={(row) => remove(thread, row)}
          />
        ))}
      </ul>
      {hasMore !== undefined && <More list={list} hasMore={hasMore} shown={threads.length} place={place} />}
    </div>
  );
}

interface MoreProps {
  readonly list: ThreadList;
  readonly hasMore: boolean;
  readonly shown: number;
  readonly place: RefObject<HTMLElement | null>;
}

/** Asks for the next ones. The first of them has the keyboard then, since this button may be gone. */
function More({ list, hasMore, shown, place }: MoreProps) {
  const { say } = useTexts();
  const before = useRef<number | undefined>(undefined);
  useLayoutEffect(() => {
    const row = place.current?.querySelectorAll("li")[before.current ?? shown];
    const button = row?.querySelector("button");
    if (!button) return;
    before.current = undefined;
    takeFocus(button);
  }, [shown]);
  if (!hasMore) return null;
  const onClick = () => {
    before.current = shown;
    void list.more();
  };
  return (
    <button type="button" class="agui-button agui-quiet" aria-disabled={list.loading.value} onClick={onClick}>
      {say("moreThreads")}
    </button>
  );
}

interface RowProps {
  readonly thread: ThreadSummary;
  readonly isCurrent: boolean;
  readonly timed: boolean;
  readonly onChoose: () => void;
  readonly onRename: (title: string) => void;
  readonly onRemove: (row: Element) => void;
}

type Mode = "shown" | "renamed" | "deleted";

function Row({ thread, isCurrent, timed, onChoose, onRename, onRemove }: RowProps) {
  const words = useTexts();
  const { say } = words;
  const [mode, setMode] = useState<Mode>("shown");
  const row = useRef<HTMLLIElement>(null);
  /** Where the keyboard goes back to. */
  const left = useRef<Mode>("shown");
  useLayoutEffect(() => {
    if (mode === "shown") row.current?.querySelector<HTMLElement>(`[data-mode=${left.current}]`)?.focus();
    left.current = "shown";
  }, [mode]);
  const title = spelledOut(thread.title, PROSE) || say("untitled");
  const goBack = (withKeyboard: boolean) => {
    if (withKeyboard) left.current = mode;
    setMode("shown");
  };
  if (mode === "renamed") {
    const end = (text: string | undefined, withKeyboard: boolean) => {
      goBack(withKeyboard);
      const wanted = text?.trim();
      if (wanted && wanted !== thread.title) onRename(wanted);
    };
    return (
      <li ref={row}>
        <Rename title={thread.title} onEnd={end} />
      </li>
    );
  }
  if (mode === "deleted") {
    return (
      <li ref={row}>
        <Deletion title={title} onYes={() => row.current && onRemove(row.current)} onNo={() => goBack(true)} />
      </li>
    );
  }
  const change = (to: Mode, icon: IconName, name: string) => (
    <IconButton icon={icon} name={`${name}: ${title}`} title={name} data-mode={to} onClick={() => setMode(to)} />
  );
  return (
    <li class="agui-thread" data-current={isCurrent || undefined} ref={row}>
      <button
        type="button"
        class="agui-thread-title"
        part="thread"
        aria-current={isCurrent ? "true" : undefined}
        title={`${title}\n${timed ? words.moment(thread.updatedAt) : words.relative(thread.updatedAt)}`}
        onClick={onChoose}
      >
        <span dir="auto">{marked(thread.title || title, PROSE)}</span>
        {timed && <span class="agui-hint">{words.relative(thread.updatedAt)}</span>}
      </button>
      {change("renamed", "edit", say("rename"))}
      {change("deleted", "trash", say("delete"))}
    </li>
  );
}

interface RenameProps {
  readonly title: string;
  /** Without a text, all stays as it was. */
  readonly onEnd: (text: string | undefined, withKeyboard: boolean) => void;
}

function Rename({ title, onEnd }: RenameProps) {
  const { say } = useTexts();
  const input = useRef<HTMLInputElement>(null);
  const over = useRef(false);
  useLayoutEffect(() => input.current?.select(), []);
  const end = (save: boolean, withKeyboard: boolean) => {
    if (over.current) return; // leaving the field because it goes away is not a second answer
    over.current = true;
    onEnd(save ? input.current?.value : undefined, withKeyboard);
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.isComposing || (event.key !== "Escape" && event.key !== "Enter")) return;
    stay(event);
    end(event.key === "Enter", true);
  };
  return (
    <input
      type="text"
      class="agui-rename"
      ref={input}
      dir="auto"
      defaultValue={title}
      maxLength={500}
      enterkeyhint="done"
      aria-label={say("renameThread")}
      onKeyDown={onKey}
      onBlur={() => end(true, false)}
    />
  );
}

/** Of a longer title the question says so much. */
const TITLE_CHARACTERS = 80;

function Deletion({ title, onYes, onNo }: { title: string; onYes: () => void; onNo: () => void }) {
  const { say } = useTexts();
  const id = useId();
  const no = useRef<HTMLButtonElement>(null);
  useLayoutEffect(() => no.current?.focus(), []);
  const characters = [...title];
  const short = characters.length > TITLE_CHARACTERS ? `${characters.slice(0, TITLE_CHARACTERS).join("")}…` : title;
  const onKey = (event: KeyboardEvent) => {
    if (event.key !== "Escape") return;
    stay(event);
    onNo();
  };
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset is laid out unlike everything else
    <div class="agui-thread-question" role="group" aria-labelledby={id} onKeyDown={onKey}>
      {/* stands where the button was that asked for it: who pressed that twice agreed to nothing */}
      <p id={id}>{say("deleteThread", { title: short })}</p>
      <div class="agui-actions">
        <button type="button" class="agui-button" ref={no} onClick={onNo}>
          {say("cancel")}
        </button>
        <button type="button" class="agui-button agui-danger" onClick={onYes}>
          {say("delete")}
        </button>
      </div>
    </div>
  );
}
