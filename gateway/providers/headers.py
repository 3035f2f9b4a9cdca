"""The operator's own headers on every request to a model, for example for a private gateway in front of it.

Above: the configuration's checks and the composition root. Models do not know of these headers.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

from gateway.agent import Secret
from gateway.http_client.clients import HttpCall, HttpClients, HttpStream, StreamTimeouts
from gateway.model import ModelEnvironment

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_SECRET = re.compile("auth|key|token|secret|password|cookie", re.I)
# These frame a request and describe its body, so only the gateway sets them.
_OURS = frozenset(
    {"accept", "accept-encoding", "connection", "content-length", "content-type", "host", "te", "transfer-encoding"}
)
_TIMEOUTS = StreamTimeouts()


def header_problem(name: str, value: str) -> str | None:
    """The problem of an operator's header; None: there is none."""
    if not _NAME.fullmatch(name):
        return f"{name!r} is not a header name; write letters, digits and '-': 'X-Team'"
    if name.lower() in _OURS:
        return f"{name!r} is decided by the gateway; leave it out"
    if not value.strip() or not value.isascii() or not value.isprintable():
        return "must be printable ASCII text, and not empty"
    return None


def is_secret_header(name: str) -> bool:
    """Whether the header's name says that its value is a secret."""
    return _SECRET.search(name) is not None


def with_headers(environment: ModelEnvironment, headers: Mapping[str, Secret]) -> ModelEnvironment:
    """The environment of a model whose requests carry `headers`. These replace headers of the same names."""
    return replace(environment, http=_HeadedClients(environment.http, headers)) if headers else environment


class _HeadedClients(HttpClients):
    """The process's clients with headers added to each call. Media that messages name are fetched without them."""

    def __init__(self, clients: HttpClients, headers: Mapping[str, Secret]) -> None:
        # All state is shared: connections, TLS and the fetch policy are the same for all models.
        self._shared = clients
        self.fetcher = clients.fetcher
        self.endpoints = clients.endpoints
        self._headers = {name.lower(): secret.reveal().strip() for name, secret in headers.items()}

    @asynccontextmanager
    async def stream(self, call: HttpCall, timeouts: StreamTimeouts = _TIMEOUTS) -> AsyncGenerator[HttpStream]:
        kept = {name: value for name, value in call.headers.items() if name.lower() not in self._headers}
        async with self._shared.stream(replace(call, headers={**kept, **self._headers}), timeouts) as response:
            yield response

    async def close(self) -> None:
        """Does nothing: the clients belong to the process."""
