"""Writes the frames of many pieces of text at once: 200 of them in a quarter of the time that they take one by one.

Above: the renderers. Pure. The encoder writes a batch of pieces as one array, and the frames are put together around
its items. The frames are the same as if each were written by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Final

import orjson

from gateway.wire import strict_json

MANY: Final = 8
"""Fewer texts take less time one by one."""


def text_frames(
    head: bytes,
    texts: Sequence[str],
    tail: bytes,
    write: Callable[[str], bytes] = strict_json.dump,
    *,
    one_line: bool = False,
) -> list[bytes]:
    """A frame for each text: the head, the text as JSON, the tail.

    `write` writes a single text. If orjson can write the text, `write` must give the same bytes, or with `one_line`
    those that `strict_json.on_one_line` makes of them.
    """
    if len(texts) < MANY:
        frames: list[bytes] = []
        for text in texts:
            try:
                piece = orjson.dumps(text)
            except TypeError:  # half a surrogate pair
                piece = write(text)
            frames.append(b"".join((head, strict_json.on_one_line(piece) if one_line else piece, tail)))
        return frames
    head, tail = head + b'"', b'"' + tail
    return [head + piece + tail for piece in inner_texts(texts, write, one_line=one_line)]


def numbered_frames(head: bytes, texts: Sequence[str], between: bytes, first: int, tail: bytes) -> list[bytes]:
    """A frame for each text: the head, the text as JSON, `between`, the text's number from `first` on, the tail."""
    if len(texts) < MANY:
        frames: list[bytes] = []
        for text in texts:
            frames.append(b"%b%b%b%d%b" % (head, strict_json.dump(text), between, first, tail))
            first += 1
        return frames
    heads, betweens, numbers = repeat(head + b'"'), repeat(b'"' + between), numbers_from(first, len(texts))
    return [*map(b"".join, zip(heads, inner_texts(texts), betweens, numbers, repeat(tail), strict=False))]


def inner_texts(
    texts: Sequence[str], write: Callable[[str], bytes] = strict_json.dump, *, one_line: bool = False
) -> list[bytes]:
    """Each of the texts, of which there is at least one, as JSON without its quotes. `write` and `one_line` as in
    `text_frames`.
    """
    try:
        array = orjson.dumps(texts)
    except TypeError:  # half a surrogate pair
        return [write(text)[1:-1] for text in texts]
    if b'\\","' in array:  # a text that ends with '",', as JSON often does, contains the separator
        return [write(text)[1:-1] for text in texts]
    return (strict_json.on_one_line(array) if one_line else array)[2:-2].split(b'","')


def numbers_from(first: int, count: int) -> Sequence[bytes]:
    """`count` consecutive numbers from `first` on, each as its digits."""
    numbers = _NUMBERS[first : first + count] if first >= 0 else []
    return numbers if len(numbers) == count else _written(first, count)


def _written(first: int, count: int) -> list[bytes]:
    return orjson.dumps([*range(first, first + count)])[1:-1].split(b",")


_NUMBERS: Final = _written(0, 2048)  # most streams have no others
