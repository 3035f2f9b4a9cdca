/** The little that outlives a reload: which thread a tab shows, and which run it began. Below: nothing. */

/**
 * `thread`: the id of the thread shown. `run`: of the run that this tab began last; it alone answers that run's frontend
 * calls. `begun`: the calls whose handlers were started, so that none is ever run twice.
 *
 * `thread` may be shared by tabs (localStorage); the other two belong to one tab.
 */
export type MemoryKey = "thread" | "run" | "begun";

export interface Memory {
  get(key: MemoryKey): string | undefined;
  set(key: MemoryKey, value: string | undefined): void;
}

/** Memory in a Web Storage, each key behind `prefix`; forgetful where the browser has storage switched off. */
export function storageMemory(prefix: string, storage: (key: MemoryKey) => Storage = () => sessionStorage): Memory {
  return {
    get(key) {
      try {
        return storage(key).getItem(prefix + key) ?? undefined;
      } catch {
        return undefined;
      }
    },
    set(key, value) {
      try {
        if (value === undefined) storage(key).removeItem(prefix + key);
        else storage(key).setItem(prefix + key, value);
      } catch {
        // Full, or switched off: a reload begins a new thread.
      }
    },
  };
}

/** Memory for as long as the page is there. */
export function passingMemory(): Memory {
  const kept = new Map<MemoryKey, string>();
  return {
    get: (key) => kept.get(key),
    set: (key, value) => void (value === undefined ? kept.delete(key) : kept.set(key, value)),
  };
}
