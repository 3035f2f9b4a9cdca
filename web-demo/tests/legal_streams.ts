/** Streams that AG-UI 1.0 allows, made at random and the same for the same seed. */
import type { WireEvent } from "../src/wire/ag_ui";

/** A small generator of numbers from 0 to below 1 (mulberry32). */
export function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const WORDS = [
  "hello ",
  "",
  "Straße ",
  "日本語",
  "👩‍👩‍👧 ",
  "\r\n",
  "\u2028",
  '"quoted" ',
  "שלום ",
  "a/b~c ",
  "data: x\n\n",
];

export class LegalStream {
  readonly events: WireEvent[] = [];
  readonly #random: () => number;
  #count = 0;
  #texts: string[] = [];
  #calls: string[] = [];
  #reasonings: string[] = [];
  #steps: string[] = [];
  #messageIds: string[] = ["user-1"];
  #callIds: string[] = [];
  #activities: string[] = [];
  /** Whether the last message is being put together from chunks, and of which kind. */
  #chunk: { type: string; member: string; id: string } | undefined;

  constructor(seed: number, runs = 2, steps = 60) {
    this.#random = randomNumbers(seed);
    for (let run = 0; run < runs; run++) this.#run(steps);
  }

  #run(steps: number): void {
    this.#put({
      type: "RUN_STARTED",
      threadId: "thread",
      runId: `run-${++this.#count}`,
      ...this.#maybe({ input: this.#input() }),
    });
    for (let step = 0; step < steps; step++) this.#step();
    if (this.#random() < 0.2) {
      this.#put({ type: "RUN_ERROR", message: "broken", code: "model_server" });
      [this.#texts, this.#calls, this.#reasonings, this.#steps, this.#chunk] = [[], [], [], [], undefined];
      return;
    }
    while (this.#texts.length) this.#closeText();
    while (this.#calls.length) this.#closeCall();
    while (this.#reasonings.length) this.#closeReasoning();
    while (this.#steps.length) this.#put({ type: "STEP_FINISHED", stepName: this.#steps.pop() });
    const outcomes = [
      {},
      { outcome: { type: "success" } },
      { outcome: { type: "success", pendingToolCallIds: this.#callIds.slice(-1) } },
      { outcome: { type: "cancelled" } },
      { outcome: { type: "interrupt", interrupts: [{ id: this.#id("int"), reason: "tool_call" }] } },
    ];
    this.#put({ type: "RUN_FINISHED", threadId: "thread", runId: "run", ...this.#one(outcomes) });
    if (this.#random() < 0.1) this.#put({ type: "RUN_ERROR", message: "late" });
  }

  #step(): void {
    const makers = [
      () => this.#openText(),
      () => this.#say(),
      () => this.#say(),
      () => this.#closeText(),
      () => this.#openCall(),
      () => this.#argue(),
      () => this.#closeCall(),
      () => this.#answer(),
      () => this.#openReasoning(),
      () => this.#think(),
      () => this.#closeReasoning(),
      () => this.#seal(),
      () => this.#state(),
      () => this.#change(),
      () => this.#activity(),
      () => this.#changeActivity(),
      () => this.#chunked(),
      () => this.#chunked(),
      () => this.#beside(),
      () => this.#snapshot(),
      () => this.#stage(),
    ];
    this.#one(makers)();
  }

  #openText(): void {
    // now and then one that is there already: a call's message, an answer that goes on, another kind of message
    const again = this.#messageIds.filter((id) => !this.#texts.includes(id));
    const id = this.#random() < 0.3 && again.length ? this.#one(again) : this.#id("m");
    this.#texts.push(id);
    this.#known(id);
    this.#put({
      type: "TEXT_MESSAGE_START",
      messageId: id,
      ...this.#maybe({ role: this.#one(["assistant", "user", "system", "developer"]) }),
      ...this.#maybe({ name: "Ann" }),
      ...this.#note(),
    });
  }

  #say(): void {
    if (this.#texts.length) {
      this.#put({
        type: "TEXT_MESSAGE_CONTENT",
        messageId: this.#one(this.#texts),
        delta: this.#one(WORDS),
        ...this.#note(),
      });
    }
  }

  #closeText(): void {
    const id = this.#texts.shift();
    if (id) this.#put({ type: "TEXT_MESSAGE_END", messageId: id, ...this.#note() });
  }

  #openCall(): void {
    const again = this.#callIds.filter((id) => !this.#calls.includes(id));
    const id = this.#random() < 0.15 && again.length ? this.#one(again) : this.#id("call");
    if (!this.#callIds.includes(id)) this.#callIds.push(id);
    this.#calls.push(id);
    const parent = this.#random() < 0.6 ? this.#one(this.#messageIds) : this.#id("parent");
    const named = this.#random() < 0.8;
    this.#put({
      type: "TOOL_CALL_START",
      toolCallId: id,
      toolCallName: this.#one(["search", "add"]),
      ...(named ? { parentMessageId: parent } : {}),
      ...this.#note(),
    });
    this.#known(named ? parent : id);
  }

  #argue(): void {
    if (this.#calls.length) {
      this.#put({
        type: "TOOL_CALL_ARGS",
        toolCallId: this.#one(this.#calls),
        delta: this.#one(['{"a":', " 1}", "", "é"]),
        ...this.#note(),
      });
    }
  }

  #closeCall(): void {
    const id = this.#calls.shift();
    if (id) this.#put({ type: "TOOL_CALL_END", toolCallId: id, ...this.#note() });
  }

  #answer(): void {
    const toolCallId = this.#random() < 0.8 && this.#callIds.length ? this.#one(this.#callIds) : "call-of-nobody";
    const messageId = this.#id("result");
    this.#put({
      type: "TOOL_CALL_RESULT",
      messageId,
      toolCallId,
      content: this.#one<WireEvent["content"]>(["fine", "", [{ type: "text", text: "a part" }]]),
      ...this.#maybe({ role: "tool" }),
      ...this.#note(),
    });
    this.#known(messageId);
  }

  #openReasoning(): void {
    const id = this.#id("r");
    this.#reasonings.push(id);
    this.#known(id);
    this.#put({ type: "REASONING_START", messageId: id });
    this.#put({ type: "REASONING_MESSAGE_START", messageId: id, role: "reasoning", ...this.#note() });
  }

  #think(): void {
    if (this.#reasonings.length) {
      this.#put({
        type: "REASONING_MESSAGE_CONTENT",
        messageId: this.#one(this.#reasonings),
        delta: this.#one(WORDS),
        ...this.#note(),
      });
    }
  }

  #closeReasoning(): void {
    const id = this.#reasonings.pop();
    if (!id) return;
    this.#put({ type: "REASONING_MESSAGE_END", messageId: id, ...this.#note() });
    this.#put({ type: "REASONING_END", messageId: id });
  }

  #seal(): void {
    const subtype = this.#one(["message", "tool-call"]);
    const entityId = this.#one(subtype === "message" ? this.#messageIds : ["nobody", ...this.#callIds]);
    this.#put({ type: "REASONING_ENCRYPTED_VALUE", subtype, entityId, encryptedValue: this.#id("sealed") });
  }

  #state(): void {
    this.#put({
      type: "STATE_SNAPSHOT",
      snapshot: this.#one<WireEvent["snapshot"]>([
        { list: ["milk"], "a/b": { "~": 1 } },
        { list: [] },
        null,
        [1],
        "text",
        0,
      ]),
    });
  }

  #change(): void {
    const delta = this.#one<WireEvent["delta"]>([
      [{ op: "add", path: "/list/-", value: "eggs" }],
      [
        { op: "replace", path: "/list", value: [] },
        { op: "add", path: "/new", value: { deep: [1] } },
      ],
      [{ op: "remove", path: "/list/0" }],
      [{ op: "replace", path: "/a~1b/~0", value: 2 }],
      [
        { op: "add", path: "/x", value: 1 },
        { op: "test", path: "/x", value: 2 },
      ],
      [
        { op: "copy", from: "/list", path: "/copied" },
        { op: "move", from: "/copied", path: "/moved" },
      ],
      [{ op: "add", path: "", value: { whole: true } }],
    ]);
    this.#put({ type: "STATE_DELTA", delta });
  }

  #activity(): void {
    const again = this.#random() < 0.5 && this.#activities.length > 0;
    const messageId =
      this.#random() < 0.1 ? this.#one(this.#messageIds) : again ? this.#one(this.#activities) : this.#id("activity");
    this.#known(messageId);
    if (!this.#activities.includes(messageId)) this.#activities.push(messageId);
    this.#put({
      type: "ACTIVITY_SNAPSHOT",
      messageId,
      activityType: this.#one(["plan", "search"]),
      content: { steps: [this.#one(WORDS)] },
      ...this.#maybe({ replace: this.#random() < 0.5 }),
      ...this.#note(),
    });
  }

  #changeActivity(): void {
    const messageId = this.#one([...this.#activities, this.#one(this.#messageIds)]);
    const patch = this.#one<WireEvent["patch"]>([
      [{ op: "add", path: "/steps/-", value: "next" }],
      [{ op: "replace", path: "/nowhere/at/all", value: 1 }],
      [],
    ]);
    this.#put({ type: "ACTIVITY_DELTA", messageId, activityType: "plan", patch, ...this.#note() });
  }

  #chunked(): void {
    if (this.#chunk && this.#random() < 0.6) {
      const { type, member, id } = this.#chunk;
      this.#put({
        type,
        ...this.#maybe({ [member]: id }),
        ...this.#maybe({ delta: this.#one(WORDS) }),
        ...this.#note(),
      });
      return;
    }
    const kind = this.#one(["TEXT_MESSAGE_CHUNK", "TOOL_CALL_CHUNK", "REASONING_MESSAGE_CHUNK"]);
    const member = kind === "TOOL_CALL_CHUNK" ? "toolCallId" : "messageId";
    const id = this.#id("chunked");
    const more =
      kind === "TOOL_CALL_CHUNK"
        ? { toolCallName: "add", ...this.#maybe({ parentMessageId: this.#one(this.#messageIds) }) }
        : {};
    this.#put({ type: kind, [member]: id, ...more, ...this.#maybe({ delta: this.#one(WORDS) }), ...this.#note() });
    this.#chunk = { type: kind, member, id };
    if (kind === "TOOL_CALL_CHUNK") this.#callIds.push(id);
    this.#known(id);
  }

  #beside(): void {
    this.#put(
      this.#one<WireEvent>([
        { type: "CUSTOM", name: "anything", value: null },
        { type: "RAW", event: { provider: "x" } },
        { type: "BRAND_NEW_EVENT", messageId: "unknown" },
      ]),
    );
  }

  #snapshot(): void {
    if (this.#random() < 0.6) return;
    const kept = this.#messageIds.filter(() => this.#random() < 0.7);
    const messages = kept.map((id) =>
      this.#one<{ [member: string]: WireEvent["content"] }>([
        { id, role: "assistant", content: "as the server has it" },
        {
          id,
          role: "assistant",
          toolCalls: [{ id: `of-${id}`, type: "function", function: { name: "add", arguments: "{}" } }],
        },
        { id, role: "user", content: "asked" },
        { id, role: "reasoning", content: "thought" },
        { id, role: "activity", activityType: "plan", content: {} },
        { id, role: "wizard", content: "of a kind that nobody knows" },
      ]),
    );
    const plain =
      this.#random() < 0.5 ? messages.filter(({ role }) => role !== "activity" && role !== "reasoning") : messages;
    const scope = this.#one([
      {},
      { metadata: { "@ag-ui/client": { authoritativeActivityTypes: this.#one([null, ["plan"], [], "wrong"]) } } },
    ]);
    this.#put({ type: "MESSAGES_SNAPSHOT", messages: plain, ...scope } as WireEvent);
  }

  #stage(): void {
    const open = this.#steps.pop();
    if (!open) this.#steps.push(this.#id("step"));
    this.#put(open ? { type: "STEP_FINISHED", stepName: open } : { type: "STEP_STARTED", stepName: this.#steps[0] });
  }

  #input() {
    const ids = [this.#id("earlier"), this.#one(this.#messageIds)];
    for (const id of ids) this.#known(id);
    return {
      threadId: "thread",
      runId: "run",
      state: {},
      tools: [],
      context: [],
      forwardedProps: {},
      messages: ids.map((id) => ({ id, role: "user", content: "earlier" })),
    };
  }

  #note() {
    return this.#random() < 0.15 ? { metadata: { [this.#one(["model", "usage"])]: { count: this.#count } } } : {};
  }

  #put(event: WireEvent): void {
    // what is not beside the stream closes what was being put together from chunks
    if (!/CHUNK|^RAW|^ACTIVITY|ENCRYPTED|BRAND_NEW/.test(event.type)) this.#chunk = undefined;
    this.events.push(event);
  }

  #known(id: string): void {
    if (!this.#messageIds.includes(id)) this.#messageIds.push(id);
  }

  #id(prefix: string): string {
    return `${prefix}-${++this.#count}`;
  }

  #maybe<T>(members: T): T | object {
    return this.#random() < 0.5 ? members : {};
  }

  #one<T>(things: readonly T[]): T {
    return things[Math.floor(this.#random() * things.length)] as T;
  }
}
