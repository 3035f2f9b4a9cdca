/** Which of the page's sides are open. On a narrow page they lie over the chat, one at a time. */
import { effect, signal } from "@preact/signals";

const wideEnough = matchMedia("(min-width: 56rem)");
const veryWide = matchMedia("(min-width: 76rem)");

/** Whether there is no room beside the chat. */
export const narrow = signal(!wideEnough.matches);
export const sidebar = signal(wideEnough.matches);
export const panel = signal(veryWide.matches);

wideEnough.addEventListener("change", ({ matches }) => {
  narrow.value = !matches;
  sidebar.value = matches;
  if (!matches) panel.value = false;
});
veryWide.addEventListener("change", ({ matches }) => {
  panel.value = matches;
});

effect(() => {
  if (narrow.value && sidebar.value) panel.value = false;
});

export function showPanel(): void {
  if (narrow.peek()) sidebar.value = false;
  panel.value = true;
}

export function closePanel(): void {
  panel.value = false;
}
