"""Runs of any shape as Responses: the SDK's strict helper reads every stream, however its events were cut."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.events import Events
from gateway.openai_api.ids import place_of
from gateway.openai_api.responses_renderer import ResponseBody
from gateway.openai_api.responses_resource import BackendTools, ResponseForm
from tests.event_samples import batches, batches_of_a_run, run, whose
from tests.pieces import erased
from tests.responses_frames import FORM, check_open_responses, checked, fold, read_by_the_sdk, rendered
from tests.word_samples import REPEATABLE

forms = st.builds(
    lambda **settings: replace(FORM, **settings),
    backend_tools=st.sampled_from(["mcp_call", "function_call", "hidden"]),
    approvals=st.sampled_from(["mcp_approval_request", "message"]),
    background=st.booleans(),
    encrypted=st.booleans(),
)
cuts = st.sets(st.integers(1, 40))


def seal_words(text: str, opaque: object) -> str:
    return f"sealed {text}"


@settings(REPEATABLE)
@given(said=batches, owners=whose, form=forms, at=cuts, waits=st.booleans())
def test_every_stream_is_read_by_the_strict_helper_and_gives_the_body(
    said: list[Events], owners: dict[str, Any], form: ResponseForm, at: set[int], waits: bool
) -> None:
    events = run(said, owners, waits=waits)
    frames, renderer = rendered(events, form, seal=seal_words, shows_failure=True, cuts=at)
    shown = checked(frames)
    completed = read_by_the_sdk(shown)
    response = renderer.final()
    assert shown[-1]["response"] == response
    assert fold(shown) or not response["output"]
    assert (completed is not None) == (response["status"] == "completed")
    body = ResponseBody(form, seal=seal_words, shows_failure=True)
    assert body.render(events, 1) == ()
    assert body.final() == response
    assert rendered(events, form, seal=seal_words)[0] == frames, "frames do not depend on how events are cut"


@settings(REPEATABLE)
@given(said=batches_of_a_run, owners=whose, form=forms)
def test_without_retractions_the_done_events_give_the_output(
    said: list[Events], owners: dict[str, Any], form: ResponseForm
) -> None:
    frames, renderer = rendered(run(said, owners), form, seal=seal_words, shows_failure=True)
    assert fold(checked(frames)) == renderer.final()["output"]


@settings(REPEATABLE)
@given(said=batches_of_a_run, owners=whose)
def test_item_ids_do_not_depend_on_the_settings(said: list[Events], owners: dict[str, Any]) -> None:
    events = run(said, owners, waits=True)
    numbers: dict[tuple[str, str], int] = {}
    ways: list[BackendTools] = ["mcp_call", "function_call", "hidden"]
    for backend_tools in ways:
        _, renderer = rendered(events, replace(FORM, backend_tools=backend_tools))
        for item in renderer.items:
            place = place_of(item.id)
            assert place is not None
            shown = (item.source_id, place.kind.replace("mcp", "fc"))  # a call is either of them
            assert numbers.setdefault(shown, place.number) == place.number


@settings(REPEATABLE)
@given(said=batches_of_a_run, owners=whose, waits=st.booleans())
def test_where_tools_are_hidden_every_frame_is_as_open_responses_publishes_it(
    said: list[Events], owners: dict[str, Any], waits: bool
) -> None:
    form = replace(FORM, backend_tools="hidden", approvals="message", encrypted=True)
    frames, renderer = rendered(run(said, owners, waits=waits), form, seal=seal_words)
    if not any(item.id.startswith("ig_") for item in renderer.items):
        check_open_responses(checked(frames))


@settings(REPEATABLE)
@given(said=batches_of_a_run, owners=whose)
def test_a_log_whose_words_were_erased_gives_as_many_frames(said: list[Events], owners: dict[str, Any]) -> None:
    events = run(said, owners)
    assert len(rendered(erased(events))[0]) == len(rendered(events)[0])
