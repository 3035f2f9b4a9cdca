"""Media that a model makes: shown, kept, counted and taken back as its words are."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from gateway.events import MediaGiven, MessageRetracted
from gateway.messages import NO_DATA, Base64Source, ImageBlock
from tests.ag_ui_verifier import verify
from tests.loop_runs import LoopRun
from tests.runner_scene import agent_of, question, read, runner_scene
from tests.running_gateway import Frame, LocalGateway, agent, local_gateway, run_body, scripted

PNG = "iVBORw0KGgo="
SHOWN = {"kind": "image", "data": PNG, "mediaType": "image/png"}
DRAWS = scripted(
    [{"text": "See: "}, {"medium": PNG}, {"text": " nice?"}],
    rules=[
        {"when": {"last_user_contains": "only"}, "response": [{"medium": PNG}]},
        {"when": {"last_user_contains": "too large"}, "response": [{"medium": base64.b64encode(bytes(900)).decode()}]},
        {"when": {"last_user_contains": "huge"}, "response": [{"medium": base64.b64encode(bytes(9_000)).decode()}]},
    ],
)


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncGenerator[LocalGateway]:
    limits = {"max_answer_bytes": 10_000, "max_run_bytes": 1_000}
    agents = [agent("painter", DRAWS), agent("bounded", DRAWS, parameters=limits)]
    async with local_gateway(tmp_path, agents) as local:
        yield local


def shown(frames: list[Frame]) -> list[Any]:
    return [frame.data["content"] for frame in frames if frame.type == "ACTIVITY_SNAPSHOT"]


async def messages(gateway: LocalGateway, thread_id: str) -> list[Any]:
    found: list[Any] = (await gateway.client.get(f"/threads/{thread_id}/messages"))["messages"]
    return found


async def test_a_medium_is_an_activity_in_its_place_and_in_the_thread(gateway: LocalGateway) -> None:
    frames = await gateway.client.run("painter", run_body("Draw", thread_id="t", run_id="r"))
    verify([frame.data for frame in frames])
    kinds = [frame.type for frame in frames if frame.type in ("TEXT_MESSAGE_START", "ACTIVITY_SNAPSHOT")]
    (activity,) = [frame.data for frame in frames if frame.type == "ACTIVITY_SNAPSHOT"]
    thread = await messages(gateway, "t")

    assert kinds == ["TEXT_MESSAGE_START", "ACTIVITY_SNAPSHOT", "TEXT_MESSAGE_START"]
    assert (activity["activityType"], activity["content"]) == ("agui_gateway.media", SHOWN)
    assert [message["role"] for message in thread] == ["user", "assistant", "activity", "assistant"]
    assert thread[2] == {
        "id": activity["messageId"], "role": "activity", "activityType": "agui_gateway.media", "content": SHOWN,
    }  # fmt: skip


@pytest.mark.parametrize("version", ["1.0", None])
async def test_a_page_that_is_reloaded_gets_the_medium_again(gateway: LocalGateway, version: str | None) -> None:
    body = run_body("Draw only that", thread_id="t", run_id="r")
    frames = await gateway.client.run("painter", body)
    again = await gateway.client.http.post(
        "/agents/painter/connect", json={**run_body(thread_id="t"), "protocolVersion": version}
    )
    assert shown(frames) == [SHOWN]
    assert SHOWN["data"] in again.text
    assert "agui_gateway.media" in again.text


async def test_a_medium_stays_in_the_thread_though_no_client_sends_it_back(gateway: LocalGateway) -> None:
    asked = {"id": "u1", "role": "user", "content": "Draw only that"}
    await gateway.client.run("painter", run_body(thread_id="t", run_id="r1", messages=[asked]))
    more = {"id": "u2", "role": "user", "content": "And?"}
    await gateway.client.run("painter", run_body(thread_id="t", run_id="r2", messages=[asked, more]))
    roles = [message["role"] for message in await messages(gateway, "t")]

    assert roles == ["user", "activity", "user", "assistant", "activity", "assistant"]


@pytest.mark.parametrize(("asks", "code"), [("too large", "limit_max_run_bytes"), ("huge", "limit_max_answer_bytes")])
async def test_a_medium_that_cannot_be_taken_ends_the_run_with_a_code(
    gateway: LocalGateway, asks: str, code: str
) -> None:
    frames = await gateway.client.run("bounded", run_body(asks, thread_id="t", run_id="r"))
    assert (frames[-1].type, frames[-1].data["code"]) == ("RUN_ERROR", code)
    assert shown(frames) == []


async def test_a_medium_alone_is_an_answer() -> None:
    run = LoopRun(responses=[[{"medium": PNG}]])
    await run.events()
    assert len(run.requests) == 1, "the model is not asked again as after an empty answer"
    assert [event.block for event in run.all_of(MediaGiven)] == [ImageBlock(Base64Source(PNG, "image/png"), index=0)]


async def test_a_medium_that_was_taken_back_leaves_the_log_and_the_thread() -> None:
    said: list[dict[str, Any]] = [{"medium": PNG}, {"retract": ""}, {"text": "No."}]
    async with runner_scene(agent_of("a", [said])) as scene:
        events = await read(await scene.start("a", question()))
        kept = await scene.kept_events("r")
        thread = await scene.store.load_thread("owner", "t")

        (given,) = [event for event in events if isinstance(event, MediaGiven)]
        assert given.block.source == Base64Source(PNG, "image/png")
        assert [event.block for event in kept if isinstance(event, MediaGiven)] == [ImageBlock(NO_DATA)]
        assert len(kept) == len(events)
        assert any(isinstance(event, MessageRetracted) for event in kept)
        assert PNG not in repr(thread)
