"""Settings: what the operator wrote, and who wins."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import NoReturn

import pytest

from gateway.agent import AgentDefinition, Budgets, ContextSettings, ModelSettings, ModelTimeouts, Secret, ToolSettings
from gateway.configuration.checks import is_loopback
from gateway.configuration.file import InvalidConfigurationError
from gateway.configuration.known_parts import known_parts
from gateway.errors import ConfigurationError
from gateway.history.context_limits import HistoryLimits
from gateway.loop import AgentType
from gateway.model import ModelProvider
from gateway.options.generation import NO_OPTIONS, GenerationOptions
from gateway.search_engine import SearchEngineType, SearchSettings
from gateway.settings import (
    Flags,
    check_settings,
    load_settings,
)
from gateway.store import StoreType
from gateway.tool import ToolType
from tests.settings_scene import AGENT, PARTS, load, problems


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_file_of_the_issue_is_read() -> None:
    settings = load(
        """\
server: {host: 127.0.0.1, port: 8001, cors_origins: ["https://app.example"], disconnect_grace_seconds: 3}
store: sqlite:///gateway.db
agents:
  - id: assistant
    name: Assistant
    type: conversational
    system_prompt: You are a helpful assistant.
    model:
      model_provider: bedrock/converse
      model_id: gpt-oss-120b
      endpoint: http://127.0.0.1:11434/v1
      credential: {access_key: "${env:KEY}", secret_key: abc}
      region: us-east-1
      model_parameters: {temperature: 0.2, max_tokens: 4096, stop: null}
    tools:
      - {type: SearchIndexTool, approval: never}
      - {type: PythonTool, name: refund, parameters: {function: "shop.tools:refund"}, approval: always}
    on_disconnect: continue
    on_concurrent_run: enqueue
    parameters: {max_iteration: 7, tool_timeout_seconds: 2.5, max_run_seconds: null}
""",
        KEY="sk-1",
    )
    assert settings.server.port == 8001
    assert settings.server.cors_origins == ("https://app.example",)
    assert settings.server.disconnect_grace_seconds == 3
    assert settings.server.heartbeat_seconds == 15
    assert settings.agents == (
        AgentDefinition(
            id="assistant",
            name="Assistant",
            type="conversational",
            system_prompt="You are a helpful assistant.",
            model=ModelSettings(
                model_provider="bedrock/converse",
                model_id="gpt-oss-120b",
                endpoint="http://127.0.0.1:11434/v1",
                credential={"access_key": Secret("sk-1"), "secret_key": Secret("abc")},
                region="us-east-1",
                model_parameters={"temperature": 0.2, "max_tokens": 4096, "stop": None},
            ),
            tools=(
                ToolSettings("SearchIndexTool"),
                ToolSettings("PythonTool", "refund", None, {"function": "shop.tools:refund"}, "always"),
            ),
            on_disconnect="continue",
            on_concurrent_run="enqueue",
            budgets=Budgets(max_iteration=7, tool_timeout_seconds=2.5, max_run_seconds=None),
        ),
    )
    assert all(type(value) is Secret for value in settings.agents[0].model.credential.values())


def test_who_approves_is_the_operators() -> None:
    keys = (
        "server: {api_keys: [{name: ada, key: 0123456789abcdef}, {name: bob, key: abcdef0123456789, approvals: true}]}"
    )
    tool = "type: PythonTool, approval: always, parameters: {function: 'shop.tools:refund'}"
    tools = f"[{{{tool}, name: a}}, {{{tool}, name: b, approvers: callers}}, {{{tool}, name: c, approvers: keys}}]"
    settings = load(f"{keys}\nagents:\n  - id: a\n    model: {{model_provider: demo}}\n    tools: {tools}\n")
    assert [key.approvals for key in settings.server.api_keys] == [False, True]
    assert [each.approvers for each in settings.agents[0].tools] == [None, "callers", "keys"]


def test_a_model_has_others_to_fall_back_on() -> None:
    fallback = "[{model_provider: demo, model_parameters: {x: 1}}, {model_provider: demo}]"
    [agent] = load(f"agents:\n  - id: a\n    model: {{model_provider: demo, fallback: {fallback}}}\n").agents
    assert [(other.model_provider, other.model_parameters) for other in agent.model.fallback] == [
        ("demo", {"x": 1}),
        ("demo", {}),
    ]


def test_how_much_of_a_thread_a_model_is_shown_is_the_operators() -> None:
    context = "{max_messages: 20, max_tokens: 8000, summarize: false}"
    [agent] = load(f"agents:\n  - id: a\n    model: {{model_provider: demo}}\n    context: {context}\n").agents
    assert agent.context == ContextSettings(HistoryLimits(20, 8_000), False)
    [agent] = load("agents:\n  - id: a\n    model: {model_provider: demo}\n    context: {max_tokens: null}\n").agents
    assert agent.context == ContextSettings()
    [agent] = load("agents: [{id: a, model: {model_provider: demo}, context: {max_earlier_messages: 0}}]").agents
    assert agent.context.limits == HistoryLimits(max_earlier=0)


def test_a_models_timeouts_are_the_operators() -> None:
    timeouts = "{connect_seconds: 2, first_byte_seconds: 300.5, total_seconds: 900}"
    [agent] = load(f"agents:\n  - id: a\n    model: {{model_provider: demo, timeouts: {timeouts}}}\n").agents
    assert agent.model.timeouts == ModelTimeouts(2, 300.5, ModelTimeouts().idle_seconds, 900)


def test_options_of_a_model_have_no_providers_words() -> None:
    agent = "agents: [{id: a, model: {model_provider: demo, options: {temperature: 0.5, stop: [END], max_tokens: 9}}}]"
    [opened] = load(agent).agents
    options = opened.model.options
    assert options == GenerationOptions(temperature=0.5, stop=("END",), max_tokens=9)
    assert load("agents: [{id: a, model: {model_provider: demo, options: {}}}]").agents[0].model.options is NO_OPTIONS


def test_without_a_file_the_demonstration_runs_in_the_current_directory(directory: Path) -> None:
    settings = load_settings(environ={}, parts=PARTS)
    assert settings.source is None
    assert (settings.store, settings.store_directory) == ("sqlite:///gateway.db", directory)
    assert settings.search == SearchSettings("embedded:sample")
    [agent] = settings.agents
    assert (agent.id, agent.model.model_provider) == ("assistant", "demo")
    approvals = {tool.name or tool.type: tool.approval for tool in agent.tools}
    assert approvals["refund"] == "always"
    assert set(approvals.values()) == {"always", "never"}


def test_gateway_yaml_in_the_current_directory_is_found(directory: Path) -> None:
    Path("gateway.yaml").write_text("server: {port: 9}\n")
    settings = load_settings(environ={}, parts=PARTS)
    assert settings.server.port == 9
    assert settings.source == Path("gateway.yaml")
    assert settings.directory == directory


@pytest.mark.parametrize("text", ["", "server: {port: 9}\n", "agents:\n  # - id: mine\n", "agents: []\n"])
def test_a_file_without_agents_has_none_of_the_demonstrations(text: str) -> None:
    assert load(text).agents == ()


def test_the_demonstration_can_be_asked_for_where_there_are_files() -> None:
    Path("gateway.yaml").write_text("server: {port: 9}\n")
    Path("other.yaml").write_text("server: {port: 10}\n")
    settings = load_settings(Flags(demo=True), environ={"AGUI_GATEWAY_CONFIG": "other.yaml"}, parts=PARTS)
    assert settings.source is None
    assert (settings.server.port, [agent.id for agent in settings.agents]) == (8000, ["assistant"])


def test_the_environment_may_name_the_file() -> None:
    Path("other.yaml").write_text("server: {port: 9}\n")
    assert load_settings(environ={"AGUI_GATEWAY_CONFIG": "other.yaml"}, parts=PARTS).server.port == 9


def test_flags_win_over_the_environment_and_that_over_the_file() -> None:
    file = "server: {port: 1, host: '::1', heartbeat_seconds: 9}\n" + AGENT
    environ = {"AGUI_GATEWAY__SERVER__PORT": "2", "AGUI_GATEWAY__SERVER__HOST": "localhost"}
    server = load(file, flags=Flags(port=3), **environ).server
    assert (server.port, server.host, server.heartbeat_seconds) == (3, "localhost", 9.0)


def test_the_environment_separates_words_by_commas() -> None:
    origins = "http://localhost:3000, https://a.example"
    server = load(AGENT, AGUI_GATEWAY__SERVER__CORS_ORIGINS=origins).server
    assert server.cors_origins == ("http://localhost:3000", "https://a.example")


@pytest.mark.parametrize("field", ["AGENTS", "SERVER__API_KEYS", "SERVER__PUBLISHABLE_KEYS"])
def test_what_holds_mappings_is_not_set_by_the_environment_but_by_references_in_the_file(field: str) -> None:
    Path("f.yaml").write_text(AGENT)
    variable = f"AGUI_GATEWAY__{field}"
    with pytest.raises(InvalidConfigurationError) as caught:
        load_settings(Flags(config=Path("f.yaml")), environ={variable: "a-key-of-16-characters"}, parts=PARTS)
    told = "holds mappings; write them in the file, with '${env:NAME}' in them"
    assert caught.value.message == f"environment variable {variable}: {told}"


def test_a_store_is_relative_to_who_named_it(directory: Path) -> None:
    (directory / "etc").mkdir()
    file = directory / "etc" / "gateway.yaml"
    file.write_text("store: sqlite:///a.db\n" + AGENT)
    by_file = load_settings(Flags(config=Path("etc/gateway.yaml")), environ={}, parts=PARTS)
    assert by_file.store_directory == directory / "etc" == by_file.directory
    by_flag = load_settings(Flags(config=file, store="sqlite:///b.db"), environ={}, parts=PARTS)
    assert (by_flag.store, by_flag.store_directory) == ("sqlite:///b.db", directory)
    assert by_flag.directory == directory / "etc"
    file.write_text(AGENT)
    by_default = load_settings(Flags(config=file), environ={}, parts=PARTS)
    assert by_default.store_directory == directory / "etc"


def test_a_section_whose_lines_are_commented_out_means_the_defaults() -> None:
    settings = load("server:\n  # port: 1\nsearch:\n" + AGENT + "    tools:\n      # - {type: PythonTool}\n")
    assert settings.server.port == 8000
    assert settings.agents[0].tools == ()
    assert settings.search is None, "null search means none"


def test_only_exact_origins_are_accepted() -> None:
    good = ["http://localhost:3000", "https://a.example", "http://[::1]:5173", "chrome-extension://abcdef", "app://x"]
    assert load(f"server: {{cors_origins: {good!r}}}\n{AGENT}").server.cors_origins == tuple(good)
    bad = {
        "*": "'*' would let every website in",
        "https://*.example": "would let every website in",
        "null": "'null' would let every website in",
        "https://a.example/": "write 'https://a.example'",
        "https://A.example": "write 'https://a.example'",
        "https://a.example:443": "write 'https://a.example'",
        "http://a.example:80/x?y": "write 'http://a.example'",
        "https://ä.example": "write 'https://xn--4ca.example'",
        "a.example": "is not an origin",
        "https://": "is not an origin",
        "https://a.example:99999": "is not an origin",
    }
    found = problems(f"server: {{cors_origins: {list(bad)!r}}}\n{AGENT}")
    assert len(found) == len(bad)
    for line, message in zip(found, bad.values(), strict=True):
        assert message in line


def test_without_keys_the_gateway_stays_on_the_machine() -> None:
    for host in ("127.0.0.1", "::1", "localhost", "127.8.9.1"):
        assert load(f"server: {{host: '{host}'}}\n{AGENT}").server.host == host
    for host in ("0.0.0.0", "::", "192.168.1.5", "agents.example"):
        assert f"other machines can reach '{host}'" in problems(f"server: {{host: '{host}'}}\n{AGENT}")[0]
    keys = "api_keys: [{name: a, key: 0123456789abcdef}]"
    assert load(f"server: {{host: 0.0.0.0, {keys}}}\n{AGENT}").server.api_keys[0].key.reveal() == "0123456789abcdef"
    assert load(f"server: {{host: 0.0.0.0, allow_unauthenticated: true}}\n{AGENT}").server.host == "0.0.0.0"


@pytest.mark.parametrize("way_in", ["host: 0.0.0.0", "public_url: 'https://a.example'", "trusted_proxies: [10.0.0.2]"])
def test_what_others_reach_needs_keys_or_the_operators_word(way_in: str) -> None:
    [problem] = problems(f"server: {{{way_in}}}\n{AGENT}")
    assert f"server.{way_in.partition(':')[0]}: " in problem
    assert "no keys are configured; add server.api_keys, " in problem
    assert "server.allow_unauthenticated: true" in problem
    publishable = "{name: s, key: pk_0123456789abcdef, origins: ['https://a.example'], agents: [a]}"
    for keys in ("api_keys: [{name: a, key: 0123456789abcdef}]", f"publishable_keys: [{publishable}]"):
        assert not load(f"server: {{{way_in}, {keys}}}\n{AGENT}").server.is_open_to_others
    assert load(f"server: {{{way_in}, allow_unauthenticated: true}}\n{AGENT}").server.is_open_to_others
    assert not load(f"server: {{allow_unauthenticated: true}}\n{AGENT}").server.is_open_to_others


def test_loopback_is_told_from_the_network() -> None:
    assert is_loopback("[::1]")
    assert is_loopback("LOCALHOST.")
    assert not is_loopback("localhost.example")
    assert not is_loopback("")


def test_everything_secret_is_known_for_redaction() -> None:
    text = """\
server: {api_keys: [{name: a, key: key-of-alice-123}]}
store: sqlite://user:store-pw@host/x
agents:
  - id: a
    system_prompt: "${env:PROMPT}"
    model:
      model_provider: bedrock/converse
      model_id: m
      endpoint: https://u:end%20pw@host/v1
      credential: {secret_key: cred-1}
      model_parameters: {safety: "${env:PARAMETER}"}
      headers: {X-Team: "${env:TEAM}", X-Api-Key: my-key, X-Stage: production, X-Zone: eu}
    tools: [{type: PythonTool, parameters: {headers: {x: "Token ${env:TOOL}", y: "${env:SHORT}", z: plain-text}}},
            {type: PythonTool, parameters: {headers: {Authorization: "Bearer in-the-file", Accept: text/plain}}}]
"""
    settings = load(
        text, PROMPT="prompt-text", PARAMETER="parameter-1", TOOL="tool-secret", SHORT="yes", TEAM="team-red"
    )
    assert {secret.reveal() for secret in settings.secrets} == {
        "key-of-alice-123",
        "store-pw",
        "end%20pw",
        "end pw",
        "cred-1",
        "parameter-1",
        "team-red",
        "my-key",
        "production",
        "Token tool-secret",
        "tool-secret",
        "plain-text",
        "Bearer in-the-file",
        "in-the-file",
    }, "headers of the file count as those of the environment do, but for names that are no secret's and short values"
    assert "cred-1" not in repr(settings)
    assert "key-of-alice" not in repr(settings)


def test_the_gateway_knows_all_its_names() -> None:
    names = "allowed_hosts: [a.example], public_url: 'https://b.example/x', allow_unauthenticated: true"
    server = load(f"server: {{{names}}}\n{AGENT}").server
    assert server.host_names == ("a.example", "127.0.0.1", "b.example")


def test_checking_opens_models_and_tools_and_says_what_they_say() -> None:
    def refuse(*_: object) -> NoReturn:
        raise ConfigurationError("there is no such function")

    parts = dataclasses.replace(
        PARTS,
        tools={"PythonTool": ToolType("PythonTool", refuse)},
        models={"demo": ModelProvider("demo", refuse, needs_model_id=False)},
        agent_types=known_parts().agent_types,
        stores={"sqlite": StoreType("sqlite", refuse)},
        search_engines={"embedded": SearchEngineType("embedded", refuse)},
    )
    Path("f.yaml").write_text("store: 'sqlite:'\n" + AGENT + "    tools:\n      - {type: PythonTool}\n")
    with pytest.raises(InvalidConfigurationError) as caught:
        check_settings(Flags(config=Path("f.yaml")), environ={}, parts=parts)
    assert caught.value.message.split("\n") == [
        "f.yaml:1:1: search: there is no such function",
        "f.yaml:1:1: store: there is no such function",
        "f.yaml:4:5: agents[0].model: there is no such function",
        "f.yaml:6:9: agents[0].tools[0]: there is no such function",
    ]


def test_checking_opens_loops_and_says_what_they_say() -> None:
    def refuse(*_: object) -> NoReturn:
        raise ConfigurationError("there is nothing to plan with")

    parts = dataclasses.replace(known_parts(), agent_types={"conversational": AgentType("conversational", refuse)})
    Path("f.yaml").write_text(AGENT)
    with pytest.raises(InvalidConfigurationError) as caught:
        check_settings(Flags(config=Path("f.yaml")), environ={}, parts=parts)
    assert caught.value.message == "f.yaml:2:5: agents[0]: there is nothing to plan with"


def test_runs_go_on_only_where_the_agents_type_can() -> None:
    def opened(*_: object) -> NoReturn:
        raise ConfigurationError("this is not what is wrong")

    parts = dataclasses.replace(known_parts(), agent_types={"conversational": AgentType("conversational", opened)})
    Path("f.yaml").write_text(AGENT + "    on_takeover: continue\n")
    with pytest.raises(InvalidConfigurationError) as caught:
        check_settings(Flags(config=Path("f.yaml")), environ={}, parts=parts)
    assert (
        "agents[0].on_takeover: agents of type 'conversational' cannot go on with a run of another process: only 'end'"
        " is possible"
    ) in caught.value.message
    check_settings(Flags(config=Path("f.yaml")), environ={})
