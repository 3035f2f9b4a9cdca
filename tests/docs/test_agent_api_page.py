"""The page about the Agent API: its snippets get answers from the demonstration."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.agent_api.input_messages import ApprovalAnswer, SaidMessage
from gateway.agent_api.request import read_request
from gateway.agent_api.settings import AGENT_API_SECTION, AgentApiSettings
from gateway.agent_api_builder.schemas import AgentRequest, ContentType, MessageType
from tests.agent_api_scene import agent_api_gateway, frames_of, said
from tests.agui_client import find_node
from tests.docs.test_openai_page import ADDRESS, ANSWER, DEMONSTRATION, output, printed
from tests.documentation import code_words, first_column, section, snippet
from tests.running_gateway import local_gateway

PAGE = "docs/agent_api.md"


def lines_of(text: str) -> list[str]:
    return text.replace("\\\n", "").splitlines()


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl is installed here")
async def test_the_line_of_curl_gets_an_answer(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, DEMONSTRATION) as gateway:
        (line,) = lines_of(snippet("docs/agent_api.md", "sh", "Seattle"))
        said = await output("sh", "-c", line.replace(ADDRESS, gateway.client.base_url), directory=tmp_path)
    assert ANSWER in frames_of(said.encode())[-1]["output"][-1]["content"][0]["text"]


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl is installed here")
async def test_the_lines_of_curl_follow_show_and_stop_a_response(tmp_path: Path) -> None:
    async with agent_api_gateway(tmp_path) as scene:
        frames = await scene.stream("hi", agent="words", response_id="response_1")
        follow, look, stop = [
            await output("sh", "-c", line.replace(ADDRESS, scene.gateway.client.base_url), directory=tmp_path)
            for line in lines_of(snippet("docs/agent_api.md", "sh", "/cancel"))
        ]
    assert frames_of(follow.encode()) == frames[4:]
    assert json.loads(look) == json.loads(stop) == frames[-1]


async def test_the_program_in_python_prints_the_answer(tmp_path: Path) -> None:
    assert ANSWER in await printed(tmp_path, snippet("docs/agent_api.md", "python", "httpx"), sys.executable)


async def test_the_program_in_javascript_prints_the_answer(tmp_path: Path) -> None:
    assert ANSWER in await printed(tmp_path, snippet("docs/agent_api.md", "js", "fetch"), str(find_node()))


def test_the_answers_to_calls_and_questions_are_requests() -> None:
    given = (
        snippet("docs/agent_api.md", "json", "function_call_output"),
        snippet("docs/agent_api.md", "json", "mcp_approval_response"),
    )
    bodies = [json.loads(each) for each in given]
    output, answer = (read_request(body).input.read[0] for body in bodies)
    assert isinstance(output, SaidMessage)
    assert isinstance(answer, ApprovalAnswer)
    assert all(AgentRequest.model_validate(body) for body in bodies)


async def test_the_error_is_as_it_is_shown(tmp_path: Path) -> None:
    async with agent_api_gateway(tmp_path) as scene:
        refused = await scene.refused({"input": [said("hi")], "n": 6})
    assert refused.json() == json.loads(snippet("docs/agent_api.md", "json", "pointer"))


def test_the_frames_of_the_short_stream_are_in_order() -> None:
    lines = snippet("docs/agent_api.md", "", "sequence_number").splitlines()
    assert [line.partition(",")[0] for line in lines] == [f'{{"sequence_number":{n}' for n in range(len(lines))]


def test_the_members_of_the_request_are_those_that_are_read() -> None:
    told = set(code_words(first_column(section(PAGE, "The request"))))
    assert set(AgentRequest.model_fields) - {"id", "user_id"} == told
    words = set(code_words(section(PAGE, "The request")))
    assert {each.value for each in ContentType} <= words


def test_the_types_of_messages_are_the_protocols() -> None:
    told = set(code_words(first_column(section(PAGE, "Tools and questions"))))
    assert told <= {each.value for each in MessageType}


def test_the_settings_are_those_there_are() -> None:
    values: dict[str, Any] = yaml.safe_load(snippet("docs/agent_api.md", "yaml"))["protocols"]["agent_api"]
    assert set(values) == set(AgentApiSettings.model_fields)
    described = code_words(section("docs/configuration.md", "Protocols"))
    for name, kind in AGENT_API_SECTION.items():
        assert {f"{name}.{field}" for field in kind.model_fields} <= set(described)
