"""The OpenAPI document and its page."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp

from gateway import __version__
from gateway.application import Application
from gateway.errors import ConfigurationError
from gateway.messages import JsonObject
from gateway.openapi import document as documents
from gateway.openapi.data import api_data, written_parts
from gateway.openapi.description import ApiDescription
from gateway.openapi.page import render_page
from gateway.openapi.routes import docs_routes
from gateway.page import read_page
from gateway.parts import collect
from gateway.protocol import WireProtocol
from gateway.protocols import ROOMS
from gateway.settings import load_settings
from tests.newcomers import file_in_room

ENDPOINTS = {
    ("post", "/agents/{agentId}/run"),
    ("post", "/agents/{agentId}/connect"),
    ("get", "/agents"),
    ("put", "/agents/{agentId}"),
    ("delete", "/agents/{agentId}"),
    ("get", "/agents/{agentId}/capabilities"),
    ("get", "/runs/{runId}"),
    ("get", "/runs/{runId}/events"),
    ("post", "/runs/{runId}/cancel"),
    ("get", "/threads"),
    ("get", "/threads/{threadId}/messages"),
    ("get", "/threads/{threadId}/versions"),
    ("post", "/threads/{threadId}/versions/{version}"),
    ("delete", "/threads/{threadId}/versions/{version}"),
    ("post", "/threads/{threadId}/fork"),
    ("patch", "/threads/{threadId}"),
    ("delete", "/threads/{threadId}"),
    ("get", "/approvals"),
    ("post", "/approvals/{approvalId}"),
    ("get", "/_cluster/settings"),
    ("put", "/_cluster/settings"),
    ("get", "/_plugins/_ml/tools"),
    ("get", "/_plugins/_ml/tools/{toolName}"),
    ("post", "/_plugins/_ml/tools/_execute/{toolName}"),
    ("get", "/_plugins/_ml/tasks/_search"),
    ("post", "/_plugins/_ml/tasks/_search"),
    ("get", "/_plugins/_ml/tasks/{taskId}"),
    ("delete", "/_plugins/_ml/tasks/{taskId}"),
    ("post", "/_plugins/_ml/tasks/{taskId}/_cancel"),
    ("post", "/_plugins/_ml/agents/{agentId}/_execute"),
    ("post", "/_plugins/_ml/agents/{agentId}/_execute/stream"),
    ("post", "/_plugins/_ml/agents/_register"),
    ("get", "/_plugins/_ml/agents/_search"),
    ("post", "/_plugins/_ml/agents/_search"),
    ("get", "/_plugins/_ml/agents/{agentId}"),
    ("put", "/_plugins/_ml/agents/{agentId}"),
    ("delete", "/_plugins/_ml/agents/{agentId}"),
    ("post", "/_plugins/_ml/memory_containers/_create"),
    ("get", "/_plugins/_ml/memory_containers/_search"),
    ("post", "/_plugins/_ml/memory_containers/_search"),
    ("get", "/_plugins/_ml/memory_containers/{containerId}"),
    ("put", "/_plugins/_ml/memory_containers/{containerId}"),
    ("delete", "/_plugins/_ml/memory_containers/{containerId}"),
    ("post", "/_plugins/_ml/memory_containers/_retention/_execute"),
    ("post", "/_plugins/_ml/memory_containers/_retention/_dry_run"),
    ("post", "/_plugins/_ml/memory_containers/{containerId}/_retention/_dry_run"),
    ("post", "/_plugins/_ml/memory_containers/{containerId}/memories"),
    *(
        ("post", f"/_plugins/_ml/memory_containers/{{containerId}}/memories/{each}")
        for each in ("sessions", "long-term", "history", "{memoryType}/_delete_by_query")
    ),
    *(
        (method, f"/_plugins/_ml/memory_containers/{{containerId}}/memories/{each}_search")
        for method in ("get", "post")
        for each in ("{memoryType}/", "long-term/_semantic", "long-term/_hybrid")
    ),
    *(
        (method, "/_plugins/_ml/memory_containers/{containerId}/memories/{memoryType}/{memoryId}")
        for method in ("get", "put", "delete")
    ),
    ("post", "/_plugins/_ml/memory"),
    ("get", "/_plugins/_ml/memory"),
    ("get", "/_plugins/_ml/memory/{conversationId}"),
    ("put", "/_plugins/_ml/memory/{conversationId}"),
    ("delete", "/_plugins/_ml/memory/{conversationId}"),
    ("get", "/_plugins/_ml/memory/{conversationId}/messages"),
    ("post", "/_plugins/_ml/memory/{conversationId}/messages"),
    *(
        (method, f"/_plugins/_ml/memory/{each}_search")
        for method in ("get", "post")
        for each in ("", "{conversationId}/")
    ),
    ("get", "/_plugins/_ml/memory/message/{messageId}"),
    ("put", "/_plugins/_ml/memory/message/{messageId}"),
    ("get", "/_plugins/_ml/memory/message/{messageId}/traces"),
    ("post", "/v1/chat/completions"),
    ("get", "/v1/chat/completions/{completionId}"),
    ("post", "/v1/responses"),
    *((method, "/v1/responses/{responseId}") for method in ("get", "delete")),
    ("post", "/v1/responses/{responseId}/cancel"),
    ("get", "/v1/responses/{responseId}/input_items"),
    ("get", "/v1/models"),
    ("get", "/v1/models/{model}"),
    ("post", "/v1/conversations"),
    *((method, "/v1/conversations/{conversation}") for method in ("get", "post", "delete")),
    *((method, "/v1/conversations/{conversation}/items") for method in ("get", "post")),
    *((method, "/v1/conversations/{conversation}/items/{itemId}") for method in ("get", "delete")),
    ("get", "/.well-known/agent-card.json"),
    ("post", "/a2a"),
    ("post", "/a2a/message:send"),
    ("post", "/a2a/message:stream"),
    ("get", "/a2a/tasks"),
    ("get", "/a2a/tasks/{taskId}"),
    *(("post", f"/a2a/tasks/{{taskId}}:{each}") for each in ("cancel", "subscribe")),
    *((method, "/a2a/tasks/{taskId}/pushNotificationConfigs") for method in ("get", "post")),
    *((method, "/a2a/tasks/{taskId}/pushNotificationConfigs/{configId}") for method in ("get", "delete")),
    ("get", "/a2a/extendedAgentCard"),
    ("post", "/process"),
    ("post", "/agents/{agentId}/process"),
    ("get", "/process/{responseId}"),
    ("post", "/process/{responseId}/cancel"),
    ("post", "/visitors"),
    ("get", "/healthz"),
    ("get", "/readyz"),
    ("get", "/metrics"),
    ("get", "/openapi.json"),
}

ALIAS = "/compatible-mode/v1"  # of all that is below /v1; the document says so in words
A2A_OF_AGENTS = "/agents/{agentId}/a2a"  # each agent has all that the default one has; the document says so in words
A2A_ALIASES = {
    ("post", "/a2a/"),
    ("get", "/a2a/tasks/{taskId}:subscribe"),
    *(("get", f"{where}/.well-known/agent{each}.json") for where in ("", "/a2a") for each in ("", "-card")),
    ("get", "/agents/{agentId}/.well-known/agent-card.json"),
} - {("get", "/.well-known/agent-card.json")}
# what browsers show; its shape is nobody's contract


def openapi_document() -> JsonObject:
    own = api_data("gateway.openapi", "service")
    return documents.openapi_document(
        [*(protocol.api for protocol in collect("protocols", WireProtocol).values()), own]
    )


def operations() -> dict[tuple[str, str], dict[str, Any]]:
    document: dict[str, Any] = openapi_document()
    return {(method, path): operation for path, item in document["paths"].items() for method, operation in item.items()}


def test_the_document_is_openapi() -> None:
    assert list(OpenAPIV31SpecValidator(openapi_document()).iter_errors()) == []


def test_every_endpoint_is_in_the_document() -> None:
    assert set(operations()) == ENDPOINTS


def test_every_operation_says_how_it_fails() -> None:
    for (method, path), operation in operations().items():
        if operation.get("security") == []:
            assert path in ("/healthz", "/readyz", "/openapi.json", "/.well-known/agent-card.json")
            continue
        assert {"401", "403"} <= set(operation["responses"])
        if "requestBody" in operation:
            invalid = (
                {"400"} if path.startswith(("/_", "/v1/", "/a2a")) else {"400", "422"}
            )  # OpenSearch, OpenAI and A2A know no 422
            assert {*invalid, "413", "415"} <= set(operation["responses"]), f"{method} {path}"
        if "{" in path and method not in ("delete", "put"):  # what a PUT does not find it makes
            assert "404" in operation["responses"]


def test_every_answer_carries_a_request_id_and_every_stream_is_one() -> None:
    document: dict[str, Any] = openapi_document()
    streams = set()
    for key, operation in operations().items():
        for answer in operation["responses"].values():
            if "$ref" in answer:
                answer = document["components"]["responses"][answer["$ref"].rpartition("/")[2]]
            assert "x-request-id" in answer["headers"]
            if "text/event-stream" in answer.get("content", {}):
                streams.add(key[1])
    assert streams == {
        "/agents/{agentId}/run",
        "/agents/{agentId}/connect",
        "/runs/{runId}/events",
        "/_plugins/_ml/agents/{agentId}/_execute/stream",
        "/v1/chat/completions",
        "/v1/responses",
        "/v1/responses/{responseId}",
        "/a2a",
        "/a2a/message:stream",
        "/a2a/tasks/{taskId}:subscribe",
        "/process",
        "/agents/{agentId}/process",
        "/process/{responseId}",
    }


def test_no_shape_is_left_unused() -> None:
    document: dict[str, Any] = openapi_document()
    used = set(re.findall(r"#/components/schemas/(\w+)", str(document)))
    assert used == set(document["components"]["schemas"])


class Outline(HTMLParser):
    """Names of the page's tags, its anchors and what it links to."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.ids: list[str] = []
        self.links: set[str] = set()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in ("meta", "link", "br"):
            self.open.append(tag)
        for name, value in attrs:
            assert name not in ("style", "onclick"), "the content security policy forbids it"
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "src"):
                self.links.add(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def outline(page: str) -> Outline:
    parser = Outline()
    parser.feed(page)
    assert parser.open == []
    return parser


def test_the_page_holds_every_operation_and_all_its_links_lead_somewhere() -> None:
    page = outline(render_page(openapi_document(), stylesheet="docs/style.css"))
    assert {operation["operationId"] for operation in operations().values()} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    for link in page.links:
        if link.startswith("#"):
            assert link[1:] in page.ids
        else:
            assert link in ("openapi.json", "docs/style.css") or link.startswith("https://docs.ag-ui.com")
    assert not page.tags & {"script", "iframe", "img", "style", "form"}


def test_what_the_document_says_is_text_on_the_page() -> None:
    document = openapi_document()
    evil = '<script>alert(1)</script> & "quotes" `<b>` javascript:alert(1)'
    document["info"] = {"title": evil, "version": __version__, "description": evil}
    page = render_page(document, stylesheet="x")
    assert "<script" not in page
    assert "<b>" not in page
    assert 'href="javascript' not in page


@asynccontextmanager
async def client_of(app: ASGIApp) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        yield client


async def test_the_page_is_served_with_a_policy_that_lets_nothing_foreign_in() -> None:
    async with client_of(Starlette(routes=list(docs_routes(openapi_document)))) as http:
        answer = await http.get("/docs")
        style = await http.get("/docs/style.css")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'; style-src 'self'")
    assert style.headers["content-type"].startswith("text/css")
    assert "url(" not in style.text
    assert "@import" not in style.text


async def test_the_document_is_served() -> None:
    async with client_of(Starlette(routes=list(docs_routes(openapi_document)))) as http:
        document: JsonObject = (await http.get("/openapi.json")).json()
    assert document == openapi_document()


def test_every_protocol_has_its_part_in_the_data_of_a_room_and_no_room_has_another() -> None:
    rooms = [f"gateway.{room}" for room in ("protocols", *ROOMS)]
    written = [name for room in rooms for name in written_parts(room)]
    assert sorted(written) == sorted(collect("protocols", WireProtocol))


# --- a protocol's part ---------------------------------------------------------------------------------------------


DESCRIBED = """# gateway/protocols/ping.py
from gateway.openapi.description import ApiDescription, described_json, operation
from gateway.openapi.shapes import object_of, text
from gateway.protocol import WireProtocol

OPERATION = operation("pings", "ping", "Answer", {"200": described_json("Pong", "The answer.")})
API = ApiDescription(
    {"pings": "To see who is there."}, [("/ping", "get", OPERATION)], {"Pong": object_of([], {"said": text()})}
)
PROTOCOL = WireProtocol("ping", lambda environment: [], api=API)
"""


async def test_a_protocol_s_paths_are_in_the_document_and_on_the_page(tmp_path: Path) -> None:
    with file_in_room(DESCRIBED, tmp_path):
        application = Application(load_settings(environ={}))
    async with client_of(application.asgi) as http:
        document = (await http.get("/openapi.json")).json()
        page = outline((await http.get("/docs")).text)

    assert document["paths"]["/ping"]["get"]["operationId"] == "ping"
    assert {"name": "pings", "description": "To see who is there."} in document["tags"]
    assert {"ping", "shape-Pong"} <= set(page.ids)
    assert list(OpenAPIV31SpecValidator(document).iter_errors()) == []


def test_two_protocols_that_describe_one_name_differently_are_refused() -> None:
    one = ApiDescription(schemas={"Thing": {"type": "string"}})
    with pytest.raises(ConfigurationError, match="'Thing'"):
        documents.openapi_document([one, ApiDescription(schemas={"Thing": {"type": "object"}})])
    shared: Any = documents.openapi_document([one, ApiDescription(schemas={"Thing": {"type": "string"}})])
    assert shared["components"]["schemas"]["Thing"] == {"type": "string"}


# --- the document and the application -------------------------------------------------------------------------------


@pytest.fixture
def application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Application:
    monkeypatch.chdir(tmp_path)
    return Application(load_settings(environ={}))


def test_the_document_and_the_routes_agree(application: Application) -> None:
    def camel(found: re.Match[str]) -> str:
        return re.sub(r"_(\w)", lambda part: part[1].upper(), f"{{{found[1]}}}")

    pages = {route.path for route in read_page().routes()}
    served = {
        (method.lower(), re.sub(r"\{(\w+)(?::\w+)?\}", camel, route.path))
        for route in application.starlette.routes
        if isinstance(route, Route) and not route.path.startswith("/docs") and route.path not in pages
        for method in route.methods or ()
        if method != "HEAD"
    }
    aliases = {(method, path) for method, path in served if path.startswith(ALIAS)}
    assert {(method, path.removeprefix(ALIAS)) for method, path in aliases} == {
        (method, path.removeprefix("/v1")) for method, path in ENDPOINTS if path.startswith("/v1/")
    }
    of_agents = {(method, path) for method, path in served if path.startswith(A2A_OF_AGENTS)}
    of_default = {(method, path) for method, path in served if path.startswith("/a2a")}
    assert {(method, path.removeprefix("/agents/{agentId}")) for method, path in of_agents} == of_default
    assert served - aliases - of_agents - A2A_ALIASES == ENDPOINTS


@pytest.mark.thorough
async def test_what_is_answered_has_the_documented_shape(application: Application) -> None:
    message = {"id": "m1", "role": "user", "content": "refund order 12 with 20 dollars"}
    run = {"threadId": "t1", "runId": "r1", "messages": [message]}
    asked: list[tuple[str, str, str, JsonObject | None]] = [
        ("get", "/agents", "/agents", None),
        ("get", "/agents/{agentId}/capabilities", "/agents/assistant/capabilities", None),
        ("get", "/agents/{agentId}/capabilities", "/agents/nobody/capabilities", None),
        ("get", "/runs/{runId}", "/runs/r1", None),
        ("get", "/runs/{runId}", "/runs/r2", None),
        ("get", "/runs/{runId}/events", "/runs/r1/events", None),
        ("get", "/runs/{runId}/events", "/runs/r1/events?after=100000", None),
        ("get", "/runs/{runId}/events", "/runs/r1/events?after=x", None),
        ("post", "/runs/{runId}/cancel", "/runs/r1/cancel", None),
        ("get", "/threads", "/threads", None),
        ("get", "/threads", "/threads?limit=0", None),
        ("get", "/threads/{threadId}/messages", "/threads/t1/messages?limit=1", None),
        ("patch", "/threads/{threadId}", "/threads/t1", {"title": "A title"}),
        ("patch", "/threads/{threadId}", "/threads/t1", {"titel": "A title"}),
        ("delete", "/threads/{threadId}", "/threads/t1", None),
        ("delete", "/threads/{threadId}", "/threads/t1", None),
        ("post", "/agents/{agentId}/run", "/agents/assistant/run", {"runId": "r3"}),
        ("post", "/visitors", "/visitors", {}),
        ("get", "/healthz", "/healthz", None),
        ("get", "/readyz", "/readyz", None),
        ("get", "/metrics", "/metrics", None),
    ]
    lifespan = application.starlette.router.lifespan_context(application.starlette)
    async with lifespan, client_of(application.asgi) as http:
        assert (await http.post("/agents/assistant/run", json=run)).status_code == 200
        for method, path, url, body in asked:
            answer = await http.request(method, url, json=body)
            check(operations()[method, path], answer)


def check(operation: dict[str, Any], answer: httpx.Response) -> None:
    document: dict[str, Any] = openapi_document()
    where = f"{answer.request.method} {answer.request.url}: {answer.status_code}"
    assert str(answer.status_code) in operation["responses"], where
    documented = operation["responses"][str(answer.status_code)]
    if "$ref" in documented:
        documented = document["components"]["responses"][documented["$ref"].rpartition("/")[2]]
    media_type = answer.headers.get("content-type", "").partition(";")[0]
    assert media_type in documented.get("content", {"": None}), where
    if media_type.endswith("json"):
        schema = {**documented["content"][media_type]["schema"], "components": document["components"]}
        problems = [error.message for error in jsonschema_rs.validator_for(schema).iter_errors(answer.json())]
        assert problems == [], where
