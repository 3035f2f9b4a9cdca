"""Whose code a run's request calls, over each protocol."""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest

from gateway import a2a
from gateway.a2a.push_delivery import sweep_push
from tests.openai_scene import AGENTS
from tests.protocol_speakers import SPEAKERS
from tests.running_gateway import local_gateway
from tests.told_runs import Question, Speaker

OF_OTHERS: Final = [speaker for speaker in SPEAKERS if speaker.protocol != "A2A"]
QUESTION: Final = Question("words", "hello", "one")


def is_sweeping(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code is not sweep_push.__code__:
        frame = frame.f_back
    return frame is not None


@contextmanager
def called(room: Path) -> Generator[Sequence[str]]:
    """The names of the functions of that room which this block calls, but for those that its sweep calls meanwhile."""
    names: list[str] = []

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and Path(frame.f_code.co_filename).parent == room and not is_sweeping(frame):
            names.append(frame.f_code.co_qualname)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield names
    finally:
        sys.setprofile(before)


@pytest.mark.parametrize("speaker", OF_OTHERS, ids=lambda speaker: speaker.name)
async def test_a_run_over_another_protocol_calls_nothing_of_a2a(tmp_path: Path, speaker: Speaker) -> None:
    room = Path(a2a.__file__).parent
    async with local_gateway(tmp_path, AGENTS) as gateway:
        with called(room) as names:
            await speaker.ask(gateway.client, QUESTION)
    assert names == []
