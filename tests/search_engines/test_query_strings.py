"""Query strings, those in which no text is wrong too: what they find, and what is said of those that are wrong."""

from __future__ import annotations

import json

import pytest

from gateway.errors import ToolError
from gateway.messages import JsonObject
from gateway.search_engines.embedded import EmbeddedSearchEngine
from tests.found_books import hits, ids


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("wolf sky", "123"),
        ("wolf AND sea", "1"),
        ("wolf && sea", "1"),
        ("wolf OR two", "134"),
        ("wolf || two", "134"),
        ("wolf or two", "134"),
        ("NOT wolf", "245"),
        ("wolf NOT winter", "1"),
        ("wolf -winter", "1"),
        ("wolf !winter", "1"),
        ("+wolf sea", "13"),
        ("sky OR sea AND wolf", "1"),
        ("sky OR (sea AND wolf)", "12"),
        ("(sky OR two) AND NOT (cooking)", "2"),
        ('"sea wolf"', "1"),
        ('"wolf sea"', ""),
        ('-"sea wolf" wolf', "3"),
        ("title:wolf", "13"),
        ("title : wolf", "13"),
        ("title:(sky OR two)", "24"),
        ('title:"sea and sky"', "2"),
        ("tags:sea AND year:2001", "2"),
        ("tags:Sea", ""),
        ("author.name:diaz", "4"),
        ("author.\\*:(diaz OR adams)", "45"),
        ("ti*:wolf", "13"),
        ("2001", "2"),
        ("classic", "1"),
        ("true", "1"),
        ("wol*", "13"),
        ("*olf", "13"),
        ("W?lf", "13"),
        ("title.keyword:*Wolf", "1"),
        ("title.keyword:*wolf", ""),
        ("*", "12345"),
        ("*:*", "12345"),
        ("tags:*", "12"),
        ("_exists_:author", "45"),
        ("NOT _exists_:author.name", "123"),
        ("year:[2001 TO 2010]", "23"),
        ("year:{2001 TO 2010]", "3"),
        ("year:[2001 TO 2010}", "2"),
        ("year:[2010 TO *]", "34"),
        ("year:{* TO 1979}", "1"),
        ("year:>2001", "34"),
        ("year:>=2001 AND year:<2020", "23"),
        ("year:(>=2001 AND <2020)", "23"),
        ("printed:[2001-05-01 TO 2001-05-01]", "2"),
        ('printed:["2010-12-31T22:30:00Z" TO *]', "3"),
        ("printed:2001-05-01", "2"),
        ("sold:false", "4"),
        ("title:wolf^3 OR title:two", "134"),
        ("(wolf two)^0.5", "134"),
        ("wolff~", "13"),
        ("title:wolff~1 AND sea", "1"),
        ("(wlff~2 OR two)^2", "134"),
        ("wolff~0", ""),
        ("tags:clasic~", "1"),
        ("don't", "5"),
        ("cooking & two", "4"),
        ("\\(wolf\\)", "13"),
        ("sea\\-wolf", "123"),
        ("C++ wolf", "13"),
        ("", ""),
        ("  ", ""),
    ],
)
async def test_query_strings_find_what_they_say(engine: EmbeddedSearchEngine, text: str, expected: str) -> None:
    assert await ids(engine, {"query_string": {"query": text}}) == list(expected)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"query": "sea wolf", "default_operator": "AND"}, "1"),
        ({"query": "sea wolf OR two", "default_operator": "AND"}, "12"),
        ({"query": "+sea wolf", "default_operator": "and"}, "1"),
        ({"query": "sea -wolf", "default_operator": "AND"}, "2"),
        ({"query": "sea", "default_field": "tags"}, "12"),
        ({"query": "wolf", "default_field": "tags"}, ""),
        ({"query": "diaz sky", "fields": ["title", "author.*"]}, "24"),
        ({"query": "wolf two", "fields": ["title^3", "year"], "type": "most_fields"}, "134"),
        ({"query": "sea wolf winter", "minimum_should_match": 2}, "13"),
        ({"query": "wxyf~", "fuzziness": 2}, "13"),
        ({"query": "wolf", "analyze_wildcard": True, "lenient": True, "boost": 2}, "13"),
    ],
    ids=json.dumps,
)
async def test_query_strings_are_read_as_their_options_say(
    engine: EmbeddedSearchEngine, options: JsonObject, expected: str
) -> None:
    assert await ids(engine, {"query_string": options}) == list(expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(wolf", "at character 1, a parenthesis that is never closed"),
        ("wolf)", "at character 5, a closing parenthesis without its opening one"),
        ('title:"wolf', "at character 7, a quotation mark without a second one"),
        ("wolf AND", "an operator with nothing behind it"),
        ("wolf AND OR sea", "at character 10, an operator where words should be"),
        ("title:", "nothing behind 'title:'"),
        ("/wol[fv]/", "at character 1, a regular expression, which is not supported"),
        ("title:/wol[fv]/", "a regular expression, which is not supported"),
        ("wolff~3", "a '~' with something else behind it than 0, 1, 2 or nothing"),
        ("wolff~x", "a '~' with something else behind it than 0, 1, 2 or nothing"),
        ('"sea wolf"~2', "'~', slop behind a phrase, which is not supported"),
        ("wolf^", "a '\\^' without a number"),
        ("year:[2001 2010]", "a range that is not like"),
        ("year:[2001 TO ", "a range that lacks a bound"),
        ("year:[2001 TO 2010", "a range that is never closed"),
        ("]", "where a word should be"),
        ("wolf\\", "at character 6, a backslash with nothing behind it"),
        ("(" * 30 + "wolf" + ")" * 30, "nested too deeply"),
        ("wolf " * 2_000, "at most 1024 clauses"),
    ],
)
async def test_query_strings_that_are_wrong_say_where_and_what_would_be_right(
    engine: EmbeddedSearchEngine, text: str, message: str
) -> None:
    with pytest.raises(ToolError, match=message):
        await ids(engine, {"query_string": {"query": text}})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("wolf sky", "123"),
        ("wolf + sea", "1"),
        ("wolf +sea", "1"),
        ("wolf | two", "134"),
        ("wolf + -winter", "1"),
        ("-wolf", "245"),
        ("--wolf", "13"),
        ("- wolf", "13"),
        ('"sea wolf" | two', "14"),
        ("(sky | wolf) + sea", "12"),
        ("sky | wolf + sea", "12"),
        ("wol* | coo*", "134"),
        ("wolff~", "13"),
        ("wolff~1 + sea", "1"),
        ("wolff~0", ""),
        ("title:wolf", "13"),
        ("classic", "1"),
        ("2001", "2"),
        ("don't", "5"),
        ("sea-wolf", "123"),
        ("\\(wolf\\)", "13"),
        ("wolf AND sea", "123"),
        ("((((", ""),
        ("wolf)", "13"),
        ("(wolf", "13"),
        ('"wolf', "13"),
        ("+ | wolf + ", "13"),
        ('"" & wolf', "13"),
        ("", ""),
    ],
)
async def test_no_simple_query_string_is_wrong(engine: EmbeddedSearchEngine, text: str, expected: str) -> None:
    assert await ids(engine, {"simple_query_string": {"query": text}}) == list(expected)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"query": "sea wolf", "default_operator": "and"}, "1"),
        ({"query": "sea wolf", "fields": ["title^2", "year"]}, "123"),
        ({"query": "classic", "fields": ["title"]}, ""),
        ({"query": "sea wolf winter", "minimum_should_match": 2, "lenient": True}, "13"),
    ],
    ids=json.dumps,
)
async def test_simple_query_strings_are_read_as_their_options_say(
    engine: EmbeddedSearchEngine, options: JsonObject, expected: str
) -> None:
    assert await ids(engine, {"simple_query_string": options}) == list(expected)


async def test_simple_query_strings_are_bounded(engine: EmbeddedSearchEngine) -> None:
    turns = "wolf + sea | " * 500  # each would be nested in the next
    for text in ("wolf " * 2_000, "(" * 50 + "wolf" + ")" * 50, turns):
        with pytest.raises(ToolError, match="at most"):
            await ids(engine, {"simple_query_string": {"query": text}})
    assert await ids(engine, {"simple_query_string": {"query": "sky" + "(" * 90_000}}) == ["2"]
    assert await ids(engine, {"simple_query_string": {"query": "wolf + sea | " * 50 + "sky"}}) == ["1", "2"]
    with pytest.raises(ToolError, match="does not support 'flags'"):
        await ids(engine, {"simple_query_string": {"query": "a", "flags": "ALL"}})


async def test_a_boost_in_a_query_string_counts(engine: EmbeddedSearchEngine) -> None:
    async def score(text: str) -> float:
        (hit,) = hits(await engine.search("books", {"query": {"query_string": {"query": text}}}))
        return float(hit["_score"])  # type: ignore[arg-type]

    assert await score("year:2001^4") == 4
    assert await score("(+year:2001 +tags:sea)^2") == 4
    assert await score("title:two^3") == pytest.approx(3 * await score("title:two"))


async def test_a_query_string_may_forbid_leading_wildcards(engine: EmbeddedSearchEngine) -> None:
    with pytest.raises(ToolError, match="begins with a wildcard"):
        await ids(engine, {"query_string": {"query": "*olf", "allow_leading_wildcard": False}})
