"""Responses that have begun: followed again, looked at and stopped, whichever protocol they came by."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.clock import SystemClock
from tests.agent_api_scene import AgentApiScene, Frame, agent_api_gateway, check_error, frames_of, said, words_of


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[AgentApiScene]:
    async with agent_api_gateway(tmp_path) as scene:
        yield scene


async def look(scene: AgentApiScene, response_id: str) -> Frame:
    answer = await scene.http.get(f"/process/{response_id}", params={"stream": "false"})
    assert answer.status_code == 200, answer.text
    response: Frame = answer.json()
    return response


async def followed(scene: AgentApiScene, response_id: str, **query: Any) -> list[Frame]:
    answer = await scene.http.get(f"/process/{response_id}", params=query)
    assert answer.status_code == 200, answer.text
    return frames_of(answer.content)


async def first_words(chunks: AsyncIterator[bytes]) -> None:
    """Read until the first words are there."""
    read = b""
    while b'"text":' not in read:
        read += await anext(chunks)


async def test_a_response_is_followed_again_from_its_first_frame(scene: AgentApiScene) -> None:
    frames = await scene.stream("hi", agent="adder", response_id="r1")
    assert await followed(scene, "r1") == frames
    for after in range(len(frames)):
        assert await followed(scene, "r1", after=after) == frames[after + 1 :]


@pytest.mark.parametrize("after", ["999", "-1", "x", "9" * 30])
async def test_a_number_that_no_frame_has_is_refused(scene: AgentApiScene, after: str) -> None:
    await scene.whole("hi", agent="words", response_id="r1")
    answer = await scene.http.get("/process/r1", params={"after": after})
    check_error(answer)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_cursor")


async def test_a_look_at_a_response_gives_the_end_of_its_stream(scene: AgentApiScene) -> None:
    last = (await scene.stream("hi", agent="adder", response_id="r1"))[-1]
    assert await look(scene, "r1") == last
    accepted = await scene.http.get("/process/r1", headers={"accept": "application/json"})
    assert accepted.json() == last
    both = await scene.http.get("/process/r1", headers={"accept": "application/json, text/event-stream"})
    assert both.headers["content-type"].startswith("text/event-stream")


class HastyClock(SystemClock):
    """A clock on which every look takes a second."""

    def __init__(self) -> None:
        super().__init__()
        self._looks = 0

    def now(self) -> float:
        self._looks += 1
        return super().now() + self._looks


async def test_all_who_see_the_end_of_a_response_see_one_time_of_it(tmp_path: Path) -> None:
    async with agent_api_gateway(tmp_path, clock=HastyClock()) as scene:
        streamed = (await scene.stream("hi", agent="words", response_id="r1"))[-1]
        whole = await scene.whole("hi", agent="words", response_id="r2")
        for last in (streamed, whole):
            assert (await followed(scene, last["id"]))[-1] == last
            assert await look(scene, last["id"]) == last


async def test_a_response_under_way_is_shown_as_far_as_it_is_and_stopped(scene: AgentApiScene) -> None:
    body = {"input": [said("hi")], "response_id": "r1"}
    async with scene.http.stream("POST", "/agents/slow/process", json=body) as stream:
        chunks = stream.aiter_bytes()
        await first_words(chunks)
        assert (await look(scene, "r1"))["status"] == "in_progress"
        cancelled = await scene.http.post("/process/r1/cancel")
        rest = b"".join([chunk async for chunk in chunks])
    last = frames_of(b"\n\n" + rest)[-1]
    assert cancelled.status_code == 200
    assert cancelled.json() == last
    assert last["status"] == "canceled"
    assert [each["status"] for each in last["output"]] == ["canceled"]
    assert words_of(last)
    assert await look(scene, "r1") == last
    assert (await followed(scene, "r1"))[-1] == last
    assert (await scene.http.post("/process/r1/cancel")).json() == last


async def test_a_run_of_another_protocol_is_a_response(scene: AgentApiScene) -> None:
    answer = await scene.http.post(
        "/v1/responses", json={"model": "adder", "input": "hi"}, headers={"idempotency-key": "k"}
    )
    response = await look(scene, answer.json()["id"])
    assert [each["type"] for each in response["output"]] == ["message", "plugin_call", "plugin_call_output", "message"]
    assert words_of(response) == "I add. The sum is 5.0."


@pytest.mark.parametrize("path", ["/process/nope", "/process/nope?stream=false"])
async def test_an_unknown_response_is_not_found(scene: AgentApiScene, path: str) -> None:
    answer = await scene.http.get(path)
    check_error(answer)
    assert (answer.status_code, answer.json()["code"]) == (404, "response_not_found")
    cancelled = await scene.http.post("/process/nope/cancel")
    check_error(cancelled)
    assert cancelled.json()["code"] == "response_not_found"


async def test_a_wrong_stream_parameter_is_refused(scene: AgentApiScene) -> None:
    answer = await scene.http.get("/process/r1", params={"stream": "maybe"})
    check_error(answer)
    assert answer.status_code == 422


@pytest.mark.parametrize("agent", ["words", "thinker", "adder", "painter", "refunder"])
async def test_a_response_without_its_log_is_read_from_its_session(scene: AgentApiScene, agent: str) -> None:
    given = await scene.whole("hi", agent=agent, response_id="r1")
    await scene.gateway.application.store.remove_logs(finished_before=1e12)
    again = await look(scene, "r1")
    assert _without_ids(again) == _without_ids(given)
    answer = await scene.http.get("/process/r1")
    check_error(answer)
    assert (answer.status_code, answer.json()["code"]) == (404, "log_expired")


def _without_ids(response: Frame) -> list[Any]:
    """What a response says, without the numbers of frames and the ids of questions, which only a log has."""
    return [
        (
            each["type"],
            each["status"],
            [{**part, "sequence_number": 0, "data": _data(part)} for part in each["content"]],
        )
        for each in response["output"]
    ]


def _data(part: Frame) -> Any:
    data = part.get("data")
    return {name: value for name, value in data.items() if name != "id"} if isinstance(data, dict) else data
