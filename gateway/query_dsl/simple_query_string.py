r"""The language of `simple_query_string`, in which every text is valid: `"deep sea" +(wolf | fox*) -old`. Pure.

Source: https://docs.opensearch.org/latest/query-dsl/full-text/simple-query-string/ (3.x). `+` is AND, `|` OR, `-` NOT;
`*` marks a prefix, `~` a word that may differ, and a backslash escapes. Characters without a meaning where they are (a
single parenthesis, an operator without words) are ignored.

Below: clauses, query_string (its rules). Above: queries.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from gateway.query_dsl.clauses import (
    MAX_DEPTH,
    AnyField,
    Bool,
    Clause,
    FieldQuery,
    Match,
    MatchAll,
    MatchPhrase,
    Pattern,
    QueryError,
)
from gateway.query_dsl.query_string import StringRules

Operator: TypeAlias = Literal["and", "or"]

_WORD = re.compile(r'(?:[^\s"|+()\\]|\\.?)*', re.DOTALL)
_PARENTHESES = re.compile(r"\\.|[()]", re.DOTALL)
_MAX_CHANGES = 100
_FUZZY = re.compile(r"~(\d{0,2})$", re.ASCII)


def parse_simple_query_string(text: str, rules: StringRules, count: Callable[[], None] = lambda: None) -> Clause:
    """The clauses of the text. `count` is called for each of them, and may stop the parser by raising.

    Raises:
        QueryError: the text is nested too deeply, by parentheses or by alternating operators.
    """
    found = _Reader(text, rules, count).sequence(0, len(text), 0)
    return MatchAll(all=False) if found is None else found


@dataclass(slots=True)
class _Tree:
    """The clauses that were read so far; operators have no precedence over each other."""

    default: Operator
    nest: Callable[[], None]  # called whenever the clauses so far become the first part of a larger clause
    operator: Operator | None = None  # the last one that was read, if no words followed yet
    joined: Operator | None = None  # the one that joins `clauses`
    negations: int = 0
    clauses: list[Clause] = field(default_factory=list)

    def add(self, clause: Clause | None) -> None:
        if clause is None:
            return
        if self.negations % 2:
            clause = Bool(must_not=(clause,))
        if self.clauses:
            operator = self.operator or self.default
            if self.joined not in (None, operator):
                self.nest()
                self.clauses = [_joined(self.clauses, self.joined)]
            self.joined = operator
        self.clauses.append(clause)
        self.operator, self.negations = None, 0

    def build(self) -> Clause | None:
        return _joined(self.clauses, self.joined) if self.clauses else None


def _joined(clauses: list[Clause], operator: Operator | None) -> Clause:
    if len(clauses) == 1:
        return clauses[0]
    return Bool(must=tuple(clauses)) if operator == "and" else Bool(should=tuple(clauses))


class _Reader:
    def __init__(self, text: str, rules: StringRules, count: Callable[[], None]) -> None:
        self._text = text
        self._rules = rules
        self._count = count
        self._changes = 0
        self._closing = _closing_parentheses(text)

    def sequence(self, at: int, end: int, depth: int) -> Clause | None:
        if depth >= MAX_DEPTH:
            raise QueryError(f"the query string is nested too deeply: at most {MAX_DEPTH} parentheses are possible")
        tree = _Tree(self._rules.operator, self._nest)
        while at < end:
            match self._text[at]:
                case "-":
                    tree.negations += 1
                    at += 1
                case "(" if (closed := self._closing.get(at, end)) < end:
                    tree.add(self.sequence(at + 1, closed, depth + 1))
                    at = closed + 1
                case '"' if (close := self._find('"', at + 1, end)) is not None:
                    self._count()
                    words = _plain(self._text[at + 1 : close])
                    tree.add(self._in_fields(MatchPhrase("", words)) if words.strip() else None)
                    at = close + 1
                case "+" | "|" as sign:
                    if tree.clauses and tree.operator is None:
                        tree.operator = "and" if sign == "+" else "or"
                    at += 1
                case "(" | ")" | '"':
                    at += 1
                case blank if blank.isspace():
                    tree.negations = 0  # a dash that stands alone
                    at += 1
                case _:
                    stop = self._word_end(at, end)
                    tree.add(self._word(self._text[at:stop]))
                    at = stop
        return tree.build()

    def _nest(self) -> None:
        self._changes += 1
        if self._changes > _MAX_CHANGES:
            raise QueryError(f"the query string goes to and fro between '+' and '|' at most {_MAX_CHANGES} times")

    def _word(self, word: str) -> Clause | None:
        self._count()
        if word.endswith("*") and len(word) > 1 and not word.endswith("\\*"):
            return self._in_fields(Pattern("", _plain(word[:-1]), literal=True))
        fuzziness = None
        if (match := _FUZZY.search(word)) is not None and not word[: match.start()].endswith("\\"):
            fuzziness = replace(self._rules.fuzziness, most=min(int(match[1] or 2), 2))
            word = word[: match.start()]
        plain = _plain(word)
        if not any(character.isalnum() for character in plain):
            return None
        return self._in_fields(Match("", plain, self._rules.operator, fuzziness=fuzziness))

    def _in_fields(self, query: FieldQuery) -> Clause:
        return AnyField(self._rules.fields, query, self._rules.tie_breaker)

    def _word_end(self, at: int, end: int) -> int:
        match = _WORD.match(self._text, at, end)
        return at if match is None else match.end()

    def _find(self, wanted: str, at: int, end: int) -> int | None:
        while at < end and self._text[at] != wanted:
            at += 2 if self._text[at] == "\\" else 1
        return at if at < end else None


def _closing_parentheses(text: str) -> dict[int, int]:
    """The position of each closing parenthesis, by the position of its opening one."""
    opened: list[int] = []
    closing: dict[int, int] = {}
    for match in _PARENTHESES.finditer(text):
        if match.group() == "(":
            opened.append(match.start())
        elif match.group() == ")" and opened:
            closing[opened.pop()] = match.start()
    return closing


def _plain(word: str) -> str:
    return re.sub(r"\\(.)", r"\1", word, flags=re.DOTALL)
