"""The stock web UI's transcript of every stream is what the response's output says: nothing lost, nothing twice, and
nothing on the screen waits once the response has ended.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.agent_api.renderer import HEARTBEAT
from gateway.events import Events
from tests.agent_api_frames import FORM, read_frame, rendered
from tests.event_samples import batches, run, whose
from tests.stock_ui import BUILDS, Build, LostError, StockUI, transcript_of
from tests.word_samples import REPEATABLE

forms = st.builds(
    lambda **settings: replace(FORM, **settings),
    backend_tools=st.sampled_from(["shown", "hidden"]),
    list_tools=st.sampled_from([(), ({"server_label": "files", "tools": []},)]),
)


@pytest.mark.parametrize("build", BUILDS, ids=lambda build: build.name)
@settings(REPEATABLE)
@given(said=batches, owners=whose, form=forms, waits=st.booleans())
def test_every_stream_is_the_transcript_that_its_response_is(
    build: Build, said: list[Events], owners: dict[str, Any], form: Any, waits: bool
) -> None:
    frames, _ = rendered(run(said, owners, waits=waits), form)
    transcript_of(frames, build)


@pytest.mark.parametrize("build", BUILDS, ids=lambda build: build.name)
@settings(REPEATABLE)
@given(said=batches, owners=whose)
def test_heartbeats_leave_the_transcript_as_it_is(build: Build, said: list[Events], owners: dict[str, Any]) -> None:
    frames, _ = rendered(run(said, owners))
    ui = StockUI(build)
    for frame in frames:
        ui.take(read_frame(HEARTBEAT))
        ui.take(frame)
    assert ui.transcript() == transcript_of(frames, build)
    assert not ui.spins


# --- the rules are not kinder than the UI -----------------------------------------------------------------------------


OPEN = {"object": "message", "id": "m", "type": "message", "status": "created", "role": "assistant"}
DONE = {"object": "response", "status": "completed"}


def text(said: str, *, delta: bool) -> dict[str, Any]:
    return {"object": "content", "msg_id": "m", "type": "text", "delta": delta, "status": "in_progress", "text": said}


def data(kind: str, call_id: str) -> dict[str, Any]:
    value = {"type": "data", "data": {"call_id": call_id, "name": "add", "arguments": "{}", "output": "5"}}
    return {"id": kind, "type": kind, "status": "completed", "content": [value]}


def test_a_content_that_does_not_begin_with_a_delta_is_put_onto_the_one_before() -> None:
    ui = StockUI()
    for frame in (OPEN, text("first", delta=True), text("first", delta=False), text("second", delta=False)):
        ui.take(frame)
    assert ui.transcript() == [("text", "second")]


def test_a_content_of_no_message_is_lost() -> None:
    with pytest.raises(LostError, match="not announced"):
        StockUI().take(text("first", delta=True))


def test_an_output_without_its_call_is_lost() -> None:
    ui = StockUI()
    ui.take({**DONE, "output": [data("plugin_call", "call_1"), data("plugin_call_output", "call_2")]})
    with pytest.raises(LostError, match="without its call"):
        ui.transcript()
    ui.take({**DONE, "output": [data("plugin_call", "call_1"), data("plugin_call_output", "call_1")]})
    assert ui.transcript() == [("call", None, "add", "{}", "5")]


def test_a_response_without_its_output_erases_the_screen() -> None:
    ui = StockUI()
    for frame in (OPEN, text("first", delta=True), DONE):
        ui.take(frame)
    assert ui.transcript() == []
    assert not ui.finished


def test_an_end_that_the_ui_does_not_know_leaves_it_waiting() -> None:
    ui = StockUI()
    ui.take({**DONE, "status": "incomplete", "output": [{**OPEN, "content": [text("first", delta=False)]}]})
    assert not ui.finished


def test_a_frame_of_no_kind_is_a_failure() -> None:
    ui = StockUI()
    ui.read('data: {"object":"error","code":"boom","message":"It broke."}\n\n: a comment\n\n')
    assert ui.transcript() == [("error", "boom", "It broke.")]
    assert ui.finished
