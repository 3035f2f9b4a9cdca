"""A cache of recently used threads, decoded, so that the next run of a long thread need not read it again.

Below: the contract's data. Above: the store, which reports every write in the order of the commits. The cached threads
are shared and immutable.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeAlias

from gateway.store import Thread

Key: TypeAlias = tuple[str, str]

LIMIT_BYTES = 64 * 1024 * 1024
# The Python objects of a decoded message, besides its text.
_MESSAGE_BYTES = 1000
# Threads that are known not to exist: a thread is looked up twice while its first run begins.
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
    """A read under way. It is void if the thread is written meanwhile: the read data may be older."""

    __slots__ = ("void",)

    def __init__(self) -> None:
        self.void = False


class ThreadCache:
    """Up to `limit_bytes` of threads, roughly counted; the least recently used go first. Used by the event loop
    only.
    """

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit = limit_bytes
        self._size = 0
        self._entries: OrderedDict[Key, _Entry] = OrderedDict()
        self._loading: dict[Key, set[Loading]] = {}
        self._absent: OrderedDict[Key, None] = OrderedDict()

    def get(self, key: Key) -> Thread | None:
        """The thread as of the last commit; None if it is not cached."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry.thread

    def is_absent(self, key: Key) -> bool:
        """Whether there was no such thread when it was last read or written."""
        return key in self._absent

    def start_loading(self, key: Key) -> Loading:
        """Call it before reading a thread; `finish_loading` or `give_up_loading` must follow."""
        loading = Loading()
        self._loading.setdefault(key, set()).add(loading)
        return loading

    def finish_loading(self, key: Key, loading: Loading, thread: Thread | None, sizes: list[int], state: int) -> None:
        """Cache what was read, unless the thread was written meanwhile; `thread` is None where there is none.

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
        """There is no such thread: the caller has just looked."""
        self._absent[key] = None
        if len(self._absent) > _MOST_ABSENT:
            self._absent.popitem(last=False)

    def give_up_loading(self, key: Key, loading: Loading) -> None:
        """The read failed."""
        waiting = self._loading[key]
        waiting.discard(loading)
        if not waiting:
            del self._loading[key]

    def written(self, key: Key, thread: Thread, keep: int, sizes: list[int], state: int) -> None:
        """A commit replaced the thread; `sizes` are the bytes of its messages from `keep` on."""
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
        """The thread was renamed or deleted, or a write failed and may have changed it."""
        self._pop(key)
        self._void_loading(key)

    def _put(self, key: Key, entry: _Entry) -> None:
        self._pop(key)
        if entry.size > self._limit:
            return
        self._entries[key] = entry
        self._size += entry.size
        while self._size > self._limit:
            _, oldest = self._entries.popitem(last=False)
            self._size -= oldest.size

    def _pop(self, key: Key) -> _Entry | None:
        self._absent.pop(key, None)
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._size -= entry.size
        return entry

    def _void_loading(self, key: Key) -> None:
        for loading in self._loading.get(key, ()):
            loading.void = True
