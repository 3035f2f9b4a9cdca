"""Scripts of runs as Responses: which items they show, by which events, and how they end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from gateway.events import (
    Cancelled,
    Completed,
    Custom,
    Event,
    Incomplete,
    Interrupted,
    MediaGiven,
    MessageRetracted,
    ModelCallEnded,
    Raw,
    ReasoningDelta,
    ReasoningEnded,
    ReasoningStarted,
    RunFailed,
    RunFinished,
    StopReason,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    UsageReported,
)
from gateway.messages import (
    AudioBlock,
    Base64Source,
    ImageBlock,
    JsonObject,
    MediaBlock,
    Opaque,
    ToolCall,
    UrlSource,
)
from gateway.openai_api.questions import asked_ids
from gateway.openai_api.responses_resource import ResponseForm
from gateway.protocol.earlier_calls import EarlierCall
from gateway.protocol.failure_status import RunFailedError
from tests.pieces import erased
from tests.responses_frames import (
    DONE,
    FORM,
    Frame,
    check_open_responses,
    checked,
    fold,
    read_by_the_sdk,
    rendered,
)
from tests.said_events import CALLS, ENDS, FINISHED, SAYS, START, USED, call, gives, interrupt

THINKS: list[Event] = [
    ReasoningStarted("r1"),
    ReasoningDelta("r1", "hm"),
    ReasoningEnded("r1", Opaque("p", "m", "k", "s")),
]
PICTURE = Base64Source("aGk=", "image/png")


def shown(*events: Event, form: ResponseForm = FORM, **settings: Any) -> tuple[list[str], Any]:
    """The types of the stream's events, and the Response; stream and body are the same."""
    frames, renderer = rendered([*START, *events], form, shows_failure=True, **settings)
    said = checked(frames)
    read_by_the_sdk(said)
    response = renderer.final()
    assert said[-1]["response"] == response
    assert fold(said) == response["output"]
    return [str(event["type"]).removeprefix("response.") for event in said], response


def output(*events: Event, form: ResponseForm = FORM, **settings: Any) -> list[Any]:
    items: list[Any] = shown(*events, form=form, **settings)[1]["output"]
    return items


def kinds(items: list[Any]) -> list[str]:
    return [item["type"] for item in items]


def test_a_text_is_a_message_whose_events_come_in_order() -> None:
    types, response = shown(*SAYS, ENDS, FINISHED)
    assert types == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    (item,) = response["output"]
    assert (item["id"], item["status"]) == ("msg_resp_1_0", "completed")
    assert item["content"] == [{"type": "output_text", "text": "Hello", "annotations": [], "logprobs": []}]
    assert response["usage"]["total_tokens"] == 3


def test_the_sdks_helper_gives_the_response() -> None:
    frames, _ = rendered([*START, *SAYS, ENDS, FINISHED])
    completed = read_by_the_sdk(checked(frames))
    assert completed is not None
    assert completed.output_text == "Hello"


def test_a_background_response_is_queued_first() -> None:
    types, _ = shown(*SAYS, ENDS, FINISHED, form=replace(FORM, background=True))
    assert types[:3] == ["created", "queued", "in_progress"]


def test_a_refusal_is_a_part_of_its_own() -> None:
    types, response = shown(
        TextStarted("m1", refusal=True), TextDelta("m1", "No."), TextEnded("m1"), ENDS, RunFinished(Completed())
    )
    assert types[4:6] == ["refusal.delta", "refusal.done"]
    assert response["output"][0]["content"] == [{"type": "refusal", "refusal": "No."}]
    assert response["usage"] is None


def test_reasoning_is_an_item_with_a_summary() -> None:
    types, response = shown(*THINKS, *SAYS, ENDS, FINISHED)
    assert types[2:8] == [
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
    ]
    assert response["output"][0] == {
        "id": "rs_resp_1_0",
        "type": "reasoning",
        "status": "completed",
        "summary": [{"type": "summary_text", "text": "hm"}],
    }


@pytest.mark.parametrize("form", [replace(FORM, encrypted=True), replace(FORM, store=False)])
def test_reasoning_is_sealed_where_it_is_asked_for_or_nothing_is_stored(form: ResponseForm) -> None:
    def seal(text: str, opaque: Opaque | None) -> str:
        return f"{text} {opaque.value if opaque else None}"

    assert output(*THINKS, ENDS, FINISHED, form=form, seal=seal)[0]["encrypted_content"] == "hm s"
    assert "encrypted_content" not in output(*THINKS, ENDS, FINISHED, seal=seal)[0]


def test_reasoning_that_was_taken_back_is_sealed_without_what_it_was() -> None:
    def seal(text: str, opaque: Opaque | None) -> str:
        return f"{text} {opaque.value if opaque else None}"

    taken_back = MessageRetracted("r1", "[removed]")
    for events in ([*THINKS, ENDS, taken_back, FINISHED], [*THINKS, taken_back, ENDS, FINISHED]):
        frames, renderer = rendered([*START, *events], replace(FORM, encrypted=True), seal=seal)
        checked(frames)
        items: Any = renderer.final()["output"]
        assert items[0]["encrypted_content"] == "[removed] None"


def test_words_that_have_ended_are_done_before_others_go_on() -> None:
    types, _ = shown(
        TextStarted("m1"),
        ReasoningStarted("r1"),
        TextDelta("m1", "a"),
        ReasoningEnded("r1"),
        TextDelta("m1", "b"),
        TextEnded("m1"),
        FINISHED,
    )
    assert types[5:8] == ["output_text.delta", "output_item.done", "output_text.delta"]


def test_reasoning_that_only_its_provider_can_read_has_no_summary() -> None:
    (item,) = output(ReasoningStarted("r1"), ReasoningEnded("r1"), ENDS, FINISHED)
    assert item["summary"] == []


def test_a_backend_tool_is_an_mcp_call_with_its_output() -> None:
    types, response = shown(*call("look", server="files"), CALLS, gives("look"), *SAYS, ENDS, FINISHED)
    assert types[2:8] == [
        "output_item.added",
        "mcp_call.in_progress",
        "mcp_call_arguments.delta",
        "mcp_call_arguments.done",
        "mcp_call.completed",
        "output_item.done",
    ]
    item, message = response["output"]
    assert item == {
        "id": "mcp_resp_1_0",
        "type": "mcp_call",
        "status": "completed",
        "server_label": "files",
        "name": "look",
        "arguments": '{"a":1}',
        "output": "42",
        "error": None,
        "approval_request_id": None,
    }
    assert message["id"] == "msg_resp_1_2"


def test_a_tool_that_fails_has_an_error_in_place_of_an_output() -> None:
    types, response = shown(*call("look", ""), CALLS, gives("look", "broken", is_error=True), FINISHED)
    assert "mcp_call.failed" in types
    (item,) = response["output"]
    assert (item["status"], item["output"], item["arguments"]) == ("failed", None, "{}")
    assert item["error"] == {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": "broken"}]}
    assert item["server_label"] == "gateway"


def test_a_backend_tool_may_be_shown_as_a_function_with_its_output() -> None:
    form = replace(FORM, backend_tools="function_call")
    items = output(*call("look"), CALLS, gives("look"), *SAYS, ENDS, FINISHED, form=form)
    assert items[:2] == [
        {
            "id": "fc_resp_1_0",
            "type": "function_call",
            "status": "completed",
            "call_id": "look",
            "name": "look",
            "arguments": '{"a":1}',
        },
        {
            "id": "fco_resp_1_1",
            "type": "function_call_output",
            "status": "completed",
            "call_id": "look",
            "output": "42",
        },
    ]


def test_hidden_tools_leave_the_other_items_their_ids() -> None:
    (item,) = output(
        *call("look"), CALLS, gives("look"), *SAYS, ENDS, FINISHED, form=replace(FORM, backend_tools="hidden")
    )
    assert item["id"] == "msg_resp_1_2"


def test_a_clients_call_is_shown_as_the_model_writes_it_and_is_done_once_it_waits() -> None:
    pending = ToolCall("pick", "pick", '{"a":1}')
    end = RunFinished(Completed((pending,)), USED)
    types, response = shown(
        *call("pick", executor="client"), *call("look"), TextStarted("m2"), CALLS, gives("look"), end
    )
    assert types[2:5] == ["output_item.added", "function_call_arguments.delta", "function_call_arguments.done"]
    assert types[5] == "output_item.added", "what else the model writes"
    assert types[-2:] == ["output_item.done", "completed"]
    assert kinds(response["output"]) == ["function_call", "mcp_call", "message"]
    assert response["output"][0]["id"] == "fc_resp_1_0"
    assert (response["output"][0]["arguments"], response["output"][0]["status"]) == ('{"a":1}', "completed")
    assert response["status"] == "completed"


def test_a_call_of_an_earlier_run_that_still_waits_stands_behind_everything_else() -> None:
    end = RunFinished(Completed((ToolCall("pick", "pick", ""),)), USED)
    types, response = shown(*SAYS, end)
    assert types[-4:] == ["output_item.added", "function_call_arguments.done", "output_item.done", "completed"]
    assert kinds(response["output"]) == ["message", "function_call"]
    assert response["output"][1]["arguments"] == "{}"


@pytest.mark.parametrize(
    ("end", "status", "why"),
    [
        (RunFinished(Incomplete(StopReason.MAX_TOKENS)), "incomplete", {"reason": "max_output_tokens"}),
        (RunFinished(Incomplete(StopReason.REFUSAL)), "incomplete", {"reason": "max_output_tokens"}),
        (RunFinished(Completed(limit="max_iteration")), "incomplete", {"reason": "max_output_tokens"}),
        (RunFinished(Cancelled()), "cancelled", None),
        (RunFailed("model_server", "no"), "failed", None),
    ],
)
def test_a_clients_call_that_waits_for_nothing_is_incomplete_and_its_answer_not_completed(
    end: RunFinished | RunFailed, status: str, why: object
) -> None:
    _, response = shown(*call("pick", executor="client"), CALLS, gives("pick", is_error=True), end)
    [item] = [item for item in response["output"] if item["type"] == "function_call"]
    assert (item["status"], item["arguments"]) == ("incomplete", '{"a":1}')
    assert (response["status"], response["incomplete_details"]) == (status, why)


def test_a_clients_call_that_another_protocol_may_still_refuse_is_shown_once_it_waits() -> None:
    refused = [*call("pick", executor="client"), CALLS, gives("pick", is_error=True)]
    assert shown(*refused, FINISHED, calls_as_written=False)[1]["output"] == []
    end = RunFinished(Completed((ToolCall("pick", "pick", '{"a":1}'),)))
    [item] = shown(*call("pick", executor="client"), CALLS, end, calls_as_written=False)[1]["output"]
    assert (item["type"], item["status"]) == ("function_call", "completed")


def test_a_question_has_the_number_of_its_call_and_no_other_item() -> None:
    outcome = Interrupted((interrupt("refund"),), (ToolCall("pick", "pick", "{}"),))
    asks = call("refund", asks=True, server="shop")
    _, response = shown(*SAYS, *asks, *call("pick", executor="client"), CALLS, RunFinished(outcome))
    assert kinds(response["output"]) == ["message", "function_call", "mcp_approval_request"]
    assert response["output"][-1] == {
        "id": "mcpr_resp_1_1",
        "type": "mcp_approval_request",
        "server_label": "shop",
        "name": "refund",
        "arguments": '{"a":1}',
    }
    assert response["status"] == "completed"


def test_a_question_about_a_call_that_was_shown_has_its_arguments() -> None:
    logged_before = call("refund")  # an earlier version did not say that a person is asked
    items = output(*logged_before, CALLS, RunFinished(Interrupted((interrupt("refund"),))))
    assert [(item["type"], item["arguments"]) for item in items] == [
        ("mcp_call", '{"a":1}'),
        ("mcp_approval_request", '{"a":1}'),
    ]


def test_deltas_of_calls_that_take_turns_stay_apart() -> None:
    mixed = [ToolCallDelta(name, piece) for piece in ("1", "2", "3") for name in ("a", "b")]
    begun: list[Event] = [ToolCallStarted(name, name, "m1", executor="backend") for name in ("a", "b")]
    items = output(*begun, *mixed, *mixed[::2], ToolCallEnded("a"), ToolCallEnded("b"), CALLS, FINISHED)
    assert [item["arguments"] for item in items] == ["123123", "123"]


def test_a_question_may_be_a_message_that_says_how_to_answer() -> None:
    form = replace(FORM, approvals="message")
    items = output(*call("refund", asks=True), CALLS, RunFinished(Interrupted((interrupt("refund"),))), form=form)
    assert kinds(items) == ["message"]
    said = items[0]["content"][0]["text"]
    assert said.startswith("[Approval needed] May it run?")
    assert '{"a":1}' in said
    assert asked_ids(said) == ["mcpr_resp_1_0"]


def test_a_question_about_no_call_is_a_message() -> None:
    (item,) = output(ENDS, RunFinished(Interrupted((interrupt(None),))))
    assert item["content"][0]["text"] == "May it run?"


def test_an_approved_call_is_shown_with_what_its_request_knows_of_it() -> None:
    earlier = EarlierCall("refund", "refund", '{"b":2}', "shop", "mcpr_resp_0_1")
    (item,) = output(gives("refund"), FINISHED, form=replace(FORM, earlier=(earlier,)))
    assert (item["id"], item["name"], item["arguments"]) == ("mcp_resp_1_0", "refund", '{"b":2}')
    assert (item["server_label"], item["approval_request_id"], item["output"]) == ("shop", "mcpr_resp_0_1", "42")


def test_a_question_that_stays_open_keeps_its_id() -> None:
    earlier = EarlierCall("refund", "refund", "{}", None, "mcpr_resp_0_1")
    end = RunFinished(Interrupted((interrupt("refund"),)))
    (item,) = output(end, form=replace(FORM, earlier=(earlier,)))
    assert item["id"] == "mcpr_resp_0_1"


def test_a_call_that_was_to_be_asked_about_and_failed_before_is_shown_with_its_error() -> None:
    (item,) = output(*call("refund", asks=True), CALLS, gives("refund", "bad", is_error=True), FINISHED)
    assert (item["id"], item["status"]) == ("mcp_resp_1_0", "failed")


def test_a_picture_is_an_item_and_other_media_are_links() -> None:
    sound = AudioBlock(UrlSource("https://x.example/a.mp3"), "song")
    items = output(MediaGiven("i1", ImageBlock(PICTURE)), MediaGiven("a1", sound), FINISHED)
    assert items[0] == {
        "id": "ig_resp_1_0",
        "type": "image_generation_call",
        "status": "completed",
        "result": "aGk=",
        "output_format": "png",
    }
    assert items[1]["content"][0]["text"] == "[song](https://x.example/a.mp3)"


def test_a_refusal_is_an_answer_and_gets_words_where_the_model_had_none() -> None:
    refused = RunFinished(Incomplete(StopReason.REFUSAL))
    types, response = shown(TextStarted("m1", refusal=True), TextDelta("m1", "No."), TextEnded("m1"), refused)
    silent_types, silent = shown(TextStarted("m1"), TextDelta("m1", "So"), TextEnded("m1"), refused)

    assert types[-1] == silent_types[-1] == "completed"
    assert [part for item in response["output"] for part in item["content"]] == [{"type": "refusal", "refusal": "No."}]
    assert [item["content"][0]["type"] for item in silent["output"]] == ["output_text", "refusal"]
    for each in (response, silent):
        assert (each["status"], each["incomplete_details"]) == ("completed", None)
        assert {item["status"] for item in each["output"]} == {"completed"}


@pytest.mark.parametrize(
    ("reason", "said"), [(StopReason.MAX_TOKENS, "max_output_tokens"), (StopReason.CONTENT_FILTER, "content_filter")]
)
def test_an_answer_that_is_cut_off_is_incomplete_with_its_last_item(reason: StopReason, said: str) -> None:
    between: list[Event] = [Raw({"trace": 1}), UsageReported(USED[0]), Custom("usage", 1)]
    types, response = shown(*THINKS, *SAYS, *between, ModelCallEnded(reason), RunFinished(Incomplete(reason), USED))
    assert types[-1] == "incomplete"
    assert (response["status"], response["incomplete_details"]) == ("incomplete", {"reason": said})
    assert [item["status"] for item in response["output"]] == ["completed", "incomplete"]


def test_a_failure_ends_with_what_was_said_and_its_code() -> None:
    failed = RunFailed("model_throttled", "the provider said: slow down", USED)
    frames, renderer = rendered([*START, *SAYS, failed])
    checked(frames)
    with pytest.raises(RunFailedError) as raised:
        renderer.final()
    assert (raised.value.status, raised.value.code) == (429, "model_throttled")
    types, response = shown(*SAYS, failed)
    assert types[-1] == "failed"
    assert response["error"] == {
        "code": "rate_limit_exceeded",
        "message": "the provider said: slow down",
        "type": "model_throttled",
    }
    assert response["output"][0]["status"] == "incomplete"
    assert response["usage"]["total_tokens"] == 3


def test_strangers_are_not_told_why_a_model_failed() -> None:
    _, response = shown(RunFailed("model_auth", "the key sk-1 is wrong"), to_operator=False)
    assert "sk-1" not in response["error"]["message"]


def test_a_run_that_fails_before_it_starts_is_a_whole_stream() -> None:
    frames, _ = rendered([RunFailed("store_unavailable", "not now")])
    assert [frame.event for frame in frames] == [
        "response.created",
        "response.in_progress",
        "response.failed",
        DONE,
    ]
    checked(frames)


def test_a_cancelled_run_closes_its_items_and_ends_as_incomplete_with_that_status() -> None:
    types, response = shown(*call("look"), *SAYS, RunFinished(Cancelled()))
    assert types[-1] == "incomplete"
    assert (response["status"], response["incomplete_details"]) == ("cancelled", None)
    assert [item["status"] for item in response["output"]] == ["incomplete", "incomplete"]
    with pytest.raises(RunFailedError) as raised:
        rendered([*START, RunFinished(Cancelled())])[1].final()
    assert raised.value.code == "cancelled"


def test_words_taken_back_at_once_are_not_in_the_done_events() -> None:
    frames, _ = rendered([*START, *SAYS, MessageRetracted("m1", "[removed]"), ENDS, FINISHED])
    done = [frame.data for frame in frames if frame.event == "response.output_text.done"]
    assert [event["text"] for event in done] == ["[removed]"]


def test_words_taken_back_later_are_not_in_the_response() -> None:
    _, renderer = rendered([*START, *THINKS, *SAYS, ENDS, MessageRetracted("m1", "[removed]"), FINISHED])
    output: Any = renderer.final()["output"]
    assert output[1]["content"][0]["text"] == "[removed]"


@pytest.mark.parametrize("block", [ImageBlock(PICTURE), AudioBlock(Base64Source("aGk=", "audio/wav"), "sound")])
def test_a_medium_that_was_taken_back_is_not_in_the_response(block: MediaBlock) -> None:
    given = [*START, MediaGiven("i1", block), MessageRetracted("i1", ""), FINISHED]
    erased = [*START, MediaGiven("i1", type(block)(Base64Source("", ""))), MessageRetracted("i1", ""), FINISHED]
    frames, renderer = rendered(given)
    again, other = rendered(erased)
    assert "aGk=" not in str(renderer.final())
    assert len(again) == len(frames)
    assert other.final() == renderer.final()
    checked(again)


def test_a_stream_that_is_read_again_after_a_retraction_has_as_many_frames() -> None:
    rest: list[Event] = [MessageRetracted("m1", "[removed]"), ENDS, FINISHED]
    assert len(rendered([*START, *SAYS, *rest])[0]) == len(rendered([*START, *erased(SAYS), *rest])[0])


def test_words_of_others_are_not_shown_but_count() -> None:
    others: list[Event] = [TextStarted("u1", "user"), TextDelta("u1", "Hi"), TextEnded("u1")]
    (item,) = output(*others, *SAYS, ENDS, FINISHED)
    assert item["id"] == "msg_resp_1_1"


def test_half_a_surrogate_pair_breaks_neither_stream_nor_body() -> None:
    frames, renderer = rendered(
        [
            *START,
            ReasoningStarted("r1"),
            ReasoningDelta("r1", "\ud83d"),
            ReasoningEnded("r1"),
            *call("look", '{"a":"\ud83d'),
            CALLS,
            gives("look", "\ud83d"),
            *SAYS,
            ENDS,
            FINISHED,
        ]
    )
    checked(frames)
    orjson.dumps(renderer.final())


def test_strict_open_responses_clients_read_every_frame_where_tools_are_hidden() -> None:
    form = replace(FORM, backend_tools="hidden", approvals="message")
    pending = ToolCall("pick", "pick", "{}")
    script = [
        *START,
        *THINKS,
        *SAYS,
        *call("look"),
        *call("pick", executor="client"),
        CALLS,
        gives("look"),
        RunFinished(Interrupted((interrupt("look"),), (pending,)), USED),
    ]
    check_open_responses(checked(rendered(script, form)[0]))
    failed = [*START, *SAYS, RunFailed("code", "message")]
    check_open_responses(checked(rendered(failed, form)[0]))
    cut = [*START, *SAYS, ModelCallEnded(StopReason.MAX_TOKENS), RunFinished(Incomplete(StopReason.MAX_TOKENS))]
    check_open_responses(checked(rendered(cut, replace(form, background=True))[0]))


@pytest.mark.parametrize("odd", ["word", ",", '",', '","', "\\", "\ud83d", ""])
def test_many_deltas_at_once_are_the_frames_that_they_are_one_by_one(odd: str) -> None:
    said: list[Event] = [TextDelta("m1", text) for text in (["a", odd, '"', "b"] * 20)]
    events = [*START, TextStarted("m1"), *said, TextEnded("m1"), ENDS, FINISHED]
    frames, renderer = rendered(events)
    again, other = rendered(events, cuts=range(len(events)))
    assert again == frames
    assert other.final() == renderer.final()


def test_a_run_that_goes_on_is_shown_with_what_there_is() -> None:
    _, renderer = rendered([*START, *THINKS, *SAYS])
    said: Any = renderer.so_far("in_progress")
    assert (said["status"], said["usage"]) == ("in_progress", None)
    assert [item["status"] for item in said["output"]] == ["completed", "in_progress"]


def test_the_last_frame_is_done() -> None:
    assert rendered([*START, FINISHED])[0][-1] == Frame(DONE, None)


def test_when_a_run_ended_is_told_where_it_is_known() -> None:
    _, renderer = rendered([*START, FINISHED], ended_at=lambda: 9.9)
    response: JsonObject = renderer.final()
    assert response["completed_at"] == 9
