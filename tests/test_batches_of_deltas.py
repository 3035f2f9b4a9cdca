"""Every protocol shows pieces that came together, as one event, as it shows them one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.a2a.dialects import Dialect
from gateway.a2a.renderer import TaskRenderer
from gateway.events import Event, Events, ReasoningDelta, RunStarted, TextDelta, ToolCallDelta, count_of, joined
from gateway.wire import strict_json
from gateway.wire.text_frames import numbered_frames, text_frames
from tests.a2a_frames import begun
from tests.benchmarks.renderers import RENDERERS, Render, ag_ui
from tests.event_samples import batches_of_a_run, ids, run, whose
from tests.word_samples import REPEATABLE, any_text


def _task(dialect: Dialect) -> Callable[[RunStarted], Render]:
    def opened(run: RunStarted) -> Render:
        task = TaskRenderer(begun(), dialect)
        return lambda events, first: b"".join(task.render(events, first))

    return opened


_RENDERERS = {
    **{name: renderer for name, renderer in RENDERERS.items() if "A2A" not in name},  # their tasks have new ids
    "AG-UI": ag_ui,
    "A2A 1.0": _task(Dialect.V1),
    "A2A 0.3": _task(Dialect.V03),
}

many = st.lists(any_text.filter(bool), min_size=1, max_size=20)
deltas: st.SearchStrategy[Event] = st.one_of(
    st.builds(TextDelta, ids, many), st.builds(ReasoningDelta, ids, many), st.builds(ToolCallDelta, ids, many)
)
QUOTED = ['ends with ",', '"', "\\", 'a","b', "\u2028", "\u0085", "é", "\ud83d", "\ude00", "\0"]


def shown(renderer: Callable[[RunStarted], Render], batches: Sequence[Sequence[Event]]) -> bytes:
    render, first = renderer(RunStarted("t", "resp_r")), 1
    frames = []
    for batch in batches:
        frames.append(render(batch, first))
        first += count_of(batch)
    return b"".join(frames)


@pytest.mark.parametrize("name", _RENDERERS)
@settings(REPEATABLE, max_examples=40)
@given(said=batches_of_a_run, more=st.lists(deltas, max_size=6), owners=whose, at=st.integers(0, 40))
def test_pieces_that_come_together_are_shown_as_one_by_one(
    name: str, said: list[Events], more: list[Event], owners: dict[str, Any], at: int
) -> None:
    renderer = _RENDERERS[name]
    said.insert(1 + at % len(said), more)
    events = run(said, owners)
    apart = [[piece] for event in events for piece in _apart(event)]
    assert shown(renderer, [joined(events)]) == shown(renderer, [[event] for event in events]) == shown(renderer, apart)


def _apart(event: Event) -> list[Event]:
    if isinstance(event, TextDelta | ReasoningDelta | ToolCallDelta):
        return [event.changed(event.id, [text]) for text in event.texts]
    return [event]


@pytest.mark.parametrize("count", [1, 2, 7, 8, 40])
@pytest.mark.parametrize("odd", QUOTED)
def test_texts_that_are_written_at_once_are_as_written_one_by_one(odd: str, count: int) -> None:
    texts = [*["plain"] * (count - 1), odd]
    one_by_one = [b"<%b>" % strict_json.dump(text) for text in texts]
    assert text_frames(b"<", texts, b">") == one_by_one
    on_one_line = [b"<%b>" % _on_one_line(text) for text in texts]
    assert text_frames(b"<", texts, b">", _on_one_line, one_line=True) == on_one_line


@pytest.mark.parametrize("first", [0, 1, 2_040, 5_000])
def test_frames_that_are_written_at_once_are_numbered_in_a_row(first: int) -> None:
    for count in (1, 3, 8, 20):
        expected = [b'<"x"#%d>' % number for number in range(first, first + count)]
        assert numbered_frames(b"<", ["x"] * count, b"#", first, b">") == expected


def _on_one_line(text: str) -> bytes:
    return strict_json.on_one_line(strict_json.dump(text))
