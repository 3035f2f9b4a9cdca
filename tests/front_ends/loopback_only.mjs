// Loaded before a front end's server: whatever it wants to tell other machines, it cannot.
import net from "node:net";

const connect = net.Socket.prototype.connect;

net.Socket.prototype.connect = function (...given) {
  const [options] = Array.isArray(given[0]) ? given[0] : given;
  const host = (typeof options === "object" ? options.host : given[1]) ?? "127.0.0.1";
  if (!["127.0.0.1", "localhost"].includes(host)) throw new Error(`only this machine is spoken to, not ${host}`);
  return connect.apply(this, given);
};
