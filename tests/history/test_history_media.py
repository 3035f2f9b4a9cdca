"""Media that models made: no client sends them back, and they stay in the thread all the same."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.history.cache import HistoryCache
from gateway.history.merging import Unseen, merge_history, unseen_messages
from gateway.history.model_view import model_view
from gateway.messages import Base64Source, ImageBlock, Message, TextBlock, ToolCall
from tests.history.test_history import answer, call, echo, ids, thought, user

PNG = Base64Source("aGk=", "image/png")


def picture(message_id: str, turn: str, index: int = -1) -> Message:
    return Message(message_id, "assistant", (ImageBlock(PNG, index=index),), turn_id=turn)


def said(messages: Sequence[Message]) -> list[Message]:
    return [message for message in echo(messages) if not message.is_medium]


TALK = (user("u1"), answer("a1", TextBlock("see"), turn="T1"), picture("p1", "T1"), user("u2"), picture("p2", "T2"))


def test_media_stay_though_no_client_sends_them() -> None:
    assert merge_history(TALK, [*said(TALK), user("u3")]) == (*TALK, user("u3"))
    assert merge_history(TALK[4:], [user("u3")]) == (TALK[4], user("u3"))


def test_media_that_follow_the_last_message_sent_are_wanted_anew() -> None:
    assert merge_history(TALK, said(TALK)) == TALK[:4]
    assert merge_history(TALK[:3], said(TALK[:1])) == TALK[:1]


def test_media_go_with_the_question_that_they_answer() -> None:
    assert ids(merge_history(TALK, [user("u1"), user("u3")])) == ["u1", "u3"]


def test_media_whose_thoughts_alone_are_sent_stay() -> None:
    thread = (user("u"), thought("r", turn="T", index=0), picture("p", "T", 1))
    assert merge_history(thread, [*said(thread), user("u2")]) == (*thread, user("u2"))


def test_media_are_never_unseen() -> None:
    assert unseen_messages(TALK, "u2", said(TALK)) is None
    assert unseen_messages(TALK, "a1", said(TALK[:3])) == Unseen("a1", (TALK[3],))


def test_a_medium_has_its_place_among_the_blocks_of_its_answer() -> None:
    words = answer("a", TextBlock("see", 0), call("c", 2), turn="T")
    (shown, _) = model_view((words, picture("p", "T", 1)))
    assert [type(block) for block in shown.content] == [TextBlock, ImageBlock, ToolCall]


def test_what_is_known_of_the_thread_changes_nothing() -> None:
    cache = HistoryCache()
    for stored, sent in (
        (TALK[:1], [user("u1")]),
        (TALK[:3], [*said(TALK[:3]), user("u2")]),
        (TALK, [*said(TALK), user("u3")]),
        ((*TALK, user("u3"), picture("p3", "T3")), [*said(TALK), user("u3")]),
        ((*TALK, user("u3"), picture("p4", "T4")), [*said(TALK), user("u3"), user("u4")]),
    ):
        assert cache.merge(tuple(stored), tuple(sent)) == merge_history(stored, sent)
