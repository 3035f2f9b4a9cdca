"""Writes threads outside a run: creates them, adds to them, edits and renames them.

Below: the run driver, its threads' lines, endings, limits. Above: the runner. A write waits in the thread's line as a
run does, so that no run works on messages that the thread no longer has.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress

from gateway.agent import Absent, AgentInput, InputThread, SentMessages
from gateway.errors import ConflictError, FieldProblem, InvalidRequestError, NotFoundError
from gateway.frozen import replace
from gateway.history.cache import own_calls
from gateway.history.merging import append_history
from gateway.history.versions import history_change
from gateway.messages import JsonObject, Message, answered_calls, new_message_id
from gateway.owners import site_of
from gateway.runs.driver import RunDriver
from gateway.runs.endings import approval_answered, claims, no_message, no_thread, title_of
from gateway.runs.intake import next_version
from gateway.runs.limits import RunLimits, check_input, check_metadata, check_stored
from gateway.store import Store, Thread, ThreadChange
from gateway.turns.tool_executions import denied_result


class ThreadWrites:
    """Writes to threads in a driver's store."""

    def __init__(self, driver: RunDriver) -> None:
        self._driver = driver
        self._store = driver.store
        self._lines = driver.lines

    async def create(self, thread: Thread, metadata: JsonObject, limits: RunLimits | None = None) -> None:
        """Store a new thread.

        Raises:
            ConflictError: a thread has that id, or a run is about to make one.
            InvalidRequestError: two messages have one id.
            TooLargeError, TooManyRequestsError: it is more than the limits allow.
            StoreError, UnavailableError: it cannot be stored now.
        """
        self._driver.check_open()
        check_metadata(metadata)
        new = _new_messages(thread.messages, ())
        given = AgentInput("", InputThread(thread.thread_id), SentMessages(new))
        await check_room(self._store, thread.owner, limits)
        if limits is not None:
            check_input(given, limits, (), thread.state, replaces=False)
        async with self._lines.visit(thread.owner, thread.thread_id, waits=False):
            made = replace(thread, messages=new, title=thread.title or title_of(new))
            await self._store.create_thread(made, metadata)

    async def append(
        self, owner: str, given: AgentInput, limits: RunLimits | None = None, *, waits: bool = False
    ) -> Sequence[Message]:
        """Add the input's messages to its thread; returns them as they are stored. A message that the thread has stays
        as it is, so that a request may be repeated. `waits`: first wait for the runs that work on the thread or wait
        for it.

        Raises:
            NotFoundError: no such thread.
            ConflictError: a run is at work on the thread; or another message has the id of one of these.
            InvalidRequestError: two have one id, or one answers a call that the client may not answer.
            TooLargeError, TooManyRequestsError: it is more than the limits allow.
            StoreError, UnavailableError: they cannot be stored now.
        """
        self._driver.check_open()
        await check_room(self._store, owner, limits)
        async with self._lines.visit(owner, given.thread.id, waits=waits):
            thread = await self._store.load_thread(owner, given.thread.id)
            if thread is None:
                raise no_thread(given.thread.id)
            if limits is not None:
                check_input(given, limits, thread.messages, thread.state, replaces=False)
            if new := _new_messages(given.sent.messages, thread.messages):
                await self._check_results(thread, new)
                messages = (*thread.messages, *new)
                title = thread.title or title_of(messages)
                changed = replace(thread, messages=messages, title=title, updated_at=self._driver.clock.now())
                await self._store.write_thread(changed, keep=len(thread.messages))
                thread = changed
        kept = {message.id: message for message in thread.messages}
        return [kept[message.id] for message in given.sent.messages]

    async def edit(
        self,
        owner: str,
        thread_id: str,
        edited: Callable[[tuple[Message, ...]], tuple[Message, ...]],
        limits: RunLimits | None = None,
    ) -> None:
        """Replace the thread's messages by the result of `edited`, once the runs before are done with the thread.

        A changed text makes a new version of the thread; the earlier version stays.

        Raises:
            NotFoundError: no such thread.
            TooLargeError, TooManyRequestsError: it is more than the limits allow.
            StoreError, UnavailableError: they cannot be stored now.
        """
        self._driver.check_open()
        await check_room(self._store, owner, limits)
        async with self._lines.visit(owner, thread_id, waits=True):
            thread = await self._store.load_thread(owner, thread_id)
            if thread is None:
                raise no_thread(thread_id)
            messages = edited(thread.messages)
            if limits is not None:
                known = {message.id: message for message in thread.messages}
                written = tuple(message for message in messages if known.get(message.id) != message)
                check_input(
                    AgentInput("", InputThread(thread_id), SentMessages(written)),
                    limits,
                    (),
                    thread.state,
                    replaces=False,
                )
            change = history_change(thread.messages, messages, shortened=thread.shortened)
            changed = replace(thread, messages=messages, updated_at=self._driver.clock.now())
            if change.makes_version:
                changed = next_version(changed, shortened=change.shortened)
                await self._driver.make_room_for_version(changed)
            await self._store.write_thread(changed, keep=change.keep, rewrite=change.rewrite)

    async def remove(self, owner: str, thread_id: str, message_ids: Collection[str]) -> None:
        """Take messages out of the thread's current version, with the results of their calls, as `leave` does. Ids that
        the
        thread does not have are ignored, unless it has none of them.

        Raises:
            NotFoundError: no such messages.
            StoreError, UnavailableError: the thread cannot be written now.
        """

        def left(messages: tuple[Message, ...]) -> tuple[Message, ...]:
            if not any(each.id in message_ids for each in messages):
                raise no_message(thread_id, next(iter(message_ids), ""))
            return tuple(each for each in messages if each.id not in message_ids)

        await self.leave(owner, thread_id, left)

    async def leave(
        self,
        owner: str,
        thread_id: str,
        left: Callable[[tuple[Message, ...]], tuple[Message, ...]],
        *,
        waits: bool = True,
    ) -> None:
        """Keep only the messages of the thread's current version that `left` returns, without results of calls that are
        gone.

        No version keeps a removed message. `left` gets no messages if there is no thread. `waits` as in `append`.

        Raises:
            NotFoundError: no such thread.
            ConflictError: a run is at work on the thread.
            StoreError, UnavailableError: the thread cannot be written now.
        """
        self._driver.check_open()
        async with self._lines.visit(owner, thread_id, waits=waits):
            thread = await self._store.load_thread(owner, thread_id)
            stays = left(() if thread is None else thread.messages)
            if thread is None:
                raise no_thread(thread_id)
            gone = _calls(thread.messages) - _calls(stays)
            stays = tuple(each for each in stays if not _answers(each, gone))
            changed = replace(
                thread,
                messages=stays,
                interrupts=tuple(asked for asked in thread.interrupts if asked.call.call_id not in gone),
                updated_at=self._driver.clock.now(),
            )
            change = history_change(thread.messages, stays)  # another version would keep the removed messages
            await self._store.write_thread(changed, keep=change.keep, rewrite=change.rewrite)

    async def deny(self, owner: str, thread_id: str, approval_id: str, reason: str | None) -> None:
        """Deny a call whose agent is gone. No run continues after it.

        Raises:
            NotFoundError: no such thread.
            ConflictError: a run is at work on the thread; or the call was answered.
            StoreError, UnavailableError: the thread cannot be written now.
        """
        self._driver.check_open()
        async with self._lines.visit(owner, thread_id, waits=False):
            thread = await self._store.load_thread(owner, thread_id)
            if thread is None:
                raise no_thread(thread_id)
            asked = next((item for item in thread.interrupts if item.approval_id == approval_id), None)
            if asked is None:
                raise approval_answered()
            result = denied_result(asked.call, reason)
            turn = own_calls(thread.messages).get(result.call_id)
            said = Message(new_message_id(), "tool", (result,), turn_id=None if turn is None else turn.turn_id)
            changed = replace(
                thread,
                messages=(*thread.messages, said),
                interrupts=tuple(item for item in thread.interrupts if item is not asked),
                updated_at=self._driver.clock.now(),
            )
            await self._store.write_thread(changed, keep=len(thread.messages))

    async def update(self, owner: str, thread_id: str, change: ThreadChange, limits: RunLimits | None = None) -> None:
        """Change a thread's record; the runs in its line get the new title too.

        Raises:
            NotFoundError: no such thread.
            TooLargeError, TooManyRequestsError: it is more than the limits allow.
        """
        if not isinstance(change.metadata, Absent):
            check_metadata(change.metadata)
            await check_room(self._store, owner, limits)
        if not isinstance(change.title, Absent):
            for live in self._lines.line(owner, thread_id):
                live.rename_thread(change.title)
        if not await self._store.update_thread(owner, thread_id, change):
            raise no_thread(thread_id)

    async def _check_results(self, thread: Thread, new: tuple[Message, ...]) -> None:
        """Refuse messages that only this server may add: results of its own tools, answers to a person's interrupts."""
        answered = answered_calls(new)
        asked = own_calls(thread.messages).keys() & answered
        refused = len(append_history(thread.messages, new)) < len(thread.messages) + len(new)
        refused = refused or not asked.isdisjoint(answered_calls(thread.messages))  # the first result counts
        if asked and not refused:
            tools = None
            with suppress(NotFoundError):
                async with self._driver.agents.leased(thread.owner, thread.agent_id) as agent:
                    tools, _ = await agent.tools()
            # The agent is gone: nobody knows any more which of its tools were the client's.
            refused = tools is None or bool(claims(new, thread, tools))
        if refused:
            raise InvalidRequestError(
                "a result answers a call that has one, or that is not the client's to answer; leave it out",
                code="result_not_allowed",
                problems=[FieldProblem("/messages", "a result of a call that only the gateway may answer")],
            )


async def check_room(store: Store, owner: str, limits: RunLimits | None) -> None:
    """Refuse a write of a site's visitor if the site has used its share of the store.

    Raises:
        TooManyRequestsError
    """
    site = site_of(owner)
    if site is not None and limits is not None and limits.max_stored_bytes is not None:
        check_stored(await store.stored_bytes(site), limits)


def _calls(messages: Sequence[Message]) -> set[str]:
    return {call.call_id for message in messages for call in message.tool_calls}


def _answers(message: Message, calls: Collection[str]) -> bool:
    return (result := message.tool_result) is not None and result.call_id in calls


def _new_messages(sent: Sequence[Message], stored: Sequence[Message]) -> tuple[Message, ...]:
    """The messages that are not stored yet, as a client's: only the server says who made a message."""
    known = {message.id: message for message in stored}
    new: dict[str, Message] = {}
    for place, message in enumerate(sent):
        if message.id in new:
            problem = FieldProblem(f"/messages/{place}/id", "another message of the request has this id")
            raise InvalidRequestError(f"two messages have the id {message.id!r}", problems=[problem])
        earlier = known.get(message.id)
        if earlier is None:
            new[message.id] = message if message.turn_id is None else replace(message, turn_id=None)
        elif earlier != message:
            raise ConflictError(
                f"the thread has another message {message.id!r} already; use another id", code="message_exists"
            )
    return tuple(new.values())
