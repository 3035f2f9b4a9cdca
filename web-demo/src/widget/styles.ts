/** The widget's style sheets, made once for all elements. Constructed, not inline: no policy of a page forbids them. */
import chat from "../view/chat.css?inline";
import shell from "./shell.css?inline";

let sheets: CSSStyleSheet[] | undefined;

export function styleSheets(): CSSStyleSheet[] {
  sheets ??= [chat, shell].map((text) => {
    const sheet = new CSSStyleSheet();
    // a rem is what the page makes of it, and many pages make it 10 px
    sheet.replaceSync(text.replace(/([\d.]+)rem\b/g, (_, size) => `${Number(size) * 16}px`));
    return sheet;
  });
  return sheets;
}
