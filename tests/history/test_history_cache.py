"""What is known of a thread changes no result: everything is as it is when nothing is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.agent import AgentInput, InterruptAnswer
from gateway.bedrock.converse import call_id as wire_call_id
from gateway.bedrock.converse_request import converse_request
from gateway.bedrock.families import family_of
from gateway.history.cache import HistoryCache, SettledView, own_calls
from gateway.history.merging import merge_history
from gateway.history.model_view import model_view
from gateway.messages import (
    Base64Source,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    Message,
    ReasoningBlock,
    TextBlock,
    ToolCall,
    ToolResult,
    UrlSource,
)
from gateway.model import ModelRequest
from gateway.openai.chat_completions import dialect_of
from gateway.openai.chat_request import chat_request
from gateway.runs.endings import input_digest, without_claims
from gateway.store import Thread
from gateway.tool import Tool
from tests.agent_inputs import agent_input
from tests.word_samples import REPEATABLE

DIALECT = dialect_of("https://api.deepseek.com/v1")

FAMILIES = {
    model_id: family_of(model_id)
    for model_id in (
        "anthropic.claude-sonnet-4-5-20250929-v1:0",
        "amazon.nova-pro-v1:0",
        "mistral.mistral-7b-instruct-v0:2",
    )
}
PICTURE = ImageBlock(Base64Source("iVBORw0KGgo=", "image/png"))
REPORT = DocumentBlock(Base64Source("JVBERi0=", "application/pdf"), "report.pdf")
S3 = DocumentBlock(UrlSource("s3://bucket/report.pdf"))

# Few ids, so that they meet.
IDS = st.sampled_from([f"m{n}" for n in range(14)])
CALLS = st.sampled_from([f"c{n}" for n in range(5)])
TURNS = st.sampled_from([f"t{n}" for n in range(4)])
TEXTS = st.sampled_from(["", " ", "hello", "grüß 👋"])


def call_blocks(indexed: bool) -> st.SearchStrategy[ToolCall]:
    return st.builds(
        ToolCall, CALLS, st.sampled_from(["add", "paint"]), st.just("{}"), st.integers(0, 3) if indexed else st.just(-1)
    )


def words(role: st.SearchStrategy[str]) -> st.SearchStrategy[Message]:
    return st.builds(lambda i, r, t: Message(i, r, (TextBlock(t),)), IDS, role, TEXTS)


def results(turn: st.SearchStrategy[str | None]) -> st.SearchStrategy[Message]:
    block: st.SearchStrategy[ContentBlock] = st.one_of(
        st.builds(TextBlock, TEXTS), st.sampled_from([ImageBlock(UrlSource("https://x.test/a.png")), PICTURE, REPORT])
    )
    return st.builds(
        lambda i, call, content, t: Message(i, "tool", (ToolResult(call, (content,)),), turn_id=t),
        IDS,
        CALLS,
        block,
        turn,
    )


CLIENTS = st.one_of(
    words(st.sampled_from(["user", "user", "user", "system", "developer", "assistant"])),
    st.builds(lambda i, call: Message(i, "assistant", (call,)), IDS, call_blocks(False)),
    st.builds(lambda i, block: Message(i, "user", (block,)), IDS, st.sampled_from([PICTURE, REPORT, S3])),
    results(st.none()),
)
SERVERS = st.one_of(
    st.builds(lambda i, t, turn: Message(i, "assistant", (TextBlock(t, 0),), turn_id=turn), IDS, TEXTS, TURNS),
    st.builds(lambda i, call, turn: Message(i, "assistant", (call,), turn_id=turn), IDS, call_blocks(True), TURNS),
    st.builds(lambda i, turn: Message(i, "reasoning", (ReasoningBlock("hm", 0),), turn_id=turn), IDS, TURNS),
    results(TURNS),
)


@st.composite
def requests(draw: st.DrawFn) -> list[tuple[tuple[Message, ...], list[Message]]]:
    """What a client sends, one request after the other, and what the server adds to the thread each time."""
    held: list[Message] = []
    rounds = []
    produced: list[Message] = []
    fresh = iter(range(1000))
    for _ in range(draw(st.integers(1, 6))):
        # It has what the server said, in its own form, or a part of it.
        held += [replace(message, turn_id=None) for message in produced if draw(st.integers(0, 9))]
        for _ in range(draw(st.integers(0, 3))):
            edit = draw(st.integers(0, 5))
            place = draw(st.integers(0, max(0, len(held) - 1)))
            if edit == 0 and held:
                del held[place:]
            elif edit == 1 and held:
                held[place] = replace(held[place], content=(TextBlock("edited"),))
            elif edit == 2 and held:
                held.insert(place, held.pop())
            else:
                held.append(draw(CLIENTS))
        held.append(Message(f"question{next(fresh)}", "user", (TextBlock("go on"),)))
        produced = draw(st.lists(SERVERS, max_size=4))
        if draw(st.booleans()):  # as it really is: nothing of it was there before
            stamp = next(fresh)
            produced = [_renamed(message, stamp, place) for place, message in enumerate(produced)]
        rounds.append((tuple(held), produced))
    return rounds


def _renamed(message: Message, stamp: int, place: int) -> Message:
    content = tuple(
        replace(block, call_id=f"{block.call_id}-{stamp}") if isinstance(block, ToolCall | ToolResult) else block
        for block in message.content
    )
    return replace(message, id=f"{message.id}-{stamp}-{place}", turn_id=f"{message.turn_id}-{stamp}", content=content)


def _input(sent: tuple[Message, ...], known: HistoryCache | None) -> AgentInput:
    return agent_input("t", "r", sent, answers=(InterruptAnswer("i", "resolved", approved=True),), history_cache=known)


def _equal_requests(view: Sequence[Message], known: HistoryCache, messages: tuple[Message, ...]) -> None:
    plain = ModelRequest("turn", tuple(view), "Be brief.")
    seen, settled = known.view(messages)
    assert seen == view
    assert chat_request(replace(plain, settled=settled), "m", DIALECT) == chat_request(plain, "m", DIALECT)
    for model_id, family in FAMILIES.items():
        assert converse_request(replace(plain, settled=settled), model_id, family) == converse_request(
            plain, model_id, family
        )
    shortened = replace(plain, messages=tuple(view[1:]))
    assert chat_request(replace(shortened, settled=settled), "m", DIALECT) == chat_request(shortened, "m", DIALECT)


@pytest.mark.thorough
@settings(REPEATABLE, max_examples=400)
@given(requests())
def test_whatever_comes_after_whatever_all_is_as_if_nothing_were_known(
    rounds: list[tuple[tuple[Message, ...], list[Message]]],
) -> None:
    known, stored, tools = HistoryCache(), tuple[Message, ...](), dict[str, Tool]({"add": None})  # type: ignore[dict-item]
    for given_messages, produced in rounds:
        assert input_digest(_input(given_messages, known)) == input_digest(_input(given_messages, None))
        thread = Thread("o", "t", "a", 0, 0, messages=stored)
        sent = without_claims(given_messages, thread, tools)
        assert without_claims(given_messages, thread, tools, known) == sent
        merged = merge_history(stored, sent)
        assert known.merge(stored, sent) == merged
        assert known.own_calls(merged) == own_calls(merged)
        _equal_requests(model_view(merged), known, merged)
        stored = (*merged, *produced)
        _equal_requests(model_view(stored), known, stored)  # the second model call of a run
        assert known.own_calls(stored) == own_calls(stored)


def test_calls_of_a_history_that_was_not_merged_are_collected_once() -> None:
    known, stored = HistoryCache(), tuple[Message, ...]()
    for number in range(3):
        question, answer = _turn(number)
        stored = (*stored, *question, *answer)
        calls = known.own_calls(stored)
        assert calls == own_calls(stored)
        assert known.own_calls(stored) is calls
        assert known.own_calls((*stored, *_turn(9)[0])) is calls, "a question calls nothing"
    assert known.own_calls(stored[:4]) == own_calls(stored[:4])


def _turn(number: int) -> tuple[list[Message], list[Message]]:
    """A question, and an answer with a backend call and its result."""
    name = f"turn{number}"
    call = ToolCall(f"call{number}", "add", "{}", 0)
    return [Message(f"u{number}", "user", (TextBlock("question"),))], [
        Message(f"a{number}", "assistant", (call,), turn_id=name),
        Message(f"r{number}", "tool", (ToolResult(call.call_id, (TextBlock("5"),)),), turn_id=name),
        Message(f"b{number}", "assistant", (TextBlock("done", 0),), turn_id=f"{name}b"),
    ]


def test_a_thread_that_grows_as_threads_do_keeps_what_was_made_of_it() -> None:
    known, stored, held = HistoryCache(), tuple[Message, ...](), list[Message]()
    forms: list[object] = []
    for number in range(200):
        question, answer = _turn(number)
        held += question
        merged = known.merge(stored, tuple(held))
        assert merged == merge_history(stored, held)
        assert all(one is other for one, other in zip(merged, stored, strict=False))
        view, settled = known.view(merged)
        assert settled is not None
        assert view == model_view(merged)
        assert len(settled.messages) == len(view) - 1, "all but the last question stays as it is"
        forms.append(settled.forms)
        stored = (*merged, *answer)
        held += [replace(message, turn_id=None) for message in answer]
    assert all(each is forms[0] for each in forms), "what providers keep is handed on"


def _asked_all(messages: tuple[Message, ...], known: HistoryCache) -> SettledView:
    """The messages as requests of both providers, beside the plain way; gives what is settled."""
    _equal_requests(model_view(messages), known, messages)
    settled = known.view(messages)[1]
    assert settled is not None
    return settled


def test_providers_write_only_what_is_new() -> None:
    known, messages = HistoryCache(), tuple[Message, ...]()
    for number in range(40):
        _, answer = _turn(number)
        messages += (Message(f"doc{number}", "user", (TextBlock("read this"), REPORT, PICTURE)),)
        _asked_all(messages, known)
        messages += tuple(answer)
    settled = _asked_all((*messages, QUESTION), known)
    forms = sorted(settled.forms.items(), key=repr)
    chat, converse = forms[-1][1], [form for _, form in forms[:-1]]
    assert len(converse) == 2, "a family without a system prompt puts it into the first question"
    assert len(chat.written) == len(settled.messages)
    assert all(form.turns[-1]["role"] == "assistant" for form in converse), (
        "documents, pictures and tools are no reason to begin anew"
    )
    names = [
        block["document"]["name"] for turn in converse[0].turns for block in turn["content"] if "document" in block
    ]
    assert len(set(names)) == len(names) > 30


def test_two_ids_that_are_one_on_the_wire_are_told_apart_as_ever() -> None:
    long_id = "c" * 100
    known, messages = HistoryCache(), tuple[Message, ...]()
    for number, call_id in enumerate([long_id, "other", wire_call_id(long_id)]):
        call, turn = ToolCall(call_id, "add", "{}", 0), f"t{number}"
        messages += (
            Message(f"q{number}", "user", (TextBlock("question"),)),
            Message(f"a{number}", "assistant", (call,), turn_id=turn),
            Message(f"r{number}", "tool", (ToolResult(call_id, (TextBlock(turn),)),), turn_id=turn),
            Message(f"b{number}", "assistant", (TextBlock("done", 0),), turn_id=f"{turn}b"),
        )
        _asked_all((*messages, QUESTION), known)


QUESTION = Message("u1", "user", (TextBlock("question"),))
AGAIN = Message("u2", "user", (TextBlock("and?"),))
THIRD = Message("u3", "user", (TextBlock("now?"),))
CALLING = Message("a1", "assistant", (ToolCall("c1", "add", "{}", 0), ToolCall("c2", "add", "{}", 1)), turn_id="t1")


def _result(message_id: str, call_id: str, turn: str | None = None) -> Message:
    return Message(message_id, "tool", (ToolResult(call_id, (TextBlock(message_id),)),), turn_id=turn)


def _sent(*messages: Message) -> tuple[Message, ...]:
    return tuple(replace(message, turn_id=None) for message in messages)


def _same_as_unknown(*rounds: tuple[tuple[Message, ...], tuple[Message, ...]]) -> tuple[Message, ...]:
    """Each round: what is sent, then what the server adds. Gives the thread after the last one's input."""
    known, stored, merged = HistoryCache(), tuple[Message, ...](), tuple[Message, ...]()
    for sent, produced in rounds:
        merged = known.merge(stored, sent)
        assert merged == merge_history(stored, sent)
        assert known.view(merged)[0] == model_view(merged)
        stored = (*merged, *produced)
    return merged


@pytest.mark.parametrize("seen", [True, False])
def test_a_result_that_comes_in_a_later_run_joins_its_answer(seen: bool) -> None:
    first, second = _result("r1", "c1", "t1"), _result("r2", "c2", "t1")
    begun = _sent(QUESTION, CALLING, first, AGAIN)
    last = (*begun, *(_sent(second) if seen else ()), THIRD)
    merged = _same_as_unknown(((QUESTION,), (CALLING, first)), (begun, (second,)), (last, ()))
    assert merged == (QUESTION, CALLING, first, second, AGAIN, THIRD)


def test_a_clients_result_comes_too_late_for_a_call_that_was_answered_long_ago() -> None:
    first = _result("r1", "c1", "t1")
    begun = _sent(QUESTION, CALLING, first, AGAIN)
    merged = _same_as_unknown(
        ((QUESTION,), (CALLING, first)), (begun, ()), ((*begun, _result("mine", "c1"), THIRD), ())
    )
    assert "mine" not in {message.id for message in merged}


def test_a_clients_result_that_was_dropped_counts_once_the_servers_is_gone() -> None:
    first, mine = _result("r1", "c1", "t1"), _result("mine", "c1")
    dropped = (QUESTION, mine, AGAIN)
    merged = _same_as_unknown(((QUESTION,), (CALLING, first)), (dropped, ()), ((*dropped, THIRD), ()))
    assert mine in merged


def test_an_id_that_comes_again_counts_where_it_stood_first() -> None:
    again = replace(QUESTION, content=(TextBlock("another"),))
    merged = _same_as_unknown(((QUESTION, AGAIN), ()), ((QUESTION, AGAIN, again, THIRD), ()))
    assert merged == (again, AGAIN, THIRD)


def test_words_that_follow_words_once_the_question_between_them_is_gone_are_one_answer() -> None:
    one, other = (Message(name, "assistant", (TextBlock(name),)) for name in ("one", "other"))
    view = _same_as_unknown(((QUESTION, one, AGAIN), ()), ((QUESTION, one, other, THIRD), ()))
    assert len(model_view(view)) == 3
