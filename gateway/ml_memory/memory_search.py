"""Searches memories, or the messages of one: documents that are made for the search from threads as they are now.

Below: protocol.made_documents. Above: the routes, which call `search_documents` by `document_searches`: it blocks.
The documents' fields are those of ml-commons' indices.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, cast

from gateway.errors import InvalidRequestError, ToolError
from gateway.messages import JsonObject
from gateway.ml_memory.memories import MEMORY_INDEX, MESSAGE_INDEX
from gateway.protocol import ProtocolEnvironment, time_text
from gateway.protocol.made_documents import DocumentSearches, Rest, search_made
from gateway.query_dsl.clauses import Bool, Clause, MatchAll, QueryError, Range
from gateway.query_dsl.date_math import reckoned_date
from gateway.query_dsl.field_mapping import MappingError
from gateway.query_dsl.search_body import SearchBody, parse_search_body
from gateway.records import dump_json

MOST_SEARCHED: Final = 10_000
"""How many memories or messages one search may be over."""

_MOST_CHARACTERS: Final = 1_000_000  # of the searched texts: indexing them takes a second

_MOST_SHOWN_BYTES: Final = 50_000_000

_KEYWORD: Final[JsonObject] = {"type": "keyword"}
_TEXT: Final[JsonObject] = {"type": "text"}
_TIME: Final[JsonObject] = {"type": "date"}
_FLAT: Final[JsonObject] = {"type": "flat_object"}
_FIELDS: Final[Mapping[str, Mapping[str, JsonObject]]] = {
    MEMORY_INDEX: {
        "name": _TEXT,
        "application_type": _KEYWORD,
        "user": _KEYWORD,
        "additional_info": _FLAT,
        "create_time": _TIME,
        "updated_time": _TIME,
    },
    MESSAGE_INDEX: {
        "memory_id": _KEYWORD,
        "input": _TEXT,
        "prompt_template": _TEXT,
        "response": _TEXT,
        "origin": _KEYWORD,
        "additional_info": _FLAT,
        "parent_message_id": _KEYWORD,
        "trace_number": {"type": "integer"},
        "create_time": _TIME,
        "updated_time": _TIME,
    },
}
_STORED_ONCE: Final[JsonObject] = {"_version": 1, "_seq_no": 1, "_primary_term": 1}  # made documents have no versions
_ALL_FIELDS: Final = ("query_string", "multi_match", "*")  # parts of a search by which it needs all fields


def document_searches(environment: ProtocolEnvironment) -> DocumentSearches:
    """The object that the searches of all callers share (ProtocolEnvironment.shared): each takes up to a second."""
    return DocumentSearches("memory-search")


def search_documents(
    index: str, documents: Mapping[str, JsonObject], body: JsonObject, now: float, rest: Rest = lambda: None
) -> JsonObject:
    """OpenSearch's answer to a search over these documents at `now`, by their ids. `rest` lets other searches work.

    Raises:
        InvalidRequestError: 400; code `invalid_search` or `search_too_large`.
    """
    search = _parsed(body)
    properties = _searched_fields(index, body)
    found = [
        {"_id": name, **{field: document[field] for field in properties if document.get(field) is not None}}
        for name, document in documents.items()
    ]
    characters = sum(len(str(each.get(field, ""))) for each in found for field in properties)
    if characters > _MOST_CHARACTERS:
        raise _too_large(
            f"the fields {', '.join(properties)} have {characters:,} characters together, and {_MOST_CHARACTERS:,} can "
            "be searched; search in fewer fields, or in a field that has less"
        )

    size = 0

    def shown(name: str) -> tuple[JsonObject, JsonObject]:
        nonlocal size
        size += len(dump_json(documents[name]))
        if size > _MOST_SHOWN_BYTES:
            raise _too_large(f"the hits have more than {_MOST_SHOWN_BYTES:,} bytes together; ask for fewer by 'size'")
        return {"_id": name, **_STORED_ONCE}, _source(index, documents[name])

    try:
        return search_made(index, found, properties, search, shown, now=now, rest=rest)
    except (QueryError, MappingError) as error:
        raise _invalid(str(error)) from error
    except ToolError as error:
        raise _too_large(error.message) from error


def _source(index: str, document: JsonObject) -> JsonObject:
    """The document as a hit shows it, without its id. ml-commons stores members that are missing here as null."""
    if index == MEMORY_INDEX:
        return {name: value for name, value in document.items() if name != "memory_id"}
    nulls: JsonObject = {"parent_message_id": None, "trace_number": None}
    return {**nulls, **{name: value for name, value in document.items() if name != "message_id"}}


def check_count(count: int) -> None:
    """Refuse a search over more messages than one may be over. Raises InvalidRequestError (400)."""
    if count > MOST_SEARCHED:
        raise _too_large(
            f"the memory has {count:,} messages and traces, and {MOST_SEARCHED:,} can be searched; read its messages "
            "page by page"
        )


def check_latest_suffice(body: JsonObject, oldest: float, now: float) -> None:
    """Refuse a search of memories that needs more than the latest, back to one that was last used at `oldest`.

    Raises:
        InvalidRequestError: 400; also as `search_documents`.
    """
    if not _begins_after(_parsed(body).query, oldest * 1000, now):
        raise _too_large(
            f"you have more than {MOST_SEARCHED:,} memories, and this search needs them all; in bool.filter give a "
            f"range of updated_time that begins behind {time_text(oldest)}, or list all by match_all, the latest first"
        )


def latest_wanted(body: JsonObject) -> int | None:
    """The number of memories, the one used last first, among which are all hits; None: the search chooses or orders
    them in another way.

    Raises:
        InvalidRequestError: as `search_documents`.
    """
    search = _parsed(body)
    first = search.sort[0] if search.sort else None
    in_order = first is None or (first.field == "updated_time" and first.descending and len(search.sort) == 1)
    if not (in_order and isinstance(search.query, MatchAll) and search.query.all):
        return None
    if search.aggregations or search.minimum_score is not None or search.after is not None:
        return None
    return search.start + search.size


def with_total(answer: JsonObject, total: int, *, is_exact: bool) -> JsonObject:
    """The answer with the total of all hits, where a part of them was searched."""
    hits = cast(JsonObject, answer["hits"])
    if "total" in hits:
        hits = {**hits, "total": {"value": total, "relation": "eq" if is_exact else "gte"}}
    return {**answer, "hits": hits}


def _begins_after(query: Clause, oldest: float, now: float) -> bool:
    match query:
        case Range("updated_time", bounds):
            first: Any = bounds.get("gte", bounds.get("gt"))
            with suppress(ValueError, OverflowError):
                return first is not None and reckoned_date(first, now) > oldest
            return False
        case Bool():
            return any(_begins_after(each, oldest, now) for each in (*query.must, *query.filter))
        case _:
            return False


def _searched_fields(index: str, body: JsonObject) -> dict[str, JsonObject]:
    """The fields that the search may ask for: only these are indexed."""
    text = json.dumps(body)
    fields = _FIELDS[index]
    if any(each in text for each in _ALL_FIELDS):
        return {**fields}
    return {name: definition for name, definition in fields.items() if name in text}


def _parsed(body: JsonObject) -> SearchBody:
    try:
        return parse_search_body(body)
    except QueryError as error:
        raise _invalid(str(error)) from error


def _too_large(message: str) -> InvalidRequestError:
    return InvalidRequestError(message, code="search_too_large", status=400)


def _invalid(message: str) -> InvalidRequestError:
    return InvalidRequestError(message, code="invalid_search", status=400)
