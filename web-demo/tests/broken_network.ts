/** A network between a page and a gateway that a test can cut: a proxy that passes bytes on, or does not. */
import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";
import { signal } from "@preact/signals";

export class BrokenNetwork {
  readonly #sockets = new Set<Socket>();
  #isCut = false;
  #isDeaf = false;
  /** How many connections were made. */
  readonly connections = signal(0);
  /** How often an answer did not arrive. */
  readonly unheard = signal(0);

  private constructor(
    private readonly server: Server,
    readonly url: string,
  ) {}

  static async before(port: number): Promise<BrokenNetwork> {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const address = server.address();
    const own = typeof address === "object" && address ? address.port : 0;
    const network = new BrokenNetwork(server, `http://127.0.0.1:${own}`);
    server.on("connection", (client) => network.#pass(client, port));
    return network;
  }

  /** Break every connection, and take no new ones until `mend`. */
  cut(): void {
    this.#isCut = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  /** What is sent arrives, and what is answered does not, until `mend`. */
  deafen(): void {
    this.#isDeaf = true;
  }

  mend(): void {
    this.#isCut = this.#isDeaf = false;
  }

  async close(): Promise<void> {
    this.cut();
    this.server.close();
    await once(this.server, "close");
  }

  #pass(client: Socket, port: number): void {
    this.connections.value++;
    if (this.#isCut) {
      client.destroy();
      return;
    }
    const gateway = connect(port, "127.0.0.1");
    for (const [from, to] of [
      [client, gateway],
      [gateway, client],
    ] as const) {
      this.#sockets.add(from);
      from.on("data", (bytes) => {
        if (this.#isDeaf && from === gateway) this.unheard.value++;
        else to.write(bytes);
      });
      from.on("end", () => to.end());
      from.on("error", () => to.destroy());
      from.on("close", () => {
        this.#sockets.delete(from);
        to.destroy();
      });
    }
  }
}
