"""Marks characters that nobody would see in a value, or that turn their neighbours around, as the page does
(`unseen.ts`).

Above: questions. Below: the standard library. Pure. A person who agrees to a value has to read what is there. Line ends
hide nothing, nor does what emoji are made of, where it follows one.
"""

from __future__ import annotations

import re
from typing import Final

# Cc, Cs and Default_Ignorable_Code_Point of https://www.unicode.org/Public/16.0.0/ucd/DerivedCoreProperties.txt
_CHARACTERS: Final = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u2800\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_EMOJI: Final = (
    "[\xa9\xae\u203c\u2049\u2122\u2139\u2194-\u21aa\u231a-\u23ff\u24c2\u25aa-\u25fe\u2600-\u27bf\u2934\u2935\u2b05-\u2b55"
    "\u3030\u303d\u3297\u3299\U0001f000-\U0001faff][\U0001f3fb-\U0001f3ff]?\ufe0f?"
)
_UNSEEN: Final = re.compile(
    f"(?P<kept>\r\n|{_EMOJI}(?:\u200d{_EMOJI})*|[0-9#*]\ufe0f\u20e3)|(?P<run>(?P<one>[{_CHARACTERS}])(?P=one)*)"
)


def spelled_out(text: str) -> str:
    """The text with a mark in place of each such character: `12[U+202E]34`."""
    return text if text.isascii() and text.isprintable() else _UNSEEN.sub(_mark, text)


def _mark(found: re.Match[str]) -> str:
    if (run := found["run"]) is None:
        return found[0]
    count = f" × {len(run)}" if len(run) > 1 else ""
    return f"[U+{ord(found['one']):04X}{count}]"
