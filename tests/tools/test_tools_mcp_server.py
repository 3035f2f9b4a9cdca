"""McpServer: real servers in processes of their own, well and badly behaved."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.agent import Secret, ToolSettings
from gateway.errors import ConfigurationError, ToolError
from gateway.http_client.clients import HttpClients
from gateway.messages import AudioBlock, ContentBlock, DocumentBlock, ImageBlock, JsonObject, JsonValue, TextBlock
from gateway.tool import SharedState, Tool, Toolbox, ToolContext, ToolEnvironment
from gateway.tools.mcp_server import TOOL_TYPE
from tests.local_listener import listening, port_of
from tests.mcp_http_demo import DEMO, HttpDemo, mcp_http_demo
from tests.movable_clock import MovableClock
from tests.waiting import until, until_answered, until_outside

TESTS = Path(__file__).parent.parent
ROUGH = str(TESTS / "mcp_rough_server.py")
CONTEXT = ToolContext("call_1", "owner", "thread_1", "run_1", "agent_1", SharedState(None))
DEADLINE_SECONDS = 30


def open_box(clock: MovableClock, **parameters: JsonValue) -> Toolbox:
    return open_settings(clock, ToolSettings("McpServer", "demo", parameters=parameters))


def open_settings(clock: MovableClock, settings: ToolSettings) -> Toolbox:
    environment = ToolEnvironment(clock, HttpClients(clock), TESTS, None)
    return TOOL_TYPE.open(settings, environment)


@asynccontextmanager
async def opened(clock: MovableClock, **parameters: JsonValue) -> AsyncIterator[Toolbox]:
    before = asyncio.all_tasks()
    box = open_box(clock, **parameters)
    try:
        yield box
    finally:
        await asyncio.wait_for(box.close(), DEADLINE_SECONDS)
        assert asyncio.all_tasks() == before, "closing left tasks behind"


def stdio(*arguments: str) -> dict[str, JsonValue]:
    return {"command": sys.executable, "args": [*arguments]}


def demo() -> dict[str, JsonValue]:
    return stdio(DEMO, "stdio")


def rough(behaviour: str) -> dict[str, JsonValue]:
    return stdio(ROUGH, behaviour)


async def connected(box: Toolbox) -> dict[str, Tool]:
    """The tools, once there are any or it is clear that there are none."""
    return {tool.spec.name: tool for tool in await asyncio.wait_for(box.tools(), DEADLINE_SECONDS)}


async def answer(tool: Tool, **arguments: JsonValue) -> str:
    blocks: tuple[ContentBlock, ...] = await asyncio.wait_for(tool.call(arguments, CONTEXT), DEADLINE_SECONDS)
    return "".join(block.text for block in blocks if isinstance(block, TextBlock))


def runs(pid: int) -> bool:
    """Whether a process is there; one that is dead but not yet collected by its parent is not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


class TestStdio:
    async def test_tools_are_found_and_called(self, clock: MovableClock) -> None:
        async with opened(clock, **demo()) as box:
            tools = await connected(box)
            assert box.problem() is None
            spec = tools["add"].spec
            assert spec.server == "demo"
            assert spec.description == "Add two numbers."
            assert spec.input_schema["required"] == ["a"]
            assert spec.input_schema["properties"]["a"]["description"] == "the first"  # type: ignore[index,call-overload]
            assert await answer(tools["add"], a=1, b=2) == "3"
            answers = await asyncio.gather(*(answer(tools["add"], a=n) for n in range(20)))
            assert answers == [str(n + 1) for n in range(20)]

    async def test_without_a_name_the_label_tells_no_folder(self, clock: MovableClock) -> None:
        box = open_settings(clock, ToolSettings("McpServer", parameters=demo()))
        try:
            assert (await connected(box))["add"].spec.server == Path(sys.executable).name
        finally:
            await box.close()

    async def test_results_of_every_kind_become_blocks(self, clock: MovableClock) -> None:
        async with opened(clock, **demo(), max_output_characters=1_000) as box:
            tools = await connected(box)
            words, picture, sound, broken, note, document, link = await tools["many_blocks"].call({}, CONTEXT)
            assert words == TextBlock("words")
            assert isinstance(picture, ImageBlock)
            assert isinstance(sound, AudioBlock)
            assert broken == TextBlock("[left out: image data that is not base64]")
            assert note == TextBlock("a note")
            assert isinstance(document, DocumentBlock)
            assert document.name == "a b.pdf"
            assert link == TextBlock("[resource 'manual': https://example.com/manual]")
            assert (await answer(tools["much"])).endswith(
                "[truncated: this is the first 1,000 of 1,000,000 characters]"
            )
            with pytest.raises(ToolError, match=r"the fuse is blown|Error executing tool fail"):
                await tools["fail"].call({}, CONTEXT)

    async def test_gets_its_own_environment_and_none_of_the_secrets(
        self, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
        settings: dict[str, JsonValue] = {**demo(), "env": {"GIVEN": Secret("value")}}
        async with opened(clock, **settings) as box:
            directory, *names = (await answer((await connected(box))["environment"])).splitlines()
        assert directory == str(TESTS)
        assert "GIVEN" in names
        assert "PATH" in names
        assert "OPENAI_API_KEY" not in names

    async def test_nothing_is_left_running_when_it_is_closed(self, clock: MovableClock) -> None:
        async with opened(clock, **demo()) as box:
            pids = [int(pid) for pid in (await answer((await connected(box))["start_child"])).split()]
            assert all(map(runs, pids))
        # they have been told by then; the kernel may need a moment
        await until_outside(lambda: not any(map(runs, pids)))

    async def test_a_server_that_is_killed_comes_back_and_takes_its_children_along(
        self, clock: MovableClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with opened(clock, **demo()) as box:
            tools = await connected(box)
            pids = [int(pid) for pid in (await answer(tools["start_child"])).split()]
            os.kill(pids[0], signal.SIGKILL)
            await until(box.problem)
            assert box.problem() == "the MCP server 'demo' is not connected: the server closed the connection"
            await until(lambda: clock.pending)
            await until_outside(lambda: not any(map(runs, pids)))
            assert await box.tools() == ()
            with pytest.raises(ToolError, match="the tool server 'demo' cannot be reached just now"):
                await tools["add"].call({"a": 1}, CONTEXT)
            await clock.advance(1)
            assert await answer(tools["add"], a=1) == "2"
            assert "add" in await connected(box)
            assert box.problem() is None

    async def test_a_crash_during_a_call_is_told_to_the_model_and_the_log(
        self, clock: MovableClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with opened(clock, **demo()) as box:
            tools = await connected(box)
            with pytest.raises(ToolError, match="was lost; the call may or may not have been carried out"):
                await tools["die"].call({}, CONTEXT)
            await until(lambda: clock.pending)
        (record,) = [record for record in caplog.records if record.message == "an MCP server's program ended"]
        assert record.exit_code == 3  # type: ignore[attr-defined]
        assert "about to die" in record.stderr  # type: ignore[attr-defined]

    async def test_attempts_come_at_growing_intervals(self, clock: MovableClock) -> None:
        async with opened(clock, command="no-such-command-anywhere") as box:
            assert await connected(box) == {}
            assert box.problem() == (
                "the MCP server 'demo' is not connected: the command 'no-such-command-anywhere' is not there, "
                "or its directory is not"
            )
            delays = []
            for _ in range(10):
                await until(lambda: clock.pending)
                delays.append(clock.pending[0])
                await clock.advance(delays[-1])
            for delay, expected in zip(delays, [0.5, 1, 2, 4, 8, 16, 32, 60, 60, 60], strict=True):
                assert 0.75 * expected <= delay <= 1.25 * expected

    async def test_a_call_that_hangs_can_be_cancelled_and_the_server_serves_on(self, clock: MovableClock) -> None:
        async with opened(clock, **demo()) as box:
            tools = await connected(box)
            call = asyncio.create_task(tools["hang"].call({}, CONTEXT))
            await clock.settle()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(call, 5)
            assert await answer(tools["add"], a=1) == "2"

    async def test_a_change_of_the_tools_is_heard_and_logged(
        self, clock: MovableClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with opened(clock, **demo()) as box:
            tools = await connected(box)
            assert "grown" not in tools
            await tools["grow"].call({}, CONTEXT)
            await until(lambda: "an MCP server changed its tools" in caplog.messages)
            grown = (await connected(box))["grown"]
            assert await answer(grown) == "grown"

    async def test_a_change_can_be_refused(self, clock: MovableClock, caplog: pytest.LogCaptureFixture) -> None:
        async with opened(clock, **demo(), changes="refuse") as box:
            tools = await connected(box)
            await tools["grow"].call({}, CONTEXT)
            await until(lambda: "an MCP server changed its tools" in caplog.messages)
            assert (await connected(box)).keys() == tools.keys()
            assert "'grown' is not as it was when the server was first seen" in str(box.problem())

    async def test_the_operator_chooses_and_renames(self, clock: MovableClock) -> None:
        async with opened(clock, **demo(), include=["*a*"], exclude=["many_*"], prefix="demo_") as box:
            tools = await connected(box)
            assert tools.keys() == {"demo_add", "demo_fail", "demo_hang", "demo_start_child"}
            assert await answer(tools["demo_add"], a=5) == "6"

    async def test_closing_before_anything_happened_is_nothing(self, clock: MovableClock) -> None:
        box = open_box(clock, **demo())
        assert box.problem() is None
        await box.close()
        assert await asyncio.wait_for(box.tools(), 5) == ()

    async def test_closing_in_the_middle_of_connecting_leaves_nothing(self, clock: MovableClock) -> None:
        async with opened(clock, **rough("silent"), first_wait_seconds=0) as box:
            assert await box.tools() == ()
            await clock.settle()


@pytest.mark.thorough
class TestRoughServers:
    async def test_a_silent_one_is_given_up_in_time(self, clock: MovableClock) -> None:
        async with opened(clock, **rough("silent"), first_wait_seconds=1, connect_timeout_seconds=20) as box:
            waiting = asyncio.create_task(box.tools())
            await clock.until_timer(1)
            await clock.until_timer(20)
            await clock.advance(1)
            assert await asyncio.wait_for(waiting, 5) == ()
            await clock.advance(19)
            await until(box.problem)
            assert "it did not answer in time" in str(box.problem())

    async def test_one_that_ends_at_unknown_questions_is_asked_in_the_old_way(self, clock: MovableClock) -> None:
        async with opened(clock, **rough("fragile")) as box:
            assert await connected(box) == {}
            await until(lambda: clock.pending)
            await clock.advance(1)
            await until(lambda: box.problem() is None)
            assert await answer((await connected(box))["echo"], x=[1]) == '{"x": [1]}'

    async def test_one_of_the_older_protocol_tells_its_changes(self, clock: MovableClock) -> None:
        async with opened(clock, **rough("growing")) as box:
            tools = await connected(box)
            assert tools.keys() == {"echo"}
            await tools["echo"].call({}, CONTEXT)
            await until_answered(lambda: connected(box), lambda listed: "grown" in listed)

    async def test_one_that_logs_to_its_stdout_works(self, clock: MovableClock) -> None:
        async with opened(clock, **rough("chatty")) as box:
            assert await answer((await connected(box))["echo"], x=1) == '{"x": 1}'

    async def test_one_that_floods_is_cut_off(self, clock: MovableClock) -> None:
        async with opened(clock, **rough("flooding"), first_wait_seconds=60) as box:
            assert await connected(box) == {}
            assert "it sent a message of more than 16,777,216 bytes" in str(box.problem())

    async def test_one_of_a_strange_protocol_is_reported(self, clock: MovableClock) -> None:
        async with opened(clock, **rough("old")) as box:
            assert await connected(box) == {}
            assert "its messages are not valid MCP" in str(box.problem())

    async def test_nonsense_as_a_result_is_a_tool_error(self, clock: MovableClock) -> None:
        async with opened(clock, **rough("nonsense")) as box:
            tools = await connected(box)
            with pytest.raises(ToolError, match="gave no usable answer"):
                await tools["echo"].call({}, CONTEXT)

    async def test_endless_tools_are_capped_and_reported(self, clock: MovableClock) -> None:
        async with opened(clock, **rough("endless"), max_tools=120) as box:
            assert len(await connected(box)) == 120
            assert box.problem() == "the MCP server 'demo' has more than 120 tools: the rest is left out"

    async def test_what_it_says_of_its_tools_is_cleaned_and_bounded(self, clock: MovableClock) -> None:
        async with opened(clock, **rough("metadata"), max_description_characters=100) as box:
            tools = await connected(box)
            assert tools.keys() == {"read_file_now", "bomb", "doubling", ("d_licat" * 20)[:64]}
            description = tools["read_file_now"].spec.description
            assert description.startswith("Reads[31m a file.\nxxx")
            assert description.endswith(" [truncated]")
            assert len(description) < 120
            assert "'read_file_now' has the name of another one" in str(box.problem())
            assert "'huge' has too large a schema" in str(box.problem())

    async def test_what_needs_approval_is_left_out_where_its_arguments_cannot_be_checked(
        self, clock: MovableClock
    ) -> None:
        box = open_settings(clock, ToolSettings("McpServer", "demo", parameters=rough("metadata"), approval="always"))
        try:
            assert "doubling" not in await connected(box)
            assert "'doubling' needs approval, and arguments cannot be checked against its schema" in str(box.problem())
        finally:
            await box.close()

    async def test_its_output_schema_cannot_stop_the_event_loop(self, clock: MovableClock) -> None:
        async with opened(clock, **rough("metadata")) as box:
            assert await answer((await connected(box))["bomb"]) == '{"a":"' + "a" * 40 + '!"}'


@pytest.fixture
async def http_demo() -> AsyncIterator[HttpDemo]:
    async with mcp_http_demo() as server:
        yield server


class TestHttp:
    async def test_tools_are_called_and_the_server_may_be_restarted(
        self, clock: MovableClock, http_demo: HttpDemo
    ) -> None:
        await http_demo.start()
        async with opened(clock, url=http_demo.url, first_wait_seconds=30) as box:
            tools = await connected(box)
            assert await answer(tools["add"], a=1, b=2) == "3"
            await http_demo.kill()
            with pytest.raises(ToolError, match=r"was lost|cannot be reached"):
                await tools["add"].call({"a": 1}, CONTEXT)
            await until(box.problem)
            await http_demo.start()
            await clock.advance(1)
            await until(lambda: box.problem() is None)
            assert await answer(tools["add"], a=2, b=2) == "4"

    async def test_a_server_that_went_away_in_silence_is_noticed(
        self, clock: MovableClock, http_demo: HttpDemo
    ) -> None:
        await http_demo.start()
        async with opened(clock, url=http_demo.url, first_wait_seconds=30, check_seconds=45) as box:
            await connected(box)
            await http_demo.kill()
            await clock.advance(45)
            await until(box.problem)
            assert await box.tools() == ()

    async def test_a_server_that_is_not_there_leaves_the_agent_without_its_tools(
        self, clock: MovableClock, http_demo: HttpDemo
    ) -> None:
        async with opened(clock, url=http_demo.url) as box:
            assert await connected(box) == {}
            assert box.problem() == "the MCP server 'demo' is not connected: no server can be reached at its URL"

    @pytest.mark.parametrize(
        ("response", "problem"),
        [
            (b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n", "it answers with HTTP status 401"),
            (
                b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\n<html>",
                "it answered: Unexpected",
            ),
            (b"HTTP/1.1 307 See\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n", "not followed"),
            (b"nonsense\r\n\r\n", "the HTTP connection to it failed"),
        ],
    )
    async def test_other_answers_are_reported(self, clock: MovableClock, response: bytes, problem: str) -> None:
        seen: list[bytes] = []

        async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            seen.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(response)
            await writer.drain()
            writer.close()

        async with listening(respond) as listener:
            url = f"http://127.0.0.1:{port_of(listener)}/mcp"
            headers = {"Authorization": Secret("Bearer key-1")}
            async with opened(clock, url=url, headers=headers) as box:  # type: ignore[arg-type]
                assert await connected(box) == {}
                assert problem in str(box.problem())
        assert b"authorization: bearer key-1" in seen[0].lower()


class OlderHttpServer:
    """A server of the older protocol, whose sessions can be forgotten."""

    def __init__(self) -> None:
        self.session = 0
        self.calls: list[str] = []
        self.closed: list[str] = []
        self.steady = True

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has gone
        finally:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = re.search(r"content-length: (\d+)", head)
        body = json.loads(await reader.readexactly(int(length[1]))) if length and int(length[1]) else {}
        session = re.search(r"mcp-session-id: (\S+)", head)
        status, headers, result = self._answer(head.split()[0], body, session[1] if session else "")
        content = json.dumps({"jsonrpc": "2.0", "id": body.get("id"), **result}).encode() if result else b""
        lines = [f"HTTP/1.1 {status} x", "content-type: application/json", f"content-length: {len(content)}", *headers]
        writer.write("\r\n".join([*lines, "connection: close", "", ""]).encode() + content)
        await writer.drain()

    def _answer(self, method: str, body: dict[str, JsonValue], session: str) -> tuple[int, list[str], JsonObject]:
        if method == "delete":
            self.closed.append(session)
            return 200, [], {}
        if method == "get":
            return 405, [], {}
        if body["method"] == "server/discover":
            return 400, [], {}
        if body["method"] == "initialize":
            self.session += 1
            info: JsonObject = {"protocolVersion": "2025-06-18", "serverInfo": {"name": "o", "version": "1"}}
            return 200, [f"mcp-session-id: s{self.session}"], {"result": {**info, "capabilities": {"tools": {}}}}
        if session != f"s{self.session}":
            return 404, [], {}
        if "id" not in body:
            return 202, [], {}
        if body["method"] == "tools/list":
            return 200, [], {"result": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}}
        if not self.steady:
            self.session += 1
            return 404, [], {}
        self.calls.append(session)
        return 200, [], {"result": {"content": [{"type": "text", "text": session}]}}


class TestOlderHttp:
    async def test_a_forgotten_session_is_made_anew_and_the_call_made_once(self, clock: MovableClock) -> None:
        server = OlderHttpServer()
        async with listening(server.serve) as listener:
            url = f"http://127.0.0.1:{port_of(listener)}/mcp"
            async with opened(clock, url=url) as box:
                echo = (await connected(box))["echo"]
                assert await answer(echo) == "s1"
                server.session += 1  # as a restart would
                answers = await asyncio.gather(*(answer(echo) for _ in range(3)))
                assert answers == ["s3", "s3", "s3"]
                assert len(server.calls) == 4
                server.steady = False
                with pytest.raises(ToolError, match=r"keeps ending its sessions|cannot be reached"):
                    await answer(echo)
                server.steady = True
                await until(lambda: box.problem() is None)
                assert (await answer(echo)).startswith("s")
        assert server.closed[-1] == f"s{server.session}", "the last session was not closed"


class TestConfiguration:
    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({}, "need either 'command' or 'url'"),
            ({"command": "x", "url": "http://x"}, "need either 'command' or 'url'"),
            ({"command": "x", "headers": {"a": "b"}}, "headers go with 'url'"),
            ({"url": "http://x", "args": ["y"]}, "args goes with 'command'"),
            ({"url": "file:///etc/passwd"}, "not an http or https URL"),
            ({"url": "http://"}, "not an http or https URL"),
            ({"url": "http://[x"}, "not an http or https URL"),
            ({"url": "http://x", "headers": {"a": "b\r\nc: d"}}, "HTTP does not take"),
            ({"url": "http://x", "headers": {"a b": "c"}}, "HTTP does not take"),
            ({"command": "x\0y"}, "a character that cannot be"),
            ({"command": "x", "prefix": "a b"}, r"parameters\.prefix"),
            ({"comand": "x"}, r"parameters\.comand is not known; did you mean 'command'\?"),
            ({"url": 5}, r"parameters\.url"),
        ],
        ids=str,
    )
    async def test_what_can_never_work_is_refused(
        self, clock: MovableClock, parameters: JsonObject, message: str
    ) -> None:
        with pytest.raises(ConfigurationError, match=message):
            open_box(clock, **parameters)

    async def test_secrets_are_in_no_message(self, clock: MovableClock, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG, logger="gateway")
        url = "http://127.0.0.1:9/mcp?key=sk-secret"
        async with opened(clock, url=Secret(url)) as box:
            await connected(box)
            assert "sk-secret" not in str(box.problem())
        assert not any(
            "sk-secret" in str(vars(record)) for record in caplog.records if record.name.startswith("gateway")
        )
