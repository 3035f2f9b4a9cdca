"""Which histories go on with a version and which make another, as docs/versions.md tells it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.frozen import replace
from gateway.history.versions import Change, HistoryChange, Rewrite, Stretch, history_change
from gateway.messages import ImageBlock, Message, ReasoningBlock, Role, TextBlock, UrlSource
from tests.counted_work import most_bytes_taken


def said(name: str, text: str | None = None) -> Message:
    """`u1` is a user's message, `a1` an answer of the server's, `c1` a client's assistant message, `s1` a system's."""
    role: Role = {"u": "user", "a": "assistant", "c": "assistant", "s": "system"}[name[0]]  # type: ignore[assignment]
    turn = f"turn {name}" if name[0] == "a" else None
    return Message(name, role, (TextBlock(f"words of {name}" if text is None else text),), turn_id=turn)


def talk(names: str) -> tuple[Message, ...]:
    return tuple(said(name) for name in names.split())


def change(stored: str, now: str, *, shortened: bool = False) -> HistoryChange:
    return history_change(talk(stored), talk(now), shortened=shortened)


@pytest.mark.parametrize("now", ["u1 a1", "u1 a1 u2", "u1 a1 u2 a2 u3"])
def test_a_history_with_all_that_is_stored_goes_on(now: str) -> None:
    assert change("u1 a1", now) == HistoryChange(2)
    assert change("u1 a1", now, shortened=True) == HistoryChange(2)


def test_the_first_history_of_a_thread_goes_on() -> None:
    assert change("", "u1") == HistoryChange(0)


def test_an_edit_makes_a_version_behind_the_messages_before_it() -> None:
    assert change("u1 a1 u2 a2", "u1 a1 u3") == HistoryChange(2, Rewrite(from_message="a1"), makes_version=True)


def test_an_edit_with_the_same_id_is_one_too() -> None:
    now = (*talk("u1 a1"), said("u2", "other words"))
    expected = Rewrite(from_message="a1", changes=(Change(2, 2),))
    assert history_change(talk("u1 a1 u2 a2"), now) == HistoryChange(2, expected, makes_version=True)
    first = history_change(talk("u1 a1"), (said("u1", "other words"),), shortened=True)
    assert first == HistoryChange(0, Rewrite(changes=(Change(0, 0),)), makes_version=True)


def test_an_edit_whose_rest_stays_shares_the_rest() -> None:
    now = (said("u1"), said("a1", "mine"), *talk("u2 a2 u3"))
    expected = Rewrite((Stretch(2, 2, 2),), from_message="u1", changes=(Change(1, 1),))
    assert history_change(talk("u1 a1 u2 a2"), now) == HistoryChange(1, expected, makes_version=True)


@pytest.mark.parametrize("shortened", [False, True])
def test_an_answer_that_is_wanted_anew_makes_a_version(shortened: bool) -> None:
    expected = HistoryChange(3, Rewrite(from_message="u2"), makes_version=True)
    assert change("u1 a1 u2 a2", "u1 a1 u2", shortened=shortened) == expected


def test_a_message_that_is_missing_in_the_middle_makes_a_version() -> None:
    made = change("u1 a1 u2 a2", "u1 u2 a2 u3")
    assert made == HistoryChange(1, Rewrite((Stretch(1, 2, 2),), from_message="u1"), makes_version=True)


def test_a_shorter_history_makes_a_version_and_then_goes_on_with_it() -> None:
    tail = (Stretch(0, 2, 2),)
    made = change("u1 a1 u2 a2", "u2 a2 u3")
    assert made == HistoryChange(0, Rewrite(tail, from_message="a2"), makes_version=True, shortened=True)
    assert change("u1 a1 u2 a2", "u2 a2 u3", shortened=True) == HistoryChange(0, Rewrite(tail, hides=(0, 1)))


def test_what_is_new_alone_is_a_shorter_history() -> None:
    assert change("u1 a1", "u2") == HistoryChange(0, Rewrite(), makes_version=True, shortened=True)
    assert change("u1 a1", "u2", shortened=True) == HistoryChange(0, Rewrite(hides=(0, 1)))


def test_what_is_new_alone_is_no_shorter_history_of_who_sent_more_before() -> None:
    """The client has the answer before the last question: its new first message has taken the place of all."""
    assert change("u1 a1 u2 a2", "u3", shortened=True).makes_version


def test_a_shorter_history_below_the_programs_own_words_is_one() -> None:
    made = change("s1 u1 a1 u2 a2", "s1 u2 a2 u3")
    assert made == HistoryChange(1, Rewrite((Stretch(1, 3, 2),), from_message="a2"), makes_version=True, shortened=True)
    assert change("s1 u1 a1 u2 a2", "s1 u2 a2 u3", shortened=True).rewrite == Rewrite((Stretch(1, 3, 2),), hides=(1, 2))


@pytest.mark.parametrize("now", ["s2 u1 a1 u2", "u1 a1 u2", "u1 s2 a1 u2"])
def test_what_the_clients_program_says_is_no_edit(now: str) -> None:
    made = change("s1 u1 a1", now)
    assert not made.makes_version
    assert made.rewrite is not None
    assert not made.rewrite.hides


def test_other_metadata_is_no_edit() -> None:
    now = (replace(said("u1"), metadata={"seen": 2}, name="Ada"), *talk("a1 u2"))
    assert history_change(talk("u1 a1"), now) == HistoryChange(0, Rewrite((Stretch(1, 1, 1),), changes=(Change(0, 0),)))


def test_a_history_that_shows_more_than_its_shortened_version_makes_a_version() -> None:
    assert change("u2 a2", "u1 c1 u2 a2 u3", shortened=True).makes_version
    assert not change("u2 a2", "u1 c1 u2 a2 u3").makes_version


# --- messages without ids


def without_ids(words: str) -> tuple[tuple[Message, ...], frozenset[str]]:
    """The same words as `talk` under other ids, and these."""
    now = tuple(Message(f"new {each.id}", each.role, each.content) for each in talk(words))
    return now, frozenset(message.id for message in now)


def test_the_same_words_without_ids_go_on_with_the_version() -> None:
    thought = Message("r1", "reasoning", (ReasoningBlock("hm"),), turn_id="turn a1")
    stored = (said("u1"), thought, said("a1"))
    now, minted = without_ids("u1 a1 u2")
    assert history_change(stored, now, minted=minted) == HistoryChange(0, Rewrite())


def test_a_medium_that_clients_without_ids_do_not_send_is_no_edit() -> None:
    picture = Message("p1", "assistant", (ImageBlock(UrlSource("https://h/p.png")),), turn_id="turn a1")
    now, minted = without_ids("u1 a1 u2")
    assert not history_change((*talk("u1 a1"), picture), now, minted=minted).makes_version


def test_white_space_without_ids_is_no_edit() -> None:
    now, minted = without_ids("u1 a1 u2")
    spaced = (now[0], replace(now[1], content=(TextBlock("  words of\na1 "),)), now[2])
    assert not history_change(talk("u1 a1"), spaced, minted=minted).makes_version


@pytest.mark.parametrize("has_ids", [True, False])
def test_the_words_of_a_long_text_are_not_looked_for(has_ids: bool) -> None:
    stored, now = (said("u1", "w " * 500_000),), (said("u1", "w " * 500_001),)
    minted = frozenset[str]() if has_ids else frozenset(["u1"])
    assert history_change(stored, now, minted=minted).makes_version
    assert most_bytes_taken(lambda: history_change(stored, now, minted=minted)) < 2_500_000


def test_other_words_without_ids_are_an_edit() -> None:
    now, minted = without_ids("u1 c9 u2")
    made = history_change(talk("u1 a1"), now, minted=minted)
    assert made.makes_version
    assert made.shortened is False


def test_the_last_words_without_ids_are_a_shorter_history() -> None:
    now, minted = without_ids("u2 a2 u3")
    assert history_change(talk("u1 a1 u2 a2"), now, minted=minted).shortened


# --- whatever is sent

NAMES = [f"{role}{number}" for number in range(4) for role in "uacs"]
HISTORIES = st.lists(st.sampled_from(NAMES), max_size=8, unique=True)


@given(stored=HISTORIES, now=HISTORIES, edited=st.sets(st.integers(0, 7)), shortened=st.booleans())
def test_what_stays_is_what_was_stored_and_nothing_else_is_lost_without_a_version(
    stored: list[str], now: list[str], edited: set[int], shortened: bool
) -> None:
    before = talk(" ".join(stored))
    after = tuple(said(name, "edited" if place in edited else None) for place, name in enumerate(now))
    made = history_change(before, after, shortened=shortened)
    stays = made.rewrite.stays if made.rewrite is not None else ()
    assert before[: made.keep] == after[: made.keep]
    place = made.keep
    for part in stays:
        assert part.at >= place
        assert part.length > 0
        assert after[part.at : part.at + part.length] == before[part.stored : part.stored + part.length]
        place = part.at + part.length
    assert place <= len(after)
    standing = {*range(made.keep), *(n for part in stays for n in range(part.stored, part.stored + part.length))}
    assert len(standing) == made.keep + sum(part.length for part in stays), "nothing stands twice"
    gone = [message for number, message in enumerate(before) if number not in standing]
    if not made.makes_version and not (made.rewrite is not None and made.rewrite.hides):
        assert all(message.role == "system" for message in gone)
