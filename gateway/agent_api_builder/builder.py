"""Builds a response of the Agent API, frame by frame: for agents and programs that speak the protocol themselves.

Below: content_builder, grammar, schemas. The gateway's own renderer speaks by the same grammar, so the two cannot
differ. A response has messages, a message has contents, and each of the three has a builder. A builder's methods give
the frame that says what has happened: a model of its own, numbered in the order of the calls, which no later call
changes. A call that may not come next raises a ProtocolStateError that says which calls may.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final, TypeAlias
from uuid import uuid4

from gateway.agent_api.grammar import Frame, MessageState, ProtocolStateError, ResponseState, read, value_said
from gateway.agent_api_builder.content_builder import ContentBuilder, expect_json, said_by
from gateway.agent_api_builder.schemas import (
    AgentResponse,
    AnyContent,
    Content,
    ContentType,
    Error,
    Event,
    Message,
    MessageType,
    Role,
    RunStatus,
    read_content,
)
from gateway.messages import JsonObject, JsonValue


class MessageBuilder:
    """One message. Its first frame is `get_message_data()` before it has any content."""

    def __init__(self, message: MessageState) -> None:
        """For `ResponseBuilder.create_message_builder`."""
        self._message = message
        self._opening = read(message.opened())

    @property
    def message_id(self) -> str:
        return self._message.id

    def get_message_data(self) -> Message:
        """The message as it is now: its first frame before it has contents, its last one if it has ended."""
        if self._message.ended:
            return Message.model_validate(read(self._message.close()))
        if not self._message.contents:
            return Message.model_validate(self._opening)
        return Message.model_validate(self._message.value())

    def in_progress(self) -> Message:
        """Its second frame, if you want one: some clients show reasoning and calls of tools only then.

        Raises:
            ProtocolStateError: the message has contents, or is in progress already.
        """
        self._opening = read(self._message.in_progress())
        return Message.model_validate(self._opening)

    def create_content_builder(self, content_type: str = "text", index: int | None = None) -> ContentBuilder:
        """A new content, after the others or at `index`.

        Raises:
            ProtocolStateError: the message has ended, or has a content at that place; or there are no contents of that
                type, or no such place.
        """
        _expect_word("content_type", content_type, ContentType)
        _expect_place(index)
        return ContentBuilder(self._message.content(str(content_type), index))

    def add_content(self, content: Content | JsonObject) -> AnyContent:
        """A whole content, a model or its JSON: its frame. It is complete at once, or ends as its status says. With the
        index of one that is being built, that one ends with this value. One that this message gave out itself is not
        added again.

        Raises:
            ProtocolStateError: the message has ended, or has another content at that place.
            ValueError: it is no content.
        """
        content = read_content(content)
        said = said_by(content)
        there = None if content.index is None else self._message.contents.get(content.index)
        if there is not None and read_content(there.value()) == content.model_copy(update={"sequence_number": None}):
            return read_content(read(there.complete()))
        if there is None or there.ended or there.kind != content.type:
            there = self._message.content(content.type, content.index)
        value = value_said(content.type, said)
        return read_content(read(there.finish(content.type, value, _last_status(content))))

    def add_delta_content(self, new_content: Content | JsonObject) -> AnyContent:
        """Add a piece of a content, a model or its JSON, and give its frame. A piece without an index begins a new
        content. With an index, a piece with `delta` continues the content there, and one without replaces its value.

        Raises:
            ProtocolStateError: there is no content at its index, or it has ended or is of another type.
            ValueError: it is no content.
        """
        piece = read_content(new_content)
        said_by(piece)  # a piece that JSON cannot write must not begin a content
        if piece.index is None or piece.index == len(self._message.contents):
            return self.create_content_builder(piece.type).add(piece)
        return self._content(piece.index).add(piece)

    def content_completed(self, content_index: int) -> AnyContent:
        """The frame with the whole value of a content.

        Raises:
            ProtocolStateError: there is none, or it has ended otherwise.
        """
        return self._content(content_index).complete()

    # --- its end -----------------------------------------------------------------------------------------------------

    def complete(self) -> Message:
        """The frame with all contents; the same again if it is complete.

        Raises:
            ProtocolStateError: a content is open, or missing; the message has ended otherwise.
        """
        return self._end("completed")

    def failed(self, code: str, message: str) -> Message:
        """As `complete`, where something went wrong: such messages are of the type `error`."""
        return self._end("failed", code=code, message=message)

    def canceled(self) -> Message:
        """As `complete`, where somebody stopped the response."""
        return self._end("canceled")

    def incomplete(self) -> Message:
        """As `complete`, where the response breaks off."""
        return self._end("incomplete")

    def _end(self, status: str, **members: str) -> Message:
        Message.model_validate(members)  # before anything changes
        expect_json(members)
        frame = read(self._message.close(status, **members))
        if frame["status"] != status or "sequence_number" not in frame:  # without one: its response has ended it
            raise ProtocolStateError(
                f"the message {self.message_id} has ended as {frame['status']}: expected nothing more of it"
            )
        return Message.model_validate(frame)

    def _content(self, index: int) -> ContentBuilder:
        if (content := self._message.contents.get(index)) is None:
            there = ", ".join(map(str, self._message.contents)) or "none yet"
            raise ProtocolStateError(f"the message {self.message_id} has no content {index}: expected one of {there}")
        return ContentBuilder(content)


class ResponseBuilder:
    """One response: `created`, `in_progress`, its messages, then one of the methods that end it.

    A message may be built before the response is created, never after its end. The method that has ended the response
    repeats its frame if it is called again. `members` of those methods are further members of the last frame: `usage`,
    ... If a member is of a wrong kind, the methods raise ValueError, and nothing has changed.
    """

    def __init__(self, session_id: str | None = None, response_id: str | None = None) -> None:
        """`response_id`: a new one if it is not given, or empty. Raises ValueError: one of the two is no text."""
        self.session_id = session_id
        self._given_id = response_id or None
        self.reset()

    def reset(self) -> None:
        """Begin another response: with the same id if it was given, else with a new one."""
        head = AgentResponse.model_validate({"id": self._given_id, "session_id": self.session_id})
        self.response_id = head.id
        self._created_at = head.created_at
        self._ending: Frame | None = None
        self._response = ResponseState(head.model_dump(include={"id", "created_at", "session_id"}, exclude_none=True))

    def get_response_data(self) -> AgentResponse:
        """The response as it is now, with all of its messages: its last frame, if it has ended."""
        if self._ending is not None:
            return AgentResponse.model_validate(read(self._ending))
        return AgentResponse.model_validate(self._response.value(self._response.status or "created"))

    def created(self) -> AgentResponse:
        return AgentResponse.model_validate(read(self._response.created()))

    def in_progress(self) -> AgentResponse:
        return AgentResponse.model_validate(read(self._response.in_progress()))

    # --- messages ----------------------------------------------------------------------------------------------------

    def create_message_builder(self, role: str = "assistant", message_type: str = "message") -> MessageBuilder:
        """A new message, after the others. The type `assistant` means a `message` of the assistant.

        Raises:
            ProtocolStateError: the response has ended, or there is no such role or type.
        """
        kind = MessageType.MESSAGE.value if message_type == Role.ASSISTANT else message_type
        return MessageBuilder(self._new_message(f"msg_{uuid4()}", kind, role))

    def add_message(self, message: Message | JsonObject) -> Message:
        """A whole message, a model or its JSON: its frame. It takes the place of an ended one with its id.

        Raises:
            ProtocolStateError: the response has ended, or is building a message with this id.
            ValueError: it is no message.
        """
        message = _read_message(message)
        if message.id in self._response.messages:
            return self.update_message(message)
        whole = _Whole(message)
        return whole.put(self._new_message(message.id, message.type, message.role or Role.ASSISTANT.value))

    def update_message(self, message: Message | JsonObject) -> Message:
        """Replace the contents of an ended message. Gives its frame.

        Raises:
            ProtocolStateError: there is no message with this id, or it is being built; the response has ended.
            ValueError: it is no message.
        """
        message = _read_message(message)
        if (state := self._response.messages.get(message.id)) is None:
            raise ProtocolStateError(f"the response has no message {message.id}: expected one that it has")
        return _Whole(message).put(state)

    def generate_streaming_response(self, text_tokens: Iterable[str], role: str = "assistant") -> Iterator[Event]:
        """A whole response of one text: created, in progress, the message, a delta for each token, the completed text,
        the completed message, the completed response. If the response has begun already, this is another one.
        """
        _expect_word("role", role, Role)
        if self._response.frames or self._response.messages:
            self.reset()
        yield self.created()
        yield self.in_progress()
        message = self.create_message_builder(role)
        yield message.get_message_data()
        text = message.create_content_builder("text")
        for token in text_tokens:
            yield text.add_text_delta(token)
        yield text.complete()
        yield message.complete()
        yield self.completed()

    def _new_message(self, message_id: str, message_type: str, role: str) -> MessageState:
        _expect_word("role", role, Role)
        _expect_word("message_type", message_type, MessageType)
        return self._response.message(message_id, str(message_type), str(role))

    # --- its end -----------------------------------------------------------------------------------------------------

    def completed(self, **members: JsonValue) -> AgentResponse:
        """Raises ProtocolStateError if the response is not in progress, or a message is open."""
        return self._end("completed", members)

    def failed(self, code: str, message: str, *, retryable: bool | None = None, **members: JsonValue) -> AgentResponse:
        """`code` is stable, `message` is for people. `retryable`: the same request may succeed later."""
        said = Error(code=code, message=message).model_dump()
        error: JsonObject = said if retryable is None else {**said, "retryable": retryable}
        return self._end("failed", {**members, "error": error})

    def canceled(self, **members: JsonValue) -> AgentResponse:
        """Somebody stopped the response."""
        return self._end("canceled", members)

    def rejected(self, code: str | None = None, message: str = "", **members: JsonValue) -> AgentResponse:
        """The request was not accepted."""
        error: JsonValue = None if code is None else {"code": code, "message": message}
        return self._end("rejected", {**members, "error": error})

    def incomplete(self, reason: str | None = None, **members: JsonValue) -> AgentResponse:
        """The response breaks off. `reason`: such as `max_output_tokens`."""
        details: JsonValue = None if reason is None else {"reason": reason}
        return self._end("incomplete", {**members, "incomplete_details": details})

    def _end(self, status: str, members: JsonObject) -> AgentResponse:
        if own := [name for name in members if name in _OWN]:
            raise ValueError(f"{own[0]} is what the builder says itself: expected other members, such as usage")
        said = {"completed_at": max(int(time.time()), self._created_at), **members}
        AgentResponse.model_validate(said)  # before anything changes
        expect_json(said)
        self._ending = self._response.end(status, **said)
        return AgentResponse.model_validate(read(self._ending))


StreamingResponseBuilder: TypeAlias = ResponseBuilder


_FINAL: Final = frozenset({"completed", "failed", "canceled", "rejected", "incomplete"})
_OWN: Final = frozenset({"sequence_number", "object", "status", "id", "created_at", "session_id", "output"})
"""Members of a response's frames that only the builder says."""


class _Whole:
    """The contents and members of a message that is added as a whole. Raises ValueError: they cannot be written as
    JSON.
    """

    def __init__(self, message: Message) -> None:
        self._contents = [(content.type, said_by(content)) for content in message.content or ()]
        self._members = message.model_dump(include={"code", "message", "usage", "metadata"}, exclude_none=True)
        self._status = _last_status(message)
        expect_json(self._members)

    def put(self, state: MessageState) -> Message:
        return Message.model_validate(read(state.whole(self._contents, self._status, **self._members)))


def _read_message(given: Message | JsonObject) -> Message:
    """A copy of the message that shares nothing with it."""
    return Message.model_validate(given.model_dump(warnings=False) if isinstance(given, Message) else given)


def _last_status(given: Message | AnyContent) -> str:
    """The status that something whole has."""
    return given.status if given.status in _FINAL else RunStatus.Completed.value


def _expect_word(name: str, word: object, words: type[StrEnum]) -> None:
    if not isinstance(word, str) or word not in set(words):
        raise ProtocolStateError(f"{name} is one of {', '.join(words)}, and not {word!r}")


def _expect_place(index: object) -> None:
    if index is not None and (not isinstance(index, int) or isinstance(index, bool) or index < 0):
        raise ProtocolStateError(f"a content's index is a whole number that counts from 0, and is not {index!r}")
