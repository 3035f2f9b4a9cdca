"""Writes the clauses of a search as a query of the cluster that finds what the embedded index finds.

Below: document_fields, document_words. Above: document_search, document_aggregations. Nothing of a caller's body is
sent, only what was read of it. Every part of the query has the score that the embedded index gives it: words by BM25,
with numbers of the searched documents alone, values by the clause's boost. So boosts are multiplied here, down to the
words and values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from gateway.embedded_index.entries import folded, words_of
from gateway.embedded_index.evaluation import plain
from gateway.embedded_index.words import MAX_WORDS, norms
from gateway.opensearch.document_fields import Field, Layout, fitted
from gateway.opensearch.document_records import place_of
from gateway.opensearch.document_words import Query, WordLookup
from gateway.query_dsl import clauses
from gateway.query_dsl.field_mapping import MappingError, plain_text
from gateway.query_dsl.name_patterns import fits, pieces_of

NOTHING: Final[Query] = {"match_none": {}}
_MAX_TERMS = 10_000
_MAX_PHRASES = 256
_MAX_BOOST = 1e30  # scores are floats of 32 bits
_BM25 = "params.weight * _score / (_score + params.norm + params.norm_of_word * doc[params.length].value)"


@dataclass(slots=True)
class Count:
    """How many words and values a search looks up."""

    terms: int = 0

    def add(self, terms: int) -> None:
        self.terms += terms
        if self.terms > _MAX_TERMS:
            raise clauses.QueryError(
                f"the search looks up too many words and values; at most {_MAX_TERMS} are possible; "
                "ask for fewer words, in fewer fields, in fewer clauses"
            )


@dataclass(frozen=True, slots=True)
class QueryWriter:
    """Writes queries for the documents of one kind. `level` is the nested field whose objects are found; empty:
    documents. Not `scored`: the scores do not matter. `now` is in Unix seconds, for relative dates.
    """

    layout: Layout
    lookup: WordLookup
    now: float
    count: Count
    scored: bool = True
    level: str = ""

    def unscored(self) -> QueryWriter:
        return replace(self, scored=False)

    def write(self, clause: clauses.Clause, boost: float = 1.0) -> Query:
        """The query of a clause, whose scores are multiplied by `boost`.

        Raises:
            QueryError, MappingError: the clause does not fit the fields, or is too much work.
            ToolError: it is too much work.
        """
        if isinstance(clause, clauses.ConstantScore):
            return self._constant(self.unscored().write(clause.query), boost * clause.boost)
        boost *= clause.boost
        match clause:
            case clauses.MatchAll():
                return self._constant({"match_all": {}}, boost) if clause.all else NOTHING
            case clauses.Match():
                return self._match(clause, boost)
            case clauses.MatchPhrase():
                return self._phrase(clause, boost)
            case clauses.MultiMatch():
                return self._multi_match(clause, boost)
            case clauses.Terms():
                return self._terms(clause, boost)
            case clauses.Ids():
                return self._ids(clause, boost)
            case clauses.Exists():
                return self._constant(self.exists(clause.field), boost)
            case clauses.Range():
                return self._range(clause, boost)
            case clauses.Pattern():
                return self._pattern(clause, boost)
            case clauses.AnyField():
                return self._any_field(clause, boost)
            case clauses.DisjunctionMax():
                return _best([self.write(query, boost) for query in clause.queries], clause.tie_breaker)
            case clauses.Bool():
                return self._bool(clause, boost)
            case clauses.Nested():
                return self._nested(clause, boost)

    def field(self, path: str) -> Field | None:
        """The field at a path; None if it has no values on this level."""
        found = self.layout.field(path)
        return None if found is None or found.level != self.level or found.kind == "nested" else found

    def has_value(self, field: Field) -> Query:
        """The query for documents that have a value in the field."""
        return {"prefix": {field.listed: field.prefix}} if field.prefix else {"exists": {"field": field.present}}

    def exists(self, path: str) -> Query:
        """The query for documents that have a value at the path, or below it."""
        paths = [each for each in self.layout.kind.types if each.startswith(f"{path}.")]
        fields = [field for each in (*paths, path) if (field := self.field(each)) is not None]
        return _any([self.has_value(field) for field in fields])

    # --- words ----------------------------------------------------------------------------------------------------

    def _match(self, clause: clauses.Match, boost: float) -> Query:
        field = self.field(clause.field)
        if field is None or field.kind != "text":
            return NOTHING if field is None else self._exact(clause, field, boost)
        searched = list(dict.fromkeys(words_of(plain_text(clause.text))))
        if len(searched) > MAX_WORDS:
            raise clauses.QueryError(
                f"the text has {len(searched)} words; at most {MAX_WORDS} can be searched for at once"
            )
        default = len(searched) if clause.operator == "and" else 1
        required = max(clauses.minimum_matches(clause.minimum, len(searched), default), 1)
        return _any([self._any_of(field, self._nearly(field, word, clause), boost) for word in searched], required)

    def _exact(self, clause: clauses.Match, field: Field, boost: float) -> Query:
        """A match in a field that is not text: whole values are compared."""
        values: Sequence[clauses.Scalar] = (clause.text,)
        if clause.fuzziness is not None:
            if field.kind != "keyword":
                raise MappingError(f"{clause.field!r} is {field.kind}; 'fuzziness' is for texts and keywords")
            values = self.lookup.near(field, plain_text(clause.text), clause.fuzziness)
        return self._terms(clauses.Terms(clause.field, tuple(values)), boost)

    def _nearly(self, field: Field, word: str, clause: clauses.Match) -> Sequence[str]:
        """The word itself, or with a fuzziness the words of the field that are similar to it."""
        if clause.fuzziness is None or not clause.fuzziness.most_of(word):
            return (word,)
        return self.lookup.near(field, word, clause.fuzziness)

    def _any_of(self, field: Field, words: Sequence[str], boost: float) -> Query:
        """The documents that have one of the words. The scores of several add up."""
        terms = list(map(fitted, words))
        self.count.add(len(terms))
        if not self.scored:
            return {"terms": {field.words: terms}} if terms else NOTHING
        return _any([self._bm25(self._term(field, term), field, self._rarity(field, term), boost) for term in terms])

    def _term(self, field: Field, term: str) -> Query:
        return {"term": {field.words: term}}

    def _rarity(self, field: Field, term: str, *, is_prefix: bool = False) -> float:
        return self.lookup.weight(field, term, is_prefix=is_prefix) if self.scored else 1.0

    def _bm25(self, query: Query, field: Field, weight: float, boost: float) -> Query:
        """The query, whose score is how often it occurs, with the score of BM25."""
        if not self.scored:
            return query
        norm, norm_of_word = norms(self.lookup.average_length(field))
        params = {"weight": weight * _checked(boost), "norm": norm, "norm_of_word": norm_of_word, "length": field.count}
        return {"script_score": {"query": query, "script": {"source": _BM25, "params": params}}}

    def _phrase(self, clause: clauses.MatchPhrase, boost: float) -> Query:
        field = self.field(clause.field)
        if field is None or field.kind != "text":
            return NOTHING if field is None else self._terms(clauses.Terms(clause.field, (clause.text,)), boost)
        searched = list(map(fitted, words_of(plain_text(clause.text))))
        if not searched:
            return NOTHING
        *first, last = searched
        if len(searched) > MAX_WORDS:
            raise clauses.QueryError(f"the phrase has {len(searched)} words; at most {MAX_WORDS} are possible")
        weight = sum(self._rarity(field, word) for word in first)
        if clause.prefix:
            ends = self.lookup.beginning(field, last)
            if len(ends) > _MAX_PHRASES:
                raise clauses.QueryError(
                    f"more than {_MAX_PHRASES} words of {clause.field!r} begin with {last!r}; write more of the word"
                )
            weight += self._rarity(field, last, is_prefix=True)
        else:
            ends = (last,)
            weight += self._rarity(field, last)
        self.count.add(len(ends) * len(searched))
        return self._bm25(_any([self._in_order(field, (*first, end)) for end in ends]), field, weight, boost)

    def _in_order(self, field: Field, words: Sequence[str]) -> Query:
        # its score is how often it occurs, once for each of its words
        phrase: Query = {"query": " ".join(words), "boost": 1 / len(words)}
        return {"match_phrase": {field.words: phrase}}

    def _multi_match(self, clause: clauses.MultiMatch, boost: float) -> Query:
        found: list[Query] = []
        for path, weight in self._fields(clause.fields):
            if clause.kind in ("phrase", "phrase_prefix"):
                phrase = clauses.MatchPhrase(path, clause.text, clause.kind == "phrase_prefix")
                found.append(self._phrase(phrase, boost * weight))
                continue
            match = clauses.Match(path, clause.text, clause.operator, clause.minimum, fuzziness=clause.fuzziness)
            try:
                found.append(self._match(match, boost * weight))
            except MappingError:
                continue  # a field of numbers cannot contain words: skip it
        return _best(found, 1.0 if clause.kind == "most_fields" else clause.tie_breaker)

    def _fields(self, patterns: Sequence[tuple[str, float]], *, all_kinds: bool = False) -> Iterator[tuple[str, float]]:
        for pattern, boost in patterns or (("*", 1.0),):
            self.count.add(1)
            if "*" not in pattern:
                if self.field(pattern) is not None:
                    yield pattern, boost
                continue
            pieces = pieces_of(pattern)
            for path, known in self.layout.kind.types.items():
                wanted = known.kind == "text" or (all_kinds and known.kind != "nested")
                if wanted and known.nested == self.level and fits(pieces, path):
                    yield path, boost

    def _any_field(self, clause: clauses.AnyField, boost: float) -> Query:
        found: list[Query] = []
        refusal: MappingError | clauses.QueryError | None = None
        for path, weight in self._fields(clause.fields, all_kinds=True):
            try:
                found.append(self.write(replace(clause.query, field=path), boost * weight))
            except (MappingError, clauses.QueryError) as error:
                refusal = error  # a field of numbers cannot contain words: skip it, if another field can
        if refusal is not None and not found and not any("*" in name for name, _ in clause.fields or (("*", 1.0),)):
            raise refusal
        return _best(found, clause.tie_breaker)

    # --- values ---------------------------------------------------------------------------------------------------

    def _terms(self, clause: clauses.Terms, boost: float) -> Query:
        field = self.field(clause.field)
        if field is None or not clause.values:
            return NOTHING
        if field.kind == "text":
            # a term is not split: it matches a text only if it is one word in the form of the index
            return self._any_of(
                field, [text for text in map(plain_text, clause.values) if words_of(text) == [text]], boost
            )
        if field.kind == "date":
            days = [clauses.Range(clause.field, {"gte": value, "lte": value}) for value in clause.values]
            return self._constant(_any([self.unscored().write(day) for day in days]), boost)
        self.count.add(1)
        values = [field.term(plain(clause.field, field.kind, each, self.now)) for each in clause.values]
        return self._constant({"terms": {field.listed: values}}, boost)

    def _ids(self, clause: clauses.Ids, boost: float) -> Query:
        if self.level:
            return NOTHING
        return self._constant({"terms": {"place": [place_of(each) for each in clause.values]}}, boost)

    def _range(self, clause: clauses.Range, boost: float) -> Query:
        field = self.field(clause.field)
        if field is None:
            return NOTHING
        if field.kind == "text":
            raise clauses.QueryError(
                f"{clause.field!r} is text, which has no order; 'range' is for numbers, dates and keywords"
            )
        bounds: dict[str, str] = {}
        for bound, value in clause.bounds.items():
            # later than a date without time means later than the end of that day
            kept = plain(clause.field, field.kind, value, self.now, round_up=bound in ("gt", "lte"))
            bounds[bound] = field.term(kept)
        if not bounds:
            return self._constant(self.has_value(field), boost)
        if field.prefix and not bounds.keys() & {"gt", "gte"}:
            bounds["gte"] = field.prefix
        if field.prefix and not bounds.keys() & {"lt", "lte"}:
            bounds["lt"] = field.prefix[:-1] + chr(ord(field.prefix[-1]) + 1)
        return self._constant({"range": {field.listed: _narrowest(bounds)}}, boost)

    def _pattern(self, clause: clauses.Pattern, boost: float) -> Query:
        field = self.field(clause.field)
        if field is None:
            return NOTHING
        if field.kind not in ("text", "keyword"):
            raise clauses.QueryError(
                f"{clause.field!r} is {field.kind}; patterns are for text and keywords, use 'term' or 'range' here"
            )
        if len(clause.pattern) > clauses.MAX_PATTERN_CHARACTERS:
            raise clauses.QueryError(
                f"a pattern for {clause.field!r} has {len(clause.pattern)} characters; at most "
                f"{clauses.MAX_PATTERN_CHARACTERS} are possible"
            )
        self.count.add(1)
        if field.kind == "text":
            pattern: Query = {"value": _wildcard(folded(clause.pattern), literal=clause.literal)}
            return self._constant({"wildcard": {field.words: pattern}}, boost)
        pattern = {
            "value": _wildcard(field.prefix, literal=True)[:-1] + _wildcard(clause.pattern, literal=clause.literal),
            "case_insensitive": clause.case_insensitive,
        }
        return self._constant({"wildcard": {field.listed: pattern}}, boost)

    # --- combinations ---------------------------------------------------------------------------------------------

    def _bool(self, clause: clauses.Bool, boost: float) -> Query:
        default = 0 if clause.must or clause.filter or not clause.should else 1
        # as in Lucene, optional clauses alone need at least one match, whatever `minimum_should_match` comes to
        minimum = max(default, clauses.minimum_matches(clause.minimum, len(clause.should), default))
        if not (clause.must or clause.filter or clause.should or clause.must_not):
            return self._constant({"match_all": {}}, boost)
        unscored = self.unscored()
        parts: dict[str, Any] = {
            "must": [self.write(query, boost) for query in clause.must],
            "filter": [unscored.write(query) for query in clause.filter],
            "should": [self.write(query, boost) for query in clause.should],
            "must_not": [unscored.write(query) for query in clause.must_not],
        }
        given = {name: queries for name, queries in parts.items() if queries}
        return {"bool": {**given, "minimum_should_match": minimum} if clause.should else given}

    def _nested(self, clause: clauses.Nested, boost: float) -> Query:
        known = self.layout.kind.types.get(clause.path)
        if known is None or known.kind != "nested":
            if clause.ignore_unmapped:
                return NOTHING
            raise clauses.QueryError(f"there is no nested field {clause.path!r}")
        inner = replace(self, level=clause.path).write(clause.query, boost)
        if not self._is_within(clause.path):
            return NOTHING
        mode = clause.score_mode if self.scored else "none"
        return {"nested": {"path": self.layout.name(clause.path), "query": inner, "score_mode": mode}}

    def _is_within(self, path: str) -> bool:
        """Whether the objects of a nested field are within those of this level."""
        while (path := self.layout.kind.types[path].nested) != self.level:
            if not path:
                return False
        return True

    def _constant(self, query: Query, boost: float) -> Query:
        """The query, all of whose hits have this score."""
        return {"constant_score": {"filter": query, "boost": _checked(boost)}} if self.scored else query


def _checked(boost: float) -> float:
    if not 0 <= boost <= _MAX_BOOST:  # nor is it NaN
        raise clauses.QueryError(f"a boost is a number from 0 to {_MAX_BOOST:g}, not {boost!r}")
    return boost


def _any(queries: Sequence[Query], minimum: int = 1) -> Query:
    """The documents that so many of the queries find, with the sum of the scores."""
    if len(queries) < minimum:
        return NOTHING
    if len(queries) == 1:
        return queries[0]
    return {"bool": {"should": queries, "minimum_should_match": minimum}}


def _best(queries: Sequence[Query], tie_breaker: float) -> Query:
    """The documents that a query finds, each with its best score, plus `tie_breaker` times its other scores."""
    if not queries:
        return NOTHING
    if not 0 <= tie_breaker <= 1:
        raise clauses.QueryError(f"'tie_breaker' is a number from 0 to 1, not {tie_breaker!r}")
    return {"dis_max": {"queries": queries, "tie_breaker": tie_breaker}}


def _narrowest(bounds: dict[str, str]) -> dict[str, str]:
    """One lower and one upper bound: the cluster takes no two of a kind."""
    if "gt" in bounds and "gte" in bounds:
        del bounds["gte" if bounds["gt"] >= bounds["gte"] else "gt"]
    if "lt" in bounds and "lte" in bounds:
        del bounds["lte" if bounds["lt"] <= bounds["lte"] else "lt"]
    return bounds


_ESCAPES: Final[Mapping[str, str]] = {"*": "\\*", "?": "\\?", "\\": "\\\\"}


def _wildcard(pattern: str, *, literal: bool) -> str:
    """The pattern in the language of the cluster; a literal one is a prefix."""
    if literal:
        return "".join(_ESCAPES.get(character, character) for character in pattern) + "*"
    return pattern + "\\" if (len(pattern) - len(pattern.rstrip("\\"))) % 2 else pattern
