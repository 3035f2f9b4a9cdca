"""The one HTTP client per endpoint: transport, timeouts, signing left to the caller, the fetch policy.

Above: models and tools. Below: errors, clock.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from gateway.clock import Clock


@dataclass(frozen=True, slots=True)
class HttpCall:
    """A request, whole: what a codec builds and what a signer signs."""

    method: str
    url: str
    headers: Mapping[str, str]
    content: bytes = b""


@dataclass(frozen=True, slots=True)
class StreamTimeouts:
    """Seconds. `first_byte`: from the sent request to the response's headers; `idle`: between two reads."""

    connect: float = 10.0
    first_byte: float = 120.0
    idle: float = 120.0
    total: float | None = None


@dataclass(frozen=True, slots=True)
class FetchedContent:
    """What a fetch under the policy brought."""

    content: bytes
    media_type: str | None


class HttpStream:
    """A response whose body is still coming."""

    status: int
    headers: Mapping[str, str]

    def chunks(self) -> AsyncGenerator[bytes]:
        """The body as it arrives, one item per network read."""
        raise NotImplementedError

    async def read(self, limit: int = 1_000_000) -> bytes:
        """The rest of the body, at most `limit` bytes: for error bodies."""
        raise NotImplementedError


class HttpClients:
    """All clients of the process, opened at first use."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def stream(
        self, call: HttpCall, timeouts: StreamTimeouts = StreamTimeouts()
    ) -> AbstractAsyncContextManager[HttpStream]:
        """Send and give the response once its headers are there. Leaving the context closes the socket at once.

        Raises:
            ModelError: NETWORK or TIMEOUT, also from the stream's methods.
        """
        raise NotImplementedError

    async def fetch(self, url: str, *, max_bytes: int, timeout_seconds: float = 20.0) -> FetchedContent:
        """GET something a caller named, under the fetch policy."""
        raise NotImplementedError

    async def close(self) -> None:
        """Close every client."""
