"""`_cluster/settings` for ml-commons' settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import InvalidRequestError
from gateway.ml_commons.feature_settings import (
    DEFAULTS,
    PRIVATE_ADDRESSES,
    TRUSTED_ENDPOINTS,
    Feature,
    feature_off,
    read_setting,
)
from gateway.ml_commons.settings_bodies import read_changes
from gateway.settings import Flags, load_settings
from tests.ml_commons_scene import MlGateway, ml_gateway

ADMIN, USER = "admin-key-of-the-tests", "users-key-of-the-tests"
KEYS = {"api_keys": [{"name": "root", "key": ADMIN, "admin": True}, {"name": "user", "key": USER}]}
STREAM = "plugins.ml_commons.stream_enabled"
NAMES = (
    "local_model.enabled",
    "mcp_server_enabled",
    "jvm_heap_memory_threshold",
    "mcp_connector_enabled",
    "remote_inference.enabled",
)
TRUSTED = "plugins.ml_commons.trusted_connector_endpoints_regex"


async def settings(ml: MlGateway, method: str, body: object = None, query: str = "", **more: Any) -> tuple[int, Any]:
    more = more if body is None else {"json": body, **more}
    answer = await ml.http.request(method, f"/_cluster/settings{query}", **more)
    return answer.status_code, answer.json()


def reason(answer: Any) -> str:
    said: str = answer["error"]["reason"]
    return said


async def test_settings_are_set_by_nested_or_flat_names_and_read_both_ways(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        flat = {"persistent": {STREAM: False}, "transient": {"plugins": {"ml_commons": {"ag_ui_enabled": "false"}}}}
        status, answer = await settings(ml, "PUT", flat)
        nested = {
            "persistent": {"plugins": {"ml_commons": {"stream_enabled": "false"}}},
            "transient": {"plugins": {"ml_commons": {"ag_ui_enabled": "false"}}},
        }
        assert (status, answer) == (200, {"acknowledged": True, **nested})
        assert await settings(ml, "GET") == (200, nested)
        _, answer = await settings(ml, "GET", query="?flat_settings&include_defaults=true")
        assert (answer["persistent"], answer["transient"]) == (
            {STREAM: "false"},
            {"plugins.ml_commons.ag_ui_enabled": "false"},
        )
        assert answer["defaults"]["plugins.ml_commons.memory.retention_enabled"] == "true"
        assert answer["defaults"]["plugins.ml_commons.unified_agent_api_enabled"] == "true"
        assert answer["defaults"]["plugins.ml_commons.max_json_size"] == "100000000"
        assert STREAM not in answer["defaults"]


@pytest.mark.parametrize("name", [STREAM, "plugins.ml_commons.*", "*"])
async def test_null_removes_a_setting(tmp_path: Path, name: str) -> None:
    async with ml_gateway(tmp_path) as ml:
        await settings(ml, "PUT", {"persistent": {STREAM: False}, "transient": {STREAM: False}})
        status, answer = await settings(ml, "PUT", {"persistent": {name: None}, "transient": {name: None}})
        assert (status, answer) == (200, {"acknowledged": True, "persistent": {}, "transient": {}})
        assert await settings(ml, "GET") == (200, {"persistent": {}, "transient": {}})


async def test_what_is_persistent_outlives_the_gateway_and_wins_over_the_file(tmp_path: Path) -> None:
    configured = {
        "ml_commons": {"stream_enabled": True, "ag_ui_enabled": False, "memory": {"retention_enabled": False}}
    }
    async with ml_gateway(tmp_path, sections=configured) as ml:
        await settings(ml, "PUT", {"persistent": {STREAM: False}, "transient": {"plugins.ml_commons.max_json_size": 5}})
    async with ml_gateway(tmp_path, sections=configured) as ml:
        _, answer = await settings(ml, "GET", query="?flat_settings&include_defaults")
        assert answer["persistent"] == {STREAM: "false"}
        assert answer["transient"] == {}
        assert answer["defaults"]["plugins.ml_commons.ag_ui_enabled"] == "false"
        assert answer["defaults"]["plugins.ml_commons.memory.retention_enabled"] == "false"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"persistent": {"plugins.ml_commons.x": 1}}, "persistent setting [plugins.ml_commons.x], not recognized"),
        ({"transient": {"cluster.name": "x"}}, "transient setting [cluster.name], not recognized"),
        ({"transient": {"stream_enabled": True}}, "transient setting [stream_enabled], not recognized"),
        (
            {"persistent": {STREAM: "yes"}},
            f"Failed to parse value [yes] as only [true] or [false] are allowed. Setting: {STREAM}",
        ),
        ({"persistent": {STREAM: [True]}}, "Failed to parse value [[true]] as only [true] or [false] are allowed."),
        ({"persistent": {"plugins.ml_commons.max_json_size": "many"}}, "which must be a whole number"),
        ({"persistent": {TRUSTED: ["no url"]}}, "names no host"),
        ({"persistent": {TRUSTED: ["^https://a(/.*$"]}}, "is not a regular expression"),
        ({"permanent": {STREAM: True}}, "unknown field [permanent]; send 'persistent' and 'transient'"),
        ({"persistent": "all"}, "[persistent] is"),
        ({"persistent": {}}, "Validation Failed: 1: no settings to update;"),
        ({}, "Validation Failed: 1: no settings to update;"),
    ],
)
async def test_what_is_wrong_is_named_and_changes_nothing(tmp_path: Path, body: dict[str, Any], said: str) -> None:
    body = {"transient": {"plugins.ml_commons.ag_ui_enabled": False}, **body} if body.get("persistent") else body
    async with ml_gateway(tmp_path) as ml:
        status, answer = await settings(ml, "PUT", body)
        assert (status, said in reason(answer)) == (400, True), answer
        assert await settings(ml, "GET") == (200, {"persistent": {}, "transient": {}})


async def test_settings_that_change_nothing_here_are_kept(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        body = {"persistent": {"plugins.ml_commons.only_run_on_ml_node": "false"}}
        answer = await ml.http.put("/_cluster/settings/", json=body)  # the seed's own path ends with a slash
        assert answer.json()["acknowledged"] is True


@pytest.mark.parametrize("name", sorted(DEFAULTS.keys() - {PRIVATE_ADDRESSES}))
def test_the_file_takes_every_setting_that_the_route_takes(tmp_path: Path, name: str) -> None:
    default = DEFAULTS[name]
    other: Any = not default if isinstance(default, bool) else [] if isinstance(default, list) else 7
    other = "least_load" if isinstance(default, str) else other
    section: Any = other
    for part in reversed(name.split(".")):
        section = {part: section}
    file = tmp_path / "gateway.yaml"
    file.write_text(json.dumps({"ml_commons": section}), encoding="utf-8")
    loaded = load_settings(Flags(config=file), environ={})
    configured = {**loaded.ml_commons, TRUSTED_ENDPOINTS: [*loaded.callers.endpoints]}
    assert configured[name] == other


async def test_what_the_file_says_is_shown_among_the_defaults(tmp_path: Path) -> None:
    section = {"local_model": {"enabled": False}, "mcp_server_enabled": False, "jvm_heap_memory_threshold": 7}
    async with ml_gateway(tmp_path, sections={"ml_commons": section}) as ml:
        _, answer = await settings(ml, "GET", query="?flat_settings&include_defaults")
    shown = {f"plugins.ml_commons.{name}": answer["defaults"][f"plugins.ml_commons.{name}"] for name in NAMES}
    assert shown == dict(zip(shown, ("false", "false", "7", "true", "true"), strict=True))


async def test_private_addresses_begin_as_the_file_says_and_can_only_be_closed(tmp_path: Path) -> None:
    private = f"plugins.ml_commons.{PRIVATE_ADDRESSES}"

    async def opened(ml: MlGateway, value: bool | None = None) -> tuple[str, bool]:
        if value is not None:
            assert (await settings(ml, "PUT", {"transient": {private: value}}))[0] == 200
        _, answer = await settings(ml, "GET", query="?flat_settings&include_defaults")
        endpoints = ml.gateway.application.endpoints
        shown: str = {**answer["defaults"], **answer["transient"]}[private]
        return shown, endpoints.refusal("http://127.0.0.1:9/v1") is None

    async with ml_gateway(tmp_path) as ml:
        assert await opened(ml) == ("true", True)
        assert await opened(ml, value=False) == ("false", False)
        assert await opened(ml, value=True) == ("true", True)
    closed = {"endpoints": [r"^http://127\.0\.0\.1:\d+/.*$"]}
    async with ml_gateway(tmp_path, callers=closed) as ml:
        assert await opened(ml) == ("false", False)
        assert (await opened(ml, value=True))[1] is False
    off = {"ml_commons": {"connector": {"private_ip_enabled": False}}}
    async with ml_gateway(tmp_path, sections=off) as ml:
        assert await opened(ml) == ("false", False)
        assert (await opened(ml, value=True))[1] is False


async def test_only_administrators_read_and_change_them(tmp_path: Path) -> None:
    body = {"persistent": {STREAM: False}}
    async with ml_gateway(tmp_path, server=KEYS) as ml:
        for method, sent in (("GET", None), ("PUT", body), ("PUT", {"nonsense": 1})):
            status, answer = await settings(ml, method, sent, headers={"authorization": f"Bearer {USER}"})
            assert status == 403
            assert "add 'admin: true' to the key in server.api_keys" in reason(answer)
        assert (await settings(ml, "GET"))[0] == 401
        status, _ = await settings(ml, "PUT", body, auth=("root", ADMIN))
        assert status == 200


async def test_an_open_gateway_lets_nobody_without_a_key_change_them(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, server={"allow_unauthenticated": True}) as ml:
        for method, sent in (("GET", None), ("PUT", {"persistent": {STREAM: False}})):
            status, answer = await settings(ml, method, sent)
            assert (status, answer["error"]["type"]) == (403, "security_exception")


async def test_other_methods_are_named(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        answer = await ml.http.delete("/_cluster/settings")
        assert answer.status_code == 405
        assert answer.headers["allow"] == "GET, HEAD, PUT"
        said = "Incorrect HTTP method for uri [/_cluster/settings] and method [DELETE], allowed: [GET, HEAD, PUT]"
        assert reason(answer.json()) == said


async def test_a_body_that_is_not_json_is_refused(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        headers = {"content-type": "application/json; charset=UTF-8"}
        answer = await ml.http.put("/_cluster/settings", content="{", headers=headers)
        assert (answer.status_code, answer.json()["error"]["type"]) == (400, "json_parse_exception")
        answer = await ml.http.put("/_cluster/settings", json=[])
        assert (answer.status_code, reason(answer.json())) == (400, "the body is an array; it must be a JSON object")
        headers = {"content-type": "application/vnd.opensearch+json;compatible-with=2"}
        answer = await ml.http.put("/_cluster/settings", content=b'{"transient":{"*":null}}', headers=headers)
        assert answer.status_code == 200


async def test_opensearchs_client_sets_and_reads_them(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        await ml.opensearch.cluster.put_settings(body={"persistent": {STREAM: "false"}})
        found = await ml.opensearch.cluster.get_settings(params={"flat_settings": "true"})
    assert found == {"persistent": {STREAM: "false"}, "transient": {}}


async def test_trusted_endpoints_hold_at_once_and_until_they_are_removed(tmp_path: Path) -> None:
    own = "^https://own\\.example/.*$"
    async with ml_gateway(tmp_path, callers={"endpoints": [own]}) as ml:
        endpoints = ml.gateway.application.endpoints

        def reachable() -> list[str]:
            return [host for host in ("own", "other") if endpoints.refusal(f"https://{host}.example/v1") is None]

        assert reachable() == ["own"]
        _, answer = await settings(ml, "GET", query="?flat_settings&include_defaults")
        assert answer["defaults"][TRUSTED] == [own]
        await settings(ml, "PUT", {"persistent": {TRUSTED: ["^https://other\\.example/.*$"]}})
        assert reachable() == ["other"]
        await settings(ml, "PUT", {"persistent": {TRUSTED: None}})
        assert reachable() == ["own"]
        await settings(ml, "PUT", {"persistent": {TRUSTED: []}})
        assert reachable() == []
    async with ml_gateway(tmp_path, callers={"endpoints": [own]}) as ml:
        refusal = ml.gateway.application.endpoints.refusal("https://own.example/v1")
        assert refusal == "it matches none of the trusted endpoints (callers.endpoints)"


@pytest.mark.parametrize("name", sorted(DEFAULTS))
def test_every_default_is_a_value_of_its_setting(name: str) -> None:
    default: Any = DEFAULTS[name]
    assert read_setting(name, default) == default
    with pytest.raises(InvalidRequestError):
        read_setting(name, {"a": 1})


@pytest.mark.parametrize(
    ("feature", "status", "said"),
    [
        (
            "agent_framework_enabled",
            403,
            "Agent Framework is currently disabled. To enable it, update the setting "
            '"plugins.ml_commons.agent_framework_enabled" to true.',
        ),
        (
            "unified_agent_api_enabled",
            400,
            "Unified agent API is not enabled. To enable, please update the setting "
            "plugins.ml_commons.unified_agent_api_enabled",
        ),
        (
            "agentic_memory_enabled",
            403,
            "The Agentic Memory APIs are not enabled. To enable, please update the setting "
            "plugins.ml_commons.agentic_memory_enabled",
        ),
    ],
)
def test_a_feature_that_is_off_names_its_setting(feature: Feature, status: int, said: str) -> None:
    error = feature_off(feature)
    assert (error.status, error.message) == (status, said)


def test_a_body_names_only_so_many_settings() -> None:
    """Each with a `*` is compared with all that there are."""
    names = ["*" * number for number in range(1, 1_002)]
    with pytest.raises(InvalidRequestError, match="more than 1000 settings"):
        read_changes({"persistent": dict.fromkeys(names)})
    assert read_changes({"persistent": dict.fromkeys(names[:1_000])})["persistent"]
