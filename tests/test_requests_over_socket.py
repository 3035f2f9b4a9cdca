"""Requests as they come over a socket: odd ids, bodies that break off or do not come, limits that are none."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import quote

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from gateway.access.authentication import AccessMiddleware, AccessRules
from gateway.protocol.requests import read_body
from gateway.protocol.routes import Endpoint
from gateway.server.connection import Connection
from tests.asgi_server import RawClient, serving
from tests.running_gateway import agent, local_gateway, run_body, scripted
from tests.waiting import until


async def test_ids_with_slashes_are_asked_for_as_any_other(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [agent("a", scripted([{"text": "hello"}]))]) as gateway:
        run_ids = ["x", "x/events", "x/cancel", "100%", "a%2Fb", "a/b", "é ?#&="]
        for run_id in run_ids:
            await gateway.client.run("a", run_body(run_id=run_id, thread_id=f"{run_id}/messages"))
        for run_id in run_ids:
            path = quote(run_id, safe="")
            assert (await gateway.client.get(f"/runs/{path}"))["runId"] == run_id
            async with gateway.client.events(path) as stream:
                assert (await stream.rest())[0].data["runId"] == run_id
            response = await gateway.client.http.post(f"/runs/{path}/cancel")
            assert (response.status_code, response.json()["runId"]) == (200, run_id)
            thread = quote(f"{run_id}/messages", safe="")
            assert len((await gateway.client.get(f"/threads/{thread}/messages"))["messages"]) == 2
            assert (await gateway.client.http.delete(f"/threads/{thread}")).status_code == 204


async def test_a_path_that_leads_nowhere_is_named_as_it_was_asked_for(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [agent("a", scripted([{"text": "hello"}]))]) as gateway:
        await gateway.client.run("a", run_body(run_id="a/b", thread_id="t"))
        for path, told in {
            "/no%2Fwhere": "there is nothing at '/no%2Fwhere'; GET /docs lists all paths",
            "/assets/no%2Fwhere": "there is no file '/assets/no%2Fwhere'; it may be of an older page",
            "/" + "x" * 10_000: f"there is nothing at '/{'x' * 199}...'",
            "/runs/a%00b": "there is no run 'a\ufffdb'",
        }.items():
            response = await gateway.client.http.get(path)
            assert response.status_code == 404
            assert response.json()["detail"].startswith(told)
        response = await gateway.client.http.put("/runs/a%2Fb")
        assert (response.status_code, response.json()["detail"]) == (405, "PUT is not served at '/runs/a%2Fb'")


async def test_no_id_is_empty_and_a_slash_too_many_leads_to_the_list(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [agent("a", scripted([{"text": "hello"}]))]) as gateway:
        for path in ("/threads/", "/agents/"):
            response = await gateway.client.http.get(path, follow_redirects=False)
            assert response.status_code == 307
            assert response.headers["location"].endswith(path.removesuffix("/"))
            assert (await gateway.client.http.get(path, follow_redirects=True)).status_code == 200
        for path in ("/runs", "/runs/"):
            assert (await gateway.client.http.get(path, follow_redirects=True)).json()["code"] == "not_found"
        assert (await gateway.client.http.delete("/threads/", follow_redirects=True)).status_code == 405


async def test_a_client_that_leaves_within_its_body_is_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with local_gateway(tmp_path, [agent("a", scripted([{"text": "hello"}]))]) as gateway:
        port = int(gateway.client.base_url.rpartition(":")[2])
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        head = f"POST /agents/a/run HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        writer.write(f'{head}Content-Length: 1000\r\n\r\n{{"threadId"'.encode())
        await writer.drain()
        writer.close()
        await until(lambda: any("left before" in record.message for record in caplog.records))
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


HEAD = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def reading(*, pause_seconds: float = 30.0, max_body_seconds: float = 120.0) -> ASGIApp:
    """What reads a body as every endpoint does, but not for as long."""

    async def answer(request: Request) -> Response:
        return Response(await read_body(request, pause_seconds=pause_seconds))

    return AccessMiddleware(Endpoint(answer), AccessRules(max_body_seconds=max_body_seconds))


async def test_a_body_that_does_not_come_is_given_up() -> None:
    async with serving(reading(pause_seconds=0.05), Connection) as port:
        client = await RawClient.connect(port)
        client.writer.write(f'{HEAD}Content-Length: 1000\r\n\r\n{{"threadId"'.encode())
        answer = await client.read_rest()  # to the end: the connection is closed
        await client.close()
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"code":"body_timeout"' in answer


async def test_a_body_that_keeps_coming_is_not_read_for_ever() -> None:
    async with serving(reading(max_body_seconds=0.05), Connection) as port:
        client = await RawClient.connect(port)
        client.writer.write(f"{HEAD}Transfer-Encoding: chunked\r\n\r\n".encode())
        answered = asyncio.create_task(client.read_head())
        while not answered.done():
            client.writer.write(b"1\r\nx\r\n")
            await asyncio.sleep(0)  # else nothing is read meanwhile
        assert (await answered)["status"] == "408"
        await client.close()


@pytest.mark.parametrize("limit", ["0", "-1", "501", "000000010999", "9" * 5000, "1e2", ""])
async def test_a_page_is_never_larger_than_allowed(tmp_path: Path, limit: str) -> None:
    async with local_gateway(tmp_path, [agent("a", scripted([{"text": "hello"}]))]) as gateway:
        assert (await gateway.client.http.get("/threads", params={"limit": limit})).status_code == 400
