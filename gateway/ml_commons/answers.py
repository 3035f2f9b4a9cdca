"""OpenSearch's responses to writes and searches; its ids and times."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable
from typing import Any, Final, Literal

from gateway.documents.document import MAX_ID_LENGTH
from gateway.errors import ConflictError, FieldProblem, InvalidRequestError
from gateway.messages import JsonObject, JsonValue

WriteResult = Literal["created", "updated", "deleted", "not_found", "noop"]

_ID_BYTES: Final = 15  # 20 characters of base64
_NO_START: Final = "-_"  # ids that clients choose must not begin with these, so that generated ones may be sent back
_CHOSEN: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_-]*", re.ASCII)
_PRIMARY_TERM: Final = 1
_SHARDS: Final[JsonObject] = {"total": 1, "successful": 1, "failed": 0}


def new_document_id() -> str:
    """A new id as OpenSearch makes them: 20 characters of `[A-Za-z0-9_-]`, the first one a letter or a digit."""
    while (made := base64.urlsafe_b64encode(os.urandom(_ID_BYTES)).decode())[0] in _NO_START:
        pass
    return made


def chosen_id(label: str, field: str, value: JsonValue) -> str:
    """An id that a client chose. `label` names it in messages: `agent id`. `field` is its member of the body.

    Raises:
        InvalidRequestError: it is not one that may be chosen.
    """
    if (problem := _problem_of_id(value)) is None:
        assert isinstance(value, str), "anything else is a problem"
        return value
    message = f"{label} {problem}"
    raise InvalidRequestError(message, status=400, problems=[FieldProblem(f"/{field}", message)])


def _problem_of_id(value: JsonValue) -> str | None:
    if not isinstance(value, str) or not value:
        return "is invalid"
    if value[0] in _NO_START:
        return f"must not start with '{value[0]}'"
    if len(value.encode("utf-8", "replace")) > MAX_ID_LENGTH:
        return f"is too long, max length is {MAX_ID_LENGTH}"
    if _CHOSEN.fullmatch(value) is None:
        return "must contain only letters, digits, underscores, and hyphens, and must start with a letter or digit"
    return None


def id_taken(label: str, document_id: str) -> ConflictError:
    """The error for an id that a client chose and that somebody has."""
    return ConflictError(f"{label} '{document_id}' already exists")


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
        "_primary_term": _PRIMARY_TERM,
    }


def hits_of(found: JsonObject) -> list[dict[str, Any]]:
    """The hits in the answer of a search."""
    hits: Any = found["hits"]
    rows: list[dict[str, Any]] = hits["hits"]
    return rows


def deleted_by_query(deleted: int, seconds: float) -> JsonObject:
    """The answer to a deletion of all that a query found."""
    return {
        "took": milliseconds(seconds),
        "timed_out": False,
        "total": deleted,
        "updated": 0,
        "created": 0,
        "deleted": deleted,
        "batches": 1,
        "version_conflicts": 0,
        "noops": 0,
        "retries": {"bulk": 0, "search": 0},
        "throttled_millis": 0,
        "requests_per_second": -1.0,
        "throttled_until_millis": 0,
        "failures": [],
    }


def search_answer(found: JsonObject, index: str, source: Callable[[JsonObject], JsonObject]) -> JsonObject:
    """The answer of a search over documents (DocumentStore.search), for clients: `source` makes the shown document of a
    stored one.
    """
    answer: dict[str, Any] = {**found}
    hits: dict[str, Any] = {**answer["hits"]}
    hits["hits"] = [_hit(hit, index, source) for hit in hits_of(found)]
    answer["hits"] = hits
    return answer


def _hit(hit: dict[str, Any], index: str, source: Callable[[JsonObject], JsonObject]) -> JsonObject:
    shown = {name: value for name, value in hit.items() if name not in ("_owner", "_public")}
    shown["_index"] = index
    if "_version" in shown:
        shown |= {"_seq_no": shown["_version"], "_primary_term": _PRIMARY_TERM}
    if "_source" in shown:
        shown["_source"] = source(shown["_source"])
    return shown
