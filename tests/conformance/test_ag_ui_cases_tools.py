"""AG-UI cases 19 to 24, 26 to 29, 39, 57: backend tools, frontend tools, both in one turn, calls that go wrong."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from tests.ag_ui_verifier import read_stream
from tests.agui_client import NodeAgent, NodeClients
from tests.case_tools import PIXEL, executions, python_tools
from tests.observed_runs import observe, post, run_client, said, thread_messages
from tests.openai_chat_server import DONE, ChatServer, Script, chunk, completion, record
from tests.running_gateway import LocalGateway, agent, run_body, scripted

pytestmark = pytest.mark.asyncio(loop_scope="session")

Fresh = Callable[[str], str]
Json = dict[str, Any]

CALL = ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END"]
TEXT = ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"]
ADD = {"tool": "add", "arguments": {"a": 2, "b": 3}}
PICK = {"tool": "pick_color", "arguments": {"of": "the sky"}}
ANSWER = [{"text": "It is {{result}}."}]

PICK_COLOR: Json = {
    "name": "pick_color",
    "description": "Let the user pick a color.",
    "parameters": {"type": "object", "properties": {"of": {"type": "string"}}, "required": ["of"]},
}
ADD_IN_THE_BROWSER: Json = {"name": "add", "description": "Add in the browser.", "parameters": {"type": "object"}}

AGENTS = [
    agent("calculator", scripted([ADD], ANSWER), tools=python_tools("add")),
    agent("browser", scripted([PICK], ANSWER), tools=python_tools("add")),
    agent("two_pickers", scripted([{**PICK, "id": "one"}, {**PICK, "id": "two"}], [{"text": "Both."}])),
    agent("hybrid", scripted([PICK, ADD], ANSWER), tools=python_tools("add")),
    agent("mistaken", scripted([{"tool": "subtract"}], [{"text": "Sorry: {{result}}"}]), tools=python_tools("add")),
    agent(
        "sloppy",
        scripted([{"tool": "add", "arguments": '{"a": 2,'}], [{"text": "Sorry: {{result}}"}]),
        tools=python_tools("add"),
    ),
    agent("sloppy_browser", scripted([{"tool": "pick_color", "arguments": "blue"}], [{"text": "Sorry: {{result}}"}])),
    agent(
        "unlucky",
        scripted(
            [{"tool": "fail"}, {"tool": "nothing"}, {"tool": "odd_values"}, {"tool": "hang"}, ADD],
            [{"text": "Done."}],
        ),
        tools=python_tools("fail", "nothing", "odd_values", "hang", "add"),
        parameters={"tool_timeout_seconds": 0.05},
    ),
    agent("painter", scripted([{"tool": "picture"}], [{"text": "Done."}]), tools=python_tools("picture")),
    agent(
        "typist",
        scripted(
            rules=[
                {"when": {"last_user_contains": asked}, "response": [{"tool": "write", "arguments": {"text": text}}]}
                for asked, text in (("a lot", "0123456789" * 1200), ("a little", "0123456789" * 30))
            ],
            chunk_characters=1,
        ),
    ),
]


def of_result(call: Json, content: str) -> Json:
    return {"id": f"result-{call['id']}", "role": "tool", "toolCallId": call["id"], "content": content}


def calls_of(messages: Sequence[Mapping[str, Any]]) -> list[Json]:
    return [call for message in messages for call in message.get("toolCalls") or []]


async def client_on(gateway: LocalGateway, clients: NodeClients, fresh: Fresh, agent_id: str) -> NodeAgent:
    return await clients.create(gateway.client.run_url(agent_id), thread_id=fresh("thread"))


# --- 19: a backend tool


async def test_case_19_a_backend_tool_runs_and_its_result_is_streamed(gateway: LocalGateway, fresh: Fresh) -> None:
    seen = await observe(gateway, "calculator", run_body("2+3?", thread_id=fresh("thread"), run_id=fresh("run")))

    assert seen.types == ["RUN_STARTED", *CALL, "TOOL_CALL_RESULT", *TEXT, "RUN_FINISHED"]
    result = seen.one("TOOL_CALL_RESULT")
    assert seen.one("TOOL_CALL_START")["parentMessageId"]
    assert result["messageId"] not in (result["toolCallId"], seen.one("TOOL_CALL_START")["parentMessageId"])
    assert result["content"] == "5.0"
    assert seen.text == "It is 5.0."
    assert seen.last["outcome"] == {"type": "success"}
    assert list(executions.values()) == [1]


async def test_case_19_clients_have_the_conversation_that_the_server_has(
    gateway: LocalGateway, clients: NodeClients, fresh: Fresh
) -> None:
    agent = await client_on(gateway, clients, fresh, "calculator")

    report = await run_client(gateway, agent, fresh("run"), text="2+3?")

    assert [m["role"] for m in report.messages] == ["user", "assistant", "tool", "assistant"]
    assert said(report.messages) == said(await thread_messages(gateway, agent.thread_id))
    assert not report.pending_tool_call_ids


# --- 20 to 22: frontend tools


async def test_case_20_a_frontend_tool_ends_the_run_with_its_call_pending(
    gateway: LocalGateway, clients: NodeClients, fresh: Fresh
) -> None:
    """1.0 is told which calls are pending; clients before that, which refuse such an outcome, get none at all."""
    agent = await client_on(gateway, clients, fresh, "browser")

    report = await run_client(gateway, agent, fresh("run"), text="a color", tools=[PICK_COLOR])

    assert report.event_types == ["RUN_STARTED", *CALL, "RUN_FINISHED"]
    (call,) = calls_of(report.messages)
    if clients.version == "1.0.0":
        assert report.events[-1]["outcome"] == {"type": "success", "pendingToolCallIds": [call["id"]]}
        assert report.pending_tool_call_ids == [call["id"]]
    else:
        assert "outcome" not in report.events[-1]


async def test_case_20_the_answer_of_the_browser_carries_the_run_on(
    gateway: LocalGateway, clients: NodeClients, fresh: Fresh
) -> None:
    agent = await client_on(gateway, clients, fresh, "browser")
    report = await run_client(gateway, agent, fresh("run"), text="a color", tools=[PICK_COLOR])
    await agent.add_message(of_result(calls_of(report.messages)[0], "blue"))

    report = await run_client(gateway, agent, fresh("run"), tools=[PICK_COLOR])

    assert report.event_types == ["RUN_STARTED", *TEXT, "RUN_FINISHED"]
    assert report.messages[-1]["content"] == "It is blue."
    assert said(report.messages) == said(await thread_messages(gateway, agent.thread_id))


async def test_case_21_two_frontend_tools_are_pending_in_call_order_and_both_answers_carry_on(
    gateway: LocalGateway, clients: NodeClients, fresh: Fresh
) -> None:
    agent = await client_on(gateway, clients, fresh, "two_pickers")
    report = await run_client(gateway, agent, fresh("run"), text="colors", tools=[PICK_COLOR])
    starts = [event for event in report.events if event["type"] == "TOOL_CALL_START"]
    assert len({start["parentMessageId"] for start in starts}) == 1
    calls = calls_of(report.messages)
    assert [call["id"] for call in calls] == [start["toolCallId"] for start in starts]
    assert clients.version != "1.0.0" or report.pending_tool_call_ids == [call["id"] for call in calls]
    for call in reversed(calls):
        await agent.add_message(of_result(call, "blue"))

    report = await run_client(gateway, agent, fresh("run"), tools=[PICK_COLOR])

    assert report.event_types == ["RUN_STARTED", *TEXT, "RUN_FINISHED"]
    assert report.messages[-1]["content"] == "Both."


async def test_case_21_one_of_two_answers_leaves_the_rest_pending_without_the_model(
    gateway: LocalGateway, clients: NodeClients, fresh: Fresh
) -> None:
    agent = await client_on(gateway, clients, fresh, "two_pickers")
    report = await run_client(gateway, agent, fresh("run"), text="colors", tools=[PICK_COLOR])
    first, second = calls_of(report.messages)
    await agent.add_message(of_result(second, "blue"))

    report = await run_client(gateway, agent, fresh("run"), tools=[PICK_COLOR])

    assert report.event_types == ["RUN_STARTED", "RUN_FINISHED"]
    assert clients.version != "1.0.0" or report.pending_tool_call_ids == [first["id"]]
    await agent.add_message(of_result(first, "red"))
    report = await run_client(gateway, agent, fresh("run"), tools=[PICK_COLOR])
    assert report.messages[-1]["content"] == "Both."


def calling(*calls: tuple[str, str, str]) -> Script:
    """A response of chat completions that makes these calls: (id, name, arguments)."""
    made = [
        {"index": place, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for place, (id, name, arguments) in enumerate(calls)
    ]
    return Script(pieces=[record(chunk({"tool_calls": made})), record(chunk({}, "tool_calls")), DONE])


async def test_case_22_one_answer_of_two_and_a_new_question_reach_the_provider_as_valid_history(
    gateway: LocalGateway, upstream: ChatServer, clients: NodeClients, fresh: Fresh
) -> None:
    sky = '{"of": "the sky"}'
    upstream.answers(calling(("c1", "pick_color", sky), ("c2", "pick_color", sky)), completion("Fine."))
    agent = await client_on(gateway, clients, fresh, "openai")
    report = await run_client(gateway, agent, fresh("run"), text="colors", tools=[PICK_COLOR])
    await agent.add_message(of_result(calls_of(report.messages)[0], "blue"))

    report = await run_client(gateway, agent, fresh("run"), text="never mind", tools=[PICK_COLOR])

    assert report.messages[-1]["content"] == "Fine."
    sent = upstream.requests[1].json["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "tool", "user"]
    assert [call["id"] for call in sent[1]["tool_calls"]] == [m["tool_call_id"] for m in sent[2:4]]
    assert sent[2]["content"] == "blue"
    assert sent[3]["content"].startswith("Error: ")
    assert "TOOL_CALL_RESULT" not in report.event_types  # for the model alone


async def test_case_22_a_late_answer_still_reaches_the_model(
    gateway: LocalGateway, upstream: ChatServer, fresh: Fresh
) -> None:
    """The answer to a call that was left behind comes after the next question: it takes the made-up error's place."""
    upstream.answers(calling(("c1", "pick_color", '{"of": "x"}')), completion("Fine."), completion("Blue, then."))
    thread_id = fresh("thread")
    more: Json = {"thread_id": thread_id, "tools": [PICK_COLOR]}
    await observe(gateway, "openai", run_body("a color", run_id=fresh("run"), **more))
    history = await thread_messages(gateway, thread_id)
    question = {"id": "u2", "role": "user", "content": "never mind"}
    await observe(gateway, "openai", run_body(messages=[*history, question], run_id=fresh("run"), **more))
    history = await thread_messages(gateway, thread_id)
    late = of_result(calls_of(history)[0], "blue")
    question = {"id": "u3", "role": "user", "content": "and now?"}

    await observe(gateway, "openai", run_body(messages=[*history, late, question], run_id=fresh("run"), **more))

    sent = upstream.requests[2].json["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "user", "assistant", "user"]
    assert sent[2]["content"] == "blue"


# --- 23, 24: both kinds


async def test_case_23_backend_and_frontend_calls_in_one_turn(
    gateway: LocalGateway, clients: NodeClients, fresh: Fresh
) -> None:
    """The backend call runs and its result is streamed, the model is not asked again, the frontend call is pending."""
    agent = await client_on(gateway, clients, fresh, "hybrid")

    report = await run_client(gateway, agent, fresh("run"), text="both", tools=[PICK_COLOR])

    assert report.event_types == ["RUN_STARTED", *CALL, *CALL, "TOOL_CALL_RESULT", "RUN_FINISHED"]
    picking, adding = calls_of(report.messages)
    (result,) = [event for event in report.events if event["type"] == "TOOL_CALL_RESULT"]
    assert (result["toolCallId"], result["content"]) == (adding["id"], "5.0")
    assert clients.version != "1.0.0" or report.pending_tool_call_ids == [picking["id"]]
    assert executions == Counter([adding["id"]])

    await agent.add_message(of_result(picking, "blue"))
    report = await run_client(gateway, agent, fresh("run"), tools=[PICK_COLOR])

    assert report.event_types == ["RUN_STARTED", *TEXT, "RUN_FINISHED"]
    assert executions == Counter([adding["id"]]), "it ran once, also across the runs"
    assert sorted(said(report.messages)) == sorted(said(await thread_messages(gateway, agent.thread_id)))


async def test_case_23_the_provider_gets_both_results_in_call_order(
    gateway: LocalGateway, upstream: ChatServer, fresh: Fresh
) -> None:
    calls = [("c1", "pick_color", '{"of": "x"}'), ("c2", "add", '{"a": 1, "b": 1}')]
    upstream.answers(calling(*calls), completion("ok"))
    thread_id = fresh("thread")
    seen = await observe(
        gateway, "openai", run_body("hi", thread_id=thread_id, run_id=fresh("run"), tools=[PICK_COLOR])
    )
    assert len(upstream.requests) == 1
    history = await thread_messages(gateway, thread_id)
    picking = calls_of(history)[0]
    assert seen.pending == [picking["id"]]

    body = run_body(
        messages=[*history, of_result(picking, "blue")], thread_id=thread_id, run_id=fresh("run"), tools=[PICK_COLOR]
    )
    await observe(gateway, "openai", body)

    sent = upstream.requests[1].json["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "tool"]
    assert [message["content"] for message in sent[2:]] == ["blue", "2.0"]


async def test_case_24_of_a_frontend_and_a_backend_tool_of_one_name_the_backend_one_runs_once(
    gateway: LocalGateway, clients: NodeClients, fresh: Fresh
) -> None:
    """A 4xx, or a winner by rule: the backend's wins and the declaration is dropped with a warning. Refusing would
    break a page because an operator added a tool; the browser's winning would let a page replace what was approved."""
    agent = await client_on(gateway, clients, fresh, "calculator")

    report = await run_client(gateway, agent, fresh("run"), text="2+3?", tools=[ADD_IN_THE_BROWSER])

    assert report.event_types == ["RUN_STARTED", *CALL, "TOOL_CALL_RESULT", *TEXT, "RUN_FINISHED"]
    assert list(executions.values()) == [1]


async def test_case_24_the_model_is_offered_the_name_once(
    gateway: LocalGateway, upstream: ChatServer, fresh: Fresh
) -> None:
    upstream.answers(completion("ok"))
    await observe(
        gateway,
        "openai",
        run_body("hi", thread_id=fresh("thread"), run_id=fresh("run"), tools=[ADD_IN_THE_BROWSER, PICK_COLOR]),
    )

    offered = [tool["function"] for tool in upstream.requests[0].json["tools"]]
    assert [tool["name"] for tool in offered] == ["add", "pick_color"]
    assert offered[0]["description"] == "Add two numbers."


# --- 26, 29, 39: calls that go wrong


async def test_case_26_a_call_of_a_tool_that_does_not_exist_is_answered_with_those_that_do(
    gateway: LocalGateway, clients: NodeClients, fresh: Fresh
) -> None:
    """An error result or a closed call: an error result, shown too, so that the model mends it and no client thinks the
    call is its own to run."""
    agent = await client_on(gateway, clients, fresh, "mistaken")

    report = await run_client(gateway, agent, fresh("run"), text="2-3?", tools=[PICK_COLOR])

    assert report.event_types == ["RUN_STARTED", *CALL, "TOOL_CALL_RESULT", *TEXT, "RUN_FINISHED"]
    expected = "There is no tool 'subtract'. The tools are: 'add', 'pick_color'."
    assert report.messages[-1]["content"] == f"Sorry: {expected}"


@pytest.mark.parametrize("agent_id", ["sloppy", "sloppy_browser"])
async def test_case_29_arguments_that_are_no_json_close_the_call_and_are_answered(
    gateway: LocalGateway, clients: NodeClients, fresh: Fresh, agent_id: str
) -> None:
    """Also for a frontend tool: the browser could do nothing with them but fail."""
    agent = await client_on(gateway, clients, fresh, agent_id)

    report = await run_client(gateway, agent, fresh("run"), text="2+3?", tools=[PICK_COLOR])

    assert report.event_types == ["RUN_STARTED", *CALL, "TOOL_CALL_RESULT", *TEXT, "RUN_FINISHED"]
    assert str(report.messages[-1]["content"]).startswith("Sorry: ")
    assert executions == Counter()


async def test_case_39_tools_that_raise_hang_or_give_nothing_get_results_and_the_others_too(
    gateway: LocalGateway, clients: NodeClients, fresh: Fresh
) -> None:
    agent = await client_on(gateway, clients, fresh, "unlucky")

    report = await run_client(gateway, agent, fresh("run"), text="go")

    results = [str(message["content"]) for message in report.messages if message["role"] == "tool"]
    failed, empty, odd, hung, added = results
    assert failed == "the shelf is empty"
    assert empty == "(The tool gave no output.)"
    assert json.loads(odd)["price"] == "1.50"
    assert hung == "The tool 'hang' gave no result within 0.05 seconds."
    assert added == "5.0"
    assert report.messages[-1]["content"] == "Done."


async def test_case_57_values_that_json_does_not_have_become_text_and_numbers(
    gateway: LocalGateway, fresh: Fresh
) -> None:
    seen = await observe(gateway, "unlucky", run_body("go", thread_id=fresh("thread"), run_id=fresh("run")))

    odd = json.loads(list(seen.results.values())[2])
    assert odd["nan"] is None
    assert odd["infinite"] is None
    assert odd["at"].startswith("2026-11-20T00:00:00")
    assert odd["price"] == "1.50"
    assert odd["bytes"] == "AP8="
    assert odd["half"] == "\ufffd"


async def test_a_result_of_parts_is_shown_as_parts_to_clients_of_1_0_and_as_text_to_older_ones(
    gateway: LocalGateway, clients: NodeClients, fresh: Fresh
) -> None:
    agent = await client_on(gateway, clients, fresh, "painter")

    report = await run_client(gateway, agent, fresh("run"), text="go")

    (result,) = [message for message in report.messages if message["role"] == "tool"]
    if clients.version == "1.0.0":
        assert result["content"] == [
            {"type": "text", "text": "a pixel"},
            {"type": "image", "source": {"type": "data", "value": PIXEL, "mimeType": "image/png"}},
        ]
    else:
        assert result["content"] == "a pixel"


# --- 27, 28: large and odd text


WRITE: Json = {"name": "write", "description": "Write.", "parameters": {"type": "object"}}


async def test_case_27_arguments_in_deltas_of_one_character_arrive_whole(
    gateway: LocalGateway, clients: NodeClients, fresh: Fresh
) -> None:
    agent = await client_on(gateway, clients, fresh, "typist")

    report = await run_client(gateway, agent, fresh("run"), text="a little", tools=[WRITE])

    (call,) = calls_of(report.messages)
    assert call["function"]["arguments"] == '{"text":"' + "0123456789" * 30 + '"}'
    assert report.event_types.count("TOOL_CALL_ARGS") == len(call["function"]["arguments"])


async def test_case_27_a_burst_of_more_deltas_than_a_viewer_may_fall_behind_arrives_whole(
    gateway: LocalGateway, fresh: Fresh
) -> None:
    seen = await observe(
        gateway, "typist", run_body("a lot", thread_id=fresh("thread"), run_id=fresh("run"), tools=[WRITE])
    )

    arguments = [event["delta"] for event in seen.of("TOOL_CALL_ARGS")]
    assert len(arguments) > 10_000
    assert "".join(arguments) == '{"text":"' + "0123456789" * 1200 + '"}'


async def test_case_27_a_value_of_twelve_megabytes_comes_in_frames_that_clients_take(
    gateway: LocalGateway, upstream: ChatServer, fresh: Fresh
) -> None:
    arguments = json.dumps({"of": "é" * 6_000_000}, ensure_ascii=False)
    upstream.answers(calling(("c1", "pick_color", arguments)))
    body = run_body("hi", thread_id=fresh("thread"), run_id=fresh("run"), tools=[PICK_COLOR])

    response = await post(gateway, "/agents/openai/run", body)

    frames = response.content.split(b"\n\n")
    assert max(map(len, frames)) < 10 * 1024 * 1024
    events = [sent.event for sent in read_stream(response.content)]
    assert "".join(event["delta"] for event in events if event["type"] == "TOOL_CALL_ARGS") == arguments
    assert events[-1]["outcome"]["type"] == "success"


ODD_TEXT = "a\r\nb\u2028c\x00d \U0001f600 e\u0301 \ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16")


async def test_case_28_text_of_any_kind_arrives_as_it_is(
    gateway: LocalGateway, upstream: ChatServer, clients: NodeClients, fresh: Fresh
) -> None:
    """Also an emoji whose halves the provider sends in two deltas, cut wherever the network cuts."""
    deltas = ["a\r\nb\u2028c\x00d \U0001f600 e", "\u0301 \ud83d", "\ude00"]
    body = b"".join(
        b"data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": delta}}]}).encode() + b"\n\n"
        for delta in deltas
    )
    raw = "data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": "日本"}}]}, ensure_ascii=False) + "\n\n"
    body += raw.encode() + record(chunk({}, "stop")) + DONE
    upstream.answers(Script(pieces=[body[start : start + 7] for start in range(0, len(body), 7)]))
    agent = await client_on(gateway, clients, fresh, "openai")

    report = await run_client(gateway, agent, fresh("run"), text="hi")

    assert report.messages[-1]["content"] == ODD_TEXT + "日本"


async def test_case_28_half_an_emoji_that_never_gets_its_other_half_breaks_nothing(
    gateway: LocalGateway, upstream: ChatServer, fresh: Fresh
) -> None:
    body = b"data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": "a\ud83d"}}]}).encode() + b"\n\n"
    upstream.answers(Script(pieces=[body, record(chunk({"content": "b"})), record(chunk({}, "stop")), DONE]))

    seen = await observe(gateway, "openai", run_body("hi", thread_id=fresh("thread"), run_id=fresh("run")))

    assert seen.last["type"] == "RUN_FINISHED"
    assert seen.text.replace("\ud83d", "\ufffd") == "a\ufffdb"
