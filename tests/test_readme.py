"""What the README says is tried as a newcomer would: its snippets are run, its names are looked up."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from gateway.agent import Budgets
from gateway.cli import main
from gateway.configuration.known_parts import known_parts
from gateway.configuration.sections import ServerSection
from gateway.errors import ModelErrorKind
from gateway.settings import Flags, check_settings, example_configuration, load_settings
from tests.agui_client import CLIENT_VERSIONS, HARNESS, find_node
from tests.running_gateway import DEADLINE_SECONDS, agent, local_gateway, parse_frames, run_body, scripted

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
ADDRESS = "http://127.0.0.1:8000"
VARIABLES = {
    "OPENAI_API_KEY": "sk-of-a-newcomer",
    "ANTHROPIC_API_KEY": "sk-ant-of-a-newcomer",
    "ALICE_KEY": "a-key-that-is-long-enough",
}
DEMONSTRATION: list[dict[str, Any]] = yaml.safe_load(example_configuration())["agents"]


def snippets(language: str, containing: str = "") -> list[str]:
    """The code blocks of a language, in order; those with this text in them."""
    found = re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(text) for text in found if containing in text]


def snippet(language: str, containing: str) -> str:
    [found] = snippets(language, containing)
    return found


def section(title: str) -> str:
    """The text under a heading."""
    return re.split(r"^#+ ", README.split(f"# {title}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]


def code_words(text: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", text)


def first_column(text: str) -> str:
    """The first cells of a table's rows."""
    return "\n".join(line.split("|")[1] for line in text.splitlines() if line.startswith("|"))


# --- configuration


def write_shop(directory: Path) -> None:
    (directory / "shop").mkdir()
    (directory / "shop" / "__init__.py").touch()
    (directory / "shop" / "tools.py").write_text(
        snippet("python", "def add_to_list")
        + "\n\ndef add(a: float, b: float) -> float:\n    return a + b\n"
        + "\n\ndef refund(order_id: str, amount: float) -> str:\n    return 'refunded'\n",
        "utf-8",
    )


@pytest.fixture(autouse=True)
def no_shop_is_left() -> Iterator[None]:
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
        del sys.modules[name]


@pytest.mark.parametrize("containing", ["claude", "cors_origins"])
def test_a_configuration_is_good(containing: str, tmp_path: Path) -> None:
    path = tmp_path / "gateway.yaml"
    path.write_text(snippet("yaml", containing), "utf-8")

    check_settings(Flags(config=path), environ=VARIABLES)


def test_the_tools_are_good(tmp_path: Path) -> None:
    write_shop(tmp_path)
    path = tmp_path / "gateway.yaml"
    head = "agents:\n  - id: a\n    model: {model_provider: demo}\n"
    path.write_text(head + textwrap.indent(snippet("yaml", "McpServer"), "    "), "utf-8")

    settings = check_settings(Flags(config=path), environ={})

    assert {tool.type for tool in settings.agents[0].tools} <= known_parts().tools.keys()


def test_the_environment_sets_what_is_said() -> None:
    environ = dict(word.split("=") for word in code_words(README) if word.startswith("AGUI_GATEWAY__"))
    settings = load_settings(environ={**environ, "AGUI_GATEWAY__STORE": "sqlite:///x.db"})

    assert environ.keys() == {"AGUI_GATEWAY__SERVER__PORT", "AGUI_GATEWAY__STORE"}
    assert (settings.server.port, settings.store) == (9000, "sqlite:///x.db")


def test_every_server_key_and_agent_key_is_one() -> None:
    keys = [word.removeprefix("server.") for word in code_words(README) if re.fullmatch(r"server\.\w+", word)]

    assert len(keys) > 3
    assert set(keys) <= ServerSection.model_fields.keys()


def test_every_kind_of_tool_and_provider_is_named_and_there() -> None:
    parts = known_parts()
    said = set(re.findall(r"\b[A-Z]\w+(?:Tool|Server)\b", section("Tools")))
    table = first_column(section("Put a model behind it"))

    assert said == set(parts.tools)
    assert set(code_words(table)) - {"model_provider"} == set(parts.models)


def test_the_rooms_that_take_entry_points_are_there() -> None:
    text = section("Add a provider, a tool, an agent type, a store, a protocol")
    groups = [word for word in code_words(text) if re.fullmatch(r"gateway\.\w+", word)]

    assert len(groups) == 6
    for name in groups:
        assert hasattr(import_module(name), "__path__")


# --- the command line


@pytest.mark.parametrize("command", ["serve", "config check", "config schema", "config example", "agents"])
def test_a_command_has_the_options_that_are_said(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    usage = section("Configuration").split("Flags win")[0]
    said = next(
        word for word in code_words(usage.replace("\n", " ")) if word.removeprefix("agui-gateway ").startswith(command)
    )
    assert main([*command.split(), "--help"]) == 0
    helped = capsys.readouterr().out

    for option in re.findall(r"--\w+|FILE$", said):
        assert option in helped


def test_the_example_is_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "example"]) == 0
    path = tmp_path / "gateway.yaml"
    path.write_text(capsys.readouterr().out, "utf-8")
    assert main(["config", "check", str(path)]) == 0


# --- names


def test_every_file_that_is_named_is_there() -> None:
    names = {name for name in re.findall(r"[\w./]+\.py\b", README) if "echo" not in name}

    assert len(names) > 8
    for name in names:
        assert (ROOT / "gateway" / name).is_file(), name


def endpoints() -> set[tuple[str, str]]:
    """(method, path) of the table. A path alone has the methods of the one before it; a method alone waits for one."""
    found: set[tuple[str, str]] = set()
    for row in first_column(section("Endpoints").split("Errors before")[0]).splitlines():
        methods: list[str] = []
        waiting: list[str] = []
        for word in code_words(row):
            method, _, path = word.rpartition(" ")
            if not path.startswith("/"):
                waiting.append(word)
                continue
            if method:
                methods, waiting = [*waiting, method], []
            found |= {(each, re.sub(r"\{\w+\}", "{}", path)) for each in methods}
    return found


async def test_the_endpoints_are_those_there_are(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, DEMONSTRATION) as gateway:
        document = await gateway.client.get("/openapi.json")
    described = {
        (method.upper(), re.sub(r"\{\w+\}", "{}", path))
        for path, operations in document["paths"].items()
        for method in operations
        if method in ("get", "post", "put", "patch", "delete")
    }

    assert endpoints() - {("GET", "/docs"), ("GET", "/openapi.json")} == described - {
        ("GET", "/docs"),
        ("GET", "/openapi.json"),
        ("GET", "/"),
    }


def test_every_code_of_a_failed_run_is_one() -> None:
    codes = set(code_words(first_column(section("Endpoints").split("code of a failed run")[1])))
    of_models = {code for code in codes if code.startswith("model_")}
    of_limits = {code.removeprefix("limit_") for code in codes if code.startswith("limit_")}
    source = "\n".join(path.read_text("utf-8") for path in (ROOT / "gateway").rglob("*.py"))

    assert of_models == {f"model_{kind}" for kind in ModelErrorKind}
    assert of_limits == set(re.findall(r'"(max_\w+)"', source)) & {field.name for field in dataclasses.fields(Budgets)}
    for code in codes - of_models - {f"limit_{name}" for name in of_limits}:
        assert f'"{code}"' in source, code


# --- over the wire


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl is installed here")
async def test_the_curl_line_runs_the_demonstration_and_again_shows_the_same(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, DEMONSTRATION) as gateway:
        line = snippet("sh", "curl").replace(ADDRESS, gateway.client.base_url)
        first, again = [await output("sh", "-c", line, directory=tmp_path) for _ in range(2)]

    frames = parse_frames(first)
    assert frames[-1].type == "RUN_FINISHED"
    assert "3,519,000" in "".join(frame.data.get("delta", "") for frame in frames)
    assert parse_frames(again) == frames


async def test_the_answer_to_an_interrupt_is_taken(tmp_path: Path) -> None:
    refund = {"type": "PythonTool", "approval": "always", "parameters": {"function": "gateway.sample_tools:refund"}}
    model = scripted(
        [{"tool": "refund", "id": "call_1", "arguments": {"order_id": "1234", "amount": 20}}], [{"text": "{{result}}"}]
    )
    async with local_gateway(tmp_path, [agent("shop", model, tools=[refund])]) as gateway:
        body = json.loads(snippet("json", "resume"))
        asked = await gateway.client.run("shop", run_body("Refund", thread_id=body["threadId"], version=None))
        answered = await gateway.client.run("shop", body)

    assert asked[-1].data["outcome"]["interrupts"][0]["id"] == body["resume"][0]["interruptId"]
    [result] = [frame.data["content"] for frame in answered if frame.type == "TOOL_CALL_RESULT"]
    assert '"amount":10.0' in result
    assert answered[-1].type == "RUN_FINISHED"


@pytest.mark.parametrize("version", CLIENT_VERSIONS)
async def test_the_http_agent_snippet_gets_an_answer(version: str, tmp_path: Path) -> None:
    async with local_gateway(tmp_path, DEMONSTRATION) as gateway:
        code = snippet("ts", "agent.addMessage").replace(ADDRESS, gateway.client.base_url)
        install_client(tmp_path, version)
        messages = await run_module(tmp_path, f"{code}\nconsole.log(JSON.stringify(agent.messages));")

    assert [message["role"] for message in messages] == ["user", "assistant"]
    assert messages[1]["content"]


async def test_the_copilotkit_snippet_has_an_agent_that_answers(tmp_path: Path) -> None:
    """With a stand-in for CopilotKit's runtime, which only keeps the agents it is given."""
    async with local_gateway(tmp_path, DEMONSTRATION) as gateway:
        code = snippet("ts", "CopilotRuntime").replace(ADDRESS, gateway.client.base_url)
        install_client(tmp_path, "1.0.0")
        stand_in = tmp_path / "node_modules" / "@copilotkit" / "runtime"
        stand_in.mkdir(parents=True)
        (stand_in / "package.json").write_text('{"type": "module", "exports": "./index.js"}')
        (stand_in / "index.js").write_text("export class CopilotRuntime { constructor(o) { Object.assign(this, o); } }")
        ask = """
            const { assistant } = runtime.agents;
            assistant.addMessage({ id: "m1", role: "user", content: "Hello" });
            await assistant.runAgent();
            console.log(JSON.stringify(assistant.messages));
        """
        messages = await run_module(tmp_path, code + ask)

    assert [message["role"] for message in messages] == ["user", "assistant"]


def install_client(directory: Path, version: str) -> None:
    (directory / "node_modules" / "@ag-ui").mkdir(parents=True)
    (directory / "node_modules" / "@ag-ui" / "client").symlink_to(HARNESS.parent / "node_modules" / f"client-{version}")


async def run_module(directory: Path, code: str) -> list[dict[str, Any]]:
    """The JSON that a module prints last."""
    (directory / "snippet.mjs").write_text(code, "utf-8")
    printed = await output(str(find_node()), "snippet.mjs", directory=directory)
    return cast(list[dict[str, Any]], json.loads(printed.splitlines()[-1]))


async def output(*command: str, directory: Path) -> bytes:
    """What a command prints; it has to end well and in time."""
    process = await asyncio.create_subprocess_exec(
        *command, cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            printed, complaints = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, complaints.decode()
    return printed


# --- code of one's own


async def test_the_python_tool_changes_the_state_that_clients_see(tmp_path: Path) -> None:
    write_shop(tmp_path)
    model = scripted([{"tool": "add_to_list", "arguments": {"item": "milk"}}], [{"text": "{{result}}"}])
    tool = {"type": "PythonTool", "parameters": {"function": "shop.tools:add_to_list"}}
    async with local_gateway(tmp_path, [agent("shop", model, tools=[tool])]) as gateway:
        frames = await gateway.client.run("shop", run_body("Add milk"))

    assert [frame.data["snapshot"] for frame in frames if frame.type == "STATE_SNAPSHOT"] == [{"list": ["milk"]}]
    assert "".join(frame.data.get("delta", "") for frame in frames).endswith("Added milk.")


async def test_the_provider_is_a_file_that_is_put_into_its_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = snippet("python", "class Echo")
    assert code.startswith("# gateway/models/echo.py\n")
    models = import_module("gateway.models")
    monkeypatch.setattr(models, "__path__", [*models.__path__, str(tmp_path)])
    (tmp_path / "echo.py").write_text(code, "utf-8")
    try:
        async with local_gateway(
            tmp_path, [agent("parrot", {"model_provider": "echo"})], parts=known_parts()
        ) as gateway:
            frames = await gateway.client.run("parrot", run_body("Say it again"))
    finally:
        sys.modules.pop("gateway.models.echo", None)
        vars(models).pop("echo", None)

    assert [frame.data["delta"] for frame in frames if frame.type == "TEXT_MESSAGE_CONTENT"] == ["Say it again"]
    assert frames[-1].type == "RUN_FINISHED"


# --- guarantees that are numbers


def test_the_defaults_that_are_said_are_the_defaults() -> None:
    server = ServerSection()
    limits = section("Limits")

    assert f"up to {server.max_body_bytes // 1_000_000} MB" in limits
    assert f"kept {server.retention_days:g} days" in limits
