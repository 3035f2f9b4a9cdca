"""What is sent to a server that holds a conversation, and from where it goes on when the history took another way."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gateway.messages import ContentBlock, Message, TextBlock, ToolCall, ToolResult, new_id
from gateway.model_state import (
    KEPT_CONVERSATIONS,
    KEPT_NAMES,
    KEPT_RESPONSES,
    Chain,
    Continuation,
    Conversation,
    HeldResponse,
    ModelState,
    conversation_of_call,
    decode_states,
    encode_states,
)
from tests.word_samples import REPEATABLE, any_text

HOLDER = "openai/v1/responses gpt"


def user(text: str) -> Message:
    return Message(new_id("msg"), "user", (TextBlock(text),))


def answer(turn_id: str, text: str = "yes", *calls: str) -> Message:
    blocks: tuple[ContentBlock, ...] = (TextBlock(text), *(ToolCall(call_id, "add", "{}") for call_id in calls))
    return Message(new_id("msg"), "assistant", blocks, turn_id=turn_id)


def result(call_id: str, text: str = "3") -> Message:
    return Message(new_id("msg"), "tool", (ToolResult(call_id, (TextBlock(text),)),), turn_id="t1")


def conversation(state: ModelState | None = None, name: str = "default", holder: str = HOLDER) -> Conversation:
    return Conversation(state or {}, name, holder)


def gone_on_from(found: Continuation | None) -> tuple[str, tuple[Message, ...]]:
    assert found is not None
    return found.response_id, found.messages


def answered(*turns: tuple[Message, ...]) -> tuple[Conversation, list[Message]]:
    """A conversation after each turn's messages were answered by `t1`, `t2`, ... and the history that came of it."""
    chain, history, continued = conversation(), list[Message](), None
    for number, messages in enumerate(turns, 1):
        history += messages
        chain.completed(history, f"t{number}", f"resp_{number}", continued, 0.0)
        history.append(answer(f"t{number}"))
        continued = f"resp_{number}"
    return chain, history


def test_the_first_request_has_nothing_to_continue() -> None:
    assert conversation().continuation([user("hello")]) is None


def test_the_next_turn_sends_the_new_user_message_alone() -> None:
    chain, history = answered((user("one"),))
    new = user("two")
    assert gone_on_from(chain.continuation([*history, new])) == ("resp_1", (new,))


def test_within_a_tool_loop_only_the_results_are_sent() -> None:
    chain, question = conversation(), user("add")
    chain.completed([question], "t1", "resp_1", None, 0.0)
    results = (result("c1"), result("c2"))
    view = [question, answer("t1", "", "c1", "c2"), *results]
    assert gone_on_from(chain.continuation(view)) == ("resp_1", results)


def test_ids_that_a_client_does_not_send_are_no_difference() -> None:
    chain, history = answered((user("one"),))
    again = [replace(history[0], id=new_id("msg")), history[1], user("two")]
    assert (found := chain.continuation(again)) is not None
    assert found.response_id == "resp_1"


def test_an_edited_message_goes_back_to_the_response_before_it() -> None:
    chain, history = answered((user("one"),), (user("two"),), (user("three"),))
    edited = user("another two")
    assert gone_on_from(chain.continuation([*history[:2], edited])) == ("resp_1", (edited,))


def test_an_edited_first_message_begins_anew() -> None:
    chain, history = answered((user("one"),), (user("two"),))
    assert chain.continuation([user("other"), *history[1:], user("three")]) is None


def test_a_regenerated_answer_goes_back_to_the_response_before_its_question() -> None:
    chain, history = answered((user("one"),), (user("two"),))
    assert gone_on_from(chain.continuation(history[:3])) == ("resp_1", (history[2],))


def test_what_was_left_behind_by_another_way_is_forgotten() -> None:
    chain, history = answered((user("one"),), (user("two"),))
    other = [*history[:2], user("another two")]
    chain.completed(other, "t9", "resp_9", "resp_1", 0.0)
    new = user("three")
    assert gone_on_from(chain.continuation([*history, new])) == ("resp_1", (*history[2:], new))


def test_an_answer_that_was_cut_off_is_not_continued() -> None:
    chain, history = answered((user("one"),), (user("two"),))
    history[-1] = replace(history[-1], incomplete=True)
    assert (found := chain.continuation([*history, user("three")])) is not None
    assert found.response_id == "resp_1"


def test_a_history_without_anything_new_goes_back_one_response() -> None:
    chain, history = answered((user("one"),), (user("two"),))
    assert gone_on_from(chain.continuation(history)) == ("resp_1", tuple(history[2:]))


def test_a_conversation_that_was_sent_anew_has_forgotten_the_lost_one() -> None:
    chain, history = answered((user("one"),), (user("two"),))
    history.append(user("three"))
    chain.completed(history, "t3", "resp_3", None, 0.0)
    history.append(answer("t3"))
    new = user("four")
    assert gone_on_from(chain.continuation([*history, new])) == ("resp_3", (new,))
    assert chain.continuation([*history[:4], user("another three")]) is None


def test_another_server_knows_nothing_of_the_chain() -> None:
    chain, history = answered((user("one"),))
    elsewhere = conversation(chain.state, holder="openai/v1/responses other")
    assert elsewhere.continuation([*history, user("two")]) is None
    assert elsewhere.state == {}


def test_conversations_of_other_names_are_apart() -> None:
    chain, history = answered((user("one"),))
    billing = conversation(chain.state, "billing")
    assert billing.continuation([*history, user("two")]) is None
    billing.completed([user("bill")], "t7", "resp_7", None, 1.0)
    assert {name: each.responses[-1].response_id for name, each in billing.state.items()} == {
        "default": "resp_1",
        "billing": "resp_7",
    }


def test_only_so_much_is_remembered() -> None:
    chain, _ = answered(*((user(str(number)),) for number in range(KEPT_RESPONSES + 5)))
    assert len(chain.state["default"].responses) == KEPT_RESPONSES
    state: ModelState = {}
    for number in range(KEPT_CONVERSATIONS + 3):
        each = conversation(state, f"c{number}")
        each.completed([user("x")], "t", "r", None, 0.0)
        state = each.state
    assert len(state) == KEPT_CONVERSATIONS
    assert "c0" not in state
    assert f"c{KEPT_CONVERSATIONS + 2}" in state


def test_everything_that_a_server_may_hold_is_remembered_by_its_name() -> None:
    """Whole or not, gone on from or left behind: the thread's deletion deletes it there."""
    chain, history = answered((user("one"),), (user("two"),), (user("three"),))
    chain.completed([*history[:2], user("two, edited")], "t4", "resp_4", "resp_1", 0.0)
    chain.kept("resp_4")
    chain.kept("cut off")
    held = conversation(chain.state).state["default"]
    assert [response.response_id for response in held.responses] == ["resp_1", "resp_4"]
    assert held.left == ("resp_2", "resp_3", "cut off")
    assert held.names == ("resp_2", "resp_3", "cut off", "resp_1", "resp_4")


def test_what_turns_out_to_be_whole_is_not_left() -> None:
    chain = conversation()
    chain.kept("resp_1")
    chain.completed([user("one")], "t1", "resp_1", None, 0.0)
    assert chain.state["default"].names == ("resp_1",)


def test_a_conversation_of_which_nothing_was_whole_is_remembered_by_name() -> None:
    chain = conversation()
    chain.kept("cut off")
    assert chain.continuation([user("one"), answer("t1"), user("two")]) is None
    assert chain.state["default"] == Chain(HOLDER, (), ("cut off",))


def test_names_are_remembered_where_responses_and_conversations_are_forgotten() -> None:
    chain, _ = answered(*((user(str(number)),) for number in range(KEPT_RESPONSES + 5)))
    assert chain.state["default"].names == tuple(f"resp_{number}" for number in range(1, KEPT_RESPONSES + 6))
    state: ModelState = {}
    for number in range(KEPT_CONVERSATIONS + 3):
        each = conversation(state, f"c{number}")
        each.completed([user("x")], "t", f"r{number}", None, 0.0)
        state = each.state
    names = {name for chain in state.values() for name in chain.names}
    assert names == {f"r{number}" for number in range(KEPT_CONVERSATIONS + 3)}


def test_so_many_names_are_remembered() -> None:
    chain = conversation()
    for number in range(KEPT_NAMES + 7):
        chain.kept(str(number))
    assert len(chain.state["default"].left) == KEPT_NAMES
    assert chain.state["default"].left[-1] == str(KEPT_NAMES + 6)


def test_a_call_tells_the_conversation_that_it_was_made_in() -> None:
    call, other = ToolCall("c1", "refund", "{}"), ToolCall("c2", "refund", "{}")
    messages = (Message("m1", "assistant", (call,), conversation="billing"), Message("m2", "assistant", (other,)))
    assert [conversation_of_call(messages, each) for each in (call, other, ToolCall("c3", "x", "{}"))] == [
        "billing", "default", "default",
    ]  # fmt: skip


def test_what_was_kept_before_names_were_is_read() -> None:
    old = b'{"a":{"default":{"holder":"h","responses":[["r",1,"d","t",0.0]]}}}'
    assert decode_states(old) == {"a": {"default": Chain("h", (HeldResponse("r", 1, "d", "t", 0.0),))}}


responses = st.builds(
    HeldResponse, any_text, st.integers(0, 10), any_text, any_text, st.floats(0, 2e9, allow_nan=False)
)
chains = st.builds(
    Chain, any_text, st.lists(responses, max_size=3).map(tuple), st.lists(any_text, max_size=3).map(tuple)
)


@REPEATABLE
@given(st.dictionaries(any_text, st.dictionaries(any_text, chains, max_size=3), max_size=2))
def test_what_is_kept_is_read_back(states: dict[str, dict[str, Chain]]) -> None:
    assert decode_states(encode_states(states)) == states
