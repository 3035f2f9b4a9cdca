"""Traces that clients put to an interaction: documents that belong to the memory's thread.

They are no messages: they are no part of the conversation, and no model is shown them.
Below: interaction_writes, documents. Above: the protocol of messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from gateway.documents.document import Document, DocumentKind
from gateway.documents.owned import OwnedDocuments
from gateway.messages import JsonObject
from gateway.ml_commons.answers import hits_of, new_document_id
from gateway.ml_memory.interaction_writes import InteractionWords
from gateway.protocol import time_text
from gateway.query_dsl.search_body import MAX_RESULT_WINDOW
from gateway.wire.merge_patch import merge_patch

TRACES: Final = DocumentKind(
    "trace",
    {
        "memory_id": {"type": "keyword"},
        "parent_message_id": {"type": "keyword"},
        "trace_number": {"type": "integer"},
    },
)


async def put_trace(
    documents: OwnedDocuments, memory_id: str, parent: str, words: InteractionWords, number: int, now: float
) -> str:
    """Keep a trace of the interaction `parent`; its id."""
    trace_id = new_document_id()
    body: JsonObject = {
        "memory_id": memory_id,
        "message_id": trace_id,
        "create_time": time_text(now),
        "updated_time": time_text(now),
        **words.said,
        "parent_message_id": parent,
        "trace_number": number,
    }
    await documents.put(TRACES, trace_id, body, if_version=0, thread_id=memory_id)
    return trace_id


async def edit_trace(documents: OwnedDocuments, trace: Document, words: InteractionWords, now: float) -> int:
    """Give a trace another response, or other information; its version then."""
    body = merge_patch(trace.body, {**words.said, "updated_time": time_text(now)})
    memory_id = cast(str, body["memory_id"])
    return await documents.put(TRACES, trace.document_id, body, if_version=trace.version, thread_id=memory_id)


async def traces_of(documents: OwnedDocuments, memory_id: str, parent: str | None = None) -> list[JsonObject]:
    """The traces that were put to an interaction, or to any of the memory, by their numbers."""
    wanted = {"memory_id": memory_id} if parent is None else {"memory_id": memory_id, "parent_message_id": parent}
    found = await documents.search(TRACES, _search(wanted))
    return [hit["_source"] for hit in hits_of(found)]


def _search(wanted: Mapping[str, str]) -> JsonObject:
    return {
        "query": {"bool": {"filter": [{"term": {name: value}} for name, value in wanted.items()]}},
        "sort": [{"trace_number": "asc"}],
        "size": MAX_RESULT_WINDOW,
    }
