"""Keeps the results that the last request computed from a thread's history, so that the next one computes only the new
part: merging and viewing 2,000 messages take 0.02 ms instead of 0.4 ms.

Below: merging and model_view; every function here gives the same result as theirs. If the messages continue those of
the last request, it extends the last result; otherwise it starts anew. Without a cache the plain functions are called.
Above: intake and the loop. Clients send their whole history with every run. Messages are immutable, so comparing a
history with the last one costs 10 ns for each message that is the same object.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from gateway.frozen import quickly_made
from gateway.history.merging import merge_history
from gateway.history.model_view import model_view
from gateway.messages import Message, TextBlock, ToolCall

Messages = tuple[Message, ...]

# The most parts that are dropped from the end until the remaining ones fit.
_MOST_FORGOTTEN = 4
_MOST_PARTS = 64


class OwnCall(NamedTuple):
    """A call of this server's model. `turn_id` names the model's response that made it."""

    turn_id: str
    name: str


def own_calls(messages: Iterable[Message]) -> dict[str, OwnCall]:
    """The calls of this server's models, by call id."""
    calls: dict[str, OwnCall] = {}
    for message in messages:
        if (turn_id := message.turn_id) is not None:
            for block in message.content:
                if type(block) is ToolCall:
                    calls[block.call_id] = OwnCall(turn_id, block.name)
    return calls


def turns_of(calls: Mapping[str, OwnCall]) -> dict[str, str]:
    """The calls' turn ids, by call id."""
    return {call_id: call.turn_id for call_id, call in calls.items()}


@quickly_made
@dataclass(frozen=True, slots=True)
class SettledView:
    """The beginning of a model view, up to a user message, which stays the same from run to run.

    `forms` is for providers: the values that they compute from the messages, under keys of their own, each with the
    number of messages that it covers. A longer view that begins with this one has the same `forms`.
    """

    messages: Messages
    forms: dict[object, Any] = field(default_factory=dict, compare=False)


class HistoryCache:
    """One per thread and process. It may be dropped at any time, and may be called with any history."""

    def __init__(self) -> None:
        # Empty values are shared: every run has a cache, and most store nothing in it.
        self._merged = _NOTHING_MERGED
        self._view = _NOTHING_SEEN
        self._digested: tuple[Messages, Any, bool] = ((), None, False)
        self._asked: tuple[Messages, Mapping[str, OwnCall]] = ((), {})

    def merge(self, stored: Messages, sent: Messages) -> Messages:
        """As `history.merge_history`."""
        before = self._merged
        if before.fits(stored, sent) and before.go_on(stored[len(before.merged) :], sent[len(before.sent) :]):
            return before.merged
        merged = merge_history(stored, sent)
        fresh = _Merged()
        self._merged = fresh if fresh.add(sent, merged) else _NOTHING_MERGED
        return merged

    def own_calls(self, messages: Messages) -> Mapping[str, OwnCall]:
        """As the function `own_calls`."""
        before = self._merged
        if before.merged and (rest := before.rest_of(messages)) is not None:
            return {**before.own_calls, **own_calls(rest)} if rest else before.own_calls
        known, calls = self._asked  # a recognised history is not merged here, and a run calls this several times
        if messages[: len(known)] != known:
            known, calls = (), {}
        if new := own_calls(messages[len(known) :]):
            calls = {**calls, **new}
        self._asked = (messages, calls)
        return calls

    def ids(self, messages: Messages) -> Container[str]:
        """The messages' ids."""
        before = self._merged
        if (rest := before.rest_of(messages)) is None:
            return {message.id for message in messages}
        return before.merged_ids.union([message.id for message in rest])

    def may_claim(self, stored: Messages, sent: Messages, calls: Container[str]) -> bool:
        """Whether `sent` may have a result for one of the calls that is not this server's own in `stored`."""
        before = self._merged
        if not before.fits(stored, sent):
            return True
        if any(call_id in calls for call_id in before.given_results):
            return True
        produced = {message.id for message in stored[len(before.merged) :] if message.turn_id is not None}
        return any(
            (result := message.tool_result) is not None and result.call_id in calls and message.id not in produced
            for message in sent[len(before.sent) :]
        )

    def view(self, messages: Messages, waiting: Collection[str] = ()) -> tuple[Messages, SettledView | None]:
        """As `history.model_view`, and its settled part: None if there is none."""
        if waiting:  # the view's results for these calls will change
            return model_view(messages, waiting), None
        seen = self._view
        if messages[: len(seen.messages)] != seen.messages:
            seen = self._view = _NOTHING_SEEN
        rest = messages[len(seen.messages) :]
        place = next((place for place in reversed(range(len(rest))) if rest[place].role == "user"), None)
        if place is None or (seen.messages and rest[0].role != "user"):
            return model_view(messages), None
        if seen is _NOTHING_SEEN:
            seen = self._view = _View()
        if place and not seen.add(rest[:place]):
            self._view = _NOTHING_SEEN
            return model_view(messages), None
        last = rest[place:]
        if not seen.is_apart(last):
            return model_view(messages), None
        return seen.settled.messages + model_view(last), seen.settled

    def digest(self, messages: Messages, rest: bytes, *, anonymous: bool = False) -> str:
        """The hash of the messages' rows and of `rest`, as `runs.endings.input_digest` forms them. `anonymous`: ids do
        not count.

        Raises:
            TypeError: the encoder refuses a message.
        """
        digested, hasher, without_ids = self._digested
        if not digested or without_ids != anonymous or messages[: len(digested)] != digested:
            digested, hasher = (), hashlib.blake2b(b"[[", digest_size=16)
        # The kept part ends before the last message, which people edit most often.
        for end in (len(messages) - 1, len(messages)):
            if new := messages[len(digested) : end]:
                rows = orjson.dumps(digest_rows(new, anonymous=anonymous))
                hasher = hasher.copy()
                hasher.update((b"," if digested else b"") + rows[1:-1])
                digested = messages[:end]
                if end < len(messages):
                    self._digested = (digested, hasher, anonymous)
        whole = hasher.copy()
        whole.update(b"]," + rest + b"]")
        digest: str = whole.hexdigest()
        return digest


def digest_rows(messages: Iterable[Message], *, anonymous: bool = False) -> list[tuple[str | None, str, object]]:
    """The parts of messages that distinguish two requests: ids (unless `anonymous`), roles and contents."""
    # A message that is one text, as nearly always, gives only the text: the encoder takes a tenth of the time.
    return [
        (
            None if anonymous else message.id,
            message.role,
            block.text
            if len(content := message.content) == 1
            and type(block := content[0]) is TextBlock
            and block.index == -1
            and block.opaque is None
            else content,
        )
        for message in messages
    ]


class _Part(NamedTuple):
    """Consecutive messages that were sent, and their part of the merged thread. No id, turn or call is in two parts.

    `given_results`: the calls with a result from the client. `answered`: the calls with a result of this server.
    """

    sent: Messages
    merged: Messages
    merged_ids: set[str]
    turn_ids: set[str]
    given_results: set[str]
    answered: set[str]
    own_calls: dict[str, OwnCall]


class _Merged:
    """The messages that a client sent, and the thread that they were merged into, in parts.

    Merging this thread with these messages gives this thread again. That stays true with more messages in both, if
    those have no id, turn or call in common with these.
    """

    def __init__(self) -> None:
        self._parts: list[_Part] = []
        self.sent: Messages = ()
        self.merged: Messages = ()
        self.merged_ids: set[str] = set()
        self._turn_ids: set[str] = set()
        self.given_results: set[str] = set()
        self._answered: set[str] = set()
        self.own_calls: dict[str, OwnCall] = {}

    def fits(self, stored: Messages, sent: Messages) -> bool:
        """Whether both begin with the messages of the parts; drops the last parts if the remaining ones then fit."""
        for _ in range(_MOST_FORGOTTEN):
            if sent[: len(self.sent)] == self.sent and stored[: len(self.merged)] == self.merged:
                return bool(self._parts)
            self._forget_last()
        return False

    def rest_of(self, messages: Messages) -> Messages | None:
        """The messages after the merged thread; None if they do not begin with it."""
        if messages is self.merged:
            return ()
        return messages[len(self.merged) :] if messages[: len(self.merged)] == self.merged else None

    def go_on(self, produced: Messages, sent: Messages) -> bool:
        """Add messages that were sent after those of the parts, to a thread to which `produced` was added. False:
        everything must be merged again, because they may share an id, turn or call with the parts.
        """
        fresh = {message.id for message in produced}
        if len(fresh) < len(produced) or not fresh.isdisjoint(self.merged_ids):
            return False
        for message in produced:
            if message.turn_id in self._turn_ids or (
                (result := message.tool_result) is not None and result.call_id in self.given_results
            ):
                return False
        return self.add(sent, merge_history(produced, sent, self._answered))

    def add(self, sent: Messages, merged: Messages) -> bool:
        """Add a merge's result; the last user message and the messages after it become a part of their own."""
        last = next((place for place in reversed(range(len(sent))) if sent[place].role == "user"), 0)
        split = 0
        if last:
            split = next((place for place in reversed(range(len(merged))) if merged[place].id == sent[last].id), 0)
        if split and not self._add_part(sent[:last], merged[:split]):
            return False
        return self._add_part(sent[last:], merged[split:]) if split else self._add_part(sent, merged)

    def _add_part(self, sent: Messages, merged: Messages) -> bool:
        """Add the part. False: a sent message is not in the thread, or is there twice; each request merges anew."""
        part = _part(sent, merged)
        sent_ids = {message.id for message in sent}
        if (
            len(sent_ids) < len(sent)
            or len(part.merged_ids) < len(merged)
            or not sent_ids <= part.merged_ids
            or any(message.turn_id is not None for message in sent)
            or not part.merged_ids.isdisjoint(self.merged_ids)
            or not part.turn_ids.isdisjoint(self._turn_ids)
            or not part.given_results.isdisjoint(self.given_results)
            or not part.answered.isdisjoint(self._answered)
            or not part.own_calls.keys().isdisjoint(self.own_calls)
        ):
            return False
        self._parts.append(part)
        if len(self._parts) > _MOST_PARTS:
            self._parts[: _MOST_PARTS // 2] = [_joined(self._parts[: _MOST_PARTS // 2])]
        self.sent += sent
        self.merged += merged
        self.merged_ids |= part.merged_ids
        self._turn_ids |= part.turn_ids
        self.given_results |= part.given_results
        self._answered |= part.answered
        self.own_calls |= part.own_calls
        return True

    def _forget_last(self) -> None:
        if not self._parts:
            return
        part = self._parts.pop()
        self.sent = self.sent[: len(self.sent) - len(part.sent)]
        self.merged = self.merged[: len(self.merged) - len(part.merged)]
        self.merged_ids -= part.merged_ids
        self._turn_ids -= part.turn_ids
        self.given_results -= part.given_results
        self._answered -= part.answered
        for call_id in part.own_calls:
            del self.own_calls[call_id]


def _part(sent: Messages, merged: Messages) -> _Part:
    own: set[str] = set()
    turn_ids: set[str] = set()
    answered: set[str] = set()
    for message in merged:
        if (turn_id := message.turn_id) is not None:
            own.add(message.id)
            turn_ids.add(turn_id)
            if message.role == "tool" and (result := message.tool_result) is not None:
                answered.add(result.call_id)
    given_results = {
        result.call_id
        for message in sent
        if message.role == "tool" and message.id not in own and (result := message.tool_result) is not None
    }
    return _Part(sent, merged, {message.id for message in merged}, turn_ids, given_results, answered, own_calls(merged))


def _joined(parts: Sequence[_Part]) -> _Part:
    return _Part(
        tuple(message for part in parts for message in part.sent),
        tuple(message for part in parts for message in part.merged),
        set[str]().union(*(part.merged_ids for part in parts)),
        set[str]().union(*(part.turn_ids for part in parts)),
        set[str]().union(*(part.given_results for part in parts)),
        set[str]().union(*(part.answered for part in parts)),
        {call_id: call for part in parts for call_id, call in part.own_calls.items()},
    )


class _View:
    """The view of a thread's first messages, with the calls and turns in them."""

    def __init__(self) -> None:
        self.messages: Messages = ()
        self.settled = SettledView(())
        self._calls: set[str] = set()
        self._turns: set[str] = set()

    def add(self, messages: Messages) -> bool:
        """Add these messages. False: they are not independent of the earlier ones."""
        calls, turns = _calls_and_turns(messages)
        if not (calls.isdisjoint(self._calls) and turns.isdisjoint(self._turns)):
            return False
        self._calls |= calls
        self._turns |= turns
        self.messages += messages
        self.settled = SettledView(self.settled.messages + model_view(messages), self.settled.forms)
        return True

    def is_apart(self, messages: Messages) -> bool:
        """Whether no call or turn of these is in the earlier messages, so that their view can be computed alone."""
        if not self.messages:
            return True
        calls, turns = _calls_and_turns(messages)
        return calls.isdisjoint(self._calls) and turns.isdisjoint(self._turns)


# Shared empty values, to which nothing is added.
_NOTHING_MERGED = _Merged()
_NOTHING_SEEN = _View()


def _calls_and_turns(messages: Messages) -> tuple[set[str], set[str]]:
    calls: set[str] = set()
    turns: set[str] = set()
    for message in messages:
        if message.turn_id is not None:
            turns.add(message.turn_id)
        for block in message.content:
            kind = type(block)
            if kind is not TextBlock and (call_id := getattr(block, "call_id", None)) is not None:
                calls.add(call_id)
    return calls, turns
