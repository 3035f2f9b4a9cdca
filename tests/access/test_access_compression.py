"""Compressed bodies: those of requests, and answers for those who ask."""

from __future__ import annotations

import asyncio
import gzip
import json
import tracemalloc
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from gateway.access.authentication import AccessMiddleware, AccessRules
from gateway.access.compression import NOT_PACKED, takes_gzip
from gateway.access.limits import KeyLimits
from gateway.agent import Secret
from gateway.protocol.requests import read_body

ALICE = "alice-key-of-the-tests"
BOB = "bob-key-of-the-tests-too"
JSON = {"content-type": "application/json"}
BODY = json.dumps({"said": ["hello there"] * 500}).encode()


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with the body as it was read, or what its path says."""
    request = Request(scope, receive)
    content = await read_body(request)
    headers = {"x-encoding": request.headers.get("content-encoding", "none")}
    answer: Response = Response(content or BODY, 200, headers, "application/json")
    match scope["path"]:
        case "/long":
            answer = Response(b"[" + b"1," * 1_000_000 + b"1]", media_type="application/json")
        case "/short":
            answer = Response(b'{"said":"hi"}', media_type="application/json")
        case "/problem":
            answer = Response(BODY, 400, media_type="application/problem+json")
        case "/html":
            answer = Response(BODY, media_type="text/html")
        case "/stream":
            answer = StreamingResponse(iter([b"data: 1\n\n"] * 500), media_type="text/event-stream")
        case "/pieces":
            answer = StreamingResponse(iter([BODY, BODY]), media_type="application/json")
        case "/secret":
            answer = Response(BODY, headers={"cache-control": f"no-store, {NOT_PACKED}"}, media_type="application/json")
        case "/tagged":
            answer = Response(BODY, headers={"etag": '"1"'}, media_type="application/json")
        case _:
            pass
    await answer(scope, receive, send)


@asynccontextmanager
async def client(**more: Any) -> AsyncIterator[httpx.AsyncClient]:
    rules = AccessRules(
        keys=[("alice", Secret(ALICE)), ("bob", Secret(BOB))],
        key_limits={"bob": KeyLimits(max_body_bytes=2_000)},
        **more,
    )
    transport = httpx.ASGITransport(AccessMiddleware(application, rules))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as opened:
        opened.headers.update({"authorization": f"Bearer {ALICE}", **JSON})
        yield opened


async def post(http: httpx.AsyncClient, content: bytes, encoding: str = "gzip", **headers: str) -> httpx.Response:
    return await http.post("/echo", content=content, headers={"content-encoding": encoding, **headers})


def code(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


# --- requests


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [
        ("gzip", gzip.compress(BODY, mtime=0)),
        ("GZip", gzip.compress(BODY, mtime=0)),
        ("x-gzip", gzip.compress(BODY, mtime=0)),
        ("deflate", zlib.compress(BODY)),
        ("gzip", gzip.compress(BODY[:100], mtime=0) + gzip.compress(b"", mtime=0) + gzip.compress(BODY[100:], mtime=0)),
        ("gzip", gzip.compress(BODY, 0, mtime=0)),
        ("identity", BODY),
        ("", BODY),
    ],
)
async def test_a_body_is_read_as_it_was_before_it_was_packed(encoding: str, packed: bytes) -> None:
    async with client() as http:
        answer = await post(http, packed, encoding)
        assert (answer.status_code, answer.content) == (200, BODY)
        assert answer.headers["x-encoding"] in ("none", encoding), "what is behind sees it as it is"

        async def in_pieces() -> AsyncIterator[bytes]:
            for place in range(0, len(packed), 7):
                yield packed[place : place + 7]

        piecewise = await http.post("/echo", content=in_pieces(), headers={"content-encoding": encoding})
        assert (piecewise.status_code, piecewise.content) == (200, BODY)


@pytest.mark.parametrize(
    "encoding", ["br", "zstd", "gzip, gzip", "deflate, gzip", "identity, gzip", "gzip,", "compress"]
)
async def test_any_other_encoding_is_a_415(encoding: str) -> None:
    async with client() as http:
        answer = await post(http, gzip.compress(gzip.compress(BODY, mtime=0)), encoding)
        assert code(answer) == (415, "unsupported_media_type")
        assert "gzip or deflate, once" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [
        ("gzip", BODY),
        ("gzip", gzip.compress(BODY, mtime=0)[:-9]),
        ("gzip", gzip.compress(BODY, mtime=0)[:5]),
        ("gzip", gzip.compress(BODY, mtime=0)[:-4] + b"\1\2\3\4"),
        ("gzip", gzip.compress(BODY, mtime=0) + b"and more"),
        ("gzip", gzip.compress(b"", mtime=0) * 1_001),
        ("gzip", zlib.compress(BODY)),
        ("deflate", gzip.compress(BODY, mtime=0)),
        ("deflate", zlib.compress(BODY) * 2),
    ],
)
async def test_what_is_not_packed_as_it_says_is_a_400(encoding: str, packed: bytes) -> None:
    async with client() as http:
        answer = await post(http, packed, encoding)
        assert code(answer) == (400, "invalid_encoding")


async def test_the_limit_of_bodies_holds_for_what_is_unpacked_over_all_members() -> None:
    async with client(max_body_bytes=100_000) as http:
        fits = b"x" * 100_000
        assert (await post(http, gzip.compress(fits, mtime=0))).content == fits
        assert code(await post(http, gzip.compress(fits + b"x", mtime=0))) == (413, "body_too_large")
        members = gzip.compress(b"x" * 40_000, mtime=0) * 3
        assert code(await post(http, members)) == (413, "body_too_large")
        assert code(await post(http, zlib.compress(fits + b"x"), "deflate")) == (413, "body_too_large")
        of_bob = {"authorization": f"Bearer {BOB}"}
        assert code(await post(http, gzip.compress(BODY, mtime=0), **of_bob)) == (413, "body_too_large")


async def test_a_bomb_is_unpacked_no_further_than_the_limit() -> None:
    bomb = gzip.compress(b"x" * 200_000_000, 1, mtime=0)
    async with client(max_body_bytes=1_000_000) as http:
        tracemalloc.start()
        answer = await post(http, bomb)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert code(answer) == (413, "body_too_large")
    assert peak < 10_000_000


async def test_others_get_their_turn_while_a_body_is_unpacked() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with client() as http:
        waiting = asyncio.create_task(other())
        answer = await post(http, gzip.compress(b"x" * 9_000_000, 1, mtime=0))
        waiting.cancel()
    assert answer.status_code == 200
    assert turns > 9_000_000 // 262_144


async def test_nothing_is_unpacked_without_a_key() -> None:
    async with client() as http:
        answer = await post(http, b"not packed at all", authorization="Bearer wrong-key-of-the-tests")
        assert answer.status_code == 401


# --- answers


@pytest.mark.parametrize("path", ["/echo", "/long", "/problem"])
async def test_json_is_packed_for_those_who_ask(path: str) -> None:
    async with client() as http:
        plain = await http.get(path, headers={"accept-encoding": "identity"})
        assert "content-encoding" not in plain.headers
        packed = await http.get(path, headers={"accept-encoding": "br, gzip;q=0.5"})
        assert packed.headers["content-encoding"] == "gzip"
        assert packed.content == plain.content
        assert int(packed.headers["content-length"]) < len(plain.content) // 3
        for answer in (plain, packed):
            assert "Accept-Encoding" in answer.headers["vary"]
            assert answer.headers["x-request-id"]
        assert (plain.status_code, plain.headers["content-type"]) == (
            packed.status_code,
            packed.headers["content-type"],
        )


@pytest.mark.parametrize("path", ["/short", "/html", "/stream", "/pieces", "/secret", "/tagged"])
async def test_nothing_else_is_packed(path: str) -> None:
    async with client() as http:
        answer = await http.get(path, headers={"accept-encoding": "gzip"})
        assert answer.status_code == 200
        assert "content-encoding" not in answer.headers
        assert "Accept-Encoding" not in answer.headers.get("vary", "")


async def test_what_is_large_is_packed_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    in_threads: list[int] = []
    to_thread = asyncio.to_thread

    async def noted(call: Any, *arguments: Any) -> Any:
        in_threads.append(len(arguments[0]))
        return await to_thread(call, *arguments)

    monkeypatch.setattr(asyncio, "to_thread", noted)
    async with client() as http:
        await http.get("/echo", headers={"accept-encoding": "gzip"})
        assert in_threads == []
        await http.get("/long", headers={"accept-encoding": "gzip"})
        assert in_threads == [2_000_003]


@pytest.mark.parametrize(
    ("accepted", "takes"),
    [
        ("gzip", True), ("gzip, deflate, br", True), ("br;q=1, GZIP ; q=0.2", True), ("x-gzip", True), ("*", True),
        ("", False), ("identity", False), ("br", False), ("gzip;q=0", False), ("gzip;q=0.000, *", False),
        ("*;q=0", False), ("gzip;q=0.01", True), ("gzip;q=1.0", True),
    ],
)  # fmt: skip
def test_who_takes_gzip(accepted: str, takes: bool) -> None:
    assert takes_gzip(accepted) is takes
