"""The phases of a run: only the ways of the table, and who waits for a phase is told of it."""

from __future__ import annotations

import asyncio

import pytest

from gateway.runs.phases import CONCLUDED, OVER, SETTLED, Phase, PhaseError, Phases
from tests.live_run_scene import Scene

# How a run can get to each phase.
WAYS: dict[Phase, tuple[Phase, ...]] = {
    Phase.OPENED: (),
    Phase.WAITING: (Phase.WAITING,),
    Phase.RUNNING: (Phase.RUNNING,),
    Phase.LEAVING: (Phase.RUNNING, Phase.LEAVING),
    Phase.ENDING: (Phase.WAITING, Phase.RUNNING, Phase.ENDING),
    Phase.UNKEPT: (Phase.WAITING, Phase.ENDING, Phase.UNKEPT),
    Phase.OVER: (Phase.OVER,),
}
NEXT: dict[Phase, str] = {
    Phase.OPENED: "waiting running over",
    Phase.WAITING: "running ending over",
    Phase.RUNNING: "leaving ending over",
    Phase.LEAVING: "ending over",
    Phase.ENDING: "unkept over",
    Phase.UNKEPT: "unkept over",
    Phase.OVER: "",
}


def run_in(phase: Phase) -> Phases:
    phases = Phases()
    for step in WAYS[phase]:
        phases.enter(step)
    assert phases.now is phase
    return phases


@pytest.mark.parametrize("before", Phase)
@pytest.mark.parametrize("after", Phase)
def test_a_run_goes_the_ways_of_the_table_and_no_other(before: Phase, after: Phase) -> None:
    phases = run_in(before)
    if after.value in NEXT[before].split():
        phases.enter(after)
        assert phases.now is after
    else:
        with pytest.raises(PhaseError, match=f"{before.value} cannot be {after.value}"):
            phases.enter(after)
        assert phases.now is before, "what is refused changes nothing"


async def test_who_waits_for_a_phase_is_told_when_it_comes() -> None:
    phases = Phases()
    settled, concluded, over = (phases.reached(wanted) for wanted in (SETTLED, CONCLUDED, OVER))
    told = []
    for phase in (Phase.WAITING, Phase.RUNNING, Phase.ENDING, Phase.UNKEPT, Phase.UNKEPT, Phase.OVER):
        phases.enter(phase)
        told.append((settled.done(), concluded.done(), over.done()))
    first, conclusion = (True, False, False), (True, True, False)
    assert told == [first, first, first, conclusion, conclusion, (True, True, True)]


async def test_who_asks_late_need_not_wait() -> None:
    phases = run_in(Phase.UNKEPT)
    assert (phases.reached(CONCLUDED).done(), phases.reached(OVER).done()) == (True, False)
    assert phases.reached(OVER) is phases.reached(OVER)


async def test_a_run_that_ends_is_not_stopped_and_not_left_to_another_process() -> None:
    scene = Scene()
    work = asyncio.create_task(asyncio.Event().wait())
    scene.live.work_in(work)  # type: ignore[arg-type]  # any that takes long
    scene.live.accepted = True
    scene.live.enter(Phase.ENDING)
    assert (scene.live.stop("cancelled"), scene.live.leave()) == (False, False)
    assert (scene.live.cancel_reason, scene.live.left) == (None, False)
    assert not work.cancelling()
    work.cancel()
    await asyncio.wait([work])
