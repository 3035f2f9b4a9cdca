"""Writes of one document of which somebody has to know whether they were done.

Below: sources. Above: threads, runs. If that is unknown, the write fails, and the document is written as it was before:
as soon as the cluster can be reached, and before anything else is done with it. A request that is still under way
somewhere is refused then, because the document has another state than the one that the request expects.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Hashable
from typing import Final, TypeAlias

import orjson

from gateway.errors import StoreError
from gateway.opensearch.bulks import Done, Item, Place
from gateway.opensearch.cluster import USUAL_SECONDS, UnknownError
from gateway.opensearch.sources import Key, Sources, write

logger = logging.getLogger(__name__)

_FIRST_WAIT_SECONDS: Final = 0.1
_LONGEST_WAIT_SECONDS: Final = 1.0

Before: TypeAlias = Callable[[], tuple[bytes, list[Item]]]


class SureWrites:
    """`subjects` are what a write is about: whoever uses one of them waits until it is known whether it was done."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._unsure: dict[Hashable, asyncio.Task[None]] = {}
        self._repeated: set[asyncio.Task[None]] = set()
        self._lives = 0  # writes of an earlier one are not undone

    async def write(
        self,
        subjects: Collection[Hashable],
        item: Item,
        before: Before,
        *,
        seconds: float = USUAL_SECONDS,
    ) -> Place | None:
        """Do a write with an `expected` state, or a create: the document's new state, None if it has another one.
        `before` gives the source that the document had, with its parts.

        Raises:
            StoreError: it was not done, or it will be undone.
        """
        done: Done | None = None
        life = self._lives
        try:
            done = await self._sources.write_one(item, seconds=seconds)
            if done.place is not None:
                return done.place
            found = await self._sources.read_one(Key(item.index, item.document_id))
        except StoreError as error:
            if life == self._lives and (done is not None or isinstance(error, UnknownError)):
                self.undo(subjects, item, before)
            raise
        if found is None:
            # an earlier try deleted it, and its answer was lost
            return item.expected if item.action == "delete" else None
        return found.place if found.token == _token(item) else None

    async def known(self, subjects: Collection[Hashable], seconds: float = USUAL_SECONDS) -> None:
        """Wait until it is known of all writes about these whether they were done.

        Raises:
            StoreError: that takes too long.
        """
        await self._wait({self._unsure[each] for each in subjects if each in self._unsure}, seconds)

    async def all_known(self) -> None:
        """As `known`, of all writes."""
        if self._unsure:
            await self._wait(set(self._unsure.values()), USUAL_SECONDS)

    async def _wait(self, tasks: set[asyncio.Task[None]], seconds: float) -> None:
        if not tasks:
            return
        loop = asyncio.get_running_loop()
        seconds = self._sources.cluster.deadline(seconds) - loop.time()
        _, pending = await asyncio.wait(tasks, timeout=seconds)
        if pending:
            raise StoreError("the OpenSearch cluster does not answer; a write that failed is being undone")

    def repeat(self, work: Callable[[], Awaitable[object]]) -> None:
        """Do work until it succeeds: what is left of a write that was done."""
        task = asyncio.ensure_future(self._until_done(work))
        self._repeated.add(task)
        task.add_done_callback(self._repeated.discard)

    def give_up(self) -> None:
        """Undo and repeat nothing of all this any more: others have read it as it is, and go on from there."""
        self._lives += 1
        for task in (*self._unsure.values(), *self._repeated):
            task.cancel()

    async def close(self) -> None:
        """Give up what cannot be done."""
        tasks = {*self._unsure.values(), *self._repeated}
        if tasks:
            _, pending = await asyncio.wait(tasks, timeout=_LONGEST_WAIT_SECONDS)
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)

    async def _until_done(self, work: Callable[[], Awaitable[object]]) -> None:
        wait = _FIRST_WAIT_SECONDS
        while True:
            try:
                await work()
            except StoreError as error:
                logger.debug("a write is tried again", extra={"code": error.code})
                await asyncio.sleep(wait)
                wait = min(2 * wait, _LONGEST_WAIT_SECONDS)
            else:
                return

    def undo(self, subjects: Collection[Hashable], item: Item, before: Before) -> None:
        """Undo a write of which nobody knows whether it was done."""
        task = asyncio.ensure_future(self._until_done(lambda: self._undo(item, before)))
        for each in subjects:
            self._unsure[each] = task

        def known(_: asyncio.Task[None]) -> None:
            for each in subjects:
                if self._unsure.get(each) is task:
                    del self._unsure[each]

        task.add_done_callback(known)

    async def _undo(self, item: Item, before: Before) -> None:
        """Write the document as it was. It changes its state, also if the write was not done yet."""
        key = Key(item.index, item.document_id)
        found = await self._sources.read_one(key)
        if found is None:
            if item.expected is not None and item.action != "delete":
                return  # somebody else has deleted it
        elif found.token != _token(item) and found.place != item.expected:
            return  # somebody else has written it
        source, parts = before()
        await self._sources.write_new(parts)
        place = None if found is None else found.place
        done = await self._sources.write_one(write("create" if place is None else "index", key, source, place))
        if done.place is None:
            raise StoreError("the document was written meanwhile; look again")


def _token(item: Item) -> str:
    """The token of what a write stores; of a deletion none."""
    return "" if item.source is None else str(orjson.loads(item.source)["token"])
