"""The gateway inside somebody's own ASGI application: its lifespan, and a prefix before its paths."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

from gateway.application import Application
from gateway.wire.mounts import below_mount
from tests.embedded_gateway import HELPER, application_of, client_of
from tests.running_gateway import parse_frames, run_body

ALICE = "alice-key-of-the-tests"


async def own(request: Request) -> Response:
    return PlainTextResponse(f"the host's own; {request.app.state.opened}")


def host_of(application: Application, prefix: str) -> Starlette:
    """An application with a page of its own that has the gateway below a prefix."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[dict[str, Any]]:
        async with application.lifespan():
            app.state.opened = "opened"
            yield {"caller": "the host's word"}

    return Starlette(routes=[Mount(prefix, app=application.asgi), Route("/own", own)], lifespan=lifespan)


@asynccontextmanager
async def hosted(directory: Path, prefix: str = "/gateway", **more: Any) -> AsyncGenerator[httpx.AsyncClient]:
    host = host_of(application_of(directory, **more), prefix)
    async with host.router.lifespan_context(host), client_of(host) as client:
        yield client


@pytest.mark.parametrize("prefix", ["/gateway", "/agents", "/deep/down", "/gr%C3%BC%C3%9Fe", "/a b"])
async def test_a_gateway_below_a_prefix_serves_all_of_its_paths(tmp_path: Path, prefix: str) -> None:
    mounted = httpx.URL(f"http://x{prefix}").path
    async with hosted(tmp_path, mounted) as client:
        assert (await client.get("/own")).text == "the host's own; opened"
        assert [each["id"] for each in (await client.get(f"{prefix}/agents")).json()["agents"]] == ["helper"]
        answer = await client.post(f"{prefix}/agents/helper/run", json=run_body(thread_id="a/b", run_id="r/1"))
        assert parse_frames(answer.content)[-1].type == "RUN_FINISHED"
        assert (await client.get(f"{prefix}/runs/r%2F1")).json()["status"] == "completed"
        assert (await client.get(f"{prefix}/threads/a%2Fb/messages")).status_code == 200
        for path in ("/", "/docs", "/openapi.json", "/healthz", "/readyz"):
            assert (await client.get(f"{prefix}{path}")).status_code == 200, path
        missing = await client.get(f"{prefix}/v1/nothing")
        assert (missing.status_code, missing.json()["error"]["type"]) == (404, "invalid_request_error")
        assert (await client.get("/agents/of/nobody")).status_code == 404
        again = await client.get(f"{prefix}/agents/", follow_redirects=True)
        assert (again.status_code, len(again.history), again.json()["agents"][0]["id"]) == (200, 1, "helper")


async def test_what_names_the_gateways_own_address_has_the_prefix(tmp_path: Path) -> None:
    async with hosted(tmp_path) as client:
        card = (await client.get("/gateway/.well-known/agent-card.json")).json()
        assert card["supportedInterfaces"][0]["url"] == str(client.base_url.join("/gateway/a2a"))
        document = (await client.get("/gateway/openapi.json")).json()
        assert document["servers"] == [{"url": "/gateway"}]
        page = (await client.get("/gateway/docs")).text
        for name in re.findall(r'href="([^"#:]+)"', page):
            assert (await client.get(f"/gateway/{name}")).status_code == 200, name


async def test_a_gateway_below_a_prefix_asks_for_keys_as_ever(tmp_path: Path) -> None:
    async with hosted(tmp_path, server={"api_keys": [{"name": "alice", "key": ALICE}]}) as client:
        assert (await client.get("/gateway/agents")).status_code == 401
        assert (await client.get("/gateway/healthz")).status_code == 200
        key = {"authorization": f"Bearer {ALICE}"}
        assert (await client.get("/gateway/agents", headers=key)).status_code == 200


async def test_a_foreign_host_name_is_refused_where_the_gateway_has_no_keys(tmp_path: Path) -> None:
    async with hosted(tmp_path) as client:
        assert (await client.get("/gateway/agents", headers={"host": "agents.example"})).status_code == 403


def test_what_a_host_notes_of_a_request_does_not_reach_the_gateway() -> None:
    scope = {
        "type": "http",
        "path": "/a/a/b",
        "root_path": "/a",
        "raw_path": b"/a/a/b",
        "state": {"caller": 1},
        "path_params": {"x": ""},
    }
    below = below_mount(scope)
    assert (below["path"], below["raw_path"], below["root_path"]) == ("/a/b", b"/a/b", "")
    assert (below["state"], below["path_params"], below["app_root_path"]) == ({}, {}, "/a")
    assert scope["state"] == {"caller": 1}
    stripped = below_mount({**scope, "path": "/b/ü", "raw_path": None})  # as hosts did that took the prefix away
    assert (stripped["path"], stripped["raw_path"]) == ("/b/ü", b"/b/%C3%BC")


async def test_a_lifespan_may_be_the_hosts_own_and_opens_by_asgi_too(tmp_path: Path) -> None:
    application = application_of(tmp_path)
    mounts = [Mount("/gateway", app=application.asgi), Mount("/same", app=application)]
    host = Starlette(routes=mounts, lifespan=application.lifespan)
    async with host.router.lifespan_context(host):
        for path in ("/gateway", "/same"):
            async with client_of(host, path) as client:
                assert (await client.get("/agents")).status_code == 200
    with pytest.raises(RuntimeError, match="make a new Application"):
        async with application.lifespan():
            pass
    application = application_of(tmp_path)
    sent: list[str] = []
    statuses: list[int] = []
    come: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    come.put_nowait({"type": "lifespan.startup"})

    async def send(message: Any) -> None:
        sent.append(message["type"])
        async with client_of(application.asgi) as client:
            statuses.append((await client.get("/agents")).status_code)
        come.put_nowait({"type": "lifespan.shutdown"})

    await application.asgi({"type": "lifespan", "asgi": {"version": "3.0"}}, come.get, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert statuses == [200, 503]


async def test_a_request_outside_the_lifespan_is_told_what_to_do(tmp_path: Path) -> None:
    application = application_of(tmp_path)

    async def check() -> None:
        async with client_of(application.asgi) as client:
            for path, message in (("/agents", "detail"), ("/v1/models", "error")):
                refused = await client.get(path)
                assert refused.status_code == 503
                assert "async with application.lifespan()" in str(refused.json()[message])
            run = await client.post("/agents/helper/run", json=run_body())
            assert (run.status_code, run.json()["code"]) == (503, "not_started")
            assert (await client.get("/healthz")).status_code == 200
            assert (await client.get("/readyz")).status_code == 503

    await check()
    async with application.lifespan(), client_of(application.asgi) as client:
        assert (await client.get("/agents")).json()["agents"][0]["id"] == HELPER["id"]
    await check()


async def test_one_program_may_have_several_gateways(tmp_path: Path) -> None:
    directories = [tmp_path / name for name in ("first", "second")]
    for directory in directories:
        directory.mkdir()
    first, second = (application_of(directory) for directory in directories)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        async with first.lifespan(), second.lifespan():
            yield

    host = Starlette(routes=[Mount("/first", app=first), Mount("/second", app=second)], lifespan=lifespan)
    async with host.router.lifespan_context(host), client_of(host) as client:
        for prefix in ("/first", "/second"):
            answer = await client.post(f"{prefix}/agents/helper/run", json=run_body())
            assert parse_frames(answer.content)[-1].type == "RUN_FINISHED"
        await client.delete("/first/threads/thread-1")
        assert (await client.get("/first/threads")).json()["threads"] == []
        assert [each["id"] for each in (await client.get("/second/threads")).json()["threads"]] == ["thread-1"]


def test_it_can_be_tried_without_a_server(tmp_path: Path) -> None:
    with TestClient(application_of(tmp_path), base_url="http://127.0.0.1") as client:
        assert client.get("/agents").json()["agents"][0]["url"] == "http://127.0.0.1/agents/helper/run"
        run = client.post("/agents/helper/run", json=run_body())
        assert parse_frames(run.content)[-1].type == "RUN_FINISHED"


async def test_it_can_be_tried_inside_the_event_loop(tmp_path: Path) -> None:
    application = application_of(tmp_path)
    transport = httpx.ASGITransport(app=application.asgi)
    async with application.lifespan(), httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        run = await client.post("/agents/helper/run", json=run_body())
        assert parse_frames(run.content)[-1].type == "RUN_FINISHED"
