"""The driver of the real AG-UI clients, against a server that speaks just enough HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from gateway.messages import JsonObject
from tests.agui_client import CLIENT_VERSIONS, ClientProcessError, ClientVersion, agui_clients
from tests.local_listener import listening, port_of

DEADLINE_SECONDS = 20

RUN_STARTED: JsonObject = {"type": "RUN_STARTED", "threadId": "thread-1", "runId": "run-1"}
RUN_FINISHED: JsonObject = {"type": "RUN_FINISHED", "threadId": "thread-1", "runId": "run-1"}
TEXT: list[JsonObject] = [
    {"type": "TEXT_MESSAGE_START", "messageId": "m2", "role": "assistant"},
    {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m2", "delta": "Grüße, "},
    {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m2", "delta": "Welt\u2028👋"},
    {"type": "TEXT_MESSAGE_END", "messageId": "m2"},
]

each_version = pytest.mark.parametrize("version", CLIENT_VERSIONS)


@dataclass
class Server:
    """Answers every POST with the same status and body.

    With `hold`, the body does not end until the client leaves; with `promised_bytes` beyond the body's own, it breaks.
    """

    status: str = "200 OK"
    content_type: str = "text/event-stream"
    body: bytes = b""
    hold: bool = False
    promised_bytes: int | None = None
    url: str = ""
    requests: list[JsonObject] = field(default_factory=list)
    client_left: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        self.requests.append(json.loads(await reader.readexactly(length)))
        writer.write(f"HTTP/1.1 {self.status}\r\nContent-Type: {self.content_type}\r\n".encode())
        if self.promised_bytes is not None:
            writer.write(f"Content-Length: {self.promised_bytes}\r\n".encode())
        writer.write(b"Connection: close\r\n\r\n" + self.body)
        await writer.drain()
        if self.hold:
            await reader.read()
            self.client_left.set()
        writer.close()


@asynccontextmanager
async def serving(server: Server) -> AsyncGenerator[Server, None]:
    async with listening(server.answer) as listener:
        server.url = f"http://127.0.0.1:{port_of(listener)}/"
        yield server


def stream(*events: JsonObject) -> bytes:
    return "".join(f"data: {json.dumps(event, ensure_ascii=False)}\n\n" for event in events).encode()


@each_version
async def test_a_run_of_text_becomes_events_and_a_message(version: ClientVersion) -> None:
    async with (
        serving(Server(body=stream(RUN_STARTED, *TEXT, RUN_FINISHED))) as server,
        agui_clients(version) as clients,
    ):
        agent = await clients.create(server.url, thread_id="thread-1", headers={"x-test": "1"}, initial_state={"n": 1})
        await agent.add_message({"id": "m1", "role": "user", "content": "Hi\u2028there"})
        report = await agent.run(run_id="run-1", forwarded_props={"a": 1})

    assert report.rejection is None
    assert report.run_error is None
    assert report.event_types == ["RUN_STARTED", *(str(event["type"]) for event in TEXT), "RUN_FINISHED"]
    assert report.new_messages == [{"id": "m2", "role": "assistant", "content": "Grüße, Welt\u2028👋"}]
    assert [message["id"] for message in report.messages] == ["m1", "m2"]
    assert report.state == {"n": 1}
    assert report.pending_tool_call_ids == ([] if version == "1.0.0" else None)
    assert report.pending_interrupts == (None if version == "0.0.47" else [])
    assert clients.console == []
    assert clients.unhandled == []
    [request] = server.requests
    assert (request["threadId"], request["runId"], request["forwardedProps"]) == ("thread-1", "run-1", {"a": 1})
    assert request["messages"] == [{"id": "m1", "role": "user", "content": "Hi\u2028there"}]


@each_version
async def test_an_abort_in_mid_stream_leaves_the_server_and_settles_the_run(version: ClientVersion) -> None:
    async with (
        serving(Server(body=stream(RUN_STARTED, *TEXT[:2]), hold=True)) as server,
        agui_clients(version) as clients,
    ):
        agent = await clients.create(server.url)
        run = agent.start_run()
        events = await agent.wait_for("TEXT_MESSAGE_CONTENT")
        assert [event["type"] for event in events] == ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT"]
        assert not run.done()

        await agent.abort()
        report = await run
        async with asyncio.timeout(DEADLINE_SECONDS):
            await server.client_left.wait()

    assert report.rejection is None
    assert report.run_error is not None
    assert report.run_error["code"] == "abort"
    assert clients.unhandled == []
    assert [message["content"] for message in report.messages] == ["Grüße, "]


@each_version
async def test_an_http_error_rejects_with_its_status_and_body(version: ClientVersion) -> None:
    body = b'{"error":{"code":"invalid_request","message":"no such tool"}}'
    async with (
        serving(Server("422 Unprocessable Entity", "application/json", body)) as server,
        agui_clients(version) as clients,
    ):
        agent = await clients.create(server.url)
        report = await agent.run()

    assert report.events == []
    assert report.rejection is not None
    assert report.rejection.status == 422
    assert report.rejection.payload == json.loads(body)
    assert report.rejection.message == f"HTTP 422: {body.decode()}"


@each_version
async def test_a_broken_stream_rejects_and_the_process_lives_on(version: ClientVersion) -> None:
    async with (
        serving(Server(body=stream(RUN_STARTED, *TEXT[:2]), promised_bytes=100_000)) as server,
        agui_clients(version) as clients,
    ):
        agent = await clients.create(server.url)
        report = await agent.run()
        again = await agent.run()

    assert report.rejection is not None
    assert report.rejection.message == "terminated"
    assert report.rejection.status is None
    assert again.rejection == report.rejection
    assert set(clients.unhandled) == {"terminated"}


async def test_waiting_for_events_that_a_run_never_shows_ends_with_the_run() -> None:
    async with serving(Server(body=stream(RUN_STARTED, RUN_FINISHED))) as server, agui_clients("1.0.0") as clients:
        agent = await clients.create(server.url)
        run = agent.start_run()
        with pytest.raises(ClientProcessError, match="over after 0 of 1 TOOL_CALL_START"):
            await agent.wait_for("TOOL_CALL_START")
        assert (await run).event_types == ["RUN_STARTED", "RUN_FINISHED"]


async def test_no_process_outlives_the_block_even_with_a_run_under_way() -> None:
    async with serving(Server(body=stream(RUN_STARTED), hold=True)) as server:
        async with agui_clients("1.0.0") as clients:
            agent = await clients.create(server.url)
            run = agent.start_run()
            await agent.wait_for("RUN_STARTED")
        assert run.cancelled()
        async with asyncio.timeout(DEADLINE_SECONDS):
            await server.client_left.wait()


async def test_what_the_client_complains_about_is_kept() -> None:
    odd: JsonObject = {**RUN_FINISHED, "surprise": True}
    async with serving(Server(body=stream(RUN_STARTED, odd))) as server, agui_clients("1.0.0") as clients:
        report = await (await clients.create(server.url)).run()
        assert report.rejection is None
    assert any("surprise" in line for line in clients.console)
