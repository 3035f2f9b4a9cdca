"""The part of a waiting run's input that its record stores, beside the messages that wait with the run.

Below: agent, store. Above: the run driver, which queues runs; recovery, which ends those that never began.
Pure. There may be no thread until the run before has stored its begin: so the record says how the thread is to begin.
And if messages came without ids, only their texts show which of them the run before adds, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from gateway.agent import AgentInput, InputThread, SentMessages, ThreadPoint
from gateway.frozen import replace
from gateway.messages import Message
from gateway.store import RunRecord

_WAITS: Final = "waits"  # a member of the record's request


def waiting_record(
    record: RunRecord, given: AgentInput, collection: str, stored: Sequence[Message], ahead: Sequence[Message]
) -> RunRecord:
    """The record of a run that waits for a run whose begin is not stored. `collection`: the collection that its thread
    must be in. `stored`: the thread's messages; `ahead`: these and the messages that wait before the run.
    """
    said: dict[str, Any] = {"collection": collection} if collection else {}
    if given.thread.short_lived:
        said["short_lived"] = True
    if (point := given.thread.begins_from) is not None:
        said["begins_from"] = [point.thread_id, point.version, point.length, point.last_message_id]
    if given.sent.recognition is not None and len(ahead) == len(stored):
        said["known"] = len(stored)
    return replace(record, request={**(record.request or {}), _WAITS: said}) if said else record


def waiting_input(record: RunRecord, messages: Sequence[Message]) -> AgentInput:
    """The input of a waiting run as far as its record stores it, with these messages."""
    said = _said(record)
    point = said.get("begins_from")
    thread = InputThread(
        record.thread_id,
        short_lived=said.get("short_lived", False),
        collection=said.get("collection", ""),
        begins_from=None if point is None else ThreadPoint(*point),
    )
    return AgentInput(record.run_id, thread, SentMessages(tuple(messages), "append"))


def not_in_thread(record: RunRecord, waited: Sequence[Message], stored: Sequence[Message]) -> Sequence[Message]:
    """The messages that waited with the run, without those that the run before brought into the thread."""
    known = _said(record).get("known")
    if known is None:  # the messages have ids of their own
        return waited
    came = [message.content for message in stored[known:] if message.role == "user"]
    same = 0
    while same < min(len(waited), len(came)) and waited[same].content == came[same]:
        same += 1
    return waited[same:]


def _said(record: RunRecord) -> dict[str, Any]:
    said = (record.request or {}).get(_WAITS)
    return said if isinstance(said, dict) else {}
