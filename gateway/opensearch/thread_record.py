"""All that a thread's document says, and what each write makes of it.

Below: the contract's data, spans. Above: threads, which keeps records in documents. A record names everything that
belongs to its thread: where the messages of each version are, and the runs that began. So one conditional write of one
document commits what many documents hold. Pure.

A message has a position, which never changes: its document's id is made of the record's `key` and that position. A new
message gets `next_position`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from gateway.agent import ABSENT, Absent
from gateway.errors import ConflictError, StoreError
from gateway.events import OpenInterrupt
from gateway.history.versions import Rewrite
from gateway.messages import JsonObject, Message
from gateway.model_state import decode_states, encode_states
from gateway.opensearch.run_record import StoredRun, run_from_json, run_to_json
from gateway.records import dump_json, join_records, load_json, split_records
from gateway.store import (
    LEAST_LIFE_SECONDS,
    PAUSED_LIFE_SECONDS,
    DueDeletion,
    Thread,
    ThreadChange,
    ThreadSummary,
    ThreadVersion,
)
from gateway.store.piece_json import from_json, to_json
from gateway.store.spans import Layout, Span, cut, gaps, rewritten, total, union
from gateway.store.transfer import MovedThread, MovedVersion

MOST_RECENT: Final = 256
"""How many runs a record names. The oldest ones of more are in pages of RUNS_A_PAGE."""
RUNS_A_PAGE: Final = 128


class KeptState(NamedTuple):
    """A version's states in a document of their own: its name, a digest of what it has, how many bytes the state takes,
    and how many further parts the document has.
    """

    name: str
    digest: str
    size: int
    parts: int


@dataclass(frozen=True, slots=True)
class ThreadRecord:
    """`versions` by number; the states of those in `states` are not here but in documents (see version_states). `runs`
    are the ids of the runs that began last, the newest last; earlier ones are in `pages` documents. `fresh` are runs as
    of a commit that their own documents may not have yet. `size`: how many bytes the messages take. `order` grows from
    thread to thread. `late`: documents by which it is searched may not be as its messages are now. `due` are deletions
    at providers that may not be in documents of their own yet. `holder`: the id of the gateway that holds the thread,
    empty for none; `working`: the run under way there, if there is one. `token` is that of its document, and not part
    of the record.
    """

    about: MovedThread
    key: str
    order: int
    versions: Mapping[int, MovedVersion]
    next_position: int = 0
    runs: tuple[str, ...] = ()
    pages: int = 0
    fresh: tuple[StoredRun, ...] = ()
    size: int = 0
    late: bool = False
    due: tuple[DueDeletion, ...] = ()
    states: Mapping[int, KeptState] = field(default_factory=dict)
    holder: str = ""
    working: str = ""
    token: str = ""

    @property
    def is_unfinished(self) -> bool:
        """Whether something has to be written even if nobody writes the thread again."""
        return self.late or bool(self.due) or any(each.erase for each in self.fresh)

    @property
    def current(self) -> MovedVersion:
        return self.versions[self.about.version]

    @property
    def interrupts(self) -> tuple[OpenInterrupt, ...]:
        return split_records(OpenInterrupt, self.current.interrupts)

    @property
    def expires_at(self) -> float | None:
        """When it is to be deleted: later than it says while it is paused."""
        expires_at = self.about.expires_at
        if expires_at is None or not self.about.paused:
            return expires_at
        return max(expires_at, self.about.updated_at + PAUSED_LIFE_SECONDS)

    @property
    def summary(self) -> ThreadSummary:
        about = self.about
        return ThreadSummary(
            about.owner,
            about.thread_id,
            about.title,
            self.current.agent_id,
            about.created_at,
            about.updated_at,
            {} if about.metadata is None else load_json(about.metadata),
            about.listed,
            self.expires_at,
            about.collection,
        )

    @property
    def kept_bytes(self) -> int:
        """The bytes of its messages, its versions' states and its metadata."""
        states = sum(len(each.state or b"") for each in self.versions.values())
        states += sum(each.size for each in self.states.values())
        return self.size + states + len(self.about.metadata or b"")

    def thread(self, number: int, messages: Sequence[Message]) -> Thread:
        """The thread with this version as the current one. The version's states are in the record."""
        about, version = self.about, self.versions[number]
        return Thread(
            owner=about.owner,
            thread_id=about.thread_id,
            agent_id=version.agent_id,
            created_at=about.created_at,
            updated_at=about.updated_at,
            title=about.title,
            messages=tuple(messages),
            state=ABSENT if version.state is None else load_json(version.state),
            interrupts=split_records(OpenInterrupt, version.interrupts),
            last_run_id=version.last_run_id,
            model_states={} if version.model_states is None else decode_states(version.model_states),
            listed=about.listed,
            hidden=about.hidden,
            expires_at=about.expires_at,
            paused=about.paused,
            version=number,
            last_version=about.last_version,
            shortened=version.shortened,
            collection=about.collection,
            revision=self.token,
        )

    def listed_versions(self) -> list[ThreadVersion]:
        """The versions in the order of their numbers."""
        return [
            ThreadVersion(each.number, number == self.about.version, each.parent, each.from_message, each.created_at)
            for number, each in sorted(self.versions.items())
        ]


# --- where messages are


def layout_of(version: MovedVersion) -> Layout:
    return Layout(version.hidden, tuple([Span(0, first, length) for first, length in version.messages]))


def positions(version: MovedVersion, start: int = 0, count: int | None = None, *, hidden: bool = False) -> list[int]:
    """The positions of the messages that a version shows, from number `start` on; with `hidden`, those that it hides
    count too.
    """
    layout = layout_of(version)
    first = start if hidden else layout.hidden + start
    spans = cut(layout.spans, first, total(layout.spans) if count is None else count)
    return [position for span in spans for position in range(span.first, span.first + span.length)]


def unused(record: ThreadRecord) -> list[int]:
    """The positions below the next one that no version has."""
    used = union(span for version in record.versions.values() for span in layout_of(version).spans)
    stop = record.next_position
    found: list[int] = []
    for first, until in gaps((span.first, span.length) for span in used):
        found += range(first, stop if until is None else until)
    return found


# --- writes


class Written(NamedTuple):
    """A record after a write. `fresh` are the numbers of the messages that are new, which get positions from
    `first` on; `times` is when each of them came, None: now, a number: when the message of that number came before.
    `has_lost`: earlier messages may have no version any more.
    """

    record: ThreadRecord
    first: int
    fresh: Sequence[int]
    times: Mapping[int, int]
    has_lost: bool


def written(
    before: ThreadRecord | None, thread: Thread, keep: int, rewrite: Rewrite | None, new: tuple[str, int]
) -> Written:
    """The record after `thread` was written, as RunStore.begin_run says. `new` are the key and the order of a new
    thread.

    Raises:
        StoreError: fewer messages are stored than are to stay, or the new version exists already.
    """
    if before is None:
        before = _empty(thread, new)
    current = before.current
    count = sum(length for _, length in current.messages) - current.hidden
    if keep > min(count, len(thread.messages)):
        raise StoreError(f"thread {thread.thread_id!r} has {count} stored messages, fewer than the {keep} to keep")
    is_new = thread.version != before.about.version
    if is_new and thread.version <= before.about.last_version:
        raise StoreError(f"thread {thread.thread_id!r} has had a version {thread.version} before")
    layout, fresh, has_lost = rewritten(
        layout_of(current),
        Span(0, before.next_position, 0),
        len(thread.messages),
        keep,
        rewrite,
        in_new_version=is_new,
    )
    version = _begun(current, thread, rewrite) if is_new else current
    version = replace(_with_content(version, thread), hidden=layout.hidden, messages=_stretches(layout))
    times = {} if rewrite is None or is_new else {change.at: change.stored for change in rewrite.changes}
    versions = {**before.versions, version.number: version}
    record = replace(
        before,
        about=_about(before.about, thread, len(versions)),
        versions=versions,
        states=_without(before.states, version.number),
        next_position=before.next_position + len(fresh),
    )
    return Written(record, before.next_position, fresh, times, has_lost and not is_new)


def _empty(thread: Thread, new: tuple[str, int]) -> ThreadRecord:
    about = MovedThread(
        thread.owner,
        thread.thread_id,
        thread.created_at,
        thread.updated_at,
        hidden=thread.hidden,
        expires_at=thread.expires_at,
        version=thread.version,
        last_version=thread.last_version,
    )
    version = MovedVersion(thread.version, thread.created_at)
    key, order = new
    return ThreadRecord(about, key, order, {thread.version: version})


def _about(before: MovedThread, thread: Thread, versions: int) -> MovedThread:
    expires_at = before.expires_at
    if expires_at is not None:
        expires_at = max(expires_at, thread.updated_at + LEAST_LIFE_SECONDS)
    return replace(
        before,
        title=thread.title if before.title is None else before.title,
        updated_at=thread.updated_at,
        listed=thread.listed and not before.hidden,
        expires_at=expires_at,
        paused=thread.paused,
        collection=before.collection or thread.collection,
        version=thread.version,
        last_version=max(before.last_version, thread.version),
        versions=versions,
    )


def _begun(current: MovedVersion, thread: Thread, rewrite: Rewrite | None) -> MovedVersion:
    return MovedVersion(
        thread.version,
        thread.updated_at,
        parent=current.number,
        from_message=None if rewrite is None else rewrite.from_message,
        shortened=thread.shortened,
    )


def _with_content(version: MovedVersion, thread: Thread) -> MovedVersion:
    return replace(
        version,
        agent_id=thread.agent_id,
        last_run_id=thread.last_run_id,
        interrupts=join_records(thread.interrupts),
        state=None if isinstance(thread.state, Absent) else dump_json(thread.state),
        model_states=encode_states(thread.model_states) if thread.model_states else None,
    )


def _stretches(layout: Layout) -> tuple[tuple[int, int], ...]:
    return tuple([(first, length) for _, first, length in layout.spans])


def updated(record: ThreadRecord, change: ThreadChange) -> ThreadRecord:
    """The record after Store.update_thread."""
    fields: dict[str, Any] = {}
    if not isinstance(change.title, Absent):
        fields["title"] = change.title
    if not isinstance(change.listed, Absent):
        fields |= {"listed": change.listed, "hidden": not change.listed}
    if not isinstance(change.expires_at, Absent):
        fields["expires_at"] = change.expires_at
    if not isinstance(change.updated_at, Absent):
        fields["updated_at"] = change.updated_at
    if not isinstance(change.collection, Absent):
        fields["collection"] = change.collection
    if not isinstance(change.metadata, Absent):
        fields["metadata"] = dump_json(change.metadata) if change.metadata else None
    return replace(record, about=replace(record.about, **fields))


def with_version(record: ThreadRecord, number: int) -> ThreadRecord | None:
    """The record with this version as the current one; None: there is no such version."""
    if number not in record.versions:
        return None
    return replace(record, about=replace(record.about, version=number))


def without_version(record: ThreadRecord, number: int) -> ThreadRecord | None:
    """The record without this version; None: there is no such version.

    Raises:
        ConflictError: it is the current one.
    """
    if number == record.about.version:
        raise ConflictError(
            f"version {number} of thread {record.about.thread_id!r} is the current one; make another one current first,"
            " or delete the thread",
            code="version_is_current",
        )
    if number not in record.versions:
        return None
    versions = {
        each.number: replace(each, parent=None) if each.parent == number else each
        for each in record.versions.values()
        if each.number != number
    }
    about = replace(record.about, versions=len(versions))
    return replace(record, about=about, versions=versions, states=_without(record.states, number))


def _without(states: Mapping[int, KeptState], number: int) -> Mapping[int, KeptState]:
    return {each: kept for each, kept in states.items() if each != number}


def with_run(record: ThreadRecord, run_id: str) -> tuple[ThreadRecord, Sequence[str]]:
    """The record after a run began; and the ids of the oldest runs if they become a page."""
    if run_id in record.runs:
        return record, ()
    runs = (*record.runs, run_id)
    if len(runs) <= MOST_RECENT:
        return replace(record, runs=runs), ()
    return replace(record, runs=runs[RUNS_A_PAGE:], pages=record.pages + 1), runs[:RUNS_A_PAGE]


def with_fresh(record: ThreadRecord, fresh: StoredRun) -> ThreadRecord:
    """The record with a run's state, in place of an earlier one."""
    others = [each for each in record.fresh if each.run.run_id != fresh.run.run_id]
    return replace(record, fresh=(*others, fresh))


def fresh_of(record: ThreadRecord, run_id: str) -> StoredRun | None:
    return next((each for each in record.fresh if each.run.run_id == run_id), None)


# --- as JSON


def encode(record: ThreadRecord) -> bytes:
    """The record as JSON."""
    data: JsonObject = {
        "about": to_json(record.about),
        "key": record.key,
        "order": record.order,
        "versions": [to_json(each) for each in record.versions.values()],
        "next_position": record.next_position,
        "runs": [*record.runs],
        "pages": record.pages,
        "size": record.size,
    }
    if record.fresh:
        data["fresh"] = [run_to_json(each) for each in record.fresh]
    if record.late:
        data["late"] = True
    if record.due:
        data["due"] = [to_json(each) for each in record.due]
    if record.holder:
        data |= {"holder": record.holder, "working": record.working}
    if record.states:
        data["states"] = {str(number): [*kept] for number, kept in record.states.items()}
    return dump_json(data)


def decode(data: bytes, token: str = "") -> ThreadRecord:
    """The record that `encode` wrote, in the document with this token."""
    found = load_json(data)
    versions = [from_json(MovedVersion, each) for each in found["versions"]]
    return ThreadRecord(
        from_json(MovedThread, found["about"]),
        found["key"],
        found["order"],
        {each.number: each for each in versions},
        found["next_position"],
        tuple(found["runs"]),
        found["pages"],
        tuple([run_from_json(each) for each in found.get("fresh", ())]),
        found["size"],
        found.get("late", False),
        tuple([from_json(DueDeletion, each) for each in found.get("due", ())]),
        {int(number): KeptState(*kept) for number, kept in found.get("states", {}).items()},
        holder=found.get("holder", ""),
        working=found.get("working", ""),
        token=token,
    )
