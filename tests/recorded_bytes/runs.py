"""The runs whose bytes are recorded: their events as the agent gives them, and as the runner shows and keeps them.

Below: recorded_models, written_events, scripts. Above: renderings.

Records of events are taken apart here into one for each number, without the gateway's help: what the log says must not
depend on how the gateway holds it in memory.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from itertools import count
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

from gateway import messages
from gateway.agent import AgentDefinition, ModelSettings
from gateway.agents.open_agent import OpenAgent
from gateway.errors import GatewayError
from gateway.event_order import Sealer
from gateway.events import Event, Events, RunFailed, RunStarted
from gateway.loop import Loop, LoopContext
from gateway.loops.react import ReactLoop
from gateway.model import Model
from gateway.models.scripted import ScriptedModel, parse_script
from gateway.records import EventRecords, decode_events, dump_json, encode_events, load_json
from gateway.runs.viewer import Batch
from tests.case_tools import PIXEL
from tests.loop_runs import LoopRun, adder, tool_giving
from tests.movable_clock import MovableClock
from tests.recorded_bytes.recorded_models import recorded_models
from tests.recorded_bytes.written_events import Batches, written_runs
from tests.replayed_runs import ADD, PICK, SCRIPTS
from tests.runner_scene import Scene, agent_of

Given = Mapping[str, Sequence[Events]]

_SAID: Final = {"TextDelta": "text", "ReasoningDelta": "text", "ToolCallDelta": "arguments"}

_MORE_SCRIPTS: Final[Mapping[str, Sequence[Sequence[dict[str, Any]]]]] = {
    "parallel tools": [[ADD, ADD, ADD], [{"text": "5 and {{result}}.", "chunk_characters": 2}]],
    "backend and client tools": [
        [ADD, {"tool": "pick"}, {"tool": "pick", "arguments": {"of": [1, 2]}, "id": "call_1"}]
    ],
    "slow arguments": [[{**ADD, "chunk_characters": 2}], [{"reasoning": "So", "signature": "c2ln"}, {"text": "5"}]],
    "a tool that is not there": [[{"tool": "nothing", "arguments": "not JSON"}], [{"text": "Sorry."}]],
    "usage": [
        [{"text": "a b", "repeat": 40}, {"usage": {"input_tokens": 12, "output_tokens": 4}}, {"raw_event": {"a": 1}}]
    ],
    "two media": [[{"medium": PIXEL}, {"medium": "aGk=", "media_type": "audio/wav"}, {"text": "There."}]],
    "a failure of the second answer": [[{"text": "Wait.", "chunk_characters": 1}, ADD], [{"error": "invalid"}]],
    "reasoning that is taken back": [
        [{"reasoning": "A secret"}, {"text": "Said."}, {"medium": PIXEL}, {"retract": ""}]
    ],
    "many words": [[{"text": "word and ", "repeat": 60, "chunk_characters": 3}], []],
    "crash": [[{"text": "so far"}, {"crash": "unexpected"}]],
}


class _PlayedLoop:
    """An agent that gives these events."""

    def __init__(self, batches: Batches) -> None:
        self._batches = batches

    async def run(self, context: LoopContext) -> AsyncGenerator[Events]:
        for batch in self._batches:
            if batch and isinstance(failure := batch[-1], RunFailed):
                if said := [*batch[:-1]]:
                    yield said
                raise GatewayError(failure.message, code=failure.code)
            yield [*batch]


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """`given` gives the batches of the agent's events, without RunStarted, by how they come. `agent` does the same."""

    name: str
    given: Callable[[], Any]
    agent: Callable[[], OpenAgent]


def recorded_runs() -> Mapping[str, RecordedRun]:
    """All of them, by name."""
    runs: list[RecordedRun] = []
    for name, models in recorded_models().items():
        first = next(iter(models.values()))
        runs.append(RecordedRun(name, partial(_of_models, models), partial(_agent, first, ReactLoop())))
    for script, responses in {**SCRIPTS, **_MORE_SCRIPTS}.items():
        runs.append(RecordedRun(f"scripted/{script}", partial(_of_script, responses), partial(_acting, responses)))
    for written, batches in written_runs().items():
        loop = _PlayedLoop(batches)
        runs.append(RecordedRun(f"written/{written}", partial(_of_hand, batches), partial(_agent, _silent(), loop)))
    return {run.name: run for run in runs}


@contextmanager
def counted_ids() -> Iterator[None]:
    """The ids that the gateway draws are the same each time."""
    numbers = count(1)

    def drawn(size: int) -> bytes:
        return blake2b(b"%d" % next(numbers), digest_size=size).digest()

    with patch.object(messages, "os", SimpleNamespace(urandom=drawn)):
        yield


def sealed(batches: Sequence[Events]) -> list[Events]:
    """The batches of a whole run, in order."""
    sealer = Sealer()
    begin: Events = [RunStarted("t", "r")]
    passed = [sealer.follow([*batch]) for batch in (begin, *batches)]
    assert sealer.sealed
    return [batch for batch in passed if batch]


def numbered(records: EventRecords) -> list[bytes]:
    """A record for each number."""
    lines: list[bytes] = []
    for line in records.lines.split(b"\n"):
        record: Any = load_json(line)
        said = _SAID.get(record["type"], "")
        pieces = record.get(said)
        lines += [dump_json({**record, said: piece}) for piece in pieces] if isinstance(pieces, list) else [line]
    assert len(lines) == records.count, "each event has a number, and each delta"
    return lines


def in_batches(lines: Sequence[bytes], size: int) -> list[Batch]:
    """The events of these records as the gateway holds them where so many come at once."""
    batches: list[Batch] = []
    for place in range(0, len(lines), size):
        there = [*decode_events(b"\n".join(lines[place : place + size]))]
        batches.append(Batch(place + 1, [*decode_events(encode_events(there).lines)]))
    return batches


async def live_batches(scene: Scene, agent_id: str, given: Any) -> list[Batch]:
    """What a viewer is shown that is there from the begin to the end."""
    viewer = await scene.start(agent_id, given)
    return [batch async for batch in viewer]


async def _of_models(models: Mapping[str, Model]) -> Given:
    return {how: await _looped(LoopRun(model=model)) for how, model in models.items()}


async def _of_script(responses: Sequence[Sequence[dict[str, Any]]]) -> Given:
    tools = [adder(), tool_giving("refund", "refunded")]
    run = LoopRun(responses=responses, tools=tools, frontend=[PICK], approvals=["refund"])
    return {"as scripted": await _looped(run)}


async def _of_hand(batches: Batches) -> Given:
    return {"as written": [[*batch] for batch in batches]}


async def _looped(run: LoopRun) -> Sequence[Events]:
    """What the loop gives, with the failure that it raises."""
    with counted_ids():
        try:
            await run.events()
        except GatewayError as error:
            return [*run.batches, [RunFailed(error.code, error.message)]]
        except RuntimeError as error:
            return [*run.batches, [RunFailed("internal_error", str(error))]]
    return run.batches


def _acting(responses: Sequence[Sequence[dict[str, Any]]]) -> OpenAgent:
    return agent_of("a", responses, (adder(), "never"), (tool_giving("refund", "refunded"), "always"))


def _agent(model: Model, loop: Loop) -> OpenAgent:
    definition = AgentDefinition("a", "a", "conversational", ModelSettings("scripted"))
    return OpenAgent(definition, loop, model, [])


def _silent() -> ScriptedModel:
    return ScriptedModel(parse_script({}), MovableClock())


def events_of(batches: Sequence[Batch]) -> list[Event]:
    """All of their events."""
    return [event for batch in batches for event in batch.events]
