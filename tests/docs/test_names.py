"""The names and numbers that the pages say are looked up in the gateway."""

from __future__ import annotations

import dataclasses
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.access.limits import VisitorLimits
from gateway.agent import Budgets
from gateway.cli import main
from gateway.configuration.known_parts import known_parts
from gateway.configuration.sections import ServerSection
from gateway.errors import ModelErrorKind
from gateway.settings import example_configuration, load_settings
from tests.documentation import PAGES, ROOT, code_words, first_column, section
from tests.running_gateway import local_gateway

DEMONSTRATION: list[dict[str, Any]] = yaml.safe_load(example_configuration())["agents"]
EVERYTHING = "\n".join(PAGES.values())


def test_the_environment_sets_what_is_said() -> None:
    environ = dict(word.split("=") for word in code_words(EVERYTHING) if re.fullmatch(r"AGUI_GATEWAY__\w+=\S+", word))
    settings = load_settings(environ={**environ, "AGUI_GATEWAY__STORE": "sqlite:///x.db"})

    assert environ.keys() == {"AGUI_GATEWAY__SERVER__PORT", "AGUI_GATEWAY__STORE"}
    assert (settings.server.port, settings.store) == (9000, "sqlite:///x.db")


def test_every_server_key_is_one() -> None:
    keys = [word.removeprefix("server.") for word in code_words(EVERYTHING) if re.fullmatch(r"server\.\w+", word)]

    assert len(keys) > 3
    assert set(keys) <= ServerSection.model_fields.keys()


def test_every_kind_of_tool_and_provider_is_named_and_there() -> None:
    parts = known_parts()
    said = set(re.findall(r"\b[A-Z]\w+(?:Tool|Server)\b", PAGES["docs/tools.md"]))
    table = first_column(section("docs/models.md", "Providers"))

    assert said == set(parts.tools)
    assert set(code_words(table)) - {"model_provider"} == set(parts.models)


def test_the_rooms_that_take_entry_points_are_there() -> None:
    text = section("docs/architecture.md", "Add a provider, a tool, an agent type, a store, a protocol")
    groups = [word for word in code_words(text) if re.fullmatch(r"gateway\.\w+", word)]

    assert len(groups) == 6
    for name in groups:
        assert hasattr(import_module(name), "__path__")


# --- the command line


@pytest.mark.parametrize("command", ["serve", "doctor", "config check", "config schema", "config example", "agents"])
def test_a_command_has_the_options_that_are_said(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = next(
        word
        for word in code_words(section("docs/configuration.md", "Commands").replace("\n", " "))
        if word.removeprefix("agui-gateway ").startswith(command)
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


# --- the HTTP interface


def endpoints() -> set[tuple[str, str]]:
    """(method, path) of the table. A path alone has the methods of the one before it; a method alone waits for one."""
    found: set[tuple[str, str]] = set()
    for row in first_column(section("docs/http.md", "Endpoints")).splitlines():
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
    codes = set(code_words(first_column(section("docs/http.md", "Codes of failed runs"))))
    of_models = {code for code in codes if code.startswith("model_")}
    of_limits = {code.removeprefix("limit_") for code in codes if code.startswith("limit_")}
    source = "\n".join(path.read_text("utf-8") for path in (ROOT / "gateway").rglob("*.py"))

    assert of_models == {f"model_{kind}" for kind in ModelErrorKind}
    assert of_limits == set(re.findall(r'"(max_\w+)"', source)) & {field.name for field in dataclasses.fields(Budgets)}
    for code in codes - of_models - {f"limit_{name}" for name in of_limits}:
        assert f'"{code}"' in source, code


# --- guarantees that are numbers


def test_the_defaults_that_are_said_are_the_defaults() -> None:
    server = ServerSection()
    limits = section("docs/guarantees.md", "Limits")

    assert f"up to {server.max_body_bytes // 1_000_000} MB" in limits
    assert f"kept {server.retention_days:g} days" in limits
    assert f"{server.visitor_retention_days:g} days after their last run" in limits


def test_what_visitors_may_send_and_leave_behind_is_what_the_limits_say() -> None:
    limits, text = VisitorLimits(), (ROOT / "docs/website.md").read_text("utf-8")

    for said in (
        f"| each visitor | {limits.visitor_runs_per_minute} | {limits.visitor_concurrent_runs} | |",
        f"| each address | {limits.address_runs_per_minute} | | {limits.address_visitors_per_minute} |",
        f"| the website | {limits.runs_per_minute} | {limits.concurrent_runs} | {limits.visitors_per_minute} |",
        f"`max_message_bytes` | {(limits.max_message_bytes or 0) // 1_000} kB",
        f"`max_input_bytes` | {(limits.max_input_bytes or 0) // 1_000} kB",
        f"`max_body_bytes` | {(limits.max_body_bytes or 0) // 1_000_000} MB",
        f"may have {(limits.max_stored_bytes or 0) // 1_000_000_000} GB in the store",
        f"{ServerSection().visitor_retention_days:g} days after its last run",
    ):
        assert said in text, said
