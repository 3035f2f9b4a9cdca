"""Recognises a history that a client of Chat Completions sends again, without the thread's ids. Pure.

Below: chat_messages. Above: chat_start, which gives it to the run as SentMessages.recognition.

A thread has more messages than its client was shown: reasoning, calls of backend tools with their results, media, texts
of several turns. So its messages are taken in groups, each of which is one message of the client's: a person's words, a
result of the client's tool, or all that the agent said until one of these. Groups are compared with what was sent, from
the first on, by role, words and call ids. What is the same stays as the thread has it; the rest is new.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from gateway.messages import INSTRUCTION_ROLES, MediaBlock, Message, TextBlock
from gateway.openai_api.chat_messages import is_copy, is_note, shown_answer, shown_content, without_question
from gateway.openai_api.questions import decision_of

_AGENTS: Final = ("assistant", "reasoning")
# What clients write into an answer themselves: https://github.com/open-webui/open-webui, utils/middleware.py
_ADDED: Final = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<details type=", "</details>"),
)


class _Sent(NamedTuple):
    """Messages of a client that stand for one group. `call_ids` are those of its own calls."""

    end: int
    words: str
    call_ids: frozenset[str]


def common_beginning(
    stored: Sequence[Message], sent: Sequence[Message], start: tuple[int, int] = (0, 0)
) -> tuple[int, int]:
    """How many of the thread's messages are recognised, and for how many of the sent ones they stand. Messages before
    `start` are recognised already; the last of them is a person's, and they share no call with the rest.
    """
    results = _Results(stored)
    known, new = start
    while (
        not new
        and known < len(stored)
        and stored[known].role in INSTRUCTION_ROLES
        and _role_at(sent, 0) not in INSTRUCTION_ROLES
    ):
        known += 1  # a client's own instructions at the beginning are not stored, so others stored these
    while new < len(sent):
        if known == len(stored):
            return known, _behind_notes(sent, new)
        first, theirs = stored[known], sent[new]
        end = _group_end(stored, known)
        if end - known == 1 and first.role not in _AGENTS:
            if not _is_same(first, theirs):
                if theirs.role == "assistant" and is_note(theirs.text):
                    new += 1
                    continue
                break
            new += 1
        elif theirs.role == "assistant":
            said = _sent_answer(sent, new, results)
            decided = _behind_decisions(sent, said, stored[end] if end < len(stored) else None, results)
            if decided is not said and _is_answer(stored[known:end], decided, results):
                said = decided
            elif not _is_answer(stored[known:end], said, results):
                break
            new = said.end
        elif not _is_silent(stored[known:end], results):
            break
        known = end
    return known, new


def _role_at(messages: Sequence[Message], place: int) -> str:
    return messages[place].role if place < len(messages) else ""


def _behind_notes(sent: Sequence[Message], place: int) -> int:
    while place < len(sent) and sent[place].role == "assistant" and is_note(sent[place].text):
        place += 1
    return place


class _Results:
    """Which of the thread's calls the client answered. Most threads are asked only about few calls, and many about
    none.
    """

    def __init__(self, stored: Sequence[Message]) -> None:
        self._stored = stored
        self._found: tuple[frozenset[str], frozenset[str]] | None = None

    @property
    def by_gateway(self) -> frozenset[str]:
        """The calls that the gateway answered: no client is shown them."""
        return self._both[0]

    @property
    def by_client(self) -> frozenset[str]:
        """The calls that a client answered."""
        return self._both[1]

    @property
    def _both(self) -> tuple[frozenset[str], frozenset[str]]:
        if self._found is None:
            results = [
                (message.turn_id is not None, result.call_id)
                for message in self._stored
                if message.role == "tool" and (result := message.tool_result) is not None
            ]
            self._found = (
                frozenset(call_id for is_own, call_id in results if is_own),
                frozenset(call_id for is_own, call_id in results if not is_own),
            )
        return self._found


def _group_end(stored: Sequence[Message], start: int) -> int:
    """Where the group ends that begins there."""
    end = start
    while end < len(stored) and _is_hidden_or_said(stored[end]):
        end += 1
    return max(end, start + 1)


def _is_hidden_or_said(message: Message) -> bool:
    """Whether it belongs to an answer: the agent's words and thoughts, and results of backend tools."""
    role = message.role
    return role == "assistant" or role == "reasoning" or (role == "tool" and message.turn_id is not None)


def _is_same(stored: Message, sent: Message) -> bool:
    """Whether two messages that are no answers say the same."""
    if stored.role != sent.role and not (stored.role in INSTRUCTION_ROLES and sent.role in INSTRUCTION_ROLES):
        return False
    ours, theirs = stored.content, sent.content
    if (result := stored.tool_result) is not None:
        given = sent.tool_result
        if given is None or given.call_id != result.call_id:
            return False
        ours, theirs = result.content, given.content
    if len(ours) == len(theirs) == 1 and type(one := ours[0]) is type(other := theirs[0]) is TextBlock:
        return one.text == other.text or one.text.strip() == other.text.strip()
    return _essence(ours) == _essence(theirs)


def _essence(content: Sequence[object]) -> tuple[str, list[object]]:
    texts = [text for block in content if isinstance(block, TextBlock) and (text := block.text.strip())]
    return "\n".join(texts), [block.source for block in content if isinstance(block, MediaBlock)]


def _sent_answer(sent: Sequence[Message], start: int, results: _Results) -> _Sent:
    """The client's messages for one group: an answer may have been cut into several, and may have calls of backend
    tools with their results where the client read the thread itself.
    """
    words: list[str] = []
    call_ids: frozenset[str] = frozenset()
    place = start
    while place < len(sent) and not call_ids:
        message = sent[place]
        if message.role == "assistant":
            if text := message.text:
                words.append(text)
            if calls := message.tool_calls:
                call_ids = frozenset(call.call_id for call in calls) - results.by_gateway
        elif (result := message.tool_result) is None or result.call_id not in results.by_gateway:
            break
        place += 1
    while place < len(sent) and (result := sent[place].tool_result) is not None:
        if result.call_id not in results.by_gateway:
            break
        place += 1
    return _Sent(place, "\n\n".join(words), call_ids)


def _behind_decisions(sent: Sequence[Message], said: _Sent, following: Message | None, results: _Results) -> _Sent:
    """The client's messages for a group that went on after a person's `approve` or `deny`. The thread does not have
    those words, so they are not the message `following`.
    """
    while said.end + 1 < len(sent) and sent[said.end + 1].role == "assistant":
        word, before = sent[said.end], without_question(said.words)
        if before is None or decision_of(word) is None or (following is not None and _is_same(following, word)):
            break
        rest = _sent_answer(sent, said.end + 1, results)
        words = "\n\n".join(filter(None, (before, rest.words)))
        said = _Sent(rest.end, words, said.call_ids | rest.call_ids)
    return said


def _is_answer(group: Sequence[Message], said: _Sent, results: _Results) -> bool:
    """Whether a client's words and calls are those of the group."""
    calls = frozenset(call.call_id for message in group for call in message.tool_calls)
    if (calls or said.call_ids) and not (calls & results.by_client <= said.call_ids <= calls - results.by_gateway):
        return False
    words, shown = said.words, shown_content(group)
    if is_copy(words, shown):
        return True
    if group[-1].incomplete and words.strip() and shown.startswith(words.strip()):
        return True  # a client that stops an answer may have less of it
    if "<" in words and is_copy(_without_added(words), shown):
        return True
    refusal = shown_answer(group).refusal
    return bool(refusal) and is_copy(words, refusal)


def _without_added(words: str) -> str:
    """The words without the parts that their client added."""
    for opening, closing in _ADDED:
        kept, place = [], 0
        while (begin := words.find(opening, place)) >= 0 and (end := words.find(closing, begin)) >= 0:
            kept.append(words[place:begin])
            place = end + len(closing)
        words = "".join((*kept, words[place:]))
    return words


def _is_silent(group: Sequence[Message], results: _Results) -> bool:
    """Whether a client has nothing of the group: no words, and no call that it answered."""
    return not shown_content(group).strip() and not any(
        call.call_id in results.by_client for message in group for call in message.tool_calls
    )
