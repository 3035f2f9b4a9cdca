"""Takes reasoning that a model writes between two tags out of its text, while the text streams. Pure.

Only a tag at the beginning of the text counts. Later in the text the model writes about tags.
"""

from __future__ import annotations

from typing import Literal


class TaggedReasoning:
    """One per text block. It holds back what may be the beginning of a tag, and white space around a tag."""

    def __init__(self, opening: str, closing: str) -> None:
        self._opening = opening
        self._closing = closing
        self._held = ""
        self._state: Literal["start", "inside", "text"] = "start"
        self._had_reasoning = False

    def feed(self, text: str) -> list[tuple[bool, str]]:
        """The pieces that are certain now, none of them empty: (whether it is reasoning, the words)."""
        if self._state == "text":
            return [(False, text)] if text else []
        self._held += text
        pieces: list[tuple[bool, str]] = []
        while self._held and self._step(pieces):
            pass
        return pieces

    def flush(self) -> list[tuple[bool, str]]:
        """The pieces that were held back, once the block is over."""
        held, self._held = self._held, ""
        if self._state == "start" and self._had_reasoning:
            held = held.lstrip()
        return [(self._state == "inside", held)] if held else []

    def _step(self, pieces: list[tuple[bool, str]]) -> bool:
        """Take one piece from the held text. False if more text is needed first."""
        return self._step_inside(pieces) if self._state == "inside" else self._step_start(pieces)

    def _step_start(self, pieces: list[tuple[bool, str]]) -> bool:
        bare = self._held.lstrip()
        if bare.startswith(self._opening):
            self._held = bare[len(self._opening) :]
            self._state = "inside"
            self._had_reasoning = True
            return True
        if self._opening.startswith(bare):
            return False
        pieces.append((False, bare if self._had_reasoning else self._held))
        self._held = ""
        self._state = "text"
        return True

    def _step_inside(self, pieces: list[tuple[bool, str]]) -> bool:
        end = self._held.find(self._closing)
        certain = end if end >= 0 else len(self._held) - _overlap(self._held, self._closing)
        if certain:
            pieces.append((True, self._held[:certain]))
        if end < 0:
            self._held = self._held[certain:]
            return False
        self._held = self._held[end + len(self._closing) :]
        self._state = "start"
        return True


def _overlap(text: str, tag: str) -> int:
    """How many characters at the end of `text` may be the beginning of `tag`."""
    for length in range(min(len(text), len(tag) - 1), 0, -1):
        if text.endswith(tag[:length]):
            return length
    return 0
