"""What a tool gave, made fit for a model: content blocks of bounded size whose text any encoder accepts.

Above: the tools. Below: messages, errors.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import Any

import pydantic_core

from gateway.errors import ToolError
from gateway.messages import (
    AudioBlock,
    Base64Source,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MediaBlock,
    TextBlock,
    VideoBlock,
    block_of_media,
)

MAX_OUTPUT_CHARACTERS = 100_000
"""How much text of one result a model is given where the operator says nothing."""

_MEDIA_BLOCKS = (ImageBlock, AudioBlock, VideoBlock, DocumentBlock)
_OUTPUT_BLOCKS = (TextBlock, *_MEDIA_BLOCKS)


def content_blocks(value: object) -> tuple[ContentBlock, ...]:
    """What a function returned, as content: None is empty, text stays text, blocks pass, all else becomes JSON text.

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
        # surrogate pairs that came as two characters become the one that was meant
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
    """What stands where the rest of a result was left out."""
    return f"\n[truncated: this is the first {shown:,} of {total:,} {unit}]"


def media_block(data: bytes, media_type: str, name: str | None = None) -> MediaBlock:
    """Bytes as the block that fits their media type; what is no picture, sound or film is a document."""
    source = Base64Source(base64.b64encode(data).decode(), media_type)
    return block_of_media(media_type.partition("/")[0].lower(), source, name)


def _plain(value: Any) -> object:
    """What stands for a value that pydantic does not know: other libraries' numbers and arrays, things with a text."""
    for conversion in ("tolist", "item"):
        convert = getattr(value, conversion, None)
        if callable(convert):
            return convert()
    kind: Any = type(value)
    if kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__:
        raise ToolError("the tool gave a value that has no JSON form; text, numbers, lists and dictionaries have one")
    return str(value)


def _json_text_slowly(value: object) -> str:
    """The way for values that hold lone surrogates; also where it is found out that there is no way."""
    try:
        # once before, because a key with a surrogate is refused here, and once after, for what was inside of objects
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
