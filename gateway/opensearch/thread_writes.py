"""What a write of a thread stores besides its record: new messages, approvals, and what goes.

Below: threads, thread_record. Above: runs, the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gateway.errors import ConflictError
from gateway.events import OpenInterrupt
from gateway.history.versions import Rewrite
from gateway.messages import JsonObject
from gateway.opensearch import thread_record
from gateway.opensearch.bulks import Item
from gateway.opensearch.ids import Order, digest, new_token
from gateway.opensearch.indices import APPROVALS, MESSAGES
from gateway.opensearch.run_record import thread_id_of
from gateway.opensearch.sources import Key, documents_of
from gateway.opensearch.thread_record import ThreadRecord, positions, unused
from gateway.opensearch.threads import Change, Held, Threads
from gateway.opensearch.version_states import moved_out
from gateway.records import dump_json
from gateway.store import Thread
from gateway.store.transfer import MovedApproval


def approval_key(approval_id: str) -> Key:
    return Key(APPROVALS, digest("approval", approval_id))


def approval_item(approval: MovedApproval, life: str, opened_at: float, order: int) -> Item:
    """Writes an approval. `life` is the key of its thread's record."""
    members: JsonObject = {
        "thread": thread_id_of(approval.owner, approval.thread_id),
        "life": life,
        "waits": approval.waits,
        "opened_at": opened_at,
        "order": order,
    }
    if approval.expires_at is not None:
        members["expires_at"] = approval.expires_at
    key = approval_key(approval.approval_id)
    record = dump_json([approval.owner, approval.thread_id, approval.approval_id])
    source, _ = documents_of(key, record, members, new_token())
    return Item("index", key.name, key.document_id, source)


class ThreadWrites:
    """Prepares writes of threads."""

    def __init__(self, threads: Threads, order: Order) -> None:
        self._threads = threads
        self._order = order

    async def written(self, before: ThreadRecord | None, thread: Thread, keep: int, rewrite: Rewrite | None) -> Change:
        """A write of the whole thread, see thread_record.written."""
        written = thread_record.written(before, thread, keep, rewrite, self._threads.new_life())
        record = written.record
        came: dict[int, float | None] = dict.fromkeys(written.fresh, thread.updated_at)
        if before is not None and written.times:
            places = positions(before.current)
            stored = await self._threads.messages(before, [places[number] for number in written.times.values()])
            came |= {at: kept.at for at, kept in zip(written.times, stored, strict=True)}
        messages = [thread.messages[number] for number in written.fresh]
        times = [came[number] for number in written.fresh]
        items, size = self._threads.new_messages(record, written.first, messages, times)
        record = replace(record, size=record.size + size)
        change = Change(record, items)
        if before is not None and written.has_lost:
            change = await self.without_unused(before, change)
        return self.completed(before, change)

    async def without_unused(self, before: ThreadRecord, change: Change) -> Change:
        """The write, which also deletes the messages that no version has any more."""
        gone = sorted(set(unused(change.record)) - set(unused(before)))
        size = sum(each.size for each in await self._threads.messages(before, gone))
        self._threads.forget_messages(before.key, gone)
        about = before.about
        thread = thread_id_of(about.owner, about.thread_id)
        after = [Item("delete", MESSAGES, f"{before.key}.{position}") for position in gone]
        assert thread, "parts of large messages go with their thread"
        return replace(
            change, record=replace(change.record, size=change.record.size - size), after=[*change.after, *after]
        )

    def completed(self, before: ThreadRecord | None, change: Change) -> Change:
        """The write with all that follows from its record: approvals, and states in documents of their own."""
        change = self._with_approvals(before, change)
        out = moved_out(before, change.record)
        self._threads.remember_states(out)
        return Change(out.record, [*change.items, *out.created], [*change.after, *out.deleted])

    def _with_approvals(self, before: ThreadRecord | None, change: Change) -> Change:
        """The write, which also opens and closes the approvals that it changes."""
        record = change.record
        then = {} if before is None else _by_id(before.interrupts)
        now = _by_id(record.interrupts)
        opened = [self._approval(record, each) for key, each in now.items() if key not in then]
        closed = [Item("update", *approval_key(each), b'{"doc":{"waits":false}}') for each in then if each not in now]
        if not opened and not closed:
            return change
        return replace(change, items=[*change.items, *opened], after=[*change.after, *closed])

    def _approval(self, record: ThreadRecord, asked: OpenInterrupt) -> Item:
        about = record.about
        opened = MovedApproval(asked.approval_id, about.owner, about.thread_id, asked.interrupt.expires_at, waits=True)
        return approval_item(opened, record.key, about.updated_at, self._order.next())

    async def forked(
        self, owner: str, of: str, number: int | None, fork: Thread, start: int, held: Held | None
    ) -> tuple[ThreadRecord | None, list[Item]]:
        """The record of a thread whose messages are copies of those of a version of another thread from `start` on; and
        what creates them. Without a number that is the current version, as it is shown. None: there is no such thread
        or version.

        Raises:
            ConflictError: the version has other messages, or the fork's id is taken.
        """
        source = await self._threads.record((owner, of))
        if source is None or (number is not None and number not in source.versions):
            return None, []
        version = source.versions[source.about.version if number is None else number]
        count = len(fork.messages)
        places = positions(version, start, count, hidden=number is not None)
        kept = await self._threads.messages(source, places)
        if [each.message.id for each in kept][-1:] != [each.id for each in fork.messages[-1:]] or len(kept) != count:
            raise ConflictError(f"thread {of!r} was changed meanwhile; try again")
        if held is not None and held.record is not None:
            raise ConflictError(f"there is a thread {fork.thread_id!r}")
        written = thread_record.written(None, fork, 0, None, self._threads.new_life())
        messages, times = [each.message for each in kept], [each.at for each in kept]
        items, size = self._threads.new_messages(written.record, 0, messages, times)
        change = self.completed(None, Change(replace(written.record, size=size), items))
        return change.record, change.items


def _by_id(interrupts: Sequence[OpenInterrupt]) -> dict[str, OpenInterrupt]:
    return {each.approval_id: each for each in interrupts if each.approval_id}
