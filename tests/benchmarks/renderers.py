"""What each protocol's renderer costs beside AG-UI's, in this process: that is in what the protocols differ.

A run of 200 deltas, one of a short call of a tool and 100 deltas, and one of ten such calls and ten deltas come in
batches of one event, of twenty, and at once. Each renderer takes them in turns with AG-UI's, and the best of the rounds
counts. `bytes` tells how often a protocol sends the words: each frame that repeats them, and
the frames around them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from gateway.a2a.dialects import Dialect
from gateway.a2a.ids import new_context_id, new_task_id
from gateway.a2a.renderer import TaskRenderer
from gateway.a2a.tasks import TaskFold
from gateway.ag_ui.events import Renderer as AgUiRenderer
from gateway.ag_ui.peer import PeerProfile
from gateway.agent_api.output import ResponseForm as AgentApiForm
from gateway.agent_api.renderer import ResponseRenderer
from gateway.events import (
    Completed,
    Event,
    ModelCallEnded,
    ModelCallStarted,
    RunFinished,
    RunStarted,
    StopReason,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    ToolReturned,
    joined,
)
from gateway.messages import TextBlock, new_message_id
from gateway.ml_agents.chunks import Chunks
from gateway.ml_agents.execution import AnswerForm
from gateway.openai_api.chat_renderer import ChatChunks, ChatForm
from gateway.openai_api.ids import new_run_id, new_thread_id
from gateway.openai_api.responses_renderer import ResponsesRenderer
from gateway.openai_api.responses_resource import ResponseForm
from tests.benchmarks.measurements import Row

DELTAS: Final = 200
_ARGUMENTS: Final = '{"city":"Paris"}'
_RESULT: Final = "It is sunny, 21 degrees."
_WORD: Final = " token"
_ROUNDS: Final = 30
_BATCHES: Final = {"one by one": 1, "20 at once": 20, "all at once": 1_000}

Render: TypeAlias = Callable[[Sequence[Event], int], bytes]


def ag_ui(run: RunStarted) -> Render:
    return AgUiRenderer(PeerProfile.FULL, run.thread_id, run.run_id).render


def _ml_commons(run: RunStarted) -> Render:
    chunks = Chunks(AnswerForm(run.thread_id, run.run_id))
    return lambda events, first: b"".join(chunks.render(events, first))


def _chat(run: RunStarted) -> Render:
    chunks = ChatChunks(ChatForm(run.run_id, 1_700_000_000, "assistant", include_usage=True))
    return lambda events, first: b"".join(chunks.render(events, first))


def _responses(run: RunStarted) -> Render:
    response = ResponsesRenderer(ResponseForm(run.run_id, run.thread_id, "assistant", 1_700_000_000))
    return lambda events, first: b"".join(response.render(events, first))


def _agent_api(run: RunStarted) -> Render:
    response = ResponseRenderer(AgentApiForm(run.run_id, run.thread_id, 1_700_000_000), ended_at=time.time)
    return lambda events, first: b"".join(response.render(events, first))


def _a2a(dialect: Dialect, envelope: bytes | None) -> Callable[[RunStarted], Render]:
    def renderer(run: RunStarted) -> Render:
        # a context and a task have ids of their own form, which stand in every frame
        task = TaskRenderer(TaskFold(new_task_id(), new_context_id()), dialect, envelope=envelope)
        return lambda events, first: b"".join(task.render(events, first))

    return renderer


RENDERERS: Final[Mapping[str, Callable[[RunStarted], Render]]] = {
    "ml-commons' chunks": _ml_commons,
    "Chat Completions": _chat,
    "Responses": _responses,
    "Agent API": _agent_api,
    "A2A 1.0 over JSON-RPC": _a2a(Dialect.V1, b"1"),
    "A2A 1.0 over REST": _a2a(Dialect.V1, None),
    "A2A 0.3": _a2a(Dialect.V03, b"1"),
}


def run(report: Callable[[Row], None], rounds: int = _ROUNDS) -> None:
    """Measure all of them."""
    for said, events in runs().items():
        for name, renderer in RENDERERS.items():
            for how, size in _BATCHES.items():
                theirs, ours = _microseconds((ag_ui, renderer), events, size, rounds)
                title = f"rendering {said} as {name}, {how} (bare: AG-UI)"
                report(Row(title, theirs, ours, "us/event", f"{ours / theirs:.2f}x", "<= 1.5x"))
    for name, renderer in RENDERERS.items():
        theirs, ours = (len(rendered(each, _run(_words(DELTAS)), 1_000)) / DELTAS for each in (ag_ui, renderer))
        times = rendered(renderer, _run(_words(DELTAS)), 1_000).count(_WORD.encode()) / DELTAS
        title = f"a delta of {len(_WORD)} letters as {name} (bare: AG-UI)"
        report(Row(title, theirs, ours, "bytes", f"{ours / theirs:.2f}x", f"the words {times:.0f} times"))


def _microseconds(
    renderers: Sequence[Callable[[RunStarted], Render]], events: Sequence[Event], size: int, rounds: int
) -> Sequence[float]:
    """The best time of each, per event."""
    best = [float("inf")] * len(renderers)
    batches = _batches(events, size)
    for _ in range(rounds):
        for place, renderer in enumerate(renderers):
            begun = time.perf_counter()
            _all_frames(renderer, batches)
            best[place] = min(best[place], (time.perf_counter() - begun) / len(events) * 1e6)
    return best


def rendered(renderer: Callable[[RunStarted], Render], events: Sequence[Event], size: int) -> bytes:
    """All frames of a run that comes in batches of so many events."""
    return _all_frames(renderer, _batches(events, size))


def _batches(events: Sequence[Event], size: int) -> Sequence[tuple[int, Sequence[Event]]]:
    """So many events each, with the number of the first: pieces of one text that come together are one event."""
    return [(place + 1, joined([*events[place : place + size]])) for place in range(0, len(events), size)]


def _all_frames(renderer: Callable[[RunStarted], Render], batches: Sequence[tuple[int, Sequence[Event]]]) -> bytes:
    started = batches[0][1][0]
    assert isinstance(started, RunStarted)
    render = renderer(started)
    return b"".join([render(events, first) for first, events in batches])


def runs() -> Mapping[str, Sequence[Event]]:
    """What is rendered, by what it is."""
    return {
        f"{DELTAS} deltas": _run(_words(DELTAS)),
        "a short call and 100 deltas": _run(_call(0), _words(100)),
        "ten short calls and 10 deltas": _run(*[_call(number) for number in range(10)], _words(10)),
    }


def _run(*turns: Sequence[Event]) -> list[Event]:
    events = [event for turn in turns for event in turn]
    return [RunStarted(new_thread_id(), new_run_id("resp_")), *events, RunFinished(Completed())]


def _words(count: int) -> list[Event]:
    message_id = new_message_id()
    return [
        ModelCallStarted("turn", "provider", "model"),
        TextStarted(message_id),
        *(TextDelta(message_id, _WORD) for _ in range(count)),
        TextEnded(message_id),
        ModelCallEnded(StopReason.END_TURN),
    ]


def _call(number: int) -> list[Event]:
    call_id = f"call_{number:024d}"
    return [
        ModelCallStarted("turn", "provider", "model"),
        ToolCallStarted(call_id, "get_weather", new_message_id(), executor="backend"),
        ToolCallDelta(call_id, _ARGUMENTS),
        ToolCallEnded(call_id),
        ModelCallEnded(StopReason.TOOL_CALLS),
        ToolReturned(new_message_id(), call_id, (TextBlock(_RESULT),)),
    ]
