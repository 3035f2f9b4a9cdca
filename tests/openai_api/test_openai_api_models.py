"""GET /v1/models: the agents, as OpenAI's clients ask for models."""

from __future__ import annotations

from pathlib import Path

import openai
import pytest

from tests.openai_scene import openai_client
from tests.running_gateway import LocalGateway, agent, local_gateway, scripted
from tests.website import visitor, website

ALICE, BOB = "alice-key-of-the-tests", "bob-key-of-the-tests-too"
SERVER = {
    "api_keys": [{"name": "alice", "key": ALICE}, {"name": "bob", "key": BOB}],
}
HELPER = agent("helper", scripted([{"text": "hi"}]))
STORED = {
    "model": {
        "model_provider": "openai/v1/chat/completions",
        "model_id": "gpt-5",
        "credential": {"openai_api_key": "sk-of-the-tests"},
    }
}


def sdk(gateway: LocalGateway, key: str, prefix: str = "/v1") -> openai.AsyncOpenAI:
    return openai_client(gateway.client.base_url + prefix, key=key)


async def put(gateway: LocalGateway, agent_id: str, key: str, *, public: bool = False) -> None:
    body = {**STORED, "public": public}
    answer = await gateway.client.http.put(f"/agents/{agent_id}", json=body, headers={"authorization": f"Bearer {key}"})
    assert answer.status_code == 201, answer.text


@pytest.mark.parametrize("prefix", ["/v1", "/compatible-mode/v1"])
async def test_models_are_the_agents_that_the_caller_may_use(tmp_path: Path, prefix: str) -> None:
    async with local_gateway(tmp_path, [HELPER], server=SERVER) as gateway:
        await put(gateway, "mine", ALICE)
        await put(gateway, "shared", BOB, public=True)
        await put(gateway, "secret", BOB)
        async with sdk(gateway, ALICE, prefix) as client:
            listed = {model.id: model async for model in client.models.list()}
            single = [await client.models.retrieve(name) for name in ("helper", "mine", "shared")]
            with pytest.raises(openai.NotFoundError) as unknown:
                await client.models.retrieve("secret")

    assert list(listed) == ["helper", "mine", "shared"]
    assert [model.owned_by for model in listed.values()] == ["gateway", "alice", "another"]
    assert {model.object for model in listed.values()} == {"model"}
    assert listed["helper"].created == 0
    assert listed["mine"].created > 1_700_000_000
    assert single == list(listed.values())
    assert (unknown.value.code, unknown.value.param) == ("model_not_found", "model")
    assert unknown.value.type == "invalid_request_error"


async def test_more_agents_than_a_page_holds_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.openai_api.model_endpoints._PAGE", 2)
    async with local_gateway(tmp_path, [HELPER], server=SERVER) as gateway, sdk(gateway, ALICE) as client:
        names = [f"agent-{number}" for number in range(5)]
        for name in names:
            await put(gateway, name, ALICE)
        assert [model.id async for model in client.models.list()] == ["helper", *names]


async def test_a_website_s_visitors_see_no_models(tmp_path: Path) -> None:
    async with website(tmp_path) as gateway:
        somebody = await visitor(gateway.client)
        for path in ("/v1/models", "/v1/models/helper", "/compatible-mode/v1/models"):
            answer = await somebody.ask("GET", path)
            assert answer.status == 403
            assert answer.json["error"]["code"] == "not_for_visitors"
