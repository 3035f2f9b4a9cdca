"""Reads requests to containers whose bodies are no documents: kinds of new memories, deletions, vector searches.

Below: fields. Above: the protocol.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager

from gateway.errors import FieldProblem, InvalidRequestError
from gateway.messages import JsonObject, JsonValue
from gateway.ml_memory.memory_documents import CONVERSATIONAL, DATA
from gateway.ml_memory.memory_kinds import MEMORIES, Memories
from gateway.protocol.fields import Fields
from gateway.query_dsl.clauses import QueryError
from gateway.query_dsl.search_body import SourceFilter, parse_source_filter
from gateway.query_dsl.search_size import check_size

_MOST_FOUND = 10_000


def payload_type(fields: Fields) -> str:
    """The kind of a new working memory, by its body: CONVERSATIONAL or DATA.

    Raises:
        InvalidRequestError: it is neither, or asks for something that needs a model.
    """
    has_messages = bool(fields.value.get("messages"))
    given = fields.text("payload_type") or (CONVERSATIONAL if "messages" in fields.value else DATA)
    if given.lower() not in (CONVERSATIONAL, DATA):
        fields.wrong("payload_type", f"Invalid payload type: {given[:64]}. Must be one of: {CONVERSATIONAL}, {DATA}")
    if given.lower() == DATA and has_messages:
        fields.wrong("messages", "messages belong to the payload type conversational; leave one of both out")
    if fields.boolean("infer"):
        fields.wrong("infer", _no_inference(has_messages=has_messages))
    _no_pin(fields)
    fields.check()
    return given.lower()


def check_not_pinned(body: JsonObject) -> None:
    """Refuse a change of working memory that would pin it. Raises InvalidRequestError."""
    fields = Fields(body)
    _no_pin(fields)
    fields.check()


def _no_pin(fields: Fields) -> None:
    if fields.value.get("pinned") is not None:
        fields.wrong(
            "pinned",
            "pinned field is not supported for working memory type. To preserve a conversation, pin the session"
            " instead.",
        )


def _no_inference(*, has_messages: bool) -> str:
    if not has_messages:
        return "No messages provided when inferring memory"
    return (
        "infer=true requires llm_model_id to be configured in memory storage; models of memory containers are not "
        "available here yet: leave infer out, and write long-term memories yourself"
    )


def types_to_delete(query: Mapping[str, str], body: JsonObject) -> Sequence[Memories]:
    """The types of memories that are deleted with their container: all by `delete_all_memories`, or those in
    `delete_memories`. The query wins over the body.

    Raises:
        InvalidRequestError: it names unknown types.
    """
    everything = query.get("delete_all_memories", body.get("delete_all_memories", False))
    if everything in ("", "true", True):
        return list(MEMORIES.values())
    given: JsonValue = query.get("delete_memories", body.get("delete_memories"))
    named = given.split(",") if isinstance(given, str) else given if isinstance(given, list) else []
    wanted = {str(each).strip() for each in named}
    if wrong := sorted(wanted - MEMORIES.keys()):
        message = f"Invalid memory type: {wrong[0][:64]}. Must be one of: {', '.join(MEMORIES)}"
        raise InvalidRequestError(message, status=400, problems=[FieldProblem("/delete_memories", message)])
    return [memories for name, memories in MEMORIES.items() if name in wanted]


def source_asked(body: JsonObject) -> SourceFilter:
    """Which fields a search asks for. Raises InvalidRequestError."""
    with _refused():
        check_size(body)
        return parse_source_filter(body.get("_source", True))


def shown_fields(wanted: SourceFilter, document: JsonObject) -> JsonObject:
    """The fields of a document that were asked for. Raises InvalidRequestError: the patterns are too much work."""
    with _refused():
        return wanted.of(document)


def too_large_hits(most: int) -> InvalidRequestError:
    """The error of a search whose hits have more than `most` bytes together."""
    return InvalidRequestError(
        f"the hits have more than {most:,} bytes together; ask for fewer by 'size', or for less of them by '_source'",
        code="search_too_large",
        status=400,
    )


@contextmanager
def _refused() -> Generator[None]:
    try:
        yield
    except QueryError as error:
        raise InvalidRequestError(str(error), code="invalid_search", status=400) from error


def no_vectors(body: JsonObject, *, hybrid: bool) -> InvalidRequestError:
    """The error of a semantic or hybrid search: its problems, or else that models are missing here."""
    fields = Fields(body)
    if not (fields.text("query") or "").strip():
        fields.wrong("query", "query cannot be null or blank")
    count = body.get("k")
    if count is not None and not (isinstance(count, int) and 1 <= count <= _MOST_FOUND):
        fields.wrong("k", f"k must be between 1 and {_MOST_FOUND}")
    if hybrid:
        _check_weights(fields)
    fields.check()
    return InvalidRequestError(
        f"{'Hybrid' if hybrid else 'Semantic'} search needs an embedding model, and memory containers here have no "
        "models yet; search the text with POST .../memories/long-term/_search and a match query on 'memory'",
        status=400,
    )


def _check_weights(fields: Fields) -> None:
    weights = [fields.value.get(name, 0.5) for name in ("bm25_weight", "neural_weight")]
    numbers = [weight for weight in weights if isinstance(weight, int | float) and not isinstance(weight, bool)]
    if len(numbers) < len(weights):
        fields.wrong("bm25_weight", "bm25_weight and neural_weight must be numbers that sum to 1.0")
    elif not math.isclose(total := sum(numbers), 1.0, abs_tol=1e-6):
        fields.wrong("bm25_weight", f"bm25_weight and neural_weight must sum to 1.0, got {total:g}")
