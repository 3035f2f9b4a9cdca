"""Whose form an error has: the most specific pattern of the path decides."""

from __future__ import annotations

import pytest
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import Scope

from gateway.problems import ErrorForm, Problem, problem_json
from gateway.protocol import WireProtocol
from gateway.protocol.error_forms import ErrorForms


def named(name: str) -> ErrorForm:
    def form(problem: Problem, scope: Scope) -> Response:
        return PlainTextResponse(name)

    return form


async def endpoint(scope: object, receive: object, send: object) -> None: ...


def protocol(name: str, *paths: str) -> WireProtocol:
    return WireProtocol(name, lambda environment: [], paths, named(name))


SERVED = [
    (protocol("all", "/{rest:path}"), []),
    (protocol("v1", "/v1/{rest:path}"), []),
    (protocol("threads", "/v1/threads/{id:path}"), []),
    (protocol("models", "/v1/{kind}/list"), []),
    (protocol("runs"), [Route("/v1/threads/{id:path}/runs", endpoint), Mount("/mounted", endpoint)]),
]


@pytest.mark.parametrize(
    ("path", "whose"),
    [
        ("/", "all"),
        ("/v2/threads", "all"),
        ("/v1/else", "v1"),
        ("/v1/models/list", "models"),
        ("/v1/models/list/more", "v1"),
        ("/v1/threads/list", "threads"),
        ("/v1/threads/t/more", "threads"),
        ("/v1/threads/t/runs", "runs"),
        ("/v1%2Fthreads/t", "all"),
        ("/mounted/anything", "runs"),
    ],
)
def test_the_most_specific_pattern_decides(path: str, whose: str) -> None:
    for served in (SERVED, SERVED[::-1]):
        form = ErrorForms(served).of({"raw_path": path.encode()})
        assert form(Problem(400, "wrong", "It was wrong."), {}).body == whose.encode()


def test_where_no_pattern_matches_it_is_problem_json() -> None:
    assert ErrorForms(SERVED[1:]).of({"raw_path": b"/v2"}) is problem_json
