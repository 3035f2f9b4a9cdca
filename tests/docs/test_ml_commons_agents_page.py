"""The page about ml-commons' API: the agent that it shows is registered and found by its own lines."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from tests.documentation import section, snippet
from tests.ml_commons_scene import ml_gateway

PAGE = "docs/ml-commons.md"
HOSTS = [r"^https://mcp\.example\.com/.*$", r"^https://bedrock-runtime\.[a-z0-9-]+\.amazonaws\.com/.*$"]


async def test_the_agent_of_the_page_is_registered_and_found(tmp_path: Path) -> None:
    lines = [shlex.split(line) for line in snippet("docs/ml-commons.md", "sh", "_register").splitlines()]
    register, search = lines
    async with ml_gateway(tmp_path, callers={"endpoints": HOSTS}) as ml:
        body = snippet("docs/ml-commons.md", "json", "Weather agent")
        assert register[register.index("-d") + 1] == "@agent.json"
        path = register[3].removeprefix("http://127.0.0.1:8000")
        answer = await ml.http.post(path, content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 200, answer.text
        path = search[1].removeprefix("http://127.0.0.1:8000")
        asked = json.loads(search[search.index("-d") + 1])
        found = (await ml.http.post(path, json=asked)).json()
        _, url = shlex.split(snippet("docs/ml-commons.md", "sh", "_search?q="))
        found_by_name = (await ml.http.get(url.removeprefix("http://127.0.0.1:8000"))).json()
    [hit] = found["hits"]["hits"]
    assert hit["_id"] == answer.json()["agent_id"]
    assert found_by_name == {"hits": {"hits": [{"_id": answer.json()["agent_id"]}]}}


async def test_the_types_that_the_page_names_are_registered(tmp_path: Path) -> None:
    text = section(PAGE, "Agents")
    model = {"model_id": "m", "model_provider": "openai/v1/chat/completions", "credential": {"openai_api_key": "sk"}}
    async with ml_gateway(tmp_path) as ml:
        for kind in ("conversational", "conversational_v2", "conversational/v2", "ag_ui"):
            assert f"`{kind}`" in text
            await ml.register({"name": "n", "type": kind, "model": model})
