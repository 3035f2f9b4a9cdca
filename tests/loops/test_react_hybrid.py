"""Frontend tools beside backend tools: runs that end with calls pending, and the requests that carry on."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

import pytest

from gateway.events import (
    Completed,
    Event,
    Events,
    ModelCallEnded,
    ModelCallStarted,
    StopReason,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
)
from gateway.history.merging import append_history
from gateway.loop import ResumedRun
from gateway.loops.react import ReactLoop
from gateway.messages import JsonObject, Message, TextBlock, ToolCall, ToolResult, ToolSpec
from gateway.model import ModelCapabilities, ModelRequest
from tests.loop_runs import FunctionTool, LoopRun, adder, assert_valid_view, call, text_of, user

COLOR: JsonObject = {"type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]}
PICK = ToolSpec("pick_color", "Pick a colour.", COLOR)
SHOW = ToolSpec("show", "Show something.", {})
ADD: JsonObject = {"tool": "add", "arguments": {"a": 2, "b": 3}, "id": "backend"}
PICK_CALL: JsonObject = {"tool": "pick_color", "arguments": {"color": "red"}, "id": "pick"}
SHOW_CALL: JsonObject = {"tool": "show", "id": "show"}
DONE: list[JsonObject] = [{"text": "Done: {{result}}"}]


def answer(call_id: str, text: str) -> Message:
    return Message(f"result-{call_id}", "tool", (ToolResult(call_id, (TextBlock(text),)),))


def pending_ids(run: LoopRun) -> list[str]:
    assert isinstance(run.outcome, Completed)
    return [call.call_id for call in run.outcome.pending_calls]


async def test_a_frontend_call_ends_the_run_and_gets_no_result() -> None:
    run = LoopRun(responses=[[PICK_CALL]], frontend=[PICK])
    await run.events()
    assert run.outcome == Completed((ToolCall("pick", "pick_color", '{"color":"red"}', 0),))
    assert run.results == []
    assert len(run.requests) == 1


async def test_backend_calls_of_the_same_turn_run_and_the_frontend_ones_are_pending_in_call_order() -> None:
    tool = adder()
    run = LoopRun(responses=[[SHOW_CALL, ADD, PICK_CALL]], tools=[tool], frontend=[PICK, SHOW])
    await run.events()
    assert [result.call_id for result in run.results] == ["backend"]
    assert pending_ids(run) == ["show", "pick"]
    assert len(run.requests) == 1
    assert len({event.message_id for event in run.all_of(ToolCallStarted)}) == 1


async def test_a_call_s_start_says_whose_tool_it_is_and_on_which_server() -> None:
    remote = FunctionTool("lookup", adder().function, server="files")
    calls: list[JsonObject] = [ADD, {"tool": "lookup", "id": "remote"}, PICK_CALL, {"tool": "made_up", "id": "none"}]
    run = LoopRun(responses=[calls, DONE], tools=[adder(), remote], frontend=[PICK])
    await run.events()
    assert [(event.name, event.executor, event.server) for event in run.all_of(ToolCallStarted)] == [
        ("add", "backend", None),
        ("lookup", "backend", "files"),
        ("pick_color", "client", None),
        ("made_up", "backend", None),
    ]


async def test_a_tool_that_the_run_did_not_select_is_as_one_that_does_not_exist() -> None:
    remote = FunctionTool("lookup", adder().function, server="files")
    run = LoopRun(responses=[[{"tool": "lookup", "id": "remote"}], DONE], tools=[remote], selected_tools=())
    await run.events()
    assert [(event.executor, event.server) for event in run.all_of(ToolCallStarted)] == [("backend", None)]


async def test_an_answer_that_an_earlier_version_logged_in_part_is_gone_on_with() -> None:
    began = ToolCallStarted("pick", "pick_color", "m1", 0)

    class Repeating:
        provider, model_id, capabilities = "repeating", "repeating", ModelCapabilities()

        async def stream(self, request: ModelRequest) -> AsyncGenerator[Events]:
            assert request.accepted == "resp_1"
            yield [began, ToolCallDelta("pick", '{"color":"red"}'), ToolCallEnded("pick")]
            yield [ModelCallEnded(StopReason.TOOL_CALLS, None, "resp_1")]

        async def close(self) -> None: ...

    run = LoopRun(model=Repeating(), frontend=[PICK])
    opening = ModelCallStarted("turn_1", "repeating", "repeating")
    run.context = replace(run.context, resumed=ResumedRun((opening,), (began,), "resp_1", {}))
    async with aclosing(ReactLoop().run(run.context)) as batches:
        events = [event async for batch in batches for event in batch]
    assert began not in events
    assert events[0] == ToolCallDelta("pick", '{"color":"red"}')


async def _second_run(*answers: Message, rest: tuple[Message, ...] = ()) -> tuple[LoopRun, LoopRun, FunctionTool]:
    tool = adder()
    first = LoopRun(responses=[[SHOW_CALL, ADD, PICK_CALL], DONE], tools=[tool], frontend=[PICK, SHOW])
    await first.events()
    messages = append_history(first.history, [*answers, *rest])
    second = LoopRun(responses=[[SHOW_CALL], DONE], tools=[tool], frontend=[PICK, SHOW], messages=messages)
    await second.events()
    return first, second, tool


async def test_the_next_request_with_all_results_goes_on_where_the_turn_stood() -> None:
    _, second, tool = await _second_run(answer("pick", "red it is"), answer("show", "shown"))
    assert len(tool.calls) == 1
    assert second.outcome == Completed()
    request = second.requests[0]
    assert_valid_view(request.messages)
    given = [message.tool_result.call_id for message in request.messages if message.tool_result]
    assert given == ["show", "backend", "pick"]
    assert second.text == "Done: red it is"


async def test_while_an_answer_is_missing_the_rest_stays_pending_and_the_model_is_not_called() -> None:
    _, second, _ = await _second_run(answer("pick", "red"))
    assert pending_ids(second) == ["show"]
    assert second.requests == []
    assert second.results == []


async def test_no_answer_at_all_gives_the_same_pending_calls_again() -> None:
    first, second, _ = await _second_run()
    assert pending_ids(second) == pending_ids(first) == ["show", "pick"]
    assert second.requests == []


async def test_a_new_user_message_instead_of_an_answer_goes_to_the_model_with_errors_in_their_place() -> None:
    _, second, tool = await _second_run(answer("pick", "red"), rest=(user("Never mind", "u2"),))
    assert len(tool.calls) == 1
    view = second.requests[0].messages
    assert_valid_view(view)
    results = {message.tool_result.call_id: message.tool_result for message in view if message.tool_result}
    assert results["show"].is_error
    assert text_of(results["pick"].content) == "red"
    # Nothing is made up on the wire.
    assert second.results == []


async def test_duplicated_and_orphan_results_do_no_harm() -> None:
    doubled = replace(answer("pick", "blue"), id="again")
    _, second, _ = await _second_run(
        answer("pick", "red"), doubled, answer("nobody-asked", "?"), answer("show", "shown")
    )
    view = second.requests[0].messages
    assert_valid_view(view)
    results = [message.tool_result for message in view if message.tool_result]
    assert [result.call_id for result in results] == ["show", "backend", "pick"]
    assert text_of(results[2].content) == "blue"


async def test_results_that_come_in_another_order_are_put_in_call_order() -> None:
    _, second, _ = await _second_run(answer("show", "shown"), answer("pick", "red"))
    given = [message.tool_result.call_id for message in second.requests[0].messages if message.tool_result]
    assert given == ["show", "backend", "pick"]


@pytest.mark.parametrize(
    ("arguments", "told"), [('{"color": ', "not valid JSON"), ("[]", "must be a JSON object"), ("{}", "required")]
)
async def test_a_frontend_call_that_no_client_could_carry_out_is_refused_and_the_run_goes_on(
    arguments: str, told: str
) -> None:
    bad: JsonObject = {"tool": "pick_color", "arguments": arguments, "id": "bad"}
    run = LoopRun(responses=[[bad], [{"text": "Sorry"}]], frontend=[PICK])
    await run.events()
    assert told in run.result_texts[0]
    assert run.results[0].is_error
    assert run.outcome == Completed()


async def test_a_refused_frontend_call_does_not_hold_up_a_good_one() -> None:
    bad: JsonObject = {"tool": "pick_color", "arguments": "{", "id": "bad"}
    run = LoopRun(responses=[[bad, PICK_CALL]], frontend=[PICK])
    await run.events()
    assert [result.call_id for result in run.results] == ["bad"]
    assert pending_ids(run) == ["pick"]


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "http://127.0.0.1:9/schema.json"},
        {"type": "nonsense"},
        {"type": "object", "properties": {"color": {"pattern": "("}}},
        {"$schema": "http://example.com/unknown"},
    ],
)
async def test_a_broken_schema_of_the_clients_breaks_nothing(schema: JsonObject) -> None:
    run = LoopRun(responses=[[PICK_CALL]], frontend=[ToolSpec("pick_color", "", schema)])
    await run.events()
    assert pending_ids(run) == ["pick"]


async def test_a_pattern_that_would_backtrack_for_ever_takes_no_time() -> None:
    schema: JsonObject = {"type": "object", "properties": {"color": {"type": "string", "pattern": "^(a+)+$"}}}
    long: JsonObject = {"tool": "pick_color", "arguments": {"color": "a" * 50_000 + "!"}, "id": "long"}
    run = LoopRun(responses=[[long], [{"text": "x"}]], frontend=[ToolSpec("pick_color", "", schema)])
    await run.events()
    assert run.results[0].is_error
    assert len(run.result_texts[0]) < 2_000


async def test_a_megabyte_of_arguments_passes_whole() -> None:
    text = "x" * 1_000_000
    big: JsonObject = {"tool": "pick_color", "arguments": {"color": text}, "id": "big", "chunk_characters": 500}
    run = LoopRun(responses=[[big]], frontend=[PICK])
    await run.events()
    assert isinstance(run.outcome, Completed)
    assert run.outcome.pending_calls[0].arguments == '{"color":"' + text + '"}'


async def test_a_call_of_an_answer_that_failed_is_not_pending_for_ever() -> None:
    broken = Message("a1", "assistant", (call("pick", "pick_color", '{"col'),), turn_id="t1", incomplete=True)
    run = LoopRun(responses=[DONE, DONE], frontend=[PICK], messages=[user("Pick"), broken])
    await run.events()
    assert run.outcome == Completed()
    assert len(run.requests) == 1
    assert_valid_view(run.requests[0].messages)


async def test_a_clients_one_message_per_call_history_is_one_turn() -> None:
    messages = [
        user("Go"),
        Message("a1", "assistant", (call("pick", "pick_color", '{"color":"red"}'),)),
        Message("a2", "assistant", (call("show", "show"),)),
        answer("pick", "red"),
    ]
    run = LoopRun(responses=[DONE, DONE], frontend=[PICK, SHOW], messages=messages)
    events: list[Event] = await run.events()
    assert pending_ids(run) == ["show"]
    assert len(events) == 1
