"""Clients that send their whole history without the thread's ids: what is recognised stays as the thread has it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from gateway.agent import AgentInput
from gateway.errors import ConflictError, InvalidRequestError, TooLargeError
from gateway.history.merging import merge_history, merge_recognised
from gateway.messages import Message, Opaque, ReasoningBlock, Role, TextBlock, ToolCall, ToolResult, new_message_id
from gateway.runs.limits import RunLimits
from gateway.store import Thread
from tests.agent_inputs import agent_input
from tests.loop_runs import adder
from tests.runner_scene import HANGS, OWNER, Scene, agent_of, read, runner_scene

SUMS: list[list[dict[str, Any]]] = [
    [{"reasoning": "I have to add."}, {"tool": "add", "arguments": {"a": 1, "b": 2}}],
    [{"text": "It is 3."}],
]
ECHO: list[list[dict[str, Any]]] = [[{"text": "I heard: {{user}}"}]]


def by_words(stored: Sequence[Message], sent: tuple[Message, ...]) -> tuple[Message, ...]:
    """The longest beginning of what was sent that says what the thread says, as the thread has it."""
    found: list[Message] = []
    hidden: list[Message] = []
    rest = list(sent)
    for message in stored:
        if message.role in ("tool", "reasoning") or not message.text:
            hidden.append(message)
        elif rest and (rest[0].role, rest[0].text) == (message.role, message.text):
            found += [*hidden, message]
            hidden.clear()
            rest.pop(0)
        else:
            break
    return (*found, *rest)


@dataclass
class Client:
    """Remembers roles and words alone."""

    scene: Scene
    said: list[tuple[Role, str]] = field(default_factory=list)
    agent_id: str = "a"
    limits: RunLimits | None = None

    def request(self, run_id: str, **more: Any) -> AgentInput:
        sent = tuple(Message(new_message_id(), role, (TextBlock(words),)) for role, words in self.said)
        minted = frozenset(message.id for message in sent)
        return agent_input("t", run_id, sent, history="replace", minted_ids=minted, recognition=by_words, **more)

    async def ask(self, words: str, run_id: str, **more: Any) -> Thread:
        self.said.append(("user", words))
        await read(await self.scene.start(self.agent_id, self.request(run_id, **more)))
        thread = await self.thread()
        self.said.append(("assistant", thread.messages[-1].text))
        return thread

    async def thread(self) -> Thread:
        await self.scene.until_idle()
        thread: Thread | None = await self.scene.store.load_thread(OWNER, "t")
        assert thread is not None
        return thread


async def test_hidden_turns_stay_when_a_client_sends_only_the_words_again() -> None:
    async with runner_scene(agent_of("a", SUMS, (adder(), "never"))) as scene:
        client = Client(scene)
        first = await client.ask("1 + 2?", "r1")
        assert [message.role for message in first.messages] == ["user", "reasoning", "assistant", "tool", "assistant"]
        second = await client.ask("Thanks.", "r2")
        assert second.messages[:5] == first.messages
        assert [message.text for message in second.messages[5:]] == ["Thanks.", "", "", "", "It is 3."]
        assert second.version == 1


async def test_words_that_differ_are_an_edit_beside_which_the_version_before_stays() -> None:
    async with runner_scene(agent_of("a", SUMS, (adder(), "never"))) as scene:
        client = Client(scene)
        first = await client.ask("1 + 2?", "r1")
        second = await client.ask("Thanks.", "r2")
        client.said[2:] = []
        edited = await client.ask("Thank you so much.", "r3")
        assert edited.version == 2
        assert edited.messages[:5] == first.messages
        assert [message.text for message in edited.messages[5:6]] == ["Thank you so much."]
        page = await scene.runner.messages(OWNER, "t", limit=100, cursor=None, version=1)
        assert page.items == second.messages


async def test_the_same_words_behind_an_edit_are_new_and_take_nothing_from_the_version_before() -> None:
    """Words without ids count as the thread's own elsewhere. Here nobody recognised them."""
    async with runner_scene(agent_of("a", [[{"reasoning": "I add."}, {"text": "It is 3."}]])) as scene:
        client = Client(scene)
        first = await client.ask("1 + 2?", "r1")
        client.said.insert(0, ("user", "Hello."))
        assert (await client.ask("Thanks.", "r2")).version == 2
        page = await scene.runner.messages(OWNER, "t", limit=100, cursor=None, version=1)
        assert page.items == first.messages


async def test_a_request_that_waited_is_recognised_in_the_thread_as_it_is_then() -> None:
    hanging = agent_of("hangs", HANGS)
    waiting = agent_of("a", ECHO, on_concurrent_run="enqueue")
    async with runner_scene(hanging, waiting) as scene:
        client = Client(scene, [("user", "one")])
        viewer = await scene.start("hangs", client.request("r1"))
        client.said += [("assistant", "one two three "), ("user", "two")]
        waits = await scene.start("a", client.request("r2"))
        await asyncio.sleep(0)
        await scene.runner.cancel(OWNER, "r1")
        await read(viewer)
        await read(waits)
        thread = await client.thread()
        assert thread.version == 1
        assert [message.turn_id is None for message in thread.messages] == [True, False, True, False]


async def test_a_request_that_is_cancelled_while_it_waits_leaves_only_what_is_new_of_it() -> None:
    async with runner_scene(
        agent_of("a", [[{"text": "one"}]]), agent_of("hangs", HANGS, on_concurrent_run="enqueue")
    ) as scene:
        client = Client(scene)
        await client.ask("first", "r1")
        client.agent_id = "hangs"
        client.said.append(("user", "second"))
        running = await scene.start("hangs", client.request("r2"))
        client.said[-1] = ("user", "third")
        waiting = await scene.start("hangs", client.request("r3"))
        await scene.runner.cancel(OWNER, "r3")
        await read(waiting)
        await scene.runner.cancel(OWNER, "r2")
        await read(running)
        thread = await client.thread()
        texts = [message.text for message in thread.messages]
        assert texts[:3] == ["first", "one", "second"]
        assert texts[-1] == "third"
        assert texts.count("first") == 1


async def test_the_same_request_again_finds_its_run_though_its_messages_have_other_ids() -> None:
    async with runner_scene(agent_of("a", SUMS, (adder(), "never"))) as scene:
        client = Client(scene)
        await client.ask("1 + 2?", "r1")
        thread = await client.ask("Thanks.", "r2")
        client.said.pop()
        events = await read(await scene.start("a", client.request("r2")))
        assert events[-1] == (await scene.kept_events("r2"))[-1]
        assert await client.thread() == thread
        client.said[-1] = ("user", "Something else.")
        with pytest.raises(ConflictError, match="was begun with another"):
            await scene.start("a", client.request("r2"))


async def test_what_is_recognised_is_not_new_to_the_limits() -> None:
    async with runner_scene(agent_of("a", ECHO)) as scene:
        client = Client(scene)
        await client.ask("x" * 600, "r1")
        limits = RunLimits(max_input_bytes=1000)
        client.said.append(("user", "y" * 600))
        (await scene.runner.start(OWNER, "a", client.request("r2"), limits=limits)).close()
        await scene.until_idle()
        client.said = [("user", "z" * 600), ("assistant", "w" * 600), ("user", "again")]
        with pytest.raises(TooLargeError):
            await scene.runner.start(OWNER, "a", client.request("r3"), limits=limits)


async def test_a_recognition_may_refuse_a_request_before_anything_of_it_is_kept() -> None:
    def refuses(stored: Sequence[Message], sent: tuple[Message, ...]) -> tuple[Message, ...]:
        raise InvalidRequestError("there is no such call", code="unknown_call")

    async with runner_scene(agent_of("a", ECHO)) as scene:
        given = agent_input("t", "r", (Message("m", "user", (TextBlock("hi"),)),), recognition=refuses)
        with pytest.raises(InvalidRequestError):
            await scene.start("a", given)
        assert await scene.store.load_thread(OWNER, "t") is None


def test_the_threads_own_messages_keep_what_only_the_gateway_knows() -> None:
    sealed = Opaque("p", "m", "signature", "secret")
    stored = (
        Message("u", "user", (TextBlock("hi"),), metadata={"from": "elsewhere"}),
        Message("r", "reasoning", (ReasoningBlock("hm", 0, sealed),), turn_id="t1"),
        Message("c", "assistant", (ToolCall("c1", "add", "{}", 1),), turn_id="t1"),
        Message("o", "tool", (ToolResult("c1", (TextBlock("3"),)),), turn_id="t1"),
        Message("a", "assistant", (TextBlock("3", 0),), turn_id="t2"),
    )
    new = Message("n", "user", (TextBlock("and?"),))
    assert merge_recognised(stored, (*stored, new)) == (*stored, new)
    assert merge_recognised(stored, (*stored[:4], new)) == (*stored[:4], new)
    claimed = Message("x", "assistant", (TextBlock("I said so"),), turn_id="t9")
    assert merge_recognised(stored, (*stored[:4], claimed))[-1].turn_id is None
    assert merge_history(stored, (*stored, new)) == (*stored, new)
