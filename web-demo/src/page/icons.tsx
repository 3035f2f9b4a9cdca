/** What the page draws besides the chat's icons. */
import { Drawing } from "../view/icons";

const PATHS = {
  menu: "M4 7h16M4 12h16M4 17h16",
  side: "M4 5h16v14H4zM9.5 5v14",
  panel: "M4 5h16v14H4zM14.5 5v14",
  search: "M10.5 4a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13zM15.5 15.5 20 20",
  sun: "M12 8a4 4 0 1 1 0 8 4 4 0 0 1 0-8zM12 2.5v2M12 19.5v2M2.5 12h2M19.5 12h2M5.3 5.3l1.4 1.4M17.3 17.3l1.4 1.4M5.3 18.7l1.4-1.4M17.3 6.7l1.4-1.4",
  moon: "M19.5 14.5A8 8 0 0 1 9.5 4.5a8 8 0 1 0 10 10z",
  auto: "M4 5h16v11H4zM9 20h6M12 16v4",
  key: "M7.5 15.5a3.5 3.5 0 1 1 0-7 3.5 3.5 0 0 1 0 7zM11 12h9.5v3.5M16.5 12v2.5",
} as const;

type PageIconName = keyof typeof PATHS;

export function PageIcon({ name }: { name: PageIconName }) {
  return <Drawing kind={name} path={PATHS[name]} />;
}
