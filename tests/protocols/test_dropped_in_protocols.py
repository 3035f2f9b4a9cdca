"""What a protocol that is one more file says of itself: its open paths, and its form of errors, which may fail."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from importlib import import_module
from pathlib import Path

import pytest

from tests.movable_clock import MovableClock
from tests.newcomers import file_in_room
from tests.running_gateway import LocalGateway, agent, local_gateway, run_body, scripted
from tests.waiting import until_answered
from tests.website import ALICE_KEY, website

ALICE = {"authorization": f"Bearer {ALICE_KEY}"}
JSON = {"content-type": "application/json"}

CODE = """# gateway/protocols/news.py
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from gateway.protocol import WireProtocol, read_json


async def told(request):
    if request.method == "POST":
        await read_json(request)
    if request.url.path.endswith("broken"):
        raise RuntimeError("a bug of the endpoint's")
    return PlainTextResponse("nothing new")


def fails(problem, scope):
    raise LookupError("a bug of the form's")


PROTOCOL = WireProtocol(
    "news",
    lambda environment: [Route("/news/{rest:path}", told, methods=["GET", "POST"])],
    open_paths=["/news/today", "/news/old/"],
    error_form=fails,
)
"""


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncGenerator[LocalGateway]:
    with file_in_room(CODE, tmp_path):
        async with website(tmp_path, api_keys=[{"name": "alice", "key": ALICE_KEY}]) as local:
            yield local


async def test_the_open_paths_of_a_protocol_need_no_key_and_its_others_do(gateway: LocalGateway) -> None:
    for path in ("/news/today", "/news/old/1999/12"):
        answer = await gateway.client.http.get(path, headers={"origin": "https://elsewhere.example"})
        assert (answer.status_code, answer.text) == (200, "nothing new"), path

    assert (await gateway.client.http.get("/news/secret", headers=ALICE)).status_code == 200
    refused = await gateway.client.http.get("/news/today/more")
    assert (refused.status_code, refused.json()["code"]) == (500, "internal_error"), "its form of a 401 fails"


@pytest.mark.parametrize(
    ("method", "path", "headers", "body"),
    [
        pytest.param("GET", "/news/secret", {}, b"", id="refused before a route is reached"),
        pytest.param("DELETE", "/news/today", {}, b"", id="refused by the router"),
        pytest.param("POST", "/news/today", JSON, b"{", id="refused by the endpoint"),
        pytest.param("GET", "/news/broken", ALICE, b"", id="the endpoint fails"),
        pytest.param("POST", "/news/today", JSON, b" " * 10_000_001, id="cut off"),
    ],
)
async def test_where_a_form_of_errors_fails_the_answer_is_a_plain_500(
    gateway: LocalGateway,
    caplog: pytest.LogCaptureFixture,
    method: str,
    path: str,
    headers: dict[str, str],
    body: bytes,
) -> None:
    answer = await gateway.client.http.request(method, path, headers=headers, content=body)

    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")
    assert answer.json()["code"] == "internal_error"
    assert "LookupError" not in answer.text
    assert (answer.headers.get("connection") == "close") == (len(body) > 10_000_000), (
        "an unread body would be a request"
    )
    assert answer.headers["x-content-type-options"] == "nosniff"
    [entry] = [record for record in caplog.records if record.message == "a protocol could not tell an error"]
    assert entry.exc_info is not None
    assert entry.__dict__["request_id"] in answer.json()["detail"]


FORGETFUL = """# gateway/protocols/forgetful.py
from starlette.responses import JSONResponse
from starlette.routing import Route

from gateway.errors import ConflictError
from gateway.protocol import WireProtocol

swept = []


async def told(request):
    return JSONResponse(len(swept))


async def sweep(environment):
    swept.append(environment)
    raise LookupError("a bug") if len(swept) % 2 else ConflictError("not now")


PROTOCOL = WireProtocol("forgetful", lambda environment: [Route("/swept", told)], sweep=sweep)
"""


async def test_a_protocol_that_fails_to_delete_what_is_due_is_asked_again(tmp_path: Path) -> None:
    clock = MovableClock()
    with file_in_room(FORGETFUL, tmp_path):
        async with local_gateway(tmp_path, [agent("a", scripted([{"text": "hello"}]))], clock=clock) as gateway:

            async def swept() -> int:
                await clock.advance(3600)
                number: int = (await gateway.client.http.get("/swept")).json()
                return number

            assert await until_answered(swept, lambda number: number > 2)


CLOSING = """# gateway/protocols/closing.py
from gateway.access.callers import LOCAL_CALLER, Caller
from gateway.protocol import WireProtocol

begun, statuses = [], []


async def close(environment):
    for record in begun:
        now = await environment.run(Caller(record.owner), record.run_id)
        statuses.append((record.status, now.status))


async def open(environment):
    await environment.on_run_begun(LOCAL_CALLER, "thread-1", begun.append)


PROTOCOL = WireProtocol("closing", lambda environment: [], open=open, close=close)
"""


async def test_a_protocol_hears_of_runs_on_a_thread_and_is_closed_once_all_have_ended(tmp_path: Path) -> None:
    with file_in_room(CLOSING, tmp_path):
        agents = [agent("a", scripted([{"text": "one"}, {"hang": True}]))]
        async with (
            local_gateway(tmp_path, agents, server={"drain_seconds": 0}) as gateway,
            gateway.client.stream("a", run_body()) as stream,
        ):
            await stream.until("TEXT_MESSAGE_CONTENT")
        seen = import_module("gateway.protocols.closing")
        assert [record.run_id for record in seen.begun] == ["run-1"]
        assert seen.statuses == [("running", "failed")], "no run is left when it is closed"
