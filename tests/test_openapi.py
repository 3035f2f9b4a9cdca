"""The OpenAPI document and its page."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import httpx
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from starlette.applications import Starlette

from gateway import __version__
from gateway.docs_page import render_page
from gateway.messages import JsonObject
from gateway.openapi import docs_routes, openapi_document

ENDPOINTS = {
    ("post", "/agents/{agentId}/run"),
    ("post", "/agents/{agentId}/connect"),
    ("get", "/agents"),
    ("get", "/agents/{agentId}/capabilities"),
    ("get", "/runs/{runId}"),
    ("get", "/runs/{runId}/events"),
    ("post", "/runs/{runId}/cancel"),
    ("get", "/threads"),
    ("get", "/threads/{threadId}/messages"),
    ("patch", "/threads/{threadId}"),
    ("delete", "/threads/{threadId}"),
    ("get", "/healthz"),
    ("get", "/readyz"),
    ("get", "/metrics"),
    ("get", "/openapi.json"),
}


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
            assert path in ("/healthz", "/readyz", "/openapi.json")
            continue
        assert {"401", "403"} <= set(operation["responses"])
        if "requestBody" in operation:
            assert {"400", "413", "415", "422"} <= set(operation["responses"]), f"{method} {path}"
        if "{" in path and method != "delete":
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
    assert streams == {"/agents/{agentId}/run", "/agents/{agentId}/connect", "/runs/{runId}/events"}


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


@pytest.fixture
async def http() -> Any:
    transport = httpx.ASGITransport(Starlette(routes=list(docs_routes())))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


async def test_the_page_is_served_with_a_policy_that_lets_nothing_foreign_in(http: httpx.AsyncClient) -> None:
    answer = await http.get("/docs")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'; style-src 'self'")
    style = await http.get("/docs/style.css")
    assert style.headers["content-type"].startswith("text/css")
    assert "url(" not in style.text
    assert "@import" not in style.text


async def test_the_document_is_served(http: httpx.AsyncClient) -> None:
    document: JsonObject = (await http.get("/openapi.json")).json()
    assert document == openapi_document()
