/** The page: a chat with the gateway that serves it. */
import "../view/chat.css";
import "./page.css";
import { render } from "preact";
import { Session } from "./session";
import { Shell } from "./shell";
import { pageTools } from "./tools";

const root = document.getElementById("app");
if (root !== null) {
  const session = new Session(new URL(".", location.href).href, pageTools);
  render(<Shell session={session} />, root);
  void session.start();
}
