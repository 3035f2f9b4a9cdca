"""Prepares a tool's output: for a model, content blocks of bounded size with encodable text; for viewers, announced
steps, activities and application events that can be stored.

Above: the tools. Below: events, messages, records. Foreign code makes announcements: their values become JSON here,
where their author gets the error, and not in the store or a browser, where they would end the run.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from typing import Any, Final, TypeAlias, cast, get_args

import pydantic_core

from gateway.errors import ToolError
from gateway.events import ActivityChanged, ActivityReplaced, Custom, StepEnded, StepStarted
from gateway.messages import (
    AudioBlock,
    Base64Source,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    JsonObject,
    JsonValue,
    MediaBlock,
    TextBlock,
    VideoBlock,
    block_of_media,
    json_kind,
)
from gateway.records import load_json

MAX_OUTPUT_CHARACTERS = 100_000
"""The default for the largest text of one result that a model gets."""

_MEDIA_BLOCKS = (ImageBlock, AudioBlock, VideoBlock, DocumentBlock)
_OUTPUT_BLOCKS = (TextBlock, *_MEDIA_BLOCKS)

Announcement: TypeAlias = StepStarted | StepEnded | ActivityReplaced | ActivityChanged | Custom

_KINDS: Final = ", ".join(kind.__name__ for kind in get_args(Announcement))
_POINTER: Final = re.compile(r"(?:/(?:[^/~]|~[01])*)*")
_VALUED: Final = frozenset({"add", "replace", "test"})
_FROM_ELSEWHERE: Final = frozenset({"move", "copy"})
_OPERATIONS: Final = _VALUED | _FROM_ELSEWHERE | {"remove"}


def content_blocks(value: object) -> tuple[ContentBlock, ...]:
    """A function's return value as content: None is empty, text stays text, blocks pass, everything else becomes JSON
    text.

    Raises:
        ToolError: the value has no JSON form.
    """
    if value is None:
        return ()
    if isinstance(value, str):
        return text_blocks(value)
    if isinstance(value, _OUTPUT_BLOCKS):
        return (value,)
    if isinstance(value, list | tuple) and value and all(isinstance(item, _OUTPUT_BLOCKS) for item in value):
        return tuple(value)
    if isinstance(value, bytes | bytearray):
        return text_blocks(_bytes_text(bytes(value)))
    return text_blocks(json_text(value))


def text_blocks(text: str) -> tuple[ContentBlock, ...]:
    """One text block, or none for empty text."""
    return (TextBlock(encodable(text)),) if text else ()


def json_text(value: object) -> str:
    """Compact JSON of any Python value: NaN is null, bytes are base64, dates ISO 8601, sets and tuples arrays.

    Raises:
        ToolError: a value without a JSON form, or one that contains itself.
    """
    try:
        return pydantic_core.to_json(value, inf_nan_mode="null", bytes_mode="base64", fallback=_plain).decode()
    except pydantic_core.PydanticSerializationError:
        return _json_text_slowly(value)


def encodable(text: str) -> str:
    """`text` with lone surrogates replaced, which no UTF-8 encoder takes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        # surrogate pairs that came as two characters become one character
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def bounded(blocks: Iterable[ContentBlock], max_characters: int = MAX_OUTPUT_CHARACTERS) -> tuple[ContentBlock, ...]:
    """The blocks with at most `max_characters` of text in all, and a visible mark where text was cut off."""
    kept: list[ContentBlock] = []
    left = max_characters
    cut = 0
    for block in blocks:
        if not isinstance(block, TextBlock):
            kept.append(block)
            continue
        if len(block.text) <= left:
            kept.append(block)
        else:
            cut += len(block.text) - left
            if left:
                kept.append(TextBlock(block.text[:left], block.index, block.opaque))
        left -= min(left, len(block.text))
    if cut:
        kept.append(TextBlock(truncation_mark(max_characters, max_characters + cut)))
    return tuple(kept)


def truncation_mark(shown: int, total: int, unit: str = "characters") -> str:
    """The text at the place where the rest of a result was cut off."""
    return f"\n[truncated: this is the first {shown:,} of {total:,} {unit}]"


def media_block(data: bytes, media_type: str, name: str | None = None) -> MediaBlock:
    """Bytes as the block for their media type; anything but picture, sound or film is a document."""
    source = Base64Source(base64.b64encode(data).decode(), media_type)
    return block_of_media(media_type.partition("/")[0].lower(), source, name)


def _plain(value: Any) -> object:
    """A replacement for a value that pydantic does not know: other libraries' numbers and arrays, objects with a text
    form.
    """
    for conversion in ("tolist", "item"):
        convert = getattr(value, conversion, None)
        if callable(convert):
            return convert()
    kind: Any = type(value)
    if kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__:
        raise ToolError("the tool gave a value that has no JSON form; text, numbers, lists and dictionaries have one")
    return str(value)


def _json_text_slowly(value: object) -> str:
    """As `json_text`, for values with lone surrogates too."""
    try:
        # surrogates are replaced before, because keys with one are refused here, and after, in the content of objects
        plain = pydantic_core.to_jsonable_python(
            _encodable_value(value), inf_nan_mode="null", bytes_mode="base64", fallback=_plain
        )
        return json.dumps(_encodable_value(plain), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ToolError:
        raise
    except (ValueError, TypeError, RecursionError) as error:
        raise ToolError("the tool gave a value that has no JSON form, or one that contains itself") from error


def _encodable_value(value: Any) -> Any:
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, list | tuple):
        return [_encodable_value(item) for item in value]
    if isinstance(value, dict):
        return {encodable(key) if isinstance(key, str) else key: _encodable_value(item) for key, item in value.items()}
    return value


def _bytes_text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return base64.b64encode(value).decode()


def announced(event: object) -> Announcement:
    """A copy of the announcement at this moment, as JSON; the tool may change its values later.

    Raises:
        ToolError: it is of another kind, has values without a JSON form, or is one that clients refuse.
    """
    if not isinstance(event, Announcement):
        raise ToolError(f"a tool announces one of {_KINDS}, not {type(event).__name__}")
    match event:
        case StepStarted(name):
            return StepStarted(encodable(name))
        case StepEnded(name):
            return StepEnded(encodable(name))
        case Custom(name, value):
            return Custom(encodable(name), _as_json(value))
        case ActivityReplaced(message_id, activity_type, content, replace):
            shape = _as_json(content)
            if not isinstance(shape, dict):
                raise ToolError(f"the content of an activity is an object, not {json_kind(shape)}")
            return ActivityReplaced(encodable(message_id), encodable(activity_type), shape, replace)
        case ActivityChanged(message_id, activity_type, patch):
            operations = tuple(_operation(_as_json(each)) for each in patch)
            return ActivityChanged(encodable(message_id), encodable(activity_type), operations)


def _as_json(value: JsonValue) -> JsonValue:
    return cast(JsonValue, load_json(json_text(value).encode()))


def _operation(given: JsonValue) -> JsonObject:
    """Check an operation of a patch (https://www.rfc-editor.org/rfc/rfc6902#section-4)."""
    if not isinstance(given, dict) or given.get("op") not in _OPERATIONS:
        raise ToolError(f"a patch's operation has an 'op' of {', '.join(sorted(_OPERATIONS))}; {given!r} has none")
    pointers = ("path", "from") if given["op"] in _FROM_ELSEWHERE else ("path",)
    for name in pointers:
        pointer = given.get(name)
        if not isinstance(pointer, str) or _POINTER.fullmatch(pointer) is None:
            raise ToolError(f"{name!r} of a patch's operation is a JSON Pointer such as '/items/0', not {pointer!r}")
    if given["op"] in _VALUED and "value" not in given:
        raise ToolError(f"a patch's operation {given['op']!r} has a 'value'; {given!r} has none")
    return given
