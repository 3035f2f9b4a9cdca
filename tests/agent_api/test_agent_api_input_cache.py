"""What is kept of a session's last request: it makes the next one cheaper, and changes nothing else."""

from __future__ import annotations

import cProfile
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any, Final

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.agent_api.fields import AgentApiFields
from gateway.agent_api.input_messages import ReadInput, SaidMessage, read_input
from gateway.agent_api.recognition import recognise
from gateway.agent_api.start import input_cache
from gateway.messages import Message, TextBlock, ToolCall, ToolResult, new_message_id
from gateway.protocol.time_sharing import TimeSharing
from tests.agent_api_scene import AgentApiScene, agent_api_gateway, said, told, words_of
from tests.waiting import at_once
from tests.word_samples import REPEATABLE

READER: Final = str(Path("gateway", "agent_api", "input_messages.py"))
CALL: Final = told("function_call", call_id="c1", name="look", arguments="{}")
OUTPUT: Final = told("function_call_output", call_id="c1", output="blue")
QUESTION: Final = told("mcp_approval_request", id="i1", call_id="c1", name="look", arguments="{}")
ANSWER: Final = told("mcp_approval_response", approval_request_id="i1", approve=True)
TALK: Final = [said("one", id="m1"), said("1", "assistant"), said("two"), CALL, OUTPUT, said("2", "assistant")]


def read(items: Sequence[Any], known: ReadInput | None = None) -> tuple[ReadInput, list[str]]:
    """What is read of an input, and the places of what is wrong in it."""
    fields = AgentApiFields({"input": [*items]})
    found = read_input(fields, known)
    return found, [problem.pointer for problem in fields.problems]


def essence(found: ReadInput) -> list[Any]:
    """What was read, without the ids that were made here."""
    return [
        (each.at, [(message.role, message.content) for message in each.messages])
        if isinstance(each, SaidMessage)
        else each
        for each in found.read
    ]


@pytest.mark.parametrize(
    "now",
    [
        TALK,
        [*TALK, said("three")],
        [*TALK, CALL, OUTPUT, QUESTION, ANSWER],
        [*TALK, said("three", id="m1")],
        TALK[:-1],
        [said("another"), *TALK[1:], said("three")],
        [said("Be kind.", "system"), *TALK, said("three")],
        [*TALK[:1], *TALK, said("three")],
        [*TALK, {"role": "robot"}, 5],
        [],
    ],
)
def test_an_input_is_read_the_same_whatever_was_read_before(now: list[Any]) -> None:
    known, _ = read(TALK)
    (with_it, wrong), (alone, wrong_alone) = read(now, known), read(now)
    assert essence(with_it) == essence(alone)
    assert wrong == wrong_alone
    assert (with_it.calls, with_it.outputs, with_it.counted) == (alone.calls, alone.outputs, alone.counted)
    ids = [message.id for message in with_it.messages]
    assert len(ids) == len(set(ids)) == len(with_it.ids)


@pytest.mark.parametrize(("before", "now"), [(1, True), (1, 1.0), (0, False), ({"a": 1, "b": 2}, {"b": 2, "a": 1})])
def test_data_that_python_takes_for_the_same_are_read_as_they_are(before: Any, now: Any) -> None:
    first, second = ({"role": "user", "content": [{"type": "data", "data": {"on": value}}]} for value in (before, now))
    known, _ = read([first, said("1", "assistant")])
    found, _ = read([second, said("1", "assistant"), said("two")], known)
    assert found.messages[0].text == orjson.dumps({"on": now}).decode()


def test_messages_that_were_read_are_not_read_again() -> None:
    known, _ = read(TALK)
    now, _ = read([*TALK, said("three")], known)
    assert [one is other for one, other in zip(now.read, known.read, strict=False)] == [True] * len(known.read)
    assert [one is other for one, other in zip(now.messages, known.messages, strict=False)] == [True] * 6


# --- recognition


def answer(number: int, *, hidden: bool) -> list[Message]:
    turn = f"turn {number}"
    call = Message(new_message_id(), "assistant", (ToolCall(f"call {number}", "add", "{}"),), turn_id=turn)
    result = Message(new_message_id(), "tool", (ToolResult(f"call {number}", (TextBlock("5"),)),), turn_id=turn)
    end = Message(new_message_id(), "assistant", (TextBlock(f"answer {number}"),), turn_id=f"{turn} end")
    return [call, result, end] if hidden else [end]


def changed(items: Sequence[Any], how: str, number: int) -> list[Any]:
    """What a client sends of a talk next, before its new question."""
    match how:
        case "again":
            return [*items[:-2]]
        case "edit":
            return [*items[:-2], said(f"edited {number}"), *items[-1:]]
        case "window":
            return [*items[-3:]]
        case "told":
            return [said(f"Be kind {number}.", "system"), *items]
        case "numbered":
            return [{**item, "id": f"m{place}"} for place, item in enumerate(items)]
        case "new":
            return []
        case _:
            return [*items]


WALKS: Final = st.lists(
    st.tuples(
        st.booleans(),
        st.sampled_from(
            ["on", "on", "on", "again", "edit", "window", "told", "numbered", "new", "elsewhere", "silent"]
        ),
    ),
    max_size=8,
)


def seen(messages: Iterable[Message], stored: Iterable[Message]) -> list[Any]:
    """Messages, those of the thread by their ids."""
    own = {message.id for message in stored}
    return [(message.role, message.content, message.id if message.id in own else "new") for message in messages]


@REPEATABLE
@given(WALKS)
def test_a_session_is_the_same_with_and_without_what_was_known_of_its_last_request(
    walk: list[tuple[bool, str]],
) -> None:
    cache = input_cache()
    stored: tuple[Message, ...] = ()
    items: list[Any] = [said(f"{place}", "assistant" if place % 2 else "user") for place in range(8)]
    for number, (hidden, how) in enumerate(walk):
        items = [*changed(items, how, number), said(f"question {number}")]
        if how == "elsewhere":
            stored = (
                *stored,
                Message(new_message_id(), "user", (TextBlock("Psst."),)),
                *answer(-number, hidden=hidden),
            )
        body: Any = {"session_id": "s", "input": items}
        content = orjson.dumps(body)
        known = cache.find("o", "s")
        assert at_once(known.parsed(content, "o", TimeSharing())) == body
        with_it, alone = read(items, known.read)[0], read(items)[0]
        cache.keep("o", "s", known, with_it, body, content)
        how_recognised = partial(recognise, spare_ids=defaultdict(new_message_id))
        result = known.recognise(stored, with_it.messages, how_recognised)
        assert seen(result, stored) == seen(recognise(stored, alone.messages, spare_ids=defaultdict(str)), stored)
        assert known.recognise((*stored,), with_it.messages, how_recognised) is result
        assert len({message.id for message in result}) == len(result)
        stored = result
        if how != "silent":
            stored = (*stored, *answer(number, hidden=hidden))
            items = [*items, said(f"answer {number}", "assistant")]


# --- over HTTP


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[AgentApiScene]:
    async with agent_api_gateway(tmp_path) as scene:
        yield scene


def a_talk(messages: int) -> list[Any]:
    return [said(f"{place}", "assistant" if place % 2 else "user") for place in range(messages)]


async def calls_of_the_reader(scene: AgentApiScene, items: Sequence[Any]) -> int:
    """Send an input; how many functions of the module that reads messages were called for it."""
    with cProfile.Profile() as profile:
        await scene.whole(*items, agent="words", session_id="s1")
    return sum(
        entry.callcount
        for entry in profile.getstats()
        if isinstance(entry.code, CodeType) and entry.code.co_filename.endswith(READER)
    )


async def test_a_history_that_is_sent_again_is_not_read_again(scene: AgentApiScene) -> None:
    items = [*a_talk(200), said("and now?")]
    first = await calls_of_the_reader(scene, items)
    items += [said("words", "assistant"), said("and then?")]
    again = await calls_of_the_reader(scene, items)
    assert first >= len(items) > again


async def test_a_change_in_a_history_that_is_sent_again_counts(scene: AgentApiScene) -> None:
    items = [*a_talk(20), said("and now?")]
    first = await scene.whole(*items, agent="words", session_id="s1")
    items += [said(words_of(first), "assistant"), said("and then?")]
    await scene.whole(*items, agent="words", session_id="s1")
    items[10] = said("changed")
    await scene.whole(*items, agent="words", session_id="s1")
    stored = (await scene.gateway.client.get("/threads/s1/messages"))["messages"]
    words = [message["content"] for message in stored if message["role"] == "user"]
    assert words == [
        *(f"{place}" for place in range(0, 10, 2)),
        "changed",
        *(f"{place}" for place in range(12, 20, 2)),
        "and now?",
        "and then?",
    ]
