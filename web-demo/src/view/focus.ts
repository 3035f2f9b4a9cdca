/** Where the keyboard is, in a document and in a shadow root alike. */

/** The element that has the focus in the tree of `element`. */
function focused(element: Element): Element | null {
  const root = element.getRootNode() as Document | ShadowRoot;
  return root.activeElement;
}

/**
 * Moves the focus to `target`, where that disturbs nobody: the person is in this chat, or nowhere, and is not in the
 * middle of writing.
 */
export function takeFocus(target: HTMLElement): void {
  const now = focused(target);
  const writing =
    now instanceof HTMLTextAreaElement || now instanceof HTMLInputElement ? now.value.trim() !== "" : false;
  const here = now === null || now === document.body || target.closest(".agui")?.contains(now) === true;
  const elsewhere =
    target.getRootNode() !== document && document.activeElement !== (target.getRootNode() as ShadowRoot).host;
  if (here && !writing && !(elsewhere && document.activeElement !== document.body))
    target.focus({ preventScroll: true });
}

/** Leaves an element that is about to go away, for the conversation: nobody who uses the keyboard is thrown out of it. */
export function leave(element: Element): void {
  element.closest(".agui")?.querySelector<HTMLElement>(".agui-view")?.focus({ preventScroll: true });
}

/** The key was for this alone: what is around it, a list or a whole panel, does not close with it. */
export function stay(event: Event): void {
  event.preventDefault();
  event.stopPropagation();
}

/** Whether writing brings up a keyboard on the screen, which nobody asked for. */
export function hasTouchKeyboard(): boolean {
  return matchMedia("(pointer: coarse)").matches;
}
