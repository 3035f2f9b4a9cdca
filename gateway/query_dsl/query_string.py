r"""The language of `query_string`: a text such as `title:(wolf OR "deep sea") AND year:[1900 TO *] -tags:old`. Pure.

Source: https://docs.opensearch.org/latest/query-dsl/full-text/query-string/ (3.x). Supported are AND, OR, NOT (`&&`,
`||`, `!`, `+`, `-`), parentheses, quotes, `field:`, `_exists_:`, `*` and `?`, `~` after a word, ranges, comparisons and
`^` boosts. A backslash escapes a character. Regular expressions (`/.../`) and slop after a phrase are refused. As in
Lucene, AND does not bind closer than OR: in `a OR b AND c`, b and c are required and a is optional.

Below: clauses. Above: queries.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from gateway.query_dsl.clauses import (
    MAX_DEPTH,
    AnyField,
    Bool,
    Clause,
    Exists,
    FieldQuery,
    Fuzziness,
    Match,
    MatchAll,
    MatchPhrase,
    Pattern,
    QueryError,
    Range,
)

Fields: TypeAlias = tuple[tuple[str, float], ...]
Bound: TypeAlias = Literal["gt", "gte", "lt", "lte"]


@dataclass(frozen=True, slots=True)
class StringRules:
    """The options of a query string. `fields` are searched for words without a field (patterns; empty: all fields)."""

    fields: Fields = ()
    operator: Literal["or", "and"] = "or"
    tie_breaker: float = 0.0
    leading_wildcard: bool = True
    fuzziness: Fuzziness = field(default_factory=Fuzziness)


def parse_query_string(text: str, rules: StringRules, count: Callable[[], None] = lambda: None) -> Clause:
    """The clauses of a query string. `count` is called for each of them, and may stop the parser by raising.

    Raises:
        QueryError: the query string is wrong; the text says where.
    """
    return _Reader(text, rules, count).query()


# A word goes on until white space or one of these; `-` and `+` mean something at its beginning only.
_WORD = re.compile(r'(?:[^ \t\r\n\u3000()":^\[\]{}~\\]|\\.)*', re.DOTALL)
_BLANK = " \t\r\n\u3000"
_CONJUNCTION = re.compile(r"(AND|OR|&&|\|\|)(?=[\s(\"+\-!*]|$)|(&&|\|\|)")
_NOT = re.compile(r"NOT(?=[\s(\"]|$)")
_COMPARISON = re.compile(r"([<>]=?)")
_FUZZINESS = re.compile(r"~([012]?)(?=[\s)^]|$)")
_BOOST = re.compile(r"\d+(?:\.\d+)?")
_HINT = "put a backslash before it, or quotation marks around the words, to search for it as it stands"


@dataclass(slots=True)
class _Occurring:
    clause: Clause
    occurrence: Literal["must", "should", "must_not"]


class _Reader:
    def __init__(self, text: str, rules: StringRules, count: Callable[[], None]) -> None:
        self._text = text
        self._rules = rules
        self._count = count
        self._at = 0
        self._depth = 0

    def query(self) -> Clause:
        found = self._sequence(None)
        if self._at < len(self._text):
            raise self._error("a closing parenthesis without its opening one")
        return MatchAll(all=False) if found is None else found

    # --- clauses together -----------------------------------------------------------------------------------------

    def _sequence(self, field: str | None) -> Clause | None:
        """Clauses up to the end or to a closing parenthesis; None where there are none."""
        found: list[_Occurring] = []
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise QueryError(f"the query string is nested too deeply: at most {MAX_DEPTH} parentheses are possible")
        while not self._over():
            conjunction = self._conjunction()
            modifier = self._modifier()
            if self._over():
                raise self._error("an operator with nothing behind it")
            if (conjunction or modifier) and _CONJUNCTION.match(self._text, self._at):
                raise self._error("an operator where words should be")
            if (clause := self._clause(field)) is not None:
                self._add(found, clause, conjunction, modifier)
        self._depth -= 1
        return _together(found)

    def _over(self) -> bool:
        self._skip_blank()
        return self._at >= len(self._text) or self._text[self._at] == ")"

    def _conjunction(self) -> str:
        match = _CONJUNCTION.match(self._text, self._at)
        if match is None:
            return ""
        self._at = match.end()
        self._skip_blank()
        return "and" if match.group() in ("AND", "&&") else "or"

    def _modifier(self) -> str:
        if (match := _NOT.match(self._text, self._at)) is not None:
            self._at = match.end()
            self._skip_blank()
            return "-"
        sign = self._text[self._at : self._at + 1]
        if sign and sign in "+-!":
            self._at += 1
            return "+" if sign == "+" else "-"
        return ""

    def _add(self, found: list[_Occurring], clause: Clause, conjunction: str, modifier: str) -> None:
        """Add a clause as Lucene's classic parser does: a conjunction changes the clause before it, too."""
        before = found[-1] if found else None
        if before is not None and before.occurrence != "must_not":
            if conjunction == "and":
                before.occurrence = "must"
            elif conjunction == "or" and self._rules.operator == "and":
                before.occurrence = "should"
        if modifier == "-":
            occurrence: Literal["must", "should", "must_not"] = "must_not"
        elif modifier == "+" or conjunction == "and" or (self._rules.operator == "and" and conjunction != "or"):
            occurrence = "must"
        else:
            occurrence = "should"
        found.append(_Occurring(clause, occurrence))

    # --- one clause -----------------------------------------------------------------------------------------------

    def _clause(self, field: str | None) -> Clause | None:
        """A clause; None for a word that has nothing to search for, such as a dash."""
        self._count()
        if self._next() not in '("[{':
            start = self._at
            word = self._word()
            self._skip_blank()
            if self._next() == ":" and word:
                self._at += 1
                self._skip_blank()
                return self._of_field(_plain(word))
            self._at = start
        return self._value(field)

    def _of_field(self, field: str) -> Clause | None:
        if self._over():
            raise self._error(f"nothing behind '{field}:'")
        if field == "_exists_":
            return self._boosted(Exists(_plain(self._word())))
        return self._value(field)

    def _value(self, field: str | None) -> Clause | None:
        found: Clause | None
        match self._next():
            case "(":
                opened = self._at
                self._at += 1
                found = self._sequence(field)
                if self._next() != ")":
                    raise self._error("a parenthesis that is never closed", opened)
                self._at += 1
            case '"':
                found = self._in_fields(field, MatchPhrase("", self._quoted()))
                if self._next() == "~":
                    raise self._error("'~', slop behind a phrase, which is not supported")
            case "[" | "{":
                found = self._in_fields(field, Range("", self._range()))
            case "<" | ">" if (match := _COMPARISON.match(self._text, self._at)) is not None:
                self._at = match.end()
                self._skip_blank()
                value = self._quoted() if self._next() == '"' else _plain(self._needed_word())
                found = self._in_fields(field, Range("", {_COMPARED[match[1]]: value}))
            case _:
                found = self._words(field)
        return None if found is None else self._boosted(found)

    def _words(self, field: str | None) -> Clause | None:
        start = self._at
        word = self._needed_word()
        if word.startswith("/") and (self._text.find("/", start + 1) > 0):
            raise self._error("a regular expression, which is not supported", start)
        fuzziness = self._fuzziness()
        if word == "*":
            return MatchAll() if field in (None, "*") else Exists(field or "")
        if _has_wildcard(word):
            if word[0] in "*?" and not self._rules.leading_wildcard:
                raise self._error("a word that begins with a wildcard, which 'allow_leading_wildcard' forbids", start)
            return self._in_fields(field, Pattern("", word, literal=False))
        plain = _plain(word)
        if field is None and not any(character.isalnum() for character in plain):
            return None
        return self._in_fields(field, Match("", plain, self._rules.operator, fuzziness=fuzziness))

    def _in_fields(self, field: str | None, query: FieldQuery) -> Clause:
        if field is None and len(self._rules.fields) == 1 and "*" not in self._rules.fields[0][0]:
            name, boost = self._rules.fields[0]
            return replace(query, field=name, boost=boost)
        if field is None:
            return AnyField(self._rules.fields, query, self._rules.tie_breaker)
        if "*" in field:
            return AnyField(((field, 1.0),), query, self._rules.tie_breaker)
        return replace(query, field=field)

    def _boosted(self, clause: Clause) -> Clause:
        if self._next() != "^":
            return clause
        match = _BOOST.match(self._text, self._at + 1)
        if match is None:
            raise self._error("a '^' without a number behind it")
        self._at = match.end()
        return replace(clause, boost=clause.boost * float(match.group()))

    def _fuzziness(self) -> Fuzziness | None:
        if self._next() != "~":
            return None
        match = _FUZZINESS.match(self._text, self._at)
        if match is None:
            raise self._error("a '~' with something else behind it than 0, 1, 2 or nothing")
        self._at = match.end()
        return replace(self._rules.fuzziness, most=int(match[1])) if match[1] else self._rules.fuzziness

    # --- pieces of text -------------------------------------------------------------------------------------------

    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _skip_blank(self) -> None:
        while self._at < len(self._text) and self._text[self._at] in _BLANK:
            self._at += 1

    def _word(self) -> str:
        """The characters up to the end of a word, backslashes included; may be empty."""
        match = _WORD.match(self._text, self._at)
        assert match is not None, "a word may be empty"
        self._at = match.end()
        if self._next() == "\\":
            self._at = len(self._text)
            raise self._error("a backslash with nothing behind it")
        return match.group()

    def _needed_word(self) -> str:
        word = self._word()
        if not word:
            raise self._error(f"{self._next()!r} where a word should be" if self._next() else "the end, too early")
        return word

    def _quoted(self) -> str:
        """The text between quotation marks."""
        start = end = self._at + 1
        while end < len(self._text) and self._text[end] != '"':
            end += 2 if self._text[end] == "\\" else 1
        if end >= len(self._text):
            raise self._error("a quotation mark without a second one")
        self._at = end + 1
        return _plain(self._text[start:end])

    def _range(self) -> dict[Bound, str]:
        """The bounds of `[a TO b]`. Curly brackets exclude the bound itself, and `*` means no bound."""
        opened = self._at
        lower: Bound = "gte" if self._next() == "[" else "gt"
        self._at += 1
        first = self._bound()
        self._skip_blank()
        if self._text[self._at : self._at + 3].upper() != "TO ":
            raise self._error("a range that is not like [1 TO 5] or {* TO 2024-01-31}", opened)
        self._at += 3
        last = self._bound()
        self._skip_blank()
        if self._next() not in ("]", "}"):
            raise self._error("a range that is never closed", opened)
        upper: Bound = "lte" if self._next() == "]" else "lt"
        self._at += 1
        bounds: dict[Bound, str] = {}
        if first is not None:
            bounds[lower] = first
        if last is not None:
            bounds[upper] = last
        return bounds

    def _bound(self) -> str | None:
        self._skip_blank()
        if self._next() == '"':
            return self._quoted()
        start = self._at
        while self._at < len(self._text) and self._text[self._at] not in f"{_BLANK}]}}":
            self._at += 1
        if start == self._at:
            raise self._error("a range that lacks a bound; write '*' where there is none")
        value = self._text[start : self._at]
        return None if value == "*" else _plain(value)

    def _error(self, what: str, at: int | None = None) -> QueryError:
        place = (self._at if at is None else at) + 1
        return QueryError(f"the query string {self._text[:200]!r} has, at character {place}, {what}; {_HINT}")


_COMPARED: dict[str, Bound] = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}


def _together(found: Sequence[_Occurring]) -> Clause | None:
    if not found:
        return None
    if len(found) == 1 and found[0].occurrence != "must_not":
        return found[0].clause
    must, should, must_not = (
        tuple(item.clause for item in found if item.occurrence == occurrence)
        for occurrence in ("must", "should", "must_not")
    )
    return Bool(must=must, should=should, must_not=must_not)


def _plain(word: str) -> str:
    """The word without its escaping backslashes."""
    return re.sub(r"\\(.)", r"\1", word, flags=re.DOTALL)


def _has_wildcard(word: str) -> bool:
    return re.search(r"(?<!\\)(?:\\\\)*[*?]", word) is not None
