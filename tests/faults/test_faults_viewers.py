"""Viewers that leave, come back, are slow, are several: the run is the server's, not the socket's."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
from pathlib import Path
from typing import Any

import pytest

from gateway.page import read_page
from gateway.server.connection import Connection
from tests.ag_ui_verifier import read_stream
from tests.fault_scenes import SERVER, WORDS, check_ended, pausing, replayed, talker, upstream_agent
from tests.movable_clock import MovableClock
from tests.openai_chat_server import Script, chat_server, text_records
from tests.running_gateway import (
    DEADLINE_SECONDS,
    LocalGateway,
    agent,
    local_gateway,
    run_body,
    scripted,
)
from tests.waiting import until


async def viewers(gateway: LocalGateway, count: int) -> None:
    """Until that many streams are open."""
    await until(lambda: len(gateway.application.streams) == count)


async def begin_and_leave(gateway: LocalGateway, agent_id: str, run_id: str = "run-1") -> list[int]:
    """Post, see the first words, close the socket; the numbers seen."""
    async with gateway.client.stream(agent_id, run_body(run_id=run_id)) as stream:
        frames = await stream.until("TEXT_MESSAGE_CONTENT", 3)
    await viewers(gateway, 0)
    return [frame.id for frame in frames if frame.id is not None]


# --- 1, 2: the client closes in mid-stream


async def test_a_run_that_continues_ends_without_viewers_and_is_all_there_later(tmp_path: Path) -> None:
    clock = MovableClock()
    async with local_gateway(tmp_path, [pausing(on_disconnect="continue")], clock=clock, server=SERVER) as gateway:
        await begin_and_leave(gateway, "pausing")
        await clock.advance(4)
        assert (await gateway.client.get("/runs/run-1"))["status"] == "running"
        await clock.advance(1)
        await check_ended(gateway, "run-1", "completed")
        text = "".join(each.event.get("delta", "") for each in await replayed(gateway, "run-1"))
    assert text == WORDS + "and four"


async def test_a_run_without_viewers_is_cancelled_after_the_grace_and_not_before(tmp_path: Path) -> None:
    clock = MovableClock()
    async with (
        chat_server() as upstream,
        local_gateway(tmp_path, [upstream_agent(upstream)], clock=clock, server=SERVER) as gateway,
    ):
        upstream.answers(Script(pieces=text_records("a", "b", "c", finish_reason=None), ending="silence"))
        await begin_and_leave(gateway, "upstream")
        await clock.advance(29.9)
        assert (await gateway.client.get("/runs/run-1"))["status"] == "running"
        await clock.advance(0.2)
        log = await check_ended(gateway, "run-1", "cancelled")
        async with asyncio.timeout(DEADLINE_SECONDS):
            await upstream.requests[0].disconnected.wait()
        assert log[-1].event.outcome.reason == "abandoned"  # type: ignore[union-attr]


async def test_what_an_abandoned_run_used_is_told(tmp_path: Path) -> None:
    clock = MovableClock()
    used = agent(
        "used",
        scripted(
            [{"usage": {"input_tokens": 7, "output_tokens": 2, "cached_input_tokens": 3}}, {"tool": "ListIndexTool"}],
            [{"text": WORDS, "chunk_characters": 4}, {"hang": True}],
        ),
        tools=[{"type": "ListIndexTool"}],
    )
    async with local_gateway(tmp_path, [used], clock=clock, server=SERVER) as gateway:
        await begin_and_leave(gateway, "used")
        await clock.advance(31)
        await check_ended(gateway, "run-1", "cancelled")
        run = await gateway.client.get("/runs/run-1")
        terminal = (await replayed(gateway, "run-1"))[-1].event
    assert (run["usage"][0]["inputTokens"], run["usage"][0]["cachedInputTokens"]) == (7, 3)
    assert terminal["usage"][0]["inputTokens"] == 7


async def test_who_comes_back_within_the_grace_keeps_the_run_and_misses_nothing(tmp_path: Path) -> None:
    clock = MovableClock()
    async with local_gateway(tmp_path, [pausing(seconds=60)], clock=clock, server=SERVER) as gateway:
        seen = await begin_and_leave(gateway, "pausing")
        await clock.advance(29)
        async with gateway.client.events("run-1", after=seen[-1]) as stream:
            await clock.advance(40)
            rest = [frame.id for frame in await stream.rest() if frame.id is not None]
        await check_ended(gateway, "run-1", "completed")
        whole = [each.id for each in await replayed(gateway, "run-1") if each.id is not None]
    assert seen + rest == whole


# --- 3, 4, 5: cursors


async def test_every_cursor_of_a_finished_run_gives_exactly_the_rest(tmp_path: Path) -> None:
    greeter = agent("greeter", scripted([{"reasoning": "hm"}, {"text": WORDS, "chunk_characters": 1}]))
    async with local_gateway(tmp_path, [greeter], server=SERVER) as gateway:
        live = await gateway.client.run("greeter", run_body())
        numbered = [(each.id, each.event) for each in await replayed(gateway, "run-1")]
        assert [(frame.id, frame.data) for frame in live] == numbered
        last = numbered[-1][0]
        assert last is not None
        for after in range(last):
            rest = [(each.id, each.event) for each in await replayed(gateway, "run-1", after=after)]
            start = len(numbered) - len(rest)
            assert rest == numbered[start:]
            # what is left out is exactly what belongs to events up to the cursor
            assert start == 0 or max((id for id, _ in numbered[:start] if id is not None), default=0) <= after
            assert min(id for id, _ in rest if id is not None) > after
        response = await gateway.client.http.get(f"/runs/run-1/events?after={last}")
        assert (response.status_code, response.content) == (204, b"")


@pytest.mark.parametrize("cursor", ["garbage", "-1", "1.5", "٣", "1e3", " 1", "9" * 5_000, "0x1", "999999"])
async def test_a_cursor_that_is_none_is_a_400(tmp_path: Path, cursor: str) -> None:
    async with local_gateway(tmp_path, [agent("greeter", scripted([{"text": "hi"}]))], server=SERVER) as gateway:
        await gateway.client.run("greeter", run_body())
        response = await gateway.client.http.get("/runs/run-1/events", params={"after": cursor})
    assert response.status_code == 400
    assert response.json()["code"] == "invalid_cursor"
    assert len(response.content) < 1_000


async def test_last_event_id_is_a_cursor_too(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [agent("greeter", scripted([{"text": "hi"}]))], server=SERVER) as gateway:
        frames = await gateway.client.run("greeter", run_body())
        first = next(frame.id for frame in frames if frame.id is not None)
        response = await gateway.client.http.get("/runs/run-1/events", headers={"last-event-id": str(first)})
        wrong = await gateway.client.http.get("/runs/run-1/events", headers={"last-event-id": "run-2:1"})
    assert read_stream(response.content)[0].event["type"] == "TEXT_MESSAGE_START"
    assert wrong.status_code == 400


async def test_a_log_that_is_gone_is_never_a_silent_gap(tmp_path: Path) -> None:
    clock = MovableClock()
    async with local_gateway(
        tmp_path, [agent("greeter", scripted([{"text": "hi"}]))], clock=clock, server={**SERVER, "retention_days": 1}
    ) as gateway:
        await gateway.client.run("greeter", run_body())
        await clock.advance(86_400)
        async with asyncio.timeout(DEADLINE_SECONDS):
            while await gateway.application.store.last_sequence("local", "run-1"):
                await clock.advance(3_600)  # the round after the log's day is over
        answer = await gateway.client.http.get("/runs/run-1/events?after=2")
        whole = await gateway.client.http.get("/runs/run-1/events")
        run = await gateway.client.get("/runs/run-1")
        messages = await gateway.client.get("/threads/thread-1/messages")
        async with gateway.client.stream("greeter", run_body(run_id="again", messages=[]), to="connect") as stream:
            connected = [frame.type for frame in await stream.rest()]
        twice = await gateway.client.http.post("/agents/greeter/run", json=run_body())
    assert answer.status_code == 400  # the log has no event 2 any more
    assert whole.status_code == 204
    assert run["status"] == "completed"
    assert [message["role"] for message in messages["messages"]] == ["user", "assistant"]
    assert connected == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    assert twice.status_code != 500


# --- 6, 7, 8: several viewers, slow ones


async def test_two_viewers_see_the_same_and_one_that_reads_nothing_delays_nobody(tmp_path: Path) -> None:
    clock = MovableClock()
    async with local_gateway(tmp_path, [pausing()], clock=clock, server=SERVER) as gateway:
        async with (
            gateway.client.stream("pausing", run_body()) as first,
            gateway.client.events("run-1") as second,
            gateway.client.events("run-1") as idle,
        ):
            await first.until("TEXT_MESSAGE_CONTENT", 3)
            await viewers(gateway, 3)
            await clock.advance(5)
            assert await first.rest() == await second.rest()
            assert await idle.rest() == first.frames
        await check_ended(gateway, "run-1", "completed")


class SlowReader:
    """A client that asks for a run, and takes nothing from its socket until it is told to."""

    def __init__(self, gateway: LocalGateway) -> None:
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.setblocking(False)
        self._address = gateway.client.base_url.removeprefix("http://").split(":")

    async def ask(self, path: str) -> None:
        loop = asyncio.get_running_loop()
        await loop.sock_connect(self.socket, (self._address[0], int(self._address[1])))
        await loop.sock_sendall(self.socket, f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())

    async def read_all(self) -> bytes:
        """All there is, until the server closes or has told the end."""
        loop, body = asyncio.get_running_loop(), b""
        async with asyncio.timeout(DEADLINE_SECONDS):
            try:
                while (data := await loop.sock_recv(self.socket, 1 << 16)) and not body.endswith(b"\r\n0\r\n\r\n"):
                    body += data
            except ConnectionResetError:
                pass
        return body


BIG = {"text": "x" * 10_000, "repeat": 800, "chunk_characters": 10_000}  # eight megabytes: more than sockets hold
ROOM = {"max_answer_bytes": 10_000_000}


class Impatient(Connection):
    """Lets who takes nothing of an answer go after a moment."""

    stuck_seconds = 1.0


async def test_a_slow_viewer_is_dropped_and_the_run_and_the_others_go_on(tmp_path: Path) -> None:
    clock = MovableClock()
    big = agent("big", scripted([{"delay_seconds": 1}, BIG, {"delay_seconds": 400}, {"text": "end"}]), parameters=ROOM)
    server = {**SERVER, "max_viewer_events": 100}
    async with local_gateway(tmp_path, [big], clock=clock, connection=Impatient, server=server) as gateway:
        slow = SlowReader(gateway)
        with slow.socket:
            async with gateway.client.stream("big", run_body()) as fast:
                await fast.until("RUN_STARTED")
                await slow.ask("/runs/run-1/events")
                await viewers(gateway, 2)
                reading = asyncio.create_task(fast.rest())
                await clock.advance(1)
                await clock.until(lambda: len(fast.body) > 8_000_000)
                await viewers(gateway, 1)
                await clock.advance(400)
                await reading
                whole = read_stream(bytes(fast.body))
            body = await slow.read_all()
        await check_ended(gateway, "run-1", "completed")
        assert whole[-1].event["type"] == "RUN_FINISHED"
        assert b"RUN_FINISHED" not in body
        assert not body.endswith(b"0\r\n\r\n"), "a stream that was cut must not look as if it had ended well"
        last = int(re.findall(rb"\nid: (\d+)\n", body)[-1])
        resumed = await replayed(gateway, "run-1", after=last)
    assert resumed == whole[-len(resumed) :]
    assert [each.id for each in whole[: -len(resumed)] if each.id is not None][-1] == last


MESSAGE = {"id": "user-1", "role": "user", "content": "x" * 8_000_000}
# Bodies that are more than sockets hold: a list, a replay, a file of the page, a stream that goes on.
LARGE = ["/threads/thread-1/messages", "/runs/run-1/events", "/", "/runs/run-2/events"]


@pytest.mark.thorough
async def test_who_takes_nothing_of_any_answer_holds_no_connection(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_bytes(b"x" * 8_000_000)
    going = agent("going", scripted([BIG, {"hang": True}]), parameters=ROOM)
    agents = [agent("big", scripted([BIG]), parameters=ROOM), going]
    page = read_page(tmp_path)
    async with (
        local_gateway(
            tmp_path, agents, server={**SERVER, "max_unread_bytes": 1_000_000_000}, page=page, connection=Impatient
        ) as gateway,
        contextlib.AsyncExitStack() as stack,
    ):
        await gateway.client.run("big", run_body(messages=[MESSAGE]))
        body = run_body(thread_id="thread-2", run_id="run-2")
        stream = await stack.enter_async_context(gateway.client.stream("going", body))
        await stream.until("TEXT_MESSAGE_CONTENT", 800)
        connections = gateway.server.server_state.connections
        before, files = set(connections), open_files()
        readers = [SlowReader(gateway) for _ in range(5 * len(LARGE))]
        for reader, path in zip(readers, LARGE * 5, strict=True):
            stack.enter_context(reader.socket)
            await reader.ask(path)
        behind: set[asyncio.Protocol] = set()

        def all_are_behind() -> bool:
            behind.update(each for each in connections - before if each.flow.write_paused)  # type: ignore[union-attr]
            return len(behind) == len(readers)

        await until(all_are_behind)
        await until(lambda: not connections - before)
        # the stream hears of it a moment later, and the event loop closes a socket behind its connection's end
        await until(lambda: len(gateway.application.streams) == 1)
        await until(lambda: open_files() == files + len(readers))  # theirs alone
        await gateway.client.http.post("/runs/run-2/cancel")


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


# --- 9, 11: what proxies need


async def test_silence_is_filled_with_comments_before_the_first_token_too(tmp_path: Path) -> None:
    clock = MovableClock()
    late = agent("late", scripted([{"delay_seconds": 100}, {"text": "here"}]))
    async with local_gateway(tmp_path, [late], clock=clock, server=SERVER) as gateway:
        async with gateway.client.stream("late", run_body()) as stream:
            await stream.until("RUN_STARTED")
            assert stream.response.headers["cache-control"] == "no-store, no-transform"
            assert stream.response.headers["x-accel-buffering"] == "no"
            assert "content-encoding" not in stream.response.headers
            comments = bytes(stream.body).count(b": keep-alive\n\n")
            assert comments == 1
            for round in range(1, 5):
                await clock.advance(15)
                async with asyncio.timeout(DEADLINE_SECONDS):
                    while bytes(stream.body).count(b": keep-alive\n\n") <= round:
                        assert await stream.read()
            await clock.advance(40)
            await stream.rest()
        await check_ended(gateway, "run-1", "completed")


async def test_the_run_has_started_for_the_client_before_the_provider_is_reached(tmp_path: Path) -> None:
    asked = asyncio.Event()
    async with chat_server() as upstream, local_gateway(tmp_path, [upstream_agent(upstream)], server=SERVER) as gateway:
        upstream.answers(Script(headers_after=asked, pieces=text_records("hi")))
        async with gateway.client.stream("upstream", run_body()) as stream:
            await stream.until("RUN_STARTED")  # the provider has not even sent its headers
            asked.set()
            await stream.rest()
        await check_ended(gateway, "run-1", "completed")


# --- Stop is closing the socket


async def test_after_a_stop_a_new_run_of_the_thread_is_served_at_once(tmp_path: Path) -> None:
    clock = MovableClock()
    async with local_gateway(tmp_path, [talker()], clock=clock, server=SERVER) as gateway:
        async with gateway.client.stream("talker", run_body()) as stream:
            await stream.until("TEXT_MESSAGE_CONTENT", 3)
        async with gateway.client.stream("talker", run_body(run_id="run-2")) as second:
            assert second.response.status_code == 200
            await second.until("TEXT_MESSAGE_CONTENT", 3)
            await check_ended(gateway, "run-1", "cancelled")
            await gateway.client.http.post("/runs/run-2/cancel")
            await second.rest()
        log = await check_ended(gateway, "run-2", "cancelled")
    assert log


async def test_a_run_that_continues_keeps_its_thread_after_its_viewer_left(tmp_path: Path) -> None:
    clock = MovableClock()
    async with local_gateway(tmp_path, [talker(on_disconnect="continue")], clock=clock, server=SERVER) as gateway:
        await begin_and_leave(gateway, "talker")
        refused = await gateway.client.http.post("/agents/talker/run", json=run_body(run_id="run-2"))
        assert refused.status_code == 409
        assert refused.json()["code"] == "thread_busy"
        await clock.advance(500)
        assert (await gateway.client.get("/runs/run-1"))["status"] == "running"
        await gateway.client.http.post("/runs/run-1/cancel")
        await check_ended(gateway, "run-1", "cancelled")


async def test_a_watched_run_is_not_stopped_by_a_second_one(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [talker()], server=SERVER) as gateway:
        async with gateway.client.stream("talker", run_body()) as stream:
            await stream.until("TEXT_MESSAGE_CONTENT", 3)
            refused = await gateway.client.http.post("/agents/talker/run", json=run_body(run_id="run-2"))
            assert refused.status_code == 409
            assert (await gateway.client.http.get("/runs/run-2")).status_code == 404
            await gateway.client.http.post("/runs/run-1/cancel")
            await stream.rest()
        await check_ended(gateway, "run-1", "cancelled")


# --- 79: the connection breaks instead of closing


async def test_a_reset_connection_is_a_viewer_that_left(tmp_path: Path) -> None:
    clock = MovableClock()
    async with local_gateway(tmp_path, [talker()], clock=clock, server=SERVER) as gateway:
        reader = SlowReader(gateway)
        async with gateway.client.stream("talker", run_body()) as stream:
            await stream.until("TEXT_MESSAGE_CONTENT", 3)
            await reader.ask("/runs/run-1/events")
            await viewers(gateway, 2)
        await viewers(gateway, 1)
        reader.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        reader.socket.close()  # a RST
        await viewers(gateway, 0)
        await clock.advance(31)
        await check_ended(gateway, "run-1", "cancelled")


# --- attach from every position of a live run


@pytest.mark.parametrize("how", ["connect", "again", "events"])
async def test_a_viewer_that_joins_in_the_middle_has_it_all_in_the_end(tmp_path: Path, how: str) -> None:
    clock = MovableClock()
    halting = agent("halting", scripted([{"text": WORDS, "chunk_characters": 4, "delta_seconds": 1}]))
    async with local_gateway(tmp_path, [halting], clock=clock, server=SERVER) as gateway:
        async with gateway.client.stream("halting", run_body()) as first:
            await clock.advance(2)
            await first.until("TEXT_MESSAGE_CONTENT", 2)
            async with join(gateway, how) as second:
                await second.until("TEXT_MESSAGE_CONTENT")
                await viewers(gateway, 2)
                await clock.advance(5)
                await first.rest()
                frames = await second.rest()
        assert "".join(frame.data.get("delta", "") for frame in frames) == WORDS
        assert frames[-1].type == "RUN_FINISHED"
        await check_ended(gateway, "run-1", "completed")


def join(gateway: LocalGateway, how: str) -> Any:
    match how:
        case "connect":
            return gateway.client.stream("halting", run_body(run_id="other", messages=[]), to="connect")
        case "again":
            return gateway.client.stream("halting", run_body())
        case _:
            return gateway.client.events("run-1")
