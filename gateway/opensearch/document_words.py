"""What a search has to know of the words that an owner's documents have before it can be written.

Below: document_fields, embedded_index. Above: document_queries, which asks, and document_search, which has the cluster
answer. The cluster's own statistics are those of all owners: by them others' documents would change scores, and which
words a fuzzy word or the beginning of a word stands for. So both are asked for, over the documents that an owner sees.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from gateway.embedded_index.budget import Budget
from gateway.embedded_index.near_words import MAX_FUZZY_LETTERS, nearest
from gateway.embedded_index.words import rarity
from gateway.errors import ToolError
from gateway.opensearch.document_fields import Field
from gateway.query_dsl.clauses import Fuzziness, QueryError

Query: TypeAlias = dict[str, Any]

_MAX_LISTED = 50_000
_MAX_FUZZY_WORDS = 256
_REGEXP_LETTERS = 200  # of the beginning of words; the cluster takes a regular expression of 1,000
_RESERVED = re.compile(r"[^0-9A-Za-z_]")


@dataclass(slots=True)
class WordLookup:
    """Knows what it was told, and notes what else it was asked for: then its answers are empty."""

    budget: Budget
    _listed: dict[tuple[Field, str], Sequence[str]] = field(default_factory=dict)
    _lengths: dict[Field, tuple[int, float]] = field(default_factory=dict)
    _counts: dict[tuple[Field, str, bool], int] = field(default_factory=dict)
    _near: dict[tuple[Field, str, Fuzziness], Sequence[str]] = field(default_factory=dict)
    _wanted_lists: list[tuple[Field, str]] = field(default_factory=list)
    _wanted_counts: list[tuple[Field, str, bool]] = field(default_factory=list)

    def beginning(self, asked: Field, begin: str) -> Sequence[str]:
        """The words of the field, or its values, that begin so."""
        key = (asked, begin)
        if key not in self._listed:
            if key not in self._wanted_lists:
                self._wanted_lists.append(key)
            return ()
        return self._listed[key]

    def near(self, asked: Field, word: str, fuzziness: Fuzziness) -> Sequence[str]:
        """The words of the field, or its values, that are similar."""
        if len(word) > MAX_FUZZY_LETTERS:
            return (word,)
        key = (asked, word, fuzziness)
        begin = word[: fuzziness.prefix]
        if key not in self._near and (asked, begin) in self._listed:
            if len(self._near) >= _MAX_FUZZY_WORDS:
                raise QueryError(
                    f"the search has too many words with 'fuzziness'; at most {_MAX_FUZZY_WORDS} are possible, "
                    "where a word counts in each field it is looked for in"
                )
            self._near[key] = nearest(self._listed[asked, begin], word, fuzziness, self.budget)
        return self._near[key] if key in self._near else self.beginning(asked, begin)

    def average_length(self, asked: Field) -> float:
        """How many words the texts of the field have."""
        return self._lengths.get(asked, (0, 0.0))[1]

    def weight(self, asked: Field, word: str, *, is_prefix: bool = False) -> float:
        """The inverse document frequency of a word, or of all words that begin so."""
        key = (asked, word, is_prefix)
        if key not in self._counts:
            if key not in self._wanted_counts:
                self._wanted_counts.append(key)
            return 1.0
        return rarity(self._lengths[asked][0], self._counts[key])

    def questions(self) -> Query:
        """What it was asked for and does not know, as the aggregations of a search. Of lists, the first alone: what
        else is asked for depends on them.
        """
        if self._wanted_lists:
            self._wanted_counts.clear()
            return {
                str(n): _within(asked, _listing(asked, begin)) for n, (asked, begin) in enumerate(self._wanted_lists)
            }
        by_field: dict[Field, dict[str, Any]] = {}
        for number, (asked, word, is_prefix) in enumerate(self._wanted_counts):
            query = "prefix" if is_prefix else "term"
            by_field.setdefault(asked, {})[str(number)] = {"filter": {query: {asked.words: word}}}
        return {f"f{n}": _within(asked, _counting(asked, aggs)) for n, (asked, aggs) in enumerate(by_field.items())}

    def learn(self, answer: Mapping[str, Any]) -> None:
        """Take in the answer to `questions`.

        Raises:
            ToolError: a field has too many words to compare.
        """
        if self._wanted_lists:
            for number, (asked, begin) in enumerate(self._wanted_lists):
                self._listed[asked, begin] = _listed_in(answer[str(number)]["inner"], asked, begin)
            self._wanted_lists.clear()
            return
        fields = list(dict.fromkeys(asked for asked, _, _ in self._wanted_counts))
        for number, asked in enumerate(fields):
            found = answer[f"f{number}"]["inner"]
            count = int(found["doc_count"])
            self._lengths[asked] = count, found["length"]["value"] / count if count else 0.0
        for number, key in enumerate(self._wanted_counts):
            self._counts[key] = int(answer[f"f{fields.index(key[0])}"]["inner"][str(number)]["doc_count"])
        self._wanted_counts.clear()


def _within(asked: Field, aggregation: Query) -> Query:
    """The aggregation over the objects that the field is in, as `inner` of another one."""
    outer: Query = {"nested": {"path": asked.name.rpartition(".")[0]}} if asked.level else {"filter": {"match_all": {}}}
    return {**outer, "aggs": {"inner": aggregation}}


def _counting(asked: Field, words: Mapping[str, Any]) -> Query:
    """How many objects have words in the field, how many words, and how many have each of these words."""
    length: Query = {"length": {"sum": {"field": asked.count}}}
    return {"filter": {"range": {asked.count: {"gt": 0}}}, "aggs": {**length, **words}}


def _listing(asked: Field, begin: str) -> Query:
    # A map of what the owner's documents have: ordinals would be made of what all documents have.
    terms: Query = {"field": asked.listed, "size": _MAX_LISTED, "execution_hint": "map"}
    if start := f"{asked.prefix}{begin}"[:_REGEXP_LETTERS]:
        terms["include"] = escaped(start) + "@"
    return {"terms": terms}


def _listed_in(found: Mapping[str, Any], asked: Field, begin: str) -> Sequence[str]:
    if found["sum_other_doc_count"]:
        raise ToolError(
            f"the search would take too long: {asked.path!r} has more than {_MAX_LISTED} words and values; "
            "write more of the word, or give 'prefix_length' with fuzzy words"
        )
    start = asked.prefix + begin
    return [key[len(asked.prefix) :] for bucket in found["buckets"] if (key := bucket["key"]).startswith(start)]


def escaped(text: str) -> str:
    """The text in the language of Lucene's regular expressions."""
    return _RESERVED.sub(lambda match: "\\" + match[0], text)
