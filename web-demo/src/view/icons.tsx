/** The few icons there are: drawn as strokes in the colour of the text around, and never read out. */

const PATHS = {
  chat: "M5 5h14a1.5 1.5 0 0 1 1.5 1.5v9A1.5 1.5 0 0 1 19 17h-6.5L8 20.5V17H5a1.5 1.5 0 0 1-1.5-1.5v-9A1.5 1.5 0 0 1 5 5zM8 11h.01M12 11h.01M16 11h.01",
  send: "M12 19V5M5.5 11.5 12 5l6.5 6.5",
  stop: "M8 8h8v8H8z",
  attach: "m20 11.5-8.2 8.2a5 5 0 0 1-7.1-7.1L13 4.4a3.4 3.4 0 0 1 4.8 4.8l-8.2 8.1a1.7 1.7 0 0 1-2.4-2.4l7.4-7.4",
  copy: "M9 9h10v11H9zM15 9V4H5v11h4",
  check: "m5 12.5 4.5 4.5L19 7.5",
  close: "M6 6l12 12M18 6 6 18",
  edit: "M4 20h4L19 9l-4-4L4 16zM13.5 6.5l4 4",
  again: "M20 11a8 8 0 1 0-2.3 6.3M20 5v6h-6",
  chevron: "m9 6 6 6-6 6",
  down: "M12 5v14M5.5 12.5 12 19l6.5-6.5",
  wrench:
    "M14.5 6.5a4 4 0 0 1 5-1.9l-2.8 2.8 1.9 1.9 2.8-2.8a4 4 0 0 1-5.5 5L8.2 19.2a2.2 2.2 0 0 1-3.2-3.2l7.7-7.7a4 4 0 0 1 1.8-1.8z",
  window: "M4 5h16v14H4zM4 9h16M7 7h.01",
  shield: "M12 3.5 19 6v5.5c0 4.3-2.9 7.3-7 9-4.1-1.7-7-4.7-7-9V6zM9 12l2.2 2.2L15.2 10",
  thought: "M12 4a6 6 0 0 0-3.4 10.9V17h6.8v-2.1A6 6 0 0 0 12 4zM9.5 20h5",
  image: "M4 5h16v14H4zM4 16l4.5-4.5 4 4 3-3L20 17M15.5 9h.01",
  file: "M6 3.5h8l4 4v13H6zM14 3.5v4h4M9 12h6M9 16h6",
  list: "M9 6h11M9 12h11M9 18h11M4.5 6h.01M4.5 12h.01M4.5 18h.01",
  history: "M12 7.5V12l3 2M4.5 12a7.5 7.5 0 1 0 2.4-5.5L4.5 8.5M4.5 4.5v4h4",
  plus: "M12 5v14M5 12h14",
  trash: "M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13M10 11v5M14 11v5",
  alert: "M12 4 2.8 19.5h18.4zM12 10v4M12 17h.01",
  wifi: "M3 3l18 18M8.5 15.5a5 5 0 0 1 6 -.6M5 12a10 10 0 0 1 3.5-2.3M12 7.5A12 12 0 0 1 20 11M12 19h.01",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return <Drawing kind={name} path={PATHS[name]} />;
}

/** Any path in a square of 24, drawn as all icons are. */
export function Drawing({ kind, path }: { kind: string; path: string }) {
  return (
    <svg class={`agui-icon agui-icon-${kind}`} viewBox="0 0 24 24" aria-hidden="true">
      <path d={path} />
    </svg>
  );
}
