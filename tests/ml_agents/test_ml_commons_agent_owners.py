"""Whose a registered agent is, which ids and addresses it may have, and what a failed registration leaves: nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gateway.http_client import endpoint_policy
from tests.ml_commons_scene import LOOPBACK, MlGateway, ml_gateway
from tests.openai_chat_server import Script, chat_server, completion
from tests.running_gateway import run_body

KEY = "sk-of-the-owners-tests"
OPENAI = "openai/v1/chat/completions"
ALICE = {"authorization": "Bearer alice-key-of-the-tests"}
BOB = {"authorization": "Bearer bob-key-of-the-tests-too"}
SERVER = {
    "api_keys": [
        {"name": "alice", "key": "alice-key-of-the-tests"},
        {"name": "bob", "key": "bob-key-of-the-tests-too"},
    ]
}
METADATA = "169.254.169.254"


def body(block: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    usual = {"model_id": "gpt-4o", "model_provider": OPENAI, "credential": {"openai_api_key": KEY}}
    return {"name": "n", "model": usual | (block or {}), "tools": [], **more}


async def containers(ml: MlGateway) -> list[dict[str, Any]]:
    _, answer = await ml.call("POST", "/memory_containers/_search", {})
    found: list[dict[str, Any]] = answer["hits"]["hits"]
    return found


async def total(ml: MlGateway, **more: Any) -> int:
    _, answer = await ml.call("POST", "/agents/_search", {"size": 0}, **more)
    value: int = answer["hits"]["total"]["value"]
    return value


# --- memory


async def test_a_conversational_v2_agent_gets_a_container_that_outlives_it(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        agent_id = await ml.register(body(type="conversational/v2", name="Remembers"))
        _, shown = await ml.call("GET", f"/agents/{agent_id}")
        assert shown["type"] == "conversational_v2"
        [container] = await containers(ml)
        assert shown["memory"] == {"type": "agentic_memory", "memory_container_id": container["_id"]}
        assert container["_source"]["name"] == "Remembers"
        await ml.call("DELETE", f"/agents/{agent_id}")
        assert [each["_id"] for each in await containers(ml)] == [container["_id"]]


async def test_a_named_container_has_to_be_there(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        memory = {"type": "agentic_memory", "memory_container_id": "nope"}
        status, answer = await ml.call("POST", "/agents/_register", body(memory=memory))
        assert (status, "memory container id: nope" in answer["error"]["reason"]) == (404, True)
        _, made = await ml.call("POST", "/memory_containers/_create", {"name": "c"})
        memory["memory_container_id"] = made["memory_container_id"]
        agent_id = await ml.register(body(memory=memory))
        _, shown = await ml.call("GET", f"/agents/{agent_id}")
        assert shown["memory"] == memory
        assert len(await containers(ml)) == 1


async def test_an_agent_that_is_changed_to_agentic_memory_gets_a_container(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        agent_id = await ml.register(body())
        status, _ = await ml.call("PUT", f"/agents/{agent_id}", {"memory": {"type": "agentic_memory"}})
        _, shown = await ml.call("GET", f"/agents/{agent_id}")
        [container] = await containers(ml)
        assert (status, shown["memory"]["memory_container_id"]) == (200, container["_id"])
        await ml.call("PUT", f"/agents/{agent_id}", {"memory": {"type": "conversation_index"}})
        _, shown = await ml.call("GET", f"/agents/{agent_id}")
        assert shown["memory"] == {"type": "conversation_index"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"tools": [{"type": "NoTool"}]},
        {"agent_id": "taken"},
        {"agent_id": "configured"},
        {"memory": {"type": "conversation_index"}},
        {"context_management_name": "t"},
    ],
)
async def test_a22_a_registration_that_fails_leaves_nothing(tmp_path: Path, wrong: dict[str, Any]) -> None:
    async with ml_gateway(tmp_path) as ml:
        await ml.register(body(agent_id="taken"))
        status, _ = await ml.call("POST", "/agents/_register", body(type="conversational_v2") | wrong)
        assert status in (400, 409)
        assert (await total(ml), await containers(ml)) == (1, [])


# --- ids


@pytest.mark.parametrize(
    ("agent_id", "reason"),
    [
        ("_x", "agent id must not start with '_'"),
        ("_search", "agent id must not start with '_'"),
        ("-x", "agent id must not start with '-'"),
        ("a b", "agent id must contain only letters, digits, underscores, and hyphens, and must start with a letter"),
        ("..", "agent id must contain only letters"),
        ("a/../b", "agent id must contain only letters"),
        ("a%2fb", "agent id must contain only letters"),
        ("é", "agent id must contain only letters"),
        ("a\x00", "agent id must contain only letters"),
        ("a\n", "agent id must contain only letters"),
        ("a" * 513, "agent id is too long, max length is 512"),
        ("", "agent id is invalid"),
        (7, "agent id is invalid"),
    ],
)
async def test_a20_ids_that_may_not_be_chosen(tmp_path: Path, agent_id: Any, reason: str) -> None:
    async with ml_gateway(tmp_path) as ml:
        status, answer = await ml.call("POST", "/agents/_register", body(agent_id=agent_id))
        assert (status, answer["error"]["fields"][0]["field"]) == (400, "/agent_id")
        assert reason in answer["error"]["reason"]


@pytest.mark.parametrize("agent_id", ["a", "My_agent-7", "a" * 512])
async def test_a20_ids_that_may_be_chosen(tmp_path: Path, agent_id: str) -> None:
    async with ml_gateway(tmp_path) as ml:
        assert await ml.register(body(agent_id=agent_id)) == agent_id
        assert (await ml.call("GET", f"/agents/{agent_id}"))[0] == 200
        status, answer = await ml.call("POST", "/agents/_register", body(agent_id=agent_id))
        assert (status, answer["error"]["reason"]) == (409, f"agent id '{agent_id}' already exists")


async def test_a20_ids_are_unique_over_owners_and_the_configuration(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, server=SERVER) as ml:
        await ml.register(body(agent_id="mine"), headers=ALICE)
        for taken in ("mine", "configured"):
            status, answer = await ml.call("POST", "/agents/_register", body(agent_id=taken), headers=BOB)
            assert (status, answer["error"]["reason"]) == (409, f"agent id '{taken}' already exists")


# --- owners


async def test_somebody_elses_agent_is_not_there(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, server=SERVER) as ml:
        agent_id = await ml.register(body(), headers=ALICE)
        for method, change in (("GET", None), ("PUT", {"name": "x"}), ("DELETE", None)):
            status, answer = await ml.call(method, f"/agents/{agent_id}", change, headers=BOB)
            assert (status, answer["status"]) == (404, 404), method
        answer = await ml.http.post(f"/agents/{agent_id}/run", json=run_body(), headers=BOB)
        assert (answer.status_code, await total(ml, headers=BOB), await total(ml, headers=ALICE)) == (404, 0, 1)


async def test_a_public_agent_is_seen_by_all_and_changed_by_its_owner(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, server=SERVER) as ml:
        agent_id = await ml.register(body(access_mode="public"), headers=ALICE)
        status, shown = await ml.call("GET", f"/agents/{agent_id}", headers=BOB)
        assert (status, shown["name"], await total(ml, headers=BOB)) == (200, "n", 1)
        for method, change in (("PUT", {"name": "x"}), ("DELETE", None)):
            assert (await ml.call(method, f"/agents/{agent_id}", change, headers=BOB))[0] == 404
        change = {"access_mode": "private"}
        assert (await ml.call("PUT", f"/agents/{agent_id}", change, headers=ALICE))[0] == 200
        assert (await ml.call("GET", f"/agents/{agent_id}", headers=BOB))[0] == 404


async def test_another_owners_container_cannot_be_named(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, server=SERVER) as ml:
        _, made = await ml.call("POST", "/memory_containers/_create", {"name": "c"}, headers=ALICE)
        memory = {"type": "agentic_memory", "memory_container_id": made["memory_container_id"]}
        status, _ = await ml.call("POST", "/agents/_register", body(memory=memory), headers=BOB)
        assert (status, await total(ml, headers=BOB)) == (404, 0)


async def test_a_caller_has_as_many_agents_as_the_operator_allows(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, callers={**LOOPBACK, "max_agents": 1}) as ml:
        agent_id = await ml.register(body())
        status, answer = await ml.call("POST", "/agents/_register", body(type="conversational_v2"))
        assert (status, answer["error"]["type"]) == (409, "status_exception")
        assert await containers(ml) == []
        assert (await ml.call("PUT", f"/agents/{agent_id}", {"name": "still"}))[0] == 200


# --- addresses


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://bedrock-runtime.evil.com/x.amazonaws.com/y",
        "https://evil.com/api.openai.com/v1",
        "https://api.openai.com.evil.com/v1",
        "https://api.openai.com@evil.com/v1",
        "https://api.openai.com:444/v1",
        "http://api.openai.com/v1",
        "https://api.openai.com/a/..%2fv1",
        "http://127.0.0.1:80/v1",
        "http://[::1]/v1",
        "http://[::ffff:169.254.169.254]/v1",
        f"http://{METADATA}/latest/meta-data",
        "http://2130706433/v1",
        "http://0x7f.1/v1",
        "http://localhost/v1",
        "http://10.0.0.1/v1",
        "file:///etc/passwd",
        "https://api.openai.com\\@evil.com/v1",
        "https://api.openai.com/v1\r\nHost: evil.com",
    ],
)
async def test_no_model_is_registered_at_a_hostile_address(tmp_path: Path, endpoint: str) -> None:
    async with ml_gateway(tmp_path, callers={}) as ml:
        status, answer = await ml.call("POST", "/agents/_register", body({"endpoint": endpoint}))
        assert (status, [each["field"] for each in answer["error"]["fields"]]) == (400, ["/model/endpoint"])
        tool = {"type": "McpServer", "url": endpoint}
        status, answer = await ml.call("POST", "/agents/_register", body() | {"tools": [tool]})
        assert (status, [each["field"] for each in answer["error"]["fields"]]) == (400, ["/tools/0/url"])
        assert await total(ml) == 0


async def test_no_redirect_of_a_registered_model_is_followed(tmp_path: Path) -> None:
    async with chat_server() as models, ml_gateway(tmp_path) as ml:
        elsewhere = f"http://127.0.0.1:{models.port}/elsewhere"
        models.answers(*[Script(status=307, headers=[("location", elsewhere)]) for _ in range(3)])
        agent_id = await ml.register(body({"endpoint": models.endpoint}))
        frames = await ml.gateway.client.run(agent_id, run_body())
    assert frames[-1].type == "RUN_ERROR"
    assert {request.target for request in models.requests} == {"/v1/chat/completions"}


@pytest.mark.parametrize("region", ["evil.com/", "evil.com#", "us-east-1.evil.com", "x@evil.com/", "US-EAST-1 ", "-a"])
async def test_a_region_is_not_a_way_to_another_host(tmp_path: Path, region: str) -> None:
    keys = {"access_key": "AKIDEXAMPLE", "secret_key": "of-the-tests"}
    block = {"model_provider": "bedrock/converse", "credential": keys}
    async with ml_gateway(tmp_path, callers={}) as ml:
        for where, model in (
            ("/model/region", block | {"region": region}),
            ("/model/credential/region", block | {"credential": keys | {"region": region}}),
            ("/model/model_parameters/region", block | {"model_parameters": {"region": region}}),
        ):
            status, answer = await ml.call("POST", "/agents/_register", body(model))
            assert (status, [each["field"] for each in answer["error"]["fields"]]) == (400, [where])


@pytest.mark.parametrize("address", [METADATA, "127.0.0.1", "10.0.0.1", "::1", "fd00::1", "100.64.0.1"])
async def test_a_name_that_leads_to_a_private_address_is_refused_at_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    asked: list[str] = []

    async def lookup(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["93.184.215.14", address]

    monkeypatch.setattr(endpoint_policy, "resolve", lookup)
    async with ml_gateway(tmp_path, callers={"endpoints": [r"^https?://models\.example/.*$"]}) as ml:
        agent_id = await ml.register(body({"endpoint": "http://models.example/v1"}))
        frames = await ml.gateway.client.run(agent_id, run_body())
    assert set(asked) == {"models.example"}
    assert (frames[-1].type, frames[-1].data["code"]) == ("RUN_ERROR", "model_invalid")


# --- the container of a public agent


async def test_a_public_agent_does_not_show_its_owners_container(tmp_path: Path) -> None:
    """Nor does a search for it; its owner reads it as ever."""
    async with ml_gateway(tmp_path, server=SERVER) as ml:
        made = {"name": "n", "memory_container_id": "of-alice"}
        assert (await ml.call("POST", "/memory_containers/_create", made, headers=ALICE))[0] == 200
        memory = {"type": "agentic_memory", "memory_container_id": "of-alice"}
        agent_id = await ml.register(body(type="conversational_v2", memory=memory, access_mode="public"), headers=ALICE)
        by_container = {"query": {"term": {"memory.memory_container_id": "of-alice"}}}
        for headers, shown in ((ALICE, memory), (BOB, {"type": "agentic_memory"})):
            status, agent = await ml.call("GET", f"/agents/{agent_id}", headers=headers)
            assert (status, agent["memory"]) == (200, shown)
            _, found = await ml.call("POST", "/agents/_search", {}, headers=headers)
            assert [hit["_source"]["memory"] for hit in found["hits"]["hits"]] == [shown]
            _, found = await ml.call("POST", "/agents/_search", {"_source": ["memory"]}, headers=headers)
            assert "of-alice" not in str(found["hits"]["hits"]) or headers is ALICE
            _, found = await ml.call("POST", "/agents/_search", by_container, headers=headers)
            assert found["hits"]["total"]["value"] == 0
        await ml.call("PUT", f"/agents/{agent_id}", {"access_mode": "private"}, headers=ALICE)
        _, found = await ml.call("POST", "/agents/_search", by_container, headers=ALICE)
        assert [hit["_source"]["memory"] for hit in found["hits"]["hits"]] == [memory]


async def test_another_callers_threads_are_not_in_the_container_of_a_public_agent(tmp_path: Path) -> None:
    """Also where that caller has a container of the same id."""
    async with chat_server() as models, ml_gateway(tmp_path, server=SERVER) as ml:
        models.answers(completion("hello"), completion("hello"))
        made = {"name": "n", "memory_container_id": "same"}
        for headers in (ALICE, BOB):
            assert (await ml.call("POST", "/memory_containers/_create", made, headers=headers))[0] == 200
        memory = {"type": "agentic_memory", "memory_container_id": "same"}
        block = {"endpoint": models.endpoint}
        agent_id = await ml.register(
            body(block, type="conversational_v2", memory=memory, access_mode="public"), headers=ALICE
        )
        for headers, count in ((ALICE, 2), (BOB, 0)):
            sent = {"input": "hi", "parameters": {"memory_id": "m"}}
            status, _ = await ml.call("POST", f"/agents/{agent_id}/_execute", sent, headers=headers)
            assert status == 200
            path = "/memory_containers/same/memories/working/_search"
            _, found = await ml.call("POST", path, {}, headers=headers)
            assert found["hits"]["total"]["value"] == count


async def test_an_agents_container_keeps_other_containers_memories_out(tmp_path: Path) -> None:
    async with chat_server() as models, ml_gateway(tmp_path) as ml:
        models.answers(completion("hello"), completion("hello"))
        for container_id in ("c", "d"):
            made = {"name": "n", "memory_container_id": container_id}
            assert (await ml.call("POST", "/memory_containers/_create", made))[0] == 200
        block = {"endpoint": models.endpoint}
        ids = {
            each: await ml.register(
                body(block, type="conversational_v2", memory={"type": "agentic_memory", "memory_container_id": each})
            )
            for each in ("c", "d")
        }
        sent = {"input": "hi", "parameters": {"memory_id": "m"}}
        assert (await ml.call("POST", f"/agents/{ids['c']}/_execute", sent))[0] == 200
        status, answer = await ml.call("POST", f"/agents/{ids['d']}/_execute", sent)
        assert (status, "another memory container" in answer["error"]["details"]) == (409, True)
        refused = await ml.http.post(f"/agents/{ids['d']}/run", json=run_body("hello", thread_id="m"))
        assert refused.status_code == 409
        assert (await ml.call("POST", f"/agents/{ids['c']}/_execute", sent))[0] == 200
        assert len(models.requests) == 2
