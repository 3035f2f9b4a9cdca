"""Real runs as Responses: who watches, who comes back, and who comes late see the same numbered events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pytest

from gateway.agents.open_agent import OpenAgent
from gateway.messages import ToolCall, ToolSpec
from gateway.openai_api.ids import place_of
from gateway.openai_api.responses_references import numbered
from gateway.openai_api.responses_renderer import ResponsesRenderer
from gateway.openai_api.responses_resource import ResponseForm
from gateway.openai_api.run_events import events_of
from gateway.renderer import rendered_stream
from gateway.runs.viewer import Viewer
from gateway.sse import OpenStreams
from tests.case_tools import PIXEL
from tests.loop_runs import adder, tool_giving
from tests.responses_frames import Frame, checked, fold, read_by_the_sdk, read_frame, rendered
from tests.runner_scene import OWNER, Scene, agent_of, question, read, runner_scene
from tests.test_renderer import streamed

FORM: Final = ResponseForm("r", "t", "a", 7)
PICK: Final = ToolSpec("pick", "Pick one.", {})
ADD: Final = {"tool": "add", "arguments": {"a": 2, "b": 3}}

SCRIPTS: Final[Mapping[str, Sequence[Sequence[dict[str, Any]]]]] = {
    "text": [[{"text": "hello there", "chunk_characters": 4}]],
    "reasoning": [[{"reasoning": "Hm, well.", "chunk_characters": 3}, {"text": "So."}]],
    "tools": [[{"text": "I look."}, ADD, ADD], [{"text": "It is {{result}}."}]],
    "client tool": [[{"text": "Tell me."}, ADD, {"tool": "pick"}]],
    "approval": [[{"text": "One moment."}, {"tool": "refund", "arguments": {"order": "1"}}, ADD]],
    "medium": [[{"text": "Look:"}, {"medium": PIXEL}, {"text": "Nice."}]],
    "refusal": [[{"text": "I will not.", "refusal": True, "chunk_characters": 3}]],
    "retraction": [[{"text": "A secret.", "chunk_characters": 3}, {"retract": "No."}]],
    "cut off": [[{"text": "As long as"}, {"stop": "max_tokens"}]],
    "failure": [[{"text": "so far", "chunk_characters": 2}, {"error": "overloaded"}]],
}


def acting(script: str) -> OpenAgent:
    return agent_of("a", SCRIPTS[script], (adder(), "never"), (tool_giving("refund", "refunded"), "always"))


async def attached(scene: Scene) -> Viewer:
    viewer = await scene.runner.attach(OWNER, "r", after=0)
    assert viewer is not None
    return viewer


def renderer_of(**settings: Any) -> ResponsesRenderer:
    return ResponsesRenderer(replace(FORM, **settings), shows_failure=True)


async def frames_of(viewer: Viewer, renderer: ResponsesRenderer, *, after: int = 0) -> list[Frame]:
    response = rendered_stream(viewer, renderer, OpenStreams(heartbeat_seconds=None), after=after)
    body = b"".join(await streamed(response))
    return [read_frame(frame + b"\n\n") for frame in body.split(b"\n\n")[:-1]]


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

        shown = renderer.final()
        if script == "cut off":  # no record keeps why a run ended early
            output: Any = shown["output"]
            whole: list[Any] = [{**item, "status": "completed"} for item in output]
            shown = {**shown, "status": "completed", "incomplete_details": None, "output": whole}
        assert later.final() == shown


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
