"""What a key's own `protocols` changes: how backend tools are shown to its client, which header names a thread, what is
off.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.running_gateway import LocalGateway, agent, local_gateway, scripted

KEYS = {name: f"{name}-key-of-the-tests" for name in ("plain", "told", "hidden", "off", "strict")}
OF_KEYS: dict[str, Any] = {
    "told": {
        "chat_completions": {"backend_tools": "reasoning", "thread_headers": ["X-Chat"]},
        "responses": {"backend_tools": "function_call"},
    },
    "hidden": {"responses": {"backend_tools": "hidden"}},
    "off": {"chat_completions": False},
    "strict": {"chat_completions": {"other_tools": "refuse"}, "responses": {"other_tools": "refuse"}},
}
SERVER = {"api_keys": [{"name": name, "key": key, "protocols": OF_KEYS.get(name, {})} for name, key in KEYS.items()]}
HELPER = agent(
    "helper",
    scripted([{"tool": "add", "arguments": {"a": 2, "b": 3}}], [{"text": "It is 5."}]),
    tools=[{"type": "PythonTool", "parameters": {"function": "tests.case_tools:add"}}],
)
CHAT = {"model": "helper", "messages": [{"role": "user", "content": "sum"}]}


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncGenerator[LocalGateway]:
    of_all = {"chat_completions": {"thread_headers": ["X-Of-All"]}}
    async with local_gateway(tmp_path, [HELPER], server=SERVER, sections={"protocols": of_all}) as local:
        yield local


async def post(gateway: LocalGateway, who: str, path: str, body: Any, **headers: str) -> tuple[int, Any, str]:
    """The status, the body and the thread of an answer."""
    sent = {"authorization": f"Bearer {KEYS[who]}", **{name.replace("_", "-"): each for name, each in headers.items()}}
    answer = await gateway.client.http.post(path, json=body, headers=sent)
    return answer.status_code, answer.json(), answer.headers.get("x-thread-id", "")


@pytest.mark.parametrize(("who", "is_told"), [("plain", False), ("told", True)])
async def test_chat_completions_tells_a_key_s_client_of_backend_tools(
    gateway: LocalGateway, who: str, is_told: bool
) -> None:
    status, answer, _ = await post(gateway, who, "/v1/chat/completions", CHAT)
    message = answer["choices"][0]["message"]
    assert (status, message["content"]) == (200, "It is 5.")
    assert ("add" in str(message.get("reasoning_content"))) is is_told


@pytest.mark.parametrize(
    ("who", "kinds"),
    [
        ("plain", ["mcp_call", "message"]),
        ("told", ["function_call", "function_call_output", "message"]),
        ("hidden", ["message"]),
    ],
)
async def test_responses_shows_backend_tools_as_the_key_says(gateway: LocalGateway, who: str, kinds: list[str]) -> None:
    status, answer, _ = await post(gateway, who, "/v1/responses", {"model": "helper", "input": "sum"})
    assert (status, [item["type"] for item in answer["output"]]) == (200, kinds)


async def test_the_headers_that_name_a_thread_are_the_key_s_in_place_of_the_file_s(gateway: LocalGateway) -> None:
    headers = {"X_Chat": "c1", "X_Of_All": "a1"}
    threads = []
    for who in ("plain", "told"):
        sent = {"authorization": f"Bearer {KEYS[who]}", **{n.replace("_", "-"): each for n, each in headers.items()}}
        body = {**CHAT, "stream": True}
        answer = await gateway.client.http.post("/v1/chat/completions", json=body, headers=sent)
        threads.append(answer.headers["x-thread-id"])
    assert threads == ["a1", "c1"]


async def test_a_key_whose_client_has_to_know_is_refused_tools_that_are_no_functions(gateway: LocalGateway) -> None:
    bodies: dict[str, dict[str, Any]] = {
        "/v1/chat/completions": CHAT,
        "/v1/responses": {"model": "helper", "input": "sum"},
    }
    for path, body in bodies.items():
        asked = {**body, "tools": [{"type": "web_search"}]}
        answers = {who: await post(gateway, who, path, asked) for who in ("plain", "strict")}
        assert [status for status, _, _ in answers.values()] == [200, 400]
        assert answers["strict"][1]["error"]["param"] == "tools[0].type"


async def test_a_key_without_chat_completions_has_responses(gateway: LocalGateway) -> None:
    status, answer, _ = await post(gateway, "off", "/compatible-mode/v1/chat/completions", CHAT)
    assert (status, answer["error"]["code"]) == (403, "protocol_not_allowed")
    assert "protocols.chat_completions" in answer["error"]["message"]
    assert (await post(gateway, "off", "/v1/responses", {"model": "helper", "input": "sum"}))[0] == 200
    models = await gateway.client.http.get("/v1/models", headers={"authorization": f"Bearer {KEYS['off']}"})
    assert models.status_code == 200
