"""Base URLs, as operators write them, and the addresses of APIs below them. Pure."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit, urlunsplit


def split_endpoint(endpoint: str) -> SplitResult:
    """The parts of a base URL, its path without a slash at the end.

    Raises:
        ValueError: `endpoint` is no http or https URL with a host, or carries credentials; the text says which.
    """
    endpoint = endpoint.strip()
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname or any(c.isspace() for c in endpoint):
        raise ValueError("is not an http or https URL with a host")
    parts.port  # noqa: B018  # raises ValueError for an invalid port
    if parts.username is not None or parts.password is not None:
        raise ValueError("carries credentials")
    return parts._replace(path=parts.path.rstrip("/"), fragment="")


def address_below(endpoint: str, path: str) -> str:
    """The address `path` below the base URL, which may end with `path` already. A query (`?api-version=`) stays at the
    end.

    Raises:
        ValueError: as split_endpoint.
    """
    parts = split_endpoint(endpoint)
    return urlunsplit(parts if parts.path.endswith(path) else parts._replace(path=parts.path + path))
