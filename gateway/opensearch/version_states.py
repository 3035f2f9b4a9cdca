"""The states of a thread's versions that have documents of their own, so that not every write stores them again.

Below: thread_record. Above: threads, thread_writes, export_pieces, import_pieces. The record names the documents, as it
names messages: they are created before the commit that names them, and deleted after one that does not. A document is
never changed; another state gets another one. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from gateway.messages import JsonObject
from gateway.opensearch.bulks import Item
from gateway.opensearch.ids import new_token
from gateway.opensearch.indices import MESSAGES
from gateway.opensearch.run_record import thread_id_of
from gateway.opensearch.sources import Key, documents_of, parts_deletions, write
from gateway.opensearch.thread_record import KeptState, ThreadRecord
from gateway.records import dump_json, load_json

MOST_CURRENT: Final = 4096
"""The most bytes of the current version's state and its models' states that stay in the record."""
MOST_OTHER: Final = 256
"""The same of each other version, of which there may be many."""


class States(NamedTuple):
    """A version's state, and those of its models; see MovedVersion."""

    state: bytes | None
    model_states: bytes | None


class MovedOut(NamedTuple):
    """The record with large states in documents of their own; what creates those that are new, and what deletes those
    that the record does not name any more. `new` are the new ones by their names.
    """

    record: ThreadRecord
    created: list[Item]
    deleted: list[Item]
    new: Mapping[str, States]


def moved_out(before: ThreadRecord | None, record: ThreadRecord) -> MovedOut:
    """A record that is to be written after `before`. A state that is as it was stays where it is."""
    then = {} if before is None else before.states
    versions, kept = {**record.versions}, {**record.states}
    created: list[Item] = []
    new: dict[str, States] = {}
    for number, version in record.versions.items():
        states = States(version.state, version.model_states)
        data = encode_states(states)
        if len(data) <= (MOST_CURRENT if number == record.about.version else MOST_OTHER):
            continue
        digest = hashlib.blake2b(data, digest_size=16).hexdigest()
        if number in then and then[number].digest == digest:
            kept[number] = then[number]
        else:
            items = _creates(record, name := new_token(), data)
            kept[number] = KeptState(name, digest, len(version.state or b""), len(items) - 1)
            created += items
            new[name] = states
        versions[number] = replace(version, state=None, model_states=None)
    stay = {each.name for each in kept.values()}
    deleted = [item for each in then.values() if each.name not in stay for item in _deletes(record, each)]
    return MovedOut(replace(record, versions=versions, states=kept), created, deleted, new)


def filled(record: ThreadRecord, found: Mapping[int, States]) -> ThreadRecord:
    """The record with these versions' states in it."""
    versions = {
        number: replace(each, state=found[number].state, model_states=found[number].model_states)
        if number in found
        else each
        for number, each in record.versions.items()
    }
    left = {number: each for number, each in record.states.items() if number not in found}
    return replace(record, versions=versions, states=left)


# --- their documents


def states_key(life: str, name: str) -> Key:
    return Key(MESSAGES, f"{life}.states.{name}")


def _creates(record: ThreadRecord, name: str, data: bytes) -> list[Item]:
    key = states_key(record.key, name)
    members: JsonObject = {"thread": thread_id_of(record.about.owner, record.about.thread_id)}
    source, parts = documents_of(key, data, members, name)
    return [*parts, write("create", key, source)]


def _deletes(record: ThreadRecord, kept: KeptState) -> list[Item]:
    key = states_key(record.key, kept.name)
    return [Item("delete", *key), *parts_deletions(key, kept.name, kept.parts)]


def encode_states(states: States) -> bytes:
    """The states as JSON; empty if there are none."""
    if states == States(None, None):
        return b""
    return dump_json([None if each is None else each.decode() for each in states])


def decode_states(data: bytes) -> States:
    """The states that `encode_states` wrote."""
    return States(*[None if each is None else each.encode() for each in load_json(data)])
