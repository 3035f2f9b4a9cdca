"""A cache of recently used threads, decoded, so that the next run of a long thread does not read it again.

Below: the contract's data. Above: the store, which reports every write in the order of the commits. The cached threads
are shared and immutable.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from gateway.lru import LruCache
from gateway.store import Thread

Key: TypeAlias = tuple[str, str]

LIMIT_BYTES = 64 * 1024 * 1024
# The Python objects of a decoded message, besides its text.
_MESSAGE_BYTES = 1000
# How many ids without a thread are remembered: a new thread's id is looked up twice while its first run begins.
_MOST_ABSENT = 1000


class _Entry:
    """A thread, the sizes of its messages, their sum, and the size of everything."""

    __slots__ = ("messages_size", "size", "sizes", "thread")

    def __init__(self, thread: Thread, sizes: list[int], messages_size: int, state_size: int) -> None:
        self.thread = thread
        self.sizes = sizes
        self.messages_size = messages_size
        self.size = messages_size + _MESSAGE_BYTES * (len(sizes) + 1) + state_size


class Loading:
    """A read under way. It is void if the thread is written meanwhile: its data may be older than the write."""

    __slots__ = ("void",)

    def __init__(self) -> None:
        self.void = False


class ThreadCache:
    """Up to `limit_bytes` of threads, roughly counted; the least recently used go first. Used by the event loop
    only.
    """

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit = limit_bytes
        self._entries: LruCache[Key, _Entry] = LruCache(limit_bytes)
        self._loading: dict[Key, set[Loading]] = {}
        self._absent: LruCache[Key, bool] = LruCache(_MOST_ABSENT)

    def get(self, key: Key) -> Thread | Literal[False] | None:
        """The thread as of the last commit; False: there was none; None: that is not cached."""
        entry = self._entries.get(key)
        return (False if key in self._absent else None) if entry is None else entry.thread

    def start_loading(self, key: Key) -> Loading:
        """To be called before a thread is read; `finish_loading` or `give_up_loading` must follow."""
        loading = Loading()
        self._loading.setdefault(key, set()).add(loading)
        return loading

    def finish_loading(self, key: Key, loading: Loading, thread: Thread | None, sizes: list[int], state: int) -> None:
        """Cache the thread that was read, unless it was written meanwhile; `thread` is None where there is none.

        `sizes` and `state` are the bytes of the stored messages and of the stored state.
        """
        self.give_up_loading(key, loading)
        if loading.void:
            return
        if thread is not None:
            self._put(key, _Entry(thread, sizes, sum(sizes), state))
            return
        self.found_absent(key)

    def found_absent(self, key: Key) -> None:
        """To be called when the caller has just looked and found no such thread."""
        self._absent.keep(key, True)

    def give_up_loading(self, key: Key, loading: Loading) -> None:
        """To be called when the read failed."""
        waiting = self._loading[key]
        waiting.discard(loading)
        if not waiting:
            del self._loading[key]

    def written(self, key: Key, thread: Thread, keep: int, sizes: list[int], state: int) -> None:
        """To be called when a commit replaced the thread; `sizes` are the bytes of its messages from `keep` on."""
        entry = self._pop(key)
        self._void_loading(key)
        if entry is None and keep > 0:  # the kept messages' sizes are not known; the next read brings them
            return
        total = sum(sizes)
        if entry is not None and keep > 0:
            total += entry.messages_size - sum(entry.sizes[keep:])
            entry.sizes[keep:] = sizes
            sizes = entry.sizes
        self._put(key, _Entry(thread, sizes, total, state))

    def changed(self, key: Key) -> None:
        """To be called when the thread was renamed or deleted, or a write failed and may have changed it."""
        self._pop(key)
        self._void_loading(key)

    def _put(self, key: Key, entry: _Entry) -> None:
        self._pop(key)
        if entry.size <= self._limit:
            self._entries.keep(key, entry, entry.size)

    def _pop(self, key: Key) -> _Entry | None:
        self._absent.drop(key)
        return self._entries.drop(key)

    def _void_loading(self, key: Key) -> None:
        for loading in self._loading.get(key, ()):
            loading.void = True
