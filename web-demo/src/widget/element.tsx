/**
 * <agui-chat>: the chat as an element of any page, and what the page's scripts can do with it.
 *
 * Below: the widget, its shell. Everything is in an open shadow root, styled by constructed style sheets, so the page's
 * styles and the widget's never meet, and a strict Content-Security-Policy of the page has nothing to forbid.
 */
import { render } from "preact";
import type { FrontendTool, JsonValue } from "../chat/contract";
import type { TextChanges } from "../chat/texts";
import type { WireContext } from "../wire/ag_ui";
import { ChatWidget } from "./chat_widget";
import { tellHost } from "./host_events";
import { ATTRIBUTES, readSettings, type Settings } from "./settings";
import { Shell } from "./shell";
import { styleSheets } from "./styles";

/** A frontend tool as a page registers it: what is left out is plain. */
export type HostTool = Pick<FrontendTool, "name" | "handler"> & Partial<FrontendTool>;

/** What the page says of itself; values that are no texts are told as JSON. */
export type HostContext = readonly { readonly description: string; readonly value: JsonValue }[];

/** The attributes that say whose chat it is: another one, and it is another chat. */
const IDENTITY = ["agent", "key", "gateway"];
/** What a page may set before the element is defined. */
const EARLY = ["context", "state", "texts", "suggestions"] as const;

export class AguiChatElement extends HTMLElement {
  static readonly observedAttributes = [...ATTRIBUTES];
  /** Where a gateway is looked for by an element that names none: where this widget came from. */
  static gateway = "";

  readonly #tools = new Map<string, FrontendTool>();
  #widget: ChatWidget | undefined;
  #context: HostContext | (() => HostContext) = [];
  #texts: TextChanges = {};
  #suggestions: readonly string[] | undefined;
  #state: JsonValue | undefined;
  #isStale = false;

  // --- what a page does with it

  /** Let the agent call a function of this page. A tool of the same name is replaced. */
  registerTool(tool: HostTool): void {
    if (!tool?.name || typeof tool.handler !== "function") {
      throw new TypeError("registerTool needs { name, description, parameters, handler }; name or handler is missing");
    }
    this.#tools.set(tool.name, { description: "", parameters: { type: "object", properties: {} }, ...tool });
    this.#widget?.setTools([...this.#tools.values()]);
  }

  /** Whether there was one of that name. */
  unregisterTool(name: string): boolean {
    const was = this.#tools.delete(name);
    this.#widget?.setTools([...this.#tools.values()]);
    return was;
  }

  /** What the agent is told of the page with every run; a function is asked each time. */
  get context(): HostContext | (() => HostContext) {
    return this.#context;
  }

  set context(context: HostContext | (() => HostContext)) {
    this.#context = context;
  }

  /** The state that page and agent share; undefined where nobody said anything. */
  get state(): JsonValue | undefined {
    return this.#widget?.state ?? this.#state;
  }

  set state(state: JsonValue) {
    this.#state = state;
    this.#widget?.setState(state);
  }

  /** Texts that this page says differently, by key. */
  get texts(): TextChanges {
    return this.#texts;
  }

  set texts(texts: TextChanges) {
    this.#texts = texts;
    this.#applySettings();
  }

  /** First messages that a person need not write. */
  get suggestions(): readonly string[] {
    return this.#suggestions ?? this.#settings().suggestions;
  }

  set suggestions(suggestions: readonly string[]) {
    this.#suggestions = suggestions;
    this.#applySettings();
  }

  get isOpen(): boolean {
    return this.#widget?.isOpen.peek() ?? false;
  }

  get unread(): number {
    return this.#widget?.unread.peek() ?? 0;
  }

  get threadId(): string {
    return this.#widget?.threadId ?? "";
  }

  /** Open the panel. */
  open(): void {
    this.#widget?.open();
  }

  close(): void {
    this.#widget?.close();
  }

  toggle(): void {
    if (this.isOpen) this.close();
    else this.open();
  }

  /** Say something in the person's name; resolves when it is answered. */
  async send(text: string): Promise<void> {
    await this.#widget?.send(text);
  }

  /** Stop the answer where it is. */
  stop(): void {
    this.#widget?.conversation.stop();
  }

  async newThread(): Promise<void> {
    await this.#widget?.newThread();
  }

  async openThread(threadId: string): Promise<void> {
    await this.#widget?.openThread(threadId);
  }

  // --- what the browser does with it

  connectedCallback(): void {
    for (const name of EARLY) this.#takeEarly(name);
    if (this.#widget) return; // it was only moved
    const root = this.shadowRoot ?? this.attachShadow({ mode: "open" });
    root.adoptedStyleSheets = styleSheets();
    this.#begin();
    tellHost(this, "ready", {});
  }

  disconnectedCallback(): void {
    queueMicrotask(() => {
      if (this.isConnected) return;
      this.#end();
    });
  }

  attributeChangedCallback(name: string, before: string | null, after: string | null): void {
    if (before === after || !this.#widget) return;
    if (name === "open") {
      if (after === null) this.close();
      else this.open();
    } else if (IDENTITY.includes(name)) {
      this.#beginAnew();
    } else {
      this.#applySettings();
    }
  }

  // --- inside

  #begin(): void {
    const settings = this.#settings();
    const widget = new ChatWidget(settings, {
      id: this.id,
      context: () => told(this.#context),
      tell: (name, detail) => {
        if (name === "open" || name === "close") this.toggleAttribute("open", name === "open");
        tellHost(this, name, detail);
      },
    });
    this.#widget = widget;
    widget.setTools([...this.#tools.values()]);
    if (this.#state !== undefined) widget.setState(this.#state);
    if (this.hasAttribute("open") && !widget.wasClosed) widget.open();
    this.toggleAttribute("open", widget.isOpen.peek());
    if (this.shadowRoot) render(<Shell widget={widget} />, this.shadowRoot);
  }

  #end(): void {
    this.#widget?.dispose();
    this.#widget = undefined;
    if (this.shadowRoot) render(null, this.shadowRoot);
  }

  /** Once, however many attributes change together. */
  #beginAnew(): void {
    if (this.#isStale) return;
    this.#isStale = true;
    queueMicrotask(() => {
      this.#isStale = false;
      if (!this.#widget) return;
      this.#end();
      this.#begin();
    });
  }

  #settings(): Settings {
    const settings = readSettings(this, AguiChatElement.gateway);
    const texts = { ...settings.texts, ...this.#texts };
    return { ...settings, texts, suggestions: this.#suggestions ?? settings.suggestions };
  }

  #applySettings(): void {
    if (this.#widget) this.#widget.settings.value = this.#settings();
  }

  /** A property that was set on the plain element, before this class was there, hides the real one. */
  #takeEarly(name: (typeof EARLY)[number]): void {
    if (!Object.hasOwn(this, name)) return;
    const value = this[name];
    delete (this as Partial<Record<typeof name, unknown>>)[name];
    Object.assign(this, { [name]: value });
  }
}

function told(context: HostContext | (() => HostContext)): WireContext[] {
  const items = typeof context === "function" ? context() : context;
  return items.map(({ description, value }) => ({
    description,
    value: typeof value === "string" ? value : JSON.stringify(value),
  }));
}
