"""The HTTP client's streams, over real sockets on both event loops."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import pytest
import uvloop

from gateway.clock import SystemClock
from gateway.errors import ModelError, ModelErrorKind
from gateway.http_client.clients import (
    HttpCall,
    HttpClients,
    StreamTimeouts,
    environment_proxy,
)
from gateway.http_client.transport_errors import model_error
from tests.local_certificate import tls_contexts, write_certificate
from tests.movable_clock import MovableClock
from tests.openai_chat_server import ChatServer, Script, chat_server

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
DEADLINE_SECONDS = 20


def on_both_loops(scenario: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Runs the coroutine on the standard library's event loop and on uvloop."""

    @pytest.mark.parametrize("loop", LOOPS)
    @wraps(scenario)
    def run(loop: str) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(DEADLINE_SECONDS), chat_server() as server:
                clients = HttpClients(SystemClock())
                try:
                    await scenario(server, clients)
                finally:
                    await clients.close()

        with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
            runner.run(bounded())

    del run.__dict__["__wrapped__"]  # pytest would take the scenario's parameters for fixtures
    wrapped: Callable[..., None] = run
    return wrapped


def call(server: ChatServer, path: str = "/x", content: bytes = b"{}", **headers: str) -> HttpCall:
    return HttpCall("POST", f"http://127.0.0.1:{server.port}{path}", headers, content)


async def body_of(clients: HttpClients, request: HttpCall, **timeouts: float) -> bytes:
    async with clients.stream(request, StreamTimeouts(**timeouts)) as response:
        return await response.read()


@on_both_loops
async def test_a_response_streams_as_it_comes(server: ChatServer, clients: HttpClients) -> None:
    more = asyncio.Event()
    server.answers(Script(201, (b"one", b"two"), hold=more, headers=[("X-Thing", "a")]))
    async with clients.stream(call(server)) as response:
        assert response.status == 201
        assert (response.headers["x-thing"], response.headers.get("X-THING")) == ("a", "a")
        got = b""
        async for data in response.chunks():
            got += data
            if got == b"onetwo":
                more.set()
    assert got == b"onetwo"


@on_both_loops
async def test_the_address_for_the_log_has_nothing_that_may_be_secret(server: ChatServer, clients: HttpClients) -> None:
    server.answers(Script(404))
    request = HttpCall("POST", f"http://user:pass-word@127.0.0.1:{server.port}/v1/x?key=very-secret#part", {})
    async with clients.stream(request) as response:
        assert response.address == f"http://127.0.0.1:{server.port}/v1/x"


@on_both_loops
async def test_the_request_goes_out_exactly_as_it_was_signed(server: ChatServer, clients: HttpClients) -> None:
    server.answers(Script(pieces=(b"x",)))
    path = "/model/us.a-v1%3A0/arn%2Fb%20c/+?q=%3A&r=a+b%2B"
    await body_of(clients, call(server, path, b"body", authorization="AWS4 x", **{"content-type": "application/json"}))
    (request,) = server.requests
    assert (request.method, request.target, request.body) == ("POST", path, b"body")
    assert request.headers == {
        "host": f"127.0.0.1:{server.port}",
        "accept-encoding": "identity",
        "user-agent": "agui-gateway",
        "authorization": "AWS4 x",
        "content-type": "application/json",
        "content-length": "4",
    }


@on_both_loops
async def test_leaving_in_the_middle_closes_the_socket_at_once(server: ChatServer, clients: HttpClients) -> None:
    server.answers(Script(pieces=(b"one",), ending="silence"))
    async with clients.stream(call(server)) as response:
        assert await anext(response.chunks()) == b"one"
    await asyncio.wait_for(server.requests[0].disconnected.wait(), 5)


@on_both_loops
async def test_cancelling_while_nothing_comes_closes_the_socket_at_once(
    server: ChatServer, clients: HttpClients
) -> None:
    server.answers(Script(headers_after=asyncio.Event()), Script(pieces=(b"one",), ending="silence"))
    for count in (1, 2):  # before the headers; in the body
        task = asyncio.create_task(body_of(clients, call(server)))
        request = await server.received(count)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await asyncio.wait_for(request.disconnected.wait(), 5)


@on_both_loops
async def test_a_finished_response_leaves_its_connection_to_the_next(server: ChatServer, clients: HttpClients) -> None:
    server.answers(Script(pieces=(b"one", b"two")))
    server.repeat = True
    for _ in range(3):
        async with clients.stream(call(server)) as response:
            assert (await anext(response.chunks())).startswith(b"one")
            await response.settle()
    assert server.connections == 1


@pytest.mark.thorough
@on_both_loops
async def test_many_streams_are_open_at_once(server: ChatServer, clients: HttpClients) -> None:
    server.answers(Script(pieces=(b"one",), hold=(together := asyncio.Event())))
    server.repeat = True
    count = 400  # aiohttp's own limit is 100 connections
    tasks = [asyncio.create_task(body_of(clients, call(server))) for _ in range(count)]
    await server.received(count)
    together.set()
    assert await asyncio.gather(*tasks) == [b"one"] * count


@on_both_loops
async def test_a_read_is_as_large_as_what_is_there(server: ChatServer, clients: HttpClients) -> None:
    chunks = (b"3e8\r\n" + b"x" * 1000 + b"\r\n") * 60 + b"0\r\n\r\n"
    server.answers(Script(raw=b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunks))
    async with clients.stream(call(server)) as response:
        sizes = [len(data) async for data in response.chunks()]
    assert sum(sizes) == 60_000
    assert len(sizes) <= 3  # httpx-aiohttp's own pieces would be four, a piece per chunk sixty


@on_both_loops
async def test_an_answer_without_a_body_reads_as_nothing(server: ChatServer, clients: HttpClients) -> None:
    server.answers(Script(204, content_type=None, framing="length"), Script(pieces=(), framing="length"))
    for status in (204, 200):
        async with clients.stream(call(server)) as response:
            assert response.status == status
            assert not response.pause() or status == 200
            response.resume()
            assert await response.receive() == b""


@on_both_loops
async def test_what_comes_during_a_pause_is_read_when_it_is_over(server: ChatServer, clients: HttpClients) -> None:
    more = asyncio.Event()
    pieces = [b"%d " % number for number in range(20)]
    server.answers(Script(pieces=(b"first",), hold=more, pieces_after=pieces))
    async with clients.stream(call(server)) as response:
        assert await response.receive() == b"first"
        assert response.pause()
        more.set()
        reading = asyncio.ensure_future(response.read())
        for _ in range(200):
            await asyncio.sleep(0)
        assert not reading.done()
        response.resume()
        assert await reading == b"".join(pieces)


@on_both_loops
async def test_a_stream_that_was_left_during_a_pause_is_not_read_on(server: ChatServer, clients: HttpClients) -> None:
    server.answers(Script(pieces=(b"one",), ending="silence"))
    async with clients.stream(call(server)) as response:
        assert await response.receive() == b"one"
        assert response.pause()
    response.resume()
    await asyncio.wait_for(server.requests[0].disconnected.wait(), 5)


@on_both_loops
async def test_an_answer_that_ends_with_its_connection_is_not_paused(server: ChatServer, clients: HttpClients) -> None:
    """What a pause has left with TLS may be gone with the connection."""
    for said, is_paused in (("Close", False), ("keep-alive", True)):
        server.answers(Script(pieces=(b"one",), headers=[("connection", said)], ending="silence"))
        async with clients.stream(call(server)) as response:
            assert await response.receive() == b"one"
            assert response.pause() is is_paused


@on_both_loops
async def test_a_pause_ends_where_nothing_more_is_asked_for(server: ChatServer, clients: HttpClients) -> None:
    for _ in range(2):
        end = asyncio.Event()
        server.answers(Script(pieces=(b"one",), hold=end))
        async with clients.stream(call(server), StreamTimeouts(settle=5.0)) as response:
            assert await response.receive() == b"one"
            assert response.pause()
            end.set()
            await response.settle()
    assert server.connections == 1


@on_both_loops
async def test_large_bodies_are_sent_whole(server: ChatServer, clients: HttpClients) -> None:
    server.answers(Script(pieces=(b"ok",)))
    content = b"0123456789" * 300_000
    assert await body_of(clients, call(server, content=content)) == b"ok"
    assert server.requests[0].body == content


@on_both_loops
async def test_an_error_body_is_read_up_to_its_limit(server: ChatServer, clients: HttpClients) -> None:
    server.answers(Script(500, (b"x" * 100_000,), ending="silence"))
    async with clients.stream(call(server)) as response:
        assert await response.read(limit=10) == b"x" * 10


@on_both_loops
async def test_cookies_of_one_call_are_not_in_the_next(server: ChatServer, clients: HttpClients) -> None:
    server.answers(Script(headers=[("set-cookie", "who=me; Path=/")]))
    server.repeat = True
    for _ in range(2):
        await body_of(clients, call(server))
    assert all("cookie" not in request.headers for request in server.requests)


@pytest.mark.parametrize("loop", LOOPS)
def test_leaving_a_stream_under_tls_closes_the_socket_at_once_too(loop: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        certificate = write_certificate(tmp_path / "local.pem", "localhost")
        for_server, for_client = tls_contexts(certificate)
        async with asyncio.timeout(DEADLINE_SECONDS), chat_server(for_server) as server:
            server.answers(Script(pieces=(b"one",), ending="silence"))
            clients = HttpClients(SystemClock(), tls=for_client)
            async with clients.stream(HttpCall("POST", f"https://localhost:{server.port}/", {})) as response:
                assert await anext(response.chunks()) == b"one"
            await asyncio.wait_for(server.requests[0].disconnected.wait(), 5)
            await clients.close()

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(scenario())


async def test_a_certificate_that_is_not_trusted_is_no_reason_to_try_again(tmp_path: Path) -> None:
    certificate = write_certificate(tmp_path / "local.pem", "localhost")
    async with chat_server(tls_contexts(certificate)[0]) as server:
        clients = HttpClients(SystemClock(), tls=ssl.create_default_context())
        with pytest.raises(ModelError) as caught:
            await body_of(clients, HttpCall("POST", f"https://localhost:{server.port}/", {}))
        await clients.close()
    assert (caught.value.kind, caught.value.retryable) == (ModelErrorKind.NETWORK, False)


# --- failures ----------------------------------------------------------------------------------------------------

FAULTS: dict[str, tuple[Script, ModelErrorKind]] = {
    "a reset in the body": (Script(pieces=(b"one",), ending="reset"), ModelErrorKind.NETWORK),
    "a close in the body": (Script(pieces=(b"one",), ending="close"), ModelErrorKind.NETWORK),
    "less than declared": (
        Script(pieces=(b"one",), framing="length", declared=10, ending="close"),
        ModelErrorKind.NETWORK,
    ),
    "no answer at all": (Script(raw=b""), ModelErrorKind.NETWORK),
    "no HTTP": (Script(raw=b"SSH-2.0-OpenSSH_9.6\r\n\r\n"), ModelErrorKind.PROTOCOL),
    "broken chunks": (
        Script(raw=b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"),
        ModelErrorKind.PROTOCOL,
    ),
    "compressed": (Script(headers=[("content-encoding", "gzip")]), ModelErrorKind.PROTOCOL),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_faults_of_the_connection_are_errors_of_their_kind(fault: str) -> None:
    script, kind = FAULTS[fault]
    async with chat_server() as server:
        server.answers(script)
        clients = HttpClients(SystemClock())
        with pytest.raises(ModelError) as caught:
            await body_of(clients, call(server))
        await clients.close()
    assert caught.value.kind is kind
    assert "127.0.0.1" not in caught.value.message
    assert "aiohttp" not in caught.value.message


async def test_nobody_listening_is_a_network_error() -> None:
    async with chat_server() as server:
        pass
    clients = HttpClients(SystemClock())
    with pytest.raises(ModelError) as caught:
        await body_of(clients, call(server))
    await clients.close()
    assert (caught.value.kind, caught.value.retryable) == (ModelErrorKind.NETWORK, True)


@pytest.mark.parametrize("url", ["", "ftp://h/", "http://", "http://h:99999/", "http://[::1/", "http://\ud800/"])
async def test_a_url_that_is_none_is_an_error_of_the_request(url: str) -> None:
    clients = HttpClients(SystemClock())
    with pytest.raises(ModelError) as caught:
        await body_of(clients, HttpCall("POST", url, {}))
    await clients.close()
    assert (caught.value.kind, caught.value.retryable) == (ModelErrorKind.INVALID, False)


async def test_a_header_that_would_smuggle_another_is_refused() -> None:
    async with chat_server() as server:
        clients = HttpClients(SystemClock())
        with pytest.raises(ModelError) as caught:
            await body_of(clients, call(server, authorization="Bearer x\r\nevil: 1"))
        await clients.close()
        assert server.requests == []
    assert caught.value.kind is ModelErrorKind.INVALID


TIMEOUTS = StreamTimeouts(connect=1, first_byte=4, idle=3, total=60)


async def expect_timeout(
    scenario: Callable[[ChatServer, HttpClients, MovableClock], Awaitable[asyncio.Task[bytes]]],
) -> None:
    """The scenario gives a task that should have run into a limit; the server must see the client leave."""
    clock = MovableClock()
    async with asyncio.timeout(DEADLINE_SECONDS), chat_server() as server:
        clients = HttpClients(clock)
        task = await scenario(server, clients, clock)
        with pytest.raises(ModelError) as caught:
            await task
        await server.requests[0].disconnected.wait()
        await clients.close()
    assert caught.value.kind is ModelErrorKind.TIMEOUT
    assert clock.pending == []


def reading(
    server: ChatServer, clients: HttpClients, got: list[bytes], timeouts: StreamTimeouts
) -> asyncio.Task[bytes]:
    async def read() -> bytes:
        async with clients.stream(call(server), timeouts) as response:
            async for data in response.chunks():
                got.append(data)  # noqa: PERF401  # the test looks at it meanwhile
        return b"".join(got)

    return asyncio.create_task(read())


async def test_headers_that_do_not_come_in_time_are_a_timeout() -> None:
    async def scenario(server: ChatServer, clients: HttpClients, clock: MovableClock) -> asyncio.Task[bytes]:
        server.answers(Script(headers_after=asyncio.Event()))
        task = reading(server, clients, [], TIMEOUTS)
        await server.received()
        await clock.advance(3.9)
        assert not task.done()
        await clock.advance(0.2)
        return task

    await expect_timeout(scenario)


async def test_silence_between_two_reads_is_a_timeout() -> None:
    async def scenario(server: ChatServer, clients: HttpClients, clock: MovableClock) -> asyncio.Task[bytes]:
        server.answers(Script(pieces=(b"one",), ending="silence"))
        got: list[bytes] = []
        task = reading(server, clients, got, TIMEOUTS)
        await clock.until(lambda: got)
        await clock.until_timer(3)
        await clock.advance(2.9)
        assert not task.done()
        await clock.advance(0.2)
        return task

    await expect_timeout(scenario)


async def test_the_total_time_ends_a_stream_that_never_falls_silent() -> None:
    async def scenario(server: ChatServer, clients: HttpClients, clock: MovableClock) -> asyncio.Task[bytes]:
        server.answers(Script(pieces=(b"one",), ending="silence"))
        got: list[bytes] = []
        task = reading(server, clients, got, StreamTimeouts(connect=1, first_byte=4, idle=1000, total=60))
        await clock.until(lambda: got)
        await clock.until_timer(60)
        await clock.advance(60)
        return task

    await expect_timeout(scenario)


def _subclasses(cls: type[Exception]) -> set[type[Exception]]:
    return {cls}.union(*(_subclasses(sub) for sub in cls.__subclasses__()))


@pytest.mark.parametrize("error_type", sorted(_subclasses(aiohttp.ClientError), key=repr))
def test_every_error_of_the_transport_has_a_meaning(error_type: type[Exception]) -> None:
    # built without the arguments that each of them wants
    error = type("Bare", (error_type,), {"__init__": lambda self: None, "__str__": lambda self: "bare"})()
    mapped = model_error(error)
    assert (mapped.kind is ModelErrorKind.TIMEOUT) == issubclass(error_type, TimeoutError)
    assert mapped.kind is not ModelErrorKind.SERVER
    assert mapped.provider_message == "bare"


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        (aiohttp.ServerDisconnectedError(), ModelErrorKind.NETWORK, True),
        (aiohttp.ClientOSError(104, "reset"), ModelErrorKind.NETWORK, True),
        (aiohttp.ClientPayloadError("x"), ModelErrorKind.NETWORK, True),
        (aiohttp.SocketTimeoutError(), ModelErrorKind.TIMEOUT, True),
        (aiohttp.ConnectionTimeoutError(), ModelErrorKind.TIMEOUT, True),
        (aiohttp.InvalidURL("x"), ModelErrorKind.INVALID, False),
        (ssl.SSLError("x"), ModelErrorKind.NETWORK, True),
        (httpx.ReadError("x"), ModelErrorKind.NETWORK, True),
        (httpx.ConnectTimeout("x"), ModelErrorKind.TIMEOUT, True),
        (TimeoutError(), ModelErrorKind.TIMEOUT, True),
        (ConnectionResetError(), ModelErrorKind.NETWORK, True),
        (ValueError("x"), ModelErrorKind.INVALID, False),
    ],
)
def test_what_an_error_of_the_transport_means(error: Exception, kind: ModelErrorKind, retryable: bool) -> None:
    mapped = model_error(error)
    assert (mapped.kind, mapped.retryable) == (kind, retryable)


# --- proxies -----------------------------------------------------------------------------------------------------


async def test_proxies_of_the_environment_are_used_only_where_the_operator_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with chat_server() as proxy, chat_server() as server:
        for name in ("http_proxy", "HTTP_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        proxy.answers(Script(pieces=(b"by proxy",)))
        server.answers(Script(pieces=(b"direct",)))
        for environment_proxies, expected in ((False, b"direct"), (True, b"by proxy")):
            clients = HttpClients(SystemClock(), environment_proxies=environment_proxies)
            assert await body_of(clients, call(server)) == expected
            await clients.close()
        assert proxy.requests[0].target == f"http://127.0.0.1:{server.port}/x"


def test_no_proxy_keeps_endpoints_from_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "internal.example,localhost")
    assert environment_proxy(httpx.URL("https://api.openai.com/v1")) == "http://proxy:3128"
    assert environment_proxy(httpx.URL("https://llm.internal.example/v1")) is None
