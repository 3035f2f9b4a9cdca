"""The page about ml-commons' API: its container is made, its message kept and found."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from tests.documentation import section, snippet
from tests.ml_commons_scene import ml_gateway

PAGE = "docs/ml-commons.md"


async def test_the_container_of_the_page_keeps_its_message_and_finds_it(tmp_path: Path) -> None:
    files = {
        "@container.json": snippet("docs/ml-commons.md", "json", "Travel"),
        "@message.json": snippet("docs/ml-commons.md", "json", "trip-1"),
    }
    answers: list[Any] = []
    async with ml_gateway(tmp_path) as ml:
        for line in snippet("docs/ml-commons.md", "sh", "memory_containers/_create").splitlines():
            words = shlex.split(line)
            path, sent = words[1].removeprefix("http://127.0.0.1:8000"), words[words.index("-d") + 1]
            answer = await ml.http.post(path, json=json.loads(files.get(sent, sent)))
            assert answer.status_code == 200, answer.text
            answers.append(answer.json())
        messages = await ml.gateway.client.get("/threads/trip-1/messages")
    created, added, found = answers
    assert created["memory_container_id"] == "travel"
    (hit,) = found["hits"]["hits"]
    assert hit["_id"] == added["working_memory_id"]
    assert hit["_source"]["structured_data_blob"]["message"]["content"][0]["text"] == messages["messages"][0]["content"]


async def test_what_the_page_says_of_a_container_is_so(tmp_path: Path) -> None:
    text = section(PAGE, "Memory containers")
    async with ml_gateway(tmp_path) as ml:
        body = json.loads(snippet("docs/ml-commons.md", "json", "Travel"))
        await ml.call("POST", "/memory_containers/_create", body)
        memories = "/memory_containers/travel/memories"
        _, made = await ml.call("POST", f"{memories}/long-term", {"memory": "a seat", "namespace": {}, "tags": {}})
        assert '`{"query": {"match": {"memory": "seat"}}}`' in text
        _, found = await ml.call("POST", f"{memories}/long-term/_search", {"query": {"match": {"memory": "seat"}}})
        assert found["hits"]["hits"][0]["_id"] == made["memory_id"]
        for kind in ("semantic", "hybrid"):
            assert f"`_{kind}_search`" in text
            assert (await ml.call("POST", f"{memories}/long-term/_{kind}_search", {"query": "x"}))[0] == 400
        for name in ("llm_id", "embedding_model_id", "strategies"):
            assert f"`{name}`" in text
            refused = {"name": "x", "configuration": {name: ["x"]}}
            assert (await ml.call("POST", "/memory_containers/_create", refused))[0] == 400
