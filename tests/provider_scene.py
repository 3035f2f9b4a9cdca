"""A model behind a local server that speaks its wire format, and the faults that every connection can have."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias, TypeVar

import pytest

from gateway.agent import ModelSettings, Secret
from gateway.clock import Clock, SystemClock
from gateway.errors import ModelError, ModelErrorKind
from gateway.events import Events
from gateway.http_client.clients import HttpClients
from gateway.model import Model, ModelEnvironment, ModelProvider, ModelRequest
from tests.model_answers import collect
from tests.openai_chat_server import ChatServer, Script

DEADLINE_SECONDS = 20
KEY = "sk-secret-0123456789"

Fault: TypeAlias = tuple[Script, ModelErrorKind, bool]
"""What a server does, the kind of error that it is, and whether asking again may help."""

Server = TypeVar("Server", bound=ChatServer)


@asynccontextmanager
async def model_behind(
    provider: ModelProvider,
    model_id: str,
    *scripts: Script,
    server: Callable[[], AbstractAsyncContextManager[Server]],
    clock: Clock | None = None,
    key: str = KEY,
    **settings: Any,
) -> AsyncGenerator[tuple[Model, Server]]:
    """A model of a provider that takes one key, and the server that plays the scripts to it."""
    async with asyncio.timeout(DEADLINE_SECONDS), server() as running:
        running.answers(*scripts)
        clock = clock or SystemClock()
        http = HttpClients(clock)
        (credential,) = provider.credentials
        settings = {
            "model_id": model_id,
            "endpoint": running.endpoint,
            "credential": {credential: Secret(key)} if key else {},
            **settings,
        }
        try:
            yield provider.open(ModelSettings(provider.name, **settings), ModelEnvironment(clock, http)), running
        finally:
            await http.close()


async def failure_of(model: Model, request: ModelRequest, into: Events | None = None, *, key: str = KEY) -> ModelError:
    """The error that the answer ends in, which shows nothing that is ours to keep."""
    with pytest.raises(ModelError) as caught:
        await collect(model.stream(request), into)
    failed = caught.value
    assert key not in repr(failed.__dict__) + str(failed)
    for word in ("Traceback", "aiohttp", "httpx", "127.0.0.1"):
        assert word not in failed.message
    return failed


def connection_faults(cut: Sequence[bytes]) -> dict[str, Fault]:
    """By what happens. `cut`: the pieces of an answer that is not whole."""
    return {
        "a page with 200": (Script(pieces=(b"<html>Hi",), content_type="text/html"), ModelErrorKind.PROTOCOL, True),
        "a page that calls itself a stream": (Script(pieces=(b"<!DOCTYPE html>",)), ModelErrorKind.PROTOCOL, True),
        "nothing": (Script(), ModelErrorKind.TRUNCATED, True),
        "an end in the middle": (Script(pieces=cut), ModelErrorKind.TRUNCATED, True),
        "a close in the middle": (Script(pieces=cut, ending="close"), ModelErrorKind.NETWORK, True),
        "a reset": (Script(pieces=cut, ending="reset"), ModelErrorKind.NETWORK, True),
        "no answer": (Script(raw=b""), ModelErrorKind.NETWORK, True),
        "a redirect": (Script(307, headers=[("location", "http://elsewhere/")]), ModelErrorKind.PROTOCOL, False),
        "an error body without end": (Script(503, (b"x",), ending="close"), ModelErrorKind.OVERLOADED, True),
        "502 with a page": (Script(502, (b"<html>Bad Gateway",), "text/html"), ModelErrorKind.OVERLOADED, True),
    }
