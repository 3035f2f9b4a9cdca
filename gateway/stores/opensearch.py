"""The store in an OpenSearch cluster, for what one machine cannot hold.

URL: `opensearch://user:password@host:9200?prefix=NAME&tls=true`, also with `ca=FILE` (the certificates that are
trusted) and `aws_region=REGION` (requests signed with the process's AWS credentials instead of a password). Below:
`gateway.opensearch`, its inside, which needs the extra `opensearch`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from gateway.opensearch.address import SCHEME, parse_address
from gateway.opensearch.extra import needing_client
from gateway.store import Finding, Gateway, Store, StoreEnvironment, StoreType


def open_opensearch(url: str, environment: StoreEnvironment) -> Store:
    """The store of an `opensearch:` URL, not opened yet.

    Raises:
        ConfigurationError: the URL is not one of an OpenSearch store, or its client is not installed.
    """
    with needing_client("store"):
        from gateway.opensearch.store import OpenSearchStore
    return OpenSearchStore(parse_address(url, environment.directory), environment)


def examine_opensearch(url: str, environment: StoreEnvironment) -> AsyncGenerator[Finding]:
    """Look at the cluster that the URL names. Raises ConfigurationError as `open_opensearch`."""
    with needing_client("store"):
        from gateway.opensearch.doctor import examine
    return examine(parse_address(url, environment.directory), environment)


async def gateways_of_opensearch(url: str, environment: StoreEnvironment) -> Sequence[Gateway]:
    """The gateways that use the prefix that the URL names. Raises ConfigurationError as `open_opensearch`, and
    StoreError.
    """
    with needing_client("store"):
        from gateway.opensearch.bulks import Bulks
        from gateway.opensearch.cluster import Cluster
        from gateway.opensearch.membership import list_path, read_gateways
        from gateway.opensearch.sources import Sources
    cluster = Cluster(parse_address(url, environment.directory))
    try:
        if (await cluster.request("GET", list_path(cluster), allowed=(404,))).status == 404:
            return ()
        return await read_gateways(Sources(cluster, Bulks(cluster)))
    finally:
        await cluster.close()


STORE = StoreType(SCHEME, open_opensearch, examine=examine_opensearch, gateways=gateways_of_opensearch)
