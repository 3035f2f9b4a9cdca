"""The page about ml-commons' REST API: its lines about memory do what it says."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from tests.documentation import section, snippet
from tests.ml_commons_scene import MlGateway, ml_gateway
from tests.running_gateway import agent, run_body, scripted

PAGE = "docs/ml-commons.md"
ECHO = agent("echo", scripted([{"text": "You said {{user}}."}]))


async def asked(ml: MlGateway, line: str, memory_id: str = "") -> Any:
    """The answer to a line of curl."""
    words = shlex.split(line.replace("$MEMORY_ID", memory_id))
    (url,) = [word for word in words if word.startswith("http")]
    body = words[words.index("-d") + 1] if "-d" in words else None
    method = words[words.index("-X") + 1] if "-X" in words else "GET" if body is None else "POST"
    path = url.removeprefix("http://127.0.0.1:8000")
    answer = await ml.http.request(method, path, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_the_memory_of_the_page_is_made_written_read_and_searched(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, (ECHO,)) as ml:
        memory_id = (await asked(ml, snippet("docs/ml-commons.md", "sh", "Population of Seattle")))["memory_id"]
        write, read, search = snippet("docs/ml-commons.md", "sh", "How many people live there?").splitlines()
        message_id = (await asked(ml, write, memory_id))["message_id"]
        (message,) = (await asked(ml, read, memory_id))["messages"]
        assert (message["message_id"], message["origin"]) == (message_id, "my agent")
        (hit,) = (await asked(ml, search, memory_id))["hits"]["hits"]
        assert hit["_id"] == message_id
        history = (await ml.gateway.client.get(f"/threads/{memory_id}/messages"))["messages"]
        body = run_body(messages=[*history, {"id": "u2", "role": "user", "content": "And now?"}], thread_id=memory_id)
        await ml.gateway.client.run("echo", body)
        assert [each["response"] for each in (await asked(ml, read, memory_id))["messages"]] == [
            "About 755,000.",
            "You said And now?.",
        ]


def test_the_page_names_the_routes_and_what_they_take() -> None:
    text = section(PAGE, "Memory")
    for word in ("max_results", "next_token", "order=desc", "parent_message_id", "?memory_id=", "updated_time"):
        assert word in text
