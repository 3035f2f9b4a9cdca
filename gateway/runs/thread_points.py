"""Finds in a thread's versions where a run left the thread, and which messages belong to the run.

Below: store, endings. Above: the run driver, which begins threads from such a point; the runner. A version grows after
a run, may hide its first messages later, and shares messages with versions that were made from it. So a point is found
by the id of its last message, and a run's messages by the time at which they were added.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gateway.agent import AgentInput, ThreadPoint
from gateway.events import Interrupt, OpenInterrupt
from gateway.messages import Message
from gateway.runs.endings import forked, new_thread, no_message, no_thread, no_version, with_life_of
from gateway.runs.live_run import LiveRun
from gateway.store import Fork, RunRecord, Store, Thread, VersionContent

_PAGE = 500


@dataclass(frozen=True, slots=True)
class RunMessages:
    """A run's messages in its thread's version: the messages `before` it, the messages of its request (`given`), and
    the messages that it `produced`.
    """

    before: tuple[Message, ...] = ()
    given: tuple[Message, ...] = ()
    produced: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True)
class ThreadHead:
    """A thread with its current version, and those of its interrupts that can still be answered (`open`)."""

    thread: Thread
    open: Sequence[OpenInterrupt] = ()

    @property
    def messages(self) -> tuple[Message, ...]:
        return self.thread.messages

    @property
    def last_run_id(self) -> str | None:
        """The id of the run that began last on the thread; None: no run did."""
        return self.thread.last_run_id

    @property
    def is_short_lived(self) -> bool:
        return self.thread.expires_at is not None

    @property
    def interrupts(self) -> list[Interrupt]:
        return [each.interrupt for each in self.open]

    def interrupts_of(self, agent_id: str) -> list[Interrupt]:
        """The interrupts that this agent asked."""
        return [each.interrupt for each in self.open if each.is_asked_by(agent_id)]

    def up_to(self, point: ThreadPoint) -> tuple[Message, ...] | None:
        """The thread's messages up to that point. None: only the store knows them, as the point is in another version,
        or messages were hidden or deleted since.
        """
        if point.version != self.thread.version or self.thread.shortened:
            return None
        end = _end(self.messages, point)
        return None if end is None else self.messages[:end]


async def begun_thread(
    store: Store, owner: str, given: AgentInput, agent_id: str, now: float
) -> tuple[Thread, Fork | None]:
    """The new thread that the input begins; and its fork, if it is one.

    Raises:
        NotFoundError: the thread, version or message that it is to begin from does not exist.
    """
    if given.thread.begins_from is None:
        return new_thread(owner, given, agent_id, now), None
    fork = await begun_from(store, owner, given, given.thread.begins_from, now)
    return fork.thread, fork


async def begun_from(store: Store, owner: str, given: AgentInput, point: ThreadPoint, now: float) -> Fork:
    """The fork that the input begins from that point. The input says how long it lives.

    Raises:
        NotFoundError: no such thread, version or message.
    """
    found = await _version(store, owner, point.thread_id, point.version)
    if (end := _end(found.thread.messages, point)) is None:
        raise no_message(point.thread_id, point.last_message_id or str(point.length))
    start = _start(found, end, point.length)
    fork = forked(found.thread, given.thread.id, found.thread.messages[start:end], now)
    return Fork(with_life_of(fork, given, now), point.thread_id, point.version, start)


async def run_messages(store: Store, record: RunRecord, live: LiveRun | None) -> RunMessages:
    """A run's messages in its thread, with or without a log; empty if the run has not begun.

    Of a running run (`live`), `produced` has the messages so far. A message that was taken out of the thread is
    missing.

    Raises:
        NotFoundError: the version that the run worked on is gone.
    """
    thread = None if live is None else live.thread
    if record.started_at is None or (live is not None and thread is None):
        return RunMessages()
    if live is None and not record.status.ended:  # another gateway has it under way
        thread = await store.load_thread(record.owner, record.thread_id)
    version, length = record.thread_version, record.thread_length
    if thread is not None:
        version, length = thread.version, len(thread.messages)
    found = await _version(store, record.owner, record.thread_id, version)
    messages = found.thread.messages
    given = [place for place in _came_at(found, record.started_at) if messages[place].turn_id is None]
    produced = [place for place in _came_at(found, record.finished_at) if messages[place].turn_id is not None]
    if given or produced:
        first, end = min((*given, *produced)), max((*given, *produced)) + 1
    else:
        first = end = len(messages) if record.end is None else _end(messages, record.end) or 0
    start = _start(found, end, end if length is None else length)
    return RunMessages(
        messages[start:first],
        tuple(messages[place] for place in given),
        tuple(messages[place] for place in produced) if live is None else live.fold.messages,
    )


async def message_runs(store: Store, owner: str, thread_id: str) -> list[str | None]:
    """For each message of the thread's current version the id of the run on this thread that was given or produced it.

    None: the message came without a run, from a run that was deleted, or from the thread that this one was forked from.
    """
    times = await store.message_times(owner, thread_id)
    runs: dict[float | None, str] = {}
    cursor: str | None = None
    while True:
        page = await store.list_runs(owner, thread_id, limit=_PAGE, cursor=cursor)
        for record in page.items:
            runs |= {record.started_at: record.client_id, record.finished_at: record.client_id}
        if (cursor := page.next_cursor) is None:
            return [None if at is None else runs.get(at) for at in times]


async def _version(store: Store, owner: str, thread_id: str, number: int) -> VersionContent:
    found = await store.load_version(owner, thread_id, number)
    if found is None:
        there = await store.load_summary(owner, thread_id)
        raise no_thread(thread_id) if there is None else no_version(thread_id, number)
    return found


def _start(found: VersionContent, end: int, length: int) -> int:
    """The place of the first message that the version showed, when it showed `length` messages before place `end`."""
    return max(0, end - length) if found.thread.shortened else 0  # it has hidden some since


def _end(messages: Sequence[Message], point: ThreadPoint) -> int | None:
    """How many messages of a version are before the point; None if the point's last message is missing."""
    if point.last_message_id is None:
        return point.length if point.length <= len(messages) else None
    ends = range(len(messages), 0, -1)
    return next((end for end in ends if messages[end - 1].id == point.last_message_id), None)


def _came_at(found: VersionContent, at: float | None) -> Iterable[int]:
    return (place for place, time in enumerate(found.times) if time == at) if at is not None else ()
