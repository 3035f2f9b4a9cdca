/**
 * The interrupts of a run, as questions to a person and as the answers to them.
 *
 * Below: AG-UI's words, progress, which says of each call how it stands. An answer is final; the run goes on once every question has one.
 */
import { type ReadonlySignal, type Signal, signal } from "@preact/signals";
import type { WireCall, WireEvent, WireMessage, WireResume } from "../wire/ag_ui";
import type { Approval, ApprovalChoice, JsonObject, JsonValue } from "./contract";
import { callsOf } from "./history";
import { isObject, valueIn, withNumbers } from "./json";
import type { Progress } from "./progress";

interface OpenApproval extends Approval {
  readonly choice: Signal<ApprovalChoice | undefined>;
}

/** What a gateway says of any tool, in English: the chat says the same in the person's language. */
const SAYS_NO_MORE = /^The tool \S+ needs your approval before it runs\.$/;

export class ApprovalDesk {
  readonly #open = signal<readonly OpenApproval[]>([]);

  get open(): ReadonlySignal<readonly Approval[]> {
    return this.#open;
  }

  constructor(private readonly progress: Progress) {}

  /** The interrupts of a run's end, about calls in `messages`. */
  ask(finished: WireEvent, messages: readonly WireMessage[]): void {
    const outcome = finished.outcome as JsonObject | undefined;
    const interrupts = outcome?.type === "interrupt" ? (outcome.interrupts as JsonObject[]) : [];
    this.#open.value = interrupts.map((interrupt) => {
      const callId = typeof interrupt.toolCallId === "string" ? interrupt.toolCallId : undefined;
      if (callId === undefined) return approval(interrupt, callId, undefined);
      this.progress.mark(callId, { status: "approval" });
      return approval(interrupt, callId, callsOf(messages, new Set([callId]))[0]);
    });
  }

  /** The run that has the answers is under way. */
  takeUp(): void {
    for (const { callId, choice } of this.#open.peek()) {
      if (callId === undefined) continue;
      this.progress.unmark(callId);
      const chosen = choice.peek();
      if (chosen?.approved) {
        this.progress.begin(callId);
        if (chosen.editedArgs)
          this.progress.mark(callId, { arguments: withNumbers(JSON.stringify(chosen.editedArgs)) });
      } else if (chosen) this.progress.mark(callId, { status: "declined" });
    }
    this.clear();
  }

  clear(): void {
    if (this.#open.peek().length > 0) this.#open.value = [];
  }

  /** Has the person begun to choose? */
  get isBeingAnswered(): boolean {
    return this.#open.peek().some((each) => each.choice.peek());
  }

  /** The first that somebody else still may answer. */
  get awaited(): string | undefined {
    return this.#open.peek().find((each) => each.isForOthers && !each.choice.peek() && !isExpired(each))?.id;
  }

  /** True where that was the last choice that was missing. */
  choose(id: string, choice: ApprovalChoice): boolean {
    const open = this.#open.peek();
    const chosen = open.find((each) => each.id === id);
    if (!chosen || chosen.choice.peek()) return false;
    chosen.choice.value = isExpired(chosen) ? { approved: false } : choice;
    return open.every((each) => each.choice.peek());
  }

  /** The person went on to something else, which is no yes. */
  denyRest(reason: string): void {
    for (const each of this.#open.peek()) each.choice.value ??= { approved: false, reason };
  }

  /** The answers were refused (edited arguments that do not fit, say): choose anew. */
  reopen(): void {
    for (const each of this.#open.peek()) each.choice.value = undefined;
  }

  answers(): WireResume[] {
    return this.#open.peek().map((each) => answer(each));
  }
}

function isExpired(approval: Approval, now = Date.now()): boolean {
  return approval.expiresAt !== undefined && approval.expiresAt.getTime() <= now;
}

function approval(interrupt: JsonObject, callId: string | undefined, call: WireCall | undefined): OpenApproval {
  const expires = typeof interrupt.expiresAt === "string" ? new Date(interrupt.expiresAt) : undefined;
  const given = valueIn(call?.function.arguments ?? "");
  const message = typeof interrupt.message === "string" ? interrupt.message : "";
  const isForOthers =
    ((interrupt.metadata as JsonObject | undefined)?.agui_gateway as JsonObject)?.approvers === "keys";
  return {
    id: String(interrupt.id),
    callId,
    toolName: call?.function.name ?? "",
    message: isForOthers || SAYS_NO_MORE.test(message) ? "" : message,
    arguments: isObject(given) ? given : {},
    schema: argumentsSchema(interrupt.responseSchema),
    expiresAt: expires && !Number.isNaN(expires.getTime()) ? expires : undefined,
    isForOthers,
    choice: signal(undefined),
  };
}

/** The schema of `editedArgs`, with the definitions that its references count from. */
function argumentsSchema(response: JsonValue | undefined): JsonObject | undefined {
  const schema = response as JsonObject | undefined;
  const edited = (schema?.properties as JsonObject | undefined)?.editedArgs as JsonObject | undefined;
  if (!schema || !edited) return undefined;
  const { $defs, definitions } = schema;
  return { ...edited, ...($defs !== undefined && { $defs }), ...(definitions !== undefined && { definitions }) };
}

function answer(approval: OpenApproval): WireResume {
  const choice = approval.choice.peek();
  if (!choice || isExpired(approval)) return { interruptId: approval.id, status: "cancelled" };
  const payload: JsonObject = choice.approved
    ? { approved: true, ...(choice.editedArgs && { editedArgs: choice.editedArgs }) }
    : { approved: false, ...(choice.reason && { reason: choice.reason }) };
  return { interruptId: approval.id, status: "resolved", payload };
}
