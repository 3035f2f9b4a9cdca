/**
 * The order of a stream's events: chunks become starts, contents and ends, and what AG-UI 1.0 forbids is refused.
 *
 * Below: AG-UI's words. One object follows one stream, across its interruptions. The rules are
 * those of HttpAgent 1.0.0, but for which subagent may touch what, which only says whose mistake something is.
 */
import type { WireEvent } from "./ag_ui";
import { UnreadableStreamError } from "./run_reader";

/** What events open, go on with and close. */
interface Life {
  /** How the types begin. */
  readonly kind: string;
  /** The member that says which one of its kind. */
  readonly member: string;
  /** The types that open it, go on with it, and close it. */
  readonly types: readonly string[];
}

const LIVES = [
  "TEXT_MESSAGE messageId START CONTENT END",
  "TOOL_CALL toolCallId START ARGS END",
  "REASONING_MESSAGE messageId START CONTENT END",
  "REASONING messageId START - END",
  "STEP stepName STARTED - FINISHED",
  "SUBAGENT subagentRunId STARTED - FINISHED ERROR",
].map((words): Life => {
  const [kind = "", member = "", ...ends] = words.split(" ");
  return { kind, member, types: ends.map((end) => `${kind}_${end}`) };
});
const OF_TYPE = new Map(LIVES.flatMap((life) => life.types.map((type) => [type, life] as const)));
/** What a chunk's kind expands to. */
const CHUNKS = new Map(LIVES.slice(0, 3).map((life) => [`${life.kind}_CHUNK`, life]));

/** These say nothing of the order, so a chunked message stays open over them. */
const BESIDE = /^(?:RAW|ACTIVITY_SNAPSHOT|ACTIVITY_DELTA|REASONING_ENCRYPTED_VALUE|SUBAGENT_STARTED)$/;
const WHOLE_RUN = /^(?:RUN_STARTED|RUN_FINISHED|RUN_ERROR|MESSAGES_SNAPSHOT)$/;
const OTHERS = /^(?:STATE_SNAPSHOT|STATE_DELTA|TOOL_CALL_RESULT|CUSTOM)$/;
const AGREED = ["role", "name", "toolCallName", "parentMessageId"];

interface Chunked {
  readonly type: string;
  readonly id: string;
  readonly first: WireEvent;
}

export class EventOrder {
  #phase: "new" | "running" | "finished" | "failed" = "new";
  #open = new Set<string>();
  /** What is being put together from chunks: one thing per subagent, "" the agent itself. */
  #chunked = new Map<string, Chunked>();

  /** Is a run under way that this stream has not told the end of? */
  get unfinished(): boolean {
    return this.#phase === "new" || this.#phase === "running";
  }

  /** The event as one or several that hold no chunk; none where the type is unknown. Raises UnreadableStreamError. */
  follow(event: WireEvent): WireEvent[] {
    const { type } = event;
    if (!(OF_TYPE.has(type) || CHUNKS.has(type) || BESIDE.test(type) || WHOLE_RUN.test(type) || OTHERS.test(type)))
      return [];
    const chunks = CHUNKS.get(type);
    const events = chunks ? this.#expand(event, chunks) : [...this.#interrupt(event), event];
    for (const each of events) this.#check(each);
    return events;
  }

  #check(event: WireEvent): void {
    const { type } = event;
    if (type === "RUN_STARTED") {
      if (this.#phase === "running") throw new UnreadableStreamError("RUN_STARTED while a run is under way");
      this.#open.clear();
      this.#phase = "running";
      return;
    }
    if (type === "RUN_ERROR" && this.#phase !== "failed") {
      this.#phase = "failed";
      return;
    }
    if (this.#phase !== "running") throw new UnreadableStreamError(`${type} in a run that is ${this.#phase}`);
    if (type === "RUN_FINISHED") {
      const [left] = this.#open;
      if (left !== undefined) throw new UnreadableStreamError(`RUN_FINISHED while ${left} is open`);
      this.#phase = "finished";
    }
    const life = OF_TYPE.get(type);
    if (life) this.#live(event, life);
  }

  #live(event: WireEvent, { kind, member, types }: Life): void {
    const owner = kind === "STEP" ? (event.subagentRunId ?? "") : "";
    const key = `${kind} ${owner} ${event[member]}`;
    const place = types.indexOf(event.type);
    const opens = place === 0;
    if (this.#open.has(key) === opens) {
      throw new UnreadableStreamError(`${event.type} of ${key}, which is ${opens ? "open" : "not open"}`);
    }
    if (opens) this.#open.add(key);
    if (place > 1) this.#open.delete(key);
  }

  /** The ends of the chunked messages that this event, which is no chunk, breaks off. */
  #interrupt(event: WireEvent): WireEvent[] {
    if (BESIDE.test(event.type)) return [];
    if (WHOLE_RUN.test(event.type)) return [...this.#chunked.keys()].flatMap((lane) => this.#close(lane));
    return this.#close(String(event.subagentRunId ?? ""));
  }

  #close(lane: string): WireEvent[] {
    const open = this.#chunked.get(lane);
    if (!open) return [];
    this.#chunked.delete(lane);
    const { member, types } = CHUNKS.get(open.type) as Life;
    return [{ type: types[2] as string, [member]: open.id, ...owned(open.first) }];
  }

  #expand(chunk: WireEvent, { member, types }: Life): WireEvent[] {
    const lane = this.#laneOf(chunk, member);
    const open = this.#chunked.get(lane);
    const events: WireEvent[] = [];
    let first = open?.first;
    if (open?.type === chunk.type && (chunk[member] ?? open.id) === open.id) {
      const other = AGREED.find((name) => chunk[name] !== undefined && chunk[name] !== established(open.first, name));
      if (other) throw new UnreadableStreamError(`a ${chunk.type} has another ${other} than its first`);
    } else {
      events.push(...this.#close(lane));
      first = chunk;
      if (chunk[member] === undefined || (chunk.type === "TOOL_CALL_CHUNK" && chunk.toolCallName === undefined)) {
        throw new UnreadableStreamError(`the first ${chunk.type} does not name what it is of`);
      }
      this.#chunked.set(lane, { type: chunk.type, id: String(chunk[member]), first: chunk });
      const { delta: _, ...start } = chunk;
      events.push({ ...start, type: types[0] as string });
    }
    if (chunk.delta !== undefined || (chunk.metadata !== undefined && events.length === 0)) {
      const { metadata } = chunk;
      const id = this.#chunked.get(lane)?.id as string;
      const content = {
        type: types[1] as string,
        [member]: id,
        delta: chunk.delta ?? "",
        ...owned(first as WireEvent),
      };
      events.push(metadata === undefined ? content : { ...content, metadata });
    }
    return events;
  }

  #laneOf(chunk: WireEvent, member: string): string {
    const lanes = [...this.#chunked].filter(([, open]) => open.type === chunk.type);
    const named = lanes.find(([, open]) => open.id === chunk[member]);
    if (named) return named[0];
    if (chunk[member] !== undefined || chunk.subagentRunId !== undefined) return String(chunk.subagentRunId ?? "");
    if (lanes.length > 1 && !lanes.some(([lane]) => lane === "")) {
      throw new UnreadableStreamError(`a ${chunk.type} may belong to several`);
    }
    return lanes.length === 1 ? (lanes[0]?.[0] ?? "") : "";
  }
}

function established(first: WireEvent, name: string): unknown {
  return first[name] ?? (name === "role" ? "assistant" : undefined);
}

function owned(event: WireEvent): Partial<WireEvent> {
  return event.subagentRunId === undefined ? {} : { subagentRunId: event.subagentRunId };
}
