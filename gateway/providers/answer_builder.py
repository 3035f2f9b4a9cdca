"""Builds the canonical events of one model response from what a provider's reader finds.

It makes the ids, opens a block at its first content, never gives an empty delta or half a surrogate pair, keeps every
call id unique in the thread, and closes open blocks at the end, so that no reader has to.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Container, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from gateway.errors import limit_reached
from gateway.events import (
    Deltas,
    Event,
    Events,
    MediaGiven,
    MessageRetracted,
    ModelCallAccepted,
    ModelCallEnded,
    Raw,
    ReasoningDelta,
    ReasoningEnded,
    ReasoningStarted,
    StopReason,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    Usage,
    UsageReported,
)
from gateway.frozen import draft_of, replace
from gateway.messages import Base64Source, JsonValue, Opaque, ToolCall, block_of_media, new_id, new_message_id
from gateway.model import ModelRequest
from gateway.providers.sse_reader import UnreadableAnswerError
from gateway.wire.media_bytes import decoded_size

_DraftOfDeltas = draft_of(Deltas)  # one is made for each network read


@dataclass(slots=True)
class _Block:
    key: Hashable
    kind: type[TextDelta] | type[ReasoningDelta] | type[ToolCallDelta]  # of its pieces
    id: str
    held: str = ""  # a high surrogate that waits for its other half
    opaque_kind: str = ""
    opaque_parts: list[str] = field(default_factory=list)


_NONE: Final = _Block(object(), TextDelta, "")  # nobody has its key, so nobody adds to it


class AnswerBuilder:
    """One per response. Feed it under the provider's own keys (block index, item id, ...), then `take()` the events.

    Blocks of different keys may interleave. A key whose block was closed, or is of another kind, opens a new block when
    it is fed again.
    """

    def __init__(self, request: ModelRequest, provider: str, model_id: str) -> None:
        self._provider = provider
        self._model_id = model_id
        self._events: Events = []
        self._adding = _NONE  # the block whose pieces came last, as long as nothing else comes
        self._pieces: list[str] = []  # those that are in no event yet
        self._blocks: dict[Hashable, _Block] = {}
        self._request = request
        self._known_call_ids: set[str] | None = None  # collected at the first call: histories are long
        self._seed: str | None = None
        self._minted: Counter[str] = Counter()
        self._next_index = 0
        self._parent_id: str | None = None
        self._said: list[tuple[str, str]] = []  # kind and id of its texts, reasoning and media
        self._sealed_bytes = 0
        self._calls = 0
        self._next_call = request.next_call

    @property
    def has_calls(self) -> bool:
        return self._calls > 0

    def take(self) -> Events:
        """The events since the last take; possibly empty."""
        events, self._events = self._events, []
        if self._pieces:
            block, draft = self._adding, _DraftOfDeltas()
            draft.id, draft.texts, draft.__class__ = block.id, tuple(self._pieces), block.kind
            events.append(draft)
            self._pieces = []
        return events

    def name_after(self, response_id: str) -> None:
        """Derive all following ids from the response's id, so that reading the response again gives the same ids."""
        self._seed = response_id

    def accepted(self, response_id: str) -> None:
        """The provider works on the response, and can be asked for it by that id."""
        self._put(ModelCallAccepted(response_id))

    def text(self, key: Hashable, delta: str, refusal: bool = False) -> None:
        """More text in the block `key`. An empty delta opens nothing. `refusal` counts for a block that this opens."""
        if not delta:
            return
        block = self._adding
        if block.key != key or block.kind is not TextDelta:
            block = self._begin_pieces(self._block(key, TextDelta) or self._open_text(key, refusal))
        if not delta.isascii() or block.held:
            delta = _join_surrogates(block, delta)
            if not delta:
                return
        self._pieces.append(delta)

    def texts(self, key: Hashable, deltas: Sequence[str]) -> None:
        """As `text` for each of them. They come from one network read and hold no halves of surrogate pairs."""
        block = self._adding
        if block.key != key or block.kind is not TextDelta or block.held or "" in deltas:
            for delta in deltas:
                self.text(key, delta)
        else:
            self._pieces.extend(deltas)

    def reasoning(self, key: Hashable, delta: str) -> None:
        """More reasoning in the block `key`."""
        if not delta:
            return
        block = self._adding
        if block.key != key or block.kind is not ReasoningDelta:
            block = self._begin_pieces(self._block(key, ReasoningDelta) or self._open_reasoning(key))
        if not delta.isascii() or block.held:
            delta = _join_surrogates(block, delta)
            if not delta:
                return
        self._pieces.append(delta)

    def medium(self, key: Hashable, media_type: str, data: str, opaque: tuple[str, str] | None = None) -> None:
        """A medium in base64, whole; `opaque` is the kind and the value of what only its provider understands.

        Raises:
            LimitError: it is larger than an answer may be.
            UnreadableAnswerError: it is empty, or not base64.
        """
        self.expect_bytes(len(data))
        if not decoded_size(data):
            raise UnreadableAnswerError(
                "the model provider sent a medium that is empty or not base64", data[:200].encode(errors="replace")
            )
        kind, source = media_type.partition("/")[0].lower(), Base64Source(data, media_type)
        sealed = None if opaque is None else Opaque(self._provider, self._model_id, *opaque)
        block = replace(block_of_media(kind, source), index=self._take_index(), opaque=sealed)
        message_id = self._mint_message("med", key)
        self._said.append(("medium", message_id))
        self._put(MediaGiven(message_id, block))

    def tool_started(self, key: Hashable, provider_call_id: str | None, name: str) -> None:
        """A call begins. It gets an id if the provider has none, and a suffix if the thread has that id already; or one
        that leads to its run, where the request wants that.

        Raises:
            LimitError: there are too many calls.
        """
        self._calls += 1
        self.expect_calls(self._calls)
        self.close(key)  # some providers give every call the same key
        if self._known_call_ids is None:
            self._known_call_ids = {
                block.call_id
                for message in (*self._request.messages, *self._request.elsewhere)
                for block in message.content
                if type(block) is ToolCall
            }
        call_id = self._call_id(provider_call_id, key, self._known_call_ids)
        self._known_call_ids.add(call_id)
        if self._parent_id is None:
            self._parent_id = self._mint_message("msg", "the calls")
        self._blocks[key] = _Block(key, ToolCallDelta, call_id)
        original = provider_call_id if provider_call_id and provider_call_id != call_id else None
        self._put(ToolCallStarted(call_id, _well_formed(name), self._parent_id, self._take_index(), original))

    def tool_arguments(self, key: Hashable, fragment: str) -> None:
        """More of the arguments' JSON text of the call `key`, which must be open."""
        if not fragment:
            return
        block = self._adding
        if block.key != key:
            block = self._begin_pieces(self._blocks[key])
        if not fragment.isascii() or block.held:
            fragment = _join_surrogates(block, fragment)
            if not fragment:
                return
        self._pieces.append(fragment)

    def opaque(self, key: Hashable, kind: str, value: str) -> None:
        """An opaque part of the block `key`. A block that is not open is opened as reasoning. Pieces are joined."""
        block = self._blocks.get(key) or self._open_reasoning(key)
        self.hold(len(value))
        block.opaque_kind = kind
        block.opaque_parts.append(value)

    def expect_calls(self, count: int) -> None:
        """Say how many calls there will be, including those without a name yet. Raises LimitError if there are too
        many.
        """
        most = self._request.max_calls
        if most is not None and count > most:
            raise limit_reached("max_calls_per_answer", most)

    def hold(self, size: int) -> None:
        """Count bytes that are held and not in any event yet. Raises LimitError if the answer becomes too large."""
        self._sealed_bytes += size
        self.expect_bytes(self._sealed_bytes)

    def expect_bytes(self, size: int) -> None:
        """Say that a part of the answer is that large. Raises LimitError if the answer may not be."""
        most = self._request.max_answer_bytes
        if most is not None and size > most:
            raise limit_reached("max_answer_bytes", most)

    def is_open(self, key: Hashable) -> bool:
        return key in self._blocks

    def close(self, key: Hashable) -> None:
        """The block `key` is over. Does nothing if it is not open."""
        block = self._blocks.pop(key, None)
        if block is not None:
            for event in self._ending(block):
                self._put(event)

    def usage(self, usage: Usage) -> None:
        self._put(UsageReported(usage))

    def raw(self, event: JsonValue) -> None:
        """An event of the provider's for which there is no canonical event."""
        self._put(Raw(event, self._provider))

    def retract(self, text: str) -> None:
        """Take back all text, reasoning and media of the response so far. `text` replaces the first text."""
        for key in [key for key, block in self._blocks.items() if block.kind is not ToolCallDelta]:
            self.close(key)
        for kind, message_id in self._said:
            instead = text if kind == "text" else ""
            self._put(MessageRetracted(message_id, instead))
            text = "" if instead else text
        self._said = []

    def finish(
        self,
        reason: StopReason,
        raw_reason: str | None = None,
        response_id: str | None = None,
        continued: str | None = None,
    ) -> None:
        """The response is over. A normal end with calls is TOOL_CALLS, whatever the provider called it.

        `response_id` and `continued` as in events.ModelCallEnded.
        """
        for key in list(self._blocks):
            self.close(key)
        if self.has_calls and reason in (StopReason.END_TURN, StopReason.STOP_SEQUENCE):
            reason = StopReason.TOOL_CALLS
        elif not self.has_calls and reason is StopReason.TOOL_CALLS:
            reason = StopReason.END_TURN
        self._put(ModelCallEnded(reason, raw_reason, response_id, continued))

    def _block(self, key: Hashable, kind: type[Event]) -> _Block | None:
        """The open block of that key, if it is of that kind."""
        block = self._blocks.get(key)
        return block if block is not None and block.kind is kind else None

    def _begin_pieces(self, block: _Block) -> _Block:
        """The next pieces are those of this block: the ones that come in one read are one event."""
        self._events = self.take()
        self._adding = block
        return block

    def _put(self, event: Event) -> None:
        self._events = events = self.take()
        events.append(event)
        self._adding = _NONE

    def _open_text(self, key: Hashable, refusal: bool) -> _Block:
        self.close(key)
        # The first text is the message that calls belong to; a text after a call is a message of its own.
        message_id = self._mint_message("msg", key)
        if self._parent_id is None:
            self._parent_id = message_id
        block = self._blocks[key] = _Block(key, TextDelta, message_id)
        self._said.append(("text", message_id))
        self._put(TextStarted(message_id, "assistant", self._take_index(), refusal))
        return block

    def _open_reasoning(self, key: Hashable) -> _Block:
        self.close(key)
        block = self._blocks[key] = _Block(key, ReasoningDelta, self._mint_message("rsn", key))
        self._said.append(("reasoning", block.id))
        self._put(ReasoningStarted(block.id, self._take_index()))
        return block

    def _mint_message(self, kind: str, place: Hashable) -> str:
        if self._seed is None:
            return new_message_id()
        return str(UUID(bytes=self._name(self._seed, kind, place), version=5))

    def _call_id(self, provider_call_id: str | None, key: Hashable, known: Container[str]) -> str:
        """The id of a new call, which the thread does not have."""
        if prefix := self._request.call_prefix:
            while (call_id := f"{prefix}{self._next_call}") in known:
                self._next_call += 1
            self._next_call += 1
            return call_id
        call_id = _well_formed(provider_call_id) if provider_call_id else self._mint_call("call", key)
        return call_id if call_id not in known else self._mint_call(call_id[:24], key)

    def _mint_call(self, prefix: str, place: Hashable) -> str:
        if self._seed is None:
            return new_id(prefix)
        return f"{prefix}_{self._name(self._seed, prefix, place).hex()}"

    def _name(self, seed: str, kind: str, place: Hashable) -> bytes:
        named = repr((seed, kind, place))
        self._minted[named] += 1
        content = f"{named} {self._minted[named]}".encode("utf-8", "surrogatepass")
        return hashlib.blake2b(content, digest_size=16).digest()

    def _take_index(self) -> int:
        index = self._next_index
        self._next_index += 1
        return index

    def _ending(self, block: _Block) -> Events:
        opaque = None
        if block.opaque_kind:
            opaque = Opaque(self._provider, self._model_id, block.opaque_kind, "".join(block.opaque_parts))
        rest = "\N{REPLACEMENT CHARACTER}" if block.held else ""
        ending: Events = [block.kind(block.id, rest)] if rest else []
        if block.kind is TextDelta:
            ending.append(TextEnded(block.id, opaque))
        elif block.kind is ReasoningDelta:
            ending.append(ReasoningEnded(block.id, opaque))
        else:
            ending.append(ToolCallEnded(block.id, opaque))
        return ending


def _join_surrogates(block: _Block, delta: str) -> str:
    """`delta` with the held half before it. A high half at the end is held back; lone halves are replaced."""
    delta, block.held = block.held + delta, ""
    try:
        delta.encode()
    except UnicodeEncodeError:
        if "\ud800" <= delta[-1] <= "\udbff":
            block.held, delta = delta[-1], delta[:-1]
        return _well_formed(delta)
    return delta


def _well_formed(text: str) -> str:
    """`text` with surrogate pairs joined into their character and lone halves replaced by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
