"""The state of a thread's conversations at a provider's server: with it, only new messages are sent to the server.

Below: messages, records. Above: the store, which stores it with the thread; the loop, which asks `Conversation` for the
messages to send; the run driver, which commits it. The thread's own messages are always complete: anything lost or
refused here costs one request with the whole history, and no text.

A chain is a line of responses, each made from the one before it and some new messages
(https://platform.openai.com/docs/guides/conversation-state). A held response is identified by the turn of its answer
and by a digest of everything before it, so that an edited or shortened history falls back to the latest response that
it still continues.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import TypeAlias, cast

from gateway.frozen import replace
from gateway.messages import JsonObject, JsonValue, Message, ToolCall
from gateway.records import dump_json, encode_message, load_json

logger = logging.getLogger(__name__)

DEFAULT_CONVERSATION = "default"

# How many responses an edited history can fall back to, and how many conversations of an agent are kept per thread.
KEPT_RESPONSES = 32
KEPT_CONVERSATIONS = 100
# How many unused responses are remembered by name, to delete them with the thread.
KEPT_NAMES = 500


@dataclass(frozen=True, slots=True)
class HeldResponse:
    """A response that the server keeps, with everything that led to it.

    It was requested with `message_count` messages of the model view, whose digest is `digest`; its answer is the turn
    `turn_id`. `created_at` is in Unix seconds. `words_digest` is the digest of the client's words in the request (see
    client_words), which are not part of the messages.
    """

    response_id: str
    message_count: int
    digest: str
    turn_id: str
    created_at: float
    words_digest: str = ""


@dataclass(frozen=True, slots=True)
class Chain:
    """A conversation as one server keeps it. `holder` names everything that a response is bound to.

    `left` are the names of other responses that the server may keep, but that no request continues: from before an
    edit, cut off, or too far back.
    """

    holder: str
    responses: tuple[HeldResponse, ...]
    left: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all responses that the server may keep, the oldest first."""
        return (*self.left, *(response.response_id for response in self.responses))


ModelState: TypeAlias = Mapping[str, Chain]
"""An agent's conversations in one thread, by conversation id; the one used last stands last."""


@dataclass(frozen=True, slots=True)
class Continuation:
    """The place at which a request continues at the server: after `response_id`, with only `messages`.

    `answer` is that response's answer; `words_digest` as in HeldResponse.
    """

    response_id: str
    messages: tuple[Message, ...]
    answer: Message
    words_digest: str = ""


class Conversation:
    """One conversation during one run. `state` is to be stored once the run is over."""

    def __init__(self, state: ModelState, conversation_id: str, holder: str) -> None:
        self._state = state
        self._id = conversation_id
        self._holder = holder
        chain = state.get(conversation_id)
        if chain is not None and chain.holder != holder:
            logger.info(
                "a conversation moves to another server and begins anew there",
                extra={"conversation_id": conversation_id, "held_by": chain.holder, "asked": holder},
            )
            chain = None
        self._responses = chain.responses if chain is not None else ()
        self._left = dict.fromkeys(chain.left if chain is not None else ())

    @property
    def mark(self) -> str | None:
        """The value of `Message.conversation` for its messages."""
        return mark_of(self._id)

    def split(self, messages: tuple[Message, ...]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
        """The messages of this conversation, and the messages of other conversations, which its model does not see."""
        if all(message.conversation == self.mark for message in messages):
            return messages, ()
        own = tuple(message for message in messages if message.conversation == self.mark)
        return own, tuple(message for message in messages if message.conversation != self.mark)

    @property
    def state(self) -> ModelState:
        """All conversations as they are now."""
        kept = {key: chain for key, chain in self._state.items() if key != self._id}
        if not self._responses and not self._left:
            return kept
        for key in list(kept)[: max(0, len(kept) + 1 - KEPT_CONVERSATIONS)]:
            if (forgotten := kept.pop(key)).holder == self._holder:
                self._left |= dict.fromkeys(forgotten.names)
        kept[self._id] = Chain(self._holder, self._responses, tuple(self._left)[-KEPT_NAMES:])
        return kept

    def continuation(self, messages: Sequence[Message]) -> Continuation | None:
        """The messages of a model view that are new to the server; None if it needs all of them."""
        digests = _Digests(messages)
        for response in reversed(self._responses):
            at = response.message_count
            if at + 1 >= len(messages) or messages[at].turn_id != response.turn_id or messages[at].incomplete:
                continue  # the answer is gone, or no message follows it
            if digests.before(at) == response.digest:
                return Continuation(
                    response.response_id, tuple(messages[at + 1 :]), messages[at], response.words_digest
                )
        return None

    def completed(
        self,
        messages: Sequence[Message],
        turn_id: str,
        response_id: str,
        continued: str | None,
        now: float,
        words_digest: str = "",
    ) -> None:
        """Note that the server keeps a complete response to `messages` and to the client's words of that digest.

        `continued`: the response it was chained to, None for a new chain. Responses after that one are unused from now
        on.
        """
        ids = [response.response_id for response in self._responses]
        before = self._responses[: ids.index(continued) + 1] if continued in ids else ()
        held = HeldResponse(response_id, len(messages), history_digest(messages), turn_id, now, words_digest)
        self._responses = (*before, held)[-KEPT_RESPONSES:]
        names = [response.response_id for response in self._responses]
        self._left |= dict.fromkeys(name for name in ids if name not in names)
        self._left.pop(response_id, None)

    def kept(self, response_id: str) -> None:
        """Note that the server may keep a response of that name, complete or not."""
        if all(response.response_id != response_id for response in self._responses):
            self._left[response_id] = None


def mark_of(conversation_id: str) -> str | None:
    """The value of `Message.conversation` for the messages of that conversation."""
    return None if conversation_id == DEFAULT_CONVERSATION else conversation_id


def marked(messages: tuple[Message, ...], stored: Sequence[Message], mark: str | None) -> tuple[Message, ...]:
    """The messages, each with the name of its conversation: the one it was `stored` with, else `mark`."""
    marks = {message.id: message.conversation for message in stored}
    if mark is None and not any(marks.values()):
        return messages
    wanted = [marks.get(message.id, mark) for message in messages]
    return tuple(
        message if message.conversation == own else replace(message, conversation=own)
        for message, own in zip(messages, wanted, strict=True)
    )


def branched(states: Mapping[str, ModelState], messages: Sequence[Message]) -> dict[str, ModelState]:
    """The states for another version of the thread, which begins with these messages: responses whose answers are among
    them.

    All other responses stay with their version, and are deleted with it.
    """
    turns = {message.turn_id for message in messages}
    found: dict[str, ModelState] = {}
    for agent, state in states.items():
        chains = {
            key: Chain(chain.holder, tuple(each for each in chain.responses if each.turn_id in turns))
            for key, chain in state.items()
        }
        if shared := {key: chain for key, chain in chains.items() if chain.responses}:
            found[agent] = shared
    return found


def history_digest(messages: Sequence[Message]) -> str:
    """A digest of the messages' content; ids and other things that no model sees do not change it."""
    return _Digests(messages).before(len(messages))


class _Digests:
    """The digests of a history's beginnings; each message is hashed once."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self._hash = hashlib.sha256()
        self._ends = {0: self._hash.hexdigest()}
        self._count = 0

    def before(self, count: int) -> str:
        """The digest of the first `count` messages."""
        while self._count < count:
            self._hash.update(_content(self._messages[self._count]))
            self._count += 1
            self._ends[self._count] = self._hash.hexdigest()
        return self._ends[count]


def _content(message: Message) -> bytes:
    """The part of the message that a server sees. Ids differ between requests if a client sends none."""
    said = replace(message, id="", turn_id=None, metadata=None, incomplete=False, conversation=None)
    return encode_message(said) + b"\n"


def encode_states(states: Mapping[str, ModelState]) -> bytes:
    """The states of a thread's agents as JSON, for the store."""
    return dump_json(
        {agent: {key: _chain_to_json(chain) for key, chain in state.items()} for agent, state in states.items()}
    )


def conversation_of_call(messages: Sequence[Message], call: ToolCall) -> str:
    """The id of the conversation in which the call was made."""
    made = (message.conversation for message in messages if call in message.tool_calls)
    return next(made, None) or DEFAULT_CONVERSATION


def decode_states(data: bytes) -> dict[str, ModelState]:
    """The states that `encode_states` wrote."""
    stored = cast("Mapping[str, Mapping[str, JsonObject]]", load_json(data))
    return {agent: {key: _chain_from_json(chain) for key, chain in state.items()} for agent, state in stored.items()}


def _chain_to_json(chain: Chain) -> JsonObject:
    responses: list[JsonValue] = [_response_to_json(response) for response in chain.responses]
    return {"holder": chain.holder, "responses": responses, "left": list(chain.left)}


def _response_to_json(response: HeldResponse) -> list[JsonValue]:
    row: list[JsonValue] = list(astuple(response))
    return row if response.words_digest else row[:-1]


def _chain_from_json(chain: JsonObject) -> Chain:
    # and `words_digest`, if there is one
    rows = cast("Sequence[tuple[str, int, str, str, float]]", chain["responses"])
    left = cast("Sequence[str]", chain.get("left", ()))
    return Chain(cast(str, chain["holder"]), tuple(HeldResponse(*row) for row in rows), tuple(left))
