/**
 * The bubble in the corner and the panel that it opens, around the same chat as the page's.
 *
 * Below: the widget, the views. On a desktop the panel is a dialog beside the page, which stays in use; on a phone it is
 * a sheet over all of it that keeps the focus. `inline`, it is a part of the page.
 */
import { useSignal } from "@preact/signals";
import type { AriaAttributes, RefObject } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Chat } from "../view/chat";
import { hasTouchKeyboard } from "../view/focus";
import { Icon, type IconName } from "../view/icons";
import { TextsContext, useTexts } from "../view/texts";
import type { ChatWidget } from "./chat_widget";
import { THREADS_ID, Threads } from "./thread_list";

const PHONE = "(max-width: 30rem), (max-height: 28rem)";
const PANEL_ID = "panel";

export function Shell({ widget }: { widget: ChatWidget }) {
  const words = widget.words.value;
  const { theme, position, inline, direction } = widget.settings.value;
  return (
    <TextsContext.Provider value={words}>
      <div
        class="agui-shell"
        data-theme={theme}
        data-position={position}
        data-inline={inline || undefined}
        lang={words.language}
        dir={direction ?? words.direction}
      >
        {inline ? <Inline widget={widget} /> : <Bubble widget={widget} />}
      </div>
    </TextsContext.Provider>
  );
}

function Inline({ widget }: { widget: ChatWidget }) {
  const { say } = useTexts();
  const { heading } = widget.settings.value;
  return (
    <section class="agui-panel" part="panel" aria-label={heading ?? say("title")}>
      <Content widget={widget} />
    </section>
  );
}

function Bubble({ widget }: { widget: ChatWidget }) {
  const launcher = useRef<HTMLButtonElement>(null);
  return (
    <>
      <Launcher widget={widget} button={launcher} />
      <Panel widget={widget} onClosed={() => launcher.current?.focus({ preventScroll: true })} />
    </>
  );
}

function Launcher({ widget, button }: { widget: ChatWidget; button: RefObject<HTMLButtonElement | null> }) {
  const { say } = useTexts();
  const isOpen = widget.isOpen.value;
  const count = widget.unread.value;
  const name = say(isOpen ? "closeChat" : "openChat");
  const onClick = () => (isOpen ? widget.close() : widget.open());
  return (
    <button
      ref={button}
      type="button"
      class="agui-launcher"
      part="launcher"
      aria-expanded={isOpen}
      aria-controls={PANEL_ID}
      aria-label={count > 0 ? `${name}. ${say("unread", { count })}` : name}
      title={name}
      onClick={onClick}
    >
      <Icon name={isOpen ? "close" : "chat"} />
      {count > 0 && (
        <span class="agui-unread" part="badge" aria-hidden="true">
          {count > 9 ? "9+" : count}
        </span>
      )}
    </button>
  );
}

function Panel({ widget, onClosed }: { widget: ChatWidget; onClosed: () => void }) {
  const { say } = useTexts();
  const dialog = useRef<HTMLDialogElement>(null);
  const isPhone = useMedia(PHONE);
  const { heading } = widget.settings.value;
  // only what is opened by hand takes the focus; a panel that was open on the page before does not
  const wasOpen = useRef(widget.isOpen.peek());
  const isForWriting = useSignal(false);

  useLayoutEffect(() => {
    const panel = dialog.current;
    return widget.isOpen.subscribe((isOpen) => {
      if (!panel) return;
      const hadFocus = panel.matches(":focus-within");
      if (panel.open) panel.close();
      if (isOpen && isPhone) panel.showModal();
      else if (isOpen) panel.setAttribute("open", ""); // not show(): that takes the focus
      const isByHand = isOpen && !wasOpen.current;
      // on a phone not the field, since that would bring up the keyboard over the conversation
      if (isByHand && isPhone) panel.querySelector<HTMLElement>("header button:last-child")?.focus();
      isForWriting.value = isByHand && !isPhone;
      if (!isOpen && wasOpen.current && hadFocus) onClosed();
      wasOpen.current = isOpen;
    });
  }, [isPhone, widget]);
  useVisibleHeight(dialog, isPhone);

  const onKey = (event: KeyboardEvent) => {
    if (event.key !== "Escape" || event.defaultPrevented || event.isComposing) return;
    event.preventDefault();
    widget.close();
  };
  return (
    <dialog
      ref={dialog}
      id={PANEL_ID}
      class="agui-panel"
      part="panel"
      aria-label={heading ?? say("title")}
      data-phone={isPhone || undefined}
      onKeyDown={onKey}
      onCancel={(event) => {
        event.preventDefault();
        widget.close();
      }}
    >
      {/* without a name no landmark, but what is in it is none of the page's either */}
      <section class="agui-frame">
        <Content widget={widget} autofocus={isForWriting.value} onClose={() => widget.close()} />
      </section>
    </dialog>
  );
}

interface ContentProps {
  readonly widget: ChatWidget;
  readonly autofocus?: boolean;
  readonly onClose?: () => void;
}

function Content({ widget, autofocus = false, onClose }: ContentProps) {
  const { say } = useTexts();
  const { heading, greeting, suggestions, key, uploads } = widget.settings.value;
  const isEmpty = widget.conversation.entries.value.length === 0;
  const isListing = widget.isListing.value;
  const body = useRef<HTMLDivElement>(null);
  const wasListing = useRef(isListing);
  useLayoutEffect(() => {
    // who chose from the list, or left it, goes on writing; on a phone nobody asked for the keyboard
    if (wasListing.current && !isListing) {
      const next = body.current?.querySelector<HTMLElement>(hasTouchKeyboard() ? ".agui-view" : "textarea");
      next?.focus({ preventScroll: true });
    }
    wasListing.current = isListing;
  }, [isListing]);
  return (
    <>
      <header class="agui-header" part="header">
        <h2>{isListing ? say("threads") : (heading ?? say("title"))}</h2>
        <HeaderButton
          icon="history"
          name={say(isListing ? "hideThreads" : "showThreads")}
          aria-expanded={isListing}
          aria-controls={isListing ? THREADS_ID : undefined}
          onClick={() => widget.toggleThreads()}
        />
        <HeaderButton
          icon="plus"
          name={say("newConversation")}
          disabled={isEmpty && !isListing}
          onClick={() => widget.newThread()}
        />
        {onClose && <HeaderButton icon="close" name={say("closeChat")} onClick={onClose} />}
      </header>
      <div class="agui-body" ref={body}>
        {widget.wasOpened.value && (
          <div class="agui-frame" inert={isListing}>
            <Chat
              conversation={widget.conversation}
              tools={widget.tools.value}
              prompts={suggestions.map((text) => ({ text }))}
              greeting={greeting === undefined ? undefined : <p class="agui-greeting">{greeting}</p>}
              autofocus={autofocus}
              usage={key === undefined}
              {...(uploads ? {} : { uploads: false as const })}
            />
          </div>
        )}
        {isListing && <Threads widget={widget} />}
      </div>
    </>
  );
}

interface HeaderButtonProps extends AriaAttributes {
  readonly icon: IconName;
  readonly name: string;
  readonly disabled?: boolean;
  readonly onClick: () => void;
}

function HeaderButton({ icon, name, ...more }: HeaderButtonProps) {
  return (
    <button type="button" part="header-button" aria-label={name} title={name} {...more}>
      <Icon name={icon} />
    </button>
  );
}

function useMedia(query: string): boolean {
  const [matches, setMatches] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const media = matchMedia(query);
    const look = () => setMatches(media.matches);
    look();
    media.addEventListener("change", look);
    return () => media.removeEventListener("change", look);
  }, [query]);
  return matches;
}

/** A phone's keyboard covers a part of the page without making it smaller: the sheet keeps to what can be seen. */
function useVisibleHeight(panel: RefObject<HTMLElement | null>, isPhone: boolean): void {
  useEffect(() => {
    const { style } = panel.current ?? {};
    const view = window.visualViewport;
    if (!isPhone || !style || !view) return;
    const keepInView = () => {
      style.setProperty("--visible-height", `${view.height}px`);
      style.setProperty("--visible-top", `${view.offsetTop}px`);
    };
    keepInView();
    view.addEventListener("resize", keepInView);
    view.addEventListener("scroll", keepInView);
    return () => {
      view.removeEventListener("resize", keepInView);
      view.removeEventListener("scroll", keepInView);
      style.removeProperty("--visible-height");
      style.removeProperty("--visible-top");
    };
  }, [isPhone]);
}
