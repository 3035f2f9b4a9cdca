"""A search over the indices of one SQLite database: clauses of the query DSL to documents with scores.

Every clause gives the documents it finds and their scores; the clauses above combine these as sets. Blocking, like
indexed_documents below it.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial, reduce
from typing import Any, TypeAlias

import orjson

from gateway.indexed_documents import Index, find_indices
from gateway.messages import JsonObject
from gateway.wire import query_dsl as dsl
from gateway.wire.field_mapping import MappingError, plain_number, plain_text

Scores: TypeAlias = dict[int, float]
"""What a clause found: the documents' row numbers with their scores."""

_MAX_WORDS = 256

# What FTS5 gets of a text, one piece at a time and always quoted: letters, digits and marks, with an apostrophe inside
# a word ("don't") and a separator inside a number ("3,519,000"), which keep their parts together as a phrase.
_WORD = re.compile(r"(?:[^\W_]|[\u0300-\u036f]|(?<=\w)['\u2019](?=\w)|(?<=\d)[.,](?=\d))+")


def search_indices(database: sqlite3.Connection, names: str, body: JsonObject) -> JsonObject:
    """The answer of `_search`; `names` are separated by commas and may be patterns.

    Raises:
        ToolError: no such index.
        QueryError, MappingError: the search is wrong, or has something that is not here.
    """
    search = dsl.parse_search_body(body)
    indices = find_indices(database, [name.strip() for name in names.split(",") if name.strip()])
    paths = {path for index in indices for path in index.types}
    hits: list[_Hit] = []
    for index in indices:
        evaluation = _Evaluation(database, index, paths)
        scores = evaluation.run(search.query)
        if search.minimum_score is not None:
            scores = {row: score for row, score in scores.items() if score >= search.minimum_score}
        keys = [evaluation.sort_values(key, scores) for key in search.sort]
        hits += [_Hit(index.name, row, score, [key.get(row) for key in keys]) for row, score in scores.items()]
    _order(hits, search.sort)
    page = hits[search.start : search.start + search.size]
    by_score = not search.sort or any(key.field == "_score" for key in search.sort)
    best = max((hit.score for hit in hits), default=None) if by_score else None
    found: JsonObject = {
        "max_score": best,
        "hits": [_rendered(database, hit, search, by_score=by_score) for hit in page],
    }
    if search.total:
        found = {"total": {"value": len(hits), "relation": "eq"}, **found}
    shards = len(indices)
    return {
        "took": 0,
        "timed_out": False,
        "_shards": {"total": shards, "successful": shards, "skipped": 0, "failed": 0},
        "hits": found,
    }


@dataclass(frozen=True, slots=True)
class _Hit:
    index: str
    row: int
    score: float
    keys: list[str | int | float | None]


def _order(hits: list[_Hit], sort: Sequence[dsl.SortKey]) -> None:
    """By the last key first: sorting keeps the order of equals."""
    hits.sort(key=lambda hit: (hit.index, hit.row))
    if not sort:
        hits.sort(key=lambda hit: hit.score, reverse=True)
    for position, key in reversed(list(enumerate(sort))):
        having = [hit for hit in hits if hit.keys[position] is not None]
        missing = [hit for hit in hits if hit.keys[position] is None]
        having.sort(key=partial(_sortable, position), reverse=key.descending)
        hits[:] = missing + having if key.missing_first else having + missing


def _sortable(position: int, hit: _Hit) -> tuple[bool, Any]:
    value = hit.keys[position]
    return isinstance(value, str), value


def _rendered(database: sqlite3.Connection, hit: _Hit, search: dsl.SearchBody, *, by_score: bool) -> JsonObject:
    id_, source = database.execute("SELECT id, source FROM documents WHERE row = ?", (hit.row,)).fetchone()
    rendered: JsonObject = {"_index": hit.index, "_id": id_, "_score": hit.score if by_score else None}
    if search.source.wanted:
        rendered["_source"] = _filtered(orjson.loads(source), search.source, "")
    if search.sort:
        rendered["sort"] = list(hit.keys)
    return rendered


def _filtered(document: JsonObject, wanted: dsl.SourceFilter, prefix: str) -> JsonObject:
    kept: JsonObject = {}
    for name, value in document.items():
        path = prefix + name
        if _names_path(wanted.excludes, path):
            continue
        included = not wanted.includes or _names_path(wanted.includes, path)
        if isinstance(value, dict):
            inner = _filtered(value, dsl.SourceFilter(excludes=wanted.excludes) if included else wanted, f"{path}.")
            if included or inner:
                kept[name] = inner
        elif included:
            kept[name] = value
    return kept


def _names_path(patterns: Iterable[str], path: str) -> bool:
    return any(fnmatchcase(path, pattern.replace("[", "[[]")) for pattern in patterns)


@dataclass(frozen=True, slots=True)
class _Evaluation:
    """A query over one index. `paths` are the fields of all the indices that are searched together."""

    database: sqlite3.Connection
    index: Index
    paths: set[str]

    def run(self, clause: dsl.Clause) -> Scores:
        match clause:
            case dsl.MatchAll():
                return self._all(clause.boost) if clause.all else {}
            case dsl.Match():
                return _boosted(self._match(clause), clause.boost)
            case dsl.MatchPhrase():
                return _boosted(self._phrase(clause), clause.boost)
            case dsl.MultiMatch():
                return _boosted(self._multi_match(clause), clause.boost)
            case dsl.Terms():
                return self._terms(clause)
            case dsl.Ids():
                marks = ", ".join("?" * len(clause.values))
                return self._documents(f"id IN ({marks})", clause.values, clause.boost)
            case dsl.Exists():
                return self._exists(clause)
            case dsl.Range():
                return self._range(clause)
            case dsl.Pattern():
                return self._pattern(clause)
            case dsl.ConstantScore():
                return dict.fromkeys(self.run(clause.query), clause.boost)
            case dsl.DisjunctionMax():
                return _boosted(_best([self.run(query) for query in clause.queries], clause.tie_breaker), clause.boost)
            case dsl.Bool():
                return _boosted(self._bool(clause), clause.boost)

    def sort_values(self, key: dsl.SortKey, scores: Scores) -> dict[int, str | int | float]:
        """What the found documents are sorted by; of several values the one that counts in this direction."""
        if key.field == "_score":
            return dict(scores)
        if key.field == "_doc":
            return {row: row for row in scores}
        kind = self._kind(key.field)
        if kind == "text":
            raise dsl.QueryError(f"{key.field!r} is text, which has no order; sort by a keyword, number or date field")
        if kind is None:
            return {}
        column = "text" if kind == "keyword" else "number"
        pick = "max" if key.descending else "min"
        rows = self.database.execute(
            f"SELECT document, {pick}({column}) FROM field_values WHERE field = ? GROUP BY document",
            (self._field(key.field),),
        )
        return {row: value for row, value in rows if row in scores}

    def _kind(self, path: str) -> str | None:
        """The type of a field; None where only another index has it.

        Raises:
            QueryError: none of the searched indices has it.
        """
        if path in self.index.types:
            return self.index.types[path].kind
        if path in self.paths or not self.paths:
            return None
        raise dsl.QueryError(f"there is no field {path!r}; there are: {', '.join(sorted(self.paths))}")

    def _field(self, path: str) -> int:
        return int(
            self.database.execute(
                "SELECT id FROM fields WHERE index_id = ? AND path = ?", (self.index.id, path)
            ).fetchone()[0]
        )

    def _all(self, boost: float) -> Scores:
        return self._documents("TRUE", (), boost)

    def _documents(self, condition: str, values: Sequence[object], boost: float) -> Scores:
        rows = self.database.execute(
            f"SELECT row FROM documents WHERE index_id = ? AND {condition}", (self.index.id, *values)
        )
        return {row: boost for (row,) in rows}

    def _having(self, path: str, condition: str, values: Sequence[object], boost: float) -> Scores:
        rows = self.database.execute(
            f"SELECT DISTINCT document FROM field_values WHERE field = ? AND {condition}", (self._field(path), *values)
        )
        return {row: boost for (row,) in rows}

    def _words(self, path: str, expression: str) -> Scores:
        table = f"words_{self._field(path)}"
        rows = self.database.execute(f"SELECT rowid, -bm25({table}) FROM {table} WHERE {table} MATCH ?", (expression,))
        return dict(rows.fetchall())

    def _match(self, clause: dsl.Match) -> Scores:
        kind = self._kind(clause.field)
        if kind != "text":
            return {} if kind is None else self._terms(dsl.Terms(clause.field, (clause.text,)))
        words = _quoted_words(clause.text)
        if not words:
            return {}
        default = len(words) if clause.operator == "and" else 1
        required = dsl.minimum_matches(clause.minimum, len(words), default)
        scores = self._words(clause.field, (" AND " if required == len(words) else " OR ").join(words))
        if 1 < required < len(words):
            counts: dict[int, int] = {}
            for word in words:
                for row in self._words(clause.field, word):
                    counts[row] = counts.get(row, 0) + 1
            scores = {row: score for row, score in scores.items() if counts.get(row, 0) >= required}
        return scores

    def _phrase(self, clause: dsl.MatchPhrase) -> Scores:
        kind = self._kind(clause.field)
        if kind != "text":
            return {} if kind is None else self._terms(dsl.Terms(clause.field, (clause.text,)))
        words = _WORD.findall(plain_text(clause.text))
        if not words:
            return {}
        return self._words(clause.field, f'"{" ".join(words)}"' + (" *" if clause.prefix else ""))

    def _multi_match(self, clause: dsl.MultiMatch) -> Scores:
        found = []
        for path, boost in self._fields(clause.fields):
            if clause.kind in ("phrase", "phrase_prefix"):
                scores = self._phrase(dsl.MatchPhrase(path, clause.text, clause.kind == "phrase_prefix"))
            else:
                try:
                    scores = self._match(dsl.Match(path, clause.text, clause.operator, clause.minimum))
                except MappingError:
                    continue  # words cannot be in a field of numbers: it has no say here
            found.append(_boosted(scores, boost))
        return _best(found, 1.0 if clause.kind == "most_fields" else clause.tie_breaker)

    def _fields(self, patterns: Sequence[tuple[str, float]]) -> Iterator[tuple[str, float]]:
        for pattern, boost in patterns or (("*", 1.0),):
            if "*" not in pattern:
                if self._kind(pattern) is not None:
                    yield pattern, boost
                continue
            for path, kind in self.index.types.items():
                if kind.kind == "text" and fnmatchcase(path, pattern.replace("[", "[[]")):
                    yield path, boost

    def _terms(self, clause: dsl.Terms) -> Scores:
        kind = self._kind(clause.field)
        if kind is None or not clause.values:
            return {}
        if kind == "text":
            # a term is not taken apart: it is in a text only where it is a word as the index keeps it
            exact = [f'"{text}"' for text in map(plain_text, clause.values) if _WORD.fullmatch(text) and text.islower()]
            exact += [f'"{text}"' for text in map(plain_text, clause.values) if text.isascii() and text.isdigit()]
            return _boosted(self._words(clause.field, " OR ".join(exact)), clause.boost) if exact else {}
        if kind == "date":
            days = [dsl.Range(clause.field, {"gte": value, "lte": value}, clause.boost) for value in clause.values]
            return reduce(lambda left, right: left | right, map(self._range, days), {})
        column = "text" if kind == "keyword" else "number"
        values = [self._value(clause.field, kind, value) for value in clause.values]
        return self._having(clause.field, f"{column} IN ({', '.join('?' * len(values))})", values, clause.boost)

    def _value(self, path: str, kind: str, value: dsl.Scalar, *, round_up: bool = False) -> str | int | float:
        if kind == "keyword":
            return plain_text(value)
        return plain_number(path, self.index.types[path].kind, value, round_up=round_up)

    def _exists(self, clause: dsl.Exists) -> Scores:
        paths = [path for path in self.index.types if path == clause.field or path.startswith(f"{clause.field}.")]
        return {row: clause.boost for path in paths for row in self._having(path, "TRUE", (), 0.0)}

    def _range(self, clause: dsl.Range) -> Scores:
        kind = self._kind(clause.field)
        if kind is None:
            return {}
        if kind == "text":
            raise dsl.QueryError(
                f"{clause.field!r} is text, which has no order; 'range' is for numbers, dates and keywords"
            )
        column = "text" if kind == "keyword" else "number"
        conditions = ["TRUE"]
        values: list[object] = []
        for bound, value in clause.bounds.items():
            # a date without its time: later than it means later than its end
            values.append(self._value(clause.field, kind, value, round_up=bound in ("gt", "lte")))
            conditions.append(f"{column} {_COMPARISONS[bound]} ?")
        return self._having(clause.field, " AND ".join(conditions), values, clause.boost)

    def _pattern(self, clause: dsl.Pattern) -> Scores:
        kind = self._kind(clause.field)
        if kind is None:
            return {}
        if kind == "text" and clause.literal and _WORD.fullmatch(clause.pattern):
            return dict.fromkeys(self._words(clause.field, f'"{clause.pattern}" *'), clause.boost)
        if kind != "keyword":
            raise dsl.QueryError(
                f"{clause.field!r} is {kind}; patterns are for keyword fields, and for text use 'match_phrase_prefix'"
            )
        column, pattern = "text", clause.pattern
        if clause.case_insensitive:
            column, pattern = "lower(text)", pattern.lower()
        glob = pattern.replace("[", "[[]")
        if clause.literal:
            glob = glob.replace("*", "[*]").replace("?", "[?]") + "*"
        return self._having(clause.field, f"{column} GLOB ?", (glob,), clause.boost)

    def _bool(self, clause: dsl.Bool) -> Scores:
        required = [self.run(query) for query in clause.must]
        filters = [self.run(query) for query in clause.filter]
        optional = [self.run(query) for query in clause.should]
        default = 0 if required or filters or not optional else 1
        minimum = dsl.minimum_matches(clause.minimum, len(optional), default)
        rows: set[int] | None = None
        for scores in (*required, *filters):
            rows = set(scores) if rows is None else rows & scores.keys()
        if rows is None:
            rows = {row for scores in optional for row in scores} if minimum else set(self._all(1.0))
        for query in clause.must_not:
            rows -= self.run(query).keys()
        if minimum:
            rows = {row for row in rows if sum(row in scores for scores in optional) >= minimum}
        if not (required or filters or optional or clause.must_not):
            return dict.fromkeys(rows, 1.0)
        return {row: sum(scores.get(row, 0.0) for scores in (*required, *optional)) for row in rows}


_COMPARISONS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


def _quoted_words(text: dsl.Scalar) -> list[str]:
    """The words of a text, each once and each quoted: nothing that a caller writes is ever FTS5 syntax."""
    words = dict.fromkeys(f'"{word}"' for word in _WORD.findall(plain_text(text).lower()))
    if len(words) > _MAX_WORDS:
        raise dsl.QueryError(f"the text has {len(words)} words; at most {_MAX_WORDS} can be searched for at once")
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
