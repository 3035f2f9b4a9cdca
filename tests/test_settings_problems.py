"""Settings: what is wrong with them is named, with its place in the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.settings import Flags
from tests.settings_scene import AGENT, problems


@pytest.fixture(autouse=True)
def current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("server:\n  prot: 1\n", "f.yaml:2:3: server.prot: is not a known key; did you mean 'port'?"),
        ("stor: x\n", "f.yaml:1:1: stor: is not a known key; did you mean 'store'?"),
        ("server:\n  zzz: 1\n", "f.yaml:2:3: server.zzz: is not a known key; the keys here are: host, port"),
        ("server:\n  prot:\n", "f.yaml:2:3: server.prot: is not a known key; did you mean 'port'?"),
        ("stor:\n", "f.yaml:1:1: stor: is not a known key; did you mean 'store'?"),
        ("server: {port: 70000}\n", "f.yaml:1:10: server.port: 70000 is too large; it must be at most 65535"),
        ("server: {port: http}\n", "f.yaml:1:10: server.port: must be a whole number, not 'http'"),
        ("server: {port: true}\n", "f.yaml:1:10: server.port: must be a number, not true or false"),
        ("server: {port: 1.5}\n", "f.yaml:1:10: server.port: must be a whole number, not 1.5"),
        ("server: {retention_days: 0}\n", "server.retention_days: 0 is too small; it must be more than 0"),
        ("server: {log_level: verbose}\n", "'verbose' is not one of debug, info, warning, error"),
        ("server: {log_format: jsn}\n", "is not one of auto, json, text; did you mean 'json'?"),
        ("server: []\n", "f.yaml:1:1: server: must be a mapping of keys to values, not a list"),
        ("store: 5\n", "f.yaml:1:1: store: must be text (in quotes where it looks like something else), not 5"),
        (
            "store: mysql://x\n",
            "f.yaml:1:1: store: no store is called 'mysql'; did you mean 'sqlite'?; there are: sqlite",
        ),
        ("store: sqlit:///x\n", "no store is called 'sqlit'; did you mean 'sqlite'?"),
        ("store: gateway.db\n", "f.yaml:1:1: store: must be a URL; did you mean 'sqlite:///gateway.db'?"),
        ("store: /data/g.db\n", "f.yaml:1:1: store: must be a URL; did you mean 'sqlite:////data/g.db'?"),
        ("search: sample\n", "f.yaml:1:1: search: must be a URL; did you mean 'embedded:sample'?"),
        ("api_keys: []\n", "f.yaml:1:1: api_keys: is not a known key here; did you mean 'server.api_keys'?"),
        ("model: {}\n", "f.yaml:1:1: model: is not a known key here; did you mean 'agents[0].model'?"),
        ("server: {region: x}\n", "server.region: is not a known key here; did you mean 'agents[0].model.region'?"),
        (
            "temperature: 1\n",
            "f.yaml:1:1: temperature: is not a known key here; did you mean "
            "'agents[0].model.options.temperature' or 'agents[0].model.model_parameters.temperature'?",
        ),
        ("search: solr:x\n", "f.yaml:1:1: search: no search engine is called 'solr'"),
        ("server: {allowed_hosts: ['a.example:80']}\n", "'a.example:80' is not a host name"),
        ("server: {public_url: agents.example}\n", "f.yaml:1:10: server.public_url: must be a URL"),
    ],
)
def test_what_is_wrong_is_named_with_line_and_field(text: str, problem: str) -> None:
    [found] = problems(text + AGENT)
    assert problem in found


@pytest.mark.parametrize(
    ("agent", "problem"),
    [
        ("id: a/b\nmodel: {model_provider: demo}", "agents[0].id: 'a/b' cannot be used; use letters"),
        ("id: ..\nmodel: {model_provider: demo}", "agents[0].id: '..' cannot be used"),
        ("name: x\nmodel: {model_provider: demo}", "f.yaml:2:5: agents[0].id: is missing; add it"),
        ("id: a", "f.yaml:2:5: agents[0].model: is missing; add it"),
        ("id: a\nmodel: {}", "f.yaml:3:5: agents[0].model.model_provider: is missing"),
        (
            "id: a\nmodel: {model_provider: dmo}",
            "f.yaml:3:13: agents[0].model.model_provider: no model provider is called 'dmo'; did you mean 'demo'?; "
            "there are: bedrock/converse, demo",
        ),
        (
            "id: a\nmodel: {model_provider: bedrock/converse}",
            "agents[0].model.model_id: is missing; 'bedrock/converse' needs the name of a model",
        ),
        (
            "id: a\nmodel: {model_provider: bedrock/converse, model_id: m, credential: {acess_key: x}}",
            "agents[0].model.credential.acess_key: 'bedrock/converse' knows no such credential; did you mean "
            "'access_key'?",
        ),
        ("id: a\nmodel: {model_provider: demo, credential: {k: x}}", "'demo' knows no such credential; it needs none"),
        ("id: a\nmodel: {model_provider: demo, endpoint: localhost}", "agents[0].model.endpoint: must be a URL"),
        (
            "id: a\nmodel: {model_provider: demo, fallback: [{model_provider: dmo}]}",
            "agents[0].model.fallback[0].model_provider: no model provider is called 'dmo'; did you mean 'demo'?",
        ),
        (
            "id: a\nmodel: {model_provider: demo, fallback: [{model_provider: demo, fallback: []}]}",
            "agents[0].model.fallback[0].fallback: is not a known key",
        ),
        (
            "id: a\nmodel: {model_provider: demo, timeouts: {idle: 5}}",
            "agents[0].model.timeouts.idle: is not a known key; did you mean 'idle_seconds'?",
        ),
        (
            "id: a\nmodel: {model_provider: demo, timeouts: {idle_seconds: 0}}",
            "agents[0].model.timeouts.idle_seconds: 0 is too small; it must be more than 0",
        ),
        (
            "id: a\nmodel: {model_provider: demo, timeouts: 5}",
            "agents[0].model.timeouts: must be a mapping of keys to values, not 5",
        ),
        ("id: a\nmodel: {model_provider: demo, region: [x]}", "agents[0].model.region: must be text"),
        (
            "id: a\nmodel: {model_provider: demo, base_url: x}",
            "agents[0].model.base_url: is not a known key; did you mean 'endpoint'?",
        ),
        (
            "id: a\nmodel: {model_provider: demo, api_key: x}",
            "agents[0].model.api_key: is not a known key; did you mean"
            " 'credential: {openai_api_key: \"${env:OPENAI_API_KEY}\"}'?",
        ),
        (
            "id: a\nmodel: {model_provider: demo, provider: x}",
            "agents[0].model.provider: is not a known key; did you mean 'model_provider'?",
        ),
        (
            "id: a\nmodel: {model_provider: demo, model: m}",
            "agents[0].model.model: is not a known key; did you mean 'model_id'?",
        ),
        (
            "id: a\nprovider: demo\nmodel: {model_provider: demo}",
            "agents[0].provider: is not a known key; did you mean 'model.model_provider'?",
        ),
        (
            "id: a\nmodel: gpt-4o",
            "agents[0].model: must be a mapping of keys to values, not 'gpt-4o'; write"
            " 'model: {model_provider: openai/v1/chat/completions, model_id: gpt-4o}'",
        ),
        (
            "id: a\nmodel: {model_provider: demo, credential: sk-secret}",
            "agents[0].model.credential: must be a mapping of keys to values, not this text; write"
            " 'credential: {openai_api_key: \"${env:OPENAI_API_KEY}\"}'",
        ),
        (
            "id: a\nmodel: {model_provider: ollama, model_id: m}",
            "no model provider is called 'ollama'; did you mean 'openai/v1/chat/completions' with 'endpoint:"
            " http://127.0.0.1:11434/v1'?; there are: ",
        ),
        (
            "id: a\nmodel: {model_provider: demo}\ntools: [{type: McpTool}]",
            "agents[0].tools[0].type: no tool type is called 'McpTool'; did you mean 'McpServer'?; there are: ",
        ),
        (
            "id: a\nmodel: {model_provider: demo}\ntools: [{type: PythonTol}]",
            "agents[0].tools[0].type: no tool type is called 'PythonTol'; did you mean 'PythonTool'?",
        ),
        (
            "id: a\nmodel: {model_provider: demo}\ntools: [{type: PythonTool, approval: alway}]",
            "agents[0].tools[0].approval: 'alway' is not one of never, always; did you mean 'always'?",
        ),
        (
            "id: a\nmodel: {model_provider: demo}\ntools: [{type: PythonTool, approvers: callers}]",
            "agents[0].tools[0].approvers: has no effect without 'approval: always'",
        ),
        (
            "id: a\nmodel: {model_provider: demo}\ntools: [{type: PythonTool, approval: always, approvers: keys}]",
            "agents[0].tools[0].approvers: 'keys' needs a key that may approve; add 'approvals: true' to one of"
            " server.api_keys",
        ),
        (
            "id: a\nmodel: {model_provider: demo}\ntools: [{type: PythonTool, name: x}, {type: PythonTool, name: x}]",
            "agents[0].tools[1].name: 'x' is taken by agents[0].tools[0]; choose another",
        ),
        ("id: a\nmodel: {model_provider: demo}\ntools: [PythonTool]", "agents[0].tools[0]: must be a mapping"),
        ("id: a\ntype: flow\nmodel: {model_provider: demo}", "agents[0].type: no agent type is called 'flow'"),
        (
            "id: a\nmodel: {model_provider: demo, max_tokens: 5}",
            "f.yaml:3:35: agents[0].model.max_tokens: is not a known key here; did you mean "
            "'agents[0].model.options.max_tokens' or 'agents[0].model.model_parameters.max_tokens'?",
        ),
        (
            "id: a\nmodel: {model_provider: demo}\nmax_tokens: 5",
            "agents[0].max_tokens: is not a known key here; did you mean 'agents[0].context.max_tokens' or "
            "'agents[0].model.model_parameters.max_tokens'?",
        ),
        (
            "id: a\nmodel: {model_provider: demo}\ntools: [{type: PythonTool, function: x}]",
            "agents[0].tools[0].function: is not a known key here; did you mean"
            " 'agents[0].tools[0].parameters.function'?",
        ),
        (
            "id: a\nmodel: {model_provider: demo}\nparameters: {max_iterations: 3}",
            "agents[0].parameters.max_iterations: is not a known key; did you mean 'max_iteration'?",
        ),
        (
            "id: a\nmodel: {model_provider: demo}\nparameters: {max_iteration: 0}",
            "0 is too small; it must be at least 1",
        ),
        ("id: a\nmodel: {model_provider: demo}\non_disconnect: stop", "'stop' is not one of cancel, continue"),
    ],
)
def test_what_is_wrong_with_an_agent_is_named_with_line_and_field(agent: str, problem: str) -> None:
    [found] = problems("agents:\n  - " + agent.replace("\n", "\n    ") + "\n")
    assert problem in found


def test_all_problems_are_named_at_once_in_the_order_of_the_file() -> None:
    found = problems(
        """\
server:
  prot: 9000
  host: 0.0.0.0
stor: x
agents:
  - id: a
    model: {model_provider: dmo}
    tools: [{typ: x}, {type: PythonTol}]
  - id: a
    model: {model_provider: demo, model_id: "${env:NONE}"}
  - 5
""",
        AGUI_GATEWAY__SERVER__PROT="1",
    )
    assert [line.partition(": ")[2].partition(": ")[0] for line in found] == [
        "sets no known field; did you mean 'AGUI_GATEWAY__SERVER__PORT'?",
        "server.prot",
        "server.host",
        "stor",
        "agents[0].model.model_provider",
        "agents[0].tools[0].type",
        "agents[0].tools[0].typ",
        "agents[0].tools[1].type",
        "agents[1].id",
        "agents[1].model.model_id",
        "agents[2]",
    ]


def test_a_problem_says_where_the_value_came_from() -> None:
    assert problems(AGENT, flags=Flags(store="mysql:x"))[0].startswith("--store: store: no store is called")
    [found] = problems(AGENT, AGUI_GATEWAY__SERVER__PORT="http")
    assert found == ("environment variable AGUI_GATEWAY__SERVER__PORT: server.port: must be a whole number, not 'http'")


def test_keys_must_be_long_different_and_named_apart() -> None:
    keys = """\
server:
  api_keys:
    - {name: a, key: short-and-secret}
    - {name: a, key: 0123456789abcdef}
    - {name: b, key: 0123456789abcdef}
    - {name: c, key: tiny}
    - {name: "d d", key: 0123456789abcdeg}
    - {name: e, key: 12345678901234567890}
"""
    found = problems(keys + AGENT)
    assert [line.partition(": ")[2] for line in found] == [
        "server.api_keys[1].name: 'a' is taken by server.api_keys[0]; choose another",
        "server.api_keys[2].key: is the same as that of server.api_keys[1]; every name needs its own",
        "server.api_keys[3].key: this text is too short; use at least 16 characters",
        "server.api_keys[4].name: this text cannot be used; use letters, digits and '.', '_', '@', '-', beginning "
        "with a letter or digit, at most 64",
        "server.api_keys[5].key: must be text (in quotes where it looks like something else), not a number",
    ]


def test_no_message_quotes_what_may_be_secret() -> None:
    text = """\
server: {log_level: "${env:S1}", api_keys: [{name: a, key: "hunter2 hunter2 hunter2"}]}
agents:
  - id: "${env:S1}"
    model: {model_provider: bedrock/converse, model_id: m, credential: {access_key: [hunter2], secret_key: 2}}
    parameters: {max_iteration: "${env:S1}"}
"""
    found = problems(text, S1="hunter2 hunter2")
    assert len(found) == 6
    assert "hunter2" not in "\n".join(found)
