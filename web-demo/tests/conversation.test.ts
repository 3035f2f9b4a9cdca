import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Attachment } from "../src/chat/contract";
import type { ConversationOptions } from "../src/chat/conversation";
import { type MakeReader, READERS, type Scene, scene, tool } from "./conversation_scene";
import { GatewayProcess } from "./gateway_process";
import { until } from "./until";

const PAINT = { tool: "paint", arguments: { color: "red" } };
const FAILS = [[{ text: "I be" }, { error: "server", times: 3 }, { text: "gin." }]];
let gateway: GatewayProcess;
let opened: Scene[] = [];
let reader: MakeReader;

beforeAll(async () => {
  gateway = await GatewayProcess.start([
    {
      id: "clerk",
      answers: {
        think: [[{ reasoning: "Let me see." }, { text: "Seen." }, { usage: { input_tokens: 12, output_tokens: 4 } }]],
        slow: [[{ text: "one two three four five six", chunk_characters: 4, delta_seconds: 0.2 }]],
        endless: [[{ text: "one two" }, { hang: true }]],
        paint: [
          [PAINT, { usage: { input_tokens: 1, output_tokens: 2 } }],
          [{ text: "It said: {{result}}" }, { usage: { input_tokens: 10, output_tokens: 20 } }],
        ],
        both: [[PAINT, { tool: "hang", arguments: { color: "blue" } }], [{ text: "Both." }]],
        refund: [[{ tool: "refund", arguments: { order: "7", amount: 20 } }], [{ text: "It said: {{result}}" }]],
        ship: [
          [{ tool: "ship", arguments: '{"order_id": 12345678901234567890, "note": "now"}' }],
          [{ text: "It said: {{result}}" }],
        ],
        broken: [[{ tool: "broken" }], [{ text: "It failed." }]],
        milk: [[{ tool: "add_to_list", arguments: { item: "milk" } }], [{ text: "Listed." }]],
        "fail over HttpAgent": FAILS,
        "fail over the lean reader": FAILS, // each fails so many times, whoever asks
        cut: [[{ text: "Half an ans" }, { stop: "max_tokens" }]],
      },
      tools: [
        { type: "PythonTool", name: "refund", parameters: { function: "shop:refund" }, approval: "always" },
        { type: "PythonTool", name: "ship", parameters: { function: "shop:ship" }, approval: "always" },
        { type: "PythonTool", name: "broken", parameters: { function: "shop:broken" } },
        { type: "PythonTool", name: "add_to_list", parameters: { function: "shop:add_to_list" } },
      ],
    },
  ]);
});

afterEach(() => {
  for (const { conversation } of opened) conversation.close();
  opened = [];
});

afterAll(() => gateway?.stop());

function clerk(more: Partial<ConversationOptions> = {}): Scene {
  const made = scene(gateway.url, "clerk", { makeReader: reader, ...more });
  opened.push(made);
  return made;
}

describe.each(READERS)("over %s", (name, makeReader) => {
  beforeEach(() => {
    reader = makeReader;
  });

  test("an answer is streamed, and its reasoning, with what it took and what it cost", async () => {
    const { conversation, lines } = clerk();
    await conversation.send("think");
    expect(lines()).toEqual(["user: think", "reasoning: Let me see.", "answer: Seen."]);
    expect(conversation.phase.value).toBe("idle");
    expect(conversation.usage.value).toEqual({ inputTokens: 12, outputTokens: 4 });
    const reasoning = conversation.entries.value[1];
    expect(reasoning?.kind === "reasoning" && reasoning.milliseconds.value).toBeTypeOf("number");
  });

  test("entries are the same objects from the first word to the last, and grow in between", async () => {
    const { conversation } = clerk();
    const said: string[] = [];
    const sent = conversation.send("slow");
    const entry = await until(() => conversation.entries.value[1]);
    if (entry.kind !== "answer") throw new Error(entry.kind);
    entry.text.subscribe((text) => said.push(text));
    expect(entry.open.value).toBe(true);
    await sent;
    expect(conversation.entries.value[1]).toBe(entry);
    expect(entry.open.value).toBe(false);
    expect(said.length).toBeGreaterThan(1);
    expect(said.at(-1)).toBe("one two three four five six");
  });

  test("a second message has the first one's history", async () => {
    const { conversation, lines } = clerk();
    await conversation.send("hello");
    await conversation.send("again");
    expect(lines()).toEqual(["user: hello", "answer: hello", "user: again", "answer: again"]);
  });

  test("a frontend tool's call is run with arguments that fit, and the run goes on with its result", async () => {
    const { conversation, lines, call } = clerk();
    conversation.setTools([tool("paint", async ({ color }) => ({ painted: color ?? null }))]);
    await conversation.send("paint");
    expect(lines()).toEqual([
      "user: paint",
      'frontend paint({"color":"red"}) done: {"painted":"red"}',
      'answer: It said: {"painted":"red"}',
    ]);
    expect(call("paint")?.milliseconds.value).toBeTypeOf("number");
    expect(conversation.usage.value).toEqual({ inputTokens: 11, outputTokens: 22 }); // of the whole turn
  });

  test("what a handler throws, and arguments that do not fit, are answers", async () => {
    const { conversation, lines } = clerk();
    conversation.setTools([
      tool("paint", () => {
        throw new Error("no brush");
      }),
    ]);
    await conversation.send("paint");
    expect(lines().at(-1)).toBe("answer: It said: The tool failed: no brush");

    const ran: string[] = [];
    const parameters = { type: "object", properties: { color: { enum: ["blue"] } } };
    conversation.setTools([tool("paint", () => "painted")]);
    const sent = conversation.send("paint");
    conversation.setTools([tool("paint", () => String(ran.push("paint")), { parameters })]); // else the gateway refuses it
    await sent;
    expect(lines().at(-1)).toMatch(
      /^answer: It said: The call does not fit the tool: \/color: expected one of \["blue"\]/,
    );
    expect(ran).toEqual([]);
  });

  test("a call of a tool that the page does not have is answered, and never waits", async () => {
    const { conversation, lines } = clerk();
    conversation.setTools([tool("paint", () => "x")]);
    const sent = conversation.send("paint");
    conversation.setTools([]); // gone, by the time that it is called
    await sent;
    expect(lines().at(-1)).toBe('answer: It said: This page has no tool "paint".');
  });

  test("several calls wait at once; one asks, is declined, and that is an answer too", async () => {
    const { conversation, lines, call } = clerk();
    conversation.setTools([tool("paint", () => "painted"), tool("hang", () => "hung", { confirm: () => "Really?" })]);
    const sent = conversation.send("both");
    const question = await until(() => call("hang")?.question.value);
    expect(question.text).toBe("Really?");
    expect(call("hang")?.status.value).toBe("waiting");
    await until(() => call("paint")?.status.value === "done");
    expect(conversation.phase.value).toBe("idle"); // it is the person's turn
    question.decline("not today");
    await sent;
    expect(lines()).toEqual([
      "user: both",
      'frontend paint({"color":"red"}) done: painted',
      'frontend hang({"color":"blue"}) declined: The user declined this call. It was not run. not today',
      "answer: Both.",
    ]);
  });

  test("a message instead of an answer declines the question, and both go to the agent", async () => {
    const { conversation, lines, call } = clerk();
    conversation.setTools([tool("paint", () => "painted", { confirm: true })]);
    void conversation.send("paint");
    await until(() => call("paint")?.question.value);
    await conversation.send("hello instead");
    expect(lines()).toEqual([
      "user: paint",
      'frontend paint({"color":"red"}) declined: The user declined this call. It was not run. ' +
        "The user wrote a message instead of answering.",
      "user: hello instead",
      "answer: hello instead",
    ]);
  });

  test("a tool that fails in the gateway is shown as failed", async () => {
    const { conversation, lines } = clerk();
    await conversation.send("broken");
    expect(lines()).toEqual(["user: broken", "backend broken({}) failed: the shelf is empty", "answer: It failed."]);
  });

  test("an approval shows what would be run; approved with other arguments, it runs with those", async () => {
    const { conversation, lines, call } = clerk();
    await conversation.send("refund");
    const [approval] = conversation.approvals.value;
    if (!approval) throw new Error("nothing to approve");
    expect(approval.toolName).toBe("refund");
    expect(approval.arguments).toEqual({ order: "7", amount: 20 });
    expect(approval.schema?.properties).toHaveProperty("amount");
    expect(approval.expiresAt?.getTime()).toBeGreaterThan(Date.now());
    expect(call("refund")?.status.value).toBe("approval");
    expect(conversation.phase.value).toBe("idle");

    conversation.choose(approval.id, { approved: true, editedArgs: { order: "7", amount: 5 } });
    await until(
      () => lines().some((each) => each.startsWith("answer: It said")) && conversation.phase.value === "idle",
    );
    expect(lines().at(-1)).toContain("Refunded 5 for 7.");
    expect(call("refund")?.status.value).toBe("done");
    expect(conversation.approvals.value).toEqual([]);
  });

  test.each([
    ["as it is", undefined, "now"],
    ["with another argument changed", { note: "later" }, "later"],
  ])("a number that JavaScript cannot hold runs as the model wrote it, approved %s", async (_, edits, note) => {
    const { conversation, lines, call } = clerk();
    await conversation.send("ship");
    const [approval] = conversation.approvals.value;
    if (!approval) throw new Error("nothing to approve");
    const editedArgs = edits && { ...approval.arguments, ...edits };
    conversation.choose(approval.id, { approved: true, ...(editedArgs && { editedArgs }) });
    await until(() => lines().at(-1)?.startsWith("answer: It said") && conversation.phase.value === "idle");
    expect(lines().at(-1)).toContain(`Shipped 12345678901234567890 ${note}.`);
    expect(call("ship")?.arguments.value).toMatch(/"order_id": ?12345678901234567890/);
  });

  test("edited arguments that the gateway refuses leave the question open", async () => {
    const { conversation, lines } = clerk();
    await conversation.send("refund");
    const [approval] = conversation.approvals.value;
    if (!approval) throw new Error("nothing to approve");
    conversation.choose(approval.id, { approved: true, editedArgs: { order: 7 } });
    const problem = await until(() => conversation.problem.value);
    expect(problem.code).toBe("invalid_answer");
    expect(conversation.approvals.value).toEqual([approval]);
    expect(approval.choice.value).toBeUndefined();
    conversation.choose(approval.id, { approved: true });
    await until(() => lines().at(-1)?.includes("Refunded 20 for 7."));
    expect(conversation.problem.value).toBeUndefined();
  });

  test("a denied call is shown as declined; its reason goes to the model", async () => {
    const { conversation, lines, call } = clerk();
    await conversation.send("refund");
    const [approval] = conversation.approvals.value;
    conversation.choose(approval?.id ?? "", { approved: false, reason: "too much" });
    await until(() => lines().at(-1)?.includes("The user denied this call: too much"));
    expect(call("refund")?.status.value).toBe("declined");
  });

  test("a message instead of a decision denies what was asked", async () => {
    const { conversation, lines, call } = clerk();
    await conversation.send("refund");
    await conversation.send("hello instead");
    expect(lines().slice(-2)).toEqual(["user: hello instead", "answer: hello instead"]);
    expect(call("refund")?.status.value).toBe("declined");
    expect(conversation.approvals.value).toEqual([]);
  });

  test("the shared state is changed by a tool, and by the page", async () => {
    const { conversation } = clerk();
    await conversation.send("milk");
    expect(conversation.state.value).toEqual({ list: ["milk"] });
    conversation.setState({ list: ["milk", "eggs"] });
    await conversation.send("milk");
    expect(conversation.state.value).toEqual({ list: ["milk", "eggs", "milk"] });
  });

  test("stopped, an answer keeps what has come, and the conversation goes on", async () => {
    const { conversation, lines } = clerk();
    const sent = conversation.send("endless");
    await until(() => lines()[1]?.startsWith("answer: one two"));
    conversation.stop();
    expect(conversation.phase.value).toBe("stopping");
    await sent;
    expect(conversation.phase.value).toBe("idle");
    expect(conversation.problem.value).toBeUndefined();
    expect(lines()[1]).toBe("answer: one two");
    await conversation.send("hello");
    expect(lines().slice(2)).toEqual(["user: hello", "answer: hello"]);
  });

  test("stopped while the page works on a call, what was answered goes with the next message", async () => {
    const { conversation, lines, call } = clerk();
    let signal: AbortSignal | undefined;
    conversation.setTools([
      tool("paint", () => "painted"),
      tool("hang", (_args, given) => {
        signal = given.signal;
        return new Promise(() => {});
      }),
    ]);
    const sent = conversation.send("both");
    await until(() => call("paint")?.status.value === "done" && call("hang")?.status.value === "running");
    expect(conversation.phase.value).toBe("streaming");
    conversation.stop();
    await sent;
    expect(signal?.aborted).toBe(true);
    expect(conversation.phase.value).toBe("idle");
    await conversation.send("hello");
    expect(lines()).toEqual([
      "user: both",
      'frontend paint({"color":"red"}) done: painted',
      'frontend hang({"color":"blue"}) failed: The user stopped this tool while it was at work. ' +
        "Whether it took effect is not known.",
      "user: hello",
      "answer: hello",
    ]);
  });

  test("a message in the middle of an answer stops it", async () => {
    const { conversation, lines } = clerk();
    void conversation.send("endless");
    await until(() => lines()[1]?.startsWith("answer: one two"));
    await conversation.send("hello");
    expect(lines().slice(2)).toEqual(["user: hello", "answer: hello"]);
  });

  test("an answer is given anew, and a message said differently", async () => {
    const { conversation, lines } = clerk();
    await conversation.send("hello");
    await conversation.send("think");
    const before = conversation.entries.value.at(-1);
    await conversation.regenerate();
    expect(lines()).toEqual(["user: hello", "answer: hello", "user: think", "reasoning: Let me see.", "answer: Seen."]);
    expect(conversation.entries.value.at(-1)).not.toBe(before);

    await conversation.edit(conversation.entries.value[2]?.id ?? "", "goodbye");
    expect(lines()).toEqual(["user: hello", "answer: hello", "user: goodbye", "answer: goodbye"]);
  });

  test("a run that failed says why, and is tried again without what it had said", async () => {
    const { conversation, lines } = clerk();
    await conversation.send(`fail over ${name}`);
    expect(conversation.problem.value).toMatchObject({ code: "model_server", retryable: true });
    expect(lines()).toEqual([`user: fail over ${name}`, "answer: I be"]);
    await conversation.retry();
    await conversation.retry();
    await conversation.retry();
    expect(conversation.problem.value).toBeUndefined();
    expect(lines()).toEqual([`user: fail over ${name}`, "answer: I be", "answer: gin."]);
  });

  test("an answer that was cut off says so", async () => {
    const { conversation } = clerk();
    await conversation.send("cut");
    expect(conversation.problem.value?.code).toBe("max_tokens");
  });

  test("files go with a message, and come back with the thread", async () => {
    const data = Buffer.from("x".repeat(9_000)).toString("base64");
    const photo: Attachment = { kind: "document", name: "a.pdf", mimeType: "application/pdf", bytes: 9_000, data };
    const first = clerk();
    await first.conversation.send("look", [photo]);
    const shown = first.conversation.entries.value[0];
    expect(shown?.kind === "user" && shown.attachments).toEqual([photo]);
    await first.conversation.send("again");

    const second = clerk();
    await second.conversation.open(first.conversation.threadId.value);
    expect(second.lines()).toEqual(["user: look", "answer: look", "user: again", "answer: again"]);
    const restored = second.conversation.entries.value[0];
    expect(restored?.kind === "user" && restored.attachments).toEqual([photo]);
  });

  test("what is refused is kept, and goes when it is tried again", async () => {
    const { conversation, lines } = clerk();
    const huge: Attachment = {
      kind: "image",
      name: "a.png",
      mimeType: "image/png",
      bytes: 12e6,
      data: "A".repeat(12e6),
    };
    await conversation.send("look", [huge]);
    expect(conversation.problem.value).toMatchObject({ code: "too_large", retryable: false });
    expect(lines()).toEqual(["user: look"]);
    expect(conversation.phase.value).toBe("idle");
  });
});
