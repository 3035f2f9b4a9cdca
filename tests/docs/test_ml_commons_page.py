"""The page about ml-commons' REST API: its lines of curl do what it says."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from gateway.ml_commons.feature_settings import DEFAULTS
from tests.documentation import code_words, first_column, section, snippet
from tests.ml_commons_scene import MlGateway, ml_gateway
from tests.running_gateway import agent, scripted

PAGE = "docs/ml-commons.md"
KEY = "alice-key-of-the-tests"
SERVER = {"api_keys": [{"name": "alice", "key": KEY, "admin": True}]}


async def said_to(ml: MlGateway, line: str) -> Any:
    """The JSON that the shell gets for a line of the page."""
    line = line.replace("http://127.0.0.1:8000", str(ml.http.base_url).rstrip("/"))
    process = await asyncio.create_subprocess_shell(
        line.replace("curl ", "curl -sS -q --noproxy '*' ", 1), stdout=asyncio.subprocess.PIPE, env={"ALICE_KEY": KEY}
    )
    async with asyncio.timeout(20):
        said, _ = await process.communicate()
    return json.loads(said)


async def test_the_settings_are_set_shown_and_removed(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, server=SERVER) as ml:
        put, shown, removed = [
            await said_to(ml, line) for line in snippet("docs/ml-commons.md", "sh", "_cluster/settings").splitlines()
        ]
    assert put["acknowledged"] is True
    assert shown["persistent"] == {"plugins.ml_commons.ag_ui_enabled": "false"}
    assert "plugins.ml_commons.stream_enabled" in shown["defaults"]
    assert removed == {"acknowledged": True, "persistent": {}, "transient": {}}


async def test_tasks_are_searched(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, server=SERVER) as ml:
        found = await said_to(ml, snippet("docs/ml-commons.md", "sh", "tasks/_search").strip())
    assert found["hits"]["total"]["value"] == 0


async def test_tools_are_listed_and_one_is_run(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, server=SERVER) as ml:
        listed, run = [
            await said_to(ml, line) for line in snippet("docs/ml-commons.md", "sh", "tools/_execute").splitlines()
        ]
        pretty = await said_to(ml, snippet("docs/ml-commons.md", "sh", "tools?pretty").strip())
    assert listed == pretty
    assert "ListIndexTool" in [tool["name"] for tool in listed]
    assert run["inference_results"][0]["output"][0]["result"].startswith("row,health,")


def test_every_setting_of_the_table_is_one() -> None:
    said = set(code_words(first_column(section(PAGE, "Settings")))) - {"setting"}
    assert said < DEFAULTS.keys()


async def test_an_agent_is_executed_with_every_form_of_input(tmp_path: Path) -> None:
    said = [{"text": "3,519,000"}]
    bodies = [
        snippet("docs/ml-commons.md", "json", "What is this?"), snippet("docs/ml-commons.md", "json", "What is 2+3?"),
    ]  # fmt: skip
    shown = json.loads(snippet("docs/ml-commons.md", "json", "inference_results"))
    async with ml_gateway(tmp_path, [agent("assistant", scripted(said, said))], server=SERVER) as ml:
        line = snippet("docs/ml-commons.md", "sh", 'assistant/_execute"').strip()
        answer = await said_to(ml, line.replace("curl ", 'curl -u "alice:$ALICE_KEY" ', 1))
        assert [each["name"] for each in outputs(answer)] == [each["name"] for each in outputs(shown)]
        assert outputs(answer)[-1] == outputs(shown)[-1]
        for body in bodies:
            status, _ = await ml.call("POST", "/agents/assistant/_execute", json.loads(body), auth=("alice", KEY))
            assert status == 200


async def test_a_chunk_of_a_stream_is_as_it_is_shown(tmp_path: Path) -> None:
    shown = json.loads(snippet("docs/ml-commons.md", "", "is_last").removeprefix("data: "))
    words = outputs(shown)[-1]["dataAsMap"]["content"]
    async with ml_gateway(tmp_path, [agent("assistant", scripted([{"text": words}]))]) as ml:
        answer = await ml.http.post("/_plugins/_ml/agents/assistant/_execute/stream", json={"input": "hi"})
    memory, interaction, response = outputs(json.loads(answer.text.split("\n\n")[0].removeprefix("data: ")))

    assert response == outputs(shown)[-1]
    assert [{**each, "result": "..."} for each in (memory, interaction)] == outputs(shown)[:-1]


def outputs(answer: Any) -> Any:
    return answer["inference_results"][0]["output"]
