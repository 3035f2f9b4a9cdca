/**
 * A chat: the conversation, what the person can say, and how it goes. The same in a page and in a widget.
 *
 * Below: the parts of this folder. It looks at nothing outside of itself, and its styles (chat.css) apply in a document
 * and in a shadow root alike. Words come from the `TextsContext` around it.
 */
import { type ReadonlySignal, useComputed } from "@preact/signals";
import type { ComponentChildren, RefObject } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Attachment, Conversation, FrontendTool } from "../chat/contract";
import { Announcer } from "./announcer";
import { UPLOADS, type UploadLimits } from "./attachments";
import { ConnectionLine, ProblemBanner, type ProblemExtras } from "./banners";
import { ChatContext, useChat } from "./chat_context";
import { Composer, useDraft } from "./composer";
import { hasTouchKeyboard } from "./focus";
import { Icon } from "./icons";
import { type Following, useFollowing } from "./scrolling";
import { SharedList } from "./shared_list";
import { useTexts } from "./texts";
import { Transcript } from "./transcript";

/** A first message that the person need not write. */
export interface Prompt {
  readonly text: string;
  /** What it shows, in a word or two. */
  readonly title?: string;
  readonly icon?: ComponentChildren;
}

export interface ChatProps extends ProblemExtras {
  readonly conversation: Conversation;
  /** The tools whose calls may draw themselves. */
  readonly tools?: readonly FrontendTool[];
  readonly prompts?: readonly Prompt[];
  /** What is said before anything is said. */
  readonly greeting?: ComponentChildren;
  /** False: no files. */
  readonly uploads?: UploadLimits | false;
  /** Shown below the composer. */
  readonly note?: ComponentChildren;
  /** False: what an answer cost is not told. */
  readonly usage?: boolean;
  readonly disabled?: boolean;
  readonly autofocus?: boolean;
}

const NO_TOOLS: readonly FrontendTool[] = [];
const NO_PROMPTS: readonly Prompt[] = [];

export function Chat(props: ChatProps) {
  const { conversation, tools = NO_TOOLS, uploads = UPLOADS } = props;
  const { language, direction, say } = useTexts();
  const isEmpty = useComputed(() => conversation.entries.value.length === 0 && conversation.phase.value !== "loading");
  const following = useFollowing(isEmpty);
  const area = useRef<HTMLTextAreaElement>(null);
  const takeFiles = useRef<(files: readonly File[]) => void>(() => {});
  const drop = useFileDrop(uploads !== false, takeFiles);
  const tellsUsage = props.usage ?? true;
  const parts = useMemo(() => ({ conversation, tools, tellsUsage }), [conversation, tools, tellsUsage]);
  const thread = conversation.threadId.value;

  // Another thread is shown from its end.
  useLayoutEffect(() => following.toEnd(), [thread]);
  useLayoutEffect(() => {
    if (props.autofocus) area.current?.focus({ preventScroll: true });
  }, [props.autofocus]);

  const send = (text: string, attachments: readonly Attachment[] = []) => {
    following.toEnd();
    void conversation.send(text, attachments);
    if (!hasTouchKeyboard()) area.current?.focus({ preventScroll: true });
  };
  return (
    <ChatContext.Provider value={parts}>
      {/* biome-ignore lint/a11y/noStaticElementInteractions: files are dropped anywhere; a button does the same */}
      <div
        class="agui"
        part="chat"
        lang={language}
        dir={direction}
        onDragOver={drop.onDragOver}
        onDragLeave={drop.onDragLeave}
        onDrop={drop.onDrop}
      >
        <View
          prompts={props.prompts ?? NO_PROMPTS}
          greeting={props.greeting}
          following={following}
          isEmpty={isEmpty}
          onPrompt={send}
        />
        <div class="agui-dock">
          <div class="agui-column">
            <ConnectionLine />
            <Problems {...props} />
            <SharedList />
            <Dock
              limits={uploads === false ? undefined : uploads}
              disabled={props.disabled ?? false}
              area={area}
              takeFiles={takeFiles}
              onSend={send}
            />
            {props.note !== undefined && <div class="agui-note">{props.note}</div>}
          </div>
        </div>
        {drop.isOver && (
          <div class="agui-drop">
            <Icon name="attach" />
            {say("dropHere")}
          </div>
        )}
        <Announcer />
      </div>
    </ChatContext.Provider>
  );
}

/** Files that are dropped anywhere on the chat. */
function useFileDrop(allowed: boolean, take: RefObject<(files: readonly File[]) => void>) {
  const [isOver, setOver] = useState(false);
  return {
    isOver,
    onDragOver(event: DragEvent) {
      if (!allowed || !event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      setOver(true);
    },
    onDragLeave(event: DragEvent) {
      if (!(event.currentTarget as Element).contains(event.relatedTarget as Node | null)) setOver(false);
    },
    onDrop(event: DragEvent) {
      setOver(false);
      if (!allowed || !event.dataTransfer?.files.length) return;
      event.preventDefault();
      take.current?.([...event.dataTransfer.files]);
    },
  };
}

interface ViewProps {
  readonly prompts: readonly Prompt[];
  readonly greeting: ComponentChildren;
  readonly following: Following;
  readonly isEmpty: ReadonlySignal<boolean>;
  readonly onPrompt: (text: string) => void;
}

function View({ prompts, greeting, following, isEmpty, onPrompt }: ViewProps) {
  const { say } = useTexts();
  const { conversation } = useChat();
  const phase = conversation.phase.value;
  return (
    <div class="agui-stage">
      <div
        class="agui-view"
        part="transcript"
        role="log"
        aria-live="off"
        aria-label={say("conversation")}
        aria-busy={phase !== "idle"}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached without a mouse
        tabIndex={0}
        ref={following.view}
      >
        <div class="agui-column agui-content" ref={following.content}>
          <h2 class="agui-hidden">{say("conversation")}</h2>
          {isEmpty.value ? (
            <Start prompts={prompts} greeting={greeting} onPrompt={onPrompt} />
          ) : (
            <Transcript view={following.view} />
          )}
        </div>
      </div>
      <ToEnd following={following} />
    </div>
  );
}

function Start({ prompts, greeting, onPrompt }: Pick<ViewProps, "prompts" | "greeting" | "onPrompt">) {
  const { say } = useTexts();
  return (
    <div class="agui-start">
      {greeting ?? <p class="agui-greeting">{say("welcome")}</p>}
      {prompts.length > 0 && (
        <ul class="agui-prompts" aria-label={say("suggestions")}>
          {prompts.map((prompt) => (
            <li key={prompt.text}>
              <button type="button" part="prompt" onClick={() => onPrompt(prompt.text)}>
                {prompt.icon}
                <span>
                  {prompt.title !== undefined && <strong>{prompt.title}</strong>}
                  <span dir="auto">{prompt.text}</span>
                </span>
              </button>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

interface DockProps {
  readonly limits: UploadLimits | undefined;
  readonly disabled: boolean;
  readonly area: RefObject<HTMLTextAreaElement | null>;
  readonly takeFiles: RefObject<(files: readonly File[]) => void>;
  readonly onSend: (text: string, attachments: readonly Attachment[]) => void;
}

/** The draft lives here, so that a key pressed changes nothing else. */
function Dock({ limits, disabled, area, takeFiles, onSend }: DockProps) {
  const draft = useDraft(limits);
  takeFiles.current = draft.add;
  const [waits, setWaits] = useState(false);
  const send = () => {
    if (draft.reading) return setWaits(true);
    onSend(draft.text.trim(), draft.attachments);
    draft.clear();
  };
  // a message that was sent while its files were read goes once they are there, unless one of them is refused
  useLayoutEffect(() => {
    if (!waits || draft.reading) return;
    setWaits(false);
    if (!draft.refused) send();
  });
  return <Composer draft={draft} limits={limits} disabled={disabled} area={area} onSend={send} />;
}

function Problems({ onKey, explain }: ProblemExtras) {
  const { conversation } = useChat();
  const problem = conversation.problem.value;
  return problem === undefined ? null : <ProblemBanner problem={problem} onKey={onKey} explain={explain} />;
}

function ToEnd({ following }: { following: Following }) {
  const { say } = useTexts();
  if (!following.away.value) return null;
  return (
    <button
      type="button"
      class="agui-to-end"
      aria-label={say("toLatest")}
      title={say("toLatest")}
      onClick={() => following.toEnd(true)}
    >
      <Icon name="down" />
    </button>
  );
}
