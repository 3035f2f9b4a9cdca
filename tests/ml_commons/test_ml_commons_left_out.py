"""What the page of differences to ml-commons says beside its tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.documentation import PAGES
from tests.ml_commons_scene import ml_gateway

PAGE = "docs/coming-from-ml-commons.md"
NOBODY = {
    "model_provider": "openai/v1/chat/completions",
    "model_id": "m",
    "endpoint": "http://127.0.0.1:9/v1",
    "credential": {"openai_api_key": "sk-test"},
}


@pytest.mark.parametrize(
    "words",
    [
        "the same id in a second container is a 409",
        "`remote_agentic_memory`: an agent that asks for it is a 400",
        "`/model_groups` is a 404",
        "If a provider cannot be reached, `_execute` is a 500",
        "other APIs answer such a run with a 502",
    ],
)
def test_the_page_says_it(words: str) -> None:
    assert words in " ".join(PAGES[PAGE].split())


async def test_a_session_of_one_container_is_a_409_in_another(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        statuses: list[int] = []
        for container in ("one", "two"):
            await ml.call("POST", "/memory_containers/_create", {"name": container, "memory_container_id": container})
            memories = f"/memory_containers/{container}/memories"
            statuses.append((await ml.call("POST", f"{memories}/sessions", {"session_id": "s"}))[0])
            said: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}], "namespace": {"session_id": "s"}}
            statuses.append((await ml.call("POST", memories, said))[0])
    assert statuses == [200, 200, 409, 409]


async def test_an_agent_with_remote_agentic_memory_is_a_400(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        body = {"name": "a", "model": NOBODY, "memory": {"type": "remote_agentic_memory"}}
        assert (await ml.call("POST", "/agents/_register", body))[0] == 400


@pytest.mark.parametrize("path", ["/model_groups/_register", "/connectors/_create", "/models/_register"])
async def test_model_groups_connectors_and_models_are_404s(tmp_path: Path, path: str) -> None:
    async with ml_gateway(tmp_path) as ml:
        assert (await ml.call("POST", path, {"name": "a"}))[0] == 404


async def test_a_provider_that_cannot_be_reached_is_a_500_here_and_a_502_elsewhere(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        agent_id = await ml.register({"name": "a", "model": NOBODY, "tools": []})
        status, answer = await ml.call("POST", f"/agents/{agent_id}/_execute", {"input": "hi"})
        assert (status, answer["error"]["reason"]) == (500, "System Error")
        asked = {"model": agent_id, "messages": [{"role": "user", "content": "hi"}]}
        assert (await ml.http.post("/v1/chat/completions", json=asked)).status_code == 502
