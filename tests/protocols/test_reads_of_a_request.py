"""What a run's request reads of the store, and whose code it calls, over each protocol."""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final, cast

import pytest

from gateway import a2a, sqlite
from gateway.a2a.push_delivery import sweep_push
from gateway.store import Store
from tests.agent_api_scene import agent_api_gateway
from tests.noted_store import NotedStore
from tests.openai_scene import AGENTS
from tests.protocol_speakers import SPEAKERS
from tests.running_gateway import local_gateway, parts_with_store
from tests.told_runs import Question, Speaker

WRITES: Final = {"begin_run", "append_events", "end_run"}
OF_RETENTION: Final = {"documents", "due_deletions", "idle_visitor_threads", "expired_threads", "remove_logs"}
OF_ANY_RUN: Final = ["load_start", "load_thread"]
OF_NAMED_RUN: Final = ["runs_known_as", *OF_ANY_RUN]  # its request can be sent again
OF_CHAT: Final = ["runs_known_as", "list_interrupts", *OF_ANY_RUN]  # its last message may answer a question
READS: Final = {
    "AG-UI stream": OF_ANY_RUN,
    "Chat stream": OF_CHAT,
    "Chat body": OF_CHAT,
    "Responses stream": OF_NAMED_RUN,
    "Responses body": OF_NAMED_RUN,
    "A2A stream": OF_NAMED_RUN,
    "A2A body": OF_NAMED_RUN,
    "A2A body of 0.3": OF_NAMED_RUN,
    "Agent API stream": OF_NAMED_RUN,
    "Agent API body": OF_NAMED_RUN,
}
ASKING: Final = [speaker for speaker in SPEAKERS if speaker.name in READS]
OF_OTHERS: Final = [speaker for speaker in SPEAKERS if speaker.protocol != "A2A"]
QUESTION: Final = Question("words", "hello", "one")


@pytest.mark.parametrize("speaker", ASKING, ids=lambda speaker: speaker.name)
async def test_the_first_request_of_a_thread_reads_this(tmp_path: Path, speaker: Speaker) -> None:
    noted: list[str] = []
    parts = parts_with_store(lambda store: cast(Store, NotedStore(store, noted)))
    async with local_gateway(tmp_path, AGENTS, parts=parts) as gateway:
        noted.clear()
        await speaker.ask(gateway.client, QUESTION)
        assert [name for name in noted if name not in WRITES | OF_RETENTION] == READS[speaker.name]


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


@pytest.mark.parametrize("asked_before", [0, 1], ids=["new", "known"])
async def test_a_session_of_the_agent_api_is_read_from_the_file_at_most_once(tmp_path: Path, asked_before: int) -> None:
    async with agent_api_gateway(tmp_path) as scene:
        for _ in range(asked_before):
            await scene.stream("hello", agent="words", session_id="session")
        with called(Path(sqlite.__file__).parent) as names:
            await scene.stream("hello", agent="words", session_id="session")
    assert names.count("ThreadCache.start_loading") == 1 - asked_before


@pytest.mark.parametrize("speaker", OF_OTHERS, ids=lambda speaker: speaker.name)
async def test_a_run_over_another_protocol_calls_nothing_of_a2a(tmp_path: Path, speaker: Speaker) -> None:
    room = Path(a2a.__file__).parent
    async with local_gateway(tmp_path, AGENTS) as gateway:
        with called(room) as names:
            await speaker.ask(gateway.client, QUESTION)
    assert names == []
