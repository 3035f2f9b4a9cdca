"""Protocols that the configuration turns off: for the whole gateway, or for a key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.running_gateway import LocalGateway, agent, local_gateway, run_body, scripted

ALICE, BOB = "alice-key-of-the-tests", "bob-key-of-the-tests-too"
HELPER = agent("helper", scripted([{"text": "hi"}]))


def key(value: str) -> dict[str, str]:
    return {"authorization": f"Bearer {value}"}


async def ask(gateway: LocalGateway, path: str, who: str = ALICE) -> tuple[int, Any]:
    answer = await gateway.client.http.get(path, headers=key(who))
    return answer.status_code, answer.json()


async def documented(gateway: LocalGateway) -> set[str]:
    return {path.split("/")[1] for path in (await gateway.client.get("/openapi.json"))["paths"]}


async def test_a_protocol_that_is_off_has_no_routes_and_is_not_in_the_api_document(tmp_path: Path) -> None:
    off = {"ml_commons": False, "chat_completions": False, "responses": False}
    server = {"api_keys": [{"name": "alice", "key": ALICE}]}
    async with local_gateway(tmp_path, [HELPER], server=server, sections={"protocols": off}) as gateway:
        for path in ("/_plugins/_ml/tools", "/_cluster/settings", "/v1/models", "/compatible-mode/v1/models"):
            status, body = await ask(gateway, path)
            assert (status, body["code"]) == (404, "not_found"), "as any path that is not served"
            password = await gateway.client.http.get(path, auth=("alice", ALICE))
            assert password.status_code == 401
        assert not await documented(gateway) & {"_plugins", "_cluster", "v1"}
        frames = await gateway.client.run("helper", run_body(), **key(ALICE))
        assert frames[-1].type == "RUN_FINISHED"


async def test_of_two_protocols_that_share_a_route_one_is_enough(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [HELPER], sections={"protocols": {"responses": False}}) as gateway:
        assert (await gateway.client.get("/v1/models"))["data"][0]["id"] == "helper"
        assert {"_plugins", "v1"} <= await documented(gateway)


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("/_plugins/_ml/tools", lambda body: body["error"]["reason"]),
        ("/v1/models", lambda body: body["error"]["message"]),
    ],
)
async def test_a_key_may_not_use_what_is_off_for_it(tmp_path: Path, path: str, form: Any) -> None:
    off = {"ml_commons": False, "chat_completions": False, "responses": False}
    server = {"api_keys": [{"name": "alice", "key": ALICE, "protocols": off}, {"name": "bob", "key": BOB}]}
    async with local_gateway(tmp_path, [HELPER], server=server) as gateway:
        status, body = await ask(gateway, path)
        assert status == 403
        assert "is false for the key" in form(body)
        assert "responses is false" in form(body) or not path.startswith("/v1")
        assert "chat_completions is false" in form(body) or not path.startswith("/v1")
        if path.startswith("/v1"):
            assert (body["error"]["type"], body["error"]["code"]) == ("permission_error", "protocol_not_allowed")
        assert (await ask(gateway, path, BOB))[0] == 200
        assert (await ask(gateway, "/v1/nothing"))[0] == 404
        assert (await ask(gateway, "/agents"))[0] == 200, "the gateway's own protocols are always on"


async def test_what_is_off_for_all_is_off_for_a_key_with_settings_of_its_own(tmp_path: Path) -> None:
    server = {"api_keys": [{"name": "alice", "key": ALICE, "protocols": {"ml_commons": {}}}]}
    async with local_gateway(tmp_path, [HELPER], server=server, sections={"protocols": {"ml_commons": False}}) as one:
        assert (await ask(one, "/_plugins/_ml/tools"))[0] == 404
