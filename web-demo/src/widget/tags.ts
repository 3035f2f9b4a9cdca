/**
 * The script tags that this widget came with, and the element that each of them stands for.
 *
 * Below: the settings. A module has no `document.currentScript` and runs once however many tags name it, so the tags are
 * looked for by their address: those that are there, and those that come later, whose `load` is heard.
 */

import { ATTRIBUTES } from "./settings";

/** Call `found` once for each script tag that has this address, now and later. */
export function watchTags(url: string, found: (tag: HTMLScriptElement) => void): void {
  const seen = new WeakSet<HTMLScriptElement>();
  const look = (tag: unknown) => {
    if (!(tag instanceof HTMLScriptElement) || tag.src !== url || seen.has(tag)) return;
    seen.add(tag);
    found(tag);
  };
  const all = () => {
    for (const tag of document.querySelectorAll("script[src]")) look(tag);
  };
  all();
  // a tag that came after this module had run only says that it is loaded; and this does not bubble
  document.addEventListener("load", (event) => look(event.target), true);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", all, { once: true });
}

/**
 * The element for a tag: in the element that `data-target` (a CSS selector) finds, else at the end of the page. A tag
 * without `data-agent` stands for none: whoever wrote it places <agui-chat> by hand.
 */
export function elementForTag(tag: HTMLScriptElement, gateway: string): HTMLElement | undefined {
  const { target, ...data } = tag.dataset;
  if (data.agent === undefined) return undefined;
  const element = document.createElement("agui-chat");
  for (const name of ["id", ...ATTRIBUTES]) {
    const value = data[name];
    if (value !== undefined) element.setAttribute(name, value);
  }
  element.setAttribute("gateway", data.gateway ?? gateway);
  const place = target === undefined ? document.body : document.querySelector(target);
  if (place) place.append(element);
  else console.error(`agui-chat: nothing on this page fits data-target=${JSON.stringify(target)}`);
  return element;
}

/** The gateway that a widget came from: the address without its last part, so that a proxy may serve it below a path. */
export function gatewayOf(widgetUrl: string): string {
  return new URL(".", widgetUrl).href.replace(/\/$/, "");
}
