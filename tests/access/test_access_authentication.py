"""The access middleware: keys, hosts, origins, bodies, and what every answer carries."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from gateway.access.authentication import AccessMiddleware, AccessRules, Paths
from gateway.agent import Secret
from gateway.errors import ConflictError, FieldProblem, InvalidRequestError, StoreFullError, TooManyRequestsError
from tests.asgi_server import RawClient, serving

ALICE, BOB = "alice-0123456789", "bob-0123456789abc"
KEYS = [("alice", Secret(ALICE)), ("bob", Secret(BOB))]
ORIGIN = "https://app.example"


async def echo(request: Request) -> Response:
    body = await request.body()
    return JSONResponse({"owner": request.state.owner, "size": len(body)}, headers={"vary": "Accept"})


async def stream(request: Request) -> Response:
    async def chunks() -> AsyncGenerator[bytes]:
        for number in range(3):
            yield f"data: {number}\n\n".encode()

    return StreamingResponse(chunks(), media_type="text/event-stream")


ERRORS = {
    "conflict": ConflictError("the run's id is taken"),
    "fields": InvalidRequestError("a field is wrong", problems=[FieldProblem("/runId", "is missing")]),
    "busy": TooManyRequestsError("too many runs wait", retry_after_seconds=7),
    "full": StoreFullError("the disk is full"),
    "bug": RuntimeError("a secret detail"),
}


async def fail(request: Request) -> Response:
    raise ERRORS[request.path_params["how"]]


async def break_off(request: Request) -> Response:
    async def chunks() -> AsyncGenerator[bytes]:
        yield b"data: 0\n\n"
        raise RuntimeError("a secret detail")

    return StreamingResponse(chunks())


ROUTES = [
    Route("/echo", echo, methods=["GET", "POST", "PATCH"]),
    Route("/stream", stream, methods=["POST", "GET"]),
    Route("/fail/{how}", fail),
    Route("/break", break_off),
    Route("/healthz", lambda request: Response("ok")),
    Route("/docs/style.css", lambda request: Response("css")),
]


STARLETTE = Starlette(routes=ROUTES)


async def route(scope: Scope, receive: Receive, send: Send) -> None:
    """As the application does it: without Starlette's middleware."""
    scope["app"] = STARLETTE
    await STARLETTE.router(scope, receive, send)


@asynccontextmanager
async def client(
    rules: AccessRules | None = None, *, base_url: str = "http://127.0.0.1:8000"
) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(AccessMiddleware(route, rules or AccessRules(open_paths=["/healthz", "/docs/"])))
    async with httpx.AsyncClient(transport=transport, base_url=base_url) as opened:
        yield opened


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


# --- keys -----------------------------------------------------------------------------------------------------------


async def test_with_keys_the_owner_is_the_keys_name() -> None:
    async with client(AccessRules(keys=KEYS)) as http:
        assert (await http.get("/echo", headers=bearer(ALICE))).json()["owner"] == "alice"
        assert (await http.get("/echo", headers={"authorization": f"bearer  {BOB} "})).json()["owner"] == "bob"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": ALICE},
        {"authorization": "Bearer"},
        {"authorization": "Bearer "},
        bearer("wrong-0123456789"),
        bearer(ALICE[:-1]),
        bearer(ALICE + "x"),
        bearer(ALICE.upper()),
        {"authorization": f"Basic {ALICE}"},
        {"authorization": "Bearer \u00ff\u00fe"},
        {"x-api-key": ALICE},
        {"cookie": f"key={ALICE}"},
    ],
)
async def test_without_a_known_key_nothing_is_served(headers: dict[str, str]) -> None:
    async with client(AccessRules(keys=KEYS)) as http:
        for path in ("/echo", "/stream", "/nothing", "/fail/conflict"):
            answer = await http.get(path, headers=httpx.Headers(headers, encoding="latin-1"))
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"].startswith("Bearer")
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["code"] == "unauthenticated"
            assert "0123456789" not in answer.text


async def test_open_paths_need_no_key_and_nothing_else_is_open() -> None:
    rules = AccessRules(keys=KEYS, open_paths=["/healthz", "/docs/", "/"])
    async with client(rules) as http:
        assert (await http.get("/healthz")).text == "ok"
        assert (await http.get("/docs/style.css")).text == "css"
        assert (await http.get("/healthz/echo")).status_code == 401
        assert (await http.get("/echo")).status_code == 401


def test_a_path_is_open_by_itself_or_below_a_slash() -> None:
    paths = Paths(["/docs", "/assets/", "/"])
    assert "/docs" in paths
    assert "/assets/a/b.js" in paths
    assert "/" in paths
    assert "/assets" not in paths
    assert "/docs/x" not in paths
    assert "/agents" not in paths


async def test_without_keys_everybody_is_local() -> None:
    async with client() as http:
        assert (await http.get("/echo")).json()["owner"] == "local"
        assert (await http.get("/echo", headers=bearer("any"))).json()["owner"] == "local"


# --- hosts and origins ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    ["localhost:8000", "LOCALHOST", "localhost.", "app.localhost:8000", "127.0.0.1", "[::1]:8000", "192.168.1.5"],
)
async def test_loopback_names_and_addresses_are_answered(host: str) -> None:
    async with client() as http:
        assert (await http.get("/echo", headers={"host": host})).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8000",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "127.1",
        "0x7f.1",
        "",
        "localhost:8000@evil.example",
        "localhost/evil",
        "localhost:port",
        "[::1",
    ],
)
async def test_other_names_may_be_rebound_and_are_refused(host: str) -> None:
    async with client() as http:
        answer = await http.get("/echo", headers={"host": host})
        assert answer.status_code == 403
        assert answer.json()["code"] == "host_not_allowed"
        assert (await http.get("/healthz", headers={"host": host})).status_code == 200


async def test_a_configured_name_is_answered_with_or_without_keys() -> None:
    headers = {"host": "agents.example:443", **bearer(ALICE)}
    async with client(AccessRules(allowed_hosts=["Agents.example"])) as http:
        assert (await http.get("/echo", headers=headers)).status_code == 200
    async with client(AccessRules(keys=KEYS)) as http:
        assert (await http.get("/echo", headers=headers)).status_code == 200, "a page has no key to send"
    async with client(AccessRules(keys=KEYS, allowed_hosts=["other.example"])) as http:
        assert (await http.get("/echo", headers=headers)).status_code == 403


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "null",
        "",
        "http://localhost:3000",
        "http://127.0.0.1:8001",
        "http://127.0.0.1",
        "http://127.0.0.1:8000.evil.example",
        "file://",
        "https://app.example.evil.example",
        "https://app.example:444",
        "chrome-extension://abc",
    ],
)
async def test_a_foreign_page_cannot_drive_it(origin: str) -> None:
    async with client(AccessRules(cors_origins=[ORIGIN])) as http:
        for method in ("GET", "POST"):
            answer = await http.request(method, "/echo", headers={"origin": origin})
            assert answer.status_code == 403
            assert answer.json()["code"] == "origin_not_allowed"
            assert "access-control-allow-origin" not in answer.headers


async def test_its_own_page_may() -> None:
    for host, origin in [
        ("127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("localhost:80", "http://localhost"),
        ("agents.example", "https://agents.example"),
        ("agents.example:443", "https://agents.example"),
    ]:
        async with client(AccessRules(allowed_hosts=["agents.example"])) as http:
            answer = await http.post("/echo", json={}, headers={"host": host, "origin": origin})
            assert answer.status_code == 200


async def test_a_page_that_embeds_is_refused_and_one_that_links_is_not() -> None:
    async with client() as http:
        for site in ("cross-site", "same-site"):
            embedded = {"sec-fetch-site": site, "sec-fetch-mode": "no-cors"}
            assert (await http.get("/echo", headers=embedded)).status_code == 403
            linked = {"sec-fetch-site": site, "sec-fetch-mode": "navigate"}
            assert (await http.get("/echo", headers=linked)).status_code == 200
        assert (await http.get("/echo", headers={"sec-fetch-site": "same-origin"})).status_code == 200


# --- CORS -----------------------------------------------------------------------------------------------------------


async def test_cors_headers_are_on_every_kind_of_answer() -> None:
    rules = AccessRules(keys=KEYS, cors_origins=[ORIGIN], max_body_bytes=10)
    async with client(rules) as http:
        headers = {"origin": ORIGIN, **bearer(ALICE)}
        answers = {
            200: await http.get("/echo", headers=headers),
            401: await http.get("/echo", headers={"origin": ORIGIN}),
            404: await http.get("/nothing", headers=headers),
            405: await http.delete("/echo", headers=headers),
            409: await http.get("/fail/conflict", headers=headers),
            413: await http.post("/echo", json="x" * 20, headers=headers),
            415: await http.post("/echo", content=b"x", headers=headers),
            500: await http.get("/fail/bug", headers=headers),
        }
        streamed = await http.get("/stream", headers=headers)
        for status, answer in [*answers.items(), (200, streamed)]:
            assert answer.status_code == status
            assert answer.headers["access-control-allow-origin"] == ORIGIN
            exposed = answer.headers["access-control-expose-headers"].split(", ")
            assert {"x-request-id", "retry-after", "x-thread-id", "x-run-id", "x-should-retry"} <= set(exposed)
            assert "x-agui-gateway-left-out" in exposed
            assert "origin" in answer.headers["vary"].lower()
            assert "access-control-allow-credentials" not in answer.headers
            assert answer.headers["x-request-id"]
            assert answer.headers["x-content-type-options"] == "nosniff"


async def test_an_unknown_origin_gets_no_cors_headers_but_caches_learn_that_it_matters() -> None:
    async with client(AccessRules(keys=KEYS, cors_origins=[ORIGIN])) as http:
        answer = await http.get("/echo", headers={"origin": "https://evil.example", **bearer(ALICE)})
        assert "access-control-allow-origin" not in answer.headers
        assert answer.headers.get_list("vary") == ["Accept", "Origin"]
        assert (await http.get("/echo", headers=bearer(ALICE))).headers.get_list("vary") == ["Accept", "Origin"]


async def test_a_preflight_is_answered_before_any_key() -> None:
    async with client(AccessRules(keys=KEYS, cors_origins=[ORIGIN])) as http:
        asked = {
            "origin": ORIGIN,
            "access-control-request-method": "POST",
            "access-control-request-headers": "authorization,content-type,x-tenant, bad header,\x7f",
            "access-control-request-private-network": "true",
        }
        answer = await http.options("/agents/a/run", headers=asked)
        assert answer.status_code == 204
        assert answer.content == b""
        assert answer.headers["access-control-allow-origin"] == ORIGIN
        assert answer.headers["access-control-allow-methods"] == "GET, POST, PUT, PATCH, DELETE, OPTIONS"
        allowed = answer.headers["access-control-allow-headers"].split(", ")
        assert {"authorization", "content-type", "last-event-id", "x-request-id", "x-tenant"} <= set(allowed)
        assert not [name for name in allowed if "bad" in name or "\x7f" in name]
        assert answer.headers["access-control-max-age"] == "600"
        assert answer.headers["access-control-allow-private-network"] == "true"
        assert "origin" in answer.headers["vary"].lower()


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "https://app.example.evil.example"])
async def test_a_preflight_of_an_unknown_origin_is_refused(origin: str) -> None:
    async with client(AccessRules(keys=KEYS, cors_origins=[ORIGIN])) as http:
        asked = {"origin": origin, "access-control-request-method": "POST"}
        answer = await http.options("/agents/a/run", headers=asked)
        assert answer.status_code == 403
        assert not [name for name in answer.headers if name.startswith("access-control-allow")]


# --- bodies ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json", 200),
        ("Application/JSON; charset=UTF-8", 200),
        ('application/json; charset="utf-8"', 200),
        ("application/merge-patch+json", 200),
        ("application/json; charset=utf-16", 415),
        ("text/plain", 415),
        ("text/plain; application/json", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data; boundary=x", 415),
        ("application/jsonp", 415),
        ("application/json, text/plain", 415),
        ("", 415),
    ],
)
async def test_only_json_bodies_are_taken(content_type: str, status: int) -> None:
    async with client() as http:
        for method in ("POST", "PATCH"):
            answer = await http.request(method, "/echo", content=b"{}", headers={"content-type": content_type})
            assert answer.status_code == status


async def test_a_request_without_a_body_needs_no_type() -> None:
    async with client() as http:
        assert (await http.post("/echo")).status_code == 200


async def test_a_body_of_announced_size_over_the_limit_is_not_read() -> None:
    async with client(AccessRules(max_body_bytes=1000)) as http:
        for size, status in [(1000, 200), (1001, 413)]:
            content = json.dumps("x" * (size - 2)).encode()
            answer = await http.post("/echo", content=content, headers={"content-type": "application/json"})
            assert answer.status_code == status
            assert status == 200 or answer.json()["code"] == "body_too_large"


async def test_a_chunked_body_that_never_ends_is_answered_and_cut() -> None:
    async with serving(AccessMiddleware(route, AccessRules(max_body_bytes=1000))) as port:
        peer = await RawClient.connect(port)
        head = "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        peer.writer.write(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        answered = asyncio.create_task(peer.read_head())
        chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        sent = 0
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(30):
                while not peer.writer.is_closing():
                    peer.writer.write(chunk)
                    await peer.writer.drain()
                    sent += len(chunk)
        answer = await answered
        assert answer["status"] == "413"
        assert answer["connection"] == "close"
        assert sent < 200_000_000, "what is sent after the answer is read for a while, not for ever"
        await peer.close()


async def test_who_sends_a_little_too_much_can_read_why() -> None:
    async def body() -> AsyncGenerator[bytes]:
        for _ in range(100):
            yield b"x" * 100_000

    async with (
        serving(AccessMiddleware(route, AccessRules(max_body_bytes=1_000_000))) as port,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as http,
    ):
        for content in (body(), b"x" * 10_000_000):
            answer = await http.post("/echo", content=content, headers={"content-type": "application/json"})
            assert answer.status_code == 413
            assert answer.json()["code"] == "body_too_large"
            assert answer.headers["connection"] == "close"
        assert (await http.get("/echo")).status_code == 200


# --- what every answer carries --------------------------------------------------------------------------------------


async def test_a_sane_request_id_is_kept_and_others_are_replaced() -> None:
    async with client() as http:
        assert (await http.get("/echo", headers={"x-request-id": "a-B_1.2:3"})).headers["x-request-id"] == "a-B_1.2:3"
        seen = set()
        for received in ("", "a b", "x" * 129, "a\tb", "é", "<script>"):
            answer = await http.get("/echo", headers={b"x-request-id": received.encode("latin-1")})
            seen.add(answer.headers["x-request-id"])
            assert len(answer.headers["x-request-id"]) == 32
        assert len(seen) == 6, "each request has its own"


@pytest.mark.parametrize(
    ("path", "status", "code", "errors"),
    [
        ("/fail/conflict", 409, "conflict", []),
        ("/fail/fields", 422, "invalid_request", [{"pointer": "/runId", "detail": "is missing"}]),
        ("/fail/busy", 429, "too_many_requests", []),
        ("/fail/full", 503, "store_full", []),
        ("/nothing", 404, "not_found", []),
        ("/fail/bug", 500, "internal_error", []),
    ],
)
async def test_errors_are_problem_details(path: str, status: int, code: str, errors: list[dict[str, str]]) -> None:
    async with client() as http:
        for accept, media_type in [
            ("application/json", "application/problem+json"),
            ("text/event-stream", "application/json"),
            ("application/json, text/event-stream;q=0.5", "application/json"),
        ]:
            answer = await http.get(path, headers={"accept": accept})
            problem = answer.json()
            assert answer.headers["content-type"] == media_type
            assert answer.headers["cache-control"] == "no-store"
            assert set(problem) == {"type", "title", "status", "detail", "code", "errors"}
            assert (answer.status_code, problem["status"], problem["code"]) == (status, status, code)
            assert problem["errors"] == errors


async def test_errors_that_pass_say_when_to_try_again() -> None:
    async with client() as http:
        assert (await http.get("/fail/busy")).headers["retry-after"] == "7"
        assert int((await http.get("/fail/full")).headers["retry-after"]) > 0
        assert (await http.delete("/echo")).headers["allow"]


async def test_a_bug_says_nothing_but_its_request_id_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async with client() as http:
        answer = await http.get("/fail/bug", headers={"x-request-id": "find-me"})
    assert "find-me" in answer.json()["detail"]
    assert "secret" not in answer.text
    assert "RuntimeError" not in answer.text
    [record] = [record for record in caplog.records if record.exc_info]
    assert vars(record)["request_id"] == "find-me"


async def test_a_stream_that_breaks_off_is_logged_with_its_request_id(caplog: pytest.LogCaptureFixture) -> None:
    sent: list[Message] = []

    requests = [{"type": "http.request", "body": b""}]

    async def receive() -> Message:
        if not requests:
            await asyncio.Event().wait()  # the client stays; Starlette cancels this
        return requests.pop()

    async def send(message: Message) -> None:
        sent.append(message)

    middleware = AccessMiddleware(route, AccessRules())
    scope = {"type": "http", "method": "GET", "path": "/break", "query_string": b"", "root_path": ""}
    headers = [(b"host", b"localhost"), (b"x-request-id", b"find-me")]
    await middleware({**scope, "headers": headers, "http_version": "1.1"}, receive, send)
    assert not [message for message in sent[1:] if not message.get("more_body")], "the server has to cut it off"
    [record] = [record for record in caplog.records if record.exc_info]
    assert vars(record)["request_id"] == "find-me"


async def test_requests_are_logged_with_what_happened(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "gateway.access.authentication")
    async with client(AccessRules(keys=KEYS, quiet_paths=["/healthz"], open_paths=["/healthz"])) as http:
        await http.get("/healthz")
        await http.get("/echo?key=secret", headers=bearer(ALICE))
    [record] = caplog.records
    fields = vars(record)
    assert (fields["path"], fields["status"], fields["owner"]) == ("/echo", 200, "alice")
    assert "secret" not in str(fields)


async def test_websockets_are_closed_at_the_door() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("nobody comes in")

    await AccessMiddleware(app, AccessRules())({"type": "websocket", "headers": []}, receive, send)
    assert [message["type"] for message in sent] == ["websocket.close"]


async def test_a_streams_chunks_pass_without_a_coroutine_of_the_doors() -> None:
    sent: list[Message] = []
    futures: list[asyncio.Future[None]] = []

    def server_send(message: Message) -> asyncio.Future[None]:
        sent.append(message)
        futures.append(asyncio.get_running_loop().create_future())
        futures[-1].set_result(None)
        return futures[-1]

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        for message in ({"type": "http.response.start", "status": 200}, {"type": "http.response.body", "body": b"x"}):
            assert send(message) is futures[-1], "the server's own awaitable, with nothing around it"

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", b"localhost")]}
    await AccessMiddleware(app, AccessRules())(scope, receive, server_send)
    assert sent[1] == {"type": "http.response.body", "body": b"x"}
