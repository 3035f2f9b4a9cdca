/** The page: a chat with the gateway that serves it. */
import "../view/chat.css";
import "./page.css";
import { render } from "preact";
import { TextsContext } from "../view/texts";
import { speak, words } from "./language";
import { Session } from "./session";
import { Shell } from "./shell";
import { pageTools } from "./tools";

const root = document.getElementById("app");
if (root !== null) {
  const baseUrl = new URL(".", location.href).href.replace(/\/$/, "");
  const session = new Session(baseUrl, pageTools);
  void session.start();
  await speak(baseUrl); // nothing is said in one language and then in another
  const page = (
    <TextsContext.Provider value={words.peek()}>
      <Shell session={session} />
    </TextsContext.Provider>
  );
  render(page, root);
}
