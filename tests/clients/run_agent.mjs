// Real HttpAgents of one AG-UI client, driven by JSON lines: `node run_agent.mjs 1.0.0`, commands on stdin, answers and
// reports on stdout. tests/agui_client.py is the other end.
//
// A command is {"id", "op", "agent", ...}; its answer {"id", "ok": true, ...} or {"id", "ok": false, "error", ...}.
// Commands are handled concurrently: an abort is answered while its run is under way.
//   create      url, threadId?, headers?, initialMessages?, initialState?  ->  threadId
//   run         runId?, tools?, context?, forwardedProps?, resume?         ->  what `settled` below gives
//   waitFor     count, type?: until the latest run has shown that many events (of that type)  ->  events so far
//   addMessage  message        setMessages  messages        setState  state        abort
//   quit        (as the end of stdin does)
// Reports come unasked: {"event": "console", "level", "message"} for what the client complains about, and
// {"event": "unhandled", "message"} for a rejection or exception that nobody caught (a stream that breaks leaves one).

import { createInterface } from "node:readline";
import { format } from "node:util";

const write = (line) => process.stdout.write(JSON.stringify(line) + "\n");

for (const level of ["log", "info", "debug", "warn", "error"]) {
  console[level] = (...values) => write({ event: "console", level, message: format(...values) });
}
for (const kind of ["unhandledRejection", "uncaughtException"]) {
  process.on(kind, (error) => write({ event: "unhandled", message: String(error?.message ?? error) }));
}

const { HttpAgent } = await import(`client-${process.argv[2]}`);

/** name -> {client: the HttpAgent, run: its latest run: {events, settled, waiters}} */
const agents = new Map();

const operations = {
  create(command) {
    const { agent: name, url, threadId, headers, initialMessages, initialState } = command;
    const client = new HttpAgent({ url, threadId, headers, initialMessages, initialState });
    agents.set(name, { client, run: { events: [], settled: true, waiters: new Set() } });
    return { threadId: client.threadId };
  },

  async run(command) {
    const agent = find(command.agent);
    const run = { events: [], settled: false, waiters: new Set() };
    agent.run = run;
    const seen = { runError: null, pendingToolCallIds: null };
    const subscriber = {
      onEvent({ event }) {
        run.events.push(structuredClone(event));
        wake(run);
      },
      onRunErrorEvent({ event }) {
        seen.runError = event;
      },
      onRunFinishedEvent({ pendingToolCallIds }) {
        seen.pendingToolCallIds = pendingToolCallIds ?? null; // 1.0.0 only
      },
    };
    const { runId, tools, context, forwardedProps, resume } = command;
    try {
      const { result, newMessages } = await agent.client.runAgent(
        { runId, tools, context, forwardedProps, resume },
        subscriber,
      );
      return { ...settled(agent.client, run, seen), result: result ?? null, newMessages };
    } catch (error) {
      return {
        ...settled(agent.client, run, seen),
        ok: false,
        error: String(error?.message ?? error),
        status: error?.status ?? null,
        payload: error?.payload ?? null,
      };
    } finally {
      run.settled = true;
      wake(run);
    }
  },

  waitFor({ agent: name, count, type }) {
    const { run } = find(name);
    return new Promise((resolve, reject) => {
      const waiter = () => {
        const shown = run.events.filter((event) => type == null || event.type === type).length;
        if (shown < count && !run.settled) return;
        run.waiters.delete(waiter);
        if (shown >= count) resolve({ events: run.events });
        else reject(new Error(`the run was over after ${shown} of ${count} ${type ?? "events"}`));
      };
      run.waiters.add(waiter);
      waiter();
    });
  },

  addMessage({ agent, message }) {
    find(agent).client.addMessage(message);
  },

  setMessages({ agent, messages }) {
    find(agent).client.setMessages(messages);
  },

  setState({ agent, state }) {
    find(agent).client.setState(state);
  },

  abort({ agent }) {
    find(agent).client.abortRun();
  },
};

function find(name) {
  const agent = agents.get(name);
  if (agent === undefined) throw new Error(`no agent ${JSON.stringify(name)} was created`);
  return agent;
}

function wake(run) {
  for (const waiter of run.waiters) waiter();
}

function settled(client, run, seen) {
  return {
    events: run.events,
    messages: client.messages,
    state: client.state,
    pendingInterrupts: client.pendingInterrupts ?? null, // unknown to 0.0.47
    ...seen,
  };
}

async function handle(command) {
  try {
    const operation = operations[command.op];
    if (operation === undefined) throw new Error(`no operation ${JSON.stringify(command.op)}`);
    write({ id: command.id, ok: true, ...(await operation(command)) });
  } catch (error) {
    write({ id: command.id, ok: false, error: String(error?.message ?? error) });
  }
}

// the driver escapes everything beyond ASCII: readline would also break lines at U+2028
const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => {
  const command = JSON.parse(line);
  if (command.op === "quit") process.exit(0);
  void handle(command);
});
lines.on("close", () => process.exit(0));
