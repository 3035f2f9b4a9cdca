"""Books, and searches for them: each clause, each way to sort, each aggregation."""

from __future__ import annotations

import random
from typing import Any

from gateway.documents.document import DocumentKind
from gateway.messages import JsonObject

BOOK = DocumentKind(
    "book",
    {
        "title": {"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": 40}}},
        "summary": {"type": "text"},
        "genre": {"type": "keyword"},
        "pages": {"type": "long"},
        "price": {"type": "double"},
        "sold": {"type": "boolean"},
        "printed": {"type": "date"},
        "tags": {"type": "flat_object"},
        "author": {"properties": {"name": {"type": "text"}, "born": {"type": "long"}}},
        "reviews": {
            "type": "nested",
            "properties": {
                "text": {"type": "text"},
                "stars": {"type": "long"},
                "by": {"type": "keyword"},
                "answers": {"type": "nested", "properties": {"text": {"type": "text"}}},
            },
        },
    },
)

_WORDS = ["wolf", "wolves", "sea", "seas", "sky", "winter", "island", "ship", "captain", "storm", "night", "don't"]
_WORDS += ["3,519", "été", "ETE", "海", "wool", "wolfish"]
_GENRES = ["novel", "poem", "Novel", "drama", "nov*l", "ünï"]


def made_book(chance: random.Random) -> JsonObject:
    """A book of a few words that come again and again, with gaps, nulls and lists."""

    def text(most: int) -> str:
        return " ".join(chance.choice(_WORDS) for _ in range(chance.randint(0, most)))

    def maybe(value: Any) -> Any:
        return chance.choice([value, value, value, None, [value], []])

    def review() -> JsonObject:
        answers: list[Any] = [{"text": text(3)} for _ in range(chance.randint(0, 2))]
        stars, by = chance.randint(1, 5), chance.choice(["anna", "ben"])
        return {"text": text(8), "stars": stars, "by": by, "answers": answers}

    book: dict[str, Any] = {
        "title": maybe(text(5)),
        "summary": chance.choice([text(30), [text(5), text(5)]]),
        "genre": chance.choice([chance.choice(_GENRES), chance.sample(_GENRES, 2), None]),
        "pages": chance.choice([chance.randint(1, 20), [1, 7, 7], 2**53 + chance.randint(0, 3), None, 3.5, -4]),
        "price": chance.choice([chance.randint(0, 9) / 2, 10**20, -0.0, None]),
        "sold": chance.choice([True, False, None, "true"]),
        "printed": chance.choice(["2024-02-29", "2023", "2024-05-01T10:00:00+02:00", 1_700_000_000_000, None]),
        "tags": chance.choice(
            [{"mood": "dark", "place": {"sea": ["north", "south"]}}, {"mood": ["light", "dark"]}, {"x": 7}, {}, None]
        ),
        "author": {"name": chance.choice(["Jack London", "Émile", None]), "born": chance.choice([1876, 1840])},
        "reviews": [review() for _ in range(chance.randint(0, 3))],
        "loose": text(3),
    }
    return book


def matched(field: str, **options: Any) -> JsonObject:
    return {"match": {field: options}}


_INNER: list[Any] = [
    {"match_all": {}},
    matched("reviews.text", query="wolf sea"),
    {"term": {"reviews.stars": 5}},
    {"exists": {"field": "reviews.text"}},
    {"match_phrase_prefix": {"reviews.text": "wolf s"}},
    {"fuzzy": {"reviews.text": "wold"}},
]
QUERIES: dict[str, list[Any]] = {
    "match_all": [{"match_all": {}}, {"match_all": {"boost": 2.5}}, {"match_none": {}}],
    "match": [
        matched("title", query="wolf"),
        matched("title", query="Wolf sea STORM"),
        matched("summary", query="wolf sea storm", operator="and"),
        matched("summary", query="wolf sea storm sky", minimum_should_match=2),
        matched("summary", query="wolf sea storm sky", minimum_should_match="-25%", boost=3),
        matched("summary", query="été 海 don't 3,519"),
        matched("summary", query="..."),
        matched("summary", query="nowhere"),
        matched("title.keyword", query="wolf sea"),
        matched("genre", query="novel"),
        matched("pages", query="7"),
        matched("pages", query="seven"),
        matched("nope", query="wolf"),
        matched("author.name", query="london emile"),
        matched("tags", query="dark"),
        matched("tags.mood", query="dark"),
        matched("reviews.text", query="wolf"),
        matched("summary", query=7),
        matched("summary", query=" ".join(f"w{n}" for n in range(300))),
    ],
    "fuzzy": [
        matched("title", query="wolv", fuzziness="AUTO"),
        matched("summary", query="wlof sae", fuzziness=1),
        matched("summary", query="storn isle", fuzziness=2, operator="and"),
        matched("summary", query="wolfs", fuzziness=2, prefix_length=3),
        matched("summary", query="wolf", fuzziness=2, max_expansions=2),
        matched("genre", query="novl", fuzziness=1),
        matched("tags", query="darc", fuzziness=1),
        matched("tags.mood", query="lihgt", fuzziness=1),
        matched("pages", query="7", fuzziness=1),
        {"fuzzy": {"title": "wold"}},
        {"fuzzy": {"summary": {"value": "captian", "boost": 2}}},
    ],
    "phrase": [
        {"match_phrase": {"summary": "wolf sea"}},
        {"match_phrase": {"summary": "wolf"}},
        {"match_phrase": {"summary": "sea sea"}},
        {"match_phrase": {"genre": "novel"}},
        {"match_phrase": {"pages": 7}},
        {"match_phrase_prefix": {"summary": "wo"}},
        {"match_phrase_prefix": {"summary": "sea wo"}},
        {"match_phrase_prefix": {"summary": {"query": "winter s", "boost": 2}}},
        {"match_phrase_prefix": {"summary": "sea zzz"}},
        {"match_phrase": {"reviews.text": "wolf sea"}},
    ],
    "multi_match": [
        {"multi_match": {"query": "wolf sea", "fields": ["title", "summary"]}},
        {"multi_match": {"query": "wolf sea", "fields": ["title^3", "summary"], "tie_breaker": 0.3}},
        {"multi_match": {"query": "wolf sea", "fields": ["ti*", "sum*^2"], "type": "most_fields"}},
        {"multi_match": {"query": "wolf sea", "type": "phrase", "fields": ["title", "summary"]}},
        {"multi_match": {"query": "wolf s", "type": "phrase_prefix", "fields": ["title", "summary"]}},
        {"multi_match": {"query": "wolf 7", "operator": "and", "fields": ["*", "pages"]}},
        {"multi_match": {"query": "7", "fields": ["pages", "genre"]}},
        {"multi_match": {"query": "wolf"}},
        {"multi_match": {"query": "wlof", "fuzziness": "AUTO"}},
        {"multi_match": {"query": "wolf", "fields": ["nope"]}},
    ],
    "term": [
        {"term": {"genre": "novel"}},
        {"term": {"genre": {"value": "novel", "boost": 4}}},
        {"terms": {"genre": ["poem", "drama", "ünï"]}},
        {"terms": {"genre": []}},
        {"term": {"title": "wolf"}},
        {"term": {"title": "Wolf"}},
        {"term": {"title": "wolf sea"}},
        {"terms": {"title": ["wolf", "sea"]}},
        {"term": {"pages": 7}},
        {"term": {"pages": 3.5}},
        {"term": {"pages": 2**53 + 1}},
        {"term": {"pages": "7"}},
        {"term": {"pages": "x"}},
        {"term": {"price": 1e20}},
        {"term": {"price": 0}},
        {"term": {"sold": True}},
        {"term": {"sold": "false"}},
        {"term": {"sold": "maybe"}},
        {"term": {"printed": "2024-02-29"}},
        {"term": {"printed": "2023"}},
        {"terms": {"printed": ["2023", "2024-05"]}},
        {"term": {"tags": "dark"}},
        {"term": {"tags": 7}},
        {"term": {"tags.mood": "dark"}},
        {"term": {"tags.place.sea": "north"}},
        {"term": {"tags.place": "north"}},
        {"term": {"author.born": 1876}},
        {"term": {"author": "x"}},
        {"term": {"reviews.by": "anna"}},
        {"term": {"title.keyword": "wolf"}},
    ],
    "ids": [{"ids": {"values": ["b1", "b2", "b5", "nope", ""]}}, {"ids": {"values": []}}],
    "exists": [
        {"exists": {"field": name}}
        for name in ("title", "title.keyword", "genre", "pages", "sold", "tags", "tags.mood", "tags.place")
    ]
    + [{"exists": {"field": name}} for name in ("tags.place.sea", "author", "author.name", "reviews", "nope", "loose")]
    + [{"exists": {"field": "summary", "boost": 2}}],
    "range": [
        {"range": {"pages": {"gt": 3}}},
        {"range": {"pages": {"gte": 3.5, "lte": 7}}},
        {"range": {"pages": {"gt": 2**53}}},
        {"range": {"pages": {"gte": 2, "gt": 1, "lt": 9, "lte": 30}}},
        {"range": {"pages": {}}},
        {"range": {"price": {"lt": 0.5, "boost": 2}}},
        {"range": {"genre": {"gte": "d", "lt": "o"}}},
        {"range": {"printed": {"gte": "2024"}}},
        {"range": {"printed": {"lte": "2024-02-29"}}},
        {"range": {"printed": {"gt": "2023"}}},
        {"range": {"printed": {"gte": "2024-03-01||-1M/M", "lt": "now+60000d"}}},
        {"range": {"tags": {"gte": "l"}}},
        {"range": {"tags.mood": {"gte": "e"}}},
        {"range": {"tags.mood": {"lt": "e"}}},
        {"range": {"title": {"gte": "a"}}},
        {"range": {"sold": {"gte": True}}},
        {"range": {"pages": {"gt": "many"}}},
        {"range": {"nope": {"gt": 1}}},
    ],
    "pattern": [
        {"prefix": {"genre": "nov"}},
        {"prefix": {"genre": "nov*"}},
        {"prefix": {"genre": {"value": "NOV", "case_insensitive": True}}},
        {"prefix": {"title": "wol"}},
        {"prefix": {"title": "WOL"}},
        {"wildcard": {"genre": "n*l"}},
        {"wildcard": {"genre": "nov\\*l"}},
        {"wildcard": {"genre": "?ov?l"}},
        {"wildcard": {"genre": {"value": "N*L", "case_insensitive": True, "boost": 3}}},
        {"wildcard": {"genre": "Ü*"}},
        {"wildcard": {"genre": "x\\"}},
        {"wildcard": {"summary": "w*f"}},
        {"wildcard": {"summary": "?t?"}},
        {"wildcard": {"summary": "*'*"}},
        {"wildcard": {"tags": "*t*"}},
        {"wildcard": {"tags.mood": "d*k"}},
        {"prefix": {"tags.mood": "l"}},
        {"prefix": {"pages": "7"}},
        {"wildcard": {"genre": "[a-z]*"}},
    ],
    "bool": [
        {"bool": {}},
        {"bool": {"boost": 2}},
        {"bool": {"must": [matched("title", query="wolf")], "should": [matched("summary", query="sea")]}},
        {"bool": {"filter": [{"term": {"genre": "novel"}}]}},
        {"bool": {"filter": [{"term": {"genre": "novel"}}], "should": [{"term": {"pages": 7}}]}},
        {"bool": {"must_not": [{"exists": {"field": "genre"}}]}},
        {"bool": {"should": [matched("summary", query=w) for w in ("wolf", "sea", "sky")], "minimum_should_match": 2}},
        {"bool": {"should": [{"term": {"genre": "novel"}}, {"term": {"pages": 7}}], "minimum_should_match": 0}},
        {
            "bool": {
                "must": [{"match_all": {}}],
                "should": [{"term": {"genre": "novel"}}, {"term": {"pages": 7}}],
                "minimum_should_match": 1,
                "must_not": [{"term": {"sold": True}}],
                "boost": 3,
            }
        },
        {"bool": {"should": [{"match_none": {}}]}},
        {"constant_score": {"filter": matched("summary", query="wolf"), "boost": 7}},
        {"constant_score": {"filter": {"fuzzy": {"title": "wold"}}}},
        {"dis_max": {"queries": [matched("title", query="wolf"), matched("summary", query="wolf")], "boost": 2}},
        {"dis_max": {"queries": [{"match_all": {}}, matched("summary", query="wolf")], "tie_breaker": 0.5}},
        {"dis_max": {"queries": []}},
    ],
    "nested": [
        {"nested": {"path": "reviews", "query": inner, "score_mode": mode}}
        for inner in _INNER
        for mode in ("avg", "sum", "min", "max", "none")
    ]
    + [
        {"nested": {"path": "reviews.answers", "query": matched("reviews.answers.text", query="wolf")}},
        {
            "nested": {
                "path": "reviews",
                "query": {
                    "nested": {"path": "reviews.answers", "query": matched("reviews.answers.text", query="wolf sea")}
                },
            }
        },
        {"nested": {"path": "nope", "query": {"match_all": {}}}},
        {"nested": {"path": "nope", "query": {"match_all": {}}, "ignore_unmapped": True}},
        {"nested": {"path": "reviews", "query": {"term": {"genre": "novel"}}}},
        {"nested": {"path": "reviews", "query": {"ids": {"values": ["b1"]}}}},
        {"nested": {"path": "reviews", "query": {"multi_match": {"query": "wolf"}}}},
        {"nested": {"path": "reviews", "query": {"query_string": {"query": "wolf AND anna"}}}},
        {
            "nested": {
                "path": "reviews",
                "query": {"bool": {"must_not": [{"term": {"reviews.by": "anna"}}]}},
            }
        },
    ],
    "strings": [
        {"query_string": {"query": text, **options}}
        for text in (
            "wolf",
            "wolf AND sea",
            "title:wolf OR genre:novel",
            '"wolf sea" OR sky',
            "pages:[3 TO 9]",
            "pages:>7",
            "wol* -sea",
            "wolv~1",
            "tags.mood:dark",
            "_exists_:genre",
            "(wolf OR sea) AND NOT storm",
            "wolf^3 sea",
            "7",
            "nope:wolf",
        )
        for options in ({}, {"fields": ["title^2", "summary"]}, {"default_operator": "and"})
    ]
    + [
        {"simple_query_string": {"query": text}}
        for text in ("wolf sea", '"wolf sea" | sky', "wol* + -sea", "wlof~1", "nov* 7")
    ]
    + [{"query_string": {"query": "wolf sea sky", "fields": ["summary"], "minimum_should_match": 2, "boost": 2}}],
    "wrong": [{"nope": {}}, {"match": {"title": []}}, {"term": {}}],
}


SORTS: list[Any] = [
    ["pages"],
    [{"pages": "desc"}],
    [{"pages": {"order": "asc", "missing": "_first"}}],
    [{"price": {"order": "desc", "missing": "_first"}}, "_id"],
    ["genre", {"_id": "desc"}],
    [{"genre": "desc"}],
    ["title.keyword"],
    ["printed", "sold"],
    ["_score"],
    ["_id"],
    ["tags", "_id"],
    ["tags.mood"],
    [{"tags.mood": "desc"}],
    [{"tags.mood": {"order": "desc", "missing": "_first"}}],
    ["nope", "genre"],
    ["reviews.stars"],
    ["title"],
]


AGGREGATIONS: dict[str, Any] = {
    "metrics": {
        f"{kind} of {field}": {kind: {"field": field}}
        for kind in ("avg", "min", "max", "sum", "value_count", "cardinality", "stats")
        for field in ("pages", "price", "sold", "printed", "nope", "reviews.stars")
    },
    "counts": {
        f"{kind} of {field}": {kind: {"field": field}}
        for kind in ("value_count", "cardinality")
        for field in ("genre", "tags", "tags.mood", "tags.place.sea", "title.keyword")
    },
    "missing values": {
        "avg": {"avg": {"field": "pages", "missing": 5}},
        "count": {"value_count": {"field": "genre", "missing": "none"}},
        "numbers": {"value_count": {"field": "pages", "missing": 1}},
        "kinds": {"cardinality": {"field": "genre", "missing": "none"}},
        "terms": {"terms": {"field": "genre", "missing": "none"}},
        "moods": {"terms": {"field": "tags.mood", "missing": "none"}},
        "unknown": {"terms": {"field": "nope", "missing": "none"}},
        "pages": {"terms": {"field": "pages", "missing": 99}},
        "dates": {"max": {"field": "printed", "missing": "2030"}},
    },
    "terms": {
        **{
            f"of {field}": {"terms": {"field": field, "size": 50}}
            for field in ("genre", "pages", "price", "sold", "printed", "tags", "tags.mood", "nope", "title.keyword")
        },
        "few": {"terms": {"field": "pages", "size": 2}},
        "none": {"terms": {"field": "pages", "size": 0}},
        "frequent": {"terms": {"field": "genre", "min_doc_count": 5, "size": 2}},
        "by key": {"terms": {"field": "genre", "order": {"_key": "desc"}}},
        "by count": {"terms": {"field": "genre", "order": [{"_count": "asc"}, {"_key": "desc"}]}},
        "by price": {
            "terms": {"field": "pages", "order": {"p": "desc"}, "size": 4},
            "aggs": {"p": {"avg": {"field": "price"}}},
        },
        "by stats": {
            "terms": {"field": "genre", "order": {"s.max": "asc"}},
            "aggs": {"s": {"stats": {"field": "pages"}}, "in": {"terms": {"field": "sold"}}},
        },
    },
    "buckets": {
        "ranges": {
            "range": {"field": "pages", "ranges": [{"from": 3}, {"to": 7.5, "key": "small"}, {"from": 1, "to": 3}]}
        },
        "days": {"range": {"field": "printed", "ranges": [{"from": 1_700_000_000_000}]}},
        "unknown": {"range": {"field": "nope", "ranges": [{"from": 1}]}},
        "prices": {"histogram": {"field": "price", "interval": 1e19, "min_doc_count": 1}},
        "offset": {"histogram": {"field": "price", "interval": 1e19, "offset": 0.25, "min_doc_count": 1}},
        "years": {"date_histogram": {"field": "printed", "calendar_interval": "year"}},
        "months": {
            "date_histogram": {"field": "printed", "calendar_interval": "month"},
            "aggs": {
                "kinds": {"terms": {"field": "genre"}},
                "prices": {"stats": {"field": "price"}},
                "low": {"range": {"field": "price", "ranges": [{"to": 2}]}, "aggs": {"n": {"avg": {"field": "pages"}}}},
                "none": {"missing": {"field": "genre"}},
                "two": {"filters": {"filters": [{"match_all": {}}, {"match_none": {}}]}},
            },
        },
        "weeks": {"date_histogram": {"field": "printed", "calendar_interval": "week", "min_doc_count": 1}},
        "30 days": {"date_histogram": {"field": "printed", "fixed_interval": "30d"}},
        "no dates": {"date_histogram": {"field": "nope", "fixed_interval": "30d"}},
        "filter": {"filter": matched("summary", query="wolf"), "aggs": {"m": {"max": {"field": "price"}}}},
        "fuzzy": {"filter": {"fuzzy": {"summary": "wold"}}},
        "filters": {"filters": {"filters": {"a b": {"term": {"genre": "novel"}}, "[x]": {"match_all": {}}}}},
        "listed": {"filters": {"filters": [{"term": {"genre": "novel"}}, {"exists": {"field": "tags"}}]}},
        "missing": {"missing": {"field": "genre"}, "aggs": {"s": {"stats": {"field": "pages"}}}},
        "no text": {"missing": {"field": "summary"}},
        "no mood": {"missing": {"field": "tags.mood"}},
        "no tags": {"missing": {"field": "tags"}},
        "no field": {"missing": {"field": "nope"}},
    },
}


def made_query(chance: random.Random, depth: int = 0) -> JsonObject:
    """A query of the ones above, or a combination of such queries."""
    if depth == 3 or chance.random() < 0.4:
        query: JsonObject = chance.choice(QUERIES[chance.choice(list(QUERIES))])
        return query

    def some(most: int) -> list[Any]:
        return [made_query(chance, depth + 1) for _ in range(chance.randint(0, most))]

    if chance.random() < 0.2:
        return {"dis_max": {"queries": some(3), "tie_breaker": chance.choice([0, 0.5]), "boost": chance.choice([1, 2])}}
    if chance.random() < 0.1:
        return {"constant_score": {"filter": made_query(chance, depth + 1), "boost": 2}}
    parts: dict[str, Any] = {"must": some(2), "should": some(3), "filter": some(1), "must_not": some(1)}
    if chance.random() < 0.3:
        parts["minimum_should_match"] = chance.choice([0, 1, 2, "50%"])
    return {"bool": parts}


def made_search(chance: random.Random) -> JsonObject:
    body: JsonObject = {"query": made_query(chance), "size": chance.choice([0, 3, 100])}
    if chance.random() < 0.3:
        body["sort"] = chance.choice(SORTS)
    if chance.random() < 0.3:
        group = AGGREGATIONS[chance.choice(list(AGGREGATIONS))]
        names = chance.sample(list(group), 2)
        body["aggs"] = {name: group[name] for name in names}
    if chance.random() < 0.1:
        body["min_score"] = 0.5
    return body
