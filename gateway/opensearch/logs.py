"""The logs of runs: chunks of events, one document for each write of a run.

Below: sources, bulks. Above: runs, the store. A chunk's id is the log's name and the chunk's number, so that a log is
read by ids. A run has one chunk under way; what it appends meanwhile becomes the next one. So a log has no gap, and
more events go into each write the slower the cluster is.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from gateway.errors import ConflictError, GatewayError, StoreError
from gateway.messages import JsonObject
from gateway.opensearch.bulks import Done, Item
from gateway.opensearch.cluster import UnknownError
from gateway.opensearch.ids import new_token
from gateway.opensearch.indices import EVENTS
from gateway.opensearch.run_record import StoredRun, run_key
from gateway.opensearch.sources import Found, Key, Sources, documents_of, write
from gateway.opensearch.sure_writes import SureWrites
from gateway.records import EventRecords
from gateway.store import NumberedEvent
from gateway.store.log_lines import numbered_events, without_words

LONG_SECONDS: Final = 60.0
"""How long the events and the end of a run under way are tried."""

# How many chunks one request reads.
_AT_ONCE = 64
_CHUNK_BYTES = 1_000_000


class Chunk(NamedTuple):
    """Consecutive events that were stored together."""

    first: int
    last: int
    lines: bytes
    at: float | None


class _Appended(NamedTuple):
    first: int
    records: EventRecords
    future: asyncio.Future[None]


@dataclass(slots=True, eq=False)
class OpenLog:
    """The log of a run under way. `next` is the number of its next event, `firsts` those of the chunks' first events,
    `size` its bytes. `thread` marks its documents. After `error` nothing is stored any more. `is_reopened`: this
    gateway goes on with a log that another one began, and may replace what that one left at its end.
    """

    stored: StoredRun
    thread: str
    next: int = 1
    firsts: list[int] = field(default_factory=list)
    size: int = 0
    waiting: list[_Appended] = field(default_factory=list)
    under_way: list[_Appended] = field(default_factory=list)
    error: GatewayError | None = None
    is_begun: bool = False
    is_reopened: bool = False
    idle: asyncio.Future[None] | None = None

    @property
    def run_id(self) -> str:
        return self.stored.run.run_id

    @property
    def is_taken_over(self) -> bool:
        """Whether another gateway has the run: this one neither undoes what it wrote of it nor stores its end."""
        return isinstance(self.error, ConflictError)


def chunk_key(log: str, number: int) -> Key:
    return Key(EVENTS, f"{log}.{number}")


def chunk_items(
    log: str, thread: str, number: int, first: int, records: EventRecords, *, is_end: bool = False
) -> list[Item]:
    """Creates a chunk. `is_end`: it counts only if the run has ended."""
    members: JsonObject = {"log": log, "thread": thread, "first": first, "last": first + records.count - 1}
    if is_end:
        members["is_end"] = True
    if records.at is not None:
        members["at"] = records.at
    key = chunk_key(log, number)
    source, parts = documents_of(key, records.lines, members, new_token())
    return [*parts, write("create", key, source)]


def no_chunk(log: str, thread: str, number: int) -> tuple[bytes, list[Item]]:
    """The source of a chunk that nobody reads, in the place of one that may still come."""
    members: JsonObject = {"log": log, "thread": thread, "first": 0, "last": 0, "is_end": True}
    return documents_of(chunk_key(log, number), b"", members, new_token())


def out_of_order(run_id: str, expected: int, first: int, records: EventRecords) -> StoreError:
    """The error for events that do not follow the last one."""
    return StoreError(f"run {run_id!r} goes on with event {expected}, not with {records.count} from {first}")


class Logs:
    """Appends to the logs of runs under way, and reads every log."""

    def __init__(self, sources: Sources, sure: SureWrites) -> None:
        self._sources = sources
        self._sure = sure

    # --- appending

    def append(self, log: OpenLog, first: int, records: EventRecords) -> asyncio.Future[None]:
        """As RunStore.append_events."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        error = log.error
        if error is None and (first != log.next or not records.count):
            error = out_of_order(log.run_id, log.next, first, records)
        if error is not None:
            fail(future, error)
            return future
        log.next += records.count
        log.waiting.append(_Appended(first, records, future))
        if len(log.waiting) == 1 and not log.under_way:
            # what else comes in this round of the event loop goes with it
            asyncio.get_running_loop().call_soon(self.go_on, log)
        return future

    def go_on(self, log: OpenLog) -> None:
        """Write the next chunk, unless one is under way or the run's begin is not committed yet."""
        if not log.waiting or log.under_way or not log.is_begun:
            self._rest(log)
            return
        size, taken = 0, 0
        for each in log.waiting:
            size += len(each.records.lines)
            if taken and size > _CHUNK_BYTES:
                break
            taken += 1
        log.under_way, log.waiting = log.waiting[:taken], log.waiting[taken:]
        first = log.under_way[0].first
        records = _joined([each.records for each in log.under_way])
        items = chunk_items(log.stored.log, log.thread, len(log.firsts), first, records)
        if len(items) > 1:
            self._sources_task(log, items, first, records)
        else:
            self._sources.bulks.add(items[0], self._teller(log, items, first, records), seconds=LONG_SECONDS)

    def _teller(
        self, log: OpenLog, items: list[Item], first: int, records: EventRecords
    ) -> Callable[[Done | StoreError], None]:
        def tell(result: Done | StoreError) -> None:
            if isinstance(result, StoreError):
                self._lost(log, items, result)
            elif result.place is None:  # the answer to an earlier try was lost, or something else is there
                self._sources_task(log, items, first, records)
            else:
                self._kept(log, first, records)

        return tell

    def _sources_task(self, log: OpenLog, items: list[Item], first: int, records: EventRecords) -> None:
        task = asyncio.ensure_future(self._write_chunk(log, items))

        def done(finished: asyncio.Task[None]) -> None:
            error = finished.exception()
            if error is None:
                self._kept(log, first, records)
            else:
                self._lost(log, items, error if isinstance(error, GatewayError) else StoreError(str(error)))

        task.add_done_callback(done)

    async def _write_chunk(self, log: OpenLog, items: list[Item]) -> None:
        """Create a chunk.

        Raises:
            ConflictError: another gateway has taken the run over, and has written its own.
        """
        if log.is_reopened:
            await self._sources.write_new(items, seconds=LONG_SECONDS)
            return
        done = await self._sources.bulks.write(items, seconds=LONG_SECONDS)
        if done[-1].place is None and not await self._sources.is_there(items[-1]):
            raise ConflictError(f"run {log.run_id!r} was taken over by another gateway")

    def _kept(self, log: OpenLog, first: int, records: EventRecords) -> None:
        log.firsts.append(first)
        log.size += len(records.lines)
        done, log.under_way = log.under_way, []
        for each in done:
            if not each.future.done():
                each.future.set_result(None)
        self.go_on(log)

    def _lost(self, log: OpenLog, items: list[Item], error: GatewayError) -> None:
        if isinstance(error, UnknownError) and not log.is_taken_over:
            key = run_key(log.stored.run.owner, log.run_id)
            self._sure.undo([key], items[-1], lambda: no_chunk(log.stored.log, log.thread, len(log.firsts)))
        self.lose(log, error)

    def lose(self, log: OpenLog, error: GatewayError) -> None:
        """Fail what was appended, and refuse what will be: a log has no gap."""
        if not log.is_taken_over:
            log.error = error
        lost, log.under_way, log.waiting = [*log.under_way, *log.waiting], [], []
        if lost:
            log.next = lost[0].first
        for each in lost:
            fail(each.future, error)
        self._rest(log)

    def _rest(self, log: OpenLog) -> None:
        if log.idle is not None and not log.under_way and not log.waiting:
            idle, log.idle = log.idle, None
            idle.set_result(None)

    async def at_rest(self, log: OpenLog) -> None:
        """Wait until everything that was appended is stored or lost."""
        while log.under_way or log.waiting:
            if log.idle is None:
                log.idle = asyncio.get_running_loop().create_future()
            await asyncio.shield(log.idle)

    # --- reading

    async def read(self, stored: StoredRun, log: OpenLog | None, *, after: int, limit: int) -> list[NumberedEvent]:
        """The first `limit` events whose number is greater than `after`."""
        found: list[NumberedEvent] = []
        number = await self._chunk_with(stored, log, after + 1)
        while True:
            chunks = await self.chunks(stored, log, number)
            for chunk in chunks:
                for event in _numbered(chunk, after):
                    found.append(event)
                    if event.last >= after + limit:
                        return found
            if len(chunks) < _AT_ONCE:
                return found
            number += len(chunks)

    async def chunks(self, stored: StoredRun, log: OpenLog | None, start: int = 0) -> list[Chunk]:
        """The log's chunks from number `start` on, at most 64."""
        stop = start + _AT_ONCE
        if (count := _count(stored, log)) is not None:
            stop = min(stop, count)
        chunks = await self._sources.read([chunk_key(stored.log, number) for number in range(start, stop)])
        found: list[Chunk] = []
        for chunk in chunks:
            if chunk is None or (chunk.source.get("is_end") and not stored.run.status.ended):
                break
            found.append(_chunk(chunk, stored.erase))
        return found

    async def all_chunks(self, stored: StoredRun, log: OpenLog | None = None) -> list[Chunk]:
        found: list[Chunk] = []
        while True:
            chunks = await self.chunks(stored, log, len(found))
            found += chunks
            if len(chunks) < _AT_ONCE:
                return found

    async def _chunk_with(self, stored: StoredRun, log: OpenLog | None, event: int) -> int:
        """The number of the chunk that has this event, or of one before it."""
        if event <= 1:
            return 0
        if log is not None and log.is_begun:
            return max(bisect_right(log.firsts, event) - 1, 0)
        low, high = 0, _count(stored, None)
        while high is not None and high - low > _AT_ONCE:
            step = (high - low) // _AT_ONCE + 1
            numbers = range(low, high, step)
            probes = await self._sources.read([chunk_key(stored.log, number) for number in numbers])
            below = [
                number
                for number, probe in zip(numbers, probes, strict=True)
                if probe is not None and probe.source["first"] <= event
            ]
            low, high = max(below, default=low), min(max(below, default=low) + step, high)
        return low

    async def read_whole(
        self, runs: Sequence[tuple[StoredRun, OpenLog | None]], max_bytes: int
    ) -> dict[str, list[NumberedEvent]]:
        """The whole logs of these runs, in order, up to the one with which they reach `max_bytes`."""
        found: dict[str, list[NumberedEvent]] = {}
        size = 0
        for stored, log in runs:
            chunks = await self.all_chunks(stored, log)
            found[stored.run.run_id] = [event for chunk in chunks for event in _numbered(chunk, 0)]
            size += sum(len(chunk.lines) for chunk in chunks)
            if size >= max_bytes:
                break
        return found

    async def reopened(self, stored: StoredRun, thread: str) -> OpenLog:
        """The log of a run that an earlier process left unfinished."""
        chunks = await self.all_chunks(stored)
        last = chunks[-1].last if chunks else 0
        size = sum(len(chunk.lines) for chunk in chunks)
        firsts = [chunk.first for chunk in chunks]
        return OpenLog(stored, thread, last + 1, firsts, size, is_begun=True, is_reopened=True)

    # --- erasing

    async def erase(self, stored: StoredRun, thread: str) -> int:
        """Remove the text of the deltas of the messages that `erase` names, and their media. The events keep their
        numbers. Gives the log's bytes.
        """
        items: list[Item] = []
        size = 0
        for number, chunk in enumerate(await self.all_chunks(replace(stored, erase=()))):
            erased = _erased(chunk, stored.erase)
            size += len(erased.lines)
            if erased is not chunk:
                records = EventRecords(chunk.last - chunk.first + 1, erased.lines, chunk.at)
                chunks = chunk_items(stored.log, thread, number, chunk.first, records)
                items += [replace(item, action="index") for item in chunks]
        await self._sources.bulks.write(items, seconds=LONG_SECONDS)
        return size


def _count(stored: StoredRun, log: OpenLog | None) -> int | None:
    """How many chunks there are; None: nobody knows."""
    if log is not None and log.is_begun:
        return len(log.firsts)
    return stored.chunks if stored.run.status.ended else None


def _chunk(found: Found, erase: Sequence[str]) -> Chunk:
    source: Any = found.source
    return _erased(Chunk(source["first"], source["last"], found.record, source.get("at")), erase)


def _erased(chunk: Chunk, message_ids: Sequence[str]) -> Chunk:
    """The chunk without the words of these messages."""
    if not message_ids:
        return chunk
    erased = without_words(chunk.lines, message_ids)
    return chunk if erased is chunk.lines else chunk._replace(lines=erased)


def _numbered(chunk: Chunk, after: int) -> Iterator[NumberedEvent]:
    return numbered_events(chunk.first, chunk.lines, chunk.at, after)


def _joined(records: Sequence[EventRecords]) -> EventRecords:
    if len(records) == 1:
        return records[0]
    return EventRecords(sum(each.count for each in records), b"\n".join(each.lines for each in records), records[0].at)


def fail(future: asyncio.Future[None], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # marks it as seen
