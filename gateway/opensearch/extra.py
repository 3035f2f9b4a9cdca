"""The extra `opensearch`, which has the cluster's client: a gateway without a cluster does without it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gateway.errors import ConfigurationError


@contextmanager
def needing_client(what: str) -> Iterator[None]:
    """Imports within need the client. Raises ConfigurationError: it is not installed."""
    try:
        yield
    except ImportError as error:
        raise ConfigurationError(
            f"an opensearch: {what} needs OpenSearch's client; install it with: pip install 'agui-gateway[opensearch]'"
        ) from error
