"""`agui-gateway agents list|add|remove`, run as a command against a gateway in a process of its own."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.cli import main
from tests.openai_chat_server import ChatServer, Script, chat_server, completion
from tests.running_gateway import (
    GatewayProcess,
    agent,
    gateway_command,
    gateway_process,
    run_body,
    scripted,
    write_configuration,
)

ALICE, BOB = "alice-key-of-the-tests", "bob-key-of-the-tests-too"
KEYS = {"api_keys": [{"name": "alice", "key": ALICE}, {"name": "bob", "key": BOB}]}
AGENT = """\
id: {id}
name: Mine
public: {public}
model:
  model_provider: openai/v1/chat/completions
  model_id: gpt-5
  endpoint: {endpoint}
  credential:
    openai_api_key: ${{env:KEY_OF_THE_MODEL}}
"""


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class CommandScene:
    """A running gateway, the model server that its callers may reach, and a person with a shell beside it."""

    gateway: GatewayProcess
    models: ChatServer
    directory: Path

    async def agents(
        self, *words: str, key: str = ALICE, stdin: str = "", model_key: str = "sk-from-the-shell"
    ) -> Answer:
        """`agui-gateway agents ...`."""
        with tempfile.TemporaryFile("w+") as given, tempfile.TemporaryFile("w+") as errors:
            given.write(stdin)
            given.seek(0)
            code, out = await gateway_command(
                self.directory, "agents", *words, "--url", self.gateway.client.base_url,
                env={"AGUI_GATEWAY_KEY": key, "KEY_OF_THE_MODEL": model_key},
                stdin=given.fileno(), stderr=errors.fileno(),
            )  # fmt: skip
            errors.seek(0)
            return Answer(code, out, errors.read())

    def written(self, id: str = "mine", *, public: bool = False, endpoint: str | None = None) -> str:
        return AGENT.format(id=id, public=str(public).lower(), endpoint=endpoint or self.models.endpoint)

    def write(self, text: str) -> str:
        (self.directory / "agent.yaml").write_text(text)
        return "agent.yaml"


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncGenerator[CommandScene]:
    async with command_scene(tmp_path) as opened:
        yield opened


@asynccontextmanager
async def command_scene(directory: Path) -> AsyncGenerator[CommandScene]:
    async with chat_server() as models:
        callers = {"endpoints": [rf"^http://127\.0\.0\.1:{models.port}/.*$"], "private_addresses": True}
        configured = agent("configured", scripted([{"text": "hi"}]), name="Of the file")
        path = write_configuration(directory, [configured], server=KEYS, callers=callers)
        async with gateway_process(path) as gateway:
            yield CommandScene(gateway, models, directory)


async def test_an_agent_is_added_listed_used_replaced_and_removed(scene: CommandScene) -> None:
    url = f"{scene.gateway.client.base_url}/agents/mine/run"
    added = await scene.agents("add", scene.write(scene.written()))
    assert added == Answer(0, f"stored the agent 'mine': {url}\n", "")
    listed = await scene.agents("list")
    assert listed == Answer(0, "configured  Of the file: configured\nmine        Mine: yours\n", "")
    scene.models.answers(completion("hello"))
    key = {"authorization": f"Bearer {ALICE}"}
    frames = await scene.gateway.client.run("mine", run_body(), **key)
    assert frames[-1].type == "RUN_FINISHED"
    assert scene.models.requests[0].headers["authorization"] == "Bearer sk-from-the-shell"
    replaced = await scene.agents("add", "-", stdin=scene.written(public=True))
    assert replaced == Answer(0, f"replaced the agent 'mine': {url}\n", "")
    assert "mine        Mine: of somebody else, public\n" in (await scene.agents("list", key=BOB)).out
    rows = json.loads((await scene.agents("list", "--json")).out)
    assert [(row["id"], row.get("own")) for row in rows] == [("configured", None), ("mine", True)]
    assert await scene.agents("remove", "mine") == Answer(0, "removed the agent 'mine'\n", "")
    gone = await scene.agents("remove", "mine")
    assert (gone.code, gone.out) == (1, "")
    assert "there is no agent 'mine'" in gone.err


async def test_every_page_is_listed(scene: CommandScene) -> None:
    many = {"agents": [{"id": f"a{number:03}", "model": {"model_provider": "anthropic"}} for number in range(501)]}
    block = {"model_provider": "openai/v1/chat/completions", "model_id": "x", "endpoint": scene.models.endpoint}
    for each in many["agents"]:
        each["model"] = {**block, "credential": {"openai_api_key": "sk-x"}}
    added = await scene.agents("add", "-", stdin=json.dumps(many))
    assert (added.code, len(added.out.splitlines()), added.err) == (0, 501, "")
    assert len((await scene.agents("list")).out.splitlines()) == 502


async def test_what_the_gateway_refuses_is_named_by_its_line(scene: CommandScene) -> None:
    good = scene.written("good").replace("\n", "\n    ")
    bad = scene.written("bad", endpoint="http://169.254.169.254/v1").replace("\n", "\n    ")
    file = scene.write(f"agents:\n  - {bad}\n  - {good}\n")
    refused = await scene.agents("add", file)
    assert refused.code == 1
    assert refused.err.startswith("agent.yaml:8:7: agents[0].model.endpoint: may not be reached: ")
    assert refused.out.startswith("stored the agent 'good': "), "one that is wrong keeps no other away"


async def test_what_is_wrong_with_a_file_is_said_before_anything_is_asked(scene: CommandScene) -> None:
    nameless = await scene.agents("add", "-", stdin="name: Mine\n")
    assert nameless == Answer(1, "", "<stdin>:1:1: id: is missing: the agent's id, a text\n")
    unset = await scene.agents("add", scene.write(scene.written()), model_key="")
    assert unset.code == 1
    assert unset.err.startswith("agent.yaml:9:5: model.credential.openai_api_key: the environment variable")
    whole = await scene.agents("add", "-", stdin="server: {port: 1}\nagents: []\n")
    assert (whole.code, "server: is not an agent's" in whole.err) == (1, True)
    absent = await scene.agents("add", "nowhere.yaml")
    assert (absent.code, absent.err) == (1, "nowhere.yaml: cannot be read: No such file or directory\n")
    assert "mine" not in (await scene.agents("list")).out


async def test_a_wrong_key_is_refused(scene: CommandScene) -> None:
    refused = await scene.agents("list", key="nobodys-key-of-the-tests")
    assert (refused.code, refused.out) == (1, "")
    assert "nobodys-key" not in refused.err


def test_where_no_gateway_answers_that_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agents", "list", "--url", "http://127.0.0.1:9"]) == 1
    assert "no gateway answers at http://127.0.0.1:9; start one" in capsys.readouterr().err


async def test_where_something_else_answers_that_is_said(
    scene: CommandScene, capsys: pytest.CaptureFixture[str]
) -> None:
    scene.models.answers(Script(200, (b'{"object": "list"}',), "application/json", framing="length"))
    assert await asyncio.to_thread(main, ["agents", "list", "--url", f"http://127.0.0.1:{scene.models.port}"]) == 1
    assert "is not agui-gateway; name its address by --url" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["list", "--url", "here"], ["add"], ["remove"], ["rename", "x"]])
def test_wrong_usage_ends_with_2(words: list[str]) -> None:
    assert main(["agents", *words]) == 2


async def test_without_an_action_the_agents_of_the_file_are_listed(scene: CommandScene) -> None:
    await scene.agents("add", scene.write(scene.written()))
    _, said = await gateway_command(scene.directory, "agents")
    assert [line.split()[0] for line in said.splitlines()] == ["configured"]
