"""Builds one content of a message: each call gives the frame of its change, as a model of its own.

Below: grammar, schemas. Above: builder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TypeVar, cast

from gateway.agent_api.deltas import VALUES
from gateway.agent_api.grammar import ContentState, ProtocolStateError, read
from gateway.agent_api_builder.schemas import (
    AnyContent,
    AudioContent,
    Content,
    DataContent,
    FileContent,
    ImageContent,
    RefusalContent,
    TextContent,
    VideoContent,
    read_content,
)
from gateway.messages import JsonObject, JsonValue

ContentT = TypeVar("ContentT", bound=Content)


class ContentBuilder:
    """One content. Every method that is named here raises a ProtocolStateError if the content is of another type, or if
    it has ended, and another ValueError for a value of a wrong kind; then nothing has changed. `complete` repeats its
    result.

    `set_...` replaces the value, deltas too. A content of several members is set by one method for each of them.
    """

    def __init__(self, content: ContentState) -> None:
        """For `MessageBuilder.create_content_builder`."""
        self._content = content

    @property
    def content_type(self) -> str:
        return self._content.kind

    @property
    def index(self) -> int:
        """Its place in the message."""
        return self._content.index

    def get_content_data(self) -> AnyContent:
        """The content as it is now, whole: its last frame, if it has ended."""
        if self._content.ended:
            return read_content(read(self._content.complete()))
        return read_content(self._content.value())

    # --- pieces ------------------------------------------------------------------------------------------------------

    def add_text_delta(self, text: str | None) -> TextContent:
        """The text goes on."""
        return self._go_on(TextContent(text=text or ""))

    def add_refusal_delta(self, refusal: str | None) -> RefusalContent:
        """The refusal goes on."""
        return self._go_on(RefusalContent(refusal=refusal or ""))

    def add_data_delta(self, delta: JsonObject) -> DataContent:
        """Add members to the data. A member that the data has already is joined with the new one: texts and arrays are
        continued, numbers added up, objects joined in the same way, and other values replaced.
        """
        return self._go_on(DataContent(data=delta))

    def add_delta(self, delta: str | JsonObject | None) -> AnyContent:
        """The text, the refusal or the data go on."""
        if isinstance(delta, dict):
            return self.add_data_delta(delta)
        return self.add_refusal_delta(delta) if self.content_type == "refusal" else self.add_text_delta(delta)

    def add(self, content: Content | JsonObject) -> AnyContent:
        """A model or its JSON: a piece, if it says that it is a delta, else a whole value in place of the others."""
        content = read_content(content)
        if content.delta and content.type in ("text", "refusal", "data"):
            return self._go_on(content)
        return self._set(content)

    # --- whole values ------------------------------------------------------------------------------------------------

    def set_text(self, text: str) -> TextContent:
        return self._set(TextContent(text=text))

    def set_refusal(self, refusal: str) -> RefusalContent:
        return self._set(RefusalContent(refusal=refusal))

    def set_image_url(self, image_url: str) -> ImageContent:
        """A URL, or a data URL with base64."""
        return self._set(ImageContent(image_url=image_url))

    def set_data(self, data: JsonObject) -> DataContent:
        return self._set(DataContent(data=data))

    def update_data(self, key: str, value: JsonValue) -> DataContent:
        """One member of the data is replaced."""
        held = self._held().get("data") or {}
        return self.set_data({**cast(JsonObject, held), key: value})

    def set_audio_data(self, data: str, format: str | None = None) -> AudioContent:
        """`data`: base64, or a URL; `format`: such as `wav`."""
        return self._set(AudioContent(data=data, format=format))

    def set_audio_format(self, format: str) -> AudioContent:
        return self._set(AudioContent(format=format))

    def set_video_url(self, video_url: str) -> VideoContent:
        """A URL, or a data URL with base64."""
        return self._set(VideoContent(video_url=video_url))

    def set_file_url(self, file_url: str, filename: str | None = None) -> FileContent:
        return self._set(FileContent(file_url=file_url, filename=filename))

    def set_file_data(self, file_data: str, filename: str | None = None) -> FileContent:
        """`file_data`: base64."""
        return self._set(FileContent(file_data=file_data, filename=filename))

    def set_file_id(self, file_id: str, filename: str | None = None) -> FileContent:
        return self._set(FileContent(file_id=file_id, filename=filename))

    def set_filename(self, filename: str) -> FileContent:
        return self._set(FileContent(filename=filename))

    # --- its end -----------------------------------------------------------------------------------------------------

    def complete(self) -> AnyContent:
        """The frame with the whole value."""
        return self._end("completed")

    def canceled(self) -> AnyContent:
        """As `complete`, where somebody stopped the response."""
        return self._end("canceled")

    def incomplete(self) -> AnyContent:
        """As `complete`, where the response breaks off."""
        return self._end("incomplete")

    def _end(self, status: str) -> AnyContent:
        frame = read(self._content.complete(status))
        if frame["status"] != status or "sequence_number" not in frame:  # without one: its response has ended it
            raise ProtocolStateError(
                f"the content {self.index} has ended as {frame['status']}: expected nothing more of it"
            )
        return read_content(frame)

    def _go_on(self, piece: ContentT) -> ContentT:
        said = self._said_by(piece).get(self.content_type)
        nothing: str | JsonObject = {} if self.content_type == "data" else ""
        return type(piece).model_validate(
            read(self._content.delta(nothing if said is None else cast(str | JsonObject, said)))
        )

    def _set(self, value: ContentT) -> ContentT:
        said = self._said_by(value)
        return type(value).model_validate(read(self._content.set(**{**self._held(), **said})))

    def _held(self) -> JsonObject:
        value = self._content.value()
        return {name: value[name] for name in VALUES[self.content_type] if name in value}

    def _said_by(self, content: Content) -> JsonObject:
        """The value of a content.

        Raises:
            ProtocolStateError: it is of another type than this one.
        """
        said = said_by(content)
        if content.type != self.content_type:
            wrong, right = ", ".join(said or VALUES[content.type]), " or ".join(VALUES[self.content_type])
            raise ProtocolStateError(
                f"{wrong} is for contents of type {content.type!r}: of type {self.content_type!r} expected {right}"
            )
        return said


def said_by(content: Content) -> JsonObject:
    """The members of a content's value that it has, as copies. Raises ValueError: they cannot be written as JSON."""
    said = content.model_dump(include={*VALUES[content.type]}, exclude_none=True)
    expect_json(said)
    return said


def expect_json(members: Mapping[str, JsonValue]) -> None:
    """Raises ValueError: a member's value cannot be written as JSON, and so no frame may have it."""
    for name, value in members.items():
        try:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, allow_nan=False)
            text.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{name} has half a surrogate pair: expected whole characters") from None
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name} is no JSON: {error}") from None
