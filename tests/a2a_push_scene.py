"""Tasks whose updates are posted to a local receiver, which does what a test's scripts say; no gateway around them.

async with push_scene(agent_of("a", SAYS_HELLO)) as scene:
    await scene.begin("a", CONFIG)
    assert kinds(await scene.posted(3)) == ["WORKING", "artifact", "COMPLETED"]
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from a2a.types import StreamResponse
from google.protobuf.json_format import ParseDict

from gateway.a2a.dialects import Dialect
from gateway.a2a.push_delivery import PushDelivery
from gateway.access.callers import Caller
from gateway.access.limits import Meter
from gateway.agent import AgentDefinition, ModelSettings
from gateway.agents.open_agent import OpenAgent
from gateway.loops.react import ReactLoop
from gateway.messages import JsonObject, Message, TextBlock, ToolSpec
from gateway.models.scripted import ScriptedModel, parse_script
from gateway.protocol import ProtocolEnvironment
from gateway.runs.driver import RunOptions
from gateway.sse import OpenStreams
from gateway.store import RunRecord
from tests.agent_inputs import agent_input
from tests.movable_clock import MovableClock
from tests.openai_chat_server import ChatServer, Received, Script
from tests.runner_scene import Scene, runner_scene
from tests.stub_internet import Internet, internet
from tests.waiting import until

ALICE: Final = Caller("alice", "alice")
TASK: Final = "task_" + "a" * 32
THREAD: Final = "ctx_1"
TOKEN: Final = "a-token-of-the-receiver"
CREDENTIALS: Final = "credentials-of-the-receiver"
CONFIG: Final[Mapping[str, Any]] = {
    "id": "hook",
    "url": "http://media.example/hook",
    "token": TOKEN,
    "authentication": {"scheme": "Bearer", "credentials": CREDENTIALS},
}
TAKEN: Final = Script(202)
REFUSED: Final = Script(500)


@dataclass
class PushScene:
    """The caller is ALICE. `net` says where names lead."""

    runs: Scene
    environment: ProtocolEnvironment
    push: PushDelivery
    receiver: ChatServer
    net: Internet

    async def begin(
        self,
        agent_id: str,
        *configs: Mapping[str, Any],
        task_id: str = TASK,
        run_id: str = "",
        thread_id: str = THREAD,
        text: str = "hello",
        dialect: Dialect = Dialect.V1,
        origin: str = "a2a",
    ) -> None:
        """Begin a run of the task, with these configs. Its client has the tool `ask_user`."""
        run_id = run_id or task_id
        given = agent_input(
            thread_id,
            run_id,
            (Message(f"msg_{run_id}", "user", (TextBlock(text),)),),
            tools=(ToolSpec("ask_user", "Asks.", {"type": "object"}),),
            history="append",
            unattended=True,
            protocol=origin,
            request={"task": task_id} if origin == "a2a" else None,
        )
        viewer = await self.environment.start(ALICE, agent_id, given)
        viewer.close()
        for config in configs:
            await self.put(config, task_id=task_id, first_run=run_id, dialect=dialect)

    async def put(
        self,
        config: Mapping[str, Any] = CONFIG,
        *,
        task_id: str = TASK,
        first_run: str = "",
        dialect: Dialect = Dialect.V1,
    ) -> Any:
        read = self.push.read(dict(config), "/config", dialect)
        return await self.push.put(ALICE, task_id, read, first_run=first_run)

    async def posted(self, count: int) -> list[Any]:
        """The bodies of the first `count` requests, once they have come."""
        await self.receiver.received(count)
        return [request.json for request in self.receiver.requests[:count]]

    async def until_quiet(self) -> None:
        """Until nothing is being posted."""
        await until(lambda: not self.push._followers)

    async def run(self, run_id: str = TASK) -> RunRecord:
        return await self.environment.run(ALICE, run_id)

    async def until_ended(self, run_id: str = TASK) -> None:
        await self.runs.until_idle()
        assert (await self.run(run_id)).status.ended


def asking_agent(id: str) -> OpenAgent:
    """Calls its client's tool `ask_user`, unless it is thanked."""
    thanked: JsonObject = {"when": {"last_user_contains": "thanks"}, "response": [{"text": "welcome"}]}
    settings = ModelSettings(
        "scripted",
        model_parameters={"responses": [[{"tool": "ask_user", "arguments": {}}]], "rules": [thanked]},
    )
    definition = AgentDefinition(id, id, "conversational", settings)
    return OpenAgent(
        definition, ReactLoop(), ScriptedModel(parse_script(settings.model_parameters), MovableClock()), []
    )


@asynccontextmanager
async def push_scene(*agents: OpenAgent, options: RunOptions | None = None) -> AsyncGenerator[PushScene]:
    """The receiver takes a request for each `TAKEN` that it gets first; others are errors, which are tried again."""
    async with runner_scene(*agents, options=options) as runs, internet(clock=runs.clock) as (clients, receiver, net):
        environment = ProtocolEnvironment(
            runs.runner, OpenStreams(), Meter(runs.clock, "runs"), fetcher=clients.fetcher
        )
        push = environment.shared(PushDelivery)
        try:
            yield PushScene(runs, environment, push, receiver, net)
        finally:
            await runs.runner.driver.shut_down(0)
            await push.close()


def kinds(bodies: Sequence[Any]) -> list[str]:
    """What notifications of 1.0 say: a state, `task STATE`, or `artifact`. Each has to be a StreamResponse."""
    return [_kind(body) for body in bodies]


def _kind(body: Any) -> str:
    ParseDict(body, StreamResponse())
    ((kind, value),) = body.items()
    if kind == "artifactUpdate":
        return "artifact"
    return state_of(value) if kind == "statusUpdate" else f"task {state_of(value)}"


def state_of(value: Any) -> str:
    state: str = value["status"]["state"]
    return state.removeprefix("TASK_STATE_")


def words_of(body: Any) -> str:
    """The text of an artifact, or of a task's artifacts."""
    artifacts = [body["artifactUpdate"]["artifact"]] if "artifactUpdate" in body else body["task"]["artifacts"]
    return "".join(part["text"] for artifact in artifacts for part in artifact["parts"])


def received_of(server: ChatServer, path: str) -> list[Received]:
    return [request for request in server.requests if request.target == path]
