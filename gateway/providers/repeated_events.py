"""Reads events that differ only in their text without parsing each of them: a reader then costs up to 45 % less.

Above: the models, which put a RepeatedEventsReader around the reader of a wire. Below: answer_reader. Pure. The result
is the same without it. The saving depends on the wire: 30 to 47 % if many events come at once. If each event comes by
itself, it is 36 to 45 % with chat completions and Anthropic, 9 % with responses, nothing with Gemini.

Most servers repeat an event byte for byte; only its text changes. So one event is parsed, and if it has nothing but
text, the bytes before and after the text are searched in the following bytes. The texts of all events of a network read
are then taken together, without splitting lines and parsing JSON, which cost more than everything else that is done
with an event. If a server's events differ in more than their `Likeness` allows, they are read one by one.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import orjson

from gateway.events import Events
from gateway.providers.answer_reader import AnswerReader, RecordReader

# So many bytes are read event by event before the next check whether the following events repeat one of them.
_PART_BYTES = 1024
_MOST_LESSONS = 4
_MOST_BYTES = 8192  # searched together: one different event must not cause many others to be searched again
_ENDS = (b"\n\n", b"\n\r\n")
_DIGITS = b"0123456789"
_OPENING = re.compile(rb"(?:event: [^\r\n]*\r?\n)?data: ")
_BLANKS = (b"\n\n", b"\r\n\r\n")
_DATA = b"data: "
_WORDS = rb'"([^"\\\n]*(?:\\.[^"\\\n]*)*)"'
_NEXT = rb"\r?\n\r?\n"


@dataclass(frozen=True, slots=True)
class Likeness:
    """How one event is like the next. `path` leads to the text in an event. `patterns` find the text in its bytes, and
    the bytes after it up to those that may differ; the first that matches counts.

    `number` names a member before the text that grows by one each time. `counted`: digits after the text may differ.
    `constant` is the pattern of events in which nothing else may differ.
    """

    path: tuple[str | int, ...]
    patterns: tuple[re.Pattern[bytes], ...]
    number: str = ""
    counted: bool = False
    constant: re.Pattern[bytes] | None = None


def likeness(*path: str | int, padding: str = "", number: str = "", counted: bool = False) -> Likeness:
    """`padding`: the last member of an event has random letters that hide the text's length
    (https://platform.openai.com/docs/api-reference/chat/create, `include_obfuscation`); ` `: there are spaces.
    """
    words = b'"%b": ?%b' % (str(path[-1]).encode(), _WORDS)
    patterns = [words + b"(.*)" + _NEXT]
    if padding == " ":
        patterns = [words + rb"(.*?) *\}" + _NEXT]
    elif padding:
        patterns.insert(0, words + rb'(.*)"%b": ?"[A-Za-z0-9]*"\}' % padding.encode() + _NEXT)
    compiled = tuple(map(re.compile, patterns))
    constant = None if number or counted or padding == " " else compiled[-1]
    return Likeness(path, compiled, number, counted, constant)


class _Constant(NamedTuple):
    """The bytes around the text of events in which nothing else may differ. Finding them is faster than any pattern.

    `key` is the end of `before`; `rest` is the number of bytes between the text of an event and the next one's key.
    """

    before: bytes
    behind: bytes
    key: bytes
    rest: int

    def texts(self, read: bytes) -> tuple[list[str], int] | None:
        """The texts of the events at the beginning of a read, and the number of their bytes. None if the patterns have
        to read them, as texts that end with an escaped quotation mark.
        """
        before, behind, key, rest = self
        *pieces, last = read[len(before) :].split(key)
        words = [piece[:-rest] for piece in pieces]
        end = last.find(behind)
        if end >= 0:
            words.append(last[:end])
        events = before + (behind + before).join(words) + behind
        written = b'["%b"]' % b'","'.join(words)
        if not words or not read.startswith(events) or b'\\","' in written or written.endswith(b'\\"]'):
            return None
        try:
            texts: list[str] = orjson.loads(written)
        except ValueError:
            return None
        # A quotation mark inside a supposed text ends it early: then there are more texts than expected.
        return (texts, len(events)) if len(texts) == len(words) else None


class RepeatedEventsReader(AnswerReader):
    """A reader around another one, for one response. It gives the same events as the other one alone."""

    def __init__(self, reader: RecordReader, likeness: Likeness) -> None:
        """`likeness`: of this wire's events that bring more text."""
        super().__init__(reader._builder)
        self._reader = reader
        self._repeated = RepeatedEvents(likeness)
        self._may_repeat = False  # the next event is likely to bring more of the current text
        self._begun = False

    @property
    def has_finish_reason(self) -> bool:
        """As AnswerReader says."""
        return self._reader.has_finish_reason

    def feed(self, data: bytes) -> Events:
        """As AnswerReader says."""
        repeated = self._repeated
        while data:
            if self._may_repeat and (texts := repeated.take(data)):
                self._reader.take_texts(texts, repeated.last, repeated.number)
                data = data[repeated.taken :]
            else:
                data = self._read_part(data)
        return self._builder.take()

    def eof(self) -> Events:
        """As AnswerReader says."""
        events = self._reader.eof()
        self._note_end()
        return events

    def _read_part(self, data: bytes) -> bytes:
        """Read event by event: everything, or only a few events if repeated ones may follow. Gives the rest."""
        if self._is_over():
            return b""
        reader, end = self._reader, len(data)
        if end > _PART_BYTES and (reader.text_place is not None or not self._begun):
            end = next((at + len(blank) for blank in _ENDS if (at := data.find(blank, _PART_BYTES)) >= 0), end)
        part = data[:end]
        self._begun = True
        reader.read(part)
        self._note_end()
        place, lesson = reader.text_place, reader.last_text
        if lesson is not None and place is not None and self._repeated.wants_lesson(place):
            self._repeated.learn(part, *lesson, place)
        self._may_repeat = place is not None and self._repeated.is_known(place) and reader.expects_record
        return data[end:]

    def _note_end(self) -> None:
        self.done, self.failure = self._reader.done, self._reader.failure


class RepeatedEvents:
    """One per response. Of the last `take`: `taken` is the number of its bytes, `last` the data of its last event,
    `number` that event's number.
    """

    def __init__(self, likeness: Likeness) -> None:
        self.taken = 0
        self.last = b""
        self.number = 0
        self._likeness = likeness
        self._lessons = 0
        self._known = False
        self._place: Hashable = None
        self._pattern = likeness.patterns[0]
        self._split = self._pattern.split
        self._before = self._behind = b""
        self._constant: _Constant | None = None
        self._numbered = b""  # the bytes before the text, without the number; and the number's place
        self._number_at = self._number_end = 0

    def is_known(self, place: Hashable) -> bool:
        """Whether an event with text for `place` was learnt."""
        return self._known and place == self._place

    def wants_lesson(self, place: Hashable) -> bool:
        """Whether another event with text for `place` should be learnt."""
        return place != self._place or self._lessons < _MOST_LESSONS

    def learn(self, read: bytes, record: bytes, event: Any, text: str, place: Hashable) -> None:
        """`record`, the data of an event in a network read, is the JSON of `event`, which brings `text` and nothing
        else.
        """
        self._lessons = 1 if place != self._place else self._lessons + 1
        self._known, self._place = False, place
        opening, blank = _frame_of(read, record)
        # Longer bytes are never searched, and a pattern may take long on them.
        for pattern in self._likeness.patterns if blank and len(record) < _MOST_BYTES else ():
            found = pattern.search(whole := opening + record + blank)
            if found is not None and found.end() == len(whole):
                break
        else:
            return
        before, behind = whole[: found.start()], found[2]
        other = whole[len(opening) : found.start(1)] + b"?" + whole[found.end(1) :]
        if self._likeness.number and not self._learn_number(before, event):
            return
        if _is_other_only_there(other, self._likeness.path, event, text):
            self._pattern, self._split, self._before, self._known = pattern, pattern.split, before, True
            self._constant = self._learn_constant(whole, found) if pattern is self._likeness.constant else None
            self._behind = behind.translate(None, _DIGITS) if self._likeness.counted else behind

    def _learn_constant(self, whole: bytes, found: re.Match[bytes]) -> _Constant:
        before, behind = whole[: found.start(1)], whole[found.end(1) :]
        key = before[found.start() :]
        return _Constant(before, behind, key, len(behind) + len(before) - len(key))

    def _learn_number(self, before: bytes, event: Any) -> bool:
        """Whether the number comes before the text, once, as a member of the event itself."""
        found = re.search(rb'"%b": ?([0-9]+),' % self._likeness.number.encode(), before)
        if found is None or b"{" in before[before.find(b"{") + 1 : found.start()]:
            return False
        start, rest = before[: found.start(1)], before[found.end(1) :]
        self._numbered = b"%b%%d%b" % (start.replace(b"%", b"%%"), rest.replace(b"%", b"%%"))
        self._number_at, self._number_end = len(start), -len(rest)
        return bool(event.get(self._likeness.number) == int(found[1]))

    def take(self, read: bytes) -> list[str]:
        """The texts of the events at the beginning of a read that repeat the learnt event."""
        window = read if len(read) <= _MOST_BYTES else read[:_MOST_BYTES]
        if self._constant is not None and (found := self._constant.texts(window)):
            self.taken = found[1]
            return found[0]
        parts = self._split(window)
        end = len(window) - len(parts[-1])
        words = parts[1::3]
        if len(parts) == 4 and parts[0] == self._before and parts[2] == self._behind:
            pass  # one event and nothing else, as in nearly every read of a slow stream
        elif words and not self._fits(befores := parts[:-1:3], behinds := parts[2::3]):
            count = next(n for n in range(len(words)) if not self._fits(befores[: n + 1], behinds[: n + 1]))
            words = words[:count]
            end = max((found.end() for found in islice(self._pattern.finditer(window), count)), default=0)
        if not words:
            return []
        try:
            texts: list[str] = orjson.loads(b'["%b"]' % b'","'.join(words))
        except ValueError:  # for example halves of a surrogate pair: the other reader handles them
            return []
        self.taken = end
        if self._likeness.counted:
            line_end = window.rfind(b"}", 0, end) + 1
            self.last = window[window.rfind(b"\n", 0, line_end) + 1 + len(_DATA) : line_end]
        return texts

    def _fits(self, befores: list[bytes], behinds: list[bytes]) -> bool:
        """Whether events with these beginnings and ends repeat the learnt one."""
        count = len(befores)
        if self._likeness.counted:
            if b"\n".join(behinds).translate(None, _DIGITS) != b"\n".join([self._behind] * count):
                return False
        elif behinds.count(self._behind) != count:
            return False
        return self._is_numbered(befores) if self._numbered else befores.count(self._before) == count

    def _is_numbered(self, befores: list[bytes]) -> bool:
        """Whether they are the learnt beginning, each with the next number."""
        digits = befores[0][self._number_at : self._number_end]
        if not digits.isdigit():
            return False
        numbers = range(int(digits), int(digits) + len(befores))
        if befores != [self._numbered % number for number in numbers]:
            return False
        self.number = numbers[-1]
        return True


def _frame_of(read: bytes, record: bytes) -> tuple[bytes, bytes]:
    """The bytes before and after an event's data, if the data has a line of its own; else nothing."""
    at = read.find(record)
    blank = next((blank for blank in _BLANKS if read.startswith(blank, at + len(record))), b"")
    before = read[: max(at, 0)].rpartition(blank)[2] if blank else b""
    return (before, blank) if _OPENING.fullmatch(before) else (b"", b"")


def _is_other_only_there(record: bytes, path: Sequence[str | int], event: Any, text: str) -> bool:
    """Whether the record, with a question mark instead of the text, differs from the event only there."""
    try:
        probe: Any = orjson.loads(record)
        said = probe
        for step in path[:-1]:
            said = said[step]
        asked, said[path[-1]] = said[path[-1]], text
    except (ValueError, KeyError, TypeError, IndexError):
        return False
    return bool(asked == "?" and probe == event)
