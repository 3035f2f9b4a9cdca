// Loaded before a front end's server: it can speak to this machine alone, and says where it listens.
import net from "node:net";

const { connect } = net.Socket.prototype;
net.Socket.prototype.connect = function (...given) {
  const [options] = Array.isArray(given[0]) ? given[0] : given;
  const host = (typeof options === "object" ? options.host : given[1]) ?? "127.0.0.1";
  if (!["127.0.0.1", "localhost"].includes(host)) throw new Error(`only this machine is spoken to, not ${host}`);
  return connect.apply(this, given);
};

const { listen } = net.Server.prototype;
net.Server.prototype.listen = function (...given) {
  this.once("listening", () => console.log(`listening at http://127.0.0.1:${this.address().port}`));
  return listen.apply(this, given);
};
