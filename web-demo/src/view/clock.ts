/** The time of day, for what counts down. */
import { useEffect, useState } from "preact/hooks";

/** Now; anew each second shortly before `until`, each quarter minute else, and not at all behind it. */
export function useNow(until: Date | undefined): Date {
  const [rounds, setRounds] = useState(0);
  const now = new Date();
  useEffect(() => {
    if (until === undefined || until <= now) return;
    const timer = setTimeout(() => setRounds(rounds + 1), until.getTime() - Date.now() < 90_000 ? 1_000 : 15_000);
    return () => clearTimeout(timer);
  }, [until, rounds]);
  return now;
}
