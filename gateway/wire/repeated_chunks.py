"""Takes the text out of stream chunks that are the same but for it, without reading each of them whole. Pure.

Above: the chat completions model. Most servers repeat a chunk byte for byte, only the words change. What stands before
and after the words of one chunk, once it is read and found to hold nothing else, is looked for in those that follow,
and only what stands between is read: a third of the cost, and a tenth where many come at once and are read together.
The letters with which OpenAI pads each chunk may differ, too
(https://platform.openai.com/docs/api-reference/chat/create, `include_obfuscation`). Servers whose chunks differ in more
are noticed and left to the ordinary way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

_MOST_LESSONS = 4
_PROBE = "?"
_PADDING = "obfuscation"
_PADDING_ENDS = b'"}'
_MANY = 4
_FIELD = b"data: "
_BLANK_LINE = b"\n\n"


class RepeatedChunks:
    """One per response. `known`: a chunk was learnt; `learning`: another one may teach something."""

    def __init__(self) -> None:
        self.known = False
        self.learning = True
        self._before = self._after = b""
        self._two_chunks = 0  # the least bytes of two chunks
        self._padded = False  # then what stands after the words ends where the padding begins
        self._lessons = 0

    def learn(self, record: bytes, chunk: dict[str, Any], text: str) -> None:
        """`record` is JSON for `chunk`, whose `choices[0].delta.content` is `text`, and which says nothing else."""
        self._lessons += 1
        self.learning = self._lessons < _MOST_LESSONS
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
            self.known = True
            self._learn_padding(chunk)
            self._two_chunks = 2 * (len(_FIELD) + len(before) + len(after) + len(_BLANK_LINE))

    def _learn_padding(self, chunk: dict[str, Any]) -> None:
        padding = chunk[_PADDING].encode() if type(chunk.get(_PADDING)) is str else None
        self._padded = padding is not None and self._after.endswith(b'"%b%b' % (padding, _PADDING_ENDS))
        if padding is not None and self._padded:
            self._after = self._after[: -len(padding) - len(_PADDING_ENDS)]

    def texts(self, records: Sequence[bytes]) -> list[str]:
        """The words of the first records, as many of them as repeat the chunk that was learnt."""
        if not self.known:
            return []
        if len(records) >= _MANY and not self._padded and (together := self._texts_together(records)):
            return together
        texts: list[str] = []
        try:
            for record in records:
                text = orjson.loads(self._padded_words(record) if self._padded else self._words(record))
                if type(text) is not str:
                    break
                texts.append(text)
        except ValueError:  # no words, or more than them: whoever reads the record whole will see
            pass
        return texts

    def _texts_together(self, records: Sequence[bytes]) -> list[str]:
        """As `texts`, by one reading of all words; empty where another record stands among them."""
        before, after = self._before + b'"', b'"' + self._after
        count = len(records)
        while count and not records[count - 1].startswith(before):  # how a stream ends
            count -= 1
        if count < _MANY:
            return []
        words = [record[len(before) : -len(after)] for record in records[:count]]
        between = b"%b\n%b" % (after, before)
        if b"%b%b%b" % (before, between.join(words), after) != b"\n".join(records[:count]):
            return []
        written = b'"%b"' % b'","'.join(words)
        # Each has two quotes. Where none of these is escaped, as many texts as words are just the words.
        if b'\\","' in written or written.endswith(b'\\"'):
            return []
        try:
            texts: list[str] = orjson.loads(b"[%b]" % written)
        except ValueError:
            return []
        return texts if len(texts) == count else []

    def lone_text(self, read: bytes) -> str:
        """The words of the chunk that was learnt, where a network read between two records brings it again as one
        record and nothing else; else nothing. Nearly every read of a stream that is slower than the network is that.
        """
        # What is as long as two chunks may well be two, which are better read together.
        if len(read) >= self._two_chunks or not (read.startswith(_FIELD) and read.endswith(_BLANK_LINE)):
            return ""
        texts = self.texts((read[len(_FIELD) : -len(_BLANK_LINE)],))
        return texts[0] if texts else ""

    def _words(self, record: bytes) -> bytes:
        """The words' JSON; empty where the record is another one."""
        before, after = self._before, self._after
        if record.startswith(before) and record.endswith(after) and len(record) >= len(before) + len(after) + 2:
            return record[len(before) : -len(after)]
        return b""

    def _padded_words(self, record: bytes) -> bytes:
        # Whatever of the record is found to be what, it is the one that was learnt but for the words and the letters.
        before, after = self._before, self._after
        end = record.find(after, len(before))
        rest = record[end + len(after) :]
        if end < 0 or not record.startswith(before) or not rest.endswith(_PADDING_ENDS):
            return b""
        return record[len(before) : end] if rest == _PADDING_ENDS or rest[: -len(_PADDING_ENDS)].isalnum() else b""
