"""`_cluster/settings` where several gateways share a store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.ml_commons_scene import CONFIGURED
from tests.opensearch.index_sets import INDEX_SETS
from tests.running_gateway import LocalGateway
from tests.two_gateways import gateway_of, two_gateways
from tests.waiting import until_answered

STREAM = "plugins.ml_commons.stream_enabled"
TRUSTED = "plugins.ml_commons.trusted_connector_endpoints_regex"


@pytest.fixture(autouse=True)
def _node(opensearch_url: str) -> None:
    INDEX_SETS.begin_test(opensearch_url)


async def change(gateway: LocalGateway, body: object) -> None:
    answer = await gateway.client.http.put("/_cluster/settings", json=body)
    assert answer.status_code == 200, answer.text


async def settings(gateway: LocalGateway) -> Any:
    return await gateway.client.get("/_cluster/settings?flat_settings")


async def until_same(gateway: LocalGateway, expected: Any) -> None:
    """Until a gateway has read these settings."""
    await until_answered(lambda: settings(gateway), lambda found: bool(found == expected))


async def test_what_one_gateway_sets_holds_for_the_others(tmp_path: Path) -> None:
    async with two_gateways(tmp_path, [CONFIGURED]) as (one, two):
        trusted = [r"^https://one\.example/.*$"]
        await change(one, {"persistent": {TRUSTED: trusted}, "transient": {STREAM: False}})
        expected: dict[str, Any] = {"persistent": {TRUSTED: trusted}, "transient": {STREAM: "false"}}
        await until_same(two, expected)
        assert two.application.endpoints.refusal("https://one.example/v1") is None
        await change(two, {"transient": {"plugins.ml_commons.ag_ui_enabled": False}})
        expected["transient"] = {**expected["transient"], "plugins.ml_commons.ag_ui_enabled": "false"}
        assert await settings(two) == expected
        await until_same(one, expected)
        await change(one, {"persistent": {"*": None}, "transient": {"*": None}})
        await until_same(two, {"persistent": {}, "transient": {}})


async def test_transient_settings_hold_until_the_last_gateway_ends(tmp_path: Path) -> None:
    async with gateway_of(tmp_path, "one", [CONFIGURED]) as one:
        await change(one, {"persistent": {STREAM: True}, "transient": {STREAM: False}})
        async with gateway_of(tmp_path, "two", [CONFIGURED]) as two:
            expected = {"persistent": {STREAM: "true"}, "transient": {STREAM: "false"}}
            assert await settings(two) == expected
    async with gateway_of(tmp_path, "three", [CONFIGURED]) as three:
        assert await settings(three) == {"persistent": {STREAM: "true"}, "transient": {}}
