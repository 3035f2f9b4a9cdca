"""The indices of the store: their names, settings and mappings, and how they are made.

Below: cluster. Above: the store. Only what is searched is mapped; records are text in `_source` that no mapping knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gateway.errors import ConfigurationError
from gateway.messages import JsonObject
from gateway.opensearch.cluster import Cluster, error_of

THREADS: Final = "threads"
MESSAGES: Final = "messages"
RUNS: Final = "runs"
EVENTS: Final = "events"
APPROVALS: Final = "approvals"
STATE: Final = "state"
DOCUMENTS: Final = "documents"

_KEYWORD = {"type": "keyword"}
_DOUBLE = {"type": "double"}
_LONG = {"type": "long"}
_BOOLEAN = {"type": "boolean"}

SETTINGS: Final[Mapping[str, Any]] = {
    # acknowledged means on the disk
    "translog": {"durability": "request"},
    # unset, an index that nobody searches for 30 s is refreshed by the next search, which waits for it
    "refresh_interval": "1s",
    "number_of_shards": 1,
}

MAPPINGS: Final[Mapping[str, Mapping[str, Any]]] = {
    THREADS: {
        "owner": _KEYWORD,
        "listed": _BOOLEAN,
        "visitor": _BOOLEAN,
        "site": _KEYWORD,
        "bytes": _LONG,
        "created_at": _DOUBLE,
        "updated_at": _DOUBLE,
        "expires_at": _DOUBLE,
        "lives_until": _DOUBLE,
        "order": _LONG,
        "deleted": _BOOLEAN,
        "late": _BOOLEAN,
    },
    MESSAGES: {"thread": _KEYWORD, "owner": _KEYWORD, "message": _KEYWORD, "position": _LONG},
    RUNS: {
        "owner": _KEYWORD,
        "thread": _KEYWORD,
        "thread_id": _KEYWORD,
        "agent": _KEYWORD,
        "origin": _KEYWORD,
        "status": _KEYWORD,
        "length": _LONG,
        "changed_at": _DOUBLE,
        "finished_at": _DOUBLE,
        "order": _LONG,
        "has_log": _BOOLEAN,
        "begun": _BOOLEAN,
        "waits": _BOOLEAN,
        "followed": _BOOLEAN,
        "site": _KEYWORD,
        "bytes": _LONG,
    },
    EVENTS: {"thread": _KEYWORD, "log": _KEYWORD},
    APPROVALS: {"thread": _KEYWORD, "waits": _BOOLEAN, "opened_at": _DOUBLE, "expires_at": _DOUBLE, "order": _LONG},
    STATE: {"kind": _KEYWORD, "since": _DOUBLE},
}

FORMAT: Final = 1
"""The version of what documents say. It grows when an older gateway could not read them any more."""

_OLDEST = (2, 11)
_FORMAT_DOCUMENT = "format"
_EXISTS = "resource_already_exists_exception"


def mapping_of(fields: Mapping[str, Any]) -> JsonObject:
    """The mapping of an index with these fields; other members of its documents are kept and not searched."""
    return {"dynamic": False, "properties": {name: dict(field) for name, field in fields.items()}}


async def check_version(cluster: Cluster) -> str:
    """The cluster's version.

    Raises:
        ConfigurationError: it is no OpenSearch that the gateway can use.
        StoreError: it cannot be reached.
    """
    # Serverless has no such page
    answer = await cluster.request("GET", "/", allowed=(404,))
    version = answer.body.get("version")
    if answer.status == 404 or not isinstance(version, dict):
        raise ConfigurationError(
            f"{cluster.address.shown} is no OpenSearch cluster that can be a store; OpenSearch Serverless cannot, as it"
            " has no conditional writes"
        )
    number = str(version.get("number", ""))
    if version.get("distribution") != "opensearch":
        raise ConfigurationError(f"{cluster.address.shown} is Elasticsearch {number}; a store has to be OpenSearch")
    try:
        found = tuple(int(part) for part in number.split("-")[0].split(".")[:2])
    except ValueError:
        found = _OLDEST
    if found < _OLDEST:
        raise ConfigurationError(f"{cluster.address.shown} is OpenSearch {number}; a store needs 2.11 or newer")
    return number


async def make_indices(cluster: Cluster) -> None:
    """Make the indices that are missing, and add the fields that an older gateway did not have."""
    there = (await cluster.request("GET", f"/{cluster.index('*')}/_mapping", seconds=30)).body
    for name, fields in MAPPINGS.items():
        index = cluster.index(name)
        found: Any = there.get(index)
        if found is None:
            await make_index(cluster, index, {"settings": {"index": dict(SETTINGS)}, "mappings": mapping_of(fields)})
        elif not fields.keys() <= found["mappings"].get("properties", {}).keys():
            await cluster.request("PUT", f"/{index}/_mapping", mapping_of(fields), seconds=30)


async def make_index(cluster: Cluster, index: str, body: JsonObject) -> None:
    """Make an index, unless it is there. `index` is its whole name, `body` its settings and mappings."""
    answer = await cluster.request("PUT", f"/{index}", body, allowed=(400,), seconds=30)
    error = answer.body.get("error")
    # another gateway may just have made it
    if answer.status == 400 and not (isinstance(error, dict) and error.get("type") == _EXISTS):
        raise error_of(answer)


async def note_format(cluster: Cluster) -> None:
    """Note which format the indices have. Raises as check_format."""
    if not await check_format(cluster):
        body: JsonObject = {"kind": _FORMAT_DOCUMENT, "format": FORMAT}
        await cluster.request("PUT", _format_path(cluster), body)


async def check_format(cluster: Cluster) -> bool:
    """Whether it is noted which format the indices have.

    Raises:
        ConfigurationError: a newer gateway has written them.
    """
    found: Any = (await cluster.request("GET", _format_path(cluster), allowed=(404,))).body.get("_source")
    if found is not None and found["format"] > FORMAT:
        raise ConfigurationError(
            f"the indices {cluster.index('*')!r} were written by a newer gateway (format {found['format']}, this one"
            f" knows {FORMAT}); serve them with that version, or restore a snapshot from before"
        )
    return found is not None


def _format_path(cluster: Cluster) -> str:
    return f"/{cluster.index(STATE)}/_doc/{_FORMAT_DOCUMENT}"
