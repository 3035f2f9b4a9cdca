"""Looks at whether a cluster can be searched, for `agui-gateway doctor`. It changes nothing.

Below: reach, cluster_search. Above: the part of the search engine. A gateway serves without the cluster, so what is
wrong is a warning.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final

from gateway.errors import StoreError, ToolError
from gateway.findings import Finding, Level
from gateway.frozen import replace
from gateway.opensearch.cluster import Cluster
from gateway.opensearch.cluster_search import ClusterSearchEngine
from gateway.opensearch.reach import known_user, reach

_SUBJECT: Final = "search"
_SHOWN = 5
_ROLE = (
    "give the user a role with the cluster permissions cluster_composite_ops_ro and cluster_monitor, and on its indices"
    " the index permissions read, indices_monitor and indices:admin/get"
)


async def examine_search(engine: ClusterSearchEngine) -> AsyncGenerator[Finding]:
    """What there is to say of the cluster and of the indices that may be searched. Closes the engine."""
    try:
        found = await _found(engine)
        level = Level.WARNING if found.level is Level.PROBLEM else found.level
        yield replace(found, subject=_SUBJECT, level=level)
    except StoreError as error:
        yield Finding(_SUBJECT, Level.WARNING, error.message, "try again when the cluster answers")
    finally:
        await engine.close()


async def _found(engine: ClusterSearchEngine) -> Finding:
    """The first thing that keeps a search from working, else what can be searched."""
    address = engine.address
    if (reached := await reach(address)).level is Level.PROBLEM:
        return reached
    cluster = Cluster(address)
    try:
        user = await known_user(cluster)
    finally:
        await cluster.close()
    if user.level is Level.PROBLEM:
        return user
    return reached if reached.level is Level.WARNING else await _indices(engine)


async def _indices(engine: ClusterSearchEngine) -> Finding:
    settings, where = engine.settings, engine.address.shown
    if settings.identity == "impersonate":
        return Finding(
            _SUBJECT, Level.OK, f"{where}, by the rights of each caller's own user, which are not tried here"
        )
    try:
        names = [str(row["index"]) for row in await engine.list_indices()]
    except ToolError as error:
        return Finding(_SUBJECT, Level.WARNING, f"{where}: {error.message}", _ROLE)
    if not names:
        patterns = ", ".join(settings.indices)
        return Finding(_SUBJECT, Level.WARNING, f"{where} has no index that fits {patterns}", "correct search.indices")
    more = ", ..." if len(names) > _SHOWN else ""
    return Finding(_SUBJECT, Level.OK, f"{where}, {len(names)} indices: {', '.join(names[:_SHOWN])}{more}")
