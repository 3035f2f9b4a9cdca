"""The configuration file's JSON Schema, and its example."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import jsonschema_rs
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
        assert set(silent) <= {"model", "parameters", "timeouts", "context"}, f"{name} says nothing about {silent}"


def test_the_sections_and_the_settings_have_the_same_fields() -> None:
    assert set(ParametersSection.model_fields) == {field.name for field in dataclasses.fields(Budgets)}
    assert ParametersSection().model_dump() == dataclasses.asdict(Budgets())
    assert TimeoutsSection().model_dump() == dataclasses.asdict(ModelTimeouts())
    assert set(ServerSection.model_fields) == {field.name for field in dataclasses.fields(ServerSettings)}
