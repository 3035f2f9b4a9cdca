"""What one of two gateways changes or deletes is so for the other one, which has used it before: an agent, a push
notification config, a thread. Settings: tests/ml_commons/test_ml_commons_settings_shared.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from tests.a2a_scene import A2AClient, said
from tests.openai_chat_server import ChatServer, chat_server, completion
from tests.openai_scene import REFUNDER, WORDS
from tests.opensearch.index_sets import INDEX_SETS
from tests.running_gateway import LocalGateway, run_body
from tests.several_gateways import two_gateways
from tests.stored_samples import CLUSTER_KEY

SERVER: Final = {
    "master_keys": [CLUSTER_KEY.reveal()],
    "allowed_private_hosts": ["127.0.0.1"],
    "api_keys": [{"name": "alice", "key": "alice-key-of-the-tests"}],
}
ALICE: Final = {"authorization": "Bearer alice-key-of-the-tests"}


@pytest.fixture(autouse=True)
def _node(opensearch_url: str) -> None:
    INDEX_SETS.begin_test(opensearch_url)


async def words(gateway: LocalGateway, agent_id: str, run_id: str, thread_id: str) -> str:
    """What an agent says in a new run."""
    frames = await gateway.client.run(agent_id, run_body(run_id, run_id=run_id, thread_id=thread_id), **ALICE)
    return "".join(frame.data["delta"] for frame in frames if frame.type == "TEXT_MESSAGE_CONTENT")


async def ask(gateway: LocalGateway, method: str, path: str, body: object = None) -> tuple[int, Any]:
    answer = await gateway.client.http.request(method, path, json=body, headers=ALICE)
    return answer.status_code, answer.json() if answer.content else None


def own_agent(models: ChatServer, model_id: str) -> dict[str, Any]:
    model = {"model_provider": "openai/v1/chat/completions", "model_id": model_id, "endpoint": models.endpoint}
    return {"model": {**model, "credential": {"openai_api_key": "sk-alices-very-own"}}}


async def test_an_agent(tmp_path: Path) -> None:
    async with chat_server() as models:
        callers = {"endpoints": [rf"^http://127\.0\.0\.1:{models.port}/.*$"], "private_addresses": True}
        models.answers(*[completion("hi")] * 3)
        async with two_gateways(tmp_path, [WORDS], server=SERVER, callers=callers) as (one, two):
            assert (await ask(one, "PUT", "/agents/mine", own_agent(models, "first")))[0] == 201
            assert await words(two, "mine", "r1", "t1") == "hi"
            assert (await ask(two, "PUT", "/agents/mine", own_agent(models, "second")))[0] == 200
            assert await words(one, "mine", "r2", "t2") == await words(two, "mine", "r3", "t3") == "hi"
            assert [each.json["model"] for each in models.requests] == ["first", "second", "second"]
            assert (await ask(one, "DELETE", "/agents/mine"))[0] == 204
            status, answer = await ask(two, "POST", "/agents/mine/run", run_body())
            assert (status, answer["code"]) == (404, "agent_not_found")


async def test_a_push_notification_config(tmp_path: Path) -> None:
    async with two_gateways(tmp_path, [REFUNDER], server=SERVER) as (one, two):
        first, second = (A2AClient(each.client, headers=ALICE) for each in (one, two))
        task_id = (await first.call("SendMessage", said("refund")))["task"]["id"]
        config = {"taskId": task_id, "id": "hook", "url": f"{one.client.base_url}/one"}
        await first.call("CreateTaskPushNotificationConfig", config)
        named = {"taskId": task_id, "id": "hook"}
        assert (await second.call("GetTaskPushNotificationConfig", named))["url"] == config["url"]
        config["url"] = f"{one.client.base_url}/two"
        await second.call("CreateTaskPushNotificationConfig", config)
        assert (await first.call("GetTaskPushNotificationConfig", named))["url"] == config["url"]
        await second.call("DeleteTaskPushNotificationConfig", named)
        assert (await first.error("GetTaskPushNotificationConfig", named))["code"] == -32001


async def test_a_thread(tmp_path: Path) -> None:
    async with two_gateways(tmp_path, [{**WORDS, "history": "append"}], server=SERVER) as (one, two):
        assert await words(one, "words", "r1", "t") == await words(one, "words", "r1", "t") == "I heard: r1"
        assert (await ask(two, "PATCH", "/threads/t", {"title": "Named"}))[0] == 204
        assert [each["title"] for each in (await ask(one, "GET", "/threads"))[1]["threads"]] == ["Named"]
        assert await words(two, "words", "r2", "t") == "I heard: r2"
        _, shown = await ask(one, "GET", "/threads/t/messages")
        assert [each["content"] for each in shown["messages"]] == ["r1", "I heard: r1", "r2", "I heard: r2"]
        assert (await ask(two, "DELETE", "/threads/t"))[0] == 204
        for path in ("/threads/t/messages", "/runs/r1", "/runs/r2/events"):
            assert (await ask(one, "GET", path))[0] == 404
        assert (await ask(one, "GET", "/threads"))[1]["threads"] == []
        assert await words(one, "words", "r1", "t") == "I heard: r1", "its ids are free again"
        _, shown = await ask(two, "GET", "/threads/t/messages")
        assert [each["content"] for each in shown["messages"]] == ["r1", "I heard: r1"]
