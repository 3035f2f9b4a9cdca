// The Vercel AI SDK with its openai provider, over Chat Completions and over Responses, scene by scene. What came of
// each is printed as JSON. AI_SDK=7 takes version 7 of it.
//
// node --import ../front_ends/loopback_only.mjs ai_sdk.mjs http://127.0.0.1:8000/v1
import { z } from "zod";

const names = process.env.AI_SDK === "7" ? ["ai-7", "ai-7-openai"] : ["ai", "@ai-sdk/openai"];
const [ai, provider] = await Promise.all(names.map((name) => import(name)));
const { generateObject, generateText, stepCountIs, streamText, tool } = ai;
const { createOpenAI } = provider;

globalThis.AI_SDK_LOG_WARNINGS = false;
const gateway = createOpenAI({ baseURL: process.argv[2], apiKey: "key" });
const deadline = 20_000;
const once = { maxRetries: 0, abortSignal: AbortSignal.timeout(120_000) };
const weather = () => {
  const asked = [];
  const execute = async ({ city }) => {
    asked.push(city);
    return `sunny in ${city}`;
  };
  const get_weather = tool({ description: "The weather of a city", inputSchema: z.object({ city: z.string() }), execute });
  return { asked, tools: { get_weather } };
};

const scenes = {
  async words(model) {
    const whole = await generateText({ ...once, model: model("words"), prompt: "hello" });
    const stream = streamText({ ...once, model: model("words"), prompt: "hello" });
    const pieces = await collected(stream.textStream);
    return {
      text: whole.text,
      streamed: pieces.join(""),
      pieces: pieces.length > 2,
      usage: [whole.usage.inputTokens, whole.usage.outputTokens],
      finish: await stream.finishReason,
    };
  },

  async reasoning(model) {
    const stream = streamText({ ...once, model: model("thinker"), prompt: "six times seven?" });
    await stream.consumeStream();
    return [await stream.reasoningText ?? null, await stream.text];
  },

  // the SDK runs its own tools and sends what came of them, until the agent has answered
  async clientTools(model) {
    const told = [];
    for (const question of ["weather?", "both, please"]) {
      const { asked, tools } = weather();
      const stream = streamText({ ...once, model: model("weather"), prompt: question, tools, stopWhen: stepCountIs(5) });
      await stream.consumeStream();
      told.push({ text: await stream.text, asked: asked.sort(), steps: (await stream.steps).length });
    }
    return told;
  },

  // a conversation of several turns, with all that was said sent again
  async conversation(model) {
    const { tools } = weather();
    const messages = [{ role: "user", content: "weather?" }];
    const first = await generateText({ ...once, model: model("weather"), messages, tools, stopWhen: stepCountIs(5) });
    messages.push(...first.response.messages, { role: "user", content: "and now?" });
    const second = await generateText({ ...once, model: model("weather"), messages, tools, stopWhen: stepCountIs(5) });
    return [first.text, second.text];
  },

  async backendTools(model) {
    const messages = [{ role: "user", content: "2 and 3?" }];
    const first = await generateText({ ...once, model: model("adder"), messages });
    messages.push(...first.response.messages, { role: "user", content: "again?" });
    const second = await generateText({ ...once, model: model("adder"), messages });
    const shown = first.content.filter((part) => part.type === "tool-call" || part.type === "tool-result");
    return {
      text: first.text,
      second: second.text,
      shown: shown.map((part) => [part.type, part.toolName, part.providerExecuted ?? false]),
    };
  },

  // a tool of the gateway that a person has to agree to; then the conversation goes on with all of its items
  async approval(model) {
    const messages = [{ role: "user", content: "a refund, please" }];
    const paused = await generateText({ ...once, model: model("refunder"), messages });
    const asked = paused.content.filter((part) => part.type === "tool-approval-request");
    const agreed = { type: "tool-approval-response", approved: true, providerExecuted: true };
    messages.push(...paused.response.messages);
    messages.push({ role: "tool", content: asked.map(({ approvalId }) => ({ ...agreed, approvalId })) });
    const second = await generateText({ ...once, model: model("refunder"), messages });
    messages.push(...second.response.messages, { role: "user", content: "and another one" });
    const third = await generateText({ ...once, model: model("refunder"), messages });
    const again = third.content.filter((part) => part.type === "tool-approval-request");
    return { asked: asked.length, text: second.text, again: again.length };
  },

  // three turns of which each sends all before it, kept at the gateway and not
  async replays(model) {
    const told = {};
    const unkept = { openai: { store: false, include: ["reasoning.encrypted_content"] } };
    for (const agent of ["thinker", "adder", "painter"]) {
      for (const [kept, providerOptions] of Object.entries({ kept: {}, unkept })) {
        const messages = [];
        for (const content of ["one", "two", "three"]) {
          messages.push({ role: "user", content });
          const answer = await generateText({ ...once, model: model(agent), messages, providerOptions });
          messages.push(...answer.response.messages);
          (told[`${agent} ${kept}`] ??= new Set()).add(answer.text);
        }
      }
    }
    return Object.fromEntries(Object.entries(told).map(([name, texts]) => [name, [...texts]]));
  },

  async object(model) {
    const schema = z.object({ city: z.string(), degrees: z.number() });
    const made = await generateObject({ ...once, model: model("formed"), schema, prompt: "the weather?" });
    return made.object;
  },

  async failure(model) {
    const errors = [];
    const stream = streamText({
      ...once,
      model: model("breaking"),
      prompt: "hello",
      onError: ({ error }) => errors.push(String(error?.message ?? error)),
    });
    await stream.consumeStream();
    const refused = await generateText({ ...once, model: model("nobody"), prompt: "hello" }).catch((error) => error);
    return { errors: errors.length > 0, status: refused.statusCode, retryable: refused.isRetryable };
  },
};

async function collected(stream) {
  const pieces = [];
  for await (const piece of stream) pieces.push(piece);
  return pieces;
}

function within(promise) {
  const late = new Promise((_, fail) => setTimeout(() => fail(new Error("too late")), deadline).unref());
  return Promise.race([promise, late]);
}

const onlyResponses = ["approval", "replays"];
const told = {};
for (const kind of ["chat", "responses"]) {
  told[kind] = {};
  for (const [name, scene] of Object.entries(scenes)) {
    if (onlyResponses.includes(name) && kind === "chat") continue;
    try {
      told[kind][name] = await within(scene(gateway[kind]));
    } catch (error) {
      console.error(kind, name, error);
      told[kind][name] = String(error);
    }
  }
}
console.log(JSON.stringify(told));
process.exit(0);
