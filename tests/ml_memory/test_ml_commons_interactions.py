"""What runs said on a thread, read as ml-commons' interactions."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

from gateway.messages import Message, TextBlock, ToolCall, ToolResult
from gateway.ml_memory.interactions import trace_jsons, turns_of
from gateway.protocol import time_text
from tests.ml_commons_scene import MlGateway, ml_gateway
from tests.movable_clock import MovableClock
from tests.running_gateway import agent, run_body, scripted

ADD = {"type": "PythonTool", "parameters": {"function": "gateway.sample_tools:add"}}
CALCULATOR = agent(
    "calculator",
    scripted(
        [
            {"reasoning": "Sums need the tool."},
            {"text": "I add."},
            {"tool": "add", "arguments": {"a": 2, "b": 3}, "id": "c1"},
        ],
        [{"text": "It is 5."}],
    ),
    tools=[ADD],
)
PICKS = [{"tool": "pick", "arguments": {}, "id": "c9"}]
ASKING = agent("asking", scripted(PICKS, [{"text": "You picked {{result}}."}]))
FAILING = agent("failing", scripted([{"text": "so far"}, {"error": "invalid", "message": "no more"}]))
STILL_FAILING = agent("still_failing", scripted([{"error": "invalid", "message": "no more"}]))
ECHO = agent("echo", scripted([{"text": "You said {{user}}."}]))
AGENTS = (CALCULATOR, ASKING, FAILING, STILL_FAILING, ECHO)
PICK = {"name": "pick", "description": "Picks.", "parameters": {"type": "object"}}


async def run(ml: MlGateway, agent_id: str, run_id: str, *new: dict[str, Any], **more: Any) -> str:
    """Run with the thread's history and these messages; the type of the last event."""
    thread_id = more.pop("thread_id", "thread-1")
    response = await ml.http.get(f"/threads/{quote(thread_id, safe='')}/messages")
    history = response.json()["messages"] if response.status_code == 200 else []
    body = run_body(messages=[*history, *new], thread_id=thread_id, run_id=run_id, **more)
    return (await ml.gateway.client.run(agent_id, body))[-1].type


async def interactions(ml: MlGateway, thread_id: str = "thread-1") -> list[dict[str, Any]]:
    status, answer = await ml.call("GET", f"/memory/{quote(thread_id, safe='')}/messages?max_results=1000")
    assert status == 200, answer
    read: list[dict[str, Any]] = answer["messages"]
    return read


def user(message_id: str, text: str) -> dict[str, Any]:
    return {"id": message_id, "role": "user", "content": text}


def words(read: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(each["message_id"], each.get("input"), each.get("response")) for each in read]


async def test_d9_what_ag_ui_said_is_read_as_an_interaction(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, AGENTS) as ml:
        await run(ml, "echo", "r1", user("u1", "hello"))
        (read,) = await interactions(ml)
    assert read["updated_time"] >= read["create_time"]
    assert read == {
        "memory_id": "thread-1",
        "message_id": "u1",
        "create_time": read["create_time"],
        "updated_time": read["updated_time"],
        "input": "hello",
        "response": "You said hello.",
        "origin": "echo",
    }


async def test_a_thread_is_a_memory_with_its_first_words_as_its_name(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, AGENTS) as ml:
        await run(ml, "echo", "r1", user("u1", "hello"), thread_id="chat of / mine?")
        status, answer = await ml.call("GET", "/memory")
        assert status == 200
        assert [(each["memory_id"], each["name"]) for each in answer["memories"]] == [("chat of / mine?", "hello")]
        assert words(await interactions(ml, "chat of / mine?")) == [("u1", "hello", "You said hello.")]


async def test_g9_the_answer_is_read_as_soon_as_the_last_event_came(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, AGENTS) as ml:
        for turn in range(5):
            await run(ml, "echo", f"r{turn}", user(f"u{turn}", f"q{turn}"))
            assert words(await interactions(ml))[-1] == (f"u{turn}", f"q{turn}", f"You said q{turn}.")


async def test_questions_in_a_row_are_one_interaction(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, AGENTS) as ml:
        await run(ml, "echo", "r1", user("u0", "before"))
        await run(ml, "echo", "r2", user("u1", "First question"), user("u2", "Second question"))
        read = words(await interactions(ml))
    assert read[1:] == [("u1", "First question\n\nSecond question\n", "You said Second question.")]


async def test_the_texts_of_one_question_are_its_lines(tmp_path: Path) -> None:
    parts = [{"type": "text", "text": "First question."}, {"type": "text", "text": "Second question."}]
    async with ml_gateway(tmp_path, AGENTS) as ml:
        await run(ml, "echo", "r1", {"id": "u1", "role": "user", "content": parts})
        assert [each[1] for each in words(await interactions(ml))] == ["First question.\nSecond question.\n"]


async def test_instructions_are_in_no_interaction(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, AGENTS) as ml:
        await run(ml, "echo", "r1", {"id": "s1", "role": "system", "content": "Be kind."}, user("u1", "hello"))
        assert words(await interactions(ml)) == [("u1", "hello", "You said hello.")]


async def test_what_the_tools_did_is_not_in_the_answer(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, AGENTS) as ml:
        await run(ml, "calculator", "r1", user("u1", "2 and 3?"))
        assert words(await interactions(ml)) == [("u1", "2 and 3?", "It is 5.")]


async def test_a_turn_that_waits_for_the_browser_goes_on_in_the_same_interaction(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, AGENTS) as ml:
        await run(ml, "asking", "r1", user("u1", "choose"), tools=[PICK])
        assert words(await interactions(ml)) == [("u1", "choose", None)]
        result = {"id": "t1", "role": "tool", "toolCallId": "c9", "content": "red"}
        await run(ml, "asking", "r2", result, tools=[PICK])
        assert words(await interactions(ml)) == [("u1", "choose", "You picked red.")]


async def test_a_failed_turn_says_why_and_the_next_question_is_another_interaction(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, AGENTS) as ml:
        assert await run(ml, "failing", "r1", user("u1", "one")) == "RUN_ERROR"
        assert await run(ml, "still_failing", "r2", user("u2", "two")) == "RUN_ERROR"
        await run(ml, "echo", "r3", user("u3", "three"))
        read = words(await interactions(ml))
    assert [each[:2] for each in read] == [("u1", "one"), ("u2", "two"), ("u3", "three")]
    assert all(each[2].startswith("Agent execution failed: ") and "no more" in each[2] for each in read[:2])
    assert read[2][2] == "You said three."


async def test_a_failed_turn_that_is_tried_again_has_its_answer(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, AGENTS) as ml:
        assert await run(ml, "still_failing", "r1", user("u1", "one")) == "RUN_ERROR"
        await run(ml, "echo", "r2")
        assert words(await interactions(ml)) == [("u1", "one", "You said one.")]


async def test_a_greeting_before_any_question_is_an_answer_to_nothing(tmp_path: Path) -> None:
    greeting = {"id": "a0", "role": "assistant", "content": "Welcome."}
    async with ml_gateway(tmp_path, AGENTS) as ml:
        await run(ml, "echo", "r1", greeting, user("u1", "hello"))
        assert words(await interactions(ml)) == [("a0", None, "Welcome."), ("u1", "hello", "You said hello.")]


async def test_an_edit_shows_the_current_version(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, AGENTS) as ml:
        await run(ml, "echo", "r1", user("u1", "one"))
        await run(ml, "echo", "r2", user("u2", "two"))
        body = run_body(messages=[user("u1", "another one")], thread_id="thread-1", run_id="r3")
        await ml.gateway.client.run("echo", body)
        assert words(await interactions(ml)) == [("u1", "another one", "You said another one.")]


async def executed(ml: MlGateway, agent_id: str, body: object) -> tuple[str, str, dict[str, Any]]:
    """The memory, the interaction and the answer of an execution."""
    status, answer = await ml.call("POST", f"/agents/{agent_id}/_execute", body)
    assert status == 200, answer
    memory_id, interaction_id, response = answer["inference_results"][0]["output"]
    return memory_id["result"], interaction_id["result"], response["dataAsMap"]


async def test_d10_what_an_execution_said_is_read_here_and_by_ag_ui(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, AGENTS) as ml:
        memory_id, first, _ = await executed(ml, "echo", {"input": "one"})
        named = {"memory_id": memory_id}
        _, second, answered = await executed(ml, "calculator", {"input": "2 and 3?", "parameters": named})
        read = await interactions(ml, memory_id)
        assert words(read) == [(first, "one", "You said one."), (second, "2 and 3?", answered["response"])]
        assert read[1]["additional_info"] == answered["additional_info"] == {"add.output": ["5.0"]}
        history = (await ml.gateway.client.get(f"/threads/{memory_id}/messages"))["messages"]
        assert [each["content"] for each in history if each["role"] in ("user", "assistant")] == [
            *("one", "You said one."),
            *("2 and 3?", "I add.", "It is 5."),
        ]
        assert (await ml.call("GET", f"/memory/message/{second}"))[1] == read[1]


async def test_an_execution_goes_on_from_what_ag_ui_said_and_what_was_posted(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, AGENTS) as ml:
        await run(ml, "echo", "r1", user("u1", "over AG-UI"))
        await ml.call("POST", "/memory/thread-1/messages", {"input": "posted", "response": "by hand"})
        named = {"memory_id": "thread-1"}
        await executed(ml, "echo", {"input": "executed", "parameters": named})
        read = [each[1:] for each in words(await interactions(ml))]
    assert read == [
        ("over AG-UI", "You said over AG-UI."),
        ("posted", "by hand"),
        ("executed", "You said executed."),
    ]


async def test_a_posted_question_is_answered_by_an_execution(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, AGENTS) as ml:
        memory_id = (await ml.call("POST", "/memory"))[1]["memory_id"]
        message_id = (await ml.call("POST", f"/memory/{memory_id}/messages", {"input": "waits"}))[1]["message_id"]
        named = {"memory_id": memory_id, "parent_interaction_id": message_id}
        _, interaction_id, _ = await executed(ml, "echo", {"parameters": named})
        assert interaction_id == message_id
        assert words(await interactions(ml, memory_id)) == [(message_id, "waits", "You said waits.")]


async def test_an_execution_of_several_messages_is_its_interaction(tmp_path: Path) -> None:
    def message(role: str, text: str) -> dict[str, Any]:
        return {"role": role, "content": [{"type": "text", "text": text}]}

    given = [message("user", "q0"), message("assistant", "a0"), message("user", "First"), message("user", "Second")]
    async with ml_gateway(tmp_path, AGENTS) as ml:
        memory_id, interaction_id, _ = await executed(ml, "echo", {"input": given})
        read = words(await interactions(ml, memory_id))
    assert [each[1:] for each in read] == [("q0", "a0"), ("First\n\nSecond\n", "You said Second.")]
    assert read[1][0] == interaction_id


async def test_an_execution_that_failed_says_why(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, AGENTS) as ml:
        named = {"memory_id": "m"}
        status, _ = await ml.call("POST", "/agents/still_failing/_execute", {"input": "one", "parameters": named})
        assert status >= 400
        await executed(ml, "echo", {"input": "two", "parameters": named})
        read = words(await interactions(ml, "m"))
    assert [each[1] for each in read] == ["one", "two"]
    assert read[0][2].startswith("Agent execution failed: ")


def test_a_turn_that_ends_with_a_tools_result_shows_what_the_model_said_last() -> None:
    calls = ToolCall("c1", "add", "{}")
    messages = (
        Message("u1", "user", (TextBlock("2 and 3?"),)),
        Message("a1", "assistant", (TextBlock("I add."), calls), turn_id="turn"),
        Message("t1", "tool", (ToolResult("c1", (TextBlock("5"),)),), turn_id="turn"),
    )
    (turn,) = turns_of(messages, (), {}, 0.0)
    assert turn.response == "I add."
    assert [trace["message_id"] for trace in trace_jsons("m", turn)] == ["a1", "t1"]


async def test_an_interaction_has_the_times_of_its_question_and_of_what_came_last(tmp_path: Path) -> None:
    clock = MovableClock()
    async with ml_gateway(tmp_path, AGENTS, clock=clock) as ml:

        async def times() -> list[tuple[str, str]]:
            read = await interactions(ml)
            return [(each["create_time"][11:19], each["updated_time"][11:19]) for each in read]

        start = clock.now()

        def after(seconds: float) -> str:
            text = time_text(start + seconds)
            assert text is not None
            return text[11:19]

        await run(ml, "echo", "r1", user("u1", "one"))
        await clock.advance(60)
        await run(ml, "asking", "r2", user("u2", "choose"), tools=[PICK])
        await clock.advance(60)
        await run(ml, "asking", "r3", {"id": "t1", "role": "tool", "toolCallId": "c9", "content": "red"}, tools=[PICK])
        expected = [(after(0), after(0)), (after(60), after(120))]
        assert await times() == expected
        await ml.http.delete("/runs/r1")
        assert await times() == expected
        await clock.advance(60)
        await ml.call("PUT", "/memory/message/u1", {"additional_info": {"k": "v"}})
        assert await times() == [(after(0), after(180)), (after(60), after(120))]
