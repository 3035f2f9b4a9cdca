"""Names of foreign packages that nobody promised to keep, and the versions in which they are there.

The gateway subclasses uvicorn's connection and sse-starlette's response, and reads bodies from aiohttp's own buffer:
each saves what performance.md tells. A release that takes one of these names away is to fail here, with a sentence,
and not in a stream.
"""

from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
import logging
import re
import tomllib
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
import uvicorn
from aiohttp.base_protocol import BaseProtocol
from aiohttp.streams import StreamReader
from packaging.requirements import Requirement
from packaging.version import Version
from sse_starlette.sse import AppStatus, EventSourceResponse
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from gateway.server.connection import Connection

ROOT = Path(__file__).parent.parent


def _protocol() -> HttpToolsProtocol:
    return HttpToolsProtocol(uvicorn.Config(_nothing, log_config=None), ServerState(), {}, asyncio.get_running_loop())


async def _nothing(scope: object, receive: object, send: object) -> None:
    raise AssertionError("nobody asks this application")


def _cycle() -> RequestResponseCycle:
    log = logging.getLogger("nothing")
    transport = asyncio.Transport()
    event = asyncio.Event()
    return RequestResponseCycle(
        {},  # type: ignore[typeddict-item]
        transport, FlowControl(transport), log, log, False, [], event, False, True, lambda: None,
    )  # fmt: skip


def _flow() -> FlowControl:
    return FlowControl(asyncio.Transport())


def _body() -> StreamReader:
    loop = asyncio.get_running_loop()
    return StreamReader(BaseProtocol(loop), 2**16, loop=loop)


# Whose they are, what has them, their names, and who needs them for what.
PRIVATE_NAMES: list[tuple[str, Callable[[], object], tuple[str, ...], str]] = [
    (
        "uvicorn",
        _protocol,
        ("_start_asgi_task", "_unset_keepalive_if_required"),
        "server/connection.py learns from it which answer is under way, and that somebody talks",
    ),
    (
        "uvicorn",
        _protocol,
        ("on_message_begin", "on_headers_complete", "on_body", "on_message_complete", "on_response_complete"),
        "server/connection.py extends what the parser calls",
    ),
    (
        "uvicorn",
        _protocol,
        ("connections", "cycle", "flow", "headers", "loop", "parser", "pipeline", "scope", "transport", "url"),
        "server/connection.py reads the request from it",
    ),
    ("uvicorn", _protocol, ("shutdown",), "server/connection.py learns from it that the server ends"),
    (
        "uvicorn",
        _cycle,
        (
            "chunked_encoding",
            "disconnected",
            "expected_content_length",
            "keep_alive",
            "message_event",
            "response_complete",
            "response_started",
            "scope",
            "send",
            "transport",
            "waiting_for_100_continue",
        ),
        "server/connection.py sees there how far an answer is, and answers HTTP/1.0",
    ),
    ("uvicorn", _flow, ("read_paused", "write_paused"), "server/connection.py sees there whether a client is behind"),
    ("uvicorn", _flow, ("resume_reading",), "server/connection.py reads nothing while a request waits for its turn"),
    (
        "uvicorn",
        lambda: importlib.import_module("uvicorn._types"),
        ("ASGI3Application", "ASGISendEvent"),
        "server/connection.py has its types from there",
    ),
    (
        "aiohttp",
        _body,
        ("_buffer", "_wait"),
        "http_client/clients.py joins the pieces of a body that wait there, and waits for the first of them",
    ),
    (
        "sse-starlette",
        lambda: EventSourceResponse,
        ("DEFAULT_PING_INTERVAL", "__call__"),
        "sse.py replaces how a stream is sent",
    ),
    ("sse-starlette", lambda: AppStatus, ("disable_automatic_graceful_drain",), "sse.py ends the streams itself"),
]

# The URL is an attribute from a request's first line on, not before.
_SET_LATER = {"url"}


def _requirement(package: str) -> Requirement:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return next(each for each in map(Requirement, project["dependencies"]) if each.name == package)


@pytest.mark.parametrize(
    ("package", "make", "name", "why"),
    [
        pytest.param(package, make, name, why, id=f"{package} {name}")
        for package, make, names, why in PRIVATE_NAMES
        for name in names
    ],
)
async def test_the_private_name_is_there(package: str, make: Callable[[], object], name: str, why: str) -> None:
    owner = make()
    is_there = hasattr(owner, name) or (name in _SET_LATER and f"self.{name} = " in inspect.getsource(type(owner)))
    assert is_there, (
        f"{package} {version(package)} has no {name} in {owner!r} any more: {why}. "
        f"Mend that, or let pyproject.toml ask for an older {package}."
    )


async def test_the_private_names_are_used_in_the_way_they_are_made_for() -> None:
    assert len(_body()._buffer) == 0, "a collection of the pieces that are there"
    assert list(inspect.signature(StreamReader._wait).parameters) == ["self", "func_name"]
    assert list(inspect.signature(HttpToolsProtocol._start_asgi_task).parameters) == ["self", "cycle", "app"]
    assert list(inspect.signature(HttpToolsProtocol._unset_keepalive_if_required).parameters) == ["self"]


@pytest.mark.parametrize("package", sorted({package for package, *_ in PRIVATE_NAMES}))
def test_a_package_with_private_names_in_use_has_a_lowest_and_a_highest_version(package: str) -> None:
    requirement = _requirement(package)
    bounds = {each.operator for each in requirement.specifier}
    assert bounds == {">=", "<"}, f"pyproject.toml bounds {package} on one side at most: {requirement}"
    assert Version(version(package)) in requirement.specifier


# A named tuple's, which is public in spite of its name; and one without which the code does.
_NEEDS_NO_TEST = {"_replace": "", "_transport": "child_process.py"}


def test_no_other_private_name_is_in_use() -> None:
    texts = {path.name: path.read_text() for path in (ROOT / "gateway").rglob("*.py")}
    whole = "\n".join(texts.values())
    listed = {name for _, _, names, _ in PRIVATE_NAMES for name in names}
    foreign = {
        (name, path)
        for path, text in texts.items()
        for name in _private_names_asked_of_others(text)
        if name not in listed
        and not re.search(rf"(self\.|def ){name}\b", whole)
        and _NEEDS_NO_TEST.get(name) not in ("", path)
    }
    assert not foreign, "private names that this file does not list"


def _private_names_asked_of_others(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                continue
            case ast.Attribute(attr=name):
                pass
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(name)), *_]):
                pass
            case _:
                continue
        if re.match("_[a-z]", name):
            yield name


def test_all_that_a_connection_takes_from_uvicorns_is_listed() -> None:
    tree = ast.parse(inspect.getsource(Connection))
    asked = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("self", "super()")
    }
    own = set(vars(Connection)) - set(vars(HttpToolsProtocol)) - set(vars(asyncio.Protocol))
    promised = {name for base in asyncio.Protocol.__mro__ for name in vars(base)}
    listed = {name for package, _, names, _ in PRIVATE_NAMES if package == "uvicorn" for name in names}
    assert asked - own - promised <= listed
