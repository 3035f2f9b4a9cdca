"""All that a run's document says.

Below: the contract's data. Above: thread_record, runs, run_lists. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.messages import JsonObject, Message
from gateway.opensearch.bulks import Action, Item, Place
from gateway.opensearch.ids import digest, new_token
from gateway.opensearch.indices import RUNS
from gateway.opensearch.sources import Found, Key, documents_of, write
from gateway.owners import site_of
from gateway.records import decode_message, dump_json, encode_message, load_json
from gateway.store import RunRecord, RunStatus
from gateway.store.piece_json import from_json, to_json
from gateway.store.transfer import MovedRun


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run as it is stored. `order` grows from run to run.

    Its document `stands` by itself: it was committed. Otherwise the run has begun only if its thread's record names it.
    `log` begins the ids of the log's chunks; `chunks`, `last` (the last event's number) and `size` (in bytes) are those
    of a log that has ended. `life` is the key of its thread's record; empty if it waits for its thread. `erase`: the
    messages whose words are to be erased from the log, see Store.end_run. `holder`: the id of the gateway that
    begins it, or where it waits for its thread. `place` is not stored: the state of its document when this process
    wrote it last, None if it did not.
    """

    moved: MovedRun
    order: int
    log: str
    life: str = ""
    stands: bool = False
    chunks: int = 0
    last: int = 0
    size: int = 0
    erase: tuple[str, ...] = ()
    holder: str = ""
    place: Place | None = field(default=None, compare=False)

    @property
    def run(self) -> RunRecord:
        return self.moved.run

    @property
    def waits(self) -> bool:
        """Whether it waits for its thread, or has left the queue and has not begun."""
        return self.run.status is RunStatus.QUEUED or self.run.started_at is None

    @property
    def waiting_messages(self) -> tuple[Message, ...]:
        lines = self.moved.waiting_messages
        return () if lines is None else tuple([decode_message(line) for line in lines.split(b"\n")])


def joined_messages(messages: Sequence[Message]) -> bytes | None:
    """Waiting messages as MovedRun keeps them."""
    return b"\n".join(map(encode_message, messages)) if messages else None


# --- its document

_KNOWN: Final = "known"


def thread_id_of(owner: str, thread_id: str) -> str:
    """The id of a thread's document, which also marks everything that belongs to the thread."""
    return digest("thread", owner, thread_id)


def run_key(owner: str, run_id: str) -> Key:
    return Key(RUNS, digest("run", owner, run_id))


def known_key(owner: str, client_id: str) -> Key:
    """The document that lists the runs whose `reused_id` is this one."""
    return Key(RUNS, digest(_KNOWN, owner, client_id))


def members_of(stored: StoredRun, *, followed: bool) -> JsonObject:
    """By which members a run is found. `followed`: another run began after it on its thread."""
    run = stored.run
    members: JsonObject = {
        "owner": digest(run.owner),
        "thread": thread_id_of(run.owner, run.thread_id),
        "agent": digest(run.agent_id),
        "origin": digest(run.origin),
        "status": run.status.value,
        "length": len(run.run_id),
        "changed_at": run.changed_at,
        "order": stored.order,
        "has_log": stored.moved.has_log,
        "begun": not stored.waits,
        "waits": stored.moved.waiting_messages is not None,
        "followed": followed,
    }
    if run.finished_at is not None:
        members["finished_at"] = run.finished_at
    if (site := site_of(run.owner)) is not None:
        members |= {"site": digest(site), "bytes": stored.size if stored.moved.has_log else 0}
    return members


def run_items(action: Action, stored: StoredRun, *, followed: bool) -> list[Item]:
    """Writes a run's document."""
    key = run_key(stored.run.owner, stored.run.run_id)
    source, parts = documents_of(key, encode(stored), members_of(stored, followed=followed), new_token())
    return [*parts, write(action, key, source)]


def encode(stored: StoredRun) -> bytes:
    """The run as JSON."""
    return dump_json(run_to_json(stored))


def decode(found: Found) -> StoredRun:
    """The run that `encode` wrote."""
    return run_from_json(load_json(found.record))


def run_to_json(stored: StoredRun) -> JsonObject:
    data: JsonObject = {"moved": to_json(stored.moved), "order": stored.order, "log": stored.log, "life": stored.life}
    if stored.stands:
        data["stands"] = True
    if stored.chunks:
        data |= {"chunks": stored.chunks, "last": stored.last, "size": stored.size}
    if stored.erase:
        data["erase"] = [*stored.erase]
    if stored.holder:
        data["holder"] = stored.holder
    return data


def run_from_json(data: Mapping[str, Any]) -> StoredRun:
    return StoredRun(
        from_json(MovedRun, data["moved"]),
        data["order"],
        data["log"],
        data["life"],
        data.get("stands", False),
        data.get("chunks", 0),
        data.get("last", 0),
        data.get("size", 0),
        tuple(data.get("erase", ())),
        data.get("holder", ""),
    )
