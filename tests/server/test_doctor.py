"""`agui-gateway doctor`, as an operator uses it whose gateway does not start."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from gateway.cli import main
from gateway.configuration.known_parts import known_parts
from gateway.errors import StoreError
from gateway.server import doctor
from gateway.settings import Flags
from gateway.store import Finding, Level, StoreEnvironment, StoreType
from gateway.stores.sqlite import STORE
from tests.running_gateway import agent, gateway_command, gateway_process, run_body, scripted, write_configuration

GOOD = """\
agents:
  - id: helper
    model: {model_provider: demo}
    tools:
      - {type: PythonTool, parameters: {function: "shop_of_doctor:stock"}}
"""
TOOL = 'def stock(item: str) -> str:\n    """Tell the stock."""\n    return "7"\n'
DEADLINE_SECONDS = 20.0


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("AGUI_GATEWAY")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(doctor, "page_is_built", lambda: True)
    (tmp_path / "gateway.yaml").write_text(GOOD)
    (tmp_path / "shop_of_doctor.py").write_text(TOOL)
    return tmp_path


async def found(store: StoreType) -> list[Finding]:
    """What is found where this is the only store."""
    parts = dataclasses.replace(known_parts(), stores={"sqlite": store})
    async with asyncio.timeout(DEADLINE_SECONDS):
        return [finding async for finding in doctor.examine(Flags(config=Path("gateway.yaml")), parts)]


def test_what_is_well_is_said_in_lines_and_changes_nothing(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(directory.rglob("*"))
    assert main(["doctor"]) == 0
    out, err = capsys.readouterr()

    assert err == ""
    assert [line.split(":")[0] for line in out.splitlines()[:-1]] == [
        "ok       configuration",
        "ok       folder",
        "ok       store file",
        "ok       disk",
        "ok       page",
    ]
    assert out.endswith("\nno problem, no warnings: a gateway can serve\n")
    assert sorted(directory.rglob("*")) == before


def test_a_problem_ends_with_1_and_its_remedy_is_on_the_next_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--store", "sqlite:///none/gateway.db"]) == 1
    lines = capsys.readouterr().out.splitlines()
    problem = next(number for number, line in enumerate(lines) if line.startswith("problem  folder: "))

    assert lines[problem + 1] == "         -> create it"
    assert lines[-1] == "1 problem, no warnings: mend the problems before you serve"


def test_a_warning_ends_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--store", "sqlite://:memory:"]) == 0
    assert capsys.readouterr().out.endswith("no problem, 1 warning: a gateway can serve\n")


def test_programs_get_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json", "--store", "sqlite:///none/gateway.db"]) == 1
    findings = json.loads(capsys.readouterr().out)

    assert {"configuration", "folder", "page"} == {finding["subject"] for finding in findings}
    assert findings[1]["level"] == "problem"
    assert findings[1].keys() == {"subject", "level", "text", "remedy"}


def test_every_problem_of_the_configuration_is_named_and_the_store_is_looked_at(
    capsys: pytest.CaptureFixture[str],
) -> None:
    wrong = GOOD.replace(":stock", ":stok").replace("demo", "anthropic/v1/messages, model_id: m")
    Path("gateway.yaml").write_text(wrong)
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out

    assert out.count("problem  configuration: gateway.yaml:") == 2
    assert "needs a credential: set anthropic_api_key" in out
    assert "ok       store file" in out


def test_a_file_that_does_not_say_where_its_store_is_ends_the_examination(capsys: pytest.CaptureFixture[str]) -> None:
    Path("gateway.yaml").write_text(GOOD + 'search: "${env:NOT_SET_HERE}"\n')
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out

    assert "the environment variable 'NOT_SET_HERE' is not set\n         -> set it" in out
    assert "warning  store: not looked at" in out


def test_a_wrong_url_of_the_store_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--store", "sqlite:/gateway.db"]) == 1
    assert capsys.readouterr().out.count("problem ") == 1


def test_a_page_that_is_not_built_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "page_is_built", lambda: False)
    assert main(["doctor"]) == 0
    assert "warning  page: not built" in capsys.readouterr().out


async def test_a_gateway_at_work_is_named_and_goes_on(directory: Path) -> None:
    configuration = write_configuration(directory, [agent("a", model=scripted([{"text": "hello"}]))])
    async with gateway_process(configuration) as gateway:
        code, said = await gateway_command(directory, "doctor", "--config", configuration.name)
        frames = await gateway.client.run("a", run_body())

    assert frames
    assert f"the process {gateway.process.pid} serves this store now" in said
    assert "has the store open" in said
    assert (code, "ok       integrity" in said) == (0, True)


async def test_a_type_of_store_without_an_examination_is_a_warning() -> None:
    findings = await found(StoreType("sqlite", STORE.open))

    assert [finding.text for finding in findings if finding.level is not Level.OK] == [
        "stores of the type 'sqlite' cannot be examined"
    ]


def test_a_cluster_that_is_searched_is_looked_at(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    search = "search: {url: 'opensearch://127.0.0.1:1', indices: [books]}\n"
    (directory / "gateway.yaml").write_text(search + GOOD)
    assert main(["doctor"]) == 0
    assert "warning  search: nothing listens at http://127.0.0.1:1\n         -> start the" in capsys.readouterr().out


async def test_an_examination_that_fails_is_a_problem() -> None:
    async def failing(url: str, environment: StoreEnvironment) -> AsyncGenerator[Finding]:
        yield Finding("first", Level.OK, "well")
        raise StoreError("the disk is gone")

    findings = await found(StoreType("sqlite", STORE.open, examine=failing))

    assert [finding.text for finding in findings if finding.subject in ("first", "store")] == [
        "well",
        "the examination ended: the disk is gone",
    ]
