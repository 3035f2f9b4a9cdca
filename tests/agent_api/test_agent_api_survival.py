"""What is left of a response whose client leaves, and of one whose gateway is killed."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.agent_api_frames import checked
from tests.agent_api_scene import WEATHER_TOOL, AgentApiScene, agent_api_gateway, frames_of, said, told
from tests.openai_scene import SLOW, WEATHER
from tests.running_gateway import GatewayClient, gateway_process, write_configuration
from tests.waiting import until_answered


async def leave(scene: AgentApiScene, body: dict[str, Any]) -> None:
    """Ask, and leave once the run is under way."""
    asking = asyncio.create_task(scene.post(body, agent="slow"))
    run = f"/runs/{body['response_id']}"
    await until_answered(lambda: scene.http.get(run), lambda answer: answer.status_code == 200)
    asking.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asking


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_stops_its_response(tmp_path: Path, stream: bool) -> None:
    async with agent_api_gateway(tmp_path, server={"disconnect_grace_seconds": 0.1}) as scene:
        await leave(scene, {"input": [said("hi")], "response_id": "r1", "stream": stream})
        await scene.gateway.client.until_status("r1", "cancelled")
        response = (await scene.http.get("/process/r1?stream=false")).json()
        assert response["status"] == "canceled"


async def begin(client: GatewayClient) -> bytes:
    """The beginning of a stream that hangs behind its words."""
    body = {"input": [said("hi")], "response_id": "r1", "session_id": "s1"}
    begun = b""
    async with client.http.stream("POST", "/agents/slow/process", json=body) as stream:
        chunks = stream.aiter_raw()
        while b'"text":"word"}\n\n' not in begun:
            begun += await anext(chunks)
    return begun


async def asked(client: GatewayClient, agent: str, **body: Any) -> Any:
    answer = await client.http.post(f"/agents/{agent}/process", json={"stream": False, **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def frames(client: GatewayClient, query: str = "") -> list[dict[str, Any]]:
    answer = await client.http.get(f"/process/r1{query}")
    assert answer.status_code == 200, answer.text
    return frames_of(answer.content)


async def test_a_gateway_that_is_killed_keeps_what_was_shown_and_what_waits(tmp_path: Path) -> None:
    configuration = write_configuration(tmp_path, [SLOW, WEATHER])
    async with gateway_process(configuration) as gateway:
        begun = frames_of(await begin(gateway.client))
        paused = await asked(gateway.client, "weather", input=[said("weather?")], session_id="s2", tools=[WEATHER_TOOL])
        await gateway.signal(signal.SIGKILL)
    async with gateway_process(configuration) as gateway:
        client = gateway.client
        whole = await frames(client)
        assert whole[: len(begun)] == begun
        end = checked(whole)
        assert (end["status"], end["error"]["code"], end["error"]["retryable"]) == ("failed", "server_restarted", True)
        for frame in whole[:-1]:
            number = frame["sequence_number"]
            assert await frames(client, f"?after={number}") == whole[number + 1 :]
        assert await asked(client, "slow", input=[said("hi")], response_id="r1", session_id="s1") == end
        call_id = paused["output"][-1]["content"][0]["data"]["call_id"]
        output = told("function_call_output", call_id=call_id, output="sunny")
        done = await asked(client, "weather", input=[*paused["output"], output], session_id="s2")
        assert done["output"][-1]["content"][0]["text"] == "It is sunny."
