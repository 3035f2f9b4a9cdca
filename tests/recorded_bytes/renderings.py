"""What every protocol shows of a run, as bytes: live and replayed, in batches of every size, from every cursor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from gateway.a2a.dialects import Dialect
from gateway.a2a.renderer import PushUpdates, TaskBody, TaskRenderer
from gateway.ag_ui.events import Renderer as AgUiRenderer
from gateway.ag_ui.peer import PeerProfile
from gateway.agent_api.output import ResponseForm as AgentApiForm
from gateway.agent_api.renderer import ResponseRenderer
from gateway.errors import GatewayError
from gateway.events import Event, Events
from gateway.messages import Opaque
from gateway.ml_agents.chunks import Chunks
from gateway.ml_agents.execution import AnswerForm, ExecutionAnswer
from gateway.openai_api.chat_renderer import ChatChunks, ChatCompletion, ChatForm
from gateway.openai_api.responses_renderer import ResponsesRenderer
from gateway.openai_api.responses_resource import ResponseForm
from gateway.protocol.renderer import Renderer
from gateway.records import dump_json, encode_events
from gateway.runs.viewer import Batch
from gateway.transcript import RunFold
from tests.a2a_frames import begun
from tests.recorded_bytes.runs import (
    RecordedRun,
    counted_ids,
    events_of,
    in_batches,
    live_batches,
    numbered,
    sealed,
)
from tests.replayed_runs import PICK, frames_seen
from tests.runner_scene import OWNER, Scene, question, runner_scene

Columns: TypeAlias = Mapping[str, bytes]
"""What is recorded of a run, by name."""

_SIZES: Final = {"one by one": 1, "seven at once": 7, "all at once": 1_000_000}
_CREATED: Final = 1_700_000_000
_MOST_CURSORS: Final = 12
_FEW_CURSORS: Final = 5


class _Shown:
    """A run as one client is shown it."""

    def __init__(self, renderer: Renderer[object] | AgUiRenderer) -> None:
        self.renderer = renderer

    def of(self, batches: Sequence[Batch]) -> bytes:
        """The frames of all batches, and the body at the end."""
        shown: list[bytes] = []
        for batch in batches:
            frames = self.renderer.render(batch.events, batch.first)
            shown += [frames] if isinstance(frames, bytes) else frames
        return b"".join([*shown, self._body()])

    def _body(self) -> bytes:
        if isinstance(self.renderer, AgUiRenderer):
            return b""
        try:
            body: Any = self.renderer.final()
        except GatewayError as error:
            body = {"error": type(error).__name__, "status": error.status, "code": error.code, "message": str(error)}
        return b"" if body is None else dump_json(body) + b"\n"


class _Pushes:
    """The renderer of what push notifications say."""

    def __init__(self) -> None:
        self._updates = PushUpdates(begun())

    def render(self, events: Sequence[Event], first: int) -> Sequence[bytes]:
        return [
            dump_json([update.payload, update.is_status, update.ends]) + b"\n"
            for update in self._updates.follow(events)
        ]

    def final(self) -> None:
        """There is nothing at the end."""


def _ag_ui(profile: PeerProfile, log_id: str = "", *, to_operator: bool = True) -> AgUiRenderer:
    return AgUiRenderer(profile, "t", "r", log_id, to_operator=to_operator)


def _sealed_reasoning(text: str, opaque: Opaque | None) -> str:
    return f"sealed {text} {opaque}"


_SPARING: Final = ChatForm("r", _CREATED, "a")
_PLAIN_CHAT: Final = ChatForm("r", _CREATED, "a", include_usage=True)
_WORDY_CHAT: Final = ChatForm(
    "r", _CREATED, "a", backend_tools="reasoning", store=True, metadata={"a": "b"}, by_word=True
)
_CALLS_SHOWN: Final = ResponseForm("r", "t", "a", _CREATED)
_CALLS_HIDDEN: Final = ResponseForm(
    "r", "t", "a", _CREATED, store=False, backend_tools="hidden", approvals="message", by_word=True, encrypted=True
)
_PLAIN_ML: Final = AnswerForm("t", "r")
_VERBOSE_ML: Final = AnswerForm("t", "r", verbose=True, token_usage=True)
_UNIFIED_ML: Final = AnswerForm("t", "r", is_unified=True, token_usage=True)
_AGENT_API: Final = AgentApiForm("r", "t", _CREATED)
_TERSE_AGENT_API: Final = AgentApiForm("r", "t", _CREATED, backend_tools="hidden", warnings=("Careful.",))

Open: TypeAlias = Callable[[], Renderer[object] | AgUiRenderer]

_RENDERERS: Final[Mapping[str, Mapping[str, Open]]] = {
    "ag_ui": {
        "AG-UI 1.0": partial(_ag_ui, PeerProfile.FULL),
        "AG-UI 1.0, second log, a stranger": partial(_ag_ui, PeerProfile.FULL, "2", to_operator=False),
        "AG-UI 0.0.x": partial(_ag_ui, PeerProfile.LEGACY),
        "AG-UI 0.0.48 and later": partial(_ag_ui, PeerProfile.LEGACY_MEDIA),
    },
    "ml_commons": {
        "chunks": partial(Chunks, _PLAIN_ML),
        "chunks of conversational_v2": partial(Chunks, _UNIFIED_ML, to_operator=False),
        "answer": partial(ExecutionAnswer, _PLAIN_ML),
        "verbose answer": partial(ExecutionAnswer, _VERBOSE_ML, to_operator=False),
        "answer of conversational_v2": partial(ExecutionAnswer, _UNIFIED_ML),
    },
    "chat": {
        "chunks without usage": partial(ChatChunks, _SPARING),
        "chunks with usage": partial(ChatChunks, _PLAIN_CHAT),
        "chunks with tools": partial(ChatChunks, _WORDY_CHAT, to_operator=False),
        "completion": partial(ChatCompletion, _PLAIN_CHAT),
        "completion with tools": partial(ChatCompletion, _WORDY_CHAT, to_operator=False),
    },
    "responses": {
        "response": partial(ResponsesRenderer, _CALLS_SHOWN, shows_failure=True, ended_at=lambda: 9.0),
        "response without tools": partial(
            ResponsesRenderer, _CALLS_HIDDEN, to_operator=False, seal=_sealed_reasoning, calls_as_written=False
        ),
    },
    "agent_api": {
        "response": partial(ResponseRenderer, _AGENT_API, ended_at=lambda: 9.0),
        "response without tools": partial(
            ResponseRenderer, _TERSE_AGENT_API, ended_at=lambda: 9.0, to_operator=False
        ),
    },
    "a2a": {
        "1.0 over JSON-RPC": lambda: TaskRenderer(begun(), Dialect.V1, envelope=b"7"),
        "1.0 over REST": lambda: TaskRenderer(begun(shows_activity=True), Dialect.V1, history_length=1),
        "1.0, texts repeated": lambda: TaskRenderer(begun(repeats_texts=True, to_operator=False), Dialect.V1),
        "0.3": lambda: TaskRenderer(begun(), Dialect.V03, envelope=b'"7"'),
        "task": lambda: TaskBody(begun(), Dialect.V1),
        "task of 0.3": lambda: TaskBody(begun(shows_activity=True), Dialect.V03),
        "pushes": _Pushes,
    },
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Kept:
    """A run as the runner showed and kept it: what the live viewer got, and the record of each number."""

    live: Sequence[Batch]
    lines: Sequence[bytes]
    log: bytes


async def columns_of(run: RecordedRun) -> Columns:
    """Everything that is recorded of the run."""
    given: Mapping[str, Sequence[Events]] = await run.given()
    with counted_ids():
        batches = {how: sealed(each) for how, each in given.items()}
    async with runner_scene(run.agent()) as scene:
        with counted_ids():
            kept = await _kept(scene)
        columns = {"log": _log(batches) + kept.log}
        ways = _ways(batches, kept)
        for column, renderers in _RENDERERS.items():
            shown = [_section(name, ways, open_one) for name, open_one in renderers.items()]
            replayed = [await _replayed(scene, name, open_one) for name, open_one in renderers.items()]
            columns[column] = b"".join([*shown, *replayed])
        columns["ag_ui"] += _joined(kept.lines)
        columns["a2a"] += _subscribed(kept.lines)
    return columns


def _ways(batches: Mapping[str, Sequence[Events]], kept: _Kept) -> Mapping[str, Sequence[Batch]]:
    """The run's events in batches, by how they come."""
    ways: dict[str, Sequence[Batch]] = {}
    for how, each in batches.items():
        lines = numbered(encode_events(_flat(each)))
        ways[how] = _with_numbers(each)
        ways.update({f"{how}, {size_name}": in_batches(lines, size) for size_name, size in _SIZES.items()})
    return {**ways, "live": kept.live}


def _section(name: str, ways: Mapping[str, Sequence[Batch]], open_one: Open) -> bytes:
    """What one kind of client is shown. What is the same however the events come is there once."""
    hows: dict[bytes, list[str]] = {}
    for how, batches in ways.items():
        hows.setdefault(_Shown(open_one()).of(batches), []).append(how)
    return b"".join([_titled(f"{name}: {'; '.join(each)}", content) for content, each in hows.items()])


def _titled(title: str, content: bytes) -> bytes:
    return b"===== %b\n%b\n" % (title.encode(), content)


# --- the log ---------------------------------------------------------------------------------------------------------


def _log(batches: Mapping[str, Sequence[Events]]) -> bytes:
    """The lines that are stored, for batches as they come and for all events at once."""
    found: list[bytes] = []
    for how, each in batches.items():
        records = [encode_events(batch) for batch in [*each, _flat(each)]]
        stored = b"\n\n".join([b"%d\n%b" % (record.count, record.lines) for record in records])
        found.append(_titled(f"records: {how}", stored))
        found.append(_titled(f"numbered: {how}", b"\n".join(numbered(records[-1]))))
    return b"".join(found)


async def _kept(scene: Scene) -> _Kept:
    live = await live_batches(scene, "a", question(tools=(PICK,)))
    await scene.until_idle()
    log, lines = await _page(scene, 0, 1_000_000)
    pages = [_titled("kept", log)]
    for after in _some(len(lines)):
        for limit in (1, 5):
            page, _ = await _page(scene, after, limit)
            pages.append(_titled(f"kept, after {after}, {limit} at most", page))
    shown = b"\n".join(numbered(encode_events(events_of(live))))
    return _Kept(live, lines, b"".join([_titled("shown live", shown), *pages]))


async def _page(scene: Scene, after: int, limit: int) -> tuple[bytes, list[bytes]]:
    """Records with their numbers, and the records alone. What a page has too much does not count."""
    rows = await scene.store.read_events(OWNER, "r", after=after, limit=limit)
    found = [(row.sequence + place, line) for row in rows for place, line in enumerate(_lines_of(row.event))]
    asked = [(number, line) for number, line in found if number > after][:limit]
    return b"".join([b"%d %b\n" % each for each in asked]), [line for _, line in asked]


def _lines_of(event: Event) -> list[bytes]:
    return numbered(encode_events([event]))


# --- later viewers ---------------------------------------------------------------------------------------------------


async def _replayed(scene: Scene, name: str, open_one: Open) -> bytes:
    """What a client is shown that comes after the end: from the begin, and behind what it has."""
    if isinstance(open_one(), AgUiRenderer):
        last = await scene.store.last_sequence(OWNER, "r")
        cursors = _some(last, _MOST_CURSORS if name == "AG-UI 1.0" else _FEW_CURSORS)
        found = [_titled(f"{name}: after event {n}", await _frames_behind(scene, open_one, n)) for n in cursors]
        return b"".join(found)
    frames = await _client_frames(scene, open_one, 0)
    found = [_titled(f"{name}: again", b"".join(frames))]
    for after in _some(len(frames), _FEW_CURSORS)[1:]:
        seen = await _client_frames(scene, open_one, after)
        found.append(_titled(f"{name}: after frame {after}", b"".join(seen)))
    return b"".join(found)


async def _frames_behind(scene: Scene, open_one: Open, after: int) -> bytes:
    viewer = await scene.runner.attach(OWNER, "r", after=after)
    return b"" if viewer is None else _Shown(open_one()).of([batch async for batch in viewer])


async def _client_frames(scene: Scene, open_one: Open, after: int) -> list[bytes]:
    viewer: Any = await scene.runner.attach(OWNER, "r", after=0)
    renderer: Any = open_one()
    return await frames_seen(viewer, renderer, after=after)


def _joined(lines: Sequence[bytes]) -> bytes:
    """What a client of AG-UI is shown that joins a run that is under way."""
    found: list[bytes] = []
    for cut in _some(len(lines), _FEW_CURSORS):
        fold = RunFold()
        for batch in in_batches(lines[:cut], 7):
            fold.follow(batch.events)
        for profile in PeerProfile:
            renderer = _ag_ui(profile)
            prelude = renderer.prelude(fold.closed_messages(), fold.state, fold.open_items())
            rest = renderer.render([*events_of(in_batches(lines[cut:], 1_000_000))], cut + 1)
            found.append(_titled(f"AG-UI {profile.value}: joined after {cut}", prelude + rest))
    return b"".join(found)


def _subscribed(lines: Sequence[bytes]) -> bytes:
    """What a client of A2A is shown that subscribes to a task that is under way."""
    found: list[bytes] = []
    for cut in _some(len(lines), _FEW_CURSORS):
        fold = begun()
        for batch in in_batches(lines[:cut], 7):
            fold.follow(batch.events)
        renderer = TaskRenderer(fold, Dialect.V1)
        rest = renderer.render(events_of(in_batches(lines[cut:], 1_000_000)), cut + 1)
        found.append(_titled(f"A2A: subscribed after {cut}", b"".join(rest)))
    return b"".join(found)


def _with_numbers(batches: Sequence[Events]) -> list[Batch]:
    """Batches as they come, with the numbers of their first events."""
    found, first = [], 1
    for batch in batches:
        found.append(Batch(first, batch))
        first += encode_events(batch).count
    return found


def _flat(batches: Sequence[Events]) -> list[Event]:
    return [event for batch in batches for event in batch]


def _some(count: int, most: int = _MOST_CURSORS) -> list[int]:
    """Places from 0 to below `count`, both ends among them: all where they are few."""
    return sorted({place * (count - 1) // (most - 1) for place in range(most)} if count > most else set(range(count)))
