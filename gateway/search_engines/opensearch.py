"""The search engine of an OpenSearch cluster: `opensearch://user:password@host:9200?tls=true`.

The URL has the parameters of the store's, without a prefix. The indices that may be searched have to be named by the
configuration. Below: `gateway.opensearch`, which needs the extra `opensearch`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from gateway.errors import ConfigurationError
from gateway.findings import Finding
from gateway.opensearch.address import SCHEME, parse_address, parse_search_address
from gateway.opensearch.extra import needing_client
from gateway.search_engine import SearchEngineType, SearchEnvironment, SearchSettings

if TYPE_CHECKING:
    from gateway.opensearch.cluster_search import ClusterSearchEngine


def open_opensearch(settings: SearchSettings, environment: SearchEnvironment) -> ClusterSearchEngine:
    """The engine of an `opensearch:` URL.

    Raises:
        ConfigurationError: the URL is not one of a cluster, no indices are named, or the client is not installed.
    """
    if not settings.indices:
        raise ConfigurationError(
            "the search engine has no indices",
            fields=[(("indices",), "is missing; name what may be searched: ['books-*'], or ['*'] for all")],
        )
    with needing_client("search engine"):
        from gateway.opensearch.cluster_search import ClusterSearchEngine
    address = parse_search_address(settings.url, environment.directory)
    is_own_kind = environment.store.startswith(f"{SCHEME}:")
    prefix = parse_address(environment.store, environment.directory).prefix if is_own_kind else None
    return ClusterSearchEngine(address, settings, prefix)


def examine_opensearch(settings: SearchSettings, environment: SearchEnvironment) -> AsyncGenerator[Finding]:
    """Look at the cluster that the URL names. Raises ConfigurationError as `open_opensearch`."""
    engine = open_opensearch(settings, environment)
    from gateway.opensearch.search_doctor import examine_search

    return examine_search(engine)


ENGINE = SearchEngineType(SCHEME, open_opensearch, examine=examine_opensearch)
