/** A real gateway for tests, as a process of its own on a free port, with agents that play scripts. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const PYTHON = process.env.GATEWAY_PYTHON ?? resolve(import.meta.dirname, "../../.venv/bin/python");
const DEADLINE_MILLISECONDS = 45_000; // pytest runs beside these tests

export type Step = { readonly [kind: string]: unknown };

/** An agent whose model plays the first rule whose words are in the last user message, else says the message back. */
export interface ScriptedAgent {
  readonly id: string;
  /** By a word of the user's message: the answer to it, the answer to that answer's tool results, ... */
  readonly answers?: { readonly [word: string]: readonly (readonly Step[])[] };
  readonly tools?: readonly object[];
  readonly more?: object;
}

export class GatewayProcess {
  #child: ChildProcess | undefined;

  private constructor(
    private readonly directory: string,
    readonly port: number,
  ) {}

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  static async start(agents: readonly ScriptedAgent[], server: object = {}): Promise<GatewayProcess> {
    const directory = await mkdtemp(join(tmpdir(), "gateway-"));
    const gateway = new GatewayProcess(directory, await freePort());
    const configuration = {
      server: { host: "127.0.0.1", port: gateway.port, disconnect_grace_seconds: 15, ...server },
      store: "sqlite:///gateway.db",
      agents: agents.map(configured),
    };
    await writeFile(join(directory, "gateway.yaml"), JSON.stringify(configuration));
    await writeFile(join(directory, "shop.py"), SHOP);
    await gateway.begin();
    return gateway;
  }

  /** Serve (again, after a kill) at the same address with the same store. */
  async begin(): Promise<void> {
    const arguments_ = ["-m", "gateway", "serve", "--config", join(this.directory, "gateway.yaml")];
    const child = spawn(PYTHON, arguments_, { cwd: this.directory, stdio: ["ignore", "pipe", "pipe"] });
    this.#child = child;
    let said = "";
    await new Promise<void>((ready, failed) => {
      const late = setTimeout(() => failed(new Error(`the gateway did not start: ${said}`)), DEADLINE_MILLISECONDS);
      const hear = (words: Buffer) => {
        said += words.toString();
        if (!said.includes(this.url)) return;
        clearTimeout(late);
        ready();
      };
      child.stdout?.on("data", hear);
      child.stderr?.on("data", (words: Buffer) => {
        said += words.toString();
      });
      child.once("exit", () => failed(new Error(`the gateway went away: ${said}`)));
    });
  }

  async kill(): Promise<void> {
    const child = this.#child;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, "exit");
    child.kill("SIGKILL");
    await gone;
  }

  async stop(): Promise<void> {
    await this.kill();
    await rm(this.directory, { recursive: true, force: true });
  }
}

const SHOP = `
from gateway.errors import ToolError
from gateway.tool import ToolContext

def refund(order: str, amount: int) -> str:
    """Refund an order."""
    return f"Refunded {amount} for {order}."

def ship(order_id: int, note: str) -> str:
    """Ship an order."""
    return f"Shipped {order_id!r} {note}."

def broken() -> str:
    """Fail."""
    raise ToolError("the shelf is empty")

def add_to_list(item: str, context: ToolContext) -> str:
    """Add an item to the shared list."""
    state = context.state.value if isinstance(context.state.value, dict) else {}
    context.state.replace({**state, "list": [*state.get("list", []), item]})
    return f"Added {item}."
`;

function configured({ id, answers = {}, tools = [], more = {} }: ScriptedAgent): object {
  const rules = Object.entries(answers).flatMap(([word, turns]) =>
    turns.map((response, turn) => ({ when: { last_user_contains: word, turn }, response })),
  );
  const model_parameters = { rules, responses: [[{ text: "{{user}}" }]] };
  return { id, model: { model_provider: "scripted", model_id: "script", model_parameters }, tools, ...more };
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const port = typeof address === "object" && address ? address.port : 0;
  server.close();
  await once(server, "close");
  return port;
}
