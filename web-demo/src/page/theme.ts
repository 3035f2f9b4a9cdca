/** Light, dark, or as the system has it; kept for the next visit. */
import { effect, signal } from "@preact/signals";

export const THEMES = ["auto", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

const KEY = "agui-theme";

export const theme = signal<Theme>(remembered());

effect(() => {
  document.documentElement.dataset.theme = theme.value;
  try {
    localStorage.setItem(KEY, theme.value);
  } catch {
    // Storage is switched off: it holds for this visit.
  }
});

function remembered(): Theme {
  try {
    const kept = localStorage.getItem(KEY);
    return THEMES.find((each) => each === kept) ?? "auto";
  } catch {
    return "auto";
  }
}
