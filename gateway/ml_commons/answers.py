"""What OpenSearch answers to writes and searches; its ids and times."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from typing import Any, Final, Literal

from gateway.messages import JsonObject

WriteResult = Literal["created", "updated", "deleted", "not_found", "noop"]

_ID_BYTES: Final = 15  # 20 characters of base64
_NO_START: Final = "-_"  # ids that clients choose must not begin with these, so that generated ones may be sent back
_SHARDS: Final[JsonObject] = {"total": 1, "successful": 1, "failed": 0}


def new_document_id() -> str:
    """A new id as OpenSearch makes them: 20 characters of `[A-Za-z0-9_-]`, the first one a letter or a digit."""
    while (made := base64.urlsafe_b64encode(os.urandom(_ID_BYTES)).decode())[0] in _NO_START:
        pass
    return made


def milliseconds(seconds: float) -> int:
    """A time in Unix seconds as OpenSearch's documents have it."""
    return round(seconds * 1000)


def write_answer(index: str, document_id: str, result: WriteResult, version: int = 1) -> JsonObject:
    """The answer to a write of one document."""
    return {
        "_index": index,
        "_id": document_id,
        "_version": version,
        "result": result,
        "forced_refresh": True,
        "_shards": {**_SHARDS},
        "_seq_no": version,
        "_primary_term": 1,
    }


def search_answer(found: JsonObject, index: str, source: Callable[[JsonObject], JsonObject]) -> JsonObject:
    """The answer of a search over documents (DocumentStore.search), for clients: `source` makes the shown document of a
    stored one.
    """
    answer: dict[str, Any] = {**found}
    hits: dict[str, Any] = {**answer["hits"]}
    hits["hits"] = [_hit(hit, index, source) for hit in hits["hits"]]
    answer["hits"] = hits
    return answer


def _hit(hit: dict[str, Any], index: str, source: Callable[[JsonObject], JsonObject]) -> JsonObject:
    shown = {name: value for name, value in hit.items() if name not in ("_owner", "_public")}
    shown["_index"] = index
    if "_source" in shown:
        shown["_source"] = source(shown["_source"])
    return shown
