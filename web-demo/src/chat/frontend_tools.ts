/**
 * The tools of this page, and how their calls are answered.
 *
 * Below: the schema check, progress. A call is answered whatever becomes of it: a handler that throws, a person who
 * declines, arguments that do not fit and a tool that is not there are answers too, in words for the model. Nothing is
 * ever run that the page did not register, and nothing twice: a handler that leaves the page (a link that it follows)
 * would otherwise run again with every load.
 */
import type { WireCall, WireMessage, WireTool } from "../wire/ag_ui";
import { newId } from "../wire/new_id";
import type { FrontendTool, JsonObject, JsonValue, Question } from "./contract";
import { DECLINED } from "./entries";
import { objectIn, same } from "./json";
import type { Memory } from "./memory";
import type { Progress } from "./progress";

/** Characters of a result; what is longer is cut, with a mark that says so. */
const LONGEST_RESULT = 100_000;

const DECLINE = "The user declined this call. It was not run.";
const STOPPED = "The user stopped this tool while it was at work. Whether it took effect is not known.";
const LEFT = "The page was left while this tool was at work. Whether it took effect is not known.";

/** What is told to the model. */
interface Answer {
  readonly content: string;
  readonly error?: boolean;
  readonly declined?: boolean;
}

export interface ToolDeskOptions {
  readonly progress: Progress;
  readonly memory: Memory;
  /** The question before a tool that asks first and has no words of its own. */
  readonly ask: (toolName: string) => string;
  /** Something has to be shown again. */
  readonly onChange: () => void;
}

export class ToolDesk {
  #tools = new Map<string, FrontendTool>();
  /** Open questions: what answers each, by call. */
  readonly #questions = new Map<string, (accepted: boolean, reason?: string) => void>();
  readonly #arrivals = new Set<() => void>();
  /** How many handlers are at work. */
  #working = 0;
  /** What looks whether arguments fit: a file of its own. */
  #check: Promise<typeof import("./schema_check")> | undefined;

  constructor(private readonly options: ToolDeskOptions) {}

  set(tools: readonly FrontendTool[]): void {
    this.#tools = new Map(tools.map((tool) => [tool.name, tool]));
    for (const arrived of this.#arrivals) arrived();
    this.options.onChange();
  }

  has(name: string): boolean {
    return this.#tools.has(name);
  }

  /** Is it the person's turn, and nobody else's? */
  get isAsking(): boolean {
    return this.#questions.size > 0 && this.#working === 0;
  }

  /** As the agent is told of them. */
  declarations(): WireTool[] {
    return [...this.#tools.values()].map(({ name, description, parameters }) => ({ name, description, parameters }));
  }

  /** Resolves once tools of all these names are there, or after that time: a page may register them late. */
  async wait(names: readonly string[], milliseconds: number, signal: AbortSignal): Promise<void> {
    const there = () => signal.aborted || names.every((name) => this.has(name));
    if (there()) return;
    await new Promise<void>((resolve) => {
      const look = () => {
        if (there()) resolve();
      };
      setTimeout(resolve, milliseconds);
      signal.addEventListener("abort", look);
      this.#arrivals.add(look);
    });
  }

  /**
   * Answer the calls, all at once; the messages in the calls' order. `ask`: the person is asked about each, also where
   * its tool does not: the calls are of another day, or of another tab.
   */
  async answer(calls: readonly WireCall[], signal: AbortSignal, { ask = false } = {}): Promise<WireMessage[]> {
    return Promise.all(calls.map((call) => this.#message(call, signal, ask)));
  }

  /** Answer every open question with no: the person went on to something else. */
  declineAll(reason?: string): void {
    for (const answer of [...this.#questions.values()]) answer(false, reason);
  }

  async #message(call: WireCall, signal: AbortSignal, ask: boolean): Promise<WireMessage> {
    const { progress, onChange } = this.options;
    const answer = await this.#answer(call, signal, ask).catch((error: unknown): Answer => {
      return { content: `The tool failed: ${error instanceof Error ? error.message : String(error)}`, error: true };
    });
    const content = cut(answer.content);
    progress.end(call.id);
    progress.mark(call.id, {
      status: answer.declined ? "declined" : answer.error ? "failed" : "done",
      result: content,
      question: undefined,
    });
    onChange();
    return {
      id: newId(),
      role: "tool",
      toolCallId: call.id,
      content,
      ...(answer.error && { error: content }),
      ...(answer.declined && { metadata: { [DECLINED]: true } }),
    };
  }

  async #answer(call: WireCall, signal: AbortSignal, ask: boolean): Promise<Answer> {
    const { name, arguments: text } = call.function;
    const tool = this.#tools.get(name);
    if (!tool) return { content: `This page has no tool ${JSON.stringify(name)}.`, error: true };
    const args = objectIn(text);
    const { misfits } = await this.#loadCheck();
    const wrong = args ? misfits(args, tool.parameters, same) : ["the arguments are no JSON object"];
    if (!args || wrong.length > 0)
      return { content: `The call does not fit the tool: ${wrong.join("; ")}`, error: true };
    const words = question(tool, args) ?? (ask ? "" : undefined);
    if (words !== undefined) {
      const refused = await this.#asked(call, words || this.options.ask(name), signal);
      if (refused) return refused;
    }
    if (signal.aborted) return { content: DECLINE, declined: true };
    return this.#run(tool, call, args, signal);
  }

  /** One promise for all calls, which go on in their order then; asked for anew where it did not come. */
  #loadCheck(): Promise<typeof import("./schema_check")> {
    this.#check ??= import("./schema_check").catch(() => {
      this.#check = undefined;
      throw new Error("its arguments could not be checked, so it was not run");
    });
    return this.#check;
  }

  async #run(tool: FrontendTool, call: WireCall, args: JsonObject, signal: AbortSignal): Promise<Answer> {
    const { progress, onChange } = this.options;
    if (!this.#begin(call.id)) return { content: LEFT, error: true };
    progress.begin(call.id);
    progress.mark(call.id, { status: "running", question: undefined });
    this.#working++;
    onChange();
    try {
      return await Promise.race([handled(tool, args, call.id, signal), stopped(signal)]);
    } finally {
      this.#working--;
    }
  }

  /** Undefined once the person agreed, else the answer. */
  #asked(call: WireCall, text: string, signal: AbortSignal): Promise<Answer | undefined> {
    const { progress, onChange } = this.options;
    return new Promise((resolve) => {
      const settle = (accepted: boolean, reason?: string) => {
        if (!this.#questions.delete(call.id)) return;
        resolve(accepted ? undefined : { content: reason ? `${DECLINE} ${reason}` : DECLINE, declined: true });
      };
      const asked: Question = { text, accept: () => settle(true), decline: (reason) => settle(false, reason) };
      this.#questions.set(call.id, settle);
      signal.addEventListener("abort", () => settle(false));
      progress.mark(call.id, { status: "waiting", question: asked });
      onChange();
    });
  }

  /** Whether the call may begin: it never has, in any life of this page. */
  #begin(callId: string): boolean {
    const { memory } = this.options;
    const begun = (memory.get("begun") ?? "").split("\n").filter(Boolean);
    if (begun.includes(callId)) return false;
    memory.set("begun", [...begun.slice(-49), callId].join("\n"));
    return true;
  }
}

async function handled(tool: FrontendTool, args: JsonObject, id: string, signal: AbortSignal): Promise<Answer> {
  return { content: written(await tool.handler(args, { id, signal })) };
}

/** A handler need not listen to its signal. */
function stopped(signal: AbortSignal): Promise<Answer> {
  return new Promise((resolve) => {
    signal.addEventListener("abort", () => resolve({ content: STOPPED, error: true }));
  });
}

function question(tool: FrontendTool, args: JsonObject): string | undefined {
  if (typeof tool.confirm === "function") return tool.confirm(args);
  return tool.confirm ? "" : undefined;
}

function written(result: JsonValue | undefined): string {
  if (result === undefined) return "Done.";
  return typeof result === "string" ? result : JSON.stringify(result);
}

function cut(text: string): string {
  if (text.length <= LONGEST_RESULT) return text;
  return `${text.slice(0, LONGEST_RESULT)}\n[${text.length - LONGEST_RESULT} more characters were left out.]`;
}
