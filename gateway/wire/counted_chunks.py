"""Takes the text out of stream chunks that are the same but for it and for the numbers behind it. Pure.

Above: the Gemini model, whose chunks each tell how many tokens there are by now
(https://ai.google.dev/api/generate-content#UsageMetadata). What stands before the words of one chunk, once it is read
and found to hold nothing else, and what stands behind them, digits apart, is looked for in those that follow; then only
the words are read, and the numbers of the last chunk alone. Servers whose chunks differ in more are left to the
ordinary way. `repeated_chunks` is the same for chunks that have no numbers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import orjson

_MOST_LESSONS = 4
_PROBE = b'"?"'
_DIGITS = b"0123456789"
_DIGIT = re.compile(rb"[0-9]")


class CountedChunks:
    """One per response. `known`: a chunk was learnt; `learning`: another one may teach something."""

    def __init__(self) -> None:
        self.known = False
        self.learning = True
        self._before = self._behind = self._shape = b""
        self._lessons = 0

    def learn(self, record: bytes, chunk: object, text: str) -> None:
        """`record` is JSON for `chunk`, in which `text` is all that is said."""
        self._lessons += 1
        self.learning = self._lessons < _MOST_LESSONS
        words = orjson.dumps(text)
        start = record.find(b'"text":') + len(b'"text":')
        if record[start : start + 1] == b" ":
            start += 1
        before, after = record[:start], record[start + len(words) :]
        behind = _DIGIT.split(after, maxsplit=1)[0]
        # Behind the words stands what no text has in it: a quotation mark without a backslash, and more of the kind.
        if before + words + after != record or b'"' not in behind:
            return
        try:
            said = orjson.loads(before + _PROBE + after)["candidates"][0]["content"]["parts"][0]["text"]
        except (ValueError, KeyError, TypeError, IndexError):
            return
        if said == "?" and orjson.loads(record) == chunk:
            self._before, self._behind, self._shape = before, b'"' + behind, after.translate(None, _DIGITS)
            self.known = True

    def texts(self, records: Sequence[bytes]) -> list[str]:
        """The words of the first records, as many of them as repeat the chunk that was learnt."""
        texts: list[str] = []
        if not self.known:
            return texts
        before, behind, shape = self._before, self._behind, self._shape
        begin = len(before)
        try:
            for record in records:
                end = record.find(behind, begin) + 1
                if not end or record[end:].translate(None, _DIGITS) != shape or not record.startswith(before):
                    break
                text = orjson.loads(record[begin:end])
                if type(text) is not str:
                    break
                texts.append(text)
        except ValueError:  # no words, or more than them: whoever reads the record whole will see
            pass
        return texts
