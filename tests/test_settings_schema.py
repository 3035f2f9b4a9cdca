"""The configuration file's JSON Schema, and its example."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from gateway.agent import Budgets, ModelTimeouts
from gateway.configuration.sections import ParametersSection, ServerSection, TimeoutsSection
from gateway.settings import Flags, ServerSettings, configuration_schema, example_configuration, load_settings

# --- the schema and the example -------------------------------------------------------------------------------------


def test_the_schema_accepts_what_loading_accepts(tmp_path: Path) -> None:
    schema = jsonschema_rs.Draft202012Validator(configuration_schema())
    assert schema.is_valid(yaml.safe_load(example_configuration()))
    assert schema.is_valid(
        {"$schema": "x", "server": {"port": "${env:PORT:-8000}", "allow_unauthenticated": "${env:X}"}}
    )
    assert schema.is_valid({"server": {"api_keys": [{"name": "a", "key": "${env:K}"}]}})
    written = tmp_path / "gateway.yaml"
    written.write_text('{"$schema": "x", "server": {"port": "${env:PORT:-8001}"}}', "utf-8")
    assert load_settings(Flags(config=written), environ={}).server.port == 8001
    for wrong in ({"stor": "x"}, {"server": {"port": "http"}}, {"agents": [{"id": "a"}]}, {"server": {"port": 70000}}):
        assert not schema.is_valid(wrong)


def test_every_key_of_the_schema_is_explained() -> None:
    definitions = configuration_schema()["$defs"]
    assert isinstance(definitions, dict)
    for name, section in definitions.items():
        assert isinstance(section, dict)
        properties = section.get("properties", {})
        assert isinstance(properties, dict)
        assert properties or name in ("JsonValue", "MlCommonsProtocol")  # the latter can only be turned off
        silent = [key for key, value in properties.items() if isinstance(value, dict) and "description" not in value]
        assert silent == [], f"{name} says nothing about {silent}"


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "PythonTool", "parameters": {"function": "shop:add", "max_threads": "${env:THREADS}"}},
        {"type": "ListIndexTool", "parameters": None},
        {"type": "ListIndexTool", "parameters": {"indices": "products"}},
        {"type": "SearchIndexTool", "parameters": {"query": '{"query": {"match_all": {}}}'}},
        {"type": "McpServer", "parameters": {"command": "npx", "args": ["-y"], "changes": "refuse"}},
        {"type": "${env:TYPE}", "parameters": {"whatever": 1}},
    ],
)
def test_the_schema_knows_the_parameters_of_each_type_of_tool(tool: dict[str, Any]) -> None:
    assert schema_accepts(tool)


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "PythonTool"},
        {"type": "PythonTool", "parameters": {"function": "shop:add", "max_threads": 0}},
        {"type": "ListIndexTool", "parameters": {"index": "products"}},
        {"type": "HttpTool", "parameters": {"url": "https://shop.example", "method": "FETCH"}},
        {"type": "SearchTool"},
    ],
)
def test_the_schema_refuses_parameters_that_a_type_of_tool_does_not_have(tool: dict[str, Any]) -> None:
    assert not schema_accepts(tool)


def schema_accepts(tool: dict[str, Any]) -> bool:
    agent = {"id": "a", "model": {"model_provider": "demo"}, "tools": [tool]}
    return jsonschema_rs.Draft202012Validator(configuration_schema()).is_valid({"agents": [agent]})


def test_the_schema_knows_the_bounds_of_numbers_that_may_be_null() -> None:
    schema = jsonschema_rs.Draft202012Validator(configuration_schema())
    assert schema.is_valid({"server": {"heartbeat_seconds": None}})
    assert schema.is_valid({"server": {"heartbeat_seconds": 3600}})
    assert not schema.is_valid({"server": {"heartbeat_seconds": 3601}})


def test_the_sections_and_the_settings_have_the_same_fields() -> None:
    assert set(ParametersSection.model_fields) == {field.name for field in dataclasses.fields(Budgets)}
    assert ParametersSection().model_dump() == dataclasses.asdict(Budgets())
    assert TimeoutsSection().model_dump() == dataclasses.asdict(ModelTimeouts())
    assert set(ServerSection.model_fields) == {field.name for field in dataclasses.fields(ServerSettings)}
