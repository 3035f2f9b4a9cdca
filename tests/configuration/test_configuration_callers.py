"""The section `callers`: what agents that callers make may reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.configuration.file import InvalidConfigurationError
from gateway.settings import CallersSettings, Flags, load_settings

AGENT = "agents:\n  - id: a\n    model: {model_provider: demo}\n"


def callers(directory: Path, text: str = "") -> CallersSettings:
    file = directory / "f.yaml"
    file.write_text(AGENT + text)
    return load_settings(Flags(config=file), environ={}).callers


def test_where_the_operator_names_none_the_own_hosts_of_providers_are_reached(tmp_path: Path) -> None:
    own = callers(tmp_path)
    assert r"^https://api\.openai\.com/.*$" in own.endpoints
    assert (own.private_addresses, own.own_identity) == (False, False)


def test_what_the_operator_names_is_all_that_is_reached(tmp_path: Path) -> None:
    named = callers(tmp_path, "callers: {endpoints: ['^https://llm\\.example/.*$'], own_identity: true}\n")
    assert named == CallersSettings((r"^https://llm\.example/.*$",), private_addresses=False, own_identity=True)


@pytest.mark.parametrize("pattern", [".*", "llm.example", r"^https://(a/b|c)\.example/.*$"])
def test_a_pattern_without_a_host_is_named_by_its_place(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(InvalidConfigurationError) as caught:
        callers(tmp_path, f"callers: {{endpoints: ['{pattern}']}}")
    assert "f.yaml:4:23: callers.endpoints[0]: the pattern" in caught.value.message


def test_an_origin_may_be_trusted_by_ml_commons_name(tmp_path: Path) -> None:
    named = callers(tmp_path, "ml_commons: {trusted_connector_endpoints_regex: ['https://mcp.example.com']}\n")
    assert named.endpoints == ("https://mcp.example.com",)


@pytest.mark.parametrize(
    ("text", "is_open"),
    [
        ("callers: {private_addresses: true}\n", True),
        ("callers: {private_addresses: true}\nml_commons: {connector: {private_ip_enabled: true}}\n", True),
        ("callers: {private_addresses: true}\nml_commons: {connector: {private_ip_enabled: false}}\n", False),
        ("callers: {private_addresses: true}\nml_commons: {connector: {private_ip_enabled: null}}\n", True),
        ("ml_commons: {connector: {private_ip_enabled: false}}\n", False),
    ],
)
def test_ml_commons_setting_closes_private_addresses(tmp_path: Path, text: str, is_open: bool) -> None:
    assert callers(tmp_path, text).private_addresses is is_open


def test_ml_commons_setting_opens_no_private_addresses_by_itself(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfigurationError) as caught:
        callers(tmp_path, "ml_commons: {connector: {private_ip_enabled: true}}\n")
    said = "ml_commons.connector.private_ip_enabled: opens nothing by itself; set callers.private_addresses: true"
    assert said in caught.value.message
