"""Evaluates a query over one index: clauses of the query DSL give documents with scores.

Each clause gives the documents that it finds with their scores, and outer clauses combine these as sets. It blocks, as
`documents` does. Below: documents. Above: search.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase, translate
from functools import reduce
from typing import TypeAlias
from unicodedata import combining, normalize

from gateway.embedded_index.aggregation import FieldValues
from gateway.embedded_index.budget import Budget
from gateway.embedded_index.documents import Index
from gateway.query_dsl import clauses
from gateway.query_dsl.field_mapping import MappingError, plain_number, plain_text
from gateway.query_dsl.search_body import SortKey
from gateway.query_dsl.word_distance import alike_words, near_words

Scores: TypeAlias = dict[int, float]
"""What a clause found: the documents' row numbers with their scores."""

_MAX_WORDS = 256
_MAX_LOOKUPS = 10_000
_MAX_FUZZY_WORDS = 256

# Steps for comparing words: a quick test that excludes most, measuring the distance, and matching a pattern.
_GLANCES_PER_STEP = 2
_STEPS_PER_DISTANCE = 6
_PATTERNS_PER_STEP = 2

# Steps of FTS5's own work, which SQLite's instruction count leaves out: reading a word's positions in the index,
# merging those of all words with a prefix, skipping words in the vocabulary, and scoring a word in each found document.
_READ_PER_STEP = 8
_MERGED_PER_STEP = 2
_PASSED_PER_STEP = 20
_PHRASES_PER_STEP = 20
_ROWS_AT_ONCE = 1_000

# What FTS5 gets of a text, one piece at a time and always quoted: letters, digits and marks. An apostrophe inside a
# word ("don't") and a separator inside a number ("3,519,000") keep their parts together as a phrase.
_WORD = re.compile(r"(?:[^\W_]|[\u0300-\u036f]|(?<=\w)['\u2019](?=\w)|(?<=\d)[.,](?=\d))+")

_PHRASE = re.compile(r'"([^"]*)"')  # in an expression
_TOKEN = re.compile(r"[^\W_]+")  # about how FTS5 splits a phrase
_WILD = re.compile(r"[*?\[]")
_BEHIND_ALL = "\U0010ffff"  # sorts after every other character in SQLite


@dataclass(slots=True)
class Work:
    """Counts what a search has looked up in an index: even a few clauses may have many words in many fields."""

    budget: Budget
    lookups: int = 0
    fuzzy_words: int = 0
    vocabularies: dict[str, Sequence[str]] = field(default_factory=dict)  # by the fields that have them
    occurrences: dict[tuple[str, str], int] = field(default_factory=dict)  # by fields and words; `word*`: a prefix

    def look_up(self, count: int = 1) -> None:
        self.lookups += count
        if self.lookups > _MAX_LOOKUPS:
            raise clauses.QueryError(
                f"the search looks up too many words and values; at most {_MAX_LOOKUPS} are possible; "
                "ask for fewer words, in fewer fields, in fewer clauses"
            )

    def look_near(self) -> None:
        self.fuzzy_words += 1
        if self.fuzzy_words > _MAX_FUZZY_WORDS:
            raise clauses.QueryError(
                f"the search has too many words with 'fuzziness'; at most {_MAX_FUZZY_WORDS} are possible, "
                "where a word counts in each field it is looked for in"
            )


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Evaluates a query over one index. `paths` are the fields of all indices that are searched together."""

    database: sqlite3.Connection
    index: Index
    paths: set[str]
    work: Work

    def run(self, clause: clauses.Clause) -> Scores:
        scores = self._run(clause)
        self.work.budget.spend(1 + len(scores))
        return scores

    def _run(self, clause: clauses.Clause) -> Scores:
        match clause:
            case clauses.MatchAll():
                return self._all(clause.boost) if clause.all else {}
            case clauses.Match():
                return _boosted(self._match(clause), clause.boost)
            case clauses.MatchPhrase():
                return _boosted(self._phrase(clause), clause.boost)
            case clauses.MultiMatch():
                return _boosted(self._multi_match(clause), clause.boost)
            case clauses.Terms():
                return self._terms(clause)
            case clauses.Ids():
                marks = ", ".join("?" * len(clause.values))
                return self._documents(f"id IN ({marks})", clause.values, clause.boost)
            case clauses.Exists():
                return self._exists(clause)
            case clauses.Range():
                return self._range(clause)
            case clauses.Pattern():
                return self._pattern(clause)
            case clauses.AnyField():
                return _boosted(self._any_field(clause), clause.boost)
            case clauses.ConstantScore():
                return dict.fromkeys(self.run(clause.query), clause.boost)
            case clauses.DisjunctionMax():
                return _boosted(_best([self.run(query) for query in clause.queries], clause.tie_breaker), clause.boost)
            case clauses.Bool():
                return _boosted(self._bool(clause), clause.boost)

    def sort_values(self, key: SortKey, scores: Scores) -> dict[int, str | int | float]:
        """The sort values of the found documents. Of several values, the first in the sort's direction counts."""
        if key.field == "_score":
            return dict(scores)
        if key.field == "_doc":
            return {row: row for row in scores}
        kind = self._kind(key.field)
        if kind == "text":
            raise clauses.QueryError(
                f"{key.field!r} is text, which has no order; sort by a keyword, number or date field"
            )
        if kind is None:
            return {}
        column = "text" if kind == "keyword" else "number"
        pick = "max" if key.descending else "min"
        rows = self.database.execute(
            f"SELECT document, {pick}({column}) FROM field_values WHERE field = ? GROUP BY document",
            (self._field(key.field),),
        )
        return {row: value for row, value in rows if row in scores}

    def values(self, path: str) -> FieldValues:
        """What this index's documents have in a field."""
        kind = self._kind(path)
        if kind is None:
            return FieldValues(None, {})
        if kind == "text":
            return FieldValues(kind, dict.fromkeys(self._having(path, "TRUE", (), 0.0), ("",)))
        rows = self.database.execute(
            "SELECT document, coalesce(text, number) FROM field_values WHERE field = ?", (self._field(path),)
        )
        found: dict[int, list[str | int | float]] = {}
        for row, value in rows:
            found.setdefault(row, []).append(value)
        self.work.budget.spend(len(found))
        return FieldValues(kind, found)

    def _kind(self, path: str) -> str | None:
        """The type of a field; None where only another index has it.

        Raises:
            QueryError: none of the searched indices has it.
        """
        if path in self.index.types:
            return self.index.types[path].kind
        if path in self.paths or not self.paths:
            return None
        raise clauses.QueryError(f"there is no field {path!r}; there are: {', '.join(sorted(self.paths))}")

    def _field(self, path: str) -> int:
        return int(
            self.database.execute(
                "SELECT id FROM fields WHERE index_id = ? AND path = ?", (self.index.id, path)
            ).fetchone()[0]
        )

    def _all(self, boost: float) -> Scores:
        return self._documents("TRUE", (), boost)

    def _documents(self, condition: str, values: Sequence[object], boost: float) -> Scores:
        self.work.look_up()
        rows = self.database.execute(
            f"SELECT row FROM documents WHERE index_id = ? AND {condition}", (self.index.id, *values)
        )
        return {row: boost for (row,) in rows}

    def _having(self, path: str, condition: str, values: Sequence[object], boost: float) -> Scores:
        self.work.look_up()
        rows = self.database.execute(
            f"SELECT DISTINCT document FROM field_values WHERE field = ? AND {condition}", (self._field(path), *values)
        )
        return {row: boost for (row,) in rows}

    def _words(self, path: str, expression: str) -> Scores:
        """The documents that contain words, with their relevance."""
        self._expect(path, _PHRASE.findall(expression), is_prefix=expression.endswith("*"))
        table = f"words_{self._field(path)}"
        rows = self.database.execute(f"SELECT rowid, -bm25({table}) FROM {table} WHERE {table} MATCH ?", (expression,))
        scores: Scores = {}
        while some := rows.fetchmany(_ROWS_AT_ONCE):
            self.work.budget.spend(len(some) * expression.count('"') // 2 // _PHRASES_PER_STEP)
            scores.update(some)
        return scores

    def _with_words(self, path: str, words: Sequence[str], score: float) -> Scores:
        """The documents that contain one of the words, all with one score: adding up relevance would cost too much."""
        if not words:
            return {}
        self._expect(path, words, is_prefix=False)
        expression = " OR ".join(f'"{word}"' for word in words)
        table = f"words_{self._field(path)}"
        rows = self.database.execute(f"SELECT rowid FROM {table} WHERE {table} MATCH ?", (expression,))
        return {row: score for (row,) in rows}

    def _expect(self, path: str, phrases: Sequence[str], *, is_prefix: bool) -> None:
        """Count the work of looking these up."""
        self.work.look_up()
        for phrase in phrases:
            self.work.budget.spend(self._reading(path, phrase, is_prefix=is_prefix))

    def _reading(self, path: str, phrase: str, *, is_prefix: bool) -> int:
        """The steps for reading the positions of a phrase's words, up to the first word that does not occur."""
        tokens = _TOKEN.findall(_folded(phrase))
        steps = 0
        for number, token in enumerate(tokens, 1):
            is_begin = is_prefix and number == len(tokens)
            found = self._occurrences(path, token, is_prefix=is_begin)
            steps += found // (_MERGED_PER_STEP if is_begin else _READ_PER_STEP)
            if not found:
                break
        return steps

    def _occurrences(self, path: str, word: str, *, is_prefix: bool = False) -> int:
        """How often a word, or all words with a prefix, occur in a field. The index reads as many positions in one step
        that cannot be interrupted.
        """
        known, key = self.work.occurrences, (path, f"{word}*" if is_prefix else word)
        if key not in known:
            end = word + _BEHIND_ALL if is_prefix else word
            (known[key],) = self.database.execute(
                f"SELECT coalesce(sum(cnt), 0) FROM {self._known(path)} WHERE term >= ? AND term <= ?", (word, end)
            ).fetchone()
        return known[key]

    def _match(self, clause: clauses.Match) -> Scores:
        kind = self._kind(clause.field)
        if kind != "text":
            return {} if kind is None else self._exact(clause, kind)
        words = _quoted_words(clause.text)
        if not words:
            return {}
        self.work.look_up(len(words))
        if clause.fuzziness is not None:
            words = [self._nearly(clause.field, word, clause.fuzziness) for word in words]
        default = len(words) if clause.operator == "and" else 1
        required = clauses.minimum_matches(clause.minimum, len(words), default)
        scores = self._words(clause.field, (" AND " if required == len(words) else " OR ").join(words))
        if 1 < required < len(words):
            counts: dict[int, int] = {}
            for word in words:
                for row in self._words(clause.field, word):
                    counts[row] = counts.get(row, 0) + 1
            scores = {row: score for row, score in scores.items() if counts.get(row, 0) >= required}
        return scores

    def _exact(self, clause: clauses.Match, kind: str) -> Scores:
        """A match in a field that is not text compares whole values."""
        if clause.fuzziness is None:
            return self._terms(clauses.Terms(clause.field, (clause.text,)))
        if kind != "keyword":
            raise MappingError(f"{clause.field!r} is {kind}; 'fuzziness' is for texts and keywords")
        self.work.look_near()
        near = self._near(self._values(clause.field), plain_text(clause.text), clause.fuzziness)
        return self._terms(clauses.Terms(clause.field, tuple(near)))

    def _nearly(self, path: str, word: str, fuzziness: clauses.Fuzziness) -> str:
        """The expression for a quoted word and the similar words of the field."""
        folded = _folded(word.strip('"'))
        most = fuzziness.most_of(folded)
        if not most or not folded.isalnum():
            return word
        self.work.look_near()
        near = self._near(self._vocabulary(path), folded, fuzziness)
        quoted = [f'"{term}"' for term in near]
        return f"({' OR '.join(quoted)})" if quoted else word

    def _vocabulary(self, path: str) -> Sequence[str]:
        """All words of a text field."""
        known = self.work.vocabularies
        if path not in known:
            self.work.budget.spend(self._occurrences(path, "", is_prefix=True) // _PASSED_PER_STEP)
            known[path] = [word for (word,) in self.database.execute(f"SELECT term FROM {self._known(path)}")]
        return known[path]

    def _values(self, path: str) -> Sequence[str]:
        """All values of a keyword field."""
        known = self.work.vocabularies
        if path not in known:
            statement = "SELECT DISTINCT text FROM field_values WHERE field = ?"
            known[path] = [value for (value,) in self.database.execute(statement, (self._field(path),))]
        return known[path]

    def _near(self, words: Sequence[str], word: str, fuzziness: clauses.Fuzziness) -> list[str]:
        most, budget = fuzziness.most_of(word), self.work.budget
        if begin := word[: fuzziness.prefix]:
            words = [other for other in words if other.startswith(begin)]
        budget.spend(len(words) // _GLANCES_PER_STEP)
        alike = alike_words(words, word, most)
        budget.spend(len(alike) * _STEPS_PER_DISTANCE)
        return near_words(alike, word, most, limit=fuzziness.words)

    def _phrase(self, clause: clauses.MatchPhrase) -> Scores:
        kind = self._kind(clause.field)
        if kind != "text":
            return {} if kind is None else self._terms(clauses.Terms(clause.field, (clause.text,)))
        words = _WORD.findall(plain_text(clause.text))
        if not words:
            return {}
        return self._words(clause.field, f'"{" ".join(words)}"' + (" *" if clause.prefix else ""))

    def _multi_match(self, clause: clauses.MultiMatch) -> Scores:
        found = []
        for path, boost in self._fields(clause.fields):
            if clause.kind in ("phrase", "phrase_prefix"):
                scores = self._phrase(clauses.MatchPhrase(path, clause.text, clause.kind == "phrase_prefix"))
            else:
                try:
                    match = clauses.Match(
                        path, clause.text, clause.operator, clause.minimum, fuzziness=clause.fuzziness
                    )
                    scores = self._match(match)
                except MappingError:
                    continue  # a field of numbers cannot contain words: skip it
            found.append(_boosted(scores, boost))
        return _best(found, 1.0 if clause.kind == "most_fields" else clause.tie_breaker)

    def _fields(self, patterns: Sequence[tuple[str, float]], *, all_kinds: bool = False) -> Iterator[tuple[str, float]]:
        for pattern, boost in patterns or (("*", 1.0),):
            self.work.look_up()
            if "*" not in pattern:
                if self._kind(pattern) is not None:
                    yield pattern, boost
                continue
            for path, kind in self.index.types.items():
                if (all_kinds or kind.kind == "text") and fnmatchcase(path, pattern.replace("[", "[[]")):
                    yield path, boost

    def _any_field(self, clause: clauses.AnyField) -> Scores:
        found: list[Scores] = []
        refusal: MappingError | clauses.QueryError | None = None
        for path, boost in self._fields(clause.fields, all_kinds=True):
            try:
                found.append(_boosted(self.run(replace(clause.query, field=path)), boost))
            except (MappingError, clauses.QueryError) as error:
                refusal = error  # a field of numbers cannot contain words: skip it if there is another field
        if refusal is not None and not found and not any("*" in name for name, _ in clause.fields or (("*", 1.0),)):
            raise refusal
        return _best(found, clause.tie_breaker)

    def _terms(self, clause: clauses.Terms) -> Scores:
        kind = self._kind(clause.field)
        if kind is None or not clause.values:
            return {}
        if kind == "text":
            # a term is not split: it matches a text only if it is one word as the index keeps it
            exact = [f'"{text}"' for text in map(plain_text, clause.values) if _WORD.fullmatch(text) and text.islower()]
            exact += [f'"{text}"' for text in map(plain_text, clause.values) if text.isascii() and text.isdigit()]
            return _boosted(self._words(clause.field, " OR ".join(exact)), clause.boost) if exact else {}
        if kind == "date":
            days = [clauses.Range(clause.field, {"gte": value, "lte": value}, clause.boost) for value in clause.values]
            return reduce(lambda left, right: left | right, map(self._range, days), {})
        column = "text" if kind == "keyword" else "number"
        values = [self.plain(clause.field, kind, value) for value in clause.values]
        return self._having(clause.field, f"{column} IN ({', '.join('?' * len(values))})", values, clause.boost)

    def plain(self, path: str, kind: str, value: clauses.Scalar, *, round_up: bool = False) -> str | int | float:
        """A value in the form in which the field's values are kept."""
        if kind == "keyword":
            return plain_text(value)
        return plain_number(path, self.index.types[path].kind, value, round_up=round_up)

    def _exists(self, clause: clauses.Exists) -> Scores:
        paths = [path for path in self.index.types if path == clause.field or path.startswith(f"{clause.field}.")]
        return {row: clause.boost for path in paths for row in self._having(path, "TRUE", (), 0.0)}

    def _range(self, clause: clauses.Range) -> Scores:
        kind = self._kind(clause.field)
        if kind is None:
            return {}
        if kind == "text":
            raise clauses.QueryError(
                f"{clause.field!r} is text, which has no order; 'range' is for numbers, dates and keywords"
            )
        column = "text" if kind == "keyword" else "number"
        conditions = ["TRUE"]
        values: list[object] = []
        for bound, value in clause.bounds.items():
            # later than a date without time means later than the end of that day
            values.append(self.plain(clause.field, kind, value, round_up=bound in ("gt", "lte")))
            conditions.append(f"{column} {_COMPARISONS[bound]} ?")
        return self._having(clause.field, " AND ".join(conditions), values, clause.boost)

    def _pattern(self, clause: clauses.Pattern) -> Scores:
        kind = self._kind(clause.field)
        if kind is None:
            return {}
        if kind not in ("text", "keyword"):
            raise clauses.QueryError(
                f"{clause.field!r} is {kind}; patterns are for text and keywords, use 'term' or 'range' here"
            )
        glob = _glob(clause.pattern, literal=clause.literal)
        if kind == "text":
            return self._with_words(clause.field, self._known_words(clause.field, _folded(glob)), clause.boost)
        column, glob = ("lower(text)", glob.lower()) if clause.case_insensitive else ("text", glob)
        return self._having(clause.field, f"{column} GLOB ?", (glob,), clause.boost)

    def _known_words(self, path: str, glob: str) -> list[str]:
        """The words of a text field that fit."""
        begin = _WILD.split(glob, maxsplit=1)[0]
        if begin:
            among: Iterable[str] = self._beginning_with(path, begin)
        else:
            among = self._vocabulary(path)
            self.work.budget.spend(len(among) // _PATTERNS_PER_STEP)
        fits = re.compile(translate(glob)).match
        words = [word for word in among if fits(word)]
        if len(words) > clauses.MAX_CLAUSES:
            raise clauses.QueryError(
                f"more than {clauses.MAX_CLAUSES} words of {path!r} fit the pattern; write more of the word"
            )
        return words

    def _beginning_with(self, path: str, begin: str) -> list[str]:
        self.work.budget.spend(self._occurrences(path, begin, is_prefix=True) // _PASSED_PER_STEP)
        rows = self.database.execute(
            f"SELECT term FROM {self._known(path)} WHERE term >= ? AND term <= ?", (begin, begin + _BEHIND_ALL)
        )
        return [word for (word,) in rows]

    def _known(self, path: str) -> str:
        """The table of a text field's words, which are in lower case and without accents."""
        field = self._field(path)
        self.database.execute(
            f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.known_{field} USING fts5vocab(main, words_{field}, row)"
        )
        return f"temp.known_{field}"

    def _bool(self, clause: clauses.Bool) -> Scores:
        required = [self.run(query) for query in clause.must]
        filters = [self.run(query) for query in clause.filter]
        optional = [self.run(query) for query in clause.should]
        default = 0 if required or filters or not optional else 1
        # as in Lucene, optional clauses alone need at least one match, whatever `minimum_should_match` comes to
        minimum = max(default, clauses.minimum_matches(clause.minimum, len(optional), default))
        rows: set[int] | None = None
        for scores in (*required, *filters):
            rows = set(scores) if rows is None else rows & scores.keys()
        if rows is None:
            rows = {row for scores in optional for row in scores} if minimum else set(self._all(1.0))
        for query in clause.must_not:
            rows -= self.run(query).keys()
        if minimum:
            self.work.budget.spend(len(rows) * len(optional) // 10)
            rows = {row for row in rows if sum(row in scores for scores in optional) >= minimum}
        self.work.budget.spend(len(rows) * (len(required) + len(optional)) // 10)
        if not (required or filters or optional or clause.must_not):
            return dict.fromkeys(rows, 1.0)
        return {row: sum(scores.get(row, 0.0) for scores in (*required, *optional)) for row in rows}


_COMPARISONS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


def _folded(text: str) -> str:
    """A text in the form in which FTS5 keeps words."""
    return "".join(part for part in normalize("NFD", text.lower()) if not combining(part))


def _glob(pattern: str, *, literal: bool) -> str:
    """The pattern as SQLite's GLOB has it; a literal one is a prefix."""
    pieces: list[str] = []
    characters = iter(pattern)
    for character in characters:
        means_something = not literal
        if character == "\\" and not literal:
            character, means_something = next(characters, "\\"), False
        kept = (character in "*?" and means_something) or character not in "*?["
        pieces.append(character if kept else f"[{character}]")
    return "".join(pieces) + ("*" if literal else "")


def _quoted_words(text: clauses.Scalar) -> list[str]:
    """The words of a text, each once and quoted, so that nothing that a caller writes becomes FTS5 syntax."""
    words = dict.fromkeys(f'"{word}"' for word in _WORD.findall(plain_text(text).lower()))
    if len(words) > _MAX_WORDS:
        raise clauses.QueryError(f"the text has {len(words)} words; at most {_MAX_WORDS} can be searched for at once")
    return list(words)


def _boosted(scores: Scores, boost: float) -> Scores:
    return scores if boost == 1.0 else {row: score * boost for row, score in scores.items()}


def _best(found: Sequence[Scores], tie_breaker: float) -> Scores:
    """The best score of each document, and `tie_breaker` of its other ones."""
    together: dict[int, list[float]] = {}
    for scores in found:
        for row, score in scores.items():
            together.setdefault(row, []).append(score)
    return {row: max(each) + tie_breaker * (sum(each) - max(each)) for row, each in together.items()}
