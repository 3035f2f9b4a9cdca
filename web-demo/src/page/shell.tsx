/** The page around the chat: conversations on one side, the page's own form on the other. */
import { useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { Problem } from "../chat/contract";
import { PROSE, spelledOut } from "../chat/unseen";
import { Chat } from "../view/chat";
import { Icon } from "../view/icons";
import { useTexts } from "../view/texts";
import { BookingForm } from "./booking";
import { Questions } from "./dialogs";
import { PageIcon } from "./icons";
import { KeyDialog } from "./key_dialog";
import { closePanel, narrow, panel, showPanel, sidebar } from "./layout";
import { demonstrationPrompts } from "./prompts";
import { RealModel } from "./real_model";
import type { Session } from "./session";
import { Sidebar } from "./sidebar";
import { pageTools } from "./tools";

export function Shell({ session }: { session: Session }) {
  const explaining = useSignal(false);
  const over = narrow.value && (sidebar.value || panel.value);
  useSignalEffect(() => {
    const id = session.conversation.value?.threadId.value;
    const title = session.threads.threads.value.find((thread) => thread.id === id)?.title;
    document.title = title ? `${spelledOut(title, PROSE)} – agui-gateway` : "agui-gateway";
  });
  useEffect(() => {
    const close = (event: KeyboardEvent) => {
      if (event.key === "Escape" && !event.defaultPrevented) closeSides();
    };
    document.addEventListener("keydown", close);
    return () => document.removeEventListener("keydown", close);
  }, []);
  return (
    <div class="agui page" data-sidebar={sidebar.value || undefined} data-panel={panel.value || undefined}>
      <Sidebar session={session} />
      {over && <div class="page-veil" aria-hidden="true" onClick={closeSides} />}
      <main class="page-main" inert={over}>
        <Header
          session={session}
          onExplain={() => {
            explaining.value = true;
          }}
        />
        <Talk
          session={session}
          onExplain={() => {
            explaining.value = true;
          }}
        />
      </main>
      {session.isDemonstration.value && <Panel />}
      <Questions />
      <KeyDialog session={session} />
      {explaining.value && (
        <RealModel
          onClose={() => {
            explaining.value = false;
          }}
        />
      )}
    </div>
  );
}

function closeSides(): void {
  if (!narrow.peek()) return;
  sidebar.value = false;
  panel.value = false;
}

interface PartProps {
  readonly session: Session;
  readonly onExplain: () => void;
}

function Header({ session, onExplain }: PartProps) {
  const { say } = useTexts();
  return (
    <header class="page-header">
      <h1 class="agui-hidden">agui-gateway</h1>
      {!sidebar.value && (
        <>
          <button
            type="button"
            class="agui-icon-button"
            aria-label={say("showThreads")}
            title={say("showThreads")}
            aria-expanded={false}
            onClick={() => {
              sidebar.value = true;
            }}
          >
            <PageIcon name={narrow.value ? "menu" : "side"} />
          </button>
          <button
            type="button"
            class="agui-icon-button"
            aria-label={say("newConversation")}
            title={say("newConversation")}
            onClick={() => session.newThread()}
          >
            <Icon name="edit" />
          </button>
        </>
      )}
      <AgentChooser session={session} />
      <span class="agui-space" />
      {session.isDemonstration.value && (
        <button type="button" class="page-demo" onClick={onExplain}>
          {say("demo")}
          <span class="page-demo-more">{say("demoMore")}</span>
        </button>
      )}
      {session.isDemonstration.value && (
        <button
          type="button"
          class="agui-icon-button"
          aria-label={say("form")}
          title={say("form")}
          aria-expanded={panel.value}
          onClick={() => (panel.value ? closePanel() : showPanel())}
        >
          <PageIcon name="panel" />
        </button>
      )}
    </header>
  );
}

function AgentChooser({ session }: { session: Session }) {
  const { say } = useTexts();
  const agents = session.agents.value;
  const agent = session.agent.value;
  if (agents.length < 2) return <span class="page-agent">{agent?.name ?? ""}</span>;
  return (
    <select
      class="page-agent"
      aria-label={say("agent")}
      value={agent?.id}
      onChange={(event) => session.chooseAgent(event.currentTarget.value)}
    >
      {agents.map((each) => (
        <option key={each.id} value={each.id}>
          {each.name}
        </option>
      ))}
    </select>
  );
}

function Talk({ session, onExplain }: PartProps) {
  const { say, problem } = useTexts();
  const isFirst = useRef(true);
  const conversation = session.conversation.value;
  const agent = session.agent.value;
  useEffect(() => {
    // Who chooses another agent stays at the choice. This is of what was rendered: an effect may run as late as just
    // before the next rendering, when there is an agent already that nobody has seen.
    if (agent !== undefined) isFirst.current = false;
  });
  const demonstration = session.isDemonstration.value;
  if (conversation === undefined || agent === undefined) {
    const trouble = session.problem.value;
    const key = trouble?.code === "unauthenticated";
    return (
      <div class="page-trouble">
        {trouble === undefined && session.isEmpty.value && (
          <>
            <p role="status">{say("noAgents")}</p>
            <button type="button" class="agui-button agui-primary" onClick={() => void session.start()}>
              {say("retry")}
            </button>
          </>
        )}
        {trouble !== undefined && (
          <>
            <p role="alert">{key ? say("keyNeeded") : problem(trouble)}</p>
            <button
              type="button"
              class="agui-button agui-primary"
              onClick={() => (key ? session.askForKey() : void session.start())}
            >
              {say(key ? "keyEnter" : "retry")}
            </button>
          </>
        )}
      </div>
    );
  }
  const isOrphan = conversation.threadId.value === session.orphan.value;
  const note = isOrphan ? (
    <p role="status">{say("agentGone", { agent: agent.name })}</p>
  ) : demonstration ? (
    <>
      {say("demoNote")}{" "}
      <button type="button" class="page-link" onClick={onExplain}>
        {say("demoLink")}
      </button>
    </>
  ) : undefined;
  const greeting = (
    <div class="page-greeting">
      <p class="agui-greeting">{say("welcome")}</p>
      {agent.description && <p dir="auto">{agent.description}</p>}
    </div>
  );
  return (
    <Chat
      key={agent.id}
      conversation={conversation}
      tools={demonstration ? pageTools : []}
      prompts={demonstration ? demonstrationPrompts(say) : []}
      greeting={greeting}
      note={note}
      autofocus={isFirst.current && !narrow.peek()}
      onKey={() => session.askForKey()}
      explain={(trouble) => causes(trouble, problem(trouble))}
    />
  );
}

/** What went wrong, as the server tells it to who may know, behind what is `said` of it in any case. */
function causes({ code, message }: Problem, said: string) {
  if (!message) return undefined;
  return (
    <p class="agui-hint" dir="ltr">
      {message === said ? code : `${code}: ${message}`}
    </p>
  );
}

/** What the page has besides the chat. */
function Panel() {
  const closer = useRef<HTMLButtonElement>(null);
  const { say } = useTexts();
  const over = narrow.value && panel.value;
  useLayoutEffect(() => {
    if (over) closer.current?.focus();
  }, [over]);
  return (
    <aside class="page-panel" aria-label={say("form")} hidden={!panel.value}>
      <button
        type="button"
        class="agui-icon-button page-panel-close"
        ref={closer}
        aria-label={say("dismiss")}
        onClick={closePanel}
      >
        <Icon name="close" />
      </button>
      <BookingForm />
    </aside>
  );
}
