"""A gateway inside a program of the test's own, without a file of its own server."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
from starlette.types import ASGIApp

from gateway.adapters import ProtocolAdapter
from gateway.application import Application
from gateway.settings import Flags, load_settings
from tests.asgi_server import serving
from tests.running_gateway import DEADLINE_SECONDS, agent, scripted, write_configuration

HELPER = agent("helper", scripted([{"text": "hello there"}]))


def application_of(
    directory: Path,
    adapters: Sequence[ProtocolAdapter] | None = None,
    agents: Sequence[Mapping[str, Any]] = (HELPER,),
    **configuration: Any,
) -> Application:
    """An application of these agents; its lifespan is not open."""
    file = write_configuration(directory, agents, **configuration)
    return Application(load_settings(Flags(config=file), environ=dict(os.environ)), protocol_adapters=adapters)


@contextlib.asynccontextmanager
async def client_of(app: ASGIApp, path: str = "") -> AsyncGenerator[httpx.AsyncClient]:
    """A client of the application behind a real server. Its paths begin with `path`."""
    async with serving(app) as port:
        url = f"http://127.0.0.1:{port}{path}"
        async with httpx.AsyncClient(base_url=url, timeout=DEADLINE_SECONDS, trust_env=False) as client:
            yield client


@contextlib.asynccontextmanager
async def embedded(
    directory: Path, *adapters: ProtocolAdapter, **configuration: Any
) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of an open application with these adapters."""
    application = application_of(directory, adapters, **configuration)
    async with application.lifespan(), client_of(application.asgi) as client:
        yield client
