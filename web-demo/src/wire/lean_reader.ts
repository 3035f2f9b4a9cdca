/**
 * The smallest reader of runs: the same messages, state and events as with HttpAgent, for a tenth of its size.
 *
 * Below: the frames, their order and what they leave behind (`lean_*`); a connection. It is what the widget has.
 */
import { withNumbers } from "../chat/json";
import { forwardedProps, type WireEvent, type WireInput, type WireMessage } from "./ag_ui";
import type { Connection } from "./connection";
import { eventStream, type Watch } from "./event_stream";
import { RunFold } from "./lean_fold";
import { FrameReader } from "./lean_frames";
import { EventOrder } from "./lean_order";
import { REQUEST_ID, refusal } from "./problem";
import { ConnectionLostError, type RunObserver, type RunReader } from "./run_reader";

const PROTOCOL_VERSION = "1.0";

export class LeanReader implements RunReader {
  constructor(
    readonly connection: Connection,
    readonly agentId: string,
    readonly watch: Omit<Watch, "signal"> = {},
  ) {}

  async read(kind: "run" | "connect", input: WireInput, observer: RunObserver, signal: AbortSignal): Promise<void> {
    try {
      await this.#read(kind, input, observer, signal);
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  async #read(kind: "run" | "connect", input: WireInput, observer: RunObserver, signal: AbortSignal): Promise<void> {
    const answer = await this.connection.fetch(this.connection.agentUrl(this.agentId, kind), {
      method: "POST",
      headers: {
        ...(await this.connection.headers()),
        "Content-Type": "application/json",
        Accept: "text/event-stream",
      },
      body: withNumbers(JSON.stringify(sent(input))),
      signal,
    });
    if (!answer.ok) throw refusal(answer.status, await answer.text(), answer.headers);
    observer.onAnswer?.(answer.headers.get(REQUEST_ID) ?? undefined);
    const stream = eventStream(answer, { ...this.watch, signal });
    const order = new EventOrder();
    const fold = new RunFold(structuredClone(input.messages) as WireMessage[], input.state);
    const take = eventTaker(order, fold, observer);
    const frames = new FrameReader();
    const body = stream.response.body?.getReader();
    for (let read = await body?.read(); read && !read.done; read = await body?.read()) {
      if (signal.aborted) return;
      take(frames.push(read.value));
    }
    if (signal.aborted) return;
    if (stream.lost) throw stream.lost;
    take(frames.end());
    if (order.unfinished) throw new ConnectionLostError("the stream ended before its run did");
  }
}

/** As HttpAgent sends it: what only the page shows stays here. */
function sent(input: WireInput): object {
  const messages = input.messages.filter((message) => message.role !== "activity");
  const body = { protocolVersion: PROTOCOL_VERSION, ...input, messages, forwardedProps: forwardedProps(input) };
  return { ...body, seen: undefined };
}

const SHOWN = /^(?:TEXT|TOOL|REASONING_MESSAGE|REASONING_ENCRYPTED|MESSAGES|ACTIVITY|RUN_STARTED)/;

/** Takes in a piece of the stream, and tells of each event after what it did. */
function eventTaker(order: EventOrder, fold: RunFold, observer: RunObserver) {
  return (events: readonly WireEvent[]): void => {
    for (const event of events) {
      for (const each of order.follow(event)) {
        const before = fold.state;
        fold.apply(each);
        if (SHOWN.test(each.type)) observer.onMessages(fold.messages);
        if (fold.state !== undefined && (each.type === "STATE_SNAPSHOT" || fold.state !== before)) {
          observer.onState(fold.state);
        }
        observer.onEvent(each);
      }
    }
  };
}
