"""Compares a request's history with the version of the thread that it continues: is it longer, shorter, or another one?

Below: messages. Above: intake, which decides by it; the store, which keeps messages that stay once for all versions.
Pure.

A thread's messages before a run and with its input differ in one of these ways:

- No message of the conversation is missing: the version goes on. The program's messages to the model (`system` and
  `developer`) may have changed, as may names and metadata, and clients that give no ids may have sent the same words
  under other ids.
- Messages are missing only at the beginning: a shorter history. It makes a new version. But if the version was itself
  made so, it goes on, and keeps the messages that it no longer shows.
- Any other message is missing or has other words: somebody edited it, or wants a new response of the model. It makes a
  new version.

A client may send no message that the thread has: either it sends only new messages, or somebody edited the first
message under another id. As long as the version shows one question with the model's response, that counts as a shorter
history. If it shows more, the client has sent more before, and it counts as an edit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gateway.frozen import quickly_made
from gateway.history.merging import unchanged_prefix
from gateway.messages import Message, Role

_OF_PROGRAMS = frozenset(["system", "developer"])
# The roles of messages that clients leave out of a response of the model, without wanting an edit.
_BESIDE_WORDS = frozenset(["reasoning", "tool"])
_MOST_SPACED = 200_000


class Stretch(NamedTuple):
    """The `length` messages from number `at` on are the stored ones from number `stored` on."""

    at: int
    stored: int
    length: int


class Change(NamedTuple):
    """Message number `at` has the id of stored message number `stored`, but differs from it."""

    at: int
    stored: int


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The changes to the stored messages after the first `keep` ones.

    `stays` are in the order of `at`. `hides` are the numbers of messages that the version keeps, before the shown ones,
    and no longer shows. `from_message`: the last message that a new version has in common with its parent. `changes`
    are the messages that differ now.
    """

    stays: tuple[Stretch, ...] = ()
    hides: tuple[int, ...] = ()
    from_message: str | None = None
    changes: tuple[Change, ...] = ()


@quickly_made
@dataclass(frozen=True, slots=True)
class HistoryChange:
    """The first `keep` messages stay; `rewrite` is None if these are all stored ones.

    `shortened`: the new version lacks only the beginning of its parent.
    """

    keep: int
    rewrite: Rewrite | None = None
    makes_version: bool = False
    shortened: bool = False


def history_change(
    stored: tuple[Message, ...],
    now: tuple[Message, ...],
    *,
    shortened: bool = False,
    minted: Collection[str] = frozenset(),
) -> HistoryChange:
    """The difference between the messages `now` and the `stored` ones of a version, which may be `shortened`.

    `minted`: see SentMessages.minted_ids.
    """
    keep = unchanged_prefix(stored, now)
    if keep == len(stored):
        return HistoryChange(keep)
    stays = tuple(_stretches(stored, now, keep))
    standing = {*range(keep), *(number for part in stays for number in range(part.stored, part.stored + part.length))}
    gone = [number for number in range(keep, len(stored)) if number not in standing]
    lost, said_again = _sorted_out(stored, gone, now, minted)
    changes = tuple(_changes(stored, gone, now)) if gone else ()
    shows_more = shortened and _grows_in_front(now, stays, keep)
    if not lost and not shows_more:
        return HistoryChange(keep, Rewrite(stays, changes=changes))
    if not lost or not _is_beginning(lost, stored, now, standing | said_again):
        return HistoryChange(
            keep, Rewrite(stays, (), stored[keep - 1].id if keep else None, changes), makes_version=True
        )
    if shortened and (stays or _is_one_exchange(stored)):
        return HistoryChange(keep, Rewrite(stays, tuple(lost), changes=changes))
    last = stored[stays[-1].stored + stays[-1].length - 1].id if stays else None
    return HistoryChange(keep, Rewrite(stays, (), last, changes), makes_version=True, shortened=True)


def _stretches(stored: tuple[Message, ...], now: tuple[Message, ...], keep: int) -> Iterator[Stretch]:
    """The unchanged messages from number `keep` on."""
    places = {message.id: number for number, message in enumerate(stored[keep:], keep)}
    at = keep
    while at < len(now):
        place = places.get(now[at].id)
        length = 0 if place is None else unchanged_prefix(stored[place:], now[at:])
        if place is not None and length:
            yield Stretch(at, place, length)
        at += length or 1


def _changes(stored: Sequence[Message], gone: Sequence[int], now: Sequence[Message]) -> Iterator[Change]:
    """The gone messages whose ids are still there, with other words, another name or other metadata."""
    places = {message.id: place for place, message in enumerate(now)}
    for number in gone:
        if (place := places.get(stored[number].id)) is not None:
            yield Change(place, number)


def _sorted_out(
    stored: Sequence[Message], gone: Sequence[int], now: Sequence[Message], minted: Collection[str]
) -> tuple[Sequence[int], set[int]]:
    """Two kinds of gone messages, by number: messages that the conversation has lost, and messages whose words are
    still there, under the same id with another name or other metadata, or in a message that came without an id.
    """
    by_id = {message.id: message for message in now}
    words = Counter(_words(message) for message in now if message.id in minted) if minted else Counter()
    lost, said_again = list[int](), set[int]()
    for number in gone:
        message = stored[number]
        same = by_id.get(message.id)
        if same is not None and (same.role, same.content) == (message.role, message.content):
            said_again.add(number)
        elif words and words[said := _words(message)] > 0:
            words[said] -= 1
            said_again.add(number)
        elif message.role not in _OF_PROGRAMS and not (minted and _is_beside_words(message)):
            lost.append(number)
    return lost, said_again


def _words(message: Message) -> tuple[Role, str]:
    """What a message says, however its words are spaced. In a long text the spaces count too: its words would take
    100 ms to find.
    """
    text = message.text
    return message.role, " ".join(text.split()) if len(text) <= _MOST_SPACED else text


def _is_beside_words(message: Message) -> bool:
    return message.role in _BESIDE_WORDS or message.is_medium


def _is_beginning(lost: Sequence[int], stored: Sequence[Message], now: Sequence[Message], there: set[int]) -> bool:
    """Whether the lost messages came before all that are there, and none of their ids is there with other words."""
    ids = {message.id for message in now}
    if any(stored[number].id in ids for number in lost):
        return False
    talk = (number for number in sorted(there) if stored[number].role not in _OF_PROGRAMS)
    return lost[-1] < next(talk, len(stored))


def _grows_in_front(now: Sequence[Message], stays: Sequence[Stretch], keep: int) -> bool:
    """Whether messages of the conversation come before the first stored one."""
    if keep or not stays:
        return False
    return any(message.role not in _OF_PROGRAMS for message in now[: stays[0].at])


def _is_one_exchange(stored: Sequence[Message]) -> bool:
    """Whether no user message follows a response of this server's model."""
    answered = False
    for message in stored:
        if answered and message.role == "user":
            return False
        answered = answered or message.turn_id is not None
    return True
