/**
 * What the host page hears: DOM events of the element, each `agui-chat:<name>`, that rise up to the document. Below: the
 * contract.
 */
import type { Problem } from "../chat/contract";
import type { ChatNews } from "./observed_reader";

/** By name, what `event.detail` holds. */
export interface HostEvents extends ChatNews {
  /** The element is on the page, and its methods are there. */
  ready: Record<string, never>;
  open: Record<string, never>;
  close: Record<string, never>;
  /** Answers that came while the panel was closed; 0 once it was opened. */
  unread: { count: number };
  /** Another thread is shown. */
  thread: { threadId: string };
  /** Something went wrong, and the person was told. */
  error: Problem;
}

export type HostEventName = keyof HostEvents;

export function tellHost<Name extends HostEventName>(element: Element, name: Name, detail: HostEvents[Name]): void {
  element.dispatchEvent(new CustomEvent(`agui-chat:${name}`, { detail, bubbles: true, composed: true }));
}
