/** What the tabs of one browser tell each other: that a thread goes on. Below: nothing. */

export interface Tabs {
  /** A run has begun in that thread, here. */
  tell(thread: string): void;
  close(): void;
}

/** `onNews` hears of threads that go on in other tabs; nothing where the browser has no channel between tabs. */
export function otherTabs(onNews: (thread: string) => void): Tabs {
  const channel = globalThis.BroadcastChannel && new BroadcastChannel("agui-gateway");
  channel?.addEventListener("message", ({ data }) => onNews(String(data)));
  return { tell: (thread) => channel?.postMessage(thread), close: () => channel?.close() };
}
