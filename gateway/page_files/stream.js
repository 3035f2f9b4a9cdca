// A run's events: server-sent events, one JSON object a frame. A stream that breaks is taken up behind the last `id:`.

const ATTEMPTS = 5;
const PAUSE_MILLISECONDS = 500;
const TERMINAL = new Set(["RUN_FINISHED", "RUN_ERROR"]);

/** The events of a POST to `url` until the run's terminal one. Throws what the gateway answers instead of a stream. */
export async function* events(url, input, signal) {
  let response = await ask(url, {
    method: "POST",
    headers: { "content-type": "application/json", accept: "text/event-stream" },
    body: JSON.stringify({ protocolVersion: "1.0", tools: [], context: [], forwardedProps: {}, ...input }),
    signal,
  });
  let last;
  let runId = input.runId;
  for (let attempt = 0; ; ) {
    try {
      for await (const { id, event } of frames(response)) {
        last = id ?? last;
        runId = event.runId ?? runId;
        attempt = 0;
        yield event;
        if (TERMINAL.has(event.type)) return;
      }
    } catch (error) {
      if (signal.aborted) throw error;
    }
    response = undefined;
    while (!response) {
      if (last === undefined || attempt++ === ATTEMPTS) throw new Error("The connection to the gateway was lost.");
      await new Promise((resolve) => setTimeout(resolve, attempt * PAUSE_MILLISECONDS));
      response = await ask(`/runs/${encodeURIComponent(runId)}/events?after=${last}`, { signal }).catch((error) => {
        if (signal.aborted || error.status) throw error;
      });
    }
  }
}

async function ask(url, options) {
  const response = await fetch(url, options);
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({}));
  const error = new Error(problem.detail ?? `The gateway answered ${response.status}.`);
  throw Object.assign(error, { status: response.status });
}

async function* frames(response) {
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const lines = block.split("\n");
      const data = lines.find((line) => line.startsWith("data: "));
      if (data) yield { id: lines.find((line) => line.startsWith("id: "))?.slice(4), event: JSON.parse(data.slice(6)) };
    }
  }
}
