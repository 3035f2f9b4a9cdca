"""Runs of any shape as tasks: the official types of both versions read every stream, however its events were cut."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.a2a.dialects import Dialect
from gateway.events import (
    Completed,
    Custom,
    Event,
    Events,
    RunFinished,
    RunStarted,
    TextDelta,
    TextStarted,
)
from gateway.tool_output import encodable
from tests.a2a_frames import artifacts_in, artifacts_of, begun, body_of, check_result, checked, read, rendered
from tests.event_samples import batches, batches_of_a_run, run, seal, whose
from tests.pieces import erased
from tests.word_samples import REPEATABLE, any_json, any_text

START: list[Event] = [RunStarted("t", "r"), TextStarted("m")]
cuts = st.sets(st.integers(1, 40))
dialects = st.sampled_from(Dialect)


@settings(REPEATABLE)
@given(said=batches, owners=whose, dialect=dialects, at=cuts, waits=st.booleans(), activity=st.booleans())
def test_every_stream_is_read_by_the_official_types_and_gives_the_body(
    said: list[Events], owners: dict[str, Any], dialect: Dialect, at: set[int], waits: bool, activity: bool
) -> None:
    events = run(said, owners, waits=waits)
    frames, renderer = rendered(events, dialect, cuts=at, fold=begun(shows_activity=activity))
    results = checked(read(frames), dialect)
    body = renderer.final()
    check_result(body, dialect)
    task: Any = body if dialect is Dialect.V03 else body["task"]
    assert artifacts_of(results) == artifacts_in(task)
    assert results[-1]["statusUpdate"]["status"] == task["status"]
    assert body_of(events, dialect) == body
    again, _ = rendered(events, dialect, fold=begun(shows_activity=activity))
    assert again == frames, "frames do not depend on how events are cut"


@settings(REPEATABLE)
@given(said=batches_of_a_run, owners=whose, waits=st.booleans(), at=st.integers(0, 30))
def test_a_stream_of_a_task_under_way_goes_on_behind_the_task(
    said: list[Events], owners: dict[str, Any], waits: bool, at: int
) -> None:
    events = run(said, owners, waits=waits)
    at = min(at, len(events) - 1)
    fold = begun()
    fold.follow(events[:at])
    frames, renderer = rendered(events[at:], fold=fold)
    first, *rest = checked(read(frames), Dialect.V1)
    whole, _ = rendered(events)
    assert rest == read(whole)[len(whole) - len(rest) :], "what remains is what every other viewer gets"
    held = artifacts_in(first["task"])
    for update in (each["artifactUpdate"] for each in rest if "artifactUpdate" in each):
        parts = update["artifact"]["parts"]
        known = held.get(update["artifact"]["artifactId"], []) if update.get("append") else []
        held[update["artifact"]["artifactId"]] = joined_text([*known, *parts])
    task: Any = renderer.final()["task"]
    assert held == {key: joined_text(parts) for key, parts in artifacts_in(task).items()}


def joined_text(parts: list[Any]) -> list[Any]:
    texts = [part["text"] for part in parts if "text" in part]
    return [{"text": "".join(texts)}] if len(texts) == len(parts) else parts


@settings(REPEATABLE)
@given(said=batches, owners=whose, activity=st.booleans())
def test_a_log_whose_words_were_erased_gives_as_many_frames(
    said: list[Events], owners: dict[str, Any], activity: bool
) -> None:
    events = run(said, owners)
    frames, _ = rendered(events, fold=begun(shows_activity=activity))
    late, _ = rendered(erased(events), fold=begun(shows_activity=activity))
    checked(read(late), Dialect.V1)
    assert len(late) == len(frames)


@settings(REPEATABLE)
@given(said=st.lists(any_text.map(encodable).filter(bool), min_size=1, max_size=80), dialect=dialects)
def test_any_words_arrive_on_one_line_each(said: list[str], dialect: Dialect) -> None:
    events = seal([*START, *(TextDelta("m", text) for text in said)])
    one_by_one, _ = rendered(events, dialect, cuts=range(len(events)))
    at_once, renderer = rendered(events, dialect)
    assert one_by_one == at_once
    results = checked(read(at_once), dialect)
    body: Any = renderer.final()
    task = body if dialect is Dialect.V03 else body["task"]
    assert artifacts_of(results)["m"][0]["text"] == artifacts_in(task)["m"][0]["text"] == "".join(said)


MEMBERS = ["text", "raw", "url", "data", "kind", "file", "mediaType", "filename", "metadata"]
any_part = st.dictionaries(st.sampled_from(MEMBERS), any_json, max_size=4) | any_json.map(lambda value: {"data": value})
OWN_MEMBERS = ["artifactId", "name", "description", "metadata", "append", "lastChunk"]
any_value = st.builds(
    lambda own, parts: {**own, "parts": parts},
    st.dictionaries(st.sampled_from(OWN_MEMBERS), any_json),
    st.lists(any_part, max_size=3) | any_json,
)


@settings(REPEATABLE)
@given(name=st.sampled_from(["a2a.artifact", "a2a.message"]), value=any_value | any_json, dialect=dialects)
def test_whatever_an_agent_gives_itself_is_a_frame_or_none(name: str, value: Any, dialect: Dialect) -> None:
    events = seal([RunStarted("t", "r"), Custom(name, value), RunFinished(Completed())])
    frames, _ = rendered(events, dialect)
    checked(read(frames), dialect)
