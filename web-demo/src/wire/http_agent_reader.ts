/**
 * Runs read by an unmodified HttpAgent of @ag-ui/client: what a page does that has no budget to keep.
 *
 * Below: the connection, the watched stream. The agent does the work: it sends the input, checks each event, and keeps
 * messages and state. One agent serves one run; the conversation keeps what lasts.
 */
import { HttpAgent, type Message, type RunAgentParameters } from "@ag-ui/client";
import type { JsonValue } from "../chat/contract";
import { withNumbers } from "../chat/json";
import { forwardedProps, type WireEvent, type WireInput, type WireMessage } from "./ag_ui";
import type { Connection } from "./connection";
import { type EventStream, eventStream } from "./event_stream";
import { FileShelf } from "./file_shelf";
import { withMergedDeltas } from "./merged_deltas";
import { REQUEST_ID, refusal } from "./problem";
import { ConnectionLostError, type RunObserver, type RunReader, UnreadableStreamError } from "./run_reader";

export class HttpAgentReader implements RunReader {
  constructor(
    private readonly connection: Connection,
    private readonly agentId: string,
  ) {}

  async read(kind: "run" | "connect", input: WireInput, observer: RunObserver, signal: AbortSignal): Promise<void> {
    const reading = new Reading(this.connection, observer, signal);
    await reading.read(this.connection.agentUrl(this.agentId, kind), input);
  }
}

class Reading {
  readonly #shelf = new FileShelf();
  #stream: EventStream | undefined;
  #refusal: Error | undefined;
  #failure: Error | undefined;
  #ended = false;

  constructor(
    private readonly connection: Connection,
    private readonly observer: RunObserver,
    private readonly signal: AbortSignal,
  ) {}

  async read(url: string, input: WireInput): Promise<void> {
    const agent = new HttpAgent({
      url,
      headers: await this.connection.headers(),
      threadId: input.threadId,
      initialMessages: this.#shelf.lighten(input.messages) as Message[],
      fetch: (to, init) => this.#fetch(to, init),
    });
    agent.state = input.state; // not by the constructor: that makes {} of undefined, which would replace the thread's
    if (this.signal.aborted) return;
    const stop = () => agent.abortRun();
    this.signal.addEventListener("abort", stop);
    try {
      await this.#run(agent, input);
    } catch (error) {
      this.#failure ??= error instanceof Error ? error : new Error(String(error));
    } finally {
      this.signal.removeEventListener("abort", stop);
    }
    if (this.signal.aborted) return;
    if (this.#refusal) throw this.#refusal;
    if (this.#ended) return;
    if (this.#failure && !this.#stream?.lost) throw new UnreadableStreamError(this.#failure.message);
    throw this.#stream?.lost ?? new ConnectionLostError("the stream ended before the run did");
  }

  async #run(agent: HttpAgent, input: WireInput): Promise<void> {
    const { observer, signal } = this;
    const { runId, tools, context, resume } = input;
    const wishes = { forwardedProps: forwardedProps(input), ...(resume && { resume }) };
    const parameters = { runId, tools, context, ...wishes } as RunAgentParameters;
    await agent.runAgent(parameters, {
      onEvent: ({ event }) => {
        if (signal.aborted) return;
        this.#ended ||= event.type === "RUN_FINISHED" || event.type === "RUN_ERROR";
        observer.onEvent(event as unknown as WireEvent);
      },
      onMessagesSnapshotEvent: ({ event }) => {
        event.messages = this.#shelf.lighten(event.messages as WireMessage[]) as Message[];
      },
      onMessagesChanged: ({ messages }) => {
        if (!signal.aborted) observer.onMessages(this.#shelf.restore(messages as unknown as WireMessage[]));
      },
      onStateChanged: ({ state }) => {
        if (!signal.aborted) observer.onState(state as JsonValue);
      },
      onRunFailed: ({ error }) => {
        this.#failure = error;
        const quietly: object = { stopPropagation: true }; // else it would also go to the console
        return quietly;
      },
    });
  }

  async #fetch(url: string, init: RequestInit): Promise<Response> {
    const { signal } = this;
    try {
      const body = withNumbers(this.#shelf.fill(String(init.body)));
      const response = await this.connection.fetch(url, { ...init, body });
      if (!response.ok) {
        this.#refusal = refusal(response.status, await response.clone().text(), response.headers);
      }
      this.observer.onAnswer?.(response.headers.get(REQUEST_ID) ?? undefined);
      this.#stream = eventStream(response.ok ? withMergedDeltas(response) : response, { signal });
      return this.#stream.response;
    } catch (error) {
      if (error instanceof ConnectionLostError) this.#refusal = error;
      throw error;
    }
  }
}
