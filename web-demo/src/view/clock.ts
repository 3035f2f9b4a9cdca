/** The time of day, for what counts down. */
import { useEffect, useState } from "preact/hooks";

/** Now; anew each second shortly before `until`, each quarter minute else, and not at all behind it. */
export function useNow(until: Date | undefined): Date {
  const [now, setNow] = useState(() => new Date());
  useEffect(() => {
    if (until === undefined || until <= now) return;
    const left = until.getTime() - Date.now(); // by now: it may be long since this was rendered
    const timer = setTimeout(() => setNow(new Date()), left <= 0 ? 0 : left < 90_000 ? 1_000 : 15_000);
    return () => clearTimeout(timer);
  }, [until, now]);
  return now;
}
