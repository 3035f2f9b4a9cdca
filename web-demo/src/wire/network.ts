/**
 * Is there a network, and when is it worth another try? Below: nothing. Outside a browser there always is one.
 */

const FIRST_PAUSE_MILLISECONDS = 500;
const LONGEST_PAUSE_MILLISECONDS = 15_000;
/** Behind this much silence a tab that comes back does not trust its connection; the gateway speaks every 15 s. */
export const STALE_MILLISECONDS = 20_000;

export function isOffline(): boolean {
  return typeof navigator !== "undefined" && navigator.onLine === false;
}

/** Calls back when the network goes. What this returns ends that. */
export function onOffline(callback: () => void): () => void {
  const { window } = globalThis;
  if (!window) return () => undefined;
  window.addEventListener("offline", callback);
  return () => window.removeEventListener("offline", callback);
}

/** Calls back when the network comes, or the person comes back to the tab. What this returns ends that. */
export function onReturn(callback: () => void): () => void {
  const { window, document } = globalThis;
  if (!window) return () => undefined;
  const whenVisible = () => {
    if (document.visibilityState === "visible") callback();
  };
  window.addEventListener("online", callback);
  window.addEventListener("pageshow", callback);
  document.addEventListener("visibilitychange", whenVisible);
  return () => {
    window.removeEventListener("online", callback);
    window.removeEventListener("pageshow", callback);
    document.removeEventListener("visibilitychange", whenVisible);
  };
}

/** The pause before the next try: longer each time, and never the same for two tabs that lost the same server. */
export function pauseBefore(attempt: number, random = Math.random): number {
  const longest = Math.min(LONGEST_PAUSE_MILLISECONDS, FIRST_PAUSE_MILLISECONDS * 2 ** (attempt - 1));
  return longest * (0.5 + random() / 2);
}

/** Waits so long, or until the network or the person is back, or `signal` says that nobody waits any more. */
export function waitForNetwork(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const over = () => {
      clearTimeout(timer);
      stop();
      signal.removeEventListener("abort", over);
      resolve();
    };
    const timer = setTimeout(over, milliseconds);
    const stop = onReturn(over);
    signal.addEventListener("abort", over);
    if (signal.aborted) over();
  });
}
