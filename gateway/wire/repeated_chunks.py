"""Takes the text out of stream chunks that are the same but for it, without reading each of them whole. Pure.

Above: the chat completions model. Most servers repeat a chunk byte for byte, only the words change. What stands before
and after the words of one chunk, once it is read and found to hold nothing else, is looked for in those that follow,
and only what stands between is read: a third of the cost. Servers whose chunks differ in more (OpenAI pads each with
random letters) are noticed and left to the ordinary way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

_MOST_LESSONS = 4
_PROBE = "?"


class RepeatedChunks:
    """One per response."""

    def __init__(self) -> None:
        self._before = self._after = b""
        self._lessons = 0

    def learn(self, record: bytes, chunk: dict[str, Any], text: str) -> None:
        """`record` is JSON for `chunk`, whose `choices[0].delta.content` is `text`, and which says nothing else."""
        if self._lessons == _MOST_LESSONS:
            return
        self._lessons += 1
        written = orjson.dumps(text)
        start = record.find(b'"content":') + len(b'"content":')
        if record[start : start + 1] == b" ":
            start += 1
        end = start + len(written)
        before, after = record[:start], record[end:]
        try:
            probe = orjson.loads(b'%b"%b"%b' % (before, _PROBE.encode(), after))
            probe["choices"][0]["delta"]["content"], asked = text, probe["choices"][0]["delta"]["content"]
        except (ValueError, KeyError, TypeError, IndexError):
            return
        if asked == _PROBE and probe == chunk and record[start:end] == written:
            self._before, self._after = before, after

    def texts(self, records: Sequence[bytes]) -> list[str]:
        """The words of the first records, as many of them as repeat the chunk that was learnt."""
        before, after = self._before, self._after
        if not before:
            return []
        start, end, shortest = len(before), -len(after), len(before) + len(after) + 2
        texts: list[str] = []
        try:
            for record in records:
                if not (record.startswith(before) and record.endswith(after)) or len(record) < shortest:
                    break
                text = orjson.loads(record[start:end])
                if type(text) is not str:
                    break
                texts.append(text)
        except ValueError:  # no words, or more than them: whoever reads the record whole will see
            pass
        return texts
