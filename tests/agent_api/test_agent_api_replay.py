"""Real runs as responses of the Agent API: who watches, who comes back and who comes late see the same frames."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.agent_api.renderer import ResponseRenderer
from gateway.protocol.run_events import events_of
from gateway.runs.viewer import Viewer
from tests.agent_api_frames import checked, read_frame, rendered, renderer_of
from tests.replayed_runs import PICK, SCRIPTS, acting, attached, frames_seen
from tests.runner_scene import OWNER, agent_of, question, read, runner_scene


async def frames_of(viewer: Viewer, renderer: ResponseRenderer, *, after: int = 0) -> list[Any]:
    return [read_frame(frame) for frame in await frames_seen(viewer, renderer, after=after)]


@pytest.mark.parametrize("script", SCRIPTS)
async def test_a_stream_that_is_read_again_is_the_one_that_was_seen(script: str) -> None:
    async with runner_scene(acting(script)) as scene:
        seen = await frames_of(await scene.start("a", question(tools=(PICK,))), renderer_of())
        late = await frames_of(await attached(scene), renderer_of())

        assert checked(seen) == checked(late)
        assert len(late) == len(seen)
        if script != "retraction":
            assert late == seen


@pytest.mark.parametrize("script", SCRIPTS)
async def test_a_stream_is_the_same_wherever_its_events_are_cut(script: str) -> None:
    async with runner_scene(acting(script)) as scene:
        await read(await scene.start("a", question(tools=(PICK,))))
        events = await read(await attached(scene))
    frames, _ = rendered(events)
    for cut in range(1, len(events)):
        assert rendered(events, cuts=[cut])[0] == frames


@pytest.mark.parametrize("script", ["tools", "approval"])
async def test_a_client_goes_on_behind_the_last_number_that_it_has(script: str) -> None:
    async with runner_scene(acting(script)) as scene:
        seen = await frames_of(await scene.start("a", question(tools=(PICK,))), renderer_of())
        for last in range(len(seen)):
            rest = await frames_of(await attached(scene), renderer_of(), after=last + 1)
            assert rest == seen[last + 1 :]


async def test_words_that_were_taken_back_are_in_no_later_stream() -> None:
    async with runner_scene(acting("retraction")) as scene:
        seen = await frames_of(await scene.start("a", question()), renderer_of())
        late = await frames_of(await attached(scene), renderer_of())
        assert "secr" not in str(late)
        assert [frame["sequence_number"] for frame in late] == [frame["sequence_number"] for frame in seen]
        assert late[-1] == seen[-1]


@pytest.mark.parametrize("script", SCRIPTS)
async def test_a_response_whose_events_are_gone_is_made_from_its_thread(script: str) -> None:
    async with runner_scene(acting(script)) as scene:
        renderer, later = renderer_of(), renderer_of()
        await frames_of(await scene.start("a", question(tools=(PICK,))), renderer)
        record = await scene.runner.run(OWNER, "r")
        produced = (await scene.runner.run_messages(OWNER, "r")).produced
        later.render(events_of(record, produced), 1)
        assert told(later.final()) == told(renderer.final())


def told(response: Any) -> list[Any]:
    """What its messages say. Their statuses are not kept, nor are the words and the ids of questions."""
    return [
        (message["id"], message["type"], _value(content))
        for message in response["output"]
        for content in message["content"]
    ]


def _value(content: Any) -> dict[str, Any]:
    data = content.get("data")
    kept = {**data, "id": None} if isinstance(data, dict) else data
    return {name: kept if name == "data" else value for name, value in content.items() if name != "status"}


async def test_a_cancelled_run_is_shown_with_what_there_is() -> None:
    async with runner_scene(agent_of("a", [[{"text": "one two", "chunk_characters": 4}, {"hang": True}]])) as scene:
        viewer = await scene.start("a", question())
        await scene.runner.cancel(OWNER, "r")
        frames = await frames_of(viewer, renderer_of())
        assert checked(frames)["status"] == "canceled"
        assert await frames_of(await attached(scene), renderer_of()) == frames
