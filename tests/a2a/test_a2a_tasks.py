"""Scripts of runs as tasks: which artifacts and states they show, in streams and whole, and how they end."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.a2a.dialects import ACTIVITY, Dialect, dump, method_of, written_task
from gateway.a2a.renderer import PushUpdates, TaskRenderer
from gateway.a2a.states import TaskState, state_named
from gateway.a2a.tasks import TaskFold, task_of
from gateway.events import (
    Cancelled,
    Completed,
    Custom,
    Event,
    Incomplete,
    Interrupt,
    Interrupted,
    MediaGiven,
    MessageRetracted,
    ReasoningDelta,
    ReasoningEnded,
    ReasoningStarted,
    RunFailed,
    RunFinished,
    RunStarted,
    StopReason,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolReturned,
    Usage,
)
from gateway.messages import (
    AudioBlock,
    Base64Source,
    FileSource,
    ImageBlock,
    MediaBlock,
    TextBlock,
    ToolCall,
    UrlSource,
)
from tests import a2a_schema
from tests.a2a_frames import (
    CONTEXT,
    QUESTION,
    TASK,
    artifacts_in,
    artifacts_of,
    begun,
    body_of,
    check_result,
    checked,
    read,
    record,
    rendered,
    states,
)
from tests.pieces import erased
from tests.said_events import SAYS, call

START = RunStarted(CONTEXT, TASK)
FINISHED = RunFinished(Completed())
PICTURE = Base64Source("aGk=", "image/png")


def shown(*events: Event, **settings: Any) -> tuple[list[Any], Any]:
    """What a stream says, and the task; both versions' types and the schema accept both, and a body is the same."""
    run = [START, *events]
    for dialect in Dialect:
        frames, renderer = rendered(run, dialect, fold=begun(**settings))
        checked(read(frames), dialect)
        check_result(renderer.final(), dialect)
        assert body_of(run, dialect) == renderer.final()
    frames, renderer = rendered(run, fold=begun(**settings))
    results = read(frames)
    task: Any = renderer.final()["task"]
    assert not [problem for result in results for problem in a2a_schema.problems("Stream Response", result)]
    assert not a2a_schema.problems("Task", task)
    assert results[0] == {
        "task": {
            "id": TASK,
            "contextId": CONTEXT,
            "status": {"state": "TASK_STATE_SUBMITTED", "timestamp": "2023-11-14T22:13:20.250Z"},
            "history": [QUESTION],
        }
    }
    assert results[1] == {
        "statusUpdate": {"taskId": TASK, "contextId": CONTEXT, "status": {"state": "TASK_STATE_WORKING"}}
    }
    assert artifacts_of(results) == artifacts_in(task)
    return results[2:], task


def last_message(task: Any) -> Any:
    return task["status"]["message"]


# --- words and media --------------------------------------------------------------------------------------------------


def test_a_text_is_an_artifact_in_chunks() -> None:
    results, task = shown(*SAYS, FINISHED)
    first, second, last, end = results
    common = {"taskId": TASK, "contextId": CONTEXT}
    assert first == {
        "artifactUpdate": {
            **common,
            "artifact": {"artifactId": "m1", "name": "response", "parts": [{"text": "Hel"}]},
        }
    }
    chunk = {**common, "artifact": {"artifactId": "m1", "parts": [{"text": "lo"}]}, "append": True}
    assert second == {"artifactUpdate": chunk}
    empty = {**common, "artifact": {"artifactId": "m1", "parts": [{"text": ""}]}, "append": True, "lastChunk": True}
    assert last == {"artifactUpdate": empty}
    assert end == {"statusUpdate": {**common, "status": {"state": "TASK_STATE_COMPLETED"}}}
    assert task["artifacts"] == [{"artifactId": "m1", "name": "response", "parts": [{"text": "Hello"}]}]


def test_the_last_chunk_may_be_the_whole_text_in_the_place_of_the_others() -> None:
    results, task = shown(*SAYS, FINISHED, repeats_texts=True)
    _, _, last, _ = results
    assert last["artifactUpdate"]["artifact"] == task["artifacts"][0]
    assert (last["artifactUpdate"]["append"], last["artifactUpdate"]["lastChunk"]) == (False, True)
    assert task["artifacts"][0]["parts"] == [{"text": "Hello"}]


def test_the_same_run_in_the_words_of_0_3() -> None:
    frames, renderer = rendered([START, *SAYS, FINISHED], Dialect.V03)
    task, working, first, second, last, end = read(frames)
    assert (task["kind"], task["status"]["state"]) == ("task", "submitted")
    assert task["history"][0]["kind"] == "message"
    assert task["history"][0]["role"] == "user"
    assert task["history"][0]["parts"] == [{"kind": "text", "text": "Please."}]
    assert (working["kind"], working["status"]["state"], working["final"]) == ("status-update", "working", False)
    assert first["kind"] == second["kind"] == last["kind"] == "artifact-update"
    assert second["artifact"]["parts"] == [{"kind": "text", "text": "lo"}]
    assert (end["status"]["state"], end["final"]) == ("completed", True)
    assert renderer.final()["artifacts"] == [
        {"artifactId": "m1", "name": "response", "parts": [{"kind": "text", "text": "Hello"}]}
    ]


def test_rest_has_no_envelope() -> None:
    events = [START, *SAYS, FINISHED]
    bare, _ = rendered(events, envelope=None)
    enveloped, _ = rendered(events, envelope=b'"a"')
    assert read(bare, None) == read(enveloped, b'"a"')
    assert bare[0].startswith(b'data: {"task":')


def test_line_breaks_of_other_readers_are_escaped() -> None:
    frames, _ = rendered([START, TextStarted("m"), TextDelta("m", "a\u2028b\u2029c\u0085d"), TextEnded("m"), FINISHED])
    assert b'{"text":"a\\u2028b\\u2029c\\u0085d"}' in frames[2]


def test_half_a_surrogate_pair_becomes_text() -> None:
    written = dump({"text": "a\ud83d", "pair": "\ud83d\ude00", "break": "\u2028"})
    assert written == '{"text":"a\ufffd","pair":"😀","break":"\\u2028"}'.encode()


def test_words_that_are_no_answer_are_not_shown() -> None:
    results, task = shown(TextStarted("m", "system"), TextDelta("m", "hidden"), TextEnded("m"), FINISHED)
    assert states(results) == ["completed"]
    assert "artifacts" not in task


def test_a_refusal_says_so() -> None:
    _, task = shown(TextStarted("m", refusal=True), TextDelta("m", "No."), TextEnded("m"), FINISHED)
    assert task["artifacts"][0]["metadata"] == {"refusal": True}


def test_what_was_taken_back_is_replaced() -> None:
    results, task = shown(*SAYS, MessageRetracted("m1", "Sorry."), FINISHED)
    update = results[-2]["artifactUpdate"]
    assert update["append"] is False
    assert update["lastChunk"] is True
    assert update["artifact"]["parts"] == [{"text": "Sorry."}]
    assert artifacts_in(task) == {"m1": [{"text": "Sorry."}]}


def test_late_viewers_of_what_was_taken_back_get_as_many_frames() -> None:
    rest: list[Event] = [MessageRetracted("m1"), MediaGiven("p", ImageBlock(PICTURE)), MessageRetracted("p"), FINISHED]
    first, _ = rendered([START, *SAYS, *rest])
    second, renderer = rendered([START, *erased(SAYS), *erased(rest)])
    checked(read(second), Dialect.V1)
    assert len(first) == len(second)
    task: Any = renderer.final()["task"]
    assert artifacts_in(task) == {"m1": [{"text": ""}], "p": [{"text": ""}]}


@pytest.mark.parametrize(
    ("block", "part", "file"),
    [
        (
            ImageBlock(PICTURE, "a.png"),
            {"raw": "aGk=", "mediaType": "image/png", "filename": "a.png"},
            {"bytes": "aGk=", "mimeType": "image/png", "name": "a.png"},
        ),
        (AudioBlock(UrlSource("https://a/b")), {"url": "https://a/b"}, {"uri": "https://a/b"}),
        (
            ImageBlock(FileSource("file-1", "openai")),
            {"data": {"file_id": "file-1", "provider": "openai"}, "mediaType": "application/json"},
            None,
        ),
    ],
    ids=["data", "url", "file"],
)
def test_a_medium_is_an_artifact(block: MediaBlock, part: Any, file: Any) -> None:
    results, task = shown(MediaGiven("p", block), FINISHED)
    assert results[0]["artifactUpdate"]["lastChunk"] is True
    assert artifacts_in(task) == {"p": [part]}
    old: Any = written_task(Dialect.V03, task)
    expected = {"kind": "data", "data": part["data"]} if file is None else {"kind": "file", "file": file}
    assert old["artifacts"][0]["parts"] == [expected]


# --- what an agent says itself ----------------------------------------------------------------------------------------


def test_an_agent_gives_artifacts_of_its_own() -> None:
    whole = Custom("a2a.artifact", {"parts": [{"data": [1]}], "name": "table", "artifactId": "t", "metadata": {"x": 1}})
    begins = Custom("a2a.artifact", {"parts": [{"text": "chunk-1 "}], "artifactId": "c", "lastChunk": False})
    goes_on = Custom("a2a.artifact", {"parts": [{"text": "chunk-2"}], "artifactId": "c", "append": True})
    unnamed = Custom("a2a.artifact", {"parts": [{"kind": "text", "text": "old"}, {"url": "gs://bucket/file"}]})
    results, task = shown(whole, begins, goes_on, unnamed, FINISHED)
    updates = [each["artifactUpdate"] for each in results if "artifactUpdate" in each]
    assert [(each.get("append"), each.get("lastChunk")) for each in updates] == [
        (None, True),
        (None, None),
        (True, True),
        (None, True),
    ]
    assert task["artifacts"][0] == {
        "artifactId": "t",
        "name": "table",
        "metadata": {"x": 1},
        "parts": [{"data": [1]}],
    }
    assert artifacts_in(task)["c"] == [{"text": "chunk-1 chunk-2"}]
    assert artifacts_in(task)[f"{TASK}_artifact_0"] == [{"text": "old"}, {"url": "gs://bucket/file"}]
    old: Any = written_task(Dialect.V03, task)
    assert old["artifacts"][0]["parts"] == [{"kind": "data", "data": {"value": [1]}}]


def test_an_agent_adds_to_the_artifact_of_its_words() -> None:
    said = Custom("a2a.artifact", {"parts": [{"data": {"source": "a"}}], "artifactId": "m1", "append": True})
    _, renderer = rendered([START, *SAYS, said, FINISHED])
    task: Any = renderer.final()["task"]
    assert artifacts_in(task) == {"m1": [{"text": "Hello"}, {"data": {"source": "a"}}]}


@pytest.mark.parametrize("value", [None, {}, {"parts": []}, {"parts": "x"}, {"parts": [{"text": 1}, 2]}], ids=str)
def test_what_is_no_artifact_is_not_shown(value: Any) -> None:
    results, _ = shown(Custom("a2a.artifact", value), Custom("other", value), FINISHED)
    assert states(results) == ["completed"]


@pytest.mark.parametrize("dialect", Dialect)
def test_an_agent_answers_with_a_message_alone(dialect: Dialect) -> None:
    said = Custom("a2a.message", {"parts": [{"text": "Hello."}], "metadata": {"x": 1}})
    result: Any = body_of([START, said, FINISHED], dialect)
    check_result(result, dialect)
    message = result if dialect is Dialect.V03 else result["message"]
    assert message["messageId"] == f"msg_{TASK}_0"
    assert (message["contextId"], message["metadata"]) == (CONTEXT, {"x": 1})
    frames, _ = rendered([START, said, FINISHED], dialect)
    results = checked(read(frames), dialect)
    assert results[-1]["statusUpdate"]["status"]["message"] == message, "a stream had the task before"


def test_a_message_beside_an_artifact_is_the_tasks() -> None:
    _, task = shown(Custom("a2a.message", {"parts": [{"text": "Hello."}]}), *SAYS, FINISHED)
    assert last_message(task)["parts"] == [{"text": "Hello."}]


# --- what goes on besides ---------------------------------------------------------------------------------------------

WORK: list[Event] = [
    ReasoningStarted("r"),
    ReasoningDelta("r", "h"),
    ReasoningDelta("r", "m"),
    ReasoningEnded("r"),
    *call("add", server="calculator"),
    ToolReturned("m2", "add", (TextBlock("5"),)),
    *call("fail", "no JSON"),
    ToolReturned("m3", "fail", (TextBlock("broken"),), is_error=True),
]


def test_reasoning_and_backend_tools_are_not_shown() -> None:
    results, task = shown(*WORK, *SAYS, FINISHED)
    assert states(results) == ["completed"]
    assert list(artifacts_in(task)) == ["m1"]


def test_whoever_asks_sees_reasoning_and_backend_tools() -> None:
    run = [START, *WORK, MessageRetracted("r"), *SAYS, FINISHED]
    frames, renderer = rendered(run, fold=begun(shows_activity=True))
    results = checked(read(frames), Dialect.V1)
    assert not [problem for result in results for problem in a2a_schema.problems("Stream Response", result)]
    messages = [status["message"] for each in results if (status := status_of(each)) and "message" in status]
    assert all(message["extensions"] == [ACTIVITY] for message in messages)
    assert [message["parts"][0]["data"] for message in messages] == [
        {"type": "reasoning", "message_id": "r", "text": "hm"},
        {"type": "tool_call", "tool_call_id": "add", "name": "add", "arguments": {"a": 1}, "server": "calculator"},
        {"type": "tool_result", "tool_call_id": "add", "output": [{"text": "5"}]},
        {"type": "tool_call", "tool_call_id": "fail", "name": "fail", "arguments": "no JSON"},
        {"type": "tool_result", "tool_call_id": "fail", "output": [{"text": "broken"}], "is_error": True},
        {"type": "reasoning", "message_id": "r", "text": ""},
    ]
    assert len({message["messageId"] for message in messages}) == len(messages)
    assert "message" not in status_of(renderer.final())


def status_of(result: Any) -> Any:
    return (result.get("task") or result.get("statusUpdate") or {}).get("status")


# --- ends -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("last", "state"),
    [
        (FINISHED, TaskState.COMPLETED),
        (RunFinished(Cancelled()), TaskState.CANCELED),
        (RunFinished(Incomplete(StopReason.MAX_TOKENS)), TaskState.COMPLETED),
        (RunFailed("model_overloaded", "too much"), TaskState.FAILED),
        (RunFailed("rejected", "not that"), TaskState.REJECTED),
    ],
    ids=["completed", "cancelled", "incomplete", "failed", "rejected"],
)
def test_each_end_is_a_state(last: Event, state: TaskState) -> None:
    _, task = shown(*SAYS, last)
    assert task["status"]["state"] == state
    assert state.ended
    assert not state.at_work
    assert state_named(state.value) is state_named(state.word) is state


def test_a_failure_says_why() -> None:
    _, task = shown(RunFailed("model_overloaded", "the provider is busy"))
    message = last_message(task)
    assert message["parts"] == [{"text": "the provider is busy"}]
    assert message["metadata"] == {"code": "model_overloaded"}
    failed: Any = body_of([START, RunFailed("model_invalid", "secret words of a provider")], to_operator=False)
    assert "secret" not in str(failed)


def test_the_end_tells_the_tokens_and_what_cut_it_off() -> None:
    used = (Usage("p", "m", 1, 2), Usage("p", "n", 3))
    results, task = shown(*SAYS, RunFinished(Incomplete(StopReason.MAX_TOKENS), used))
    metadata = {"incompleteReason": "max_tokens", "usage": {"inputTokens": 4, "outputTokens": 2, "totalTokens": 6}}
    assert results[-1]["statusUpdate"]["metadata"] == task["metadata"] == metadata


def test_a_clients_tools_are_asked_for() -> None:
    pending = (ToolCall("c1", "ask", '{"q":"Who?"}'), ToolCall("c2", "look", "oops"))
    results, task = shown(*call("ask", executor="client"), RunFinished(Completed(pending)))
    assert states(results) == ["input_required"]
    text, first, second = last_message(task)["parts"]
    assert text == {"text": "The task waits for the output of 'ask', 'look'."}
    assert (first["data"]["tool_call_id"], first["data"]["arguments"]) == ("c1", {"q": "Who?"})
    assert first["data"]["response_schema"]["required"] == ["tool_call_id", "output"]
    assert second["data"]["arguments"] == "oops"


def test_a_person_is_asked_for_an_approval() -> None:
    asks = Interrupted((Interrupt("int-refund", "tool_call", "May it run?", "refund"),))
    _, task = shown(*call("refund", asks=True), RunFinished(asks))
    assert task["status"]["state"] == TaskState.INPUT_REQUIRED
    text, question = last_message(task)["parts"]
    assert text == {"text": "May it run? Answer with the word approve or deny."}
    data = question["data"]
    assert (data["tool_call_id"], data["name"], data["arguments"]) == ("refund", "refund", {"a": 1})
    assert data["message"] == "May it run?"
    assert data["response_schema"]["required"] == ["decision"]


def test_of_a_call_that_another_task_made_nothing_is_told_that_nobody_knows() -> None:
    asks = Interrupted((Interrupt("int-refund", "tool_call", "May it run?", "refund"),))
    _, task = shown(RunFinished(asks))
    _, question = last_message(task)["parts"]
    assert question["data"].keys() == {"tool_call_id", "message", "response_schema"}


def test_a_question_without_a_call_is_asked_by_its_id() -> None:
    asks = Interrupted((Interrupt("int-1", "input", "Which one?", response_schema={"type": "string"}),))
    _, task = shown(RunFinished(asks))
    text, question = last_message(task)["parts"]
    assert text == {"text": "Which one?"}
    assert question["data"] == {
        "interrupt_id": "int-1",
        "message": "Which one?",
        "response_schema": {"type": "string"},
    }


# --- several runs -----------------------------------------------------------------------------------------------------


def second_run() -> TaskFold:
    """A task that waited for its client, and goes on."""
    fold = begun()
    fold.follow([START, *SAYS, *call("ask", executor="client")])
    fold.follow([RunFinished(Completed((ToolCall("ask", "ask", "{}"),)))])
    fold.begin(record(f"{TASK}_2", {**QUESTION, "messageId": "msg-2"}))
    return fold


def test_a_tasks_second_run_goes_on_with_its_history_and_artifacts() -> None:
    run: list[Event] = [RunStarted("t", "r"), TextStarted("m2"), TextDelta("m2", "Bye"), TextEnded("m2"), FINISHED]
    frames, renderer = rendered(run, fold=second_run())
    results = checked(read(frames), Dialect.V1)
    assert states(results) == ["submitted", "working", "completed"]
    task: Any = renderer.final()["task"]
    assert [message["messageId"] for message in task["history"]] == ["msg-1", f"msg_{TASK}_0", "msg-2"]
    assert artifacts_in(task) == {"m1": [{"text": "Hello"}], "m2": [{"text": "Bye"}]}


@pytest.mark.parametrize(("length", "ids"), [(None, 3), (0, 0), (1, 1), (2, 2), (9, 3)])
def test_only_as_much_history_is_shown_as_is_wanted(length: int | None, ids: int) -> None:
    task: Any = second_run().task(history_length=length)
    assert len(task.get("history", ())) == ids
    assert ("history" in task) == bool(ids)
    if ids:
        assert task["history"][-1]["messageId"] == "msg-2"
    frames, _ = rendered([START], fold=second_run(), history_length=length)
    assert len(read(frames)[0]["task"].get("history", ())) == ids


def test_artifacts_may_be_left_out() -> None:
    assert "artifacts" not in second_run().task(artifacts=False)


def test_an_early_viewer_sees_the_task_before_it_runs() -> None:
    renderer = TaskRenderer(begun(), Dialect.V1)
    (opening,) = renderer.opening()
    assert states(read([opening], None)) == ["submitted"]
    assert renderer.opening() == ()
    assert states(read(renderer.render([START], 1), None)) == ["working"]


def test_times_come_from_the_record() -> None:
    fold = begun(run=record(started_at=1_700_000_001.0))
    fold.follow([START])
    assert fold.status["timestamp"] == "2023-11-14T22:13:21.000Z"
    fold.follow([*SAYS, FINISHED])
    assert "timestamp" not in fold.status
    fold.note_times(record(finished_at=1_700_000_002.5))
    assert fold.status["timestamp"] == "2023-11-14T22:13:22.500Z"


def test_a_run_tells_its_task() -> None:
    assert task_of(record(f"{TASK}_2")) == TASK
    assert task_of(record("run-1", origin="ag_ui", request=None)) == "run-1"


# --- push notifications -----------------------------------------------------------------------------------------------


def test_notifications_tell_states_and_whole_artifacts() -> None:
    run = [START, *WORK, *SAYS, MediaGiven("p", ImageBlock(PICTURE)), MessageRetracted("m1", "Sorry."), FINISHED]
    one_by_one, at_once = PushUpdates(begun()), PushUpdates(begun())
    said = [push for event in run for push in one_by_one.follow([event])]
    assert said == at_once.follow(run)
    checked([{"task": begun().task()}, *(push.payload for push in said)], Dialect.V1)
    assert [push.ends for push in said] == [False, False, False, False, True]
    assert [push.is_status for push in said] == [True, False, False, False, True]
    updates: list[Any] = [push.payload["artifactUpdate"] for push in said if not push.is_status]
    assert [each["artifact"]["parts"] for each in updates] == [
        [{"text": "Hello"}],
        [{"raw": "aGk=", "mediaType": "image/png"}],
        [{"text": "Sorry."}],
    ]
    assert all("append" not in each and each["lastChunk"] for each in updates)


# --- methods ----------------------------------------------------------------------------------------------------------


def test_methods_are_known_by_the_names_of_both_versions() -> None:
    new, old = method_of("SendStreamingMessage"), method_of("message/stream")
    assert new is not None
    assert old is not None
    assert new[0] is old[0]
    assert (new[1], old[1]) == (Dialect.V1, Dialect.V03)
    assert method_of("message/nap") is None
