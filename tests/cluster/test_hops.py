"""A request that meets a thread of another gateway is sent there whole, and its answer comes back as it is."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import tracemalloc
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.access.authentication import AccessRules
from gateway.agent import Secret
from gateway.cluster.signatures import HOPPED
from gateway.errors import ConflictError
from gateway.store import HeldElsewhereError
from tests.asgi_server import RawClient
from tests.collected_spans import CollectedSpans, is_below, told, trace_of
from tests.hop_scene import HoppingGateway, hopping
from tests.local_listener import listening, port_of
from tests.movable_clock import MovableClock
from tests.running_gateway import NO_TLS
from tests.waiting import until

ORIGIN = "https://app.example"
RULES = AccessRules(cors_origins=[ORIGIN])
PIECES = (b"data: 1\n\n", b"data: \xc3\xa4", b"\n\n", b": keep-alive\n\n", b"data: [DONE]\n\n")


def sent_to(holder: str | None) -> ASGIApp:
    """Routes that read a request, and find its thread at another gateway."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"]["left"] = scope["path_params"] = {"by": "the routes"}
        await Request(scope, receive).body()
        raise HeldElsewhereError("t1", holder)

    return application


def routed(*routes: Route) -> ASGIApp:
    starlette = Starlette(routes=list(routes))

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = starlette
        await starlette.router(scope, receive, send)

    return application


async def shown(request: Request) -> Response:
    """Everything of the request that the routes see."""
    body = await request.body()
    return JSONResponse(
        {
            "method": request.method,
            "path": request.scope["path"],
            "query": list(request.query_params.multi_items()),
            "is_hop": HOPPED in request.scope["state"],
            "headers": dict(request.headers),
            "client": list(request.scope["client"]),
            "url": str(request.base_url),
            "body": hashlib.sha256(body).hexdigest(),
            "size": len(body),
            "request_id": request.state.request_id,
        },
        headers={"x-thread-id": "t1"},
    )


@dataclass
class Pair:
    """`entered` is where clients come in, `holder` has the thread."""

    entered: HoppingGateway
    holder: HoppingGateway
    addresses: dict[str, str]
    client: httpx.AsyncClient


@asynccontextmanager
async def pair(holder: ASGIApp, *, rules: AccessRules = RULES, **entered: Any) -> AsyncGenerator[Pair]:
    addresses: dict[str, str] = {}
    async with (
        hopping("b", holder, addresses, rules=rules) as second,
        hopping("a", sent_to("b"), addresses, rules=rules, **entered) as first,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{first.port}", verify=NO_TLS, trust_env=False) as client,
    ):
        yield Pair(first, second, addresses, client)


SHOWN = routed(Route("/{path:path}", shown, methods=["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"]))


# --- the request


TARGETS = [
    "/threads/a%2Fb%C3%A4/messages?cursor=a%20b&x=%2B+&y=~'(*)",
    "/threads/../messages",
    "//x/./y;z/.well-known?a=/../b",
    '/a|b[c]"<d>^`{e}?q=|[]"<>^`{}',
    "/%zz/%?%zz=%",
    "/a%2e%2E/b",
]


@pytest.mark.parametrize("target", TARGETS)
async def test_a_path_and_a_query_mean_there_what_they_mean_here(target: str) -> None:
    async with pair(SHOWN) as two:
        answers = []
        for port in (two.entered.port, two.holder.port):
            client = await RawClient.connect(port)
            client.send("GET", target)
            head = await client.read_head()
            answers.append(json.loads(await client.reader.readexactly(int(head["content-length"]))))
            assert answers[-1]["client"] == list(client.writer.get_extra_info("sockname"))
            await client.close()
        hopped, direct = answers
        assert (hopped["path"], hopped["query"]) == (direct["path"], direct["query"])


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
async def test_the_holder_gets_the_request_as_it_was_sent(method: str) -> None:
    async with pair(SHOWN) as two:
        answer = await two.client.request(
            method,
            "/threads/t1",
            headers={"authorization": "Bearer k", "last-event-id": "7", "host": "localhost:81", "origin": ORIGIN},
            json=None if method in ("GET", "DELETE") else {"text": "ä"},
        )
        got = answer.json()
        assert (got["method"], got["path"]) == (method, "/threads/t1")
        assert got["headers"]["authorization"] == "Bearer k"
        assert got["headers"]["last-event-id"] == "7"
        assert got["headers"]["origin"] == ORIGIN
        assert got["url"] == "http://localhost:81/"
        assert "agui-gateway-hop" not in got["headers"]
        assert answer.headers["x-request-id"] == got["request_id"] == got["headers"]["x-request-id"]
        await until(lambda: two.entered.outcomes == ["forwarded"])


@pytest.mark.parametrize("size", [0, 1, 70_000, 1_500_000, 5_000_000])
async def test_bodies_of_any_size_arrive_whole(size: int) -> None:
    body = b'"' + b"x" * size + b'"'
    async with pair(SHOWN) as two:
        answer = await two.client.post("/", content=body, headers={"content-type": "application/json"})
        assert answer.json()["body"] == hashlib.sha256(body).hexdigest()


async def test_a_packed_body_and_one_in_chunks_arrive_whole() -> None:
    body = json.dumps({"text": "x" * 100_000}).encode()

    async def chunks() -> AsyncGenerator[bytes]:
        for start in range(0, len(body), 7_000):
            yield body[start : start + 7_000]

    async with pair(SHOWN) as two:
        typed = {"content-type": "application/json"}
        packed = await two.client.post("/", content=gzip.compress(body), headers={**typed, "content-encoding": "gzip"})
        in_chunks = await two.client.post("/", content=chunks(), headers=typed)
        for answer in (packed, in_chunks):
            assert answer.json()["body"] == hashlib.sha256(body).hexdigest()


async def test_the_holder_sees_the_clients_own_address() -> None:
    async with pair(SHOWN) as two:
        client = await RawClient.connect(two.entered.port)
        client.send("GET", "/")
        head = await client.read_head()
        got = json.loads(await client.reader.readexactly(int(head["content-length"])))
        assert got["client"] == list(client.writer.get_extra_info("sockname"))
        await client.close()


async def test_the_holder_checks_the_callers_key_itself() -> None:
    rules = AccessRules(keys=[("alice", Secret("alice-0123456789"))])
    addresses: dict[str, str] = {}
    other = AccessRules(keys=[("bob", Secret("bob-0123456789abc"))])
    async with (
        hopping("b", SHOWN, addresses, rules=other),
        hopping("a", sent_to("b"), addresses, rules=rules) as first,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{first.port}", verify=NO_TLS, trust_env=False) as client,
    ):
        answer = await client.get("/", headers={"authorization": "Bearer alice-0123456789"})
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")


async def test_a_request_with_its_own_gateway_is_answered_here() -> None:
    async with hopping("a", SHOWN, {}) as alone, httpx.AsyncClient(verify=NO_TLS, trust_env=False) as client:
        assert not (await client.get(f"http://127.0.0.1:{alone.port}/x")).json()["is_hop"]
        assert alone.outcomes == []


# --- the answer


async def test_an_answer_has_each_header_once() -> None:
    async with pair(SHOWN) as two:
        answer = await two.client.get(
            "/", headers={"origin": ORIGIN, "x-request-id": "mine", "accept-encoding": "gzip"}
        )
        names = [name for name, _ in answer.headers.multi_items() if name != "vary"]
        assert sorted(names) == sorted(set(names))
        assert answer.headers.get_list("vary") == ["Origin"]
        assert answer.headers["access-control-allow-origin"] == ORIGIN
        assert (answer.headers["x-thread-id"], answer.headers["x-request-id"]) == ("t1", "mine")


async def test_a_long_answer_is_packed_for_the_client_that_takes_it() -> None:
    async def long(request: Request) -> Response:
        assert request.headers["accept-encoding"] == "identity"
        return JSONResponse({"text": "x" * 5_000})

    async with pair(routed(Route("/", long))) as two:
        answer = await two.client.get("/", headers={"accept-encoding": "gzip"})
        assert answer.headers["content-encoding"] == "gzip"
        assert answer.json() == {"text": "x" * 5_000}
        assert answer.headers.get_list("vary") == ["Origin", "Accept-Encoding"]


async def test_errors_and_answers_without_a_body_come_as_they_are() -> None:
    async def refuse(request: Request) -> Response:
        raise ConflictError("the thread is busy", code="thread_busy")

    async def nothing(request: Request) -> Response:
        return Response(status_code=204, headers={"set-cookie": "a=1"})

    async with pair(routed(Route("/refuse", refuse), Route("/nothing", nothing), Route("/x", shown))) as two:
        refused = await two.client.get("/refuse")
        assert (refused.status_code, refused.json()["code"]) == (409, "thread_busy")
        empty = await two.client.get("/nothing")
        assert (empty.status_code, empty.content, empty.headers["set-cookie"]) == (204, b"", "a=1")
        head = await two.client.head("/x")
        assert (head.status_code, head.content) == (200, b"")
        assert int(head.headers["content-length"]) > 100
        assert (await two.client.get("/none")).status_code == 404
        await until(lambda: two.entered.outcomes == ["forwarded"] * 4)


async def test_a_stream_comes_piece_by_piece_and_byte_by_byte_the_same() -> None:
    may_go_on = asyncio.Semaphore(0)

    async def stream(request: Request) -> Response:
        async def pieces() -> AsyncGenerator[bytes]:
            for piece in PIECES:
                await may_go_on.acquire()
                yield piece

        return StreamingResponse(pieces(), media_type="text/event-stream")

    async with pair(routed(Route("/", stream, methods=["POST"]))) as two:
        client = await RawClient.connect(two.entered.port)
        client.send("POST", "/", b"{}", "Content-Type: application/json\r\n")
        head = await client.read_head()
        assert head["content-type"] == "text/event-stream; charset=utf-8"
        for piece in PIECES:
            may_go_on.release()
            assert await client.read_chunk() == piece
        assert await client.read_chunk() == b""
        await client.close()
        await until(lambda: two.entered.outcomes == ["forwarded"])


async def test_a_client_of_http_1_0_gets_a_stream_without_chunks() -> None:
    async def stream(request: Request) -> Response:
        async def pieces() -> AsyncGenerator[bytes]:
            for piece in PIECES:
                yield piece

        return StreamingResponse(pieces(), media_type="text/event-stream")

    async with pair(routed(Route("/", stream))) as two:
        client = await RawClient.connect(two.entered.port)
        client.writer.write(b"GET / HTTP/1.0\r\nhost: localhost\r\n\r\n")
        await client.read_head()
        assert await client.read_rest() == b"".join(PIECES)
        await client.close()


async def test_a_request_that_was_sent_on_is_one_trace() -> None:
    here, there, addresses = CollectedSpans(), CollectedSpans(), dict[str, str]()
    async with (
        hopping("b", SHOWN, addresses, tracer=there.tracer),
        hopping("a", sent_to("b"), addresses, tracer=here.tracer) as first,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{first.port}", verify=NO_TLS, trust_env=False) as client,
    ):
        await client.get("/x")
        (received,), (asked,), hop = await there.until("GET"), await here.until("GET"), here.one("hop")
        assert is_below(hop, asked)
        assert is_below(received, hop)
        assert trace_of(received) == trace_of(asked)
        assert told(hop) == {"server.address": addresses["b"].removeprefix("http://")}


# --- those who leave


class Endless:
    """A stream that ends when its client leaves. `begins`: it sends its head and a first piece."""

    def __init__(self, *, begins: bool) -> None:
        self._begins = begins
        self.has_come = asyncio.Event()
        self.has_left = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await Request(scope, receive).body()
        if self._begins:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"first", "more_body": True})
        self.has_come.set()
        while (await receive())["type"] != "http.disconnect":
            pass
        self.has_left.set()


@pytest.mark.parametrize("begins", [True, False], ids=["in its answer", "before its answer"])
async def test_the_holder_hears_that_a_client_has_left(begins: bool) -> None:
    endless = Endless(begins=begins)
    async with pair(endless) as two:
        client = await RawClient.connect(two.entered.port)
        client.send("POST", "/", b"{}", "Content-Type: application/json\r\n")
        async with asyncio.timeout(10):
            await endless.has_come.wait()
            if begins:
                assert await client.read_until(b"first") != b""
            client.writer.transport.abort()
            await endless.has_left.wait()
        await until(lambda: two.entered.outcomes == ["left"])


async def test_a_stream_does_not_keep_the_body_of_its_request() -> None:
    async with pair(Endless(begins=True)) as two:
        client = await RawClient.connect(two.entered.port)
        tracemalloc.start()
        try:
            client.send("POST", "/", b"1" * 4_000_000, "Content-Type: application/json\r\n")
            await client.read_until(b"first")
            await until(lambda: tracemalloc.get_traced_memory()[0] < 1_000_000)
        finally:
            tracemalloc.stop()
        await client.close()


async def test_an_answer_breaks_off_where_the_holder_breaks_off() -> None:
    async def break_off(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})

    async with pair(break_off) as two:
        client = await RawClient.connect(two.entered.port)
        client.send("GET", "/")
        await client.read_head()
        assert await client.read_rest() == b"5\r\nfirst\r\n"  # without the empty chunk of an end
        await client.close()
        await until(lambda: two.entered.outcomes == ["broken"])


async def test_an_answer_breaks_off_once_the_holder_is_taken_for_dead() -> None:
    endless, clock = Endless(begins=True), MovableClock()
    async with pair(endless, clock=clock) as two:
        client = await RawClient.connect(two.entered.port)
        client.send("GET", "/")
        assert await client.read_until(b"first")
        del two.addresses["b"]
        await clock.advance(5)
        assert await client.read_rest() == b"\r\n"
        await client.close()
        await until(lambda: two.entered.outcomes == ["broken"])


# --- who cannot be reached


async def answer_of(application: ASGIApp, addresses: dict[str, str]) -> httpx.Response:
    async with (
        hopping("a", application, addresses) as first,
        httpx.AsyncClient(verify=NO_TLS, trust_env=False) as client,
    ):
        return await client.post(f"http://127.0.0.1:{first.port}/", json={})


def is_unreachable(answer: httpx.Response) -> bool:
    assert (answer.status_code, answer.json()["code"]) == (503, "gateway_unreachable")
    return answer.headers["retry-after"] == "5"


async def test_a_holder_that_is_gone_or_does_not_listen_is_unreachable() -> None:
    assert is_unreachable(await answer_of(sent_to("b"), {}))
    async with listening(_hang_up) as listener:
        port = port_of(listener)
        assert is_unreachable(await answer_of(sent_to("b"), {"b": f"http://127.0.0.1:{port}"}))
    assert is_unreachable(await answer_of(sent_to("b"), {"b": f"http://127.0.0.1:{port}"}))


async def _hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.close()


async def test_a_request_never_hops_twice() -> None:
    addresses: dict[str, str] = {}
    async with hopping("b", sent_to("c"), addresses) as second, hopping("c", SHOWN, addresses):
        answer = await answer_of(sent_to("b"), addresses)
        assert (answer.status_code, answer.json()["code"]) == (503, "gateway_unreachable")
        assert answer.headers["retry-after"] == "1"
        assert second.outcomes == ["refused"]


async def test_two_gateways_that_name_each_other_end_at_once() -> None:
    addresses: dict[str, str] = {}
    async with hopping("b", sent_to("a"), addresses, secret=b"another") as second:
        answer = await answer_of(sent_to("b"), addresses)
        assert (answer.status_code, second.outcomes) == (503, ["refused"])


# --- again from the begin


def changing(times: int, then: ASGIApp) -> tuple[ASGIApp, list[bytes]]:
    """Routes whose thread another gateway has just changed, so many times."""
    bodies: list[bytes] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        assert "left" not in scope["state"]
        assert "path_params" not in scope
        scope["state"]["left"], scope["path_params"] = True, {}
        if len(bodies) >= times:
            del scope["state"]["left"], scope["path_params"]
            await then(scope, receive, send)
            return
        request = Request(scope, receive)
        bodies.append(await request.body() if len(bodies) % 2 else (await request.receive())["body"])
        raise HeldElsewhereError("t1", None)

    return application, bodies


@pytest.mark.parametrize("times", [1, 3])
async def test_a_request_is_done_again_after_another_gateway_changed_its_thread(times: int) -> None:
    application, bodies = changing(times, SHOWN)
    answer = await answer_of(application, {})
    assert (answer.json()["size"], bodies) == (2, [b"{}"] * times)


async def test_a_thread_that_others_change_all_the_time_is_busy() -> None:
    application, bodies = changing(4, SHOWN)
    async with hopping("a", application, {}) as first, httpx.AsyncClient(verify=NO_TLS, trust_env=False) as client:
        answer = await client.post(f"http://127.0.0.1:{first.port}/", json={})
        assert (answer.status_code, answer.json()["code"], len(bodies)) == (409, "thread_busy", 4)
        assert first.outcomes == ["again"] * 3 + ["busy"]


async def test_a_request_that_is_done_again_may_be_sent_on_then() -> None:
    addresses: dict[str, str] = {}
    async with hopping("b", SHOWN, addresses):
        application, _ = changing(2, sent_to("b"))
        assert (await answer_of(application, addresses)).json()["size"] == 2


async def test_what_has_begun_is_not_done_again() -> None:
    tries: list[Callable[[], None]] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        tries.append(lambda: None)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        raise HeldElsewhereError("t1", None)

    async with hopping("a", application, {}) as first:
        client = await RawClient.connect(first.port)
        client.send("GET", "/")
        await client.read_head()
        assert await client.read_rest() == b"5\r\nfirst\r\n"
        await client.close()
        assert len(tries) == 1
