"""Evaluates a query over one index: finds documents, with scores, by the clauses of the query DSL.

Each clause gives the documents that it finds with their scores, and outer clauses combine these as sets. Blocks, as
`documents` does. Below: words, columns. Above: search.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import translate
from functools import reduce

from gateway.embedded_index.aggregation import FieldValues
from gateway.embedded_index.columns import Column, column_of
from gateway.embedded_index.documents import Index
from gateway.embedded_index.entries import folded, words_of
from gateway.embedded_index.near_words import MAX_FUZZY_LETTERS, nearest
from gateway.embedded_index.words import MAX_WORDS, Scores, Words, Work
from gateway.query_dsl import clauses
from gateway.query_dsl.date_math import reckoned_date
from gateway.query_dsl.field_mapping import FieldType, Kind, MappingError, plain_number, plain_text
from gateway.query_dsl.name_patterns import fits, pieces_of
from gateway.query_dsl.search_body import SortKey

_PATTERNS_PER_STEP = 2
_FIELDS_PER_STEP = 4

_WILD = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Evaluates a query over one index. `level` is the nested field whose objects it finds; empty: documents.

    `fields` are the ids of the index's fields, `searched` the fields of all indices that are searched together.
    """

    database: sqlite3.Connection
    index: Index
    fields: Mapping[str, int]
    searched: Mapping[str, FieldType]
    work: Work
    level: str = ""

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
            case clauses.Nested():
                return _boosted(self._nested(clause), clause.boost)

    def sort_values(self, key: SortKey, scores: Scores) -> dict[int, str | int | float]:
        """The sort values of the found documents. Of several values, the first in the sort's direction counts."""
        if key.field == "_score":
            return dict(scores)
        if key.field == "_doc":
            return {row: row for row in scores}
        if key.field == "_id":
            ids = self.database.execute("SELECT row, id FROM documents WHERE index_id = ?", (self.index.id,))
            return {row: plain_text(id_) for row, id_ in ids if row in scores}
        column = self._column(key.field)
        if column is None:
            return {}
        if column.kind == "text":
            raise clauses.QueryError(
                f"{key.field!r} is text, which has no order; sort by a keyword, number or date field"
            )
        pick = "max" if key.descending else "min"
        rows = self.database.execute(
            f"SELECT document, {pick}({column.value}) FROM field_values WHERE {column.within} GROUP BY document",
            column.values,
        )
        return {row: value for row, value in rows if row in scores}

    def values(self, path: str) -> FieldValues:
        """The values of this index's documents in a field."""
        column = self._column(path)
        if column is None:
            return FieldValues(None, {})
        if column.kind == "text":
            return FieldValues("text", dict.fromkeys(self._having(column, "TRUE", (), 0.0), ("",)))
        rows = self.database.execute(
            f"SELECT document, {column.value} FROM field_values WHERE {column.within}", column.values
        )
        found: dict[int, list[str | int | float]] = {}
        for row, value in rows:
            found.setdefault(row, []).append(value)
        self.work.budget.spend(len(found))
        return FieldValues(column.kind, found)

    def kind_of(self, path: str) -> Kind | None:
        """The type of a field; None if it has no values on this level."""
        column = self._column(path)
        return None if column is None else column.kind

    def _column(self, path: str) -> Column | None:
        """The column of a field; None if it has no values on this level, or only another index has it.

        Raises:
            QueryError: none of the searched indices has the field.
        """
        found = column_of(path, self.index.types, self.fields)
        if found is not None:
            known, column = found
            return column if known.nested == self.level and known.kind != "nested" else None
        if not self.searched or column_of(path, self.searched, {}) is not None:
            return None
        raise clauses.QueryError(f"there is no field {path!r}; there are: {', '.join(sorted(self.searched))}")

    def _all(self, boost: float) -> Scores:
        return self._documents("TRUE", (), boost)

    def _documents(self, condition: str, values: Sequence[object], boost: float) -> Scores:
        self.work.look_up()
        rows = self.database.execute(
            f"SELECT row FROM documents WHERE index_id = ? AND path = ? AND {condition}",
            (self.index.id, self.level, *values),
        )
        return {row: boost for (row,) in rows}

    def _having(self, column: Column, condition: str, values: Sequence[object], boost: float) -> Scores:
        self.work.look_up()
        rows = self.database.execute(
            f"SELECT DISTINCT document FROM field_values WHERE {column.within} AND {condition}",
            (*column.values, *values),
        )
        return {row: boost for (row,) in rows}

    def _words(self, path: str) -> Words:
        return Words(self.fields.get(path, 0), path, self.work)

    def _match(self, clause: clauses.Match) -> Scores:
        column = self._column(clause.field)
        if column is None or column.kind != "text":
            return {} if column is None else self._exact(clause, column)
        searched = list(dict.fromkeys(words_of(plain_text(clause.text))))
        if len(searched) > MAX_WORDS:
            raise clauses.QueryError(
                f"the text has {len(searched)} words; at most {MAX_WORDS} can be searched for at once"
            )
        if not searched:
            return {}
        words = self._words(clause.field)
        default = len(searched) if clause.operator == "and" else 1
        required = clauses.minimum_matches(clause.minimum, len(searched), default)
        found = [words.any_of(self._nearly(words, word, clause.fuzziness)) for word in searched]
        scores, counts = _added_up(found)
        self.work.budget.spend(len(scores))
        if required <= 1:
            return scores
        return {row: score for row, score in scores.items() if counts[row] >= required}

    def _exact(self, clause: clauses.Match, column: Column) -> Scores:
        """The documents of a match in a field that is not text: whole values are compared."""
        if clause.fuzziness is None or len(plain_text(clause.text)) > MAX_FUZZY_LETTERS:
            return self._terms(clauses.Terms(clause.field, (clause.text,)))
        if column.kind != "keyword":
            raise MappingError(f"{clause.field!r} is {column.kind}; 'fuzziness' is for texts and keywords")
        self.work.look_near()
        near = nearest(self._values(column), plain_text(clause.text), clause.fuzziness, self.work.budget)
        return self._terms(clauses.Terms(clause.field, tuple(near)))

    def _nearly(self, words: Words, word: str, fuzziness: clauses.Fuzziness | None) -> Sequence[str]:
        """The word itself, or with a fuzziness the words of the field that are similar to it."""
        if fuzziness is None or not fuzziness.most_of(word) or len(word) > MAX_FUZZY_LETTERS:
            return (word,)
        self.work.look_near()
        return nearest(words.vocabulary(), word, fuzziness, self.work.budget)

    def _values(self, column: Column) -> Sequence[str]:
        """All values of a keyword field."""
        self.work.look_up()
        rows = self.database.execute(
            f"SELECT DISTINCT {column.value} FROM field_values WHERE {column.within}", column.values
        ).fetchall()
        self.work.budget.spend(len(rows))
        return [value for (value,) in rows]

    def _phrase(self, clause: clauses.MatchPhrase) -> Scores:
        column = self._column(clause.field)
        if column is None or column.kind != "text":
            return {} if column is None else self._terms(clauses.Terms(clause.field, (clause.text,)))
        searched = words_of(plain_text(clause.text))
        return self._words(clause.field).phrase(searched, prefix=clause.prefix) if searched else {}

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
                if self._column(pattern) is not None:
                    yield pattern, boost
                continue
            pieces = pieces_of(pattern)
            self.work.budget.spend(1 + len(self.index.types) // _FIELDS_PER_STEP)
            for path, known in self.index.types.items():
                wanted = known.kind == "text" or (all_kinds and known.kind != "nested")
                if wanted and known.nested == self.level and fits(pieces, path):
                    yield path, boost

    def _any_field(self, clause: clauses.AnyField) -> Scores:
        found: list[Scores] = []
        refusal: MappingError | clauses.QueryError | None = None
        for path, boost in self._fields(clause.fields, all_kinds=True):
            try:
                found.append(_boosted(self.run(replace(clause.query, field=path)), boost))
            except (MappingError, clauses.QueryError) as error:
                refusal = error  # a field of numbers cannot contain words: skip it, if another field can
        if refusal is not None and not found and not any("*" in name for name, _ in clause.fields or (("*", 1.0),)):
            raise refusal
        return _best(found, clause.tie_breaker)

    def _terms(self, clause: clauses.Terms) -> Scores:
        column = self._column(clause.field)
        if column is None or not clause.values:
            return {}
        if column.kind == "text":
            # a term is not split: it matches a text only if it is one word in the form of the index
            exact = [text for text in map(plain_text, clause.values) if words_of(text) == [text]]
            return _boosted(self._words(clause.field).any_of(exact), clause.boost)
        if column.kind == "date":
            days = [clauses.Range(clause.field, {"gte": value, "lte": value}, clause.boost) for value in clause.values]
            return reduce(lambda left, right: left | right, map(self._range, days), {})
        values = [column.kept(plain(clause.field, column.kind, value, self.work.now)) for value in clause.values]
        return self._having(column, f"{column.name} IN ({', '.join('?' * len(values))})", values, clause.boost)

    def _exists(self, clause: clauses.Exists) -> Scores:
        paths = [path for path in self.index.types if path.startswith(f"{clause.field}.")]
        if column_of(clause.field, self.index.types, self.fields) is not None:
            paths.append(clause.field)
        columns = [column for path in paths if (column := self._column(path)) is not None]
        return {row: clause.boost for column in columns for row in self._having(column, "TRUE", (), 0.0)}

    def _range(self, clause: clauses.Range) -> Scores:
        column = self._column(clause.field)
        if column is None:
            return {}
        if column.kind == "text":
            raise clauses.QueryError(
                f"{clause.field!r} is text, which has no order; 'range' is for numbers, dates and keywords"
            )
        conditions = ["TRUE"]
        values: list[object] = []
        for bound, value in clause.bounds.items():
            # later than a date without time means later than the end of that day
            kept = column.kept(plain(clause.field, column.kind, value, self.work.now, round_up=bound in ("gt", "lte")))
            values.append(kept)
            conditions.append(f"{column.name} {_COMPARISONS[bound]} ?")
        return self._having(column, " AND ".join(conditions), values, clause.boost)

    def _pattern(self, clause: clauses.Pattern) -> Scores:
        column = self._column(clause.field)
        if column is None:
            return {}
        if column.kind not in ("text", "keyword"):
            raise clauses.QueryError(
                f"{clause.field!r} is {column.kind}; patterns are for text and keywords, use 'term' or 'range' here"
            )
        if len(clause.pattern) > clauses.MAX_PATTERN_CHARACTERS:
            raise clauses.QueryError(
                f"a pattern for {clause.field!r} has {len(clause.pattern)} characters; at most "
                f"{clauses.MAX_PATTERN_CHARACTERS} are possible"
            )
        glob = _glob(clause.pattern, literal=clause.literal)
        if column.kind == "text":
            words = self._words(clause.field)
            return words.having(self._known_words(words, folded(glob)), clause.boost)
        value, glob = (f"lower({column.value})", glob.lower()) if clause.case_insensitive else (column.value, glob)
        return self._having(column, f"{value} GLOB ?", (glob,), clause.boost)

    def _known_words(self, words: Words, glob: str) -> list[str]:
        """The words of a text field that fit the pattern."""
        among = words.vocabulary(_WILD.split(glob, maxsplit=1)[0])
        self.work.budget.spend(len(glob) + len(among) // _PATTERNS_PER_STEP)
        like = re.compile(translate(glob)).match
        fitting = [word for word in among if like(word)]
        if len(fitting) > clauses.MAX_CLAUSES:
            raise clauses.QueryError(
                f"more than {clauses.MAX_CLAUSES} words of {words.path!r} fit the pattern; write more of the word"
            )
        return fitting

    def _nested(self, clause: clauses.Nested) -> Scores:
        known = self.index.types.get(clause.path)
        if known is None or known.kind != "nested":
            elsewhere = self.searched.get(clause.path)
            if clause.ignore_unmapped or (elsewhere is not None and elsewhere.kind == "nested"):
                return {}
            raise clauses.QueryError(f"there is no nested field {clause.path!r}")
        found = replace(self, level=clause.path).run(clause.query)
        inner: dict[int, list[float]] = {}
        for row, outer in self.outer_rows(clause.path).items():
            if row in found:
                inner.setdefault(outer, []).append(found[row])
        return {row: _SCORE_MODES[clause.score_mode](scores) for row, scores in inner.items()}

    def outer_rows(self, path: str) -> Mapping[int, int]:
        """The row on this level that contains each object of a nested field, by the object's row."""
        outer = self._parents(path)
        while (path := self.index.types[path].nested) != self.level:
            if not path:
                return {}  # the field is not within this level
            further = self._parents(path)
            outer = {row: further[parent] for row, parent in outer.items()}
        return outer

    def _parents(self, path: str) -> dict[int, int]:
        self.work.look_up()
        rows = self.database.execute(
            "SELECT row, parent FROM documents WHERE index_id = ? AND path = ?", (self.index.id, path)
        ).fetchall()
        self.work.budget.spend(len(rows))
        return dict(rows)

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
        return {row: sum((scores.get(row, 0.0) for scores in (*required, *optional)), 0.0) for row in rows}


_SCORE_MODES: Mapping[str, Callable[[Sequence[float]], float]] = {
    "avg": lambda scores: sum(scores) / len(scores),
    "sum": sum,
    "min": min,
    "max": max,
    "none": lambda scores: 0.0,
}
_COMPARISONS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


def plain(path: str, kind: Kind, value: clauses.Scalar, now: float, *, round_up: bool = False) -> str | int | float:
    """A value in the form in which a field's values are stored; a date may be relative to `now`."""
    if kind == "keyword":
        return plain_text(value)
    if kind == "date":
        with suppress(ValueError, OverflowError):  # plain_number says what is wrong
            return reckoned_date(value, now, round_up=round_up)
    return plain_number(path, kind, value, round_up=round_up)


def _glob(pattern: str, *, literal: bool) -> str:
    """The pattern in the language of SQLite's GLOB; a literal one is a prefix."""
    pieces: list[str] = []
    characters = iter(pattern)
    for character in characters:
        means_something = not literal
        if character == "\\" and not literal:
            character, means_something = next(characters, "\\"), False
        kept = (character in "*?" and means_something) or character not in "*?["
        pieces.append(character if kept else f"[{character}]")
    return "".join(pieces) + ("*" if literal else "")


def _boosted(scores: Scores, boost: float) -> Scores:
    return scores if boost == 1.0 else {row: score * boost for row, score in scores.items()}


def _added_up(found: Sequence[Scores]) -> tuple[Scores, dict[int, int]]:
    """All found documents: the sum of each one's scores, and how often each was found."""
    scores: Scores = {}
    counts: dict[int, int] = {}
    for each in found:
        for row, score in each.items():
            scores[row] = scores.get(row, 0.0) + score
            counts[row] = counts.get(row, 0) + 1
    return scores, counts


def _best(found: Sequence[Scores], tie_breaker: float) -> Scores:
    """Each document's best score, plus `tie_breaker` times its other scores."""
    together: dict[int, list[float]] = {}
    for scores in found:
        for row, score in scores.items():
            together.setdefault(row, []).append(score)
    return {row: max(each) + tie_breaker * (sum(each) - max(each)) for row, each in together.items()}
