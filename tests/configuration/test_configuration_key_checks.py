"""Keys in the configuration file: what is read, and what is wrong, in words that help."""

from __future__ import annotations

import base64
import dataclasses
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from gateway.access.limits import KeyLimits, VisitorLimits
from gateway.access.visitors import PublishableKey
from gateway.agent import Secret
from gateway.configuration.file import InvalidConfigurationError
from gateway.configuration.sections import KeyLimitsSection, VisitorLimitsSection
from gateway.settings import Flags, Settings, configuration_schema, example_configuration, load_settings

SHOP: dict[str, Any] = {
    "name": "shop",
    "key": "pk_shop_0123456789",
    "origins": ["https://shop.example"],
    "agents": ["assistant"],
}


def load(server: dict[str, Any], directory: Path, **environ: str) -> Settings:
    file = directory / "f.yaml"
    model = {"model_provider": "demo"}
    agents = [{"id": "assistant", "model": model}, {"id": "internal", "model": model}]
    file.write_text(yaml.safe_dump({"server": server, "agents": agents}))
    return load_settings(Flags(config=file), environ=environ)


def problems(server: dict[str, Any], directory: Path, **environ: str) -> list[str]:
    with pytest.raises(InvalidConfigurationError) as caught:
        load(server, directory, **environ)
    return [line.split(": ", 1)[1] for line in caught.value.message.split("\n")]


def test_a_publishable_key_is_read_with_limits_for_a_small_site(tmp_path: Path) -> None:
    server = load({"publishable_keys": [SHOP]}, tmp_path).server
    [key] = server.publishable_keys
    assert key == PublishableKey(
        "shop", SHOP["key"], frozenset(SHOP["origins"]), frozenset(["assistant"]), VisitorLimits()
    )
    assert None not in dataclasses.asdict(key.limits).values(), "everything is limited until somebody says otherwise"
    assert server.has_keys
    assert server.visitor_secret is None
    assert server.trusted_proxies == (), "nobody is believed, not even a proxy on this machine"


def test_the_agent_for_requests_that_name_none_is_one_of_the_file(tmp_path: Path) -> None:
    assert load({"default_agent": "internal"}, tmp_path).server.default_agent == "internal"
    assert load({"default_agent": None}, tmp_path).server.default_agent is None
    assert load({}, tmp_path, AGUI_GATEWAY__SERVER__DEFAULT_AGENT="internal").server.default_agent == "internal"
    (problem,) = problems({"default_agent": "assistent"}, tmp_path)
    assert problem == "server.default_agent: no agent has the id 'assistent'; did you mean 'assistant'?"


def test_limits_are_read_and_null_is_none(tmp_path: Path) -> None:
    limits = {"visitor_runs_per_minute": 5, "runs_per_minute": None, "max_body_bytes": 9}
    api_key = {"name": "alice", "key": "alice-0123456789", "limits": {"concurrent_runs": 2}}
    server = load({"publishable_keys": [{**SHOP, "limits": limits}], "api_keys": [api_key]}, tmp_path).server
    [key] = server.publishable_keys
    assert (key.limits.visitor_runs_per_minute, key.limits.runs_per_minute, key.limits.max_body_bytes) == (5, None, 9)
    assert key.limits.concurrent_runs == VisitorLimits().concurrent_runs
    assert server.api_keys[0].limits == KeyLimits(concurrent_runs=2)


def test_the_sections_and_the_limits_have_the_same_fields_and_defaults() -> None:
    assert KeyLimitsSection().model_dump() == dataclasses.asdict(KeyLimits())
    assert VisitorLimitsSection().model_dump() == dataclasses.asdict(VisitorLimits())


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"key": "shop_0123456789ab"}, "key: must begin with 'pk_', so that everybody sees that it is not secret"),
    ({"key": "pk_short"}, "key: 'pk_short' is too short; use at least 16 characters"),
    ({"origins": []}, "origins: is empty; at least one entry is needed"),
    ({"origins": ["*"]}, "origins[0]: '*' would let every website in; name each origin: 'https://app.example'"),
    (
        {"origins": ["https://shop.example/"]},
        "origins[0]: 'https://shop.example/' is not what a browser sends; write 'https://shop.example'",
    ),
    (
        {"origins": ["https://Shop.example:443"]},
        "origins[0]: 'https://Shop.example:443' is not what a browser sends; write 'https://shop.example'",
    ),
    (
        {"origins": ["shop.example"]},
        "origins[0]: 'shop.example' is not an origin; write scheme, host, and port unless it is the default:"
        " 'https://app.example'",
    ),
    (
        {"origins": "https://a.example"},
        "origins: must be a list, each entry beginning with '- ', not 'https://a.example'",
    ),
    ({"agents": []}, "agents: is empty; at least one entry is needed"),
    ({"agents": ["asistant"]}, "agents[0]: no agent has the id 'asistant'; did you mean 'assistant'?"),
    ({"agents": ["zzz"]}, "agents[0]: no agent has the id 'zzz'; there are: assistant, internal"),
    ({"agents": [5]}, "agents[0]: must be text (in quotes where it looks like something else), not 5"),
    (
        {"name": "a b"},
        "name: 'a b' cannot be used; use letters, digits and '.', '_', '-', beginning with a letter or digit,"
        " at most 64",
    ),
    ({"orgins": []}, "orgins: is not a known key; did you mean 'origins'?"),
    ({"limits": {"runs_per_minut": 1}}, "limits.runs_per_minut: is not a known key; did you mean 'runs_per_minute'?"),
    ({"limits": {"runs_per_minute": 0}}, "limits.runs_per_minute: 0 is too small; it must be at least 1"),
    ({"limits": {"runs_per_minute": True}}, "limits.runs_per_minute: must be a number, not true or false"),
    ({"limits": {"concurrent_runs": "many"}}, "limits.concurrent_runs: must be a whole number, not 'many'"),
]


@pytest.mark.parametrize(("change", "problem"), WRONG)
def test_a_wrong_publishable_key_is_told_in_plain_words(tmp_path: Path, change: dict[str, Any], problem: str) -> None:
    assert problems({"publishable_keys": [{**SHOP, **change}]}, tmp_path) == [f"server.publishable_keys[0].{problem}"]


def test_what_is_missing_is_named_all_at_once(tmp_path: Path) -> None:
    assert problems({"publishable_keys": [{}]}, tmp_path) == [
        f"server.publishable_keys[0].{field}: is missing; add it" for field in ("name", "key", "origins", "agents")
    ]
    assert problems({"publishable_keys": ["pk_shop_0123456789"]}, tmp_path)[0].startswith("server.publishable_keys[0]:")


def test_names_and_keys_are_there_once(tmp_path: Path) -> None:
    api_key = {"name": "shop", "key": "shop-0123456789ab"}
    assert problems({"api_keys": [api_key], "publishable_keys": [SHOP]}, tmp_path) == [
        "server.publishable_keys[0].name: 'shop' is taken by server.api_keys[0]; choose another"
    ]
    assert problems({"publishable_keys": [SHOP, {**SHOP, "name": "blog"}]}, tmp_path) == [
        "server.publishable_keys[1].key: is the same as that of server.publishable_keys[0]; every name needs its own"
    ]
    assert problems({"publishable_keys": [SHOP, {**SHOP, "key": "pk_blog_0123456789"}]}, tmp_path) == [
        "server.publishable_keys[1].name: 'shop' is taken by server.publishable_keys[0]; choose another"
    ]


@pytest.mark.parametrize("key", ["pk_alice_0123456789", "vt1~alice-0123456789"])
def test_an_api_key_does_not_look_like_something_that_is_shown_to_everybody(tmp_path: Path, key: str) -> None:
    [problem] = problems({"api_keys": [{"name": "alice", "key": key}]}, tmp_path)
    assert problem.startswith("server.api_keys[0].key: begins as what everybody may see")
    assert key not in problem


def test_a_publishable_key_lets_the_gateway_be_reached_from_elsewhere(tmp_path: Path) -> None:
    assert load({"host": "0.0.0.0", "publishable_keys": [SHOP]}, tmp_path).server.host == "0.0.0.0"
    assert problems({"host": "0.0.0.0"}, tmp_path)[0].startswith("server.host:")


@pytest.mark.parametrize(
    ("proxies", "problem"),
    [
        (["*"], "server.trusted_proxies[0]: '*' would let everybody say where a request comes from;"),
        (["10.0.0.0/8", "proxy"], "server.trusted_proxies[1]: 'proxy' is not an address or network;"),
        (["10.0.0.1/8"], "server.trusted_proxies[0]: '10.0.0.1/8' is not an address or network;"),
    ],
)
def test_trusted_proxies_are_addresses(tmp_path: Path, proxies: list[str], problem: str) -> None:
    is_open = {"allow_unauthenticated": True}
    assert problems({"trusted_proxies": proxies, **is_open}, tmp_path)[0].startswith(problem)
    server = load(is_open, tmp_path, AGUI_GATEWAY__SERVER__TRUSTED_PROXIES="10.0.0.2, fd00::/8").server
    assert server.trusted_proxies == ("10.0.0.2", "fd00::/8")


def test_the_visitors_secret_is_long_and_secret(tmp_path: Path) -> None:
    short = "short-and-secret"
    [problem] = problems({"visitor_secret": short}, tmp_path)
    assert problem.startswith("server.visitor_secret: is too short; use at least 32 characters")
    assert short not in problem
    settings = load({}, tmp_path, AGUI_GATEWAY__SERVER__VISITOR_SECRET="x" * 32)
    assert settings.server.visitor_secret == Secret("x" * 32)
    assert Secret("x" * 32) in settings.secrets
    assert "x" * 32 not in repr(settings)


def test_master_keys_may_come_from_the_environment(tmp_path: Path) -> None:
    keys = [base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2)]
    settings = load({}, tmp_path, AGUI_GATEWAY__SERVER__MASTER_KEYS=", ".join(keys))

    assert [key.reveal() for key in settings.server.master_keys] == keys
    assert {Secret(key) for key in keys} <= set(settings.secrets)


def test_keys_do_not_come_from_the_environment_as_a_whole(tmp_path: Path) -> None:
    assert (
        "holds mappings; write them in the file"
        in problems({}, tmp_path, AGUI_GATEWAY__SERVER__PUBLISHABLE_KEYS="x")[0]
    )


def test_what_the_example_shows_is_right_once_it_is_no_comment(tmp_path: Path) -> None:
    lines = example_configuration().splitlines()
    first = next(index for index, line in enumerate(lines) if "# publishable_keys:" in line)
    last = next(index for index in range(first, len(lines)) if not lines[index].lstrip().startswith("#"))
    for index in range(first, last):
        lines[index] = lines[index].replace("# ", "", 1)
    file = tmp_path / "gateway.yaml"
    file.write_text("\n".join(lines))
    [key] = load_settings(Flags(config=file), environ={}).server.publishable_keys
    assert (key.name, key.agents) == ("shop", frozenset(["assistant"]))


def test_editors_know_all_of_it() -> None:
    schema = jsonschema_rs.Draft202012Validator(configuration_schema())
    changes: list[tuple[dict[str, Any], bool]] = [
        ({}, True),
        ({"key": "${env:KEY}"}, True),
        ({"limits": {"runs_per_minute": None, "visitor_runs_per_minute": 3}}, True),
        ({"limits": {"runs_per_minute": "${env:RUNS}"}}, True),
        ({"limits": {"runs_per_minute": 0}}, False),
        ({"origins": []}, False),
        ({"limits": {"x": 1}}, False),
    ]
    for change, good in changes:
        document = {"server": {"publishable_keys": [{**SHOP, **change}], "visitor_secret": "${env:S}"}}
        assert schema.is_valid(document) is good, change


def test_master_keys_are_keys_and_secret(tmp_path: Path) -> None:
    key, short = base64.b64encode(b"k" * 32).decode(), base64.b64encode(b"short" * 5).decode()
    [problem] = problems({"master_keys": [key, short]}, tmp_path)
    assert problem.startswith(
        "server.master_keys[1]: is no key: a master key has 32 bytes, and not 25; use the output of"
    )
    assert short not in problem
    settings = load({"master_keys": ["${env:KEY}"]}, tmp_path, KEY=key)
    assert settings.server.master_keys == (Secret(key),)
    assert Secret(key) in settings.secrets
    assert key not in repr(settings)
