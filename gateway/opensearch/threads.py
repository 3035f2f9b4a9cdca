"""Threads in the cluster: reads them, and commits each write with one conditional write of the thread's document.

Below: thread_record, sources. Above: runs, the store. A write has three steps. First it creates documents that nobody
reads yet: messages, a run, the log's last chunk. Then it commits: it replaces the thread's document, which names them,
if that is still as it was. Then it brings the documents by which threads and runs are found up to date; if the process
ends before that, the next write of the thread does it.

The writes of a thread are done one after another, in the order of the calls, in tasks of this module's own: a caller
that is cancelled stops nothing. A commit is a sure write (see there). What cannot be written after a commit does not
fail the write: it is written as soon as the cluster can be reached.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar

from gateway.errors import ConflictError, GatewayError, StoreError
from gateway.lru import LruCache
from gateway.messages import JsonObject, Message
from gateway.opensearch import run_record, thread_record
from gateway.opensearch.bulks import Action, Item, Place
from gateway.opensearch.cluster import USUAL_SECONDS
from gateway.opensearch.ids import Order, digest, new_token
from gateway.opensearch.indices import MESSAGES, THREADS
from gateway.opensearch.membership import Membership
from gateway.opensearch.run_record import StoredRun, members_of, run_key, thread_id_of
from gateway.opensearch.sources import Found, Key, Replacement, Sources, documents_of, part_deletions, write
from gateway.opensearch.state import due_items
from gateway.opensearch.sure_writes import SureWrites
from gateway.opensearch.thread_record import ThreadRecord, positions
from gateway.opensearch.turns import Turns
from gateway.opensearch.version_states import MovedOut, States, decode_states, filled, states_key
from gateway.owners import is_visitors, site_of
from gateway.records import decode_message, dump_json, encode_message, load_json
from gateway.store import DueDeletion, HeldElsewhereError, Thread
from gateway.store.piece_json import from_json, to_json
from gateway.store.transfer import MovedThread

logger = logging.getLogger(__name__)

Result = TypeVar("Result")
ThreadKey: TypeAlias = tuple[str, str]

LIMIT_BYTES: Final = 64 * 1024 * 1024
_MOST_HELD = 10_000
# A new thread's id is looked up just before its first run begins.
_MOST_ABSENT = 1_000
# From `load_start` to the `load_thread` that follows it.
_JUST_READ_SECONDS = 0.2
_STATES_BYTES = 16 * 1024 * 1024
# Reads of a thread whose states are being replaced.
_TRIES = 10
# The Python objects of a decoded message, besides its text.
_MESSAGE_BYTES = 1000


class KeptMessage(NamedTuple):
    """A stored message, when it came, and how many bytes it takes."""

    message: Message
    at: float | None
    size: int


@dataclass(slots=True)
class Held:
    """A thread's document as it was last read or written. `record` is None for a thread that was deleted, whose
    document is still there; `due` as in ThreadStore.delete_thread if something else of it may be there too.
    `is_settled`: the documents of its `fresh` runs are written.
    """

    record: ThreadRecord | None
    place: Place | None
    token: str
    is_settled: bool = False
    document: Found | None = None
    due: tuple[DueDeletion, ...] | None = None


@dataclass(slots=True)
class Change:
    """A write of a thread. `items` are created before the commit, `after` are written after it."""

    record: ThreadRecord
    items: list[Item] = field(default_factory=list)
    after: list[Item] = field(default_factory=list)


def thread_key(owner: str, thread_id: str) -> Key:
    return Key(THREADS, thread_id_of(owner, thread_id))


def message_key(life: str, position: int) -> Key:
    return Key(MESSAGES, f"{life}.{position}")


class Follower(Protocol):
    """Brings documents up to date by which threads are searched (see collected_threads)."""

    def changes(self, before: ThreadRecord | None, record: ThreadRecord) -> bool: ...

    async def follow(self, before: ThreadRecord | None, record: ThreadRecord) -> None: ...


class Threads:
    """The threads of a store, of which up to `cache_bytes` of messages stay in memory. `follower` follows commits,
    `erase` erases what a run's `erase` names from its log, `finish` deletes what belonged to a deleted thread.
    """

    follower: Follower
    erase: Callable[[StoredRun, str], Awaitable[int]]
    finish: Callable[[ThreadKey, Held], Awaitable[None]]

    def __init__(self, sources: Sources, order: Order, members: Membership, cache_bytes: int = LIMIT_BYTES) -> None:
        self._sources = sources
        self._members = members
        self._order = order
        self._held: LruCache[ThreadKey, Held] = LruCache(_MOST_HELD)
        self._absent: LruCache[ThreadKey, bool] = LruCache(_MOST_ABSENT)
        self._just_read: LruCache[ThreadKey, float] = LruCache(_MOST_ABSENT)
        self._messages: LruCache[tuple[str, int], KeptMessage] = LruCache(cache_bytes)
        self._states: LruCache[tuple[str, str], States] = LruCache(_STATES_BYTES)
        self._turns: Turns[ThreadKey] = Turns()
        self.sure = SureWrites(sources)

    def in_line(self, key: ThreadKey, work: Callable[[], Coroutine[Any, Any, Result]]) -> asyncio.Task[Result]:
        """Do `work` after everything that was asked of this thread before."""
        return self._turns.start([key], work)

    async def settled(self) -> None:
        """Wait for the writes that have begun, so that lists have what they wrote."""
        await self._turns.settled(USUAL_SECONDS)
        await self.sure.all_known()

    async def close(self) -> None:
        """Wait for all writes."""
        await self._turns.close()
        await self.sure.close()

    # --- reads

    async def find(self, key: ThreadKey) -> Held | None:
        """The thread's document, read now; None: there is none."""
        await self.sure.known([key])
        found = await self._sources.read_one(thread_key(*key))
        return self.took(key, found)

    def note_start(self, key: ThreadKey) -> None:
        """The thread was just read for a run that begins: the next `find_started` does not have to read it again."""
        self._just_read.keep(key, asyncio.get_running_loop().time() + _JUST_READ_SECONDS)

    async def find_started(self, key: ThreadKey) -> Held | None:
        """As `find`, but not read again if that was just done. A begin is refused if the thread has changed since."""
        until = self._just_read.drop(key)
        if until is not None and asyncio.get_running_loop().time() < until:
            await self.sure.known([key])
            held = self._held.get(key)
            if held is not None or key in self._absent:
                return held
        return await self.find(key)

    async def known(self, key: ThreadKey) -> Held | None:
        """The thread's document as it was when this process last read or wrote it, for a write that is refused if it
        has changed. What is left of a deleted thread is deleted first: a new one may have the same id.
        """
        await self.sure.known([key])
        held = self._held.get(key) or (None if key in self._absent else await self.find(key))
        if held is None or held.due is None:
            return held
        await self.finish(key, held)
        return None

    async def own(self, key: ThreadKey, *, as_known: bool = False) -> Held | None:
        """The thread's document, read now, for a write of this gateway; with `as_known` as it was last read.

        Raises:
            HeldElsewhereError: another gateway holds the thread.
        """
        if not as_known:
            await self.find(key)
        held = await self.known(key)
        if held is not None and held.record is not None and (holder := await self.holder_of(held.record)):
            if as_known:
                return await self.own(key)
            raise HeldElsewhereError(key[1], holder)
        return held

    @property
    def own_id(self) -> str:
        """The id of this gateway."""
        return self._members.own_id

    def hold(self, record: ThreadRecord, working: str = "") -> ThreadRecord:
        """The record of a thread that this gateway holds, for this run."""
        return replace(record, holder=self._members.own_id, working=working)

    async def holder_of(self, record: ThreadRecord | StoredRun) -> str | None:
        """The other gateway that holds the thread, or has the run that waits."""
        return record.holder if await self._members.is_there(record.holder) else None

    def check_as_read(self, held: Held | None, thread: Thread) -> None:
        """Raises HeldElsewhereError if a write of the thread rests on another state than the one that is stored."""
        record = None if held is None else held.record
        if not self._members.is_shared or thread.revision is None:
            return
        if record is not None and record.holder == self.own_id:
            return  # only this gateway has written it since
        if thread.revision != ("" if record is None else record.token):
            raise HeldElsewhereError(thread.thread_id, None)

    def is_left(self, record: ThreadRecord, under_way: Collection[tuple[str, str]]) -> bool:
        """Whether a gateway that is gone left a run on the thread, which nobody has ended yet. `under_way` are the runs
        of this gateway, by owner and id.
        """
        if not record.working:
            return False
        is_taken_over = self._members.is_shared and (record.about.owner, record.working) not in under_way
        is_left = is_taken_over or record.holder != self.own_id
        if is_left:
            self._members.note_left()
        return is_left

    def took(self, key: ThreadKey, found: Found | None, record: ThreadRecord | None = None) -> Held | None:
        """Take over a thread's document that was just read. `record`: its record, if it is decoded already."""
        if found is None:
            self._held.drop(key)
            self._absent.keep(key, True)
            return None
        self._absent.drop(key)
        held = self._held.get(key)
        # a read may have begun before the last write
        if held is None or held.place is None or held.place < found.place:
            is_deleted = bool(found.source.get("deleted"))
            if record is None and not is_deleted:
                record = thread_record.decode(found.record, found.token)
            held = Held(record, found.place, found.token, document=found, due=due_of(found) if is_deleted else None)
            self._held.keep(key, held)
        return held

    def decoded(self, found: Found) -> ThreadRecord | None:
        """The record of a thread's document that a search found; None: the thread was deleted."""
        if found.source.get("deleted"):
            return None
        record = thread_record.decode(found.record, found.token)
        held = self.took((record.about.owner, record.about.thread_id), found, record)
        return None if held is None else held.record

    async def record(self, key: ThreadKey) -> ThreadRecord | None:
        """The thread's record, read now."""
        held = await self.find(key)
        return None if held is None else held.record

    async def records(self, keys: Sequence[ThreadKey]) -> dict[ThreadKey, ThreadRecord | None]:
        """The records of some threads, read now."""
        if len(keys) == 1:
            return {keys[0]: await self.record(keys[0])}
        found = await self._sources.read([thread_key(*key) for key in keys])
        held = {key: self.took(key, document) for key, document in zip(keys, found, strict=True)}
        return {key: None if each is None else each.record for key, each in held.items()}

    async def whole(self, record: ThreadRecord | None) -> Thread | None:
        """The thread with the messages and states of its current version; None: it was deleted meanwhile."""
        record = await self.loaded(record, lambda each: [each.about.version])
        if record is None:
            return None
        kept = await self.messages(record, positions(record.current))
        return record.thread(record.about.version, [each.message for each in kept])

    async def messages(self, record: ThreadRecord, places: Sequence[int]) -> list[KeptMessage]:
        """The thread's messages at these positions."""
        found = {place: kept for place in places if (kept := self._messages.get((record.key, place))) is not None}
        missing = [place for place in places if place not in found]
        if missing:
            sources = await self._sources.read([message_key(record.key, place) for place in missing])
            for place, source in zip(missing, sources, strict=True):
                if source is None:
                    raise StoreError("a message is missing in the OpenSearch cluster")
                found[place] = self._keep(record.key, place, source)
        return [found[place] for place in places]

    def _keep(self, life: str, place: int, source: Found) -> KeptMessage:
        message = decode_message(source.record)
        return self._remember(life, place, KeptMessage(message, source.source.get("at"), len(source.record)))

    def _remember(self, life: str, place: int, kept: KeptMessage) -> KeptMessage:
        self._messages.keep((life, place), kept, kept.size + _MESSAGE_BYTES)
        return kept

    async def loaded(
        self, record: ThreadRecord | None, numbers: Callable[[ThreadRecord], Iterable[int]]
    ) -> ThreadRecord | None:
        """The record with the states of these versions in it. It is read again if they were replaced meanwhile; None:
        the thread was deleted.
        """
        for _ in range(_TRIES):
            if record is None:
                return None
            found = await self.with_states(record, numbers(record))
            if found is not None:
                return found
            record = await self.record((record.about.owner, record.about.thread_id))
        raise StoreError("the state of a thread's version is missing in the OpenSearch cluster")

    async def with_states(self, record: ThreadRecord, numbers: Iterable[int]) -> ThreadRecord | None:
        """The record with the states of these versions in it; None: there is one that a later commit does not name."""
        names = {number: record.states[number].name for number in numbers if number in record.states}
        found = {number: kept for number, name in names.items() if (kept := self._states.get((record.key, name)))}
        missing = [number for number in names if number not in found]
        keys = [states_key(record.key, names[number]) for number in missing]
        for number, source in zip(missing, await self._sources.read(keys), strict=True):
            if source is None:
                return None
            found[number] = self._remember_states(record.key, names[number], decode_states(source.record))
        return filled(record, found) if found else record

    def remember_states(self, out: MovedOut) -> None:
        """Keep what is about to be written in memory."""
        for name, states in out.new.items():
            self._remember_states(out.record.key, name, states)

    def _remember_states(self, life: str, name: str, states: States) -> States:
        self._states.keep((life, name), states, sum(len(each or b"") for each in states) + _MESSAGE_BYTES)
        return states

    # --- writes

    def new_life(self) -> tuple[str, int]:
        """The key and the order of a new thread."""
        return new_token(), self._order.next()

    async def commit(
        self, key: ThreadKey, held: Held | None, change: Change, *, seconds: float = USUAL_SECONDS
    ) -> Held:
        """Do a write. `held` is the document that `change` begins with.

        Raises:
            StoreError: it was not done.
            HeldElsewhereError: another gateway has written the thread meanwhile.
        """
        record = change.record
        if held is not None and held.record is not None:
            record = await self._settled_record(held, record)
        before = None if held is None else held.record
        if self.follower.changes(before, record):
            record = replace(record, late=True)
        with self.unless_refused(before, record):
            if change.items:
                held = await self.write_items(key, held, change.items, seconds)
            now = await self._commit(key, held, record, seconds)
        if record.late:
            now = await self._follow(key, before, now)
        await self._afterwards([*due_items(record.due), *change.after], seconds)
        return now

    @contextmanager
    def unless_refused(self, before: ThreadRecord | None, record: ThreadRecord) -> Generator[None]:
        """If the write is not done, another gateway's messages may come to the places of its messages."""
        try:
            yield
        except (HeldElsewhereError, GatewayError):
            first = 0 if before is None else before.next_position
            self.forget_messages(record.key, range(first, record.next_position))
            raise

    async def release(self, key: ThreadKey) -> None:
        """Hold a thread no longer on which no run is under way."""
        held = await self.find(key)
        if held is None or held.record is None or held.record.holder != self.own_id or held.record.working:
            return
        await self._commit(key, held, replace(held.record, holder=""), USUAL_SECONDS)

    async def write_items(
        self, key: ThreadKey, held: Held | None, items: Sequence[Item], seconds: float
    ) -> Held | None:
        """Create documents that the thread's next commit names; gives its document then.

        Only the gateway that holds a thread may replace what a refused write left in their places. So one that does not
        hold it yet begins to at the same time.

        Raises:
            HeldElsewhereError: another gateway has written the thread meanwhile.
        """
        record = None if held is None else held.record
        if held is None or record is None or not self._members.is_shared or record.holder == self.own_id:
            await self._sources.write_new(items, seconds=seconds)
            return held
        holding = asyncio.ensure_future(self._commit(key, held, self.hold(record), seconds))
        try:
            done = await self._sources.bulks.write(items, seconds=seconds)
        finally:
            await asyncio.wait([holding])
            holding.exception()  # marks it as seen
        now = holding.result()
        now.is_settled = held.is_settled
        await self._sources.replace_taken(items, done, seconds=seconds)
        return now

    async def _afterwards(self, items: Sequence[Item], seconds: float) -> None:
        """Write what follows from a commit."""
        try:
            await self._sources.bulks.write(items, seconds=seconds)
        except StoreError:
            self.sure.repeat(lambda: self._sources.bulks.write(items))

    async def _follow(self, key: ThreadKey, before: ThreadRecord | None, held: Held) -> Held:
        """Bring the thread's documents up to date, then take the mark away that they are late."""
        assert held.record is not None, "it was just written"
        try:
            await self.follower.follow(before, held.record)
            return await self._commit(key, held, replace(held.record, late=False), USUAL_SECONDS)
        except StoreError as error:  # the messages are kept; remove_logs writes the rest
            logger.warning("documents of a thread could not be written yet", extra={"code": error.code})
            return held

    async def _commit(self, key: ThreadKey, held: Held | None, record: ThreadRecord, seconds: float) -> Held:
        token = new_token()
        record = replace(record, token=token)
        source, parts = document_of(record, token)
        await self._sources.write_new(parts, seconds=seconds)
        place = await self._replace(key, held, source, seconds)
        now = Held(record, place, token, is_settled=not record.fresh)
        self._keep_held(key, now)
        if parts:
            now.document = Found({"token": token, "parts": len(parts)}, place, b"")
        if held is not None and held.document is not None:
            await self._afterwards(part_deletions(thread_key(*key), held.document), seconds)
        return now

    def _keep_held(self, key: ThreadKey, held: Held) -> None:
        self._held.keep(key, held)
        self._absent.drop(key)

    async def _settled_record(self, held: Held, record: ThreadRecord) -> ThreadRecord:
        """The record without what has documents of its own by now. What a killed process left is written."""
        assert held.record is not None, "the caller checks that"
        old = [each for each in record.fresh if each in held.record.fresh]
        if not held.is_settled:
            await self._settle_runs(held.record, old)
            await self._sources.bulks.write(due_items(held.record.due))
        fresh = [each for each in record.fresh if each not in old]
        due = [each for each in record.due if each not in held.record.due]
        return replace(record, fresh=tuple(fresh), due=tuple(due))

    async def settle(self, key: ThreadKey, held: Held) -> None:
        """Bring the documents of the runs up to date that a commit changed, unless a later commit has done it."""
        if held.record is None or held.is_settled or self._held.get(key) is not held:
            return
        await self._settle_runs(held.record, held.record.fresh)
        held.is_settled = True

    async def _settle_runs(self, record: ThreadRecord, runs: Sequence[StoredRun]) -> None:
        thread = thread_id_of(record.about.owner, record.about.thread_id)
        now = [replace(each, size=await self.erase(each, thread)) if each.erase else each for each in runs]
        await self._sources.replace([self.run_document(record, each) for each in now])

    def run_document(self, record: ThreadRecord, run: StoredRun) -> Replacement:
        """A committed run's document, which may be deleted by now."""
        followed = bool(record.runs) and record.runs[-1] != run.run.run_id and not run.waits
        stands = replace(run, stands=True, erase=())
        key = run_key(run.run.owner, run.run.run_id)
        source, parts = documents_of(key, run_record.encode(stands), members_of(stands, followed=followed), new_token())
        return Replacement(key, source, parts, run.place)

    async def _replace(self, key: ThreadKey, held: Held | None, source: bytes, seconds: float) -> Place:
        place = None if held is None else held.place
        item = write("create" if place is None else "index", thread_key(*key), source, place)
        try:
            now = await self.sure.write([key], item, lambda: self._as_before(key, held), seconds=seconds)
        except StoreError:
            self._forget(key)
            raise
        if now is None:
            self._forget(key)
            raise self._changed_meanwhile(key[1])
        return now

    def _changed_meanwhile(self, thread_id: str) -> Exception:
        if self._members.is_shared:
            return HeldElsewhereError(thread_id, None)
        return ConflictError(f"thread {thread_id!r} was changed meanwhile; send the request again", code="thread_busy")

    def _forget(self, key: ThreadKey) -> None:
        self._held.drop(key)
        self._absent.drop(key)

    def _as_before(self, key: ThreadKey, held: Held | None) -> tuple[bytes, list[Item]]:
        """The thread's document as it was before a write."""
        where = thread_key(*key)
        if held is None or held.record is None:
            # a deleted document would let the lost write create the thread
            return documents_of(where, b"{}", {"deleted": True}, new_token())
        return document_of(held.record, new_token())

    def new_messages(
        self,
        record: ThreadRecord,
        first: int,
        messages: Sequence[Message],
        times: Sequence[float | None],
    ) -> tuple[list[Item], int]:
        """Creates these messages from position `first` on; and their bytes."""
        items: list[Item] = []
        size = 0
        for position, (message, at) in enumerate(zip(messages, times, strict=True), first):
            data = encode_message(message)
            size += len(data)
            items += message_items("create", record.about, message_key(record.key, position), message.id, data, at)
            self._remember(record.key, position, KeptMessage(message, at, len(data)))
        return items, size

    def forget_all(self) -> None:
        """Forget what was read, and undo nothing: somebody else has written it since."""
        self.sure.give_up()
        for cache in (self._held, self._absent, self._messages, self._states):
            cache.clear()

    def forget_messages(self, life: str, places: Iterable[int]) -> None:
        for place in places:
            self._messages.drop((life, place))

    async def delete(self, key: ThreadKey, held: Held, due: Sequence[DueDeletion]) -> Held:
        """Commit the thread's deletion: its document stays until everything else is gone. `due` as in
        ThreadStore.delete_thread.
        """
        token = new_token()
        record = dump_json({"key": [*key], "due": [to_json(each) for each in due]})
        source, parts = documents_of(thread_key(*key), record, {"deleted": True, "order": self._order.next()}, token)
        await self._sources.write_new(parts)
        place = await self._replace(key, held, source, USUAL_SECONDS)
        if held.record is not None:
            self.forget_messages(held.record.key, range(held.record.next_position))
        document = Found({"token": token, "parts": len(parts)}, place, b"")
        now = Held(None, place, token, document=document, due=tuple(due))
        self._keep_held(key, now)
        return now

    async def forget(self, key: ThreadKey, held: Held) -> None:
        """Delete the document of a deleted thread."""
        where = thread_key(*key)
        parts = [] if held.document is None else part_deletions(where, held.document)
        await self._sources.bulks.write([Item("delete", where.name, where.document_id, None, held.place), *parts])
        self._held.drop(key)


def due_of(found: Found) -> tuple[DueDeletion, ...] | None:
    """The deletions that a thread's document names; None: nothing is left of a deleted thread."""
    data = load_json(found.record)
    return tuple([from_json(DueDeletion, each) for each in data.get("due", ())]) if "key" in data else None


def document_of(record: ThreadRecord, token: str) -> tuple[bytes, list[Item]]:
    """The thread's document, and the parts that are too many for it."""
    where = thread_key(record.about.owner, record.about.thread_id)
    return documents_of(where, thread_record.encode(record), _members(record), token)


def _members(record: ThreadRecord) -> JsonObject:
    """By which members a thread is found."""
    about = record.about
    members: JsonObject = {
        "owner": digest(about.owner),
        "late": record.is_unfinished,
        "listed": about.listed,
        "visitor": is_visitors(about.owner),
        "created_at": about.created_at,
        "updated_at": about.updated_at,
        "order": record.order,
    }
    if about.expires_at is not None:
        members |= {"expires_at": about.expires_at, "lives_until": record.expires_at}
    if (site := site_of(about.owner)) is not None:
        members |= {"site": digest(site), "bytes": record.kept_bytes}
    return members


def message_items(
    action: Action, about: MovedThread, key: Key, message_id: str, data: bytes, at: float | None
) -> list[Item]:
    """Writes the document of a message of the thread `about`."""
    members: JsonObject = {
        "thread": thread_id_of(about.owner, about.thread_id),
        "owner": digest(about.owner),
        "message": digest(message_id),
        "position": int(key.document_id.rpartition(".")[2]),
        "at": at,
    }
    source, parts = documents_of(key, data, members, new_token())
    return [*parts, write(action, key, source)]
