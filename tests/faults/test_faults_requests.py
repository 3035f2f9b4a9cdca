"""Bodies, headers and sockets that no client should send; strangers' ids; many at once."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from gateway.server.connection import MAX_HEAD_BYTES
from tests.ag_ui_verifier import read_stream
from tests.fault_scenes import SERVER, check_ended, replayed, talker
from tests.invariants import check_nothing_leaks
from tests.movable_clock import MovableClock
from tests.observed_runs import check_run, post, read_observed
from tests.running_gateway import (
    DEADLINE_SECONDS,
    LocalGateway,
    agent,
    local_gateway,
    parse_frames,
    run_body,
    scripted,
)
from tests.waiting import until

GREETER = agent("greeter", scripted([{"text": "you said: {{user}}"}]))


def with_body(**changes: Any) -> bytes:
    return json.dumps({**run_body(), **changes}).encode()


# --- 13, 14, 15: bodies that lie


async def test_a_body_that_is_too_large_is_refused_whether_it_says_so_or_not(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [GREETER], server={**SERVER, "max_body_bytes": 5_000}) as gateway:
        large = with_body(forwardedProps="x" * 10_000)

        async def in_pieces() -> Any:
            for start in range(0, len(large), 500):
                yield large[start : start + 500]

        for content in (large, in_pieces()):
            response = await gateway.client.http.post(
                "/agents/greeter/run", content=content, headers={"content-type": "application/json"}
            )
            assert (response.status_code, response.json()["code"]) == (413, "body_too_large")
        assert (await gateway.client.http.get("/runs/run-1")).status_code == 404
        await gateway.client.run("greeter", run_body())


async def test_half_a_body_and_then_nothing_holds_nobody_up(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [GREETER], server=SERVER) as gateway:
        host, port = gateway.client.base_url.removeprefix("http://").split(":")
        stalled = [await asyncio.open_connection(host, int(port)) for _ in range(20)]
        for _, writer in stalled:
            writer.write(b"POST /agents/greeter/run HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n")
            writer.write(b"Content-Length: 100\r\n\r\n{")
            await writer.drain()
        await gateway.client.run("greeter", run_body())
        await check_ended(gateway, "run-1", "completed")
        for _, writer in stalled:
            writer.close()
            await writer.wait_closed()
        assert not gateway.application.runner._runs


async def test_a_compressed_body_is_not_inflated_beyond_the_limit(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [GREETER], server=SERVER) as gateway:
        bomb = gzip.compress(b'"' + b"x" * 50_000_000 + b'"')
        response = await post(gateway, "/agents/greeter/run", bomb, headers={"content-encoding": "gzip"})
    assert (response.status_code, response.json()["code"]) == (413, "body_too_large")
    check_nothing_leaks(response.content)


# --- 16, 17, 18, 19: JSON that is none, or too much


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"null", b"[]", b'"text"', b"\xff\xfe{}", b"\xef\xbb\xbf{}", b"[" * 200_000, b'{"a":' * 100_000,
        b'{"threadId": "t", "runId": "r", "messages": [], "state": NaN}',
        b'{"threadId": "t", "runId": "r", "messages": [], "state": ' + b"9" * 5_000 + b"}",
        b'{"threadId": "t", "runId": "r", "messages": [], "state": "\\ud800"}',
        b'{"threadId": "t", "runId": "r", "messages": [{"id": "1", "role": "user", "content": "\xff"}]}',
        b'{"threadId": "t", "runId": "r", "messages": [{"id": "1", "role": "user", "content": 7}]}',
        b'{"threadId": "t", "runId": "r", "messages": {}}',
        b'{"runId": "r", "messages": []}',
    ],
    ids=lambda body: repr(body[:40]),
)  # fmt: skip
async def test_what_is_no_request_is_a_4xx_and_never_more(tmp_path: Path, body: bytes) -> None:
    async with local_gateway(tmp_path, [GREETER], server=SERVER) as gateway:
        response = await post(gateway, "/agents/greeter/run", body)
        assert response.status_code in (200, 400, 413, 422)
        check_nothing_leaks(response.content)
        if response.status_code != 200:
            assert response.headers["content-type"].startswith("application/json")
            assert response.json()["code"]
        await gateway.client.run("greeter", run_body(run_id="after"))
        await check_ended(gateway, "after", "completed")


@pytest.mark.parametrize("field", ["threadId", "runId"])
async def test_an_id_that_could_break_a_line_is_refused(tmp_path: Path, field: str) -> None:
    values: list[object] = ["", "a\r\nb", "a\nid: 7", "\x00", "\x1b[31m", "\x7f", "x" * 257, 7, None]
    async with local_gateway(tmp_path, [GREETER], server=SERVER) as gateway:
        for value in values:
            response = await post(gateway, "/agents/greeter/run", with_body(**{field: value}))
            assert response.status_code == 422, value
            assert any(error["pointer"] == f"/{field}" for error in response.json()["errors"]), value
            assert b"\r" not in response.content, value


@pytest.mark.parametrize("id", ["/", "../..", "a/b", "%2e%2e", "a b?c#d", "žluť", "\u2028", "'; DROP TABLE runs;--"])
async def test_an_id_of_any_other_kind_finds_its_run_again(tmp_path: Path, id: str) -> None:
    async with local_gateway(tmp_path, [GREETER], server=SERVER) as gateway:
        response = await post(gateway, "/agents/greeter/run", with_body(threadId=id, runId=id))
        seen = read_observed(response, id, id)
        assert seen.last["type"] == "RUN_FINISHED"
        await check_run(gateway, id)
        path = f"/runs/{quote(id, safe='')}"
        assert (await gateway.client.get(path))["runId"] == id
        replay = await gateway.client.http.get(f"{path}/events")
        assert read_stream(replay.content) == list(seen.sent)
        assert (await gateway.client.get(f"/threads/{quote(id, safe='')}/messages"))["messages"]


# --- 10, 12: other ways to ask


async def test_who_accepts_anything_or_speaks_http_1_0_gets_the_stream(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [GREETER], server=SERVER) as gateway:
        for number, accept in enumerate(["*/*", "application/json", "text/html", "application/vnd.ag-ui.event+proto"]):
            body = with_body(runId=f"run-{number}", threadId=f"t-{number}")
            response = await post(gateway, "/agents/greeter/run", body, headers={"accept": accept})
            read_observed(response, f"t-{number}", f"run-{number}")
        host, port = gateway.client.base_url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        old = with_body(runId="old", threadId="t-old")
        writer.write(b"POST /agents/greeter/run HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n")
        writer.write(b"Content-Length: %d\r\n\r\n%b" % (len(old), old))
        answer = await asyncio.wait_for(reader.read(), DEADLINE_SECONDS)  # to the end: the server closes
        writer.close()
        lines, _, body = answer.partition(b"\r\n\r\n")
        assert lines.startswith(b"HTTP/1.1 200")
        assert b"transfer-encoding" not in lines  # which that version does not know
        assert [frame.type for frame in parse_frames(body)][-1] == "RUN_FINISHED"
        head = await asyncio.wait_for(gateway.client.http.head("/runs/old/events"), DEADLINE_SECONDS)
        assert head.content == b""
        await check_ended(gateway, "old", "completed")


async def test_huge_headers_are_refused(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [GREETER], server=SERVER) as gateway:
        await gateway.client.run("greeter", run_body())
        host, port = gateway.client.base_url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        # nothing that would end it, and no byte that nobody would read: that would reset the connection
        head = b"GET /runs/run-1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nLast-Event-ID: "
        writer.write(head.ljust(MAX_HEAD_BYTES + 1, b"9"))
        answer = await asyncio.wait_for(reader.read(), DEADLINE_SECONDS)
        writer.close()
        assert answer.startswith(b"HTTP/1.1 431 ")
        assert b"application/problem+json" in answer
        assert (await gateway.client.http.get("/healthz")).status_code == 200


# --- 73: what belongs to somebody else


async def test_another_owners_ids_are_unknown_ids(tmp_path: Path) -> None:
    keys = [{"name": name, "key": f"{name}-key-0123456789"} for name in ("ann", "bob")]
    ann, bob = ({"authorization": f"Bearer {key['key']}"} for key in keys)
    agents = [talker(on_disconnect="continue"), GREETER]
    async with local_gateway(tmp_path, agents, server={**SERVER, "api_keys": keys}) as gateway:
        http = gateway.client.http
        async with gateway.client.stream("talker", run_body(), **ann) as stream:
            await stream.until("TEXT_MESSAGE_CONTENT", 3)
            for method, path in [
                ("GET", "/runs/{run}"), ("GET", "/runs/{run}/events"), ("GET", "/runs/{run}/events?after=1"),
                ("POST", "/runs/{run}/cancel"), ("GET", "/threads/{thread}/messages"), ("DELETE", "/threads/{thread}"),
                ("PATCH", "/threads/{thread}"),
            ]:  # fmt: skip
                answers = []
                for run, thread in (("run-1", "thread-1"), ("run-0", "thread-0")):
                    body = {"title": "mine"} if method == "PATCH" else None
                    url = path.format(run=run, thread=thread)
                    answer = await http.request(method, url, headers=bob, json=body)
                    answers.append((answer.status_code, answer.text.replace(run, "X").replace(thread, "X")))
                assert answers[0] == answers[1], f"{method} {path} tells one from the other"
                assert answers[0][0] == 404
            assert (await http.get("/threads", headers=bob)).json()["threads"] == []
            # the same ids are free for him, and his cancel does not touch hers
            mine = await http.post("/agents/greeter/run", json=run_body("mine"), headers=bob)
            assert b"you said: mine" in mine.content
            assert (await http.get("/runs/run-1", headers=ann)).json()["status"] == "running"
            connected = await http.post("/agents/greeter/connect", json=run_body(thread_id="t"), headers=bob)
            assert b"MESSAGES_SNAPSHOT" not in connected.content
            await http.post("/runs/run-1/cancel", headers=ann)
            await stream.rest()
        await check_run(gateway, "run-1", owner="ann")
        await check_run(gateway, "run-1", owner="bob")


# --- 84: words of every kind


@pytest.mark.parametrize(
    "word", ["👩‍👩‍👧‍👦", "مرحبا", "a\u2028b\u2029c\u0085", "\u202e", "\x00\x07", "\ufeff", "\\n\\u0000", "]]>"]
)
async def test_words_come_back_as_they_were(tmp_path: Path, word: str) -> None:
    echo = agent("echo", scripted([{"text": "{{user}}", "chunk_characters": 1}]))
    async with local_gateway(tmp_path, [echo], server=SERVER) as gateway:
        frames = await gateway.client.run("echo", run_body(word))
        assert "".join(frame.data.get("delta", "") for frame in frames) == word
        await check_ended(gateway, "run-1", "completed")


async def test_a_delta_of_a_megabyte_arrives_whole(tmp_path: Path) -> None:
    large = agent("large", scripted([{"text": "ab" * 500_000}]))
    async with local_gateway(tmp_path, [large], server=SERVER) as gateway:
        await gateway.client.run("large", run_body())
        said = "".join(each.event.get("delta", "") for each in await replayed(gateway, "run-1"))
        assert said == "ab" * 500_000
        await check_ended(gateway, "run-1", "completed")


# --- 65, 66: many at once (as many as two cores like)


async def test_many_viewers_at_once_all_get_everything(tmp_path: Path) -> None:
    clock = MovableClock()
    pausing = agent("pausing", scripted([{"text": "some words", "chunk_characters": 1}, {"delay_seconds": 5}]))
    async with local_gateway(tmp_path, [pausing], clock=clock, server=SERVER) as gateway:
        async with gateway.client.stream("pausing", run_body()) as first:
            await first.until("TEXT_MESSAGE_CONTENT", 10)
            storm = [asyncio.create_task(_follow(gateway, after)) for after in list(range(1, 13)) * 10]
            await until(lambda: len(gateway.application.streams) > 90)
            await clock.advance(5)
            whole = await first.rest()
            for after, frames in await asyncio.gather(*storm):
                assert frames == whole[-len(frames) :]
                assert min(number for number, _ in ((f.id, f) for f in frames) if number is not None) > after
        await check_ended(gateway, "run-1", "completed")


async def _follow(gateway: LocalGateway, after: int) -> tuple[int, list[Any]]:
    async with gateway.client.events("run-1", after=after) as stream:
        return after, list(await stream.rest())


async def test_many_runs_leave_no_task_and_no_run_behind(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [GREETER, talker()], server=SERVER) as gateway:
        await gateway.client.run("greeter", run_body())
        await until(lambda: not gateway.application.runner._runs)
        runner = gateway.application.runner
        for round in range(5):
            bodies = [run_body(run_id=f"run-{round}-{n}", thread_id=f"t-{n}") for n in range(20)]
            await asyncio.gather(*(gateway.client.run("greeter", body) for body in bodies))
            await until(lambda: not runner._runs)
            assert not runner._lines
            running = [task for task in asyncio.all_tasks() if task.get_name().startswith("run ")]
            assert all(task.done() for task in running)
            await until(lambda: not len(gateway.application.streams))
        await check_ended(gateway, "run-4-19", "completed")
