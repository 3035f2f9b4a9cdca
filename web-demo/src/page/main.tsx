/** The page: a chat with the gateway that serves it. */
import "../view/chat.css";
import "./page.css";
import { render } from "preact";
import { wordsIn } from "../chat/texts";
import { pageEnglish } from "../chat/texts/en_page";
import { TextsContext } from "../view/texts";
import { Session } from "./session";
import { Shell } from "./shell";
import { pageTools } from "./tools";

const root = document.getElementById("app");
if (root !== null) {
  const session = new Session(new URL(".", location.href).href, pageTools);
  const page = (
    <TextsContext.Provider value={wordsIn("en", pageEnglish)}>
      <Shell session={session} />
    </TextsContext.Provider>
  );
  render(page, root);
  void session.start();
}
