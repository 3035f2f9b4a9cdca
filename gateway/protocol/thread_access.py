"""The access of protocols to threads: their messages, versions and records.

Below: agent_access. Above: the environment.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from typing import Final

from gateway.access.callers import Caller
from gateway.agent import AgentInput, InputThread, SentMessages
from gateway.events import Interrupt
from gateway.messages import JsonObject, Message
from gateway.protocol.agent_access import AgentAccess
from gateway.runs.thread_points import message_runs
from gateway.store import (
    Page,
    RunRecord,
    Thread,
    ThreadChange,
    ThreadSummary,
    ThreadVersion,
)

WHOLE_THREAD: Final = 2**31
"""A limit for pages: more messages and runs than any thread has."""


class ThreadAccess(AgentAccess):
    """Threads: listed, read, made and changed outside runs."""

    __slots__ = ()

    async def threads(
        self, caller: Caller, *, limit: int, cursor: str | None = None, skip: int = 0
    ) -> Page[ThreadSummary]:
        """A page of the caller's threads, the latest first, without the first `skip` of them."""
        return await self._runner.threads(caller.owner, limit=limit, cursor=cursor, skip=skip)

    async def thread(self, caller: Caller, thread_id: str) -> ThreadSummary:
        """A thread's summary: everything but its messages. Raises NotFoundError."""
        return await self._runner.thread(caller.owner, thread_id)

    async def message(self, caller: Caller, thread_id: str, message_id: str) -> Message:
        """A message of a thread, by its id. Raises NotFoundError."""
        return await self._runner.message(caller.owner, thread_id, message_id)

    async def message_times(self, caller: Caller, thread_id: str) -> list[float | None]:
        """When each message of a thread came, in order, in Unix seconds; None where an older gateway stored it. Empty
        for an unknown thread.
        """
        return await self._runner.store.message_times(caller.owner, thread_id)

    async def message_runs(self, caller: Caller, thread_id: str) -> list[str | None]:
        """For each message of a thread's current version, in order, the id of the thread's run that was given or
        produced it; None: there is none. Empty for an unknown thread.
        """
        return await message_runs(self._runner.store, caller.owner, thread_id)

    async def find_message(self, caller: Caller, message_id: str, *, limit: int = 1) -> list[str]:
        """The ids of the caller's threads that have a message of that id: the latest first, then those that are
        not listed. It takes longer than other reads (0.2 s for an id that none of 100,000 threads has).
        """
        return await self._runner.store.find_message(caller.owner, message_id, limit=limit)

    async def messages(
        self,
        caller: Caller,
        thread_id: str,
        *,
        limit: int,
        cursor: str | None = None,
        version: int | None = None,
        max_bytes: int | None = None,
    ) -> Page[Message]:
        """A page of a thread's messages, from the first; of its current version without a number. `max_bytes`: see
        Store.list_messages.

        Raises:
            NotFoundError: no such thread or version.
        """
        return await self._runner.messages(
            caller.owner, thread_id, limit=limit, cursor=cursor, version=version, max_bytes=max_bytes
        )

    async def versions(
        self, caller: Caller, thread_id: str, *, limit: int, cursor: str | None = None
    ) -> Page[ThreadVersion]:
        """A page of a thread's versions, by number. Raises NotFoundError."""
        return await self._runner.versions.page(caller.owner, thread_id, limit=limit, cursor=cursor)

    async def select_version(self, caller: Caller, thread_id: str, version: int) -> None:
        """Make a version of a thread the current one.

        Raises:
            NotFoundError: no such thread or version.
            ConflictError: a run is at work on the thread, or waits for it.
            TooManyRequestsError: a limit of the caller's is reached.
        """
        with self.counted_change(caller):
            await self._runner.versions.select(caller.owner, thread_id, version)

    async def delete_version(self, caller: Caller, thread_id: str, version: int) -> None:
        """Delete a version of a thread.

        Raises:
            NotFoundError: no such thread or version.
            ConflictError: it is the current one.
            TooManyRequestsError: a limit of the caller's is reached.
        """
        with self.counted_change(caller):
            await self._runner.versions.delete(caller.owner, thread_id, version)

    async def fork(self, caller: Caller, thread_id: str, from_message: str) -> str:
        """Make a thread that begins as this one does, up to and with that message, which counts as a run for the
        caller; its id.

        Raises:
            NotFoundError: no such thread.
            InvalidRequestError: its current version has no such message.
            TooManyRequestsError: a limit of the caller's is reached.
        """
        with self._counted(caller):
            return await self._runner.versions.fork(caller.owner, thread_id, from_message, caller.run_limits())

    async def thread_runs(
        self, caller: Caller, thread_id: str, *, limit: int, cursor: str | None = None
    ) -> Page[RunRecord]:
        """A page of a thread's runs, the newest first. Raises NotFoundError."""
        return await self._runner.thread_runs(caller.owner, thread_id, limit=limit, cursor=cursor)

    async def interrupts(self, caller: Caller, thread_id: str) -> Sequence[Interrupt]:
        """The thread's interrupts that can still be answered; none for an unknown thread."""
        return await self._runner.interrupts(caller.owner, thread_id)

    async def create_thread(
        self,
        caller: Caller,
        thread_id: str,
        messages: Sequence[Message] = (),
        *,
        agent_id: str = "",
        title: str | None = None,
        metadata: JsonObject | None = None,
        listed: bool = True,
        expires_at: float | None = None,
        collection: str = "",
    ) -> None:
        """Make a thread without a run, which counts as one for the caller. Without a title its first words are its
        title. One that is not `listed` stays so, whatever runs on it. With `expires_at` it is deleted then, but not
        within an hour of its last write (LEAST_LIFE_SECONDS), nor within a day while it waits for somebody.
        `collection` as in store.Thread.

        Raises:
            NotFoundError: no such agent for this caller.
            ConflictError: there is a thread of that id, or a run is about to make one; or the agent cannot be used.
            InvalidRequestError: two messages have one id.
            TooLargeError, TooManyRequestsError: a limit of the caller's is reached.
            StoreError, UnavailableError: not now.
        """
        if agent_id:
            await self.check_agent(caller, agent_id)
        given = caller.admitted(AgentInput("", InputThread(thread_id), SentMessages(tuple(messages))))
        now = self._runner.clock.now()
        thread = Thread(
            caller.owner, thread_id, agent_id, now, now, title, given.sent.messages,
            listed=listed, hidden=not listed, expires_at=expires_at, collection=collection,
        )  # fmt: skip
        with self._counted(caller):
            await self._runner.writes.create(thread, metadata or {}, caller.run_limits())

    async def append_messages(
        self, caller: Caller, thread_id: str, messages: Sequence[Message], *, waits: bool = False
    ) -> Sequence[Message]:
        """Add messages to a thread without a run, which counts as one for the caller. Returns them as they are kept.
        Those that the thread has already stay, so that a request may be repeated. A visitor's system and developer
        messages are left out. `waits`: for the runs that are at work on the thread.

        Raises:
            NotFoundError: no such thread.
            ConflictError: a run is at work on the thread; or another message has the id of one of these.
            InvalidRequestError: two have one id, or one answers a call that is not the client's to answer.
            TooLargeError, TooManyRequestsError: a limit of the caller's is reached.
            StoreError, UnavailableError: not now.
        """
        given = caller.admitted(AgentInput("", InputThread(thread_id), SentMessages(tuple(messages))))
        with self._counted(caller):
            return await self._runner.writes.append(caller.owner, given, caller.run_limits(), waits=waits)

    async def edit_messages(
        self, caller: Caller, thread_id: str, edited: Callable[[tuple[Message, ...]], tuple[Message, ...]]
    ) -> None:
        """Make a thread's messages what `edited` makes of them, which counts as a run for the caller. It waits for the
        runs that are at work on the thread. Other words make a version of the thread.

        Raises:
            NotFoundError: no such thread.
            TooLargeError, TooManyRequestsError: a limit of the caller's is reached.
            StoreError, UnavailableError: not now.
        """
        with self._counted(caller):
            await self._runner.writes.edit(caller.owner, thread_id, edited, caller.run_limits())

    async def remove_messages(self, caller: Caller, thread_id: str, message_ids: Collection[str]) -> None:
        """Take messages out of a thread's current version, with the results of their calls. No version of the thread
        keeps one, unless it is in one that was made before. It waits for the runs that are at work on the thread.

        Raises:
            NotFoundError: no such messages.
            StoreError, UnavailableError: not now.
        """
        await self._runner.writes.remove(caller.owner, thread_id, message_ids)

    async def leave_messages(
        self,
        caller: Caller,
        thread_id: str,
        left: Callable[[tuple[Message, ...]], tuple[Message, ...]],
        *,
        waits: bool = True,
    ) -> None:
        """Leave of a thread's current version what `left` gives of its messages; as `remove_messages` otherwise.
        `waits`: for the runs that are at work on the thread.

        Raises:
            NotFoundError: no such thread.
            ConflictError: a run is at work on the thread.
            TooManyRequestsError: a limit of the caller's is reached.
            StoreError, UnavailableError: not now.
        """
        with self.counted_change(caller):
            await self._runner.writes.leave(caller.owner, thread_id, left, waits=waits)

    async def update_thread(
        self, caller: Caller, thread_id: str, change: ThreadChange, *, counted: bool = True
    ) -> None:
        """Change a thread's title or metadata, also while a run is at work on it. `counted`: see `count`.

        Raises:
            NotFoundError: no such thread.
            TooLargeError, TooManyRequestsError: it is more metadata than the caller may store; or a limit of the
                caller's is reached.
        """
        with self.counted_change(caller) if counted else nullcontext():
            await self._runner.writes.update(caller.owner, thread_id, change, caller.run_limits())

    async def delete(self, caller: Caller, thread_id: str, *, counted: bool = True) -> None:
        """Delete a thread and its runs; a running one is cancelled first. `counted`: see `count`.

        Raises:
            NotFoundError: no such thread.
            TooManyRequestsError: a limit of the caller's is reached.
        """
        with self.counted_change(caller) if counted else nullcontext():
            await self._runner.delete_thread(caller.owner, thread_id)
