"""Which messages a version has: spans of the places where a store keeps messages.

Below: history, records. Above: the stores. Each thread's messages get places in the order in which they come, and none
moves. A version is a list of spans of such places, in SQLite also of other threads' where it was forked: messages that
versions have in common are stored once. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gateway.history.versions import Rewrite
from gateway.records import dump_json, load_json


class Span(NamedTuple):
    """`length` messages: those of the thread with the key `thread` from position `first` on."""

    thread: int
    first: int
    length: int


class Layout(NamedTuple):
    """All messages of a version. The first `hidden` of them are not shown."""

    hidden: int
    spans: tuple[Span, ...]


class Written(NamedTuple):
    """A version after a write: its layout, the numbers of the messages that need new rows, and whether it lost some of
    its earlier messages.
    """

    layout: Layout
    fresh: list[int]
    has_lost: bool


def plain(thread: int, count: int) -> Layout:
    """The layout of a thread that has one version and never lost or hid a message."""
    return Layout(0, (Span(thread, 0, count),))


def total(spans: Iterable[Span]) -> int:
    """How many messages the spans have."""
    return sum(span.length for span in spans)


def cut(spans: Iterable[Span], start: int, count: int) -> list[Span]:
    """The spans of `count` messages from number `start` on."""
    found: list[Span] = []
    for span in spans:
        skipped = min(start, span.length)
        taken = min(count, span.length - skipped)
        if taken > 0:
            found.append(Span(span.thread, span.first + skipped, taken))
        start, count = start - skipped, count - taken
    return found


def shown_spans(layout: Layout, start: int = 0) -> list[Span]:
    """The spans of the messages that a version shows, from number `start` on."""
    return cut(layout.spans, layout.hidden + start, total(layout.spans))


def joined(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The same messages in as few spans as possible."""
    found: list[Span] = []
    for span in spans:
        last = found[-1] if found else None
        if last is not None and span.thread == last.thread and span.first == last.first + last.length:
            found[-1] = last._replace(length=last.length + span.length)
        elif span.length:
            found.append(span)
    return tuple(found)


def union(spans: Iterable[Span]) -> list[Span]:
    """Each row of the spans once: thread by thread, in the order in which these come first, and by position."""
    by_thread: dict[int, list[Span]] = {}
    for span in spans:
        if span.length:
            by_thread.setdefault(span.thread, []).append(span)
    found: list[Span] = []
    for own in map(sorted, by_thread.values()):
        found.append(own[0])
        for span in own[1:]:
            last = found[-1]
            if span.first > last.first + last.length:
                found.append(span)
            else:
                stop = max(last.first + last.length, span.first + span.length)
                found[-1] = last._replace(length=stop - last.first)
    return found


def numbered(spans: Iterable[Span], among: Sequence[Span]) -> tuple[tuple[int, int], ...]:
    """The spans as stretches of the messages that the spans `among`, a union, have: the number of the first, and how
    many there are.
    """
    found: list[Span] = []
    for span in spans:
        number = 0
        for each in among:
            if each.thread == span.thread and 0 <= span.first - each.first < each.length:
                found.append(Span(0, number + span.first - each.first, span.length))
                break
            number += each.length
    return tuple([(first, length) for _, first, length in joined(found)])


def rewritten(
    before: Layout, fresh: Span, length: int, keep: int, rewrite: Rewrite | None, *, in_new_version: bool
) -> Written:
    """A version that shows `length` messages. The first `keep` and those that `rewrite` lets stay keep their rows; all
    others get rows from the beginning of the empty span `fresh` on.
    """
    shown = cut(before.spans, before.hidden, total(before.spans) - before.hidden)
    stays = () if rewrite is None else rewrite.stays
    spans, numbers, at, position = cut(shown, 0, keep), list[int](), keep, fresh.first
    for part in (*stays, None):
        stop = length if part is None else part.at
        spans.append(Span(fresh.thread, position, stop - at))
        numbers += range(at, stop)
        position += stop - at
        if part is not None:
            spans += cut(shown, part.stored, part.length)
            at = part.at + part.length
    earlier = [] if in_new_version else cut(before.spans, 0, before.hidden)
    hides = () if rewrite is None else rewrite.hides
    earlier += [span for number in hides for span in cut(shown, number, 1)]
    standing = keep + sum(part.length for part in stays) + len(hides)
    return Written(Layout(total(earlier), joined((*earlier, *spans))), numbers, standing < total(shown))


def encode_layout(layout: Layout) -> bytes:
    """The layout as a column's value: JSON, [hidden, thread, first, count, thread, ...]."""
    return dump_json([layout.hidden, *(number for span in layout.spans for number in span)])


def decode_layout(data: bytes) -> Layout:
    """The layout that `encode_layout` wrote."""
    hidden, *numbers = load_json(data)
    return Layout(hidden, tuple(Span(*numbers[place : place + 3]) for place in range(0, len(numbers), 3)))


def gaps(used: Iterable[tuple[int, int]]) -> list[tuple[int, int | None]]:
    """The gaps between these spans (first, length), as (from, until); the last one has no end."""
    found: list[tuple[int, int | None]] = []
    place = 0
    for first, count in sorted(used):
        if first > place:
            found.append((place, first))
        place = max(place, first + count)
    return [*found, (place, None)]
