"""What a model's answer in the background demands of the runner: another process must know where its tools begin."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest

from gateway.events import (
    Completed,
    Event,
    Events,
    ModelCallAccepted,
    ModelCallEnded,
    ModelCallStarted,
    RunFinished,
    StopReason,
    TextDelta,
    TextEnded,
    TextStarted,
)
from gateway.loop import LoopContext
from tests.runner_scene import Scene, agent_of, question, read, runner_scene


class AnsweringLoop:
    """A loop whose model answers; at the place where tools would begin it looks at what the store has kept."""

    def __init__(self, *accepted: Event) -> None:
        self.scene: Scene | None = None
        self.kept: list[Event] = []
        self._accepted = accepted

    async def run(self, context: LoopContext) -> AsyncGenerator[Events]:
        yield [ModelCallStarted("turn", "p", "m"), *self._accepted, TextStarted("m"), TextDelta("m", "Let me see.")]
        yield [TextEnded("m"), ModelCallEnded(StopReason.TOOL_CALLS)]
        assert self.scene is not None
        self.kept = await self.scene.kept_events(context.input.run_id)
        yield [RunFinished(Completed())]


@pytest.mark.parametrize(
    ("accepted", "waits"), [((ModelCallAccepted("resp_1", {}),), True), ((), False)], ids=["background", "ordinary"]
)
async def test_an_answer_that_could_be_taken_up_is_over_in_the_log_before_its_tools_begin(
    accepted: tuple[Event, ...], waits: bool
) -> None:
    """Else a crash in that moment would have the next process take the answer up, and run its tools again."""
    loop = AnsweringLoop(*accepted)
    async with runner_scene(replace(agent_of("answers", []), loop=loop)) as scene:
        loop.scene = scene
        await read(await scene.start("answers", question()))
    kinds = {type(event) for event in loop.kept}
    assert (ModelCallEnded in kinds) == waits
