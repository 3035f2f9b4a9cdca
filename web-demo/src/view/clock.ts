/** The time of day, for what counts down. */
import { useEffect, useState } from "preact/hooks";

/** Now; anew each second shortly before `until`, each quarter minute else, and not at all behind it. */
export function useNow(until: Date | undefined): Date {
  const [now, setNow] = useState(() => new Date());
  const left = until === undefined ? 0 : until.getTime() - now.getTime();
  useEffect(() => {
    if (left <= 0) return;
    const timer = setTimeout(() => setNow(new Date()), left < 90_000 ? 1_000 : 15_000);
    return () => clearTimeout(timer);
  }, [left]);
  return now;
}
