"""The parameters that the URLs of these paths may have. Another one is refused, as OpenSearch does, and not ignored.

Pure. Above: routes. https://docs.opensearch.org/latest/opensearch/common-parameters/
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

import orjson

from gateway.errors import FieldProblem, InvalidRequestError
from gateway.messages import JsonObject, JsonValue

_COMMON: Final = frozenset({"pretty", "human", "error_trace", "format", "filter_path", "source", "source_content_type"})
_FLAGS: Final = frozenset({"pretty", "human", "error_trace", "flat_settings", "include_defaults", "async"})
_QUERY: Final = ("df", "default_operator", "analyze_wildcard", "lenient")
_SOURCE: Final = ("_source", "_source_includes", "_source_excludes")
_STRETCH: Final = ("max_results", "next_token", "order")
# The parameters of the paths that fit one of these.
_OF_PATHS: Final = tuple(
    (re.compile(path), frozenset(names))
    for path, names in (
        (r".*/_search", ("q", *_QUERY, *_SOURCE, "from", "size", "sort", "track_total_hits")),
        (r".*/_execute", ("async",)),
        (r".*/memory", _STRETCH),
        (r".*/memory/message/.*", ("memory_id", *_STRETCH)),
        (r".*/memory/[^/]*/messages", _STRETCH),
        (r".*/memory_containers/[^/]*", ("delete_all_memories", "delete_memories")),
        (
            r"/_cluster/settings",
            ("flat_settings", "include_defaults", "timeout", "cluster_manager_timeout", "master_timeout", "local"),
        ),
    )
)
_SHOWN: Final = 64


def parameters_of(path: str) -> frozenset[str]:
    """The parameters that requests to a route may have, by its path."""
    return _COMMON.union(*(names for fitting, names in _OF_PATHS if fitting.fullmatch(path)))


def check_parameters(path: str, given: Mapping[str, str], known: Collection[str]) -> None:
    """Refuse parameters that the path does not have, and flags that are neither true nor false.

    Raises:
        InvalidRequestError: 400
    """
    unknown = sorted(name[:_SHOWN] for name in set(given).difference(known))
    if unknown:
        listed = ", ".join(f"[{name}]" for name in unknown[:10])
        message = f"request [{path}] contains unrecognized parameter{'s' if len(unknown) > 1 else ''}: {listed}"
        raise InvalidRequestError(message, status=400)
    for name in _FLAGS.intersection(given):
        if (value := given[name]) not in ("", "true", "false"):
            message = f"Failed to parse value [{value[:_SHOWN]}] as only [true] or [false] are allowed."
            raise InvalidRequestError(message, status=400, problems=[FieldProblem(name, message)])


def search_asked(given: Mapping[str, str], body: JsonObject) -> JsonObject:
    """The body of a search with the parameters of its URL, which win: `q`, `from`, `size`, `sort`, `_source`...

    Raises:
        InvalidRequestError: 400, `source` is no JSON object.
    """
    asked: JsonObject = {**(body or _source_body(given))}
    if "q" in given:
        query: JsonObject = {"query": given["q"]}
        query |= {name: given[name] for name in ("default_operator",) if name in given}
        query |= {name: given[name] != "false" for name in ("analyze_wildcard", "lenient") if name in given}
        asked["query"] = {"query_string": {**query, **({"default_field": given["df"]} if "df" in given else {})}}
    asked |= {name: given[name] for name in ("from", "size") if name in given}
    if "track_total_hits" in given:
        asked["track_total_hits"] = given["track_total_hits"] != "false"
    if "sort" in given:
        asked["sort"] = [_sort_key(key) for key in given["sort"].split(",")]
    if any(name in given for name in _SOURCE):
        asked["_source"] = _source_filter(given)
    return asked


def _source_body(given: Mapping[str, str]) -> JsonObject:
    if "source" not in given:
        return {}
    try:
        body: JsonValue = orjson.loads(given["source"])
    except orjson.JSONDecodeError:
        body = None
    if not isinstance(body, dict):
        raise InvalidRequestError("source must be a JSON object, as the body would be", status=400)
    return body


def _sort_key(key: str) -> JsonValue:
    name, colon, order = key.rpartition(":")
    return {name: {"order": order}} if colon else key


def _source_filter(given: Mapping[str, str]) -> JsonValue:
    wanted = given.get("_source")
    if wanted in ("true", "false") and not any(name in given for name in _SOURCE[1:]):
        return wanted == "true"
    includes = given.get("_source_includes", wanted if wanted not in ("true", "false") else None)
    excludes = given.get("_source_excludes")
    return {"includes": _listed(includes), "excludes": _listed(excludes)}


def _listed(names: str | None) -> list[JsonValue]:
    return [*names.split(",")] if names else []
