"""HttpTool: against a real local server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gateway.agent import Secret, ToolSettings
from gateway.clock import SystemClock
from gateway.errors import ConfigurationError, ToolError
from gateway.http_client.clients import HttpClients
from gateway.messages import DocumentBlock, ImageBlock, JsonObject, JsonValue, TextBlock
from gateway.tool import SharedState, Tool, ToolContext, ToolEnvironment
from gateway.tools.http_request import TOOL_TYPE
from tests.local_listener import listening, port_of
from tests.movable_clock import MovableClock

CONTEXT = ToolContext("call_1", "owner", "thread_1", "run_1", "agent_1", SharedState(None))


@dataclass
class Endpoint:
    """A server that notes each request and gives one answer, and closes the connection, as the answer says."""

    answer: bytes = (
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: 11\r\n\r\n"
        b'{"ok":true}'
    )
    url: str = ""
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    silent: asyncio.Event | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:-2])}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            self.requests.append((head[0].removesuffix(" HTTP/1.1"), headers, body))
            if self.silent is not None:
                await self.silent.wait()
            writer.write(self.answer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def give(self, status: int, content_type: str, body: bytes, *headers: str) -> None:
        lines = [f"HTTP/1.1 {status} Whatever", "connection: close", f"content-length: {len(body)}", *headers]
        if content_type:
            lines.append(f"content-type: {content_type}")
        self.answer = "\r\n".join([*lines, "", ""]).encode() + body


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    served = Endpoint()
    async with listening(served.serve) as listener:
        served.url = f"http://127.0.0.1:{port_of(listener)}"
        yield served


@pytest.fixture
async def clients() -> AsyncIterator[HttpClients]:
    opened = HttpClients(SystemClock())
    yield opened
    await opened.close()


async def open_tool(clients: HttpClients, url: str, **parameters: JsonValue) -> Tool:
    environment = ToolEnvironment(SystemClock(), clients, Path(), None)
    settings = ToolSettings("HttpTool", "ask", parameters={"url": url, **parameters})
    (tool,) = await TOOL_TYPE.open(settings, environment).tools()
    return tool


async def answer(tool: Tool, **arguments: JsonValue) -> str:
    blocks = await asyncio.wait_for(tool.call(arguments, CONTEXT), 10)
    return "".join(block.text for block in blocks if isinstance(block, TextBlock))


def properties(*names: str) -> JsonObject:
    return {"type": "object", "properties": {name: {} for name in names}}


class TestRequest:
    async def test_puts_arguments_into_path_and_query(self, clients: HttpClients, endpoint: Endpoint) -> None:
        headers: JsonValue = {"Authorization": Secret("Bearer key-12345678")}
        tool = await open_tool(clients, endpoint.url + "/orders/{id}?v=1&w={word}", headers=headers)
        assert tool.spec.input_schema == {
            "type": "object",
            "properties": {"id": {"type": "string"}, "word": {"type": "string"}},
            "required": ["id", "word"],
            "additionalProperties": False,
        }
        assert await answer(tool, id=7, word="tea & cake") == '{"ok":true}'
        ((line, sent, body),) = endpoint.requests
        assert line == "GET /orders/7?v=1&w=tea%20%26%20cake"
        assert sent["authorization"] == "Bearer key-12345678"
        assert body == b""

    @pytest.mark.parametrize(
        ("value", "path"),
        [
            ("a/../../admin", "/u/a%2F..%2F..%2Fadmin/x"),
            ("x?y=1#z", "/u/x%3Fy%3D1%23z/x"),
            ("@evil.example:80", "/u/%40evil.example%3A80/x"),
            ("a\r\nHost: evil", "/u/a%0D%0AHost%3A%20evil/x"),
            ("\\..\\", "/u/%5C..%5C/x"),
            ("%2e%2e", "/u/%252e%252e/x"),
            ("ü\ud83d", "/u/%C3%BC%EF%BF%BD/x"),
            (True, "/u/true/x"),
            (1.5, "/u/1.5/x"),
        ],
    )
    async def test_no_argument_leaves_its_place(
        self, clients: HttpClients, endpoint: Endpoint, value: JsonValue, path: str
    ) -> None:
        tool = await open_tool(clients, endpoint.url + "/u/{id}/x")
        await answer(tool, id=value)
        assert endpoint.requests[0][0] == f"GET {path}"
        assert endpoint.requests[0][1]["host"] in endpoint.url

    @pytest.mark.parametrize("value", ["", ".", "..", None, ["a"], {"a": 1}])
    async def test_what_would_change_the_path_is_refused(
        self, clients: HttpClients, endpoint: Endpoint, value: JsonValue
    ) -> None:
        tool = await open_tool(clients, endpoint.url + "/u/{id}/x")
        with pytest.raises(ToolError, match="the argument 'id'"):
            await tool.call({"id": value}, CONTEXT)
        assert endpoint.requests == []

    async def test_the_rest_becomes_query_or_body(self, clients: HttpClients, endpoint: Endpoint) -> None:
        schema = properties("id", "n", "tags", "note")
        await answer(
            await open_tool(clients, endpoint.url + "/o/{id}", input_schema=schema),
            id=1,
            n=2,
            tags=["a", "b&"],
            note=None,
        )
        await answer(
            await open_tool(clients, endpoint.url + "/o/{id}", input_schema=schema, method="POST"),
            id=1,
            n=2,
            tags=["a"],
        )
        assert endpoint.requests[0][0] == "GET /o/1?n=2&tags=a&tags=b%26"
        line, headers, body = endpoint.requests[1]
        assert line == "POST /o/1"
        assert headers["content-type"] == "application/json"
        assert json.loads(body) == {"n": 2, "tags": ["a"]}

    async def test_a_template_takes_arguments_with_their_types(self, clients: HttpClients, endpoint: Endpoint) -> None:
        body: JsonValue = {
            "count": "{n}",
            "list": ["{tags}", "{missing}"],
            "text": "about {who}: {n}",
            "gone": "{missing}",
            "graphql": "query { user(id: {n}) { name } }",
            "fixed": [1, None, True],
        }
        query: JsonValue = {"q": "{who}", "left": "{missing}", "page": 1}
        tool = await open_tool(
            clients,
            endpoint.url,
            method="PUT",
            body=body,
            query=query,
            input_schema=properties("n", "tags", "who", "missing"),
        )
        who = '", "admin": true, "x": "'
        await answer(tool, n=3, tags=["a"], who=who)
        line, _, sent = endpoint.requests[0]
        assert line == "PUT /?q=%22%2C+%22admin%22%3A+true%2C+%22x%22%3A+%22&page=1"
        assert json.loads(sent) == {
            "count": 3,
            "list": [["a"]],
            "text": f"about {who}: 3",
            "graphql": "query { user(id: 3) { name } }",
            "fixed": [1, None, True],
        }


class TestResponse:
    @pytest.mark.parametrize(
        ("content_type", "body", "expected"),
        [
            ("text/plain; charset=latin-1", b"caf\xe9", "café"),
            ("text/plain; charset=nonsense", "café".encode(), "café"),
            ("application/problem+json", b"{}", "{}"),
            ("", b"plain", "plain"),
            ("application/json", b"", ""),
            ("text/plain", b"\xff", "\ufffd"),
        ],
    )
    async def test_text_is_read(
        self, clients: HttpClients, endpoint: Endpoint, content_type: str, body: bytes, expected: str
    ) -> None:
        endpoint.give(200, content_type, body)
        assert await answer(await open_tool(clients, endpoint.url)) == expected

    async def test_media_become_blocks(self, clients: HttpClients, endpoint: Endpoint) -> None:
        tool = await open_tool(clients, endpoint.url, max_response_bytes=10)
        endpoint.give(200, "image/png", b"\x89PNG")
        (picture,) = await tool.call({}, CONTEXT)
        assert isinstance(picture, ImageBlock)
        endpoint.give(200, "application/pdf", b"%PDF")
        (document,) = await tool.call({}, CONTEXT)
        assert isinstance(document, DocumentBlock)
        endpoint.give(200, "image/png", b"\x89PNG" * 10)
        assert await answer(tool) == "[left out: image/png of more than 10 bytes]"

    async def test_long_answers_are_cut(self, clients: HttpClients, endpoint: Endpoint) -> None:
        endpoint.give(200, "text/plain", b"x" * 100_000)
        tool = await open_tool(clients, endpoint.url, max_response_bytes=50)
        assert await answer(tool) == "x" * 50 + "\n[truncated: this is the first 50 bytes]"
        tool = await open_tool(clients, endpoint.url, max_output_characters=20)
        assert await answer(tool) == "x" * 20 + "\n[truncated: this is the first 20 of 100,000 characters]"

    @pytest.mark.parametrize(
        ("status", "message"),
        [(404, "HTTP status 404: no such order"), (500, "HTTP status 500: no such order"), (302, "a redirect .*302")],
    )
    async def test_errors_and_redirects_are_told(
        self, clients: HttpClients, endpoint: Endpoint, status: int, message: str
    ) -> None:
        endpoint.give(status, "text/plain", b"no such order", "location: http://169.254.169.254/latest/meta-data/")
        tool = await open_tool(clients, endpoint.url)
        with pytest.raises(ToolError, match=message):
            await tool.call({}, CONTEXT)
        assert len(endpoint.requests) == 1

    @pytest.mark.parametrize("status", [200, 403])
    async def test_an_echoed_secret_does_not_reach_the_model(
        self, clients: HttpClients, endpoint: Endpoint, status: int
    ) -> None:
        endpoint.give(status, "text/plain", b"you sent 'authorization: Bearer key-12345678' and 'key-12345678'")
        tool = await open_tool(clients, endpoint.url, headers={"authorization": Secret("Bearer key-12345678")})
        try:
            text = await answer(tool)
        except ToolError as error:
            text = error.message
        assert "key-12345678" not in text
        assert "you sent 'authorization: ***' and '***'" in text

    async def test_a_server_that_is_not_there_is_told(self, clients: HttpClients) -> None:
        tool = await open_tool(clients, "http://127.0.0.1:9/")
        with pytest.raises(ToolError, match="the endpoint of 'ask' failed: it cannot be reached"):
            await tool.call({}, CONTEXT)

    async def test_nonsense_is_told(self, clients: HttpClients, endpoint: Endpoint) -> None:
        endpoint.answer = b"this is not HTTP\r\n\r\n"
        with pytest.raises(ToolError, match="the endpoint of 'ask' failed"):
            await (await open_tool(clients, endpoint.url)).call({}, CONTEXT)

    async def test_silence_has_an_end(self, endpoint: Endpoint) -> None:
        clock = MovableClock()
        clients = HttpClients(clock)
        endpoint.silent = asyncio.Event()
        tool = await open_tool(clients, endpoint.url, timeout_seconds=7)
        call = asyncio.create_task(tool.call({}, CONTEXT))
        await clock.until(lambda: endpoint.requests)
        await clock.advance(7)
        with pytest.raises(ToolError, match="it did not answer in time"):
            await asyncio.wait_for(call, 10)
        endpoint.silent.set()
        await clients.close()


class TestConfiguration:
    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"url": "ftp://x/"}, "not an http or https URL"),
            ({"url": "http:///x"}, "not an http or https URL"),
            ({"url": "http://x/a b"}, "not an http or https URL"),
            ({"url": "http://{host}/"}, "a placeholder before its path"),
            ({"url": "http://x:{port}/"}, r"not an http or https URL|before its path"),
            ({"url": "http://u:p@x/"}, "holds a password"),
            ({"url": "http://x/{id}", "input_schema": {"properties": {"key": {}}}}, r"\{id\} is not a property"),
            ({"url": "http://x/", "body": {"a": "{id}"}, "input_schema": {}}, r"\{id\} is not a property"),
            ({"url": "http://x/", "headers": {"a": "b\nc"}}, "cannot be sent"),
            ({"url": "http://x/", "headers": {"Host": "y"}}, "cannot be sent"),
            ({"url": "http://x/", "method": "TRACE"}, r"parameters\.method"),
            ({"url": "http://x/", "metod": "GET"}, "did you mean 'method'"),
            (
                {"url": "http://x/", "input_schema": {"properties": {"a": {"type": "strng"}}}},
                'JSON Schema: "strng" is not',
            ),
            (
                {"url": "http://x/", "input_schema": {"properties": {"a": {"pattern": r"\pL{110}"}}}},
                r"the tool 'ask' .*parameters\.input_schema is no usable JSON Schema: it has too many places",
            ),
            ({}, r"parameters\.url is missing; add it"),
        ],
        ids=str,
    )
    async def test_what_can_never_work_is_refused(
        self, clients: HttpClients, parameters: JsonObject, message: str
    ) -> None:
        environment = ToolEnvironment(SystemClock(), clients, Path(), None)
        with pytest.raises(ConfigurationError, match=message):
            TOOL_TYPE.open(ToolSettings("HttpTool", "ask", parameters=parameters), environment)

    async def test_needs_a_name(self, clients: HttpClients) -> None:
        environment = ToolEnvironment(SystemClock(), clients, Path(), None)
        with pytest.raises(ConfigurationError, match="needs a 'name'"):
            TOOL_TYPE.open(ToolSettings("HttpTool", parameters={"url": "http://x/"}), environment)
