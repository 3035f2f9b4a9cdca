"""How a model's provider is reached: its address, its key, and what a refused call says.

Below: agent, http_client, model_failures. Above: the models and what they share.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Protocol

from gateway.agent import ModelSettings, Secret
from gateway.clock import Clock
from gateway.errors import ConfigurationError, ModelError
from gateway.events import Events
from gateway.http_client import HttpCall, HttpClients, HttpStream, StreamTimeouts
from gateway.model_failures import failure
from gateway.wire.provider_errors import parse_error_body

_ERROR_BYTES = 65_536


def checked_address(endpoint: str, address: Callable[[str], str]) -> str:
    """`address(endpoint)`.

    Raises:
        ConfigurationError: it is a ValueError's case: the endpoint is none.
    """
    try:
        return address(endpoint)
    except ValueError as error:
        shown = "of this model" if "@" in endpoint else repr(endpoint)  # it may hold a password
        raise ConfigurationError(f"the endpoint {shown} {error}") from error


def api_key(settings: ModelSettings, name: str, default_endpoint: str) -> str:
    """The credential `name`; empty where there is none, as with many private endpoints.

    Raises:
        ConfigurationError: the provider's own endpoint needs one, or it holds characters that no header takes.
    """
    key = settings.credential.get(name, Secret("")).reveal().strip()
    if not key and settings.endpoint is None:
        raise ConfigurationError(f"{default_endpoint} needs a credential: set {name}")
    if not key.isascii() or not (key.isprintable() or not key):
        raise ConfigurationError(f"the credential {name} holds characters that no key has")
    return key


async def refusal(response: HttpStream, now: float) -> ModelError:
    """Why the provider answered with another status than 200. `now` is Unix time in seconds."""
    try:
        body = await response.read(_ERROR_BYTES)
    except ModelError:
        body = b""
    return failure(parse_error_body(body), response.status, response.headers, now)


class AnswerReader(Protocol):
    """Reads one answer: bytes in, events out. `failure` is to be raised once the events are passed on.

    `has_finish_reason`: the answer is whole, even if its connection does not end well.
    """

    done: bool
    failure: ModelError | None

    @property
    def has_finish_reason(self) -> bool: ...

    def feed(self, data: bytes) -> Events: ...

    def eof(self) -> Events: ...


async def read_answer(
    http: HttpClients,
    ask: Callable[[], Awaitable[HttpCall]],
    timeouts: StreamTimeouts,
    reader: AnswerReader,
    clock: Clock,
) -> AsyncGenerator[Events]:
    """The events of the answer to the call that `ask` makes, a batch per network read: what a `Model.stream` gives.

    A model gives this generator as its own: one more around it would cost every batch a switch.

    Raises:
        ModelError: the provider refused, or the answer failed.
    """
    async with http.stream(await ask(), timeouts) as response:
        if response.status != 200:
            raise await refusal(response, clock.now())
        while not reader.done:
            try:
                data = await response.receive()
            except ModelError:
                if not reader.has_finish_reason:
                    raise
                data = b""  # the answer is whole; only the end of its connection is not
            events = reader.feed(data) if data else reader.eof()
            if events:
                yield events
            if reader.failure is not None:
                raise reader.failure
        await response.settle()
