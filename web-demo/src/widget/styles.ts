/** The widget's style sheets, made once for all elements. Constructed, not inline: no policy of a page forbids them. */
import chat from "../view/chat.css?inline";
import shell from "./shell.css?inline";

let sheets: CSSStyleSheet[] | undefined;

export function styleSheets(): CSSStyleSheet[] {
  sheets ??= [chat, shell].map((text) => {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(text);
    return sheet;
  });
  return sheets;
}
