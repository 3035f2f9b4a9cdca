"""The store in an OpenSearch cluster, for what one machine cannot hold.

URL: `opensearch://user:password@host:9200?prefix=NAME&tls=true`, also with `ca=FILE` (the certificates that are trusted)
and `aws_region=REGION` (requests signed with the process's AWS credentials instead of a password). Below:
`gateway.opensearch`, its inside, which needs the extra `opensearch`.
"""

from __future__ import annotations

from gateway.errors import ConfigurationError
from gateway.store import Store, StoreEnvironment, StoreType


def open_opensearch(url: str, environment: StoreEnvironment) -> Store:
    """The store of an `opensearch:` URL, not opened yet.

    Raises:
        ConfigurationError: the URL is not one of an OpenSearch store, or its client is not installed.
    """
    try:
        from gateway.opensearch.store import OpenSearchStore
    except ImportError as error:
        raise ConfigurationError(
            "an opensearch: store needs OpenSearch's client; install it with: pip install 'agui-gateway[opensearch]'"
        ) from error
    from gateway.opensearch.address import parse_address

    return OpenSearchStore(parse_address(url, environment.directory), environment)


STORE = StoreType("opensearch", open_opensearch)
