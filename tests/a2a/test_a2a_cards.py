"""Agents' cards, for clients of both versions, and what an operator writes on them."""

from __future__ import annotations

from typing import Any

import pytest
from a2a.client.card_resolver import parse_agent_card
from a2a.compat.v0_3 import types as v03
from a2a.types import AgentCard
from a2a.utils.proto_utils import validate_proto_required_fields
from google.protobuf.json_format import ParseDict
from pydantic import ValidationError

from gateway.a2a.cards import agent_card
from gateway.a2a.dialects import ACTIVITY
from gateway.a2a.settings import A2ASettings, CardSettings
from gateway.agent import AgentDefinition, ModelSettings
from gateway.messages import ToolSpec
from tests import a2a_schema

AGENT = AgentDefinition("cook", "The cook", "react", ModelSettings("demo"), description="Finds recipes.")
URL = "https://example.com/agents/cook/a2a"
WRITTEN: dict[str, Any] = {
    "name": "Recipes",
    "description": "Recipes of all kinds.",
    "version": "2.1",
    "provider": {"organization": "Example", "url": "https://example.com"},
    "documentationUrl": "https://example.com/docs",
    "iconUrl": "https://example.com/icon.png",
    "defaultInputModes": ["text/plain", "image/png"],
    "skills": [
        {
            "id": "cake",
            "name": "Cakes",
            "description": "Bakes.",
            "tags": ["sweet"],
            "examples": ["A cake, please."],
            "inputModes": ["text/plain"],
        }
    ],
}


def card(written: Any = None, **more: Any) -> dict[str, Any]:
    said = None if written is None else CardSettings.model_validate(written)
    return agent_card(AGENT, said, URL, **more)


def test_a_strict_card_is_1_0_alone() -> None:
    shown = card(WRITTEN, strict=True)
    parsed = ParseDict(shown, AgentCard())
    validate_proto_required_fields(parsed)
    assert a2a_schema.problems("Agent Card", shown) == []
    assert [(each.protocol_binding, each.protocol_version) for each in parsed.supported_interfaces] == [
        ("JSONRPC", "1.0"),
        ("HTTP+JSON", "1.0"),
    ]
    assert {each.url for each in parsed.supported_interfaces} == {URL}
    assert parsed.capabilities.streaming
    assert parsed.capabilities.push_notifications
    assert parsed.capabilities.extended_agent_card
    assert [each.uri for each in parsed.capabilities.extensions] == [ACTIVITY]
    assert parsed.security_schemes["key"].http_auth_security_scheme.scheme == "Bearer"
    assert "key" in parsed.security_requirements[0].schemes


def test_what_the_operator_writes_is_on_the_card() -> None:
    shown = card(WRITTEN)
    assert {name: shown[name] for name in WRITTEN} == WRITTEN
    assert shown["defaultOutputModes"] == ["text/plain", "application/json"]


def test_what_is_left_out_comes_from_the_agent() -> None:
    shown = card()
    assert (shown["name"], shown["description"], shown["version"]) == ("The cook", "Finds recipes.", "1.0.0")
    assert shown["skills"] == [{"id": "cook", "name": "The cook", "description": "Finds recipes.", "tags": ["agent"]}]
    nameless = AgentDefinition("a", "a", "react", ModelSettings("demo"))
    assert agent_card(nameless, None, URL)["description"] == "The agent a."


@pytest.mark.parametrize("keyed", [True, False])
def test_a_card_is_for_clients_of_both_versions(keyed: bool) -> None:
    shown = card(WRITTEN, keyed=keyed)
    old = v03.AgentCard.model_validate(shown)
    assert (old.url, old.preferred_transport, old.protocol_version) == (URL, "JSONRPC", "0.3.0")
    assert old.supports_authenticated_extended_card is keyed
    assert (old.security == [{"key": []}]) is keyed
    if keyed:
        assert old.security_schemes is not None
        scheme = old.security_schemes["key"].root
        assert isinstance(scheme, v03.HTTPAuthSecurityScheme)
        assert scheme.scheme == "Bearer"
    new = parse_agent_card(card(WRITTEN, keyed=keyed))
    validate_proto_required_fields(new)
    assert [each.protocol_version for each in new.supported_interfaces] == ["1.0", "1.0", "0.3"]
    assert ("key" in new.security_schemes) is keyed
    if keyed:
        assert new.security_schemes["key"].http_auth_security_scheme.scheme == "Bearer"


def test_an_extended_card_has_the_agents_tools() -> None:
    tools = [ToolSpec("add", "Adds.", {}), ToolSpec("look", "", {})]
    shown = card(WRITTEN, tools=tools, strict=True)
    validate_proto_required_fields(ParseDict(shown, AgentCard()))
    assert [skill["id"] for skill in shown["skills"]] == ["cake", "add", "look"]
    assert shown["skills"][2] == {"id": "look", "name": "look", "description": "look", "tags": ["tool"]}


def test_a_card_tells_that_there_are_notifications() -> None:
    assert card()["capabilities"]["pushNotifications"] is True


@pytest.mark.parametrize(
    "wrong",
    [
        {"nmae": "x"},
        {"name": ""},
        {"documentation_url": "x"},
        {"provider": {"organization": "x"}},
        {"skills": [{"id": "x", "name": "x", "description": "x", "tags": []}]},
        {"defaultInputModes": []},
    ],
    ids=str,
)
def test_a_wrong_card_is_refused_when_the_file_is_read(wrong: Any) -> None:
    with pytest.raises(ValidationError):
        A2ASettings.model_validate({"card": wrong})
