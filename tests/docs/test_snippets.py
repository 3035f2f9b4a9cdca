"""Every block of code in the README and under docs/ is tried as a newcomer would; clients have a file of their own."""

from __future__ import annotations

import ast
import base64
import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from gateway.cli import main
from gateway.configuration.known_parts import known_parts
from gateway.configuration.sections import AgentSection, ConfigurationSection, ServerSection
from gateway.settings import Flags, check_settings
from tests.documentation import PAGES, README, ROOT, SNIPPETS, Snippet, example, snippet, snippets
from tests.running_gateway import agent, local_gateway, run_body, scripted

# what the snippets take from the environment
ENVIRON = dict.fromkeys(re.findall(r"\$\{env:(\w+)\}", "".join(PAGES.values())), "a-value-that-is-long-enough")
ENVIRON["MASTER_KEY"] = base64.b64encode(bytes(32)).decode()
NAMED = ("json", "python", "ts", "tsx", "js", "html", "")


def test_every_snippet_is_tried() -> None:
    """YAML and commands are tried wherever they stand. Requests by curl, and any other block, are named by a test of
    this folder or of the page, are a file of an example, or are what the front ends are made of.

    web-demo/tests/readme.test.ts runs all TypeScript of web-demo/README.md. test_pages looks for the modules in the
    drawings of docs/architecture.md. test_versions_page runs every block of docs/versions.md.
    """
    folders = (Path(__file__).parent, *(ROOT / "tests" / name for name in ("examples", "page")))
    tests = (*(path for folder in folders for path in folder.glob("test_*.py")), ROOT / "tests" / "front_end_pages.py")
    source = "".join(path.read_text("utf-8") for path in tests)
    calls = re.findall(r"""\bsnippet\(((?:(?:"[^"]*"|'[^']*')(?:, )?)+)\)""", source)
    named = [ast.literal_eval(f"({words},)") for words in calls]
    tried = {snippet(*words) for words in named}
    tried |= {each.text for each in snippets("ts") if each.page == "web-demo/README.md"}
    tried |= {each.text for each in snippets("") if each.page == "docs/architecture.md"}
    tried |= {each.text for each in SNIPPETS if each.page == "docs/versions.md"}
    requests = [each for each in snippets("sh") if "curl " in each.text]

    assert [str(each) for each in (*snippets(*NAMED), *requests) if each.text not in tried] == []
    assert {each.language for each in SNIPPETS} <= {*NAMED, "yaml", "sh", "mermaid"}


# --- configuration


def write_configuration(yaml_text: str, directory: Path) -> Path:
    """A snippet as a whole file: a part of an agent or of `server` is put where it belongs, and there is an agent."""
    values = yaml.safe_load(yaml_text)
    assistant = {"id": "assistant", "model": {"model_provider": "demo"}}
    if values.keys() <= ConfigurationSection.model_fields.keys():
        document = {"agents": [assistant], **values}
    elif values.keys() <= ServerSection.model_fields.keys():
        document = {"agents": [assistant], "server": values}
    else:
        assert values.keys() <= AgentSection.model_fields.keys(), values.keys()
        document = {"agents": [{**assistant, **values}]}
    path = directory / "gateway.yaml"
    path.write_text(yaml.safe_dump(document), "utf-8")
    return path


def write_shop(directory: Path) -> None:
    """The modules that the snippets' tools are in."""
    (directory / "shop").mkdir()
    functions = snippet("README.md", "python", "def stock"), example("http-agent/shop.py")
    (directory / "shop" / "__init__.py").write_text("\n\n".join(functions), "utf-8")
    (directory / "shop" / "tools.py").write_text(
        snippet("docs/tools.md", "python", "def add_to_list")
        + "\n\ndef add(a: float, b: float) -> float:\n    return a + b\n"
        + "\n\ndef refund(order_id: str, amount: float) -> str:\n    return 'refunded'\n",
        "utf-8",
    )


@pytest.fixture(autouse=True)
def no_shop_is_left() -> Iterator[None]:
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
        del sys.modules[name]


@pytest.mark.parametrize("tried", snippets("yaml"), ids=str)
def test_a_configuration_is_good(tried: Snippet, tmp_path: Path) -> None:
    write_shop(tmp_path)

    settings = check_settings(Flags(config=write_configuration(tried.text, tmp_path)), environ=ENVIRON)

    assert {tool.type for each in settings.agents for tool in each.tools} <= known_parts().tools.keys()


# --- the shell


@pytest.mark.parametrize("tried", snippets("sh"), ids=str)
def test_a_command_is_one(tried: Snippet, capsys: pytest.CaptureFixture[str]) -> None:
    [phony] = re.findall(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    targets = phony.split()
    for line in tried.text.replace("\\\n", " ").splitlines():
        program, *words = shlex.split(line, comments=True) or [""]
        if program == "make":
            assert words[0] in targets
        elif program.endswith("agui-gateway"):
            command = [word for word in words if re.fullmatch("[a-z]+", word)]
            options = [word for word in words if word.startswith("--")]
            assert main([*command[:2], "--help"]) == 0
            helped = capsys.readouterr().out
            assert all(option.partition("=")[0] in helped for option in options), line
        elif program == "docker":
            assert line in (ROOT / "Dockerfile").read_text("utf-8"), f"the Dockerfile says it otherwise: {line}"
        elif program == "npm":
            scripts = json.loads((ROOT / "web-demo" / "package.json").read_text("utf-8"))["scripts"]
            assert words == ["ci"] or words[-1] in scripts, line
        elif not re.match("[A-Z]+=", program):
            assert program in ("", "curl"), f"{program}: no test here knows how to try it"


# --- drawings


@pytest.mark.parametrize("drawn", snippets("mermaid"), ids=str)
def test_a_diagram_s_lines_go_between_its_participants(drawn: Snippet) -> None:
    kind, *lines = [line.strip() for line in drawn.text.strip().splitlines()]
    participants = {found[1] for line in lines if (found := re.fullmatch(r"participant (\w+) as .+", line))}
    others = [line for line in lines if not line.startswith("participant ")]
    named = [re.fullmatch(r"(?:(\w+)--?>>(\w+)|Note over (\w+)(?:,(\w+))?): .+", line) for line in others]

    assert kind == "sequenceDiagram"
    assert [line for line, found in zip(others, named, strict=True) if found is None] == []
    assert {name for found in named if found for name in found.groups() if name} == participants


def test_the_front_end_s_rooms_are_there() -> None:
    drawn = snippet("web-demo/README.md", "", "src/wire")
    rooms = {line.split()[0] for line in drawn.splitlines()}

    assert rooms - {"tests"} == {f"src/{path.name}" for path in (ROOT / "web-demo" / "src").iterdir() if path.is_dir()}


# --- code of one's own


async def test_the_readme_s_tool_is_called(tmp_path: Path) -> None:
    write_shop(tmp_path)
    model = scripted([{"tool": "stock", "arguments": {"item": "lamp"}}], [{"text": "{{result}}"}])
    [described] = [each for each in snippets("yaml") if each.page == README and "shop:stock" in each.text]
    tools = yaml.safe_load(described.text)["agents"][0]["tools"]
    async with local_gateway(tmp_path, [agent("shop", model, tools=tools)]) as gateway:
        frames = await gateway.client.run("shop", run_body("How many lamps?"))

    assert "".join(frame.data.get("delta", "") for frame in frames).endswith("There are 7 of lamp.")


async def test_the_python_tool_changes_the_state_that_clients_see(tmp_path: Path) -> None:
    write_shop(tmp_path)
    model = scripted([{"tool": "add_to_list", "arguments": {"item": "milk"}}], [{"text": "{{result}}"}])
    tool = {"type": "PythonTool", "parameters": {"function": "shop.tools:add_to_list"}}
    async with local_gateway(tmp_path, [agent("shop", model, tools=[tool])]) as gateway:
        frames = await gateway.client.run("shop", run_body("Add milk"))

    assert [frame.data["snapshot"] for frame in frames if frame.type == "STATE_SNAPSHOT"] == [{"list": ["milk"]}]
    assert "".join(frame.data.get("delta", "") for frame in frames).endswith("Added milk.")


REFUND = {"type": "PythonTool", "approval": "always", "parameters": {"function": "gateway.sample_tools:refund"}}
REFUNDS = agent(
    "shop",
    scripted(
        [{"tool": "refund", "id": "call_1", "arguments": {"order_id": "1234", "amount": 20}}], [{"text": "{{result}}"}]
    ),
    tools=[REFUND],
)


async def test_an_approval_is_answered_for_its_owner(tmp_path: Path) -> None:
    keys = [{"name": "staff", "key": "staff-0123456789", "approvals": True}]
    async with local_gateway(tmp_path, [REFUNDS], server={"api_keys": keys}) as gateway:
        gateway.client.http.headers["authorization"] = "Bearer staff-0123456789"
        await gateway.client.run("shop", run_body("Refund", thread_id="t1"))
        [approval] = (await gateway.client.get("/approvals"))["approvals"]
        body = json.loads(snippet("docs/approvals.md", "json", "arguments"))
        answer = await gateway.client.http.post(f"/approvals/{approval['id']}", json=body)
        run = await gateway.client.until_status(answer.json()["runId"], "completed")
        shown = await gateway.client.get("/threads/t1/messages")

    assert (answer.status_code, run["threadId"]) == (202, "t1")
    assert '"amount":10.0' in shown["messages"][-1]["content"]


async def test_the_answer_to_an_interrupt_is_taken(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [REFUNDS]) as gateway:
        body = json.loads(snippet("docs/approvals.md", "json", "resume"))
        asked = await gateway.client.run("shop", run_body("Refund", thread_id=body["threadId"], version=None))
        answered = await gateway.client.run("shop", body)

    assert asked[-1].data["outcome"]["interrupts"][0]["id"] == body["resume"][0]["interruptId"]
    [result] = [frame.data["content"] for frame in answered if frame.type == "TOOL_CALL_RESULT"]
    assert '"amount":10.0' in result
    assert answered[-1].type == "RUN_FINISHED"
