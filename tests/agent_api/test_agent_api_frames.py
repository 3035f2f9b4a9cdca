"""Runs of any shape as responses of the Agent API: strict clients accept every stream, however its events were cut."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.agent_api.output import ResponseForm
from gateway.events import Events
from tests.agent_api_frames import FORM, checked, rendered
from tests.event_samples import batches, batches_of_a_run, run, whose
from tests.pieces import erased
from tests.word_samples import REPEATABLE

forms = st.builds(
    lambda **settings: replace(FORM, **settings),
    backend_tools=st.sampled_from(["shown", "hidden"]),
    list_tools=st.sampled_from([(), ({"server_label": "files", "tools": []},)]),
    warnings=st.sampled_from([(), ("n is 1",)]),
)
cuts = st.sets(st.integers(1, 40))


@settings(REPEATABLE)
@given(said=batches, owners=whose, form=forms, at=cuts, waits=st.booleans())
def test_every_stream_is_accepted_and_gives_the_body(
    said: list[Events], owners: dict[str, Any], form: ResponseForm, at: set[int], waits: bool
) -> None:
    events = run(said, owners, waits=waits)
    frames, renderer = rendered(events, form, cuts=at)
    assert checked(frames) == renderer.final()
    assert rendered(events, form)[0] == frames, "frames do not depend on how events are cut"


@settings(REPEATABLE)
@given(said=batches_of_a_run, owners=whose)
def test_without_retractions_the_deltas_give_the_output(said: list[Events], owners: dict[str, Any]) -> None:
    frames, renderer = rendered(run(said, owners))
    told: dict[tuple[str, int], str] = {}
    for frame in frames:
        if frame.get("delta") and frame["type"] in ("text", "refusal"):
            place = (frame["msg_id"], frame["index"])
            told[place] = told.get(place, "") + frame[frame["type"]]
    output: Any = renderer.final()["output"]
    whole = {
        (message["id"], content["index"]): content[content["type"]]
        for message in output
        for content in message["content"]
        if content["type"] in ("text", "refusal")
    }
    assert told == whole


@settings(REPEATABLE)
@given(said=batches, owners=whose, at=cuts)
def test_a_log_whose_words_and_media_were_erased_gives_as_many_frames(
    said: list[Events], owners: dict[str, Any], at: set[int]
) -> None:
    events = run(said, owners)
    assert len(rendered(erased(events), cuts=at)[0]) == len(rendered(events)[0])
