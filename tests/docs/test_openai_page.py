"""The page about OpenAI's clients: its snippets get answers from the demonstration."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.openai_api.settings import CHAT_SECTION, RESPONSES_SECTION
from gateway.settings import example_configuration
from tests.agui_client import find_node
from tests.documentation import ROOT, code_words, section, snippet
from tests.running_gateway import DEADLINE_SECONDS, agent, local_gateway, scripted

PAGE = "docs/openai.md"
ADDRESS = "http://127.0.0.1:8000"
DEMONSTRATION: list[dict[str, Any]] = yaml.safe_load(example_configuration())["agents"]
ANSWER = "3,519,000"
CLIENTS = ROOT / "tests" / "openai_clients"  # `make clients` installs them


async def printed(directory: Path, code: str, *command: str) -> str:
    """What the code prints, run by `command` in front of a gateway that has the demonstration's agents."""
    async with local_gateway(directory, DEMONSTRATION) as gateway:
        file = directory / ("snippet.mjs" if "node" in command[0] else "snippet.py")
        file.write_text(code.replace(ADDRESS, gateway.client.base_url), "utf-8")
        return await output(*command, str(file), directory=directory)


async def output(*command: str, directory: Path) -> str:
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=directory,
        env={**os.environ, "ALICE_KEY": "any", "NO_PROXY": "*"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(3 * DEADLINE_SECONDS):
        said, wrong = await process.communicate()
    assert process.returncode == 0, wrong.decode()
    return said.decode()


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl is installed here")
async def test_the_line_of_curl_gets_an_answer(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, DEMONSTRATION) as gateway:
        line = snippet("docs/openai.md", "sh", "curl").replace(ADDRESS, gateway.client.base_url)
        assert ANSWER in await output("sh", "-c", line, directory=tmp_path)


@pytest.mark.thorough
async def test_the_python_client_gets_answers_over_both_apis(tmp_path: Path) -> None:
    said = await printed(tmp_path, snippet("docs/openai.md", "python", "import OpenAI"), sys.executable)
    assert said.count(ANSWER) == 2


@pytest.mark.skipif(not (CLIENTS / ".venv").exists(), reason="they are not installed; make clients installs them")
@pytest.mark.parametrize("package", ["langchain", "agents"])
async def test_python_clients_of_others_get_an_answer(tmp_path: Path, package: str) -> None:
    codes = {
        "langchain": snippet("docs/openai.md", "python", "langchain_openai"),
        "agents": snippet("docs/openai.md", "python", "from agents"),
    }
    assert ANSWER in await printed(tmp_path, codes[package], str(CLIENTS / ".venv" / "bin" / "python"))


@pytest.mark.parametrize("package", ["openai", "ai"])
async def test_the_javascript_clients_get_an_answer(tmp_path: Path, package: str) -> None:
    if not (CLIENTS / "node_modules" / package).exists():
        pytest.skip(f"{package} is not installed; make clients installs it")
    codes = {"openai": snippet("docs/openai.md", "js", "new OpenAI"), "ai": snippet("docs/openai.md", "js", "@ai-sdk")}
    (tmp_path / "node_modules").symlink_to(CLIENTS / "node_modules")
    assert ANSWER in await printed(tmp_path, codes[package], str(find_node()))


def test_every_application_is_told_the_same_address() -> None:
    codex = tomllib.loads(snippet("docs/openai.md", "", "model_providers"))
    opencode = json.loads(snippet("docs/openai.md", "", "opencode.ai"))
    [llm] = yaml.safe_load(snippet("docs/openai.md", "", "api_key_name"))
    aider = snippet("docs/openai.md", "", "aider --model")
    provider = codex["model_providers"][codex["model_provider"]]
    assert (provider["base_url"], provider["wire_api"], codex["model"]) == (f"{ADDRESS}/v1", "responses", "assistant")
    assert opencode["provider"]["gateway"]["options"]["baseURL"] == llm["api_base"] == f"{ADDRESS}/v1"
    assert f"OPENAI_API_BASE={ADDRESS}/v1 " in aider


def test_the_settings_are_those_there_are() -> None:
    values = yaml.safe_load(snippet("docs/openai.md", "yaml", "protocols:"))["protocols"]
    for name, kind in {**CHAT_SECTION, **RESPONSES_SECTION}.items():
        assert set(values[name]) <= set(kind.model_fields)
        described = code_words(section("docs/configuration.md", "Protocols"))
        assert {f"{name}.{field}" for field in kind.model_fields} <= set(described)


def test_the_headers_that_applications_send_are_those_that_the_gateway_is_told_to_read() -> None:
    [endpoint] = yaml.safe_load(snippet("docs/openai.md", "", "LIBRECHAT"))["endpoints"]["custom"]
    chat = yaml.safe_load(snippet("docs/openai.md", "yaml", "protocols:"))["protocols"]["chat_completions"]
    assert {*endpoint["headers"], "X-OpenWebUI-Chat-Id"} == set(chat["thread_headers"])
    assert "`X-OpenWebUI-Chat-Id`" in section(PAGE, "Open WebUI")


async def test_a_container_is_answered_under_the_name_that_the_page_lists(tmp_path: Path) -> None:
    server = yaml.safe_load(snippet("docs/openai.md", "yaml", "host.docker.internal"))["server"]
    named = {"host": "host.docker.internal:8000"}
    for configured, status in ({}, 403), (server, 200):
        async with local_gateway(tmp_path, [agent("a", scripted([{"text": "hi"}]))], server=configured) as gateway:
            assert (await gateway.client.http.get("/v1/models", headers=named)).status_code == status
