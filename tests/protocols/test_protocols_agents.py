"""Agents that callers make over HTTP: put, used, listed, replaced, deleted; and for whom they are there."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.openai_chat_server import ChatServer, Script, chat_server, completion, text_records
from tests.running_gateway import LocalGateway, agent, local_gateway, run_body, scripted

CONFIGURED = agent("configured", scripted([{"text": "from the file"}]))
ALICE, BOB = "alice-key-of-the-tests", "bob-key-of-the-tests-too"
SERVER = {
    "api_keys": [{"name": "alice", "key": ALICE}, {"name": "bob", "key": BOB}],
    "publishable_keys": [
        {"name": "shop", "key": "pk_shop_of_the_tests", "origins": ["https://shop.example"], "agents": ["configured"]}
    ],
}
SECRET = "sk-alices-very-own"


def key(value: str) -> dict[str, str]:
    return {"authorization": f"Bearer {value}"}


@asynccontextmanager
async def serving(
    directory: Path, *, server: Mapping[str, Any] | None = None, **more: Any
) -> AsyncGenerator[tuple[LocalGateway, ChatServer]]:
    """A gateway with two keys, whose callers may reach one local model server."""
    async with chat_server() as models:
        callers = {"endpoints": [rf"^http://127\.0\.0\.1:{models.port}/.*$"], "private_addresses": True}
        configuration = {"server": SERVER if server is None else server, "callers": callers, **more}
        async with local_gateway(directory, [CONFIGURED], **configuration) as gateway:
            yield gateway, models


def body(models: ChatServer, **more: Any) -> dict[str, Any]:
    return {
        "model": {
            "model_provider": "openai/v1/chat/completions",
            "model_id": "gpt-5",
            "endpoint": models.endpoint,
            "credential": {"openai_api_key": SECRET},
        },
        **more,
    }


async def put(
    gateway: LocalGateway, models: ChatServer, agent_id: str = "mine", who: str = ALICE, **more: Any
) -> httpx.Response:
    return await gateway.client.http.put(f"/agents/{agent_id}", json=body(models, **more), headers=key(who))


async def said(gateway: LocalGateway, agent_id: str, run_id: str, who: str = ALICE) -> str:
    frames = await gateway.client.run(agent_id, run_body(thread_id=run_id, run_id=run_id), **key(who))
    return "".join(frame.data.get("delta", "") for frame in frames if frame.type == "TEXT_MESSAGE_CONTENT")


async def status(gateway: LocalGateway, agent_id: str, who: str) -> tuple[int, str]:
    response = await gateway.client.http.post(f"/agents/{agent_id}/run", json=run_body(), headers=key(who))
    return response.status_code, response.json().get("code", "")


async def rows(gateway: LocalGateway, who: str, query: str = "") -> dict[str, dict[str, Any]]:
    response = await gateway.client.http.get(f"/agents{query}", headers=key(who))
    return {row["id"]: row for row in response.json()["agents"]}


async def test_an_agent_is_put_used_listed_replaced_and_deleted(tmp_path: Path) -> None:
    async with serving(tmp_path) as (gateway, models):
        models.answers(completion("first"), completion("second"))
        made = await put(gateway, models, name="Mine", description="does things", system_prompt="Be first.")
        url = f"{gateway.client.base_url}/agents/mine/run"
        assert (made.status_code, made.json()) == (201, {"id": "mine", "url": url, "public": False})
        assert await said(gateway, "mine", "run-1") == "first"
        request = models.requests[0]
        assert request.headers["authorization"] == f"Bearer {SECRET}"
        assert request.json["messages"][0]["content"] == "Be first."
        assert (await rows(gateway, ALICE))["mine"] == {
            "id": "mine",
            "name": "Mine",
            "description": "does things",
            "type": "conversational",
            "url": url,
            "public": False,
            "own": True,
        }
        assert (await put(gateway, models, system_prompt="Be second.")).status_code == 200
        assert await said(gateway, "mine", "run-2") == "second"
        assert models.requests[1].json["messages"][0]["content"] == "Be second."
        gone = await gateway.client.http.delete("/agents/mine", headers=key(ALICE))
        assert gone.status_code == 204
        assert await status(gateway, "mine", ALICE) == (404, "agent_not_found")
        assert "mine" not in await rows(gateway, ALICE)


async def test_somebody_elses_agent_is_not_there(tmp_path: Path) -> None:
    async with serving(tmp_path) as (gateway, models):
        await put(gateway, models)
        assert await status(gateway, "mine", BOB) == (404, "agent_not_found")
        assert "mine" not in await rows(gateway, BOB)
        assert (await gateway.client.http.delete("/agents/mine", headers=key(BOB))).status_code == 404
        taken = await put(gateway, models, who=BOB)
        assert (taken.status_code, taken.json()["code"]) == (409, "id_taken")
        connected = await gateway.client.http.post("/agents/mine/connect", json=run_body(), headers=key(BOB))
        capable = await gateway.client.http.get("/agents/mine/capabilities", headers=key(BOB))
        assert (connected.status_code, capable.status_code) == (404, 404)


async def test_a_public_agent_is_for_all_with_a_key_and_changed_by_its_owner_alone(tmp_path: Path) -> None:
    async with serving(tmp_path) as (gateway, models):
        models.answers(completion("for all"))
        await put(gateway, models, public=True)
        assert await said(gateway, "mine", "run-1", BOB) == "for all"
        row = (await rows(gateway, BOB))["mine"]
        assert (row["public"], row["own"]) == (True, False)
        assert SECRET not in str(row)
        assert (await put(gateway, models, who=BOB)).status_code == 409
        assert (await gateway.client.http.delete("/agents/mine", headers=key(BOB))).status_code == 404


async def test_the_id_of_a_configured_agent_is_taken(tmp_path: Path) -> None:
    async with serving(tmp_path) as (gateway, models):
        taken = await put(gateway, models, "configured")
        assert (taken.status_code, taken.json()["code"]) == (409, "id_taken")
        kept = await gateway.client.http.delete("/agents/configured", headers=key(ALICE))
        assert (kept.status_code, kept.json()["code"]) == (409, "agent_configured")


async def test_an_agent_that_is_configured_later_wins_and_that_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path) as (gateway, models):
        await put(gateway, models, "later")
    later = agent("later", scripted([{"text": "the operator's"}]))
    with caplog.at_level(logging.WARNING):
        async with local_gateway(tmp_path, [CONFIGURED, later], server=SERVER) as gateway:
            assert await said(gateway, "later", "run-1") == "the operator's"
            listed = await gateway.client.http.get("/agents", headers=key(ALICE))
            assert [row["id"] for row in listed.json()["agents"]] == ["configured", "later"]
    assert any("hides one of the same id" in record.message for record in caplog.records)


async def test_visitors_neither_make_agents_nor_use_those_that_are_made(tmp_path: Path) -> None:
    origin = {"origin": "https://shop.example"}
    async with serving(tmp_path) as (gateway, models):
        await put(gateway, models, public=True)
        visitor = await gateway.client.http.post("/visitors", json={}, headers=origin | key("pk_shop_of_the_tests"))
        headers = origin | key(visitor.json()["visitorToken"])
        made = await gateway.client.http.put("/agents/theirs", json=body(models), headers=headers)
        assert (made.status_code, made.json()["code"]) == (403, "not_for_visitors")
        used = await gateway.client.http.post("/agents/mine/run", json=run_body(), headers=headers)
        assert used.status_code == 404
        listed = await gateway.client.http.get("/agents", headers=headers)
        assert [row["id"] for row in listed.json()["agents"]] == ["configured"]


async def test_without_keys_agents_are_made_where_only_this_machine_asks(tmp_path: Path) -> None:
    async with serving(tmp_path, server={}) as (gateway, models):
        models.answers(completion("hello"))
        assert (await gateway.client.http.put("/agents/mine", json=body(models))).status_code == 201
    async with serving(tmp_path, server={"allow_unauthenticated": True, "host": "0.0.0.0"}) as (gateway, models):
        refused = await gateway.client.http.put("/agents/other", json=body(models))
        assert (refused.status_code, refused.json()["code"]) == (403, "agents_not_allowed")


@pytest.mark.parametrize("change", ["replaced", "deleted"])
async def test_a_run_goes_on_with_the_agent_that_it_began_with(tmp_path: Path, change: str) -> None:
    async with serving(tmp_path) as (gateway, models):
        held = asyncio.Event()
        pieces = text_records("one ", "two")
        models.answers(Script(pieces=pieces[:2], hold=held, pieces_after=pieces[2:]), completion("new"))
        await put(gateway, models)
        async with gateway.client.stream("mine", run_body(), **key(ALICE)) as stream:
            await stream.until("TEXT_MESSAGE_CONTENT")
            if change == "replaced":
                await put(gateway, models, system_prompt="other")
            else:
                await gateway.client.http.delete("/agents/mine", headers=key(ALICE))
            held.set()
            frames = await stream.rest()
        assert frames[-1].type == "RUN_FINISHED"
        assert "".join(f.data["delta"] for f in frames if f.type == "TEXT_MESSAGE_CONTENT") == "one two"


async def test_agents_outlive_the_process_and_their_credentials_are_sealed(tmp_path: Path) -> None:
    async with chat_server() as models:
        models.answers(completion("still there"))
        callers = {"endpoints": [rf"^http://127\.0\.0\.1:{models.port}/.*$"], "private_addresses": True}
        async with local_gateway(tmp_path, [CONFIGURED], server=SERVER, callers=callers) as gateway:
            await put(gateway, models)
        kept = [file.read_bytes() for file in tmp_path.iterdir() if file.name.startswith("gateway.")]  # noqa: ASYNC240
        assert not any(SECRET.encode() in content for content in kept)
        async with local_gateway(tmp_path, [CONFIGURED], server=SERVER, callers=callers) as gateway:
            assert await said(gateway, "mine", "run-1") == "still there"
        # the operator trusts other endpoints from now on
        async with local_gateway(tmp_path, [CONFIGURED], server=SERVER) as gateway:
            assert await status(gateway, "mine", ALICE) == (409, "agent_unusable")


@pytest.mark.parametrize(
    ("wrong", "pointer"),
    [
        ({"model": {"model_provider": "scripted", "model_id": "x"}}, "/model/model_provider"),
        ({"tools": [{"type": "PythonTool", "parameters": {"function": "os:getcwd"}}]}, "/tools/0/type"),
        ({"system_prompt": "${env:HOME}"}, "/system_prompt"),
        ({"public": "yes"}, "/public"),
        ({"max_iteration": 3}, "/max_iteration"),
    ],
)
async def test_what_is_wrong_with_an_agent_is_named(tmp_path: Path, wrong: dict[str, Any], pointer: str) -> None:
    async with serving(tmp_path) as (gateway, models):
        response = await put(gateway, models, **wrong)
        assert (response.status_code, response.json()["code"]) == (422, "invalid_agent")
        assert [each["pointer"] for each in response.json()["errors"]] == [pointer]
        assert "mine" not in await rows(gateway, ALICE)


async def test_what_is_no_object_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as (gateway, _):
        response = await gateway.client.http.put("/agents/mine", json=["agent"], headers=key(ALICE))
        assert response.status_code == 400
        bad_id = await gateway.client.http.put("/agents/-mine", json={}, headers=key(ALICE))
        assert "/id" in {each["pointer"] for each in bad_id.json()["errors"]}


async def test_agents_are_listed_in_pages_configured_ones_first(tmp_path: Path) -> None:
    async with serving(tmp_path) as (gateway, models):
        for number in range(5):
            await put(gateway, models, f"agent-{number}")
        found, pages, query = [], 0, "?limit=2"
        while query:
            response = await gateway.client.http.get(f"/agents{query}", headers=key(ALICE))
            page = response.json()
            found += [row["id"] for row in page["agents"]]
            pages += 1
            query = f"?limit=2&cursor={page['nextCursor']}" if "nextCursor" in page else ""
        assert found == ["configured", *(f"agent-{number}" for number in range(5))]
        assert pages == 3


async def test_agents_behind_those_that_configured_ones_hide_are_listed(tmp_path: Path) -> None:
    async with serving(tmp_path) as (gateway, models):
        for name in ("a", "b", "c"):
            await put(gateway, models, name)
    hiding = [agent(name, scripted([{"text": "hi"}])) for name in ("a", "b")]
    async with local_gateway(tmp_path, hiding, server={"api_keys": SERVER["api_keys"]}) as gateway:
        found: list[str] = []
        query = "?limit=1"
        while query and len(found) < 9:
            page = (await gateway.client.http.get(f"/agents{query}", headers=key(ALICE))).json()
            found += [row["id"] for row in page["agents"]]
            query = f"?limit=1&cursor={page['nextCursor']}" if "nextCursor" in page else ""
    assert found == ["a", "b", "c"]


async def test_a_caller_stores_as_many_agents_as_the_file_says(tmp_path: Path) -> None:
    async with chat_server() as models:
        callers = {"endpoints": [rf"^http://127\.0\.0\.1:{models.port}/.*$"], "private_addresses": True}
        callers |= {"max_agents": 1}
        async with local_gateway(tmp_path, [CONFIGURED], server=SERVER, callers=callers) as gateway:
            assert (await put(gateway, models)).status_code == 201
            refused = await put(gateway, models, "another")
            assert (refused.status_code, refused.json()["code"]) == (409, "too_many")
            assert (await put(gateway, models)).status_code == 200


@pytest.mark.parametrize("cursor", ["x", "Yzk5eA==", base64.urlsafe_b64encode(b"s").decode(), "%00"])
async def test_a_cursor_of_nobodys_is_refused(tmp_path: Path, cursor: str) -> None:
    async with serving(tmp_path) as (gateway, _):
        response = await gateway.client.http.get(f"/agents?cursor={cursor}", headers=key(ALICE))
        assert (response.status_code, response.json()["code"]) == (400, "invalid_cursor")


async def test_names_that_callers_choose_are_no_labels_of_metrics(tmp_path: Path) -> None:
    async with serving(tmp_path) as (gateway, models):
        models.answers(completion("hello"))
        await put(gateway, models, "label-of-alice")
        await said(gateway, "label-of-alice", "run-1")
        metrics = (await gateway.client.http.get("/metrics", headers=key(ALICE))).text
        assert "label-of-alice" not in metrics
        assert 'agent="(stored)"' in metrics


async def test_making_an_agent_counts_as_a_run_for_its_key(tmp_path: Path) -> None:
    limited = {"api_keys": [{"name": "alice", "key": ALICE, "limits": {"runs_per_minute": 2}}]}
    async with serving(tmp_path, server=limited) as (gateway, models):
        assert [(await put(gateway, models, f"a{number}")).status_code for number in range(3)] == [201, 201, 429]
        register = "/_plugins/_ml/agents/_register"
        answer = await gateway.client.http.post(register, json={"name": "a", **body(models)}, headers=key(ALICE))
        assert answer.status_code == 429
