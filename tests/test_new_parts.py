"""A newcomer adds a part as one new file and edits nothing: a model, a tool, an agent type, a store, a search engine,
a protocol, each dropped in and seen to come alive, in both ways that there are: a file in its room, and a package of
one's own with entry points.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import gateway
from tests.running_gateway import (
    Frame,
    GatewayProcess,
    agent,
    gateway_process,
    run_body,
    scripted,
    write_configuration,
)

# --- what a newcomer writes: one file each

MODEL = '''
"""A model that says everything backwards."""

from gateway.events import StopReason
from gateway.model import ModelCapabilities, ModelProvider
from gateway.providers.answer_builder import AnswerBuilder


class Backwards:
    provider = "backwards"
    model_id = "b-1"
    capabilities = ModelCapabilities()

    async def stream(self, request):
        builder = AnswerBuilder(request, self.provider, self.model_id)
        builder.text(0, request.messages[-1].text[::-1])
        builder.finish(StopReason.END_TURN)
        yield builder.take()

    async def close(self):
        return None


PROVIDER = ModelProvider("backwards", lambda settings, environment: Backwards(), needs_model_id=False)
'''

TOOL = '''
"""A tool that rolls a die which everybody knows."""

from gateway.messages import TextBlock, ToolSpec
from gateway.tool import SingleTool, ToolType


class Die:
    spec = ToolSpec("roll", "Roll a die.", {"type": "object", "properties": {}})

    async def call(self, arguments, context):
        return (TextBlock("four"),)


TYPE = ToolType("DieTool", lambda settings, environment: SingleTool(Die()))
'''

LOOP = '''
"""An agent that asks no model: it repeats what the user said."""

from gateway.events import Completed, RunFinished, TextDelta, TextEnded, TextStarted
from gateway.loop import AgentType
from gateway.messages import new_message_id


class Echo:
    def __init__(self, definition):
        self._voice = definition.id

    async def run(self, context):
        name = new_message_id()
        yield [TextStarted(name), TextDelta(name, f"{self._voice}: " + context.messages[-1].text), TextEnded(name)]
        yield [RunFinished(Completed())]


TYPE = AgentType("echo", lambda definition, environment: Echo(definition))
'''

STORE = '''
"""A store under a name of its own: SQLite in memory."""

from gateway.sqlite.address import parse_address
from gateway.sqlite.store import SqliteStore
from gateway.store import StoreType


def open_forgetful(url, environment):
    return SqliteStore(parse_address("sqlite://:memory:", environment.directory))


STORE = StoreType("forgetful", open_forgetful)
'''

SEARCH_ENGINE = '''
"""An engine with one index and nothing in it."""

from gateway.search_engine import SearchEngineType


class Nothing:
    has_plugins = False

    async def list_indices(self, names, asker):
        return [{"index": "nothing-at-all", "docs.count": 0}]

    async def mapping(self, names, asker):
        return {}

    async def search(self, index, body, asker):
        return {"took": 0, "timed_out": False, "hits": {"total": {"value": 0, "relation": "eq"}, "hits": []}}

    async def close(self):
        return None


ENGINE = SearchEngineType("nothing", lambda settings, environment: Nothing())
'''

PROTOCOL = '''
"""A protocol of one line: the answer's words alone, as plain text."""

from starlette.responses import PlainTextResponse
from starlette.routing import Route

from gateway.agent import text_input
from gateway.events import TextDelta
from gateway.messages import new_id
from gateway.protocol import WireProtocol, caller_of, read_json


def routes(environment):
    async def say(request):
        body = await read_json(request)
        given = text_input(body["say"], thread_id=new_id("thread"), run_id=new_id("run"))
        viewer = await environment.start(caller_of(request), body["agent"], given)
        words = []
        try:
            while (batch := await viewer.next(15)) is None or batch.events:
                words += [event.text for event in (batch.events if batch else ()) if isinstance(event, TextDelta)]
        finally:
            viewer.close()
        return PlainTextResponse("".join(words))

    return [Route("/say", say, methods=["POST"])]


PROTOCOL = WireProtocol("say", routes)
'''

PARTS = {
    "models": MODEL,
    "tools": TOOL,
    "loops": LOOP,
    "stores": STORE,
    "search_engines": SEARCH_ENGINE,
    "protocols": PROTOCOL,
}

AGENTS = [
    agent("backwards", {"model_provider": "backwards"}),
    agent("roller", scripted([{"tool": "roll"}], [{"text": "It is {{result}}."}]), tools=[{"type": "DieTool"}]),
    agent("echo", scripted(), type="echo"),
    agent("lister", scripted([{"tool": "ListIndexTool"}], [{"text": "done"}]), tools=[{"type": "ListIndexTool"}]),
]


def into_the_rooms(directory: Path) -> Path:
    """The gateway as the newcomer has it checked out, with a file more in each room."""
    package = Path(gateway.__file__).parent
    shutil.copytree(package, directory / "gateway", ignore=shutil.ignore_patterns("__pycache__"))
    for room, text in PARTS.items():
        (directory / "gateway" / room / "newcomer.py").write_text(text)
    return directory


def as_a_package(directory: Path) -> Path:
    """A package of the newcomer's own, as pip would leave it: modules, and entry points in the rooms' names."""
    package = directory / "newcomer"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    described = directory / "newcomer-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: newcomer\nVersion: 1.0\n")
    points = []
    for room, text in PARTS.items():
        (package / f"{room}.py").write_text(text)
        points.append(f"[gateway.{room}]\nnewcomer = newcomer.{room}\n")
    (described / "entry_points.txt").write_text("\n".join(points))
    return directory


@asynccontextmanager
async def newcomers_gateway(way: str, directory: Path) -> AsyncGenerator[GatewayProcess]:
    found = {"rooms": into_the_rooms, "package": as_a_package}[way](directory / "found")
    work = directory / "work"
    work.mkdir()
    configuration = write_configuration(work, AGENTS, store="forgetful://", search="nothing:")
    async with gateway_process(configuration, env={"PYTHONPATH": str(found)}) as running:
        yield running


@pytest.mark.parametrize("way", ["rooms", "package"])
async def test_new_parts_come_alive_and_nothing_is_edited(tmp_path: Path, way: str) -> None:
    async with newcomers_gateway(way, tmp_path) as running:
        client = running.client

        frames = await client.run("backwards", run_body("olleh", run_id="r-1", thread_id="t-1"))
        assert _text(frames) == "hello", "the model"

        frames = await client.run("roller", run_body("roll", run_id="r-2", thread_id="t-2"))
        assert [f.data["content"] for f in frames if f.type == "TOOL_CALL_RESULT"] == ["four"], "the tool"
        assert _text(frames) == "It is four."

        frames = await client.run("echo", run_body("hi", run_id="r-3", thread_id="t-3"))
        assert _text(frames) == "echo: hi", "the agent type"

        frames = await client.run("lister", run_body("list", run_id="r-4", thread_id="t-4"))
        (listed,) = [f.data["content"] for f in frames if f.type == "TOOL_CALL_RESULT"]
        assert "nothing-at-all" in listed, "the search engine"

        said = await client.http.post("/say", json={"agent": "backwards", "say": "abc"})
        assert (said.status_code, said.text) == (200, "cba"), "the protocol"

        assert (await client.get("/runs/r-1"))["status"] == "completed", "the store"
        assert not list((tmp_path / "work").glob("*.db")), "the new store alone is used"
        assert await running.signal(signal.SIGTERM) == 0
    assert "Traceback" not in running.log.read_text()


def _text(frames: list[Frame]) -> str:
    return "".join(f.data["delta"] for f in frames if f.type == "TEXT_MESSAGE_CONTENT")
