/** The list in the shared state (`state.list`), which tools and the person both change. */
import { useEffect, useId, useRef, useState } from "preact/hooks";
import type { JsonObject, JsonValue } from "../chat/contract";
import { isObject } from "../chat/json";
import { PROSE } from "../chat/unseen";
import { useChat } from "./chat_context";
import { hasTouchKeyboard } from "./focus";
import { IconButton } from "./icon_button";
import { Icon } from "./icons";
import { useTexts } from "./texts";
import { marked } from "./value";

const FLASH_MS = 900;

interface Item {
  readonly text: string;
  readonly done: boolean;
}

export function SharedList() {
  const { conversation } = useChat();
  const state = conversation.state.value;
  if (!isObject(state) || !Array.isArray(state.list)) return null;
  return <List state={state} list={state.list} />;
}

function List({ state, list }: { state: JsonObject; list: readonly JsonValue[] }) {
  const { say, number } = useTexts();
  const { conversation } = useChat();
  const id = useId();
  // on a phone it begins folded: open, it would push half of what is read off the screen when it comes
  const [open, setOpen] = useState(() => !hasTouchKeyboard());
  const flash = useFlash(list.length);
  const items = list.map(itemOf);
  // Of the list as it is by now: between what is shown and a click on it, an agent may have changed it too.
  const change = (edit: (list: readonly JsonValue[]) => readonly JsonValue[]) => {
    const now = conversation.state.peek();
    const before = isObject(now) && Array.isArray(now.list) ? now.list : list;
    conversation.setState({ ...(isObject(now) ? now : state), list: [...edit(before)] });
  };
  const done = items.filter((item) => item.done).length;
  return (
    <section
      class="agui-list"
      part="list"
      aria-label={say("sharedState")}
      data-flash={flash || undefined}
      data-testid="shared_list"
    >
      <button
        type="button"
        class="agui-disclosure agui-list-head"
        aria-expanded={open}
        aria-controls={id}
        onClick={() => setOpen(!open)}
      >
        <Icon name="list" />
        <span>{say("sharedState")}</span>
        <span class="agui-count">{done > 0 ? `${number(done)} / ${number(items.length)}` : number(items.length)}</span>
        <Icon name="chevron" />
      </button>
      <div id={id} class="agui-list-body" hidden={!open}>
        <ul>
          {items.map((item, index) => (
            <ListItem
              key={index}
              item={item}
              onTick={(ticked) =>
                change((now) => now.map((each, at) => (at === index ? withDone(each, ticked) : each)))
              }
              onRemove={() => change((now) => now.filter((_, at) => at !== index))}
            />
          ))}
        </ul>
        <NewItem onAdd={(text) => change((now) => [...now, text])} />
      </div>
    </section>
  );
}

interface ListItemProps {
  readonly item: Item;
  readonly onTick: (done: boolean) => void;
  readonly onRemove: () => void;
}

function ListItem({ item, onTick, onRemove }: ListItemProps) {
  const { say } = useTexts();
  return (
    <li data-done={item.done || undefined}>
      <label>
        <input type="checkbox" checked={item.done} onChange={(event) => onTick(event.currentTarget.checked)} />
        <span dir="auto">{marked(item.text, PROSE)}</span>
      </label>
      <IconButton icon="close" name={say("removeItem", { name: item.text })} onClick={onRemove} />
    </li>
  );
}

function NewItem({ onAdd }: { onAdd: (text: string) => void }) {
  const { say } = useTexts();
  const [text, setText] = useState("");
  const add = (event: Event) => {
    event.preventDefault();
    if (text.trim() === "") return;
    onAdd(text.trim());
    setText("");
  };
  return (
    <form class="agui-list-new" onSubmit={add}>
      <Icon name="plus" />
      <input
        type="text"
        aria-label={say("addItem")}
        placeholder={say("addItem")}
        maxLength={500}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
    </form>
  );
}

/** An item is a text, or an object that has one: what a tool's author likes. */
function itemOf(value: JsonValue): Item {
  if (!isObject(value)) return { text: typeof value === "string" ? value : JSON.stringify(value), done: false };
  const text = value.text ?? value.title ?? value.name ?? value.item;
  return { text: typeof text === "string" ? text : JSON.stringify(value), done: value.done === true };
}

function withDone(value: JsonValue, done: boolean): JsonValue {
  return isObject(value) ? { ...value, done } : { text: itemOf(value).text, done };
}

/** True for a moment after `value` changed. */
function useFlash(value: number): boolean {
  const [flash, setFlash] = useState(false);
  const before = useRef(value);
  useEffect(() => {
    if (before.current === value) return;
    before.current = value;
    setFlash(true);
    const timer = setTimeout(setFlash, FLASH_MS, false);
    return () => clearTimeout(timer);
  }, [value]);
  return flash;
}
