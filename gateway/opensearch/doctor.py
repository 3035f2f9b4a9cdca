"""Looks at a cluster without changing it: whether a gateway could keep its store there.

Below: reach, indices, cluster_findings. Above: the part. It goes from the outside in, and ends where it cannot go on:
reach, user, version, rights, then what the cluster says of itself. Rights are tried on an index that never exists: who
has the right hears that it is not there.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final, NamedTuple

from gateway.errors import ConfigurationError, StoreError, StoreFullError
from gateway.messages import JsonObject, JsonValue
from gateway.opensearch import cluster_findings
from gateway.opensearch.address import Address
from gateway.opensearch.bulks import Bulks
from gateway.opensearch.cluster import Cluster
from gateway.opensearch.indices import check_version
from gateway.opensearch.membership import list_path, read_gateways
from gateway.opensearch.reach import known_user, reach
from gateway.opensearch.sources import Sources
from gateway.store import Finding, Gateway, Level, StoreEnvironment

_NEWEST_MAJOR = 3
_REFUSED = (401, 403)
# Managed clusters have not all of the pages that are read here; 429 and what is above 500 is tried again.
_UNREADABLE = (400, 401, 403, 404, 405)

_ROLE = (
    "give the user a role with the cluster permissions cluster_composite_ops and cluster_monitor, and on '{prefix}-*'"
    " the index permissions crud, create_index and manage"
)


class _Right(NamedTuple):
    """A request that changes nothing, whoever sends it. `{index}` is an index that is not there."""

    what: str
    method: str
    path: str
    body: JsonValue | bytes = None


_RIGHTS: Final = (
    _Right("read documents", "GET", "/{index}/_doc/none"),
    _Right("search", "POST", "/{index}/_search", {"size": 0}),
    # what is not an alias is not written
    _Right("write documents", "PUT", "/{index}/_doc/none?require_alias=true", {}),
    _Right("read many documents at once", "POST", "/{index}/_mget", {"ids": ["none"]}),
    _Right("delete documents", "DELETE", "/{index}/_doc/none"),
    _Right("refresh indices", "POST", "/{index}/_refresh"),
    _Right("read statistics of indices", "GET", "/{index}/_stats"),
    _Right("read settings of indices", "GET", "/{index}/_settings"),
    _Right("read mappings", "GET", "/{index}/_mapping"),
    _Right("change mappings", "PUT", "/{index}/_mapping", {"properties": {}}),
    # an index of no shards is none
    _Right("make indices", "PUT", "/{index}", {"settings": {"index.number_of_shards": 0}}),
    _Right(
        "write many documents at once",
        "POST",
        "/_bulk",
        b'{"index":{"_index":"{index}","_id":"none","require_alias":true}}\n{}\n',
    ),
)


async def examine(address: Address, environment: StoreEnvironment) -> AsyncGenerator[Finding]:
    """What there is to say of the cluster, and of the store's indices in it."""
    if not environment.master_keys:
        yield Finding(
            "keys",
            Level.WARNING,
            "there are no master keys: documents with secrets, such as agents with credentials, are refused",
            "add a key to server.master_keys: openssl rand -base64 32",
        )
    reached = await reach(address)
    yield reached
    if reached.level is Level.PROBLEM:
        return
    cluster = Cluster(address)
    try:
        async with aclosing(_answers(cluster, environment)) as findings:
            async for finding in findings:
                yield finding
    except StoreError as error:
        yield Finding("cluster", Level.PROBLEM, error.message, "try again when the cluster answers")
    finally:
        await cluster.close()


async def _answers(cluster: Cluster, environment: StoreEnvironment) -> AsyncGenerator[Finding]:
    """What the cluster says. Raises StoreError where it says nothing."""
    user = await known_user(cluster)
    yield user
    if user.level is Level.PROBLEM:
        return
    version = await _version(cluster)
    yield version
    if version.level is Level.PROBLEM:
        return
    yield await _rights(cluster)
    look = _Looks(cluster)
    prefix = cluster.address.prefix
    plugins = await look.at("/_nodes/plugins?filter_path=nodes.*.plugins.name", "plugins")
    settings = await look.at(f"/{prefix}-*/_settings?flat_settings=true&expand_wildcards=all", "settings of indices")
    mappings = await look.at(f"/{prefix}-*/_mapping?expand_wildcards=all", "mappings")
    templates = await look.at("/_index_template", "index templates")
    older = await look.at("/_template", "older index templates")
    health = await look.at("/_cluster/health", "health")
    own_health = await look.at(f"/_cluster/health/{prefix}-*", "health of the store's indices")
    limits = await look.at("/_cluster/settings?flat_settings=true&include_defaults=true", "settings of the cluster")
    asked = environment.clock.now()
    nodes = await look.at("/_nodes/stats/fs?filter_path=nodes.*.name,nodes.*.timestamp,nodes.*.fs.total", "nodes")
    answered = environment.clock.now()
    for finding in (
        *cluster_findings.of_plugins(plugins),
        *cluster_findings.of_indices(prefix, settings, mappings),
        *cluster_findings.of_templates(prefix, settings, templates, older),
        *cluster_findings.of_health(own_health),
        *cluster_findings.of_blocks(prefix, limits, settings),
        *cluster_findings.of_shards(prefix, limits, settings, health),
        *cluster_findings.of_nodes(nodes, asked, answered),
    ):
        yield finding
    yield await _gateways(cluster, look)
    if look.unread:
        yield Finding("not read", Level.OK, f"the user may not read, or the cluster has not: {', '.join(look.unread)}")


async def _gateways(cluster: Cluster, look: _Looks) -> Finding:
    """Which gateways use the prefix."""
    found: list[Gateway] = []
    if await look.at(list_path(cluster), "gateways on the prefix") is not None:
        found = await read_gateways(Sources(cluster, Bulks(cluster)))
    names = ", ".join(each.name for each in found)
    text = f"uses the prefix, or was killed while it did: {names}" if names else "no gateway uses the prefix"
    return Finding("gateway", Level.OK, text)


class _Looks:
    """Reads pages of the cluster, and notes those that it may not read."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.unread: list[str] = []

    async def at(self, path: str, what: str) -> JsonObject | None:
        answer = await self._cluster.request("GET", path, allowed=_UNREADABLE)
        if answer.status >= 400:
            self.unread.append(what)
            return None
        return answer.body


# --- version, rights


async def _version(cluster: Cluster) -> Finding:
    try:
        number = await check_version(cluster)
    except ConfigurationError as error:
        text, _, remedy = error.message.partition("; ")
        return Finding("version", Level.PROBLEM, text, remedy)
    if number.partition(".")[0].isdigit() and int(number.partition(".")[0]) > _NEWEST_MAJOR:
        remedy = f"a version from 2.11 to {_NEWEST_MAJOR}.x is known to work"
        return Finding("version", Level.WARNING, f"OpenSearch {number} says more than this gateway knows", remedy)
    return Finding("version", Level.OK, f"OpenSearch {number}")


async def _rights(cluster: Cluster) -> Finding:
    missing = [right.what for right in _RIGHTS if not await _has(cluster, right)]
    names = f"'{cluster.address.prefix}-*'"
    if missing:
        remedy = _ROLE.format(prefix=cluster.address.prefix)
        return Finding("rights", Level.PROBLEM, f"the user may not, on {names}: {', '.join(missing)}", remedy)
    return Finding("rights", Level.OK, f"the user may do on {names} what a gateway does")


async def _has(cluster: Cluster, right: _Right) -> bool:
    index = cluster.index("doctor-none")
    path, body = right.path.replace("{index}", index), right.body
    if isinstance(body, bytes):
        body = body.replace(b"{index}", index.encode())
    try:
        answer = await cluster.request(right.method, path, body, allowed=_UNREADABLE)
    except StoreFullError:  # of_blocks says so
        return True
    items = answer.body.get("items")
    results = items if isinstance(items, list) else []
    told: list[tuple[JsonValue, JsonObject]] = [(answer.status, answer.body)]
    told += [(each.get("status"), each) for each in (cluster_findings.member(item, "index") for item in results)]
    return not any(status in _REFUSED and not _is_block(said) for status, said in told)


def _is_block(said: JsonObject) -> bool:
    """Whether the index or the cluster is closed to everybody, which of_blocks says."""
    return str(cluster_findings.member(said, "error").get("type")).endswith("block_exception")
