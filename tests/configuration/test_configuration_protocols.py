"""`protocols` in the configuration file: settings of protocols, for all callers and for single keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from pydantic import BaseModel

from gateway.access.callers import Caller
from gateway.configuration.file import InvalidConfigurationError
from gateway.configuration.protocol_sections import general_settings, settings_of_key, with_protocols
from gateway.errors import ConfigurationError
from gateway.openai_api.settings import ChatSettings, ResponsesSettings
from gateway.protocol.protocol_settings import ProtocolSettings
from gateway.settings import Flags, Settings, configuration_schema, load_settings, needing_restart
from tests.newcomers import file_in_room

KEY = "a-key-of-the-tests"


def loaded(directory: Path, protocols: Any = None, *, of_key: Any = None, search: str = "embedded:sample") -> Settings:
    key = {"name": "alice", "key": KEY} | ({} if of_key is None else {"protocols": of_key})
    document = {"server": {"api_keys": [key]}, "search": search}
    document |= {} if protocols is None else {"protocols": protocols}
    path = directory / "gateway.yaml"
    path.write_text(json.dumps(document), "utf-8")
    return load_settings(Flags(config=path), environ={})


def test_without_a_word_every_protocol_is_on_with_its_defaults(tmp_path: Path) -> None:
    settings = loaded(tmp_path)
    assert settings.protocols["chat_completions"] == ChatSettings()
    assert settings.protocols["responses"] == ResponsesSettings()
    assert None not in settings.protocols.values()
    assert settings.server.api_keys[0].protocols == {}


def test_what_a_key_says_wins_over_the_file_and_the_file_over_the_default(tmp_path: Path) -> None:
    settings = loaded(
        tmp_path,
        {"responses": {"backend_tools": "hidden", "approvals": "message"}, "chat_completions": None},
        of_key={"responses": {"backend_tools": "function_call"}},
    )
    held = ProtocolSettings(settings.protocols, {key.name: key.protocols for key in settings.server.api_keys})
    alice, bob = Caller("alice", "alice"), Caller("bob", "bob")

    assert held.of(alice, ResponsesSettings) == ResponsesSettings(backend_tools="function_call", approvals="message")
    assert held.of(bob, ResponsesSettings) == ResponsesSettings(backend_tools="hidden", approvals="message")
    assert held.of(alice, ChatSettings) == ChatSettings(), "a section without a value is as if it were not there"


def test_false_turns_a_protocol_off_for_all_or_for_a_key(tmp_path: Path) -> None:
    settings = loaded(tmp_path, {"ml_commons": False}, of_key={"responses": False, "ml_commons": {}})
    assert settings.protocols["ml_commons"] is None
    assert isinstance(settings.protocols["responses"], ResponsesSettings)
    assert settings.server.api_keys[0].protocols == {"responses": None, "ml_commons": None}


WRONG = [
    ({"responses": {"backend_tools": "mcp"}}, "protocols.responses.backend_tools", "mcp_call, function_call, hidden"),
    ({"responses": {"paper": 1}}, "protocols.responses.paper", "here are: thread_headers, backend_tools, approvals"),
    ({"ml_commons": {"stream_enabled": False}}, "protocols.ml_commons.stream_enabled", "'ml_commons.stream_enabled'"),
    ({"responses": True}, "protocols.responses", "must be a mapping of keys to values, or false"),
    ({"chat_completions": {"thread_headers": ["X a"]}}, "protocols.chat_completions.thread_headers[0]", "of a header"),
    ({"chat_completions": {"thread_headers": ["cookie"]}}, "protocols.chat_completions.thread_headers[0]", "secret"),
    ({"respones": False}, "protocols.respones", "did you mean 'responses'?; there are: a2a, agent_api, chat"),
    ({"ag_ui": False}, "protocols.ag_ui", "there are: a2a, agent_api, chat_completions, ml_commons, responses"),
]


@pytest.mark.parametrize(("protocols", "path", "message"), WRONG)
@pytest.mark.parametrize("is_of_key", [False, True])
def test_what_is_wrong_is_named_with_its_place(
    tmp_path: Path, protocols: Any, path: str, message: str, is_of_key: bool
) -> None:
    with pytest.raises(InvalidConfigurationError) as refused:
        loaded(tmp_path, **({"of_key": protocols} if is_of_key else {"protocols": protocols}))
    place = f"server.api_keys[0].{path}" if is_of_key else path
    assert f": {place}: " in str(refused.value)
    assert message in str(refused.value)


def test_editors_know_the_sections(tmp_path: Path) -> None:
    schema = jsonschema_rs.Draft202012Validator(configuration_schema())
    for protocols, _, _ in WRONG:
        known = "cookie" in str(protocols)  # what only loading refuses
        assert schema.is_valid({"protocols": protocols}) is known
        assert schema.is_valid({"server": {"api_keys": [{"name": "a", "key": KEY, "protocols": protocols}]}}) is known
    some: list[dict[str, Any]] = [
        {},
        {"ml_commons": {}},
        {"responses": False},
        {"chat_completions": {"thread_headers": ["X-A"]}},
    ]
    for right in some:
        assert schema.is_valid({"protocols": right})
        loaded(tmp_path, right)


def test_a_change_of_them_needs_a_restart(tmp_path: Path) -> None:
    before = loaded(tmp_path)
    assert needing_restart(before, loaded(tmp_path)) == []
    assert needing_restart(before, loaded(tmp_path, {"responses": False})) == ["protocols"]
    assert needing_restart(before, loaded(tmp_path, of_key={"responses": False})) == ["server.api_keys"]


NEWCOMER = """# gateway/protocols/news.py
from pydantic import BaseModel, field_validator

from gateway.protocol import WireProtocol


class NewsSettings(BaseModel):
    paper: str = "daily"

    @field_validator("paper")
    @classmethod
    def _known(cls, value):
        if value == "gazette":
            raise ValueError("the gazette is not printed any more; take the daily")
        return value


PROTOCOL = WireProtocol("news", lambda environment: [], settings={"news": NewsSettings})
"""


def test_a_protocol_that_is_one_more_file_has_a_section_of_its_own(tmp_path: Path) -> None:
    with file_in_room(NEWCOMER, tmp_path):
        found: Any = loaded(tmp_path, {"news": {"paper": "weekly"}}).protocols["news"]
        assert found.paper == "weekly"
        with pytest.raises(InvalidConfigurationError, match=r"protocols\.news\.paper: 'gazette' cannot be used: the"):
            loaded(tmp_path, {"news": {"paper": "gazette"}})
    assert "news" not in loaded(tmp_path).protocols


def test_two_protocols_with_different_settings_of_one_name_are_refused(tmp_path: Path) -> None:
    code = NEWCOMER.replace('{"news": NewsSettings}', '{"responses": NewsSettings}')
    with file_in_room(code, tmp_path), pytest.raises(ConfigurationError, match="settings called 'responses'"):
        loaded(tmp_path)


OF_AGENTS = """# gateway/protocols/cards.py
from pydantic import BaseModel, ConfigDict

from gateway.protocol import WireProtocol


class Card(BaseModel):
    'What is printed.'

    model_config = ConfigDict(extra="forbid")
    motto: str


PROTOCOL = WireProtocol("cards", lambda environment: [], agent_settings={"card": Card})
"""


def with_agents(directory: Path, *agents: Any) -> Settings:
    path = directory / "gateway.yaml"
    path.write_text(json.dumps({"agents": [{"model": {"model_provider": "demo"}, **each} for each in agents]}), "utf-8")
    return load_settings(Flags(config=path), environ={})


def test_an_agent_says_for_a_protocol_what_the_protocol_knows(tmp_path: Path) -> None:
    with file_in_room(OF_AGENTS, tmp_path):
        one, other = with_agents(tmp_path, {"id": "a", "card": {"motto": "Hello"}}, {"id": "b", "card": None}).agents
        card: Any = one.protocol_settings["card"]
        assert card.motto == "Hello"
        assert other.protocol_settings == {}
        schema: Any = configuration_schema()
        assert schema["$defs"]["AgentSection"]["properties"]["card"]["description"] == "What is printed."
        with pytest.raises(InvalidConfigurationError, match=r"agents\[0\]\.card\.mottto: .* did you mean .*motto"):
            with_agents(tmp_path, {"id": "a", "card": {"motto": "Hello", "mottto": "x"}})
    with pytest.raises(InvalidConfigurationError, match=r"agents\[0\]\.card: is not a known key"):
        with_agents(tmp_path, {"id": "a", "card": {"motto": "Hello"}})


def test_what_every_agent_has_is_no_protocols_own(tmp_path: Path) -> None:
    code = OF_AGENTS.replace('{"card": Card}', '{"tools": Card}')
    with file_in_room(code, tmp_path), pytest.raises(ConfigurationError, match="every agent has 'tools' already"):
        with_agents(tmp_path)


def test_settings_of_a_key_that_only_says_false_somewhere_else_are_the_general_ones() -> None:
    class One(BaseModel):
        a: int = 1
        b: int = 2

    sections = with_protocols({"one": One, "two": One})
    section = sections.model_validate({"protocols": {"one": {"a": 3}}}).protocols
    general = general_settings(section)
    own = settings_of_key(type(section).model_validate({"one": {"b": 5}}), general)
    assert (general["one"], own["one"]) == (One(a=3), One(a=3, b=5))
    assert list(own) == ["one"]
