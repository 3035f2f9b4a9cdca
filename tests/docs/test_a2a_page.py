"""The page about A2A: its snippets get answers from the demonstration, and its messages mean what it says."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.a2a.settings import A2A_SECTION
from gateway.settings import example_configuration
from tests.a2a_scene import a2a_gateway, of_agent, state_of, words_of
from tests.docs.test_openai_page import output
from tests.documentation import code_words, section, snippet
from tests.running_gateway import local_gateway

ADDRESS = "http://127.0.0.1:8000"
DEMONSTRATION: list[dict[str, Any]] = yaml.safe_load(example_configuration())["agents"]
ANSWER = "3,519,000"
TASK = "task_0123456789abcdef0123456789abcdef"


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl is installed here")
@pytest.mark.parametrize("binding", ["SendMessage", "message:stream"])
async def test_the_lines_of_curl_get_an_answer(tmp_path: Path, binding: str) -> None:
    lines = {
        "SendMessage": snippet("docs/a2a.md", "sh", "SendMessage"),
        "message:stream": snippet("docs/a2a.md", "sh", "message:stream"),
    }
    async with local_gateway(tmp_path, DEMONSTRATION) as gateway:
        line = lines[binding].replace(ADDRESS, gateway.client.base_url)
        assert ANSWER in await output("sh", "-c", line, directory=tmp_path)


async def test_the_official_client_gets_an_answer(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, DEMONSTRATION) as gateway:
        code = snippet("docs/a2a.md", "python", "a2a.client").replace(ADDRESS, gateway.client.base_url)
        (tmp_path / "snippet.py").write_text(code, "utf-8")
        assert ANSWER in await output(sys.executable, str(tmp_path / "snippet.py"), directory=tmp_path)


async def test_the_messages_about_a_tool_call_it_and_give_its_output(tmp_path: Path) -> None:
    asking = json.loads(snippet("docs/a2a.md", "json", "get_weather"))
    giving = snippet("docs/a2a.md", "json", "sunny")
    async with a2a_gateway(tmp_path) as a2a:
        asked = (await a2a.call("SendMessage", asking, to=of_agent("weather")))["task"]
        assert state_of(asked) == "INPUT_REQUIRED"
        ended = (await a2a.call("SendMessage", json.loads(giving.replace(TASK, asked["id"]))))["task"]
    assert (state_of(ended), words_of(ended)) == ("COMPLETED", "It is sunny.")


async def test_the_card_says_what_is_written(tmp_path: Path) -> None:
    block = yaml.safe_load(snippet("docs/a2a.md", "yaml", "card"))
    async with a2a_gateway(tmp_path, block["agents"]) as a2a:
        card = (await a2a.http.get("/.well-known/agent-card.json")).json()
    assert (card["name"], card["version"], card["skills"][0]["id"]) == ("Town clerk", "1.2.0", "population")


def test_the_settings_are_those_there_are() -> None:
    described = code_words(section("docs/configuration.md", "Protocols"))
    for name, kind in A2A_SECTION.items():
        assert {f"{name}.{field}" for field in kind.model_fields} <= set(described)
