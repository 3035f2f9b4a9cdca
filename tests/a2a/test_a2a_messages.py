"""A2A over real sockets: messages, their tasks and streams, by JSON-RPC."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from gateway.store import RunRecord, Store
from tests.a2a_scene import A2AScene, a2a_gateway, of_agent, results, said, sent, state_of, words_of
from tests.running_gateway import DEADLINE_SECONDS, agent, parts_with_store, run_body, scripted

TERMINAL = ("COMPLETED", "FAILED", "CANCELED", "REJECTED")
WEATHER_TOOL = {"name": "get_weather", "description": "d", "parameters": {"type": "object", "properties": {}}}

_REFUND = {"tool": "refund", "arguments": {"order_id": "1", "amount": 9}}
TWO_REFUNDS = agent(
    "two-refunds",
    scripted([_REFUND, _REFUND], [{"text": "Both are decided."}]),
    tools=[
        {
            "name": "refund",
            "type": "PythonTool",
            "parameters": {"function": "gateway.sample_tools:refund"},
            "approval": "always",
        }
    ],
)


async def test_a_message_is_answered_with_its_task_once_that_has_ended(tmp_path: Path) -> None:
    async with a2a_gateway(tmp_path) as a2a:
        task = (await a2a.call("SendMessage", said("hello", message_id="m1")))["task"]
        assert (state_of(task), words_of(task)) == ("COMPLETED", "I heard: hello")
        assert task["history"][0]["messageId"] == "m1"
        assert await a2a.task(task["id"]) == task


async def test_a_stream_begins_with_the_task_and_ends_with_its_last_state(tmp_path: Path) -> None:
    async with a2a_gateway(tmp_path) as a2a:
        frames = await a2a.frames("SendStreamingMessage", said("hello"))
        ended = await a2a.task(frames[0]["task"]["id"])
    assert state_of(frames[0]["task"]) == "SUBMITTED"
    assert frames[-1]["statusUpdate"]["status"] == ended["status"]
    assert frames[1]["statusUpdate"]["status"]["timestamp"] <= ended["status"]["timestamp"]
    assert state_of(frames[1]["statusUpdate"]) == "WORKING"
    assert state_of(frames[-1]["statusUpdate"]) == "COMPLETED"
    chunks = [frame["artifactUpdate"] for frame in frames if "artifactUpdate" in frame]
    assert "".join(chunk["artifact"]["parts"][0]["text"] for chunk in chunks) == "I heard: hello"
    assert [chunk.get("append", False) for chunk in chunks] == [False] + [True] * (len(chunks) - 1)
    assert [chunk.get("lastChunk", False) for chunk in chunks] == [False] * (len(chunks) - 1) + [True]


async def test_a_key_may_have_the_whole_text_in_the_last_chunk(tmp_path: Path) -> None:
    secrets = {"adk": "adk-0123456789abcdef", "alice": "alice-0123456789abcdef"}
    keys: list[Any] = [{"name": name, "key": secret} for name, secret in secrets.items()]
    keys[0]["protocols"] = {"a2a": {"last_chunk": "whole"}}
    lasts = {}
    async with a2a_gateway(tmp_path, server={"api_keys": keys}) as a2a:
        for name, secret in secrets.items():
            a2a.headers = {"authorization": f"Bearer {secret}"}
            frames = await a2a.frames("SendStreamingMessage", said("hello"))
            *_, lasts[name] = (frame["artifactUpdate"] for frame in frames if "artifactUpdate" in frame)
    assert {name: last["artifact"]["parts"] for name, last in lasts.items()} == {
        "adk": [{"text": "I heard: hello"}],
        "alice": [{"text": ""}],
    }
    assert (lasts["adk"]["append"], lasts["alice"]["append"]) == (False, True)


async def test_a_client_of_0_3_gets_the_objects_of_0_3(tmp_path: Path) -> None:
    message = {"kind": "message", "messageId": "m1", "role": "user", "parts": [{"kind": "text", "text": "hello"}]}
    async with a2a_gateway(tmp_path) as a2a:
        task = await a2a.call("message/send", {"message": message})
        frames = await a2a.frames("message/stream", {"message": message})
        again = await a2a.call("tasks/get", {"id": task["id"]})
    assert (task["kind"], task["status"]["state"]) == ("task", "completed")
    assert again == task
    assert [frame["kind"] for frame in frames[:2]] == ["task", "status-update"]
    assert (frames[-1]["status"]["state"], frames[-1]["final"]) == ("completed", True)


async def test_a_message_that_is_to_return_at_once_leaves_its_task_working(tmp_path: Path) -> None:
    at_once: tuple[tuple[str, dict[str, Any]], ...] = (
        ("SendMessage", said("go", configuration={"returnImmediately": True})),
        ("message/send", said("go", configuration={"blocking": False})),
    )
    async with a2a_gateway(tmp_path) as a2a:
        for method, params in at_once:
            answer = await a2a.call(method, params, to=of_agent("slow"))
            task = answer.get("task", answer)
            assert state_of(task).lower() in ("submitted", "working")
            await a2a.until(task["id"], "WORKING")
            assert state_of(await a2a.call("CancelTask", {"id": task["id"]})) == "CANCELED"


async def test_a_client_that_leaves_leaves_its_task_at_work(tmp_path: Path) -> None:
    async with a2a_gateway(tmp_path, server={"disconnect_grace_seconds": 0}) as a2a:
        async with a2a.stream("SendStreamingMessage", said("go"), to=of_agent("slow")) as stream:
            while not (frames := stream.frames):
                await stream.read()
            task_id = results(frames)[0]["task"]["id"]
        async with a2a.client.stream("slow", run_body("go", run_id="left")) as other:
            await other.until("RUN_STARTED")
        await a2a.client.until_status("left", "cancelled")  # as the agent says of clients that leave
        assert state_of(await a2a.task(task_id)) == "WORKING"
        await a2a.call("CancelTask", {"id": task_id})


@pytest.mark.parametrize("word", ["approve", "deny"])
async def test_a_question_is_answered_by_exactly_that_word(tmp_path: Path, word: str) -> None:
    async with a2a_gateway(tmp_path) as a2a:
        asked = (await a2a.call("SendMessage", said("refund"), to=of_agent("refunder")))["task"]
        assert state_of(asked) == "INPUT_REQUIRED"
        ended = (await a2a.call("SendMessage", said(word, taskId=asked["id"]), to=of_agent("refunder")))["task"]
    assert (ended["id"], ended["contextId"], state_of(ended)) == (asked["id"], asked["contextId"], "COMPLETED")
    assert ("refunded" in words_of(ended)) is (word == "approve")


def _asked_about(task: Any) -> list[Any]:
    """The calls that a task asks about."""
    return [part["data"]["tool_call_id"] for part in task["status"]["message"]["parts"] if "data" in part]


@pytest.mark.parametrize(("word", "refunded"), [("approve", 2), ("deny", 0)])
async def test_a_word_decides_all_that_the_task_asks(tmp_path: Path, word: str, refunded: int) -> None:
    async with a2a_gateway(tmp_path, [TWO_REFUNDS]) as a2a:
        asked = (await a2a.call("SendMessage", said("refund")))["task"]
        assert len(_asked_about(asked)) == 2
        ended = (await a2a.call("SendMessage", said(word, taskId=asked["id"])))["task"]
        thread = await a2a.client.get(f"/threads/{ended['contextId']}/messages")
    assert state_of(ended) == "COMPLETED"
    assert sum('"status":"refunded"' in str(each.get("content")) for each in thread["messages"]) == refunded


@pytest.mark.parametrize(
    "more",
    [{"decision": "deny", "tool_call_id": "{first}"}, {"decision": "approve", "arguments": {"amount": 1}}],
    ids=["twice", "arguments of no call"],
)
async def test_a_decision_that_is_not_clear_is_refused(tmp_path: Path, more: Any) -> None:
    async with a2a_gateway(tmp_path, [TWO_REFUNDS]) as a2a:
        asked = (await a2a.call("SendMessage", said("refund")))["task"]
        first, _ = _asked_about(asked)
        more = {**more, **({"tool_call_id": first} if "tool_call_id" in more else {})}
        parts = [{"data": {"decision": "approve", "tool_call_id": first}}, {"data": more}]
        error = await a2a.error("SendMessage", sent(parts, taskId=asked["id"]))
        assert (error["code"], state_of(await a2a.task(asked["id"]))) == (-32602, "INPUT_REQUIRED")


async def test_a_question_is_answered_by_data_that_names_the_call(tmp_path: Path) -> None:
    async with a2a_gateway(tmp_path) as a2a:
        asked = (await a2a.call("SendMessage", said("refund"), to=of_agent("refunder")))["task"]
        call = next(part["data"] for part in asked["status"]["message"]["parts"] if "data" in part)
        decision = {"tool_call_id": call["tool_call_id"], "decision": "approve"}
        other = sent([{"data": {**decision, "tool_call_id": "call_x"}}], taskId=asked["id"])
        error = await a2a.error("SendMessage", other)
        assert (error["code"], "call_x" in error["message"]) == (-32602, True)
        ended = (await a2a.call("SendMessage", sent([{"data": decision}], taskId=asked["id"])))["task"]
    assert (state_of(ended), "refunded" in words_of(ended)) == ("COMPLETED", True)


async def _asked_for_weather(a2a: A2AScene) -> Any:
    params = said("weather please", metadata={"tools": [WEATHER_TOOL]})
    return (await a2a.call("SendMessage", params, to=of_agent("weather")))["task"]


async def test_a_client_s_tool_is_called_and_its_output_goes_on_with_the_task(tmp_path: Path) -> None:
    async with a2a_gateway(tmp_path) as a2a:
        asked = await _asked_for_weather(a2a)
        assert state_of(asked) == "INPUT_REQUIRED"
        call = next(part["data"] for part in asked["status"]["message"]["parts"] if "data" in part)
        assert (call["name"], call["arguments"]) == ("get_weather", {"city": "Paris"})
        output = {"tool_call_id": call["tool_call_id"], "output": "sunny"}
        ended = (await a2a.call("SendMessage", sent([{"data": output}], taskId=asked["id"])))["task"]
    assert (state_of(ended), words_of(ended)) == ("COMPLETED", "It is sunny.")


@pytest.mark.parametrize("in_message", [True, False])
async def test_a_task_keeps_the_tools_of_its_client(tmp_path: Path, in_message: bool) -> None:
    calls = [[{"tool": "get_weather", "arguments": {"city": city}}] for city in ("Paris", "Rome")]
    tools: dict[str, Any] = {"metadata": {"tools": [WEATHER_TOOL]}}
    async with a2a_gateway(tmp_path, [agent("traveller", scripted(*calls, [{"text": "It was {{result}}."}]))]) as a2a:
        params = said("Go.", **tools) if in_message else {**said("Go."), **tools}
        task = (await a2a.call("SendMessage", params))["task"]
        for output in ("sunny", "rainy"):
            assert state_of(task) == "INPUT_REQUIRED"
            (call_id,) = _asked_about(task)
            answer = sent([{"data": {"tool_call_id": call_id, "output": output}}], taskId=task["id"])
            task = (await a2a.call("SendMessage", answer))["task"]
    assert (state_of(task), words_of(task)) == ("COMPLETED", "It was rainy.")


async def test_words_go_on_with_a_task_that_waits_for_a_tool(tmp_path: Path) -> None:
    async with a2a_gateway(tmp_path) as a2a:
        asked = await _asked_for_weather(a2a)
        ended = (await a2a.call("SendMessage", said("approve", taskId=asked["id"])))["task"]
    assert ended["id"] == asked["id"]
    assert state_of(ended) == "COMPLETED"
    assert [each["parts"][0]["text"] for each in ended["history"] if each["role"] == "ROLE_USER"] == [
        "weather please",
        "approve",
    ]


async def test_a_task_that_has_ended_or_is_at_work_takes_no_message(tmp_path: Path) -> None:
    async with a2a_gateway(tmp_path) as a2a:
        ended = (await a2a.call("SendMessage", said("hello")))["task"]
        error = await a2a.error("SendMessage", said("more", taskId=ended["id"]))
        assert (error["code"], error["data"][0]["reason"]) == (-32004, "UNSUPPORTED_OPERATION")
        at_once = said("go", configuration={"returnImmediately": True})
        working = (await a2a.call("SendMessage", at_once, to=of_agent("slow")))["task"]
        assert (await a2a.error("SendMessage", said("more", taskId=working["id"])))["code"] == -32004
        await a2a.call("CancelTask", {"id": working["id"]})


async def test_a_message_names_its_task_s_context_or_none(tmp_path: Path) -> None:
    async with a2a_gateway(tmp_path) as a2a:
        asked = await _asked_for_weather(a2a)
        error = await a2a.error("SendMessage", said("more", taskId=asked["id"], contextId="another"))
        assert error["code"] == -32602
        assert (await a2a.error("SendMessage", said("more", taskId="task_x")))["code"] == -32001


async def test_a_second_task_of_a_context_waits_for_the_first(tmp_path: Path) -> None:
    at_once = {"returnImmediately": True}
    async with a2a_gateway(tmp_path) as a2a:
        first = (await a2a.call("SendMessage", said("go", configuration=at_once), to=of_agent("slow")))["task"]
        more = said("then", configuration=at_once, contextId=first["contextId"])
        second = (await a2a.call("SendMessage", more))["task"]
        assert second["id"] != first["id"]
        assert state_of(await a2a.task(second["id"])) == "SUBMITTED"
        await a2a.call("CancelTask", {"id": first["id"]})
        ended = await a2a.until(second["id"], *TERMINAL)
    assert (state_of(ended), words_of(ended)) == ("COMPLETED", "I heard: then")


async def test_the_same_message_again_gets_its_task_while_that_is_at_work(tmp_path: Path) -> None:
    same = said("go", message_id="m1", configuration={"returnImmediately": True})
    async with a2a_gateway(tmp_path) as a2a:
        first = (await a2a.call("SendMessage", same, to=of_agent("slow")))["task"]
        again = (await a2a.call("SendMessage", same, to=of_agent("slow")))["task"]
        assert again["id"] == first["id"]
        await a2a.call("CancelTask", {"id": first["id"]})
        later = (await a2a.call("SendMessage", same, to=of_agent("slow")))["task"]
        assert later["id"] != first["id"]
        await a2a.call("CancelTask", {"id": later["id"]})


async def test_a_failure_is_a_task_that_failed_with_a_message(tmp_path: Path) -> None:
    async with a2a_gateway(tmp_path) as a2a:
        task = (await a2a.call("SendMessage", said("hello"), to=of_agent("breaking")))["task"]
    assert state_of(task) == "FAILED"
    assert task["status"]["message"]["metadata"]["code"] == "model_overloaded"
    assert task["status"]["message"]["parts"][0]["text"]


async def test_one_message_for_two_agents_is_a_task_of_each(tmp_path: Path) -> None:
    same = said("go", message_id="m1", configuration={"returnImmediately": True})
    async with a2a_gateway(tmp_path) as a2a:
        working = (await a2a.call("SendMessage", same, to=of_agent("slow")))["task"]
        other = (await a2a.call("SendMessage", same, to=of_agent("words")))["task"]
        assert other["id"] != working["id"]
        assert words_of(await a2a.until(other["id"], "COMPLETED")) == "I heard: go"
        await a2a.call("CancelTask", {"id": working["id"]})


async def test_the_same_message_twice_at_one_moment_is_one_task(tmp_path: Path) -> None:
    same = said("go", message_id="m1", configuration={"returnImmediately": True})
    async with a2a_gateway(tmp_path) as a2a:
        answers = await asyncio.gather(*(a2a.call("SendMessage", same, to=of_agent("slow")) for _ in range(2)))
        ids = {answer["task"]["id"] for answer in answers}
        for task_id in ids:
            await a2a.call("CancelTask", {"id": task_id})
    assert len(ids) == 1


class Together:
    """A store that tells the first two who look for a task's second run only once both of them have asked."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._both, self._asked = asyncio.Barrier(2), 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def runs_known_as(self, owner: str, run_id: str) -> list[RunRecord]:
        found = await self._store.runs_known_as(owner, run_id)
        if run_id.endswith("_2") and self._asked < 2:
            self._asked += 1
            async with asyncio.timeout(DEADLINE_SECONDS):
                await self._both.wait()
        return [*found]


async def test_of_two_answers_at_one_moment_one_goes_on_with_the_task(tmp_path: Path) -> None:
    parts = parts_with_store(lambda store: cast(Store, Together(store)))
    async with a2a_gateway(tmp_path, parts=parts) as a2a:
        asked = (await a2a.call("SendMessage", said("refund"), to=of_agent("refunder")))["task"]
        both = [said(word, taskId=asked["id"]) for word in ("approve", "deny")]
        answers = await asyncio.gather(*(a2a.answer("SendMessage", params) for params in both))
        task = await a2a.until(asked["id"], *TERMINAL)
    assert sorted("result" in answer for answer in answers) == [False, True]
    assert [answer["error"]["code"] for answer in answers if "error" in answer] == [-32004]
    assert state_of(task) == "COMPLETED"


async def test_a_limit_of_a_key_is_an_error_in_each_binding(tmp_path: Path) -> None:
    key = {"name": "alice", "key": "alice-0123456789abcdef", "limits": {"runs_per_minute": 1}}
    async with a2a_gateway(tmp_path, server={"api_keys": [key]}) as a2a:
        a2a.headers = {"authorization": f"Bearer {key['key']}"}
        await a2a.call("SendMessage", said("hello"))
        answer = await a2a.post({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": said("hello")})
        rest = await a2a.post(said("hello"), to="/a2a/message:send")
    assert (answer.status_code, answer.json()["error"]["code"]) == (200, -32000)
    assert (rest.status_code, rest.json()["error"]["status"]) == (429, "RESOURCE_EXHAUSTED")
    assert answer.headers["retry-after"]
    assert rest.headers["retry-after"]


async def test_a_full_line_of_waiting_runs_says_in_each_binding_when_to_ask_again(tmp_path: Path) -> None:
    at_once, slow = {"returnImmediately": True}, of_agent("slow")
    async with a2a_gateway(tmp_path, server={"max_waiting_runs": 1}) as a2a:
        first, second = [
            (await a2a.call("SendMessage", said("go", configuration=at_once, contextId="full"), to=slow))["task"]
            for _ in range(2)
        ]
        answers = [
            await a2a.post(
                {"jsonrpc": "2.0", "id": 1, "method": method, "params": said("go", contextId="full")}, to=slow
            )
            for method in ("SendMessage", "SendStreamingMessage")
        ] + [await a2a.post(said("go", contextId="full"), to=f"{slow}/message:{verb}") for verb in ("send", "stream")]
        for task in (second, first):
            await a2a.call("CancelTask", {"id": task["id"]})
    assert [answer.status_code for answer in answers] == [200, 200, 429, 429]
    assert [answer.json()["error"]["code"] for answer in answers] == [-32000, -32000, 429, 429]
    assert all(answer.headers.get("retry-after") for answer in answers)
