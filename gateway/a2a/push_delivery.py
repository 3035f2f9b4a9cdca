"""Posts tasks' status updates and finished artifacts, in order, to the URLs that their callers named.

Below: push_configs, stored_tasks, tasks. Above: methods, the protocol. A config of a task is one follower: it reads the
events of the task's runs as any viewer does, from the log where it is slow, so a receiver never holds up a run nor
another receiver. Updates that it cannot deliver are left out until the run ends; then the receiver gets the whole task.
If a process did not finish, the next one posts the task once, as it is then. Of several gateways the one that holds the
task's thread posts, and no other: who follows a task holds its thread until there is nothing more to post.
https://a2a-protocol.org/latest/specification/#433-push-notification-payload (1.0)
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager, closing, suppress
from dataclasses import replace
from typing import Final, NamedTuple
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from gateway.a2a.dialects import Dialect, dump, stream_response, written_task
from gateway.a2a.errors import TASK_NOT_FOUND
from gateway.a2a.push_configs import PushConfig, PushConfigs
from gateway.a2a.renderer import PushUpdate, PushUpdates
from gateway.a2a.stored_tasks import StoredTask, StoredTasks
from gateway.a2a.tasks import TaskFold
from gateway.access.callers import Caller
from gateway.errors import ConflictError, GatewayError, InvalidRequestError, NotFoundError
from gateway.events import Event, RunFailed, RunFinished, count_of
from gateway.messages import JsonObject
from gateway.protocol import ProtocolEnvironment
from gateway.store import HeldElsewhereError, RunRecord

logger = logging.getLogger(__name__)

_TIMEOUT_SECONDS: Final = 10.0
_PAUSES: Final = (1.0, 5.0)
"""Between the tries, of which there is one more than pauses."""
_AT_ONCE: Final = 16
"""How many requests are under way for one owner: slow receivers hold up nobody else's."""


class _Key(NamedTuple):
    """Names a follower: one config of a task."""

    owner: str
    task_id: str
    config_id: str


class _GoneError(Exception):
    """The config was deleted."""


class PushDelivery:
    """The push notifications of all tasks. One for the process."""

    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._environment = environment
        self._tasks = environment.shared(StoredTasks)
        self._configs = PushConfigs(environment)
        self._followers: dict[_Key, asyncio.Task[None]] = {}
        self._again: set[_Key] = set()  # of these followers, those whose task may have gone on
        self._open: dict[tuple[str, str], set[_Key]] = {}  # by owner and thread: those that may have more to post
        self._listening: dict[tuple[str, str], Callable[[], None]] = {}  # likewise: ends the listening
        self._slots: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self.read = self._configs.read

    # --- the configs of a task

    async def put(self, caller: Caller, task_id: str, config: PushConfig, *, first_run: str = "") -> JsonObject:
        """Keep a config, and post the task's updates from now on. Gives the config as it is shown. All updates of the
        run that is at work are posted. `task_id` may be the id of any of the task's runs. `first_run` is the run that
        came with the config; if it is empty, the config came alone, and counts as a run.

        Raises:
            InvalidRequestError: the task has too many configs (-32602).
            NotFoundError: no such task (-32001).
            TooManyRequestsError: a limit of the caller's is reached.
        """
        task = await self._tasks.task(caller, task_id)
        task_id, thread_id = task.fold.task_id, task.fold.context_id
        earlier = [record.run_id for record in task.runs]
        if first_run in earlier:
            earlier = earlier[: earlier.index(first_run)]
        elif task.fold.state.at_work:
            earlier.pop()
        over = not first_run and task.fold.state.ended
        config = replace(config, seen=earlier[-1] if earlier else "", over=over)
        if first_run:  # which is not to begin a second time at another gateway
            kept = await self._configs.put(caller, task_id, thread_id, config, counted=False)
            await self._expect_if_free(_Key(caller.owner, task_id, kept.config_id), thread_id)
            return kept.shown(task_id, config.dialect)
        async with self._holding(caller, thread_id):
            kept = await self._configs.put(caller, task_id, thread_id, config, counted=True)
            if not over:
                await self._expect(_Key(caller.owner, task_id, kept.config_id), thread_id)
        return kept.shown(task_id, config.dialect)

    async def go_on(self, caller: Caller, task: StoredTask) -> None:
        """Post the updates of the task's run, which has begun here: another gateway may have followed the task before.

        Raises:
            StoreError: its configs cannot be read.
        """
        if self._environment.gateways.is_shared:
            for config in await self._configs.of_task(caller, task.fold.task_id):
                if not config.over:
                    key = _Key(caller.owner, task.fold.task_id, config.config_id)
                    await self._expect_if_free(key, task.fold.context_id)

    async def get(self, caller: Caller, task_id: str, config_id: str, dialect: Dialect) -> JsonObject:
        """A config as it is shown; without an id the task's first one. Raises NotFoundError (-32001)."""
        for config in await self._configs.of_task(caller, task_id, unsealed=True):
            if config_id in ("", config.config_id):
                return config.shown(task_id, dialect)
        raise NotFoundError(f"the task has no push notification config {config_id[:256]!r}", code=TASK_NOT_FOUND)

    async def all(self, caller: Caller, task_id: str, dialect: Dialect) -> list[JsonObject]:
        """The configs of a task as they are shown, the oldest first."""
        configs = await self._configs.of_task(caller, task_id, unsealed=True)
        return [config.shown(task_id, dialect) for config in configs]

    async def delete(self, caller: Caller, task_id: str, config_id: str) -> None:
        """Delete a config, if it is there: nothing is posted to it any more."""
        key, thread_id = _Key(caller.owner, task_id, config_id), await self._configs.thread_of(caller, task_id)
        if thread_id is None:
            return
        async with self._holding(caller, thread_id):
            await self._configs.delete(caller, task_id, config_id)
            if key in self._open.get((caller.owner, thread_id), ()):
                self._follow(key, thread_id)  # which finds it gone

    @asynccontextmanager
    async def _holding(self, caller: Caller, thread_id: str) -> AsyncGenerator[None]:
        """Change the configs of a thread's task at the gateway that posts to them. Raises HeldElsewhereError."""
        stop = await self._environment.on_run_begun(caller, thread_id, lambda _: None)
        try:
            yield
        finally:
            stop()

    # --- the process

    async def sweep(self) -> None:
        """Post the updates that an earlier process did not post. Delete configs that are old, or whose task is gone."""
        known = {(key, thread_id) for (_, thread_id), keys in self._open.items() for key in keys}
        async for found, config in self._configs.open():
            key, thread_id = _Key(found.owner, found.document_id, config.config_id), found.thread_id or ""
            known.discard((key, thread_id))
            await self._expect_if_free(key, thread_id, only_end=True)
        for key, thread_id in known:  # these may be gone: then they are forgotten
            self._follow(key, thread_id)
        await self._configs.forget_old()

    async def close(self) -> None:
        """Stop. The next process posts the updates that are left."""
        self._open.clear()
        for stop in self._listening.values():
            stop()
        self._listening.clear()
        followers = list(self._followers.values())
        for follower in followers:
            follower.cancel()
        await asyncio.gather(*followers, return_exceptions=True)
        self._followers.clear()

    # --- followers

    async def _expect(self, key: _Key, thread_id: str, *, only_end: bool = False) -> None:
        """Post what comes. Raises HeldElsewhereError: another gateway does."""
        place = (key.owner, thread_id)
        self._open.setdefault(place, set()).add(key)
        try:
            if place not in self._listening:
                stop = await self._environment.on_run_begun(
                    Caller(key.owner), thread_id, self._note_run, lambda: self._lose(place)
                )
                self._listening.pop(place, _nothing)()  # another one may have come meanwhile
                self._listening[place] = stop
        except BaseException:
            self._forget(key, thread_id)
            raise
        self._follow(key, thread_id, only_end=only_end)

    async def _expect_if_free(self, key: _Key, thread_id: str, *, only_end: bool = False) -> None:
        """As `_expect`, unless another gateway holds the thread, and posts, or one that is gone left a run on it: the
        first gateway posts that later.
        """
        with suppress(HeldElsewhereError, ConflictError):
            await self._expect(key, thread_id, only_end=only_end)

    def _forget(self, key: _Key, thread_id: str) -> None:
        place = (key.owner, thread_id)
        keys = self._open.get(place, set())
        keys.discard(key)
        if not keys and self._open.pop(place, None) is not None:
            self._listening.pop(place, _nothing)()

    def _lose(self, place: tuple[str, str]) -> None:
        """Post nothing more of a thread: this gateway was taken for dead, and the first one posts what is left."""
        self._listening.pop(place, _nothing)()
        for key in self._open.pop(place, ()):
            if (follower := self._followers.get(key)) is not None:
                follower.cancel()

    def _note_run(self, record: RunRecord) -> None:
        for key in self._open.get((record.owner, record.thread_id), ()):
            self._follow(key, record.thread_id)

    def _follow(self, key: _Key, thread_id: str, *, only_end: bool = False) -> None:
        if key in self._followers:
            self._again.add(key)
            return
        work = self._work(key, thread_id, only_end)
        self._followers[key] = asyncio.create_task(work, name=f"push notifications of {key.task_id}")

    async def _work(self, key: _Key, thread_id: str, only_end: bool) -> None:
        extra: dict[str, object] = {"task_id": key.task_id, "config_id": key.config_id}
        try:
            while True:
                self._again.discard(key)
                if not await self._catch_up(key, thread_id, only_end):
                    self._forget(key, thread_id)
                    return
                if key not in self._again:
                    return
                only_end = False
        except (_GoneError, NotFoundError, HeldElsewhereError):  # the config or its task was deleted, or is another's
            self._forget(key, thread_id)
        except GatewayError as error:
            if self._environment.gateways.is_shared:  # the first gateway tries again
                self._forget(key, thread_id)
            logger.warning(
                "push notifications of a task stop; the next ones are tried again", extra={**extra, "code": error.code}
            )
        except Exception:
            logger.exception("push notifications of a task failed", extra=extra)
        finally:
            self._followers.pop(key, None)

    async def _catch_up(self, key: _Key, thread_id: str, only_end: bool) -> bool:
        """Post the updates that are left for the config, and follow the run that is at work. Gives whether more may
        come.
        """
        caller = Caller(key.owner)
        while True:
            config = await self._configs.one(caller, key.task_id, key.config_id)
            if config is None or config.over:
                return False
            records = await self._tasks.runs(caller, key.task_id)
            ids = [record.run_id for record in records]
            start = ids.index(config.seen) + 1 if config.seen in ids else 0
            if start == len(records):
                return True
            if only_end:
                start = len(records) - 1
            task = self._tasks.new_task(caller, key.task_id, thread_id)
            for record in records[:start]:
                await self._tasks.follow(caller, task, record)
            record = records[start]
            await self._post_run(key, config.dialect, task, record, only_end=only_end)
            if task.fold.state.at_work:  # this process gave the run up: the next one goes on with it
                return True
            await self._configs.note_seen(caller, key.task_id, key.config_id, record.run_id, over=task.fold.state.ended)

    async def _post_run(
        self, key: _Key, dialect: Dialect, task: StoredTask, record: RunRecord, *, only_end: bool
    ) -> None:
        """Post a run's updates, the end included. Once one could not be posted, only the end is; then the task is
        posted as a whole, as it is with `only_end`.
        """
        caller, fold = Caller(key.owner), task.fold
        left_out, updates = only_end, None
        async with aclosing(self._batches(caller, record)) as batches:
            async for events in batches:
                if updates is None:
                    await self._tasks.add(caller, task, record)
                    updates = PushUpdates(fold)
                if isinstance(events[-1], RunFinished | RunFailed):
                    fold.note_times(await self._environment.run(caller, record.client_id))
                for body, ends in _bodies(dialect, fold, updates.follow(events)):
                    if ends or not left_out:
                        left_out = not await self._post(key, _whole(dialect, fold) if left_out else body)
        if updates is None:  # its log is gone
            await self._tasks.follow(caller, task, record)
            await self._post(key, _whole(dialect, fold))

    async def _batches(self, caller: Caller, record: RunRecord) -> AsyncGenerator[Sequence[Event]]:
        """The run's events from the first one on. A viewer that is too slow loses its place; the log has the rest."""
        after, run_id = 0, record.client_id
        attach = self._environment.attach
        while (viewer := await attach(caller, run_id, after=after, log_id=record.log_id)) is not None:
            with closing(viewer):
                async for batch in viewer:
                    after = max(after, batch.first + count_of(batch.events) - 1)
                    yield batch.events
            if not viewer.dropped:
                return

    # --- requests

    async def _post(self, key: _Key, body: bytes) -> bool:
        """Post a body, and again after a pause if it is not taken. Gives whether the receiver took it.

        Raises:
            _GoneError: the config was deleted.
        """
        caller, why, url = Caller(key.owner), "", ""
        for pause in (0.0, *_PAUSES):
            if pause:
                await self._environment.pause(pause)
            await self._environment.gateways.until_sure()
            config = await self._configs.one(caller, key.task_id, key.config_id, unsealed=True)
            if config is None:
                raise _GoneError
            url = config.url
            slots = self._slots.setdefault(key.owner, asyncio.Semaphore(_AT_ONCE))
            async with slots:
                why = await self._try(config, body)
            if not why:
                return True
        extra = {"task_id": key.task_id, "config_id": key.config_id, "host": urlsplit(url).hostname, "reason": why}
        logger.warning("a push notification was not taken", extra=extra)
        return False

    async def _try(self, config: PushConfig, body: bytes) -> str:
        """Post a body once. Gives why the receiver did not take it; empty: it did."""
        headers = {"content-type": "application/json"}
        if config.token:
            headers["x-a2a-notification-token"] = config.token
        if config.scheme and config.credentials:
            headers["authorization"] = f"{config.scheme} {config.credentials}"
        try:
            status = await self._environment.fetcher.post(
                config.url, headers=headers, content=body, timeout_seconds=_TIMEOUT_SECONDS
            )
        except InvalidRequestError as error:
            return error.message
        return "" if 200 <= status < 300 else f"the answer was status {status}"


def _nothing() -> None:
    """There is no listening to end."""


def _bodies(dialect: Dialect, fold: TaskFold, updates: Sequence[PushUpdate]) -> list[tuple[bytes, bool]]:
    """The bodies that are posted for these updates, each with a flag: it is the run's end. Receivers of 0.3 get the
    task as it is now, where its state has changed.
    """
    if dialect is Dialect.V03:
        changed = [update.ends for update in updates if update.is_status]
        return [(_whole(dialect, fold), any(changed))] if changed else []
    return [(dump(update.payload), update.ends) for update in updates]


def _whole(dialect: Dialect, fold: TaskFold) -> bytes:
    """The task as it is now."""
    task = written_task(dialect, fold.task())
    return dump(task if dialect is Dialect.V03 else stream_response(dialect, "task", task))


async def sweep_push(environment: ProtocolEnvironment) -> None:
    """The protocol's sweep."""
    await environment.shared(PushDelivery).sweep()


async def close_push(environment: ProtocolEnvironment) -> None:
    """The protocol's end."""
    await environment.shared(PushDelivery).close()
