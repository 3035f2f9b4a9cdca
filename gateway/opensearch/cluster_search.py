"""Searches in a cluster, each by somebody, of the indices that are allowed, within bounds.

Below: cluster, index_names, search_body, ppl, search_failures. Above: the part of the search engine.

What a search would read is looked up before it is sent, and again before its answer is shown: meanwhile an alias may
have moved. What is not allowed looks like what is not there. The searched names are in the body of a `_msearch`,
because a URL has no room for those of many indices.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import orjson

from gateway.errors import StoreError, ToolError
from gateway.messages import JsonObject, JsonValue
from gateway.opensearch.address import DEFAULT_PREFIX, Address
from gateway.opensearch.cluster import Answer, AnswerTooLargeError, Cluster
from gateway.opensearch.index_names import AllowedIndices, in_path, is_plain, names_in
from gateway.opensearch.ppl import parse_ppl
from gateway.opensearch.search_body import names_in_body
from gateway.opensearch.search_failures import PPL_PLUGIN, is_unhandled, plugin_missing, search_failure
from gateway.search_engine import SOMEBODY, Asker, SearchSettings

logger = logging.getLogger(__name__)

_IMPERSONATE: Final = "opendistro_security_impersonate_as"
"""https://docs.opensearch.org/latest/security/access-control/impersonation/"""

# Everything that is no busy cluster is an answer.
_ANSWERED: Final = frozenset(range(400, 600)) - {429, 502, 503, 504}
_OF_THE_CLUSTER = 0.9  # of the time: so that the cluster says itself that a search took too long
_LONGEST_PATH = 3_000  # a node reads 4,096 bytes
_OPEN = "expand_wildcards=open"


class _Asked(NamedTuple):
    """Who asks, and until which time of the event loop."""

    headers: dict[str, str]
    until: float


class ClusterSearchEngine:
    """The indices of a cluster. It belongs to the event loop that uses it first."""

    has_plugins = True

    def __init__(self, address: Address, settings: SearchSettings, store_prefix: str | None) -> None:
        """`store_prefix`: that of the gateway's own store, if that is in a cluster."""
        prefixes = dict.fromkeys((DEFAULT_PREFIX, store_prefix or DEFAULT_PREFIX))
        self._allowed = AllowedIndices(settings.indices, tuple(f"{prefix}-" for prefix in prefixes))
        self.settings = settings
        self.address = address
        self._cluster = Cluster(
            address, largest_answer=settings.max_response_bytes, longest_try_seconds=settings.timeout_seconds
        )

    async def close(self) -> None:
        await self._cluster.close()

    async def list_indices(self, names: tuple[str, ...] = (), asker: Asker = SOMEBODY) -> list[JsonObject]:
        """A row for each index that may be searched. Raises ToolError: there is none of that name."""
        asked = self._asked(asker)
        wanted = await self._resolved(asked, names_in(",".join(names))) if names else self.settings.indices
        path = f"/_cat/indices/{_path(wanted)}?format=json&ignore_unavailable=true&{_OPEN}"
        rows = _objects((await self._request(asked, "GET", path)).items)
        allowed = [row for row in rows if self._allowed.has(str(row.get("index")))]
        return sorted(allowed, key=lambda row: str(row["index"]))

    async def mapping(self, names: tuple[str, ...], asker: Asker = SOMEBODY) -> JsonObject:
        """The mappings and settings by the indices' names. Raises ToolError: there is none of that name."""
        asked = self._asked(asker)
        found = await self._resolved(asked, names_in(",".join(names)))
        answer = await self._request(asked, "GET", f"/{_path(found)}?{_OPEN}")
        return {
            name: {"mappings": index.get("mappings", {}), "settings": index.get("settings", {})}
            for name, index in sorted(answer.body.items())
            if isinstance(index, dict) and self._allowed.has(name)
        }

    async def search(self, index: str, body: JsonObject, asker: Asker = SOMEBODY) -> JsonObject:
        """The answer to a search. Raises ToolError: see the contract; or the body names an index, or has a script,
        that is not allowed.
        """
        others = names_in_body(body, allows_scripts=self.settings.scripts)
        asked = self._asked(asker)
        expressions = (names_in(index), *((name,) for name in others))
        found = [await self._resolved(asked, names) for names in expressions]
        seconds = f"{_OF_THE_CLUSTER * self.settings.timeout_seconds * 1000:.0f}ms"
        head: JsonObject = {"index": list(found[0]), "allow_partial_search_results": False}
        lines = (_json(head), _json({**body, "timeout": seconds}), b"")
        path = f"/_msearch?cancel_after_time_interval={seconds}"
        answer = await self._request(asked, "POST", path, b"\n".join(lines))
        response = _only_response(answer)
        await self._expect_same(asked, expressions, found)
        return response

    async def ppl(self, query: str, index: str | None = None, asker: Asker = SOMEBODY) -> JsonObject:
        """The answer to a query in PPL. Raises ToolError: see the contract."""
        parsed = parse_ppl(query)
        _json(query)
        if index is not None and parsed.source != index:
            raise ToolError(f"the source of the query has to be {index!r}, not {parsed.source!r}")
        asked = self._asked(asker)
        names = names_in(parsed.source)
        found = await self._resolved(asked, names)
        answer = await self._request(asked, "POST", "/_plugins/_ppl", {"query": parsed.reading(found)}, raw=True)
        if is_unhandled(answer):
            raise plugin_missing(PPL_PLUGIN)
        if answer.status >= 400:
            raise search_failure(answer)
        await self._expect_same(asked, [names], [found])
        return answer.body

    # --- names

    async def _resolved(self, asked: _Asked, names: tuple[str, ...]) -> tuple[str, ...]:
        """The indices, aliases and data streams that they mean. Raises ToolError: one is not there, or nothing is, that
        may be searched.
        """
        answer = await self._request(asked, "GET", f"/_resolve/index/{in_path(names)}?{_OPEN}", raw=True)
        if answer.status >= 400 and answer.status != 404:
            raise search_failure(answer)
        found = tuple(name for name, indices in _targets(answer.body) if all(map(self._allowed.has, indices)))
        missing = [name for name in names if is_plain(name) and name not in found]
        if missing or not found:
            shown = ", ".join(map(repr, missing or names))
            raise ToolError(f"there is no index {shown} that may be searched; ListIndexTool tells which there are")
        return found

    async def _expect_same(
        self, asked: _Asked, expressions: Sequence[tuple[str, ...]], found: Sequence[tuple[str, ...]]
    ) -> None:
        """Raises ToolError: one of the names means something else by now."""
        now = [await self._resolved(asked, names) for names in expressions]
        if any(not set(before) <= set(after) for before, after in zip(found, now, strict=True)):
            raise ToolError("the searched indices changed while they were searched; search again")

    # --- requests

    def _asked(self, asker: Asker) -> _Asked:
        until = self._cluster.deadline(self.settings.timeout_seconds)
        if self.settings.identity == "service":
            return _Asked({}, until)
        if asker.key is None:
            raise ToolError(
                "searches here need an API key, by whose name the cluster knows its user; this caller has none"
            )
        return _Asked({_IMPERSONATE: asker.key}, until)

    async def _request(
        self, asked: _Asked, method: str, path: str, body: JsonValue | bytes = None, *, raw: bool = False
    ) -> Answer:
        """The cluster's answer. Raises ToolError: there is none; or, unless it is `raw`, it is a refusal."""
        seconds = self.settings.timeout_seconds
        try:
            answer = await self._cluster.request_until(asked.until, method, path, body, _ANSWERED, asked.headers)
        except AnswerTooLargeError:
            most = self.settings.max_response_bytes
            raise ToolError(
                f"the answer has more than {most} bytes; ask for less: fewer hits or fewer fields"
            ) from None
        except StoreError as error:
            logger.warning("a search failed", extra={"error": error.message})
            if asyncio.get_running_loop().time() >= asked.until - 0.1:
                raise ToolError(
                    f"the cluster gave no answer within {seconds:g} seconds; make the search narrower, or try later"
                ) from error
            raise ToolError("the cluster cannot be asked just now") from error
        if answer.status >= 400 and not raw:
            raise search_failure(answer)
        return answer


def _targets(body: JsonObject) -> Iterator[tuple[str, list[str]]]:
    """Each name that was found, and the indices that are read by it."""
    for kind, member in (("indices", "name"), ("aliases", "indices"), ("data_streams", "backing_indices")):
        for each in _objects(body.get(kind)):
            named = each.get(member)
            yield str(each.get("name")), [str(name) for name in (named if isinstance(named, list) else [named])]


def _objects(value: object) -> Iterator[JsonObject]:
    yield from (each for each in (value if isinstance(value, list) else ()) if isinstance(each, dict))


def _path(names: tuple[str, ...]) -> str:
    path = in_path(names)
    if len(path) > _LONGEST_PATH:
        raise ToolError(f"{len(names)} indices are too many for one request; name fewer")
    return path


def _json(value: JsonValue) -> bytes:
    """Raises ToolError: it has a number or a text that no JSON can have."""
    try:
        return orjson.dumps(value)
    except TypeError as error:
        raise ToolError("the search has a text that is no Unicode, or a number of more than 64 bits") from error


def _only_response(answer: Answer) -> JsonObject:
    """The one response of a `_msearch`. Raises ToolError: it is a refusal."""
    for response in _objects(answer.body.get("responses")):
        status = response.pop("status", 200)
        if "error" in response:
            raise search_failure(Answer(status if isinstance(status, int) else 500, response))
        return response
    raise ToolError("the cluster gave no answer to the search")
