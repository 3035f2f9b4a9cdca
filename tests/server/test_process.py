"""The process that is served from, as it is started: its event loop and its connections."""

from __future__ import annotations

import asyncio
import json
import platform
import re
import signal
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import pytest

from tests.running_gateway import (
    DEADLINE_SECONDS,
    NEW_INTERPRETER,
    agent,
    gateway_process,
    parse_frames,
    run_body,
    scripted,
    serving_process,
    write_configuration,
)
from tests.waiting import until_outside


async def exchange(url: str, request: bytes, *, half_closed: bool = False) -> tuple[list[str], str]:
    """What comes until the connection ends: the lines of the head, in lower case, and the body."""
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(request)
    if half_closed:
        writer.write_eof()
    async with asyncio.timeout(DEADLINE_SECONDS):
        answer = await reader.read()
    writer.close()
    head, _, body = answer.decode().partition("\r\n\r\n")
    return head.lower().split("\r\n"), body


async def test_old_clients_and_those_that_have_no_more_to_say_are_answered(tmp_path: Path) -> None:
    configuration = write_configuration(tmp_path, [agent("a", scripted([{"text": "hello"}]))])
    async with gateway_process(configuration) as gateway:
        url = gateway.client.base_url
        content = json.dumps(run_body()).encode()
        head = b"POST /agents/a/run HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        lines, body = await exchange(url, b"%bContent-Length: %d\r\n\r\n%b" % (head, len(content), content))
        assert [line for line in lines if line.startswith(("connection:", "transfer-"))] == ["connection: close"]
        assert parse_frames(body.encode())[-1].type == "RUN_FINISHED"
        for version in ("1.0", "1.1"):
            request = f"GET /healthz HTTP/{version}\r\nHost: localhost\r\n\r\n".encode()
            lines, body = await exchange(url, request, half_closed=True)
            assert (lines[0], json.loads(body)["status"]) == ("http/1.1 200 ok", "ok")
        assert await gateway.signal(signal.SIGTERM) == 0


# --- memory


def kilobytes_of(process_id: int) -> int:
    [said] = re.findall(r"^VmRSS:\s+(\d+) kB$", Path(f"/proc/{process_id}/status").read_text(), re.MULTILINE)
    return int(said)


UNBOUNDED = {"max_unread_bytes": 1_000_000_000}
"""So that none of the readers is refused."""


@pytest.mark.thorough
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps large blocks")
async def test_readers_who_are_gone_leave_no_large_blocks_behind(tmp_path: Path) -> None:
    turn = {"text": "word " * 1000, "repeat": 600}
    words = scripted([turn, {"tool": "ListIndexTool"}], [turn, {"tool": "ListIndexTool"}], [turn])
    configuration = write_configuration(
        tmp_path, [agent("a", words, tools=[{"type": "ListIndexTool"}])], server=UNBOUNDED
    )
    request = b"GET /threads/thread-1/messages HTTP/1.1\r\nHost: localhost\r\n\r\n"
    async with gateway_process(configuration, program=NEW_INTERPRETER) as gateway:
        address = urlsplit(gateway.client.base_url)
        await gateway.client.run("a", run_body())
        assert len(json.dumps(await gateway.client.get("/threads/thread-1/messages"))) > 6_000_000
        before = kilobytes_of(gateway.process.pid)
        readers = [await asyncio.open_connection(address.hostname, address.port) for _ in range(20)]
        for _, writer in readers:
            writer.write(request)
        for reader, writer in readers:
            assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
            cast(asyncio.Transport, writer.transport).pause_reading()
        for _, writer in readers:
            writer.transport.abort()
        await until_outside(lambda: kilobytes_of(gateway.process.pid) < before + 60_000)


# --- where the configuration comes from


def first_line(log: Path) -> dict[str, Any]:
    return cast(dict[str, Any], json.loads(log.read_text().splitlines()[0]))


async def test_a_file_that_nobody_named_is_said_in_the_first_line_of_the_log(tmp_path: Path) -> None:
    file = write_configuration(tmp_path, [agent("mine", {"model_provider": "demo"})])
    async with serving_process(tmp_path) as gateway:
        agents = await gateway.client.get("/agents")

    assert [each["id"] for each in agents["agents"]] == ["mine"]
    said = first_line(gateway.log)
    assert (said["message"], said["file"]) == ("using ./gateway.yaml from the current directory", str(file))


async def test_a_file_without_agents_serves_an_empty_gateway_that_says_so(tmp_path: Path) -> None:
    file = write_configuration(tmp_path, [])
    async with gateway_process(file) as gateway:
        agents = await gateway.client.get("/agents")
        ready = await gateway.client.get("/readyz")

    assert agents["agents"] == []
    assert ready["status"] == "ready"
    assert first_line(gateway.log)["file"] == str(file)
    assert "an empty gateway: no agents are configured" in gateway.log.read_text()


@pytest.mark.parametrize("arguments", [(), ("--demo",)])
async def test_without_a_file_or_where_it_is_asked_for_the_demonstration_is_served(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    if arguments:
        write_configuration(tmp_path, [agent("mine", {"model_provider": "demo"})])
    async with serving_process(tmp_path, *arguments, "--port", "0") as gateway:
        agents = await gateway.client.get("/agents")

    assert [each["id"] for each in agents["agents"]] == ["assistant"]
    assert first_line(gateway.log)["message"] == "serving the demonstration"
