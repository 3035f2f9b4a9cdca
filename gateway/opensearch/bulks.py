"""Writes of all runs and threads, which share `_bulk` requests.

Below: cluster. Above: everything that writes. A request takes what has come until the connection is free, up to 5 MB;
at most two are under way. So a lone write goes at once, and under load each request carries many. Items do not keep an
order: who needs one waits for the first item's result. Busy items (429, 503) and lost requests are tried again until
the item's time is over, which no other item of the request makes longer; an item may so be done twice.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

import orjson

from gateway.errors import StoreError
from gateway.messages import JsonObject
from gateway.opensearch.cluster import USUAL_SECONDS, Answer, Cluster, UnknownError, failure, is_busy

Action: TypeAlias = Literal["index", "create", "update", "delete"]

MOST_BYTES: Final = 5_000_000
_MOST_ITEMS = 2_000
_MOST_AT_ONCE = 2
_FIRST_WAIT_SECONDS = 0.05
_LONGEST_WAIT_SECONDS = 1.0
# How often it is looked whose time is over while no connection was free.
_LOOK_SECONDS = 0.1
_ANSWERED = "?filter_path=items.*.status,items.*.error,items.*._seq_no,items.*._primary_term"


class Place(NamedTuple):
    """The state of a document: it grows with each write."""

    seq_no: int
    primary_term: int


@dataclass(frozen=True, slots=True)
class Item:
    """A write of one document. `index` is the name without the prefix. `source` is JSON: the document, for an update
    the changed members (as OpenSearch wants them); None for a delete. With `expected` the write fails with a 409 if the
    document has another state.
    """

    action: Action
    index: str
    document_id: str
    source: bytes | None = None
    expected: Place | None = None


class Done(NamedTuple):
    """An item's result: its status, and the document's new state if it was written."""

    status: int
    place: Place | None = None


@dataclass(slots=True)
class _Waiting:
    item: Item
    lines: bytes
    until: float
    tell: Callable[[Done | StoreError], None]
    wait: float = _FIRST_WAIT_SECONDS
    is_unknown: bool = False

    def fail(self, error: StoreError) -> None:
        """The write was not done; or, after an earlier try, nobody knows whether it was."""
        if self.is_unknown and not isinstance(error, UnknownError):
            error = UnknownError(error.message, code=error.code)
        self.tell(error)


class Bulks:
    """Takes writes on the event loop. They wait while `may_send` is false."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._queue: deque[_Waiting] = deque()
        self._under_way: set[asyncio.Task[None]] = set()
        self._is_scheduled = False
        self.may_send: Callable[[], bool] = lambda: True
        self._refusal: StoreError | None = None
        self._look: asyncio.TimerHandle | None = None

    def add(self, item: Item, tell: Callable[[Done | StoreError], None], *, seconds: float = USUAL_SECONDS) -> None:
        """Queue a write. `tell` gets its result, a status of 409 or 404 included; an error if it could not be written
        within `seconds`; UnknownError if it may have been nevertheless.
        """
        if self._refusal is not None:
            tell(self._refusal)
            return
        self._put([_Waiting(item, self._lines(item), self._cluster.deadline(seconds), tell)])

    async def write(self, items: Sequence[Item], *, seconds: float = USUAL_SECONDS) -> list[Done]:
        """The results of some writes, in their order.

        Raises:
            StoreError: one of them was not done; UnknownError if it may have been nevertheless.
        """
        if self._refusal is not None:
            raise self._refusal
        if not items:
            return []
        loop = asyncio.get_running_loop()
        results: list[Done | StoreError | None] = [None] * len(items)
        finished: asyncio.Future[None] = loop.create_future()
        left = len(items)

        def teller(number: int) -> Callable[[Done | StoreError], None]:
            def tell(result: Done | StoreError) -> None:
                nonlocal left
                results[number] = result
                left -= 1
                if not left and not finished.done():
                    finished.set_result(None)

            return tell

        until = self._cluster.deadline(seconds)
        self._put([_Waiting(item, self._lines(item), until, teller(number)) for number, item in enumerate(items)])
        await finished
        found: list[Done] = []
        for result in results:
            if isinstance(result, StoreError):
                raise result
            assert result is not None, "all have been told"
            found.append(result)
        return found

    def refuse(self, refusal: StoreError | None) -> None:
        """From now on every write fails with this error, those that wait included; None: no more."""
        self._refusal = refusal
        if refusal is not None:
            waiting, self._queue = self._queue, deque()
            for each in waiting:
                each.fail(refusal)

    async def close(self) -> None:
        """Wait until all writes are done or given up."""
        while self._queue or self._under_way or self._is_scheduled:
            await asyncio.sleep(0)
            if self._under_way:
                await asyncio.wait(set(self._under_way))

    def _lines(self, item: Item) -> bytes:
        about: JsonObject = {"_index": self._cluster.index(item.index), "_id": item.document_id}
        if item.expected is not None:
            about |= {"if_seq_no": item.expected.seq_no, "if_primary_term": item.expected.primary_term}
        head = orjson.dumps({item.action: about})
        return head + b"\n" if item.source is None else b"".join((head, b"\n", item.source, b"\n"))

    def _put(self, waiting: Iterable[_Waiting]) -> None:
        self._queue.extend(waiting)
        if not self._is_scheduled:
            # others of this round of the loop may join
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._send)

    def _send(self) -> None:
        self._is_scheduled = False
        while self._queue and len(self._under_way) < _MOST_AT_ONCE and self.may_send():
            batch: list[_Waiting] = []
            size = 0
            while self._queue and len(batch) < _MOST_ITEMS:
                size += len(self._queue[0].lines)
                if batch and size > MOST_BYTES:
                    break
                batch.append(self._queue.popleft())
            task = asyncio.ensure_future(self._request(batch))
            self._under_way.add(task)
            task.add_done_callback(self._requested)

        if self._queue and self._look is None:
            self._look = asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._give_up)

    def _give_up(self) -> None:
        """Fail those whose time is over before a connection was free."""
        self._look = None
        now = asyncio.get_running_loop().time()
        late = [each for each in self._queue if each.until <= now]
        if late:
            self._queue = deque(each for each in self._queue if each.until > now)
            for each in late:
                each.fail(StoreError("the OpenSearch cluster is too slow"))
        self._send()

    def _requested(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        self._send()

    async def _request(self, batch: list[_Waiting]) -> None:
        body = b"".join([each.lines for each in batch])
        until = min(each.until for each in batch)
        for name in {each.item.index for each in batch}:
            self._cluster.wrote(name)
        try:
            answer = await self._cluster.request_until(until, "POST", f"/_bulk{_ANSWERED}", body)
        except StoreError as error:
            self._failed(batch, until, error)
            return
        for name in {each.item.index for each in batch}:
            self._cluster.wrote(name)
        self._settle(batch, answer)

    def _failed(self, batch: list[_Waiting], until: float, error: StoreError) -> None:
        """If the request failed because the time of one item was over, the others are tried again."""
        now = asyncio.get_running_loop().time()
        is_over = now + _LONGEST_WAIT_SECONDS >= until
        again: list[_Waiting] = []
        for each in batch:
            each.is_unknown = each.is_unknown or isinstance(error, UnknownError)
            if is_over and now + _LONGEST_WAIT_SECONDS < each.until:
                again.append(each)
            else:
                each.fail(error)
        if again:
            self._put(again)

    def _settle(self, batch: list[_Waiting], answer: Answer) -> None:
        items = answer.body.get("items")
        results = items if isinstance(items, list) and len(items) == len(batch) else [None] * len(batch)
        again: list[_Waiting] = []
        now = asyncio.get_running_loop().time()
        for each, result in zip(batch, results, strict=True):
            told = _result(result)
            if isinstance(told, _Busy):
                each.is_unknown = each.is_unknown or isinstance(told.error, UnknownError)
                each.wait = min(2 * each.wait, _LONGEST_WAIT_SECONDS)
                if now + each.wait < each.until:
                    again.append(each)
                else:
                    each.fail(told.error)
            elif isinstance(told, StoreError):
                each.fail(told)
            else:
                each.tell(told)
        if again:
            pause = random.uniform(0.5, 1.0) * max(each.wait for each in again)
            asyncio.get_running_loop().call_later(pause, self._put, again)


class _Busy(NamedTuple):
    error: StoreError


def _result(result: object) -> Done | StoreError | _Busy:
    """The result of one item of a `_bulk` answer."""
    if not isinstance(result, dict) or len(result) != 1:
        return UnknownError("the OpenSearch cluster's answer to a write cannot be read")
    (done,) = result.values()
    status, error = int(done.get("status", 500)), done.get("error")
    if status < 400:
        return Done(status, Place(int(done["_seq_no"]), int(done["_primary_term"])))
    if status in (404, 409):
        return Done(status)
    failed = failure(status, error)
    if status >= 500:
        failed = UnknownError(failed.message)
    return _Busy(failed) if is_busy(status, error) else failed
