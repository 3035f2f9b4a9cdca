"""Real runs as Responses: who watches, who comes back, and who comes late see the same numbered events."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from gateway.messages import ToolCall
from gateway.openai_api.ids import place_of
from gateway.openai_api.responses_references import numbered
from gateway.openai_api.responses_renderer import ResponsesRenderer
from gateway.openai_api.responses_resource import ResponseForm
from gateway.protocol.run_events import events_of
from gateway.runs.viewer import Viewer
from tests.replayed_runs import PICK, SCRIPTS, acting, attached, frames_seen
from tests.responses_frames import Frame, checked, fold, read_by_the_sdk, read_frame, rendered
from tests.runner_scene import OWNER, agent_of, question, read, runner_scene

FORM: Final = ResponseForm("r", "t", "a", 7)


def renderer_of(**settings: Any) -> ResponsesRenderer:
    return ResponsesRenderer(replace(FORM, **settings), shows_failure=True)


async def frames_of(viewer: Viewer, renderer: ResponsesRenderer, *, after: int = 0) -> list[Frame]:
    return [read_frame(frame) for frame in await frames_seen(viewer, renderer, after=after)]


@pytest.mark.parametrize("script", SCRIPTS)
async def test_a_stream_that_is_read_again_is_the_one_that_was_seen(script: str) -> None:
    async with runner_scene(acting(script)) as scene:
        renderer = renderer_of()
        seen = await frames_of(await scene.start("a", question(tools=(PICK,))), renderer)
        again = renderer_of()
        late = await frames_of(await attached(scene), again)

        events = checked(seen)
        read_by_the_sdk(events)
        assert fold(events) == renderer.final()["output"]
        assert again.final() == renderer.final()
        assert len(late) == len(seen)
        if script != "retraction":
            assert late == seen


@pytest.mark.parametrize("script", SCRIPTS)
async def test_a_stream_is_the_same_wherever_its_events_are_cut(script: str) -> None:
    async with runner_scene(acting(script)) as scene:
        await read(await scene.start("a", question(tools=(PICK,))))
        events = await read(await attached(scene))
    frames, _ = rendered(events, FORM)
    assert rendered(events, FORM, cuts=range(len(events)))[0] == frames
    for cut in range(1, len(events)):
        assert rendered(events, FORM, cuts=[cut])[0] == frames


@pytest.mark.parametrize("script", ["tools", "approval"])
async def test_a_client_goes_on_behind_the_last_number_that_it_has(script: str) -> None:
    async with runner_scene(acting(script)) as scene:
        seen = await frames_of(await scene.start("a", question(tools=(PICK,))), renderer_of())
        for last in range(len(seen) - 1):
            rest = await frames_of(await attached(scene), renderer_of(), after=last + 1)
            assert rest == seen[last + 1 :]
            assert rest[0].data is None or rest[0].data["sequence_number"] == last + 1


async def test_words_that_were_taken_back_are_in_no_later_stream() -> None:
    async with runner_scene(acting("retraction")) as scene:
        seen = await frames_of(await scene.start("a", question()), renderer_of())
        late = await frames_of(await attached(scene), renderer_of())
        assert "secr" not in str(late)
        assert [frame.event for frame in late] == [frame.event for frame in seen]
        assert late[-2] == seen[-2]


async def test_a_question_is_asked_without_showing_its_call_as_run() -> None:
    async with runner_scene(acting("approval")) as scene:
        renderer = renderer_of()
        await frames_of(await scene.start("a", question()), renderer)
        output: Any = renderer.final()["output"]
        assert [item["type"] for item in output] == ["message", "mcp_call", "mcp_approval_request"]
        assert [item.get("name") for item in output[1:]] == ["add", "refund"]


@pytest.mark.parametrize("script", SCRIPTS)
async def test_a_response_whose_events_are_gone_is_made_from_its_thread(script: str) -> None:
    async with runner_scene(acting(script)) as scene:
        renderer, later = renderer_of(), renderer_of()
        await frames_of(await scene.start("a", question(tools=(PICK,))), renderer)
        record = await scene.runner.run(OWNER, "r")
        produced = (await scene.runner.run_messages(OWNER, "r")).produced
        later.render(events_of(record, produced), 1)

        assert later.final() == renderer.final()


@pytest.mark.parametrize("script", SCRIPTS)
async def test_an_items_number_leads_to_its_message(script: str) -> None:
    async with runner_scene(acting(script)) as scene:
        renderer = renderer_of()
        await frames_of(await scene.start("a", question(tools=(PICK,))), renderer)
        items = numbered((await scene.runner.run_messages(OWNER, "r")).produced)

        assert renderer.items
        for shown in renderer.items:
            place = place_of(shown.id)
            assert place is not None
            message, block = items[place.number]
            assert shown.source_id == (block.call_id if isinstance(block, ToolCall) else message.id)


async def test_ids_of_a_cancelled_run_stay() -> None:
    async with runner_scene(agent_of("a", [[{"text": "one two", "chunk_characters": 4}, {"hang": True}]])) as scene:
        viewer = await scene.start("a", question())
        await scene.runner.cancel(OWNER, "r")
        renderer = renderer_of()
        frames = await frames_of(viewer, renderer)
        assert renderer.final()["status"] == "cancelled"
        assert await frames_of(await attached(scene), renderer_of()) == frames
        checked(frames)
