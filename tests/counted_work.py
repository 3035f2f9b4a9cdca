"""Counts the work of a call, where a time would depend on the machine: the lines of Python that it executes, and the
memory that it takes.
"""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any, Protocol


class _Trace(Protocol):
    def __call__(self, frame: FrameType, event: str, argument: Any, /) -> _Trace: ...


def lines_executed(call: Callable[[], object]) -> int:
    """How many lines the call executes in this thread, those of libraries too."""
    lines = 0

    def count(frame: FrameType, event: str, argument: Any, /) -> _Trace:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        call()
    finally:
        sys.settrace(before)
    return lines


def most_bytes_taken(call: Callable[[], object]) -> int:
    """How many bytes the call has allocated at most at one time."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
