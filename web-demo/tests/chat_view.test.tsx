// @vitest-environment happy-dom
/** What the views make of a conversation; the conversation is played by hand, signal by signal. */
import { type Signal, signal } from "@preact/signals";
import { render } from "preact";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type {
  AnswerEntry,
  Approval,
  ApprovalChoice,
  CallEntry,
  Conversation,
  Entry,
  JsonValue,
  Phase,
  Problem,
  Usage,
} from "../src/chat/contract";
import { Chat, type ChatProps } from "../src/view/chat";

interface Played {
  readonly conversation: Conversation;
  readonly entries: Signal<readonly Entry[]>;
  readonly approvals: Signal<readonly Approval[]>;
  readonly phase: Signal<Phase>;
  readonly problem: Signal<Problem | undefined>;
  readonly retriesAt: Signal<Date | undefined>;
  readonly state: Signal<JsonValue | undefined>;
  /** What the person did, in order. */
  readonly done: unknown[];
}

function played(): Played {
  const done: unknown[] = [];
  const did =
    (name: string) =>
    (...given: unknown[]): Promise<void> => {
      done.push([name, ...given]);
      return Promise.resolve();
    };
  const entries = signal<readonly Entry[]>([]);
  const approvals = signal<readonly Approval[]>([]);
  const phase = signal<Phase>("idle");
  const problem = signal<Problem | undefined>(undefined);
  const retriesAt = signal<Date | undefined>(undefined);
  const state = signal<JsonValue | undefined>(undefined);
  const conversation: Conversation = {
    threadId: signal("thread"),
    entries,
    approvals,
    phase,
    problem,
    retriesAt,
    state,
    usage: signal<Usage | undefined>(undefined),
    send: did("send"),
    stop: did("stop"),
    regenerate: did("regenerate"),
    edit: did("edit"),
    retry: did("retry"),
    choose: did("choose"),
    setState: did("setState"),
    setTools: did("setTools"),
    setContext: did("setContext"),
    open: did("open"),
    dismissProblem: did("dismissProblem"),
    close: did("close"),
  };
  return { conversation, entries, approvals, phase, problem, retriesAt, state, done };
}

let root: HTMLElement;

beforeEach(() => {
  root = document.createElement("div");
  document.body.append(root);
});

afterEach(() => {
  render(null, root);
  root.remove();
  vi.useRealTimers();
});

function show(chat: Played, props: Partial<ChatProps> = {}): void {
  render(<Chat conversation={chat.conversation} {...props} />, root);
}

function one<Kind extends Element = HTMLElement>(selector: string): Kind {
  const found = root.querySelector<Kind>(selector);
  if (found === null) throw new Error(`nothing fits ${selector} in ${root.innerHTML.slice(0, 2_000)}`);
  return found;
}

function button(name: string): HTMLButtonElement {
  for (const each of root.querySelectorAll("button")) {
    if (each.textContent === name || each.getAttribute("aria-label")?.startsWith(name)) return each;
  }
  throw new Error(`there is no button ${name}`);
}

/** Signals are followed with the next frame. */
const shown = (assertion: () => void) => vi.waitFor(assertion, { timeout: 20_000 });

function type(field: HTMLInputElement | HTMLTextAreaElement, text: string): void {
  field.value = text;
  field.dispatchEvent(new Event("input", { bubbles: true }));
}

function answer(id: string, text: string, open: boolean) {
  return { kind: "answer", id, text: signal(text), open: signal(open) } satisfies AnswerEntry;
}

function call(given: Partial<CallEntry>): CallEntry {
  return {
    kind: "call",
    id: "call-1",
    name: "refund",
    side: "backend",
    arguments: signal('{"order_id": "1234"}'),
    status: signal("done"),
    result: signal(undefined),
    media: signal([]),
    milliseconds: signal(1_400),
    question: signal(undefined),
    ...given,
  };
}

describe("a turn without an answer", () => {
  const question = { kind: "user", id: "1", text: "Hello", attachments: [] } as const;
  const thought = (milliseconds: number | undefined) =>
    ({
      kind: "reasoning",
      id: "2",
      text: signal("Hmm."),
      open: signal(false),
      milliseconds: signal(milliseconds),
    }) satisfies Entry;

  test("can be had anew once it is over", async () => {
    const chat = played();
    chat.entries.value = [question, thought(5)];
    chat.phase.value = "streaming";
    show(chat);
    expect(() => button("Answer again")).toThrow("no button");
    chat.phase.value = "idle";
    await shown(() => button("Answer again"));
    button("Answer again").click();
    expect(chat.done).toEqual([["regenerate"]]);
  });

  test("is not over while something is asked of the person, and a failure has its own button", async () => {
    for (const open of [call({ status: signal("waiting") }), call({ status: signal("approval") })]) {
      const chat = played();
      chat.entries.value = [question, open];
      show(chat);
      expect(() => button("Answer again")).toThrow("no button");
      render(null, root);
    }
    const chat = played();
    chat.entries.value = [question, call({})];
    show(chat);
    button("Answer again");
    chat.problem.value = { code: "network", message: "", retryable: true, retryAfterSeconds: undefined };
    await shown(() => button("Try again"));
    expect(() => button("Answer again")).toThrow("no button");
  });

  test.each([
    [undefined, "Thoughts"],
    [999, "Thought for a moment"],
    [1_400, "Thought for 1.4 sec"],
  ])("after thoughts of %s ms it says so: %s", (milliseconds, words) => {
    const chat = played();
    chat.entries.value = [question, thought(milliseconds)];
    show(chat);
    expect(one(".agui-reasoning-head").textContent).toBe(words);
  });
});

describe("the composer", () => {
  test("sends with Enter, and neither with Shift nor while an input method has the key", async () => {
    const chat = played();
    show(chat);
    const area = one<HTMLTextAreaElement>("textarea");
    type(area, " hello ");
    await shown(() => expect(button("Send").disabled).toBe(false));
    area.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", shiftKey: true, bubbles: true }));
    area.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", isComposing: true, bubbles: true }));
    expect(chat.done).toEqual([]);
    area.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
    expect(chat.done).toEqual([["send", "hello", []]]);
    await shown(() => expect(area.value).toBe(""));
  });

  test("keeps what is written while an answer comes, and offers to stop that", async () => {
    const chat = played();
    chat.phase.value = "streaming";
    show(chat);
    const area = one<HTMLTextAreaElement>("textarea");
    type(area, "next");
    area.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
    button("Stop").click();
    expect(chat.done).toEqual([["stop"]]);
    expect(area.value).toBe("next");
  });

  test("says which files cannot go, and takes the others", async () => {
    const chat = played();
    show(chat);
    const input = one<HTMLInputElement>("input[type=file]");
    const files = [
      new File(["hello"], "<b>notes</b>.md"),
      new File(["MZ"], "tool.exe", { type: "application/x-msdownload" }),
      new File([new Uint8Array(5_000_001)], "large.pdf", { type: "application/pdf" }),
      new File(["<svg onload=alert(1)>"], "drawing.svg", { type: "image/svg+xml" }),
    ];
    Object.defineProperty(input, "files", { value: files, configurable: true });
    input.dispatchEvent(new Event("change", { bubbles: true }));
    await shown(() => expect(one("[role=alert]").textContent).toContain("drawing.svg"));
    expect(one("[role=alert]").textContent).toContain("tool.exe");
    expect(one("[role=alert]").textContent).toContain("large.pdf is too large: 5 MB");
    expect(one(".agui-chip-name").textContent).toBe("<b>notes</b>.md");
    button("Send").click();
    expect(chat.done).toEqual([
      [
        "send",
        "",
        [{ kind: "document", name: "<b>notes</b>.md", mimeType: "text/markdown", bytes: 5, data: "aGVsbG8=" }],
      ],
    ]);
  });
});

describe("what is told to a screen reader", () => {
  test("a finished answer is told once, and none of its tokens", async () => {
    const chat = played();
    show(chat);
    const said: string[] = [];
    const voice = one("[data-testid=announcer]");
    new MutationObserver(() => said.push(voice.textContent ?? "")).observe(voice, {
      childList: true,
      subtree: true,
      characterData: true,
    });
    const entry = answer("a", "Hel", true);
    chat.entries.value = [entry];
    for (const text of ["Hello", "Hello **wor", "Hello **world**."]) {
      entry.text.value = text;
      await shown(() => expect(one("[data-testid=answer]").textContent?.trim()).toBe(text.replaceAll("*", "")));
    }
    expect(said).toEqual([]);
    entry.open.value = false;
    await shown(() => expect(said).toEqual(["Hello world."]));
    chat.phase.value = "waiting";
    chat.phase.value = "idle";
    await new Promise((resolve) => setTimeout(resolve));
    expect(said).toEqual(["Hello world."]);
  });

  test("an answer that came between two frames is told, too", async () => {
    const chat = played();
    const asked: Entry = { kind: "user", id: "u", text: "Well?", attachments: [] };
    chat.entries.value = [asked, answer("a", "old", false)];
    show(chat);
    await shown(() => expect(one("[data-testid=answer]").textContent).toContain("old"));
    chat.entries.value = [asked];
    chat.entries.value = [asked, answer("b", "**new**", false)];
    await shown(() => expect(one("[data-testid=announcer]").textContent).toBe("new"));
    chat.entries.value = [];
    chat.entries.value = [{ ...asked, id: "other" }, answer("c", "of another thread", false)];
    await shown(() => expect(one("[data-testid=answer]").textContent).toContain("another"));
    expect(one("[data-testid=announcer]").textContent).toBe("");
  });

  test("an answer that is gone, or that other words stand in for, is not left to be found", async () => {
    const chat = played();
    show(chat);
    const [first, second] = [answer("a", "secret", true), answer("b", "also secret", true)];
    const heard = () => one("[data-testid=announcer]").textContent;
    chat.entries.value = [first];
    first.open.value = false;
    await shown(() => expect(heard()).toBe("secret"));
    first.text.value = "taken back";
    await shown(() => expect(heard()).toBe("taken back"));
    chat.entries.value = [first, second];
    second.open.value = false;
    await shown(() => expect(heard()).toBe("also secret"));
    chat.entries.value = [first];
    await shown(() => expect(heard()).toBe(""));
  });

  test("answers of a thread that is opened are not told", async () => {
    const chat = played();
    chat.entries.value = [answer("a", "old", false)];
    show(chat);
    await shown(() => expect(one("[data-testid=answer]").textContent).toContain("old"));
    expect(one("[data-testid=announcer]").textContent).toBe("");
  });
});

describe("tool calls", () => {
  test("where it runs, how it went and how long it took stand on its card", async () => {
    const chat = played();
    chat.entries.value = [
      call({}),
      call({
        id: "call-2",
        name: "set_theme",
        side: "frontend",
        status: signal("failed"),
        result: signal("no such theme"),
      }),
    ];
    show(chat);
    const [first, second] = root.querySelectorAll("[data-testid=tool-card]");
    expect(first?.textContent).toMatch(/refund.*1234.*Gateway.*Done.*1\.4 sec/s);
    expect(second?.textContent).toMatch(/set_theme.*This page.*Failed.*no such theme/s);
  });

  test("a result is laid out where it is JSON, and is never more than words", async () => {
    const chat = played();
    chat.entries.value = [call({ result: signal('{"html":"<img src=x onerror=alert(1)>"}') })];
    show(chat);
    one<HTMLButtonElement>(".agui-call-head").click();
    await shown(() =>
      expect(one(".agui-call-head-body").textContent).toContain('"html": "<img src=x onerror=alert(1)>"'),
    );
    expect(root.querySelector("img")).toBeNull();
  });

  test("a tool draws its calls itself, and one that fails to is drawn as any other", () => {
    const chat = played();
    const error = vi.spyOn(console, "error").mockImplementation(() => {});
    chat.entries.value = [
      call({ side: "frontend", name: "map" }),
      call({ id: "call-2", side: "frontend", name: "broken" }),
    ];
    const tool = { description: "", parameters: {}, handler: () => undefined };
    const map = () => Object.assign(document.createElement("b"), { textContent: "a map" });
    const broken = () => {
      throw new Error("no");
    };
    show(chat, {
      tools: [
        { ...tool, name: "map", render: map },
        { ...tool, name: "broken", render: broken },
      ],
    });
    expect(one(".agui-drawn").textContent).toBe("a map");
    expect(root.querySelectorAll("[data-testid=tool-card]").length).toBe(2);
    expect(error).toHaveBeenCalledOnce();
    error.mockRestore();
  });
});

describe("approvals", () => {
  function approval(given: Partial<Approval> = {}): Approval {
    return {
      id: "int-1",
      callId: undefined,
      toolName: "refund",
      message: "Refund?",
      arguments: { order_id: "1234", amount: 20 },
      schema: {
        type: "object",
        properties: { order_id: { type: "string" }, amount: { type: "number", maximum: 1000 } },
      },
      expiresAt: undefined,
      isForOthers: false,
      choice: signal<ApprovalChoice | undefined>(undefined),
      ...given,
    };
  }

  test("agreed to as it is, and agreed to with other arguments", async () => {
    const chat = played();
    chat.approvals.value = [approval()];
    chat.entries.value = [answer("a", "x", false)];
    show(chat);
    button("Approve").click();
    type(one<HTMLInputElement>("input[name=amount]"), "15");
    await shown(() => expect(one<HTMLInputElement>("input[name=amount]").value).toBe("15"));
    button("Approve").click();
    expect(chat.done).toEqual([
      ["choose", "int-1", { approved: true }],
      ["choose", "int-1", { approved: true, editedArgs: { order_id: "1234", amount: 15 } }],
    ]);
  });

  test("an argument whose name every object has is there like others", () => {
    const chat = played();
    chat.approvals.value = [approval({ arguments: JSON.parse('{"__proto__": {"admin": true}, "amount": 20}') })];
    chat.entries.value = [answer("a", "x", false)];
    show(chat);
    expect(one<HTMLTextAreaElement>("[name=__proto__]").value).toContain('"admin": true');
    button("Approve").click();
    expect(chat.done).toEqual([["choose", "int-1", { approved: true }]]);
  });

  test("what somebody else approves can only be given up", async () => {
    const chat = played();
    chat.approvals.value = [approval({ message: "", isForOthers: true })];
    chat.entries.value = [answer("a", "x", false)];
    show(chat);
    expect(one(".agui-approval-message").textContent).toBe("“refund” waits for somebody else’s approval.");
    expect([...root.querySelectorAll(".agui-approval button")].map((each) => each.textContent)).toEqual(["Cancel"]);
    button("Cancel").click();
    expect(chat.done).toEqual([["choose", "int-1", { approved: false }]]);
  });

  test("what does not fit is said and not sent", async () => {
    const chat = played();
    chat.approvals.value = [approval()];
    chat.entries.value = [answer("a", "x", false)];
    show(chat);
    type(one<HTMLInputElement>("input[name=amount]"), "5000");
    await shown(() => expect(one<HTMLInputElement>("input[name=amount]").value).toBe("5000"));
    button("Approve").click();
    await shown(() => expect(one(".agui-field-problem").textContent).toBe("At most 1,000."));
    expect(one("input[name=amount]").getAttribute("aria-invalid")).toBe("true");
    expect(chat.done).toEqual([]);
  });

  test("denied with a reason", async () => {
    const chat = played();
    chat.approvals.value = [approval()];
    chat.entries.value = [answer("a", "x", false)];
    show(chat);
    button("Deny with a reason …").click();
    await shown(() => one(".agui-denial input"));
    one<HTMLInputElement>(".agui-denial input").value = " too much ";
    button("Deny").click();
    expect(chat.done).toEqual([["choose", "int-1", { approved: false, reason: "too much" }]]);
  });

  test("it tells by the minute when it expires, and cannot be agreed to after that", async () => {
    vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"] });
    const chat = played();
    chat.approvals.value = [approval({ expiresAt: new Date(Date.now() + 125_000) })];
    chat.entries.value = [answer("a", "x", false)];
    show(chat);
    expect(one(".agui-expiry").textContent).toBe("Expires in 2 minutes");
    await vi.advanceTimersByTimeAsync(130_000);
    expect(one(".agui-expiry").textContent).toBe("This has expired");
    expect(button("Approve").disabled).toBe(true);
  });
});

describe("the shared list", () => {
  test("items are added, ticked and removed, and the rest of the state stays", async () => {
    const chat = played();
    chat.state.value = { list: ["milk", { text: "bread", done: true, shop: "corner" }], other: 1 };
    show(chat);
    const boxes = root.querySelectorAll<HTMLInputElement>(".agui-list input[type=checkbox]");
    expect([...boxes].map((box) => box.checked)).toEqual([false, true]);
    boxes[0]?.click();
    button("Remove milk").click();
    const field = one<HTMLInputElement>(".agui-list-new input");
    type(field, " eggs ");
    await shown(() => expect(field.value).toBe(" eggs "));
    one<HTMLFormElement>(".agui-list-new").dispatchEvent(new Event("submit", { bubbles: true, cancelable: true }));
    const bread = { text: "bread", done: true, shop: "corner" };
    expect(chat.done).toEqual([
      ["setState", { list: [{ text: "milk", done: true }, bread], other: 1 }],
      ["setState", { list: [bread], other: 1 }],
      ["setState", { list: ["milk", bread, "eggs"], other: 1 }],
    ]);
  });

  test("state without a list shows none", () => {
    const chat = played();
    chat.state.value = { list: "no list" };
    show(chat);
    expect(root.querySelector(".agui-list")).toBeNull();
  });
});

describe("when something went wrong", () => {
  test("the run can be tried again once the time that the server named is over", async () => {
    vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"] });
    const chat = played();
    chat.problem.value = { code: "rate_limited", message: "no", retryable: true, retryAfterSeconds: 5 };
    show(chat);
    expect(one("[role=alert]").textContent).toContain("Possible again in 5 seconds");
    expect(button("Try again").disabled).toBe(true);
    await vi.advanceTimersByTimeAsync(6_000);
    expect(button("Try again").disabled).toBe(false);
    button("Try again").click();
    button("Dismiss").click();
    expect(chat.done).toEqual([["retry"], ["dismissProblem"]]);
  });

  test("the gateway's id of the request stands there for whoever asks about it", () => {
    const chat = played();
    chat.problem.value = { ...refused, requestId: "req-1" };
    show(chat);
    expect(one("[role=alert]").textContent).toContain("Request req-1");
  });

  const refused = {
    code: "model_authentication",
    message: "gpt-oss (openai/v1/chat/completions): status 401",
    retryable: true,
    retryAfterSeconds: undefined,
  };

  test("a model's problem is said gently, and with its code and words where the operator looks", () => {
    const chat = played();
    chat.problem.value = refused;
    show(chat);
    expect(one("[role=alert]").textContent).not.toContain("401");
    show(chat, { explain: ({ code, message }) => `${code}: ${message}` });
    const words = one("[role=alert]").textContent;
    expect(words).toContain("The model cannot be asked.");
    expect(words).toContain("model_authentication: gpt-oss (openai/v1/chat/completions): status 401");
  });

  test("while a busy model is waited for, the line says for how long", async () => {
    vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"] });
    const chat = played();
    chat.phase.value = "waiting";
    show(chat);
    const line = () => one(".agui-connection").textContent;
    await vi.advanceTimersByTimeAsync(60_000);
    chat.retriesAt.value = new Date(Date.now() + 12_000);
    await vi.advanceTimersByTimeAsync(100);
    expect(line()).toMatch(/^The model is busy\. Trying again in 1[12] seconds\.$/);
    await vi.advanceTimersByTimeAsync(5_000);
    expect(line()).toMatch(/in [67] seconds/);
    chat.retriesAt.value = undefined;
    await vi.advanceTimersByTimeAsync(100);
    expect(line()).toBe("");
  });

  test("a missing key leads to where it is entered", () => {
    const chat = played();
    const onKey = vi.fn();
    chat.problem.value = { code: "unauthenticated", message: "no", retryable: true, retryAfterSeconds: undefined };
    show(chat, { onKey });
    button("Enter a key").click();
    expect(onKey).toHaveBeenCalledOnce();
  });

  test("a message is shown as words, whatever is in it", () => {
    const chat = played();
    chat.problem.value = {
      code: "unheard_of",
      message: "<img src=x onerror=alert(1)>",
      retryable: false,
      retryAfterSeconds: undefined,
    };
    show(chat);
    expect(one("[role=alert]").textContent).toContain("<img src=x onerror=alert(1)>");
    expect(root.querySelector("img")).toBeNull();
  });
});

test("a thread of 2,000 messages shows its end, and the way to what was before", async () => {
  const chat = played();
  chat.entries.value = Array.from({ length: 2_000 }, (_, index) =>
    index % 2 === 0
      ? { kind: "user", id: `u${index}`, text: `question ${index}`, attachments: [] }
      : answer(`a${index}`, `answer ${index}`, false),
  );
  show(chat);
  expect(root.querySelectorAll("article").length).toBeLessThan(150);
  expect(root.textContent).toContain("answer 1999");
  const before = root.querySelectorAll("article").length;
  button("Show earlier messages").click();
  await shown(() => expect(root.querySelectorAll("article").length).toBe(before + 60));
});
