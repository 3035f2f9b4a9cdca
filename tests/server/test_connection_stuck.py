"""Connections whose clients do not read: who takes nothing is let go, who reads slowly is not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast

import pytest
from starlette.types import Receive, Scope, Send

from gateway.server.connection import Connection
from tests.asgi_server import DEADLINE_SECONDS, RawClient, serving
from tests.connection_scene import HEAD
from tests.waiting import until

LARGE = 16_000_000  # more than the sockets between a server and its client hold


class Answer:
    """An application whose answer is more than a client takes that does not read."""

    def __init__(self, *, more_body: bool = False, fails: bool = False, closes: bool = False) -> None:
        self.more_body = more_body
        self.fails = fails
        self.headers = [(b"connection", b"close")] if closes else []
        self.left = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({**HEAD, "headers": self.headers})
        await send({"type": "http.response.body", "body": b"x" * LARGE, "more_body": self.more_body or self.fails})
        if self.fails:
            raise RuntimeError("the log is gone")
        while self.more_body and (await receive())["type"] != "http.disconnect":
            pass
        self.left.set()


@asynccontextmanager
async def asked(
    answer: Answer, *, seconds: float = 30, last_seconds: float = 30
) -> AsyncGenerator[tuple[RawClient, Connection]]:
    """A client that has asked and reads nothing, and its connection at the server, which has begun to answer.

    `seconds`: how long the answer may be stuck, `last_seconds`: once the server ends.
    """
    connections: list[Connection] = []
    when_it_ends = last_seconds

    class Watched(Connection):
        stuck_seconds = seconds
        last_seconds = when_it_ends

        def on_headers_complete(self) -> None:
            connections.append(self)
            super().on_headers_complete()

    async with serving(answer, Watched) as port:
        client = await RawClient.connect(port)
        transport = cast(asyncio.Transport, client.writer.transport)
        transport.pause_reading()
        client.send("GET", "/")
        await until(lambda: connections and (connections[0].flow.write_paused or is_lost(connections[0])))
        yield client, connections[0]
        client.writer.transport.abort()


def is_lost(connection: Connection) -> bool:
    return connection.parser is None


@pytest.mark.parametrize("answer", [{}, {"more_body": True}, {"closes": True}], ids=["whole", "stream", "closing"])
async def test_who_takes_nothing_is_cut_off(answer: dict[str, bool]) -> None:
    application = Answer(**answer)
    async with asked(application, seconds=0.1) as (_, connection):
        await until(lambda: is_lost(connection))
        async with asyncio.timeout(DEADLINE_SECONDS):
            await application.left.wait()


async def test_who_takes_nothing_is_cut_off_before_the_server_ends(caplog: pytest.LogCaptureFixture) -> None:
    application = Answer(more_body=True)
    async with asked(application, last_seconds=0.1) as (_, connection):
        connection.shutdown()
        await until(lambda: is_lost(connection))
        async with asyncio.timeout(DEADLINE_SECONDS):
            await application.left.wait()
    assert not [each for each in caplog.records if each.levelname not in ("DEBUG", "INFO")]


async def test_who_reads_slowly_but_reads_is_left_alone() -> None:
    async with asked(Answer()) as (client, connection):
        transport = cast(asyncio.Transport, client.writer.transport)
        transport.resume_reading()
        taken = 0
        while connection.flow.write_paused:
            unwritten = connection.transport.get_write_buffer_size()
            while connection.transport.get_write_buffer_size() == unwritten:
                taken += len(await client.reader.read(100_000))
            connection._look_at_writing()  # as if the whole time had gone by
            assert not connection.transport.is_closing()
        assert 0 < taken < LARGE


async def test_an_answer_that_breaks_off_does_not_wait_for_who_is_behind() -> None:
    async with asked(Answer(fails=True)) as (_, connection):
        await until(lambda: is_lost(connection))


async def test_who_stops_talking_within_an_answer_and_reads_nothing_is_cut_off() -> None:
    async with asked(Answer(more_body=True), seconds=0.1) as (client, connection):
        client.writer.write_eof()
        await until(lambda: is_lost(connection))
