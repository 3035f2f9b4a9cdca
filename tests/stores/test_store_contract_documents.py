"""What every store promises of documents."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gateway.agent import Secret
from gateway.documents.document import MAX_DOCUMENT_BYTES, MAX_ENTRIES, DocumentKind
from gateway.errors import ConflictError, InvalidRequestError, NotFoundError, TooLargeError
from gateway.messages import JsonObject
from gateway.owners import visitor_owner
from gateway.store import Store
from tests.movable_clock import MovableClock
from tests.stored_samples import ENVIRONMENTS, OWNER, begin, within

NOTE = DocumentKind(
    "note",
    {
        "title": {"type": "text", "fields": {"keyword": {"type": "keyword"}}},
        "rank": {"type": "long"},
        "tags": {"type": "flat_object"},
        "messages": {"type": "nested", "properties": {"role": {"type": "keyword"}, "text": {"type": "text"}}},
    },
    sealed=("/credential", "/tools/*/headers/*"),
)
OWN = DocumentKind("draft", {"title": {"type": "text"}}, own_ids=True)
OTHER = "key-2"
BODY: JsonObject = {"title": "The Sea Wolf", "rank": 3, "tags": {"genre": {"main": "novel"}}, "loose": [1, None, "x"]}
SECRETS: JsonObject = {
    "title": "A Wolf",
    "credential": {"api_key": "key-of-the-wolf"},
    "tools": [{"headers": {"Authorization": "token-of-the-wolf", "Empty": None}}, {"name": "plain"}, {"headers": []}],
}


async def ids(store: Store, query: JsonObject, owner: str = OWNER, kind: DocumentKind = NOTE) -> set[str]:
    answer: Any = await within(store.documents.search(kind, {"query": query, "size": 1000}, owner))
    assert answer["hits"]["total"]["value"] == len(answer["hits"]["hits"])
    return {hit["_id"] for hit in answer["hits"]["hits"]}


async def hit(store: Store, body: JsonObject, owner: str = OWNER) -> dict[str, Any]:
    answer: Any = await within(store.documents.search(NOTE, body, owner))
    (found,) = answer["hits"]["hits"]
    return dict(found)


async def refused(work: Awaitable[Any], code: str) -> None:
    with pytest.raises(ConflictError) as raised:
        await within(work)
    assert raised.value.code == code


def matches(words: str) -> JsonObject:
    return {"match": {"title": words}}


# --- put, get, delete


async def test_a_document_is_read_as_it_was_put(store: Store) -> None:
    version = await within(store.documents.put(NOTE, "n1", OWNER, BODY))
    document = await within(store.documents.get(NOTE, "n1", OWNER))
    assert document is not None
    assert (document.kind, document.document_id, document.owner) == ("note", "n1", OWNER)
    assert (document.version, document.body, document.public, document.thread_id) == (version, BODY, False, None)
    assert await within(store.documents.get(NOTE, "n2", OWNER)) is None
    assert await within(store.documents.get(OWN, "n1", OWNER)) is None


@pytest.mark.parametrize("text", ["a\x00b", "half \ud800 a pair", "\U0001f43a", "x" * 100_000, ""])
async def test_any_text_comes_back(store: Store, text: str) -> None:
    body: JsonObject = {"title": text, "tags": {text[:50]: text}, text[:50]: [text], "number": 2**70}
    await within(store.documents.put(NOTE, f"n{text[:9]}", f"{OWNER}{text[:9]}", body))
    document = await within(store.documents.get(NOTE, f"n{text[:9]}", f"{OWNER}{text[:9]}"))
    assert document is not None
    assert document.body == body
    assert await ids(store, {"exists": {"field": "title"}}, f"{OWNER}{text[:9]}") == {f"n{text[:9]}"}
    short = text[:9_000]
    query: JsonObject = {
        "bool": {"should": [matches(text[:99]), {"term": {"tags": short}}, {"ids": {"values": [short]}}]}
    }
    assert await ids(store, query, text) == set()


async def test_a_put_replaces_the_whole_document_and_keeps_when_it_was_made(
    environment_store: tuple[Store, MovableClock],
) -> None:
    store, clock = environment_store
    first = await within(store.documents.put(NOTE, "n1", OWNER, BODY))
    await clock.advance(60)
    second = await within(store.documents.put(NOTE, "n1", OWNER, {"title": "Sky"}))
    document = await within(store.documents.get(NOTE, "n1", OWNER))
    assert document is not None
    assert second > first
    assert (document.body, document.version) == ({"title": "Sky"}, second)
    assert document.updated_at - document.created_at == 60
    assert await ids(store, matches("wolf")) == set()
    assert await ids(store, {"term": {"tags": "novel"}}) == set()
    assert await ids(store, matches("sky")) == {"n1"}


async def test_a_version_is_never_used_again(store: Store) -> None:
    versions = []
    for _ in range(3):
        versions.append(await within(store.documents.put(NOTE, "n1", OWNER, BODY)))
        assert await within(store.documents.delete(NOTE, "n1", OWNER))
    assert versions == sorted(set(versions))
    assert 0 not in versions


async def test_a_write_that_expects_another_version_changes_nothing(store: Store) -> None:
    documents = store.documents
    await refused(documents.put(NOTE, "n1", OWNER, BODY, 1), "version_conflict")
    version = await within(documents.put(NOTE, "n1", OWNER, BODY, 0))
    await refused(documents.put(NOTE, "n1", OWNER, {}, 0), "id_taken")
    await refused(documents.put(NOTE, "n1", OWNER, {}, version + 1), "version_conflict")
    await refused(documents.delete(NOTE, "n1", OWNER, version + 1), "version_conflict")
    after = await within(documents.put(NOTE, "n1", OWNER, {"rank": 1}, version))
    await refused(documents.put(NOTE, "n1", OWNER, {}, version), "version_conflict")
    document = await within(documents.get(NOTE, "n1", OWNER))
    assert document is not None
    assert document.body == {"rank": 1}
    assert await within(documents.delete(NOTE, "n1", OWNER, after))
    await refused(documents.put(NOTE, "n1", OWNER, {}, after), "version_conflict")


async def test_of_many_writers_that_expect_one_version_one_wins(store: Store) -> None:
    version = await within(store.documents.put(NOTE, "n1", OWNER, BODY))
    writes = [store.documents.put(NOTE, "n1", OWNER, {"rank": number}, version) for number in range(20)]
    outcomes = await within(asyncio.gather(*writes, return_exceptions=True))
    assert sorted(type(outcome).__name__ for outcome in outcomes) == [*["ConflictError"] * 19, "int"]


async def test_a_deleted_document_is_gone(store: Store) -> None:
    await within(store.documents.put(NOTE, "n1", OWNER, BODY))
    assert await within(store.documents.delete(NOTE, "n1", OWNER))
    assert not await within(store.documents.delete(NOTE, "n1", OWNER))
    assert await within(store.documents.get(NOTE, "n1", OWNER)) is None
    assert await ids(store, {"match_all": {}}) == set()


@pytest.mark.parametrize(
    ("document_id", "body", "kind"),
    [
        ("", {}, InvalidRequestError),
        ("x" * 513, {}, InvalidRequestError),
        ("n1", {"rank": "many"}, InvalidRequestError),
        ("n1", {"messages": "none"}, InvalidRequestError),
        ("n1", {"text": "x" * MAX_DOCUMENT_BYTES}, TooLargeError),
        ("n1", {"title": "x " * MAX_ENTRIES}, TooLargeError),
        ("n1", {"messages": [{"role": "user"}] * MAX_ENTRIES}, TooLargeError),
        ("n1", {"tags": {str(number): number for number in range(MAX_ENTRIES)}}, TooLargeError),
    ],
)
async def test_what_is_no_document_is_refused_whole(
    store: Store, document_id: str, body: JsonObject, kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        await within(store.documents.put(NOTE, document_id, OWNER, body))
    assert await ids(store, {"match_all": {}}) == set()


@pytest.mark.parametrize("levels", [30, 200, 300, 5_000])
async def test_a_document_may_be_deep_or_is_refused(store: Store, levels: int) -> None:
    for member in ("loose", "tags", "title", "messages"):
        deep: Any = "bottom"
        for _ in range(levels):
            deep = [deep] if member in ("title", "messages") else {"a": deep}
        body: JsonObject = {member: [{"role": deep}] if member == "messages" else deep}
        try:
            await within(store.documents.put(NOTE, member, OWNER, body))
        except InvalidRequestError:
            continue
        document = await within(store.documents.get(NOTE, member, OWNER))
        assert document is not None
        assert document.body == body
        assert await within(store.documents.delete(NOTE, member, OWNER))
    query: JsonObject = {"match_all": {}}
    for _ in range(levels):
        query = {"bool": {"must": [query]}}
    with pytest.raises(InvalidRequestError):
        await within(store.documents.search(NOTE, {"query": query}, OWNER))


async def test_a_document_outlives_the_process(open_again: Callable[[], Store]) -> None:
    store = open_again()
    await within(store.open())
    version = await within(store.documents.put(NOTE, "n1", OWNER, SECRETS))
    await within(store.close())
    store = open_again()
    await within(store.open())
    document = await within(store.documents.get(NOTE, "n1", OWNER, unsealed=True))
    assert document is not None
    assert (document.version, document.body) == (version, SECRETS)
    assert await ids(store, matches("wolf")) == {"n1"}
    await within(store.close())


# --- owners


async def page(store: Store, owner: str, after: str = "", limit: int = 100) -> list[str]:
    found = await within(store.documents.page(NOTE, owner, after=after, limit=limit))
    return [document.document_id for document in found]


async def test_the_documents_that_an_owner_may_see_come_in_pages_by_id(store: Store) -> None:
    for number, document_id in enumerate(("d", "a", "\U0001f43a", "half \ud800", "c", "B")):
        body: JsonObject = {"rank": number, "messages": [{"role": "user"}, {"role": "bot"}]}
        await within(store.documents.put(NOTE, document_id, OWNER, body, public=number % 2 == 0))
    await within(store.documents.put(NOTE, "b", OTHER, {"rank": 9}))
    await within(store.documents.put(NOTE, "bb", OTHER, {"rank": 9}, public=True))
    await within(store.documents.put(OWN, "aa", OWNER, {}))
    every = ["B", "a", "bb", "c", "d", "\U0001f43a", "half \ud800"]
    assert await page(store, OWNER) == every
    assert await page(store, OWNER, limit=3) == every[:3]
    assert await page(store, OWNER, "bb", limit=3) == every[3:6]
    assert await page(store, OWNER, "\U0001f43a") == every[6:]
    assert await page(store, OTHER) == ["b", "bb", "c", "d", "\U0001f43a"]
    [document] = await within(store.documents.page(NOTE, OTHER, after="bb", limit=1))
    assert (document.owner, document.public, document.body["rank"]) == (OWNER, True, 4)


async def test_what_is_sealed_is_on_no_page_and_what_went_with_its_thread_is_not(store: Store) -> None:
    await begin(store, "r", "t")
    await within(store.documents.put(NOTE, "n1", OWNER, SECRETS))
    await within(store.documents.put(NOTE, "n2", OWNER, BODY, thread_id="t"))
    assert await page(store, OWNER) == ["n1", "n2"]
    [document] = await within(store.documents.page(NOTE, OWNER, limit=1))
    assert "key-of-the-wolf" not in str(document.body)
    assert await within(store.delete_thread(OWNER, "t"))
    assert await page(store, OWNER) == ["n1"]


async def test_an_owner_has_at_most_so_many_documents_of_a_kind(store: Store) -> None:
    documents = store.documents
    for number in range(3):
        await within(documents.put(NOTE, f"n{number}", OWNER, BODY, public=number == 1, most=3))
    await within(documents.put(NOTE, "theirs", OTHER, BODY, public=True, most=1))
    await refused(documents.put(NOTE, "n3", OWNER, BODY, most=3), "too_many")
    await within(documents.put(NOTE, "n2", OWNER, BODY, most=3))
    await within(documents.put(OWN, "n3", OWNER, {}, most=3))
    await within(documents.delete(NOTE, "n1", OWNER))
    await within(documents.put(NOTE, "n3", OWNER, BODY, most=3))


async def test_an_owners_documents_are_nobody_elses(store: Store) -> None:
    documents = store.documents
    await within(documents.put(NOTE, "n1", OWNER, BODY))
    assert await within(documents.get(NOTE, "n1", OTHER)) is None
    assert await ids(store, {"match_all": {}}, OTHER) == set()
    assert not await within(documents.delete(NOTE, "n1", OTHER))
    with pytest.raises(ConflictError) as raised:
        await within(documents.put(NOTE, "n1", OTHER, {}))
    assert raised.value.code == "id_taken"
    assert raised.value.message == "the id 'n1' is taken by another note; choose another"
    assert await ids(store, {"match_all": {}}) == {"n1"}


async def test_a_public_document_is_seen_by_all_and_changed_by_its_owner(store: Store) -> None:
    documents = store.documents
    version = await within(documents.put(NOTE, "n1", OWNER, BODY, public=True))
    for owner in (OWNER, OTHER):
        document = await within(documents.get(NOTE, "n1", owner))
        assert document is not None
        assert (document.owner, document.public) == (OWNER, True)
        found = await hit(store, {"query": matches("wolf")}, owner)
        assert (found["_id"], found["_version"], found["_owner"], found["_public"]) == ("n1", version, OWNER, True)
    with pytest.raises(ConflictError):
        await within(documents.put(NOTE, "n1", OTHER, {}))
    assert not await within(documents.delete(NOTE, "n1", OTHER))
    await within(documents.put(NOTE, "n1", OWNER, BODY))
    assert await ids(store, {"match_all": {}}, OTHER) == set()
    assert await ids(store, {"match_all": {}}) == {"n1"}


async def test_ids_may_be_each_owners_own(store: Store) -> None:
    documents = store.documents
    await within(documents.put(OWN, "d1", OWNER, {"title": "mine"}))
    await within(documents.put(OWN, "d1", OTHER, {"title": "yours"}, 0))
    mine, yours = await within(documents.get(OWN, "d1", OWNER)), await within(documents.get(OWN, "d1", OTHER))
    assert mine is not None
    assert yours is not None
    assert (mine.body, yours.body) == ({"title": "mine"}, {"title": "yours"})
    assert await within(documents.delete(OWN, "d1", OWNER))
    assert await ids(store, {"match_all": {}}, OTHER, OWN) == {"d1"}
    with pytest.raises(InvalidRequestError, match="cannot be public"):
        await within(documents.put(OWN, "d2", OWNER, {}, public=True))


# --- search


async def test_a_search_gives_the_documents_that_the_query_finds(store: Store) -> None:
    message: JsonObject = {"role": "user", "text": "a wolf in winter"}
    await within(store.documents.put(NOTE, "n1", OWNER, {**BODY, "messages": [message]}))
    await within(store.documents.put(NOTE, "n2", OWNER, {"title": "Sky", "rank": 5}))
    nested: JsonObject = {"nested": {"path": "messages", "query": {"match": {"messages.text": "winter"}}}}
    for query, expected in (
        ({"match_all": {}}, {"n1", "n2"}),
        (matches("wolf"), {"n1"}),
        ({"term": {"tags.genre.main": "novel"}}, {"n1"}),
        ({"range": {"rank": {"gt": 3}}}, {"n2"}),
        (nested, {"n1"}),
        ({"term": {"loose": "x"}}, set()),
        ({"bool": {"must_not": [{"exists": {"field": "nowhere"}}]}}, {"n1", "n2"}),
        ({"ids": {"values": ["n2", "n3"]}}, {"n2"}),
    ):
        assert await ids(store, query) == expected  # type: ignore[arg-type]
    found = await hit(store, {"query": matches("wolf"), "_source": ["rank"]})
    assert (found["_index"], found["_source"]) == ("note", {"rank": 3})


async def test_pages_are_sorted_as_asked(store: Store) -> None:
    for number in (3, 1, 2, 5, 4):
        await within(store.documents.put(NOTE, f"n{number}", OWNER, {"rank": -number}, public=number % 2 == 0))
    for sort, expected in (([{"_id": "asc"}], ["n2", "n3"]), (["rank"], ["n4", "n3"])):
        body: JsonObject = {"sort": sort, "from": 1, "size": 2}  # type: ignore[dict-item]
        answer: Any = await within(store.documents.search(NOTE, body, OWNER))
        assert [found["_id"] for found in answer["hits"]["hits"]] == expected
        assert answer["hits"]["total"]["value"] == 5


async def test_what_others_have_changes_no_answer(store: Store) -> None:
    body: JsonObject = {
        "query": matches("wolf sea"),
        "aggs": {"ranks": {"terms": {"field": "rank"}}, "mean": {"avg": {"field": "rank"}}},
    }
    await within(store.documents.put(NOTE, "n1", OWNER, BODY))
    await within(store.documents.put(NOTE, "n2", OWNER, {"title": "wolf wolf", "rank": 4}))
    alone = await within(store.documents.search(NOTE, body, OWNER))
    for number in range(50):
        await within(store.documents.put(NOTE, f"m{number}", OTHER, {"title": "wolf " * number, "rank": 3}))
    assert await within(store.documents.search(NOTE, body, OWNER)) == alone


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"query": {"nope": {}}}, "'nope' is not supported"),
        ({"query": {"range": {"rank": {"gt": "many"}}}}, "'many' does not fit the field 'rank'"),
        ({"size": 10_001}, "at most 10000"),
        ({"nope": 1}, "not supported"),
    ],
)
async def test_a_wrong_search_is_refused(store: Store, body: JsonObject, message: str) -> None:
    await within(store.documents.put(NOTE, "n1", OWNER, BODY))
    with pytest.raises(InvalidRequestError, match=message) as raised:
        await within(store.documents.search(NOTE, body, OWNER))
    assert (raised.value.status, raised.value.code) == (400, "invalid_search")


async def test_a_search_that_would_take_too_long_is_ended(store: Store) -> None:
    words = " ".join(f"word{number}" for number in range(3_000))
    await within(store.documents.put(NOTE, "n1", OWNER, {"title": words}))
    fuzzy: list[Any] = [{"match": {"title": {"query": f"word{number}", "fuzziness": 2}}} for number in range(200)]
    with pytest.raises(InvalidRequestError, match="would take too long") as raised:
        await within(store.documents.search(NOTE, {"query": {"bool": {"should": fuzzy}}}, OWNER))
    assert raised.value.code == "search_too_large"
    assert await ids(store, matches("word7")) == {"n1"}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"title": "x" * 100_001}, "'title' has 100001 characters; at most 100000"),
        ({"tags": {str(number): "x" for number in range(5_001)}}, "'tags' more than 10000 values"),  # each counts twice
        ({"title": "x " * 10_001}, "more than 10000 words"),
    ],
)
async def test_no_more_of_a_document_is_searched_than_a_process_can_bear(
    store: Store, body: JsonObject, message: str
) -> None:
    with pytest.raises(TooLargeError, match=message):
        await within(store.documents.put(NOTE, "n1", OWNER, body))
    assert await within(store.documents.get(NOTE, "n1", OWNER)) is None


async def test_a_search_has_at_most_100_kb(store: Store) -> None:
    await within(store.documents.put(NOTE, "n1", OWNER, BODY))
    assert await ids(store, matches("x " + "a" * 90_000)) == set()
    several: JsonObject = {"bool": {"should": [matches("a" * 10_000) for _ in range(10)]}}
    for query in (matches("a" * 100_000), several):
        with pytest.raises(InvalidRequestError, match=r"too large at 'query\..*at most 100000 bytes") as raised:
            await within(store.documents.search(NOTE, {"query": query}, OWNER))
        assert (raised.value.status, raised.value.code) == (400, "invalid_search")


async def test_the_comparisons_of_patterns_are_counted_over_all_documents(store: Store) -> None:
    """Documents whose fields are others each time."""
    for number in range(20):
        tags: JsonObject = {f"tag-{number}-{place}": "x" for place in range(300)}
        await within(store.documents.put(NOTE, f"n{number}", OWNER, {"tags": tags, "rank": number}))
    patterns: list[Any] = [f"*x{number}*y*" for number in range(1_024)]
    with pytest.raises(InvalidRequestError, match="'_source' would be compared with too many fields") as raised:
        await within(store.documents.search(NOTE, {"_source": patterns, "size": 20}, OWNER))
    assert (raised.value.status, raised.value.code) == (400, "invalid_search")
    wanted: JsonObject = {"includes": ["tags.tag-*", *(f"n{number}" for number in range(900))], "excludes": ["*-7"]}
    found = await hit(store, {"_source": wanted, "query": {"term": {"rank": 3}}})
    assert list(found["_source"]) == ["tags"]
    assert len(found["_source"]["tags"]) == 299


async def test_a_heavy_search_of_one_owner_lets_another_owners_search_pass(tmp_path: Path) -> None:
    store = ENVIRONMENTS["sqlite"](tmp_path, MovableClock())
    await within(store.open())
    words = " ".join(f"word{number}" for number in range(3_000))
    for owner, title in ((OWNER, words), (OTHER, "wolf")):
        await within(store.documents.put(NOTE, f"of {owner}", owner, {"title": title}))
    fuzzy: list[Any] = [{"match": {"title": {"query": f"word{number}", "fuzziness": 2}}} for number in range(200)]
    ended: list[str] = []

    async def search(query: JsonObject, owner: str) -> None:
        with suppress(InvalidRequestError):
            await store.documents.search(NOTE, {"query": query}, owner)
        ended.append(owner)

    heavy = [search({"bool": {"should": fuzzy}}, OWNER) for _ in range(4)]
    await within(asyncio.gather(*heavy, search(matches("wolf"), OTHER)))
    assert ended == [OTHER, *[OWNER] * 4]
    await within(store.close())


async def test_a_search_gives_no_more_than_a_process_can_bear(store: Store) -> None:
    for number in range(20):
        await within(store.documents.put(NOTE, f"n{number}", OWNER, {"text": "x" * 4_000_000}))
    with pytest.raises(InvalidRequestError, match="would take too long"):
        await within(store.documents.search(NOTE, {"size": 20}, OWNER))
    assert (await hit(store, {"size": 1}))["_id"] == "n0"


async def test_a_kind_that_has_got_other_fields_finds_what_was_stored_before(store: Store) -> None:
    await within(store.documents.put(NOTE, "n1", OWNER, BODY))
    await within(store.documents.put(NOTE, "n2", OWNER, {"loose": "y", "messages": [{"role": "user"}]}))
    await within(store.documents.put(NOTE, "n3", OTHER, {"loose": "y"}))
    await within(store.documents.put(NOTE, "n4", OTHER, {"loose": "y"}, public=True))
    changed = DocumentKind("note", {"loose": {"type": "keyword"}, "title": {"type": "long"}})
    assert await ids(store, {"term": {"loose": "x"}}, kind=changed) == set(), "its title does not fit any more"
    assert await ids(store, {"term": {"loose": "y"}}, kind=changed) == {"n2", "n4"}
    await within(store.documents.put(changed, "n2", OWNER, {"loose": "z"}))
    assert await within(store.documents.delete(changed, "n1", OWNER))
    assert await ids(store, {"match_all": {}}, kind=changed) == {"n2", "n4"}
    assert await ids(store, {"term": {"loose": "z"}}, kind=changed) == {"n2"}
    await within(store.documents.put(changed, "n5", OTHER, {"loose": "y"}))
    assert await ids(store, {"term": {"loose": "y"}}, OTHER, changed) == {"n3", "n4", "n5"}
    assert await ids(store, {"term": {"loose": "y"}}, OTHER) == set()
    for name in ("n3", "n4", "n5"):
        assert await within(store.documents.delete(NOTE, name, OTHER))


# --- threads


async def test_a_document_goes_with_its_thread(store: Store) -> None:
    documents = store.documents
    await begin(store, "r1", "t1")
    await begin(store, "r2", "t2")
    await within(documents.put(NOTE, "n1", OWNER, SECRETS, thread_id="t1"))
    await within(documents.put(NOTE, "n2", OWNER, BODY, thread_id="t2"))
    await within(documents.put(NOTE, "n3", OWNER, BODY))
    document = await within(documents.get(NOTE, "n1", OWNER))
    assert document is not None
    assert document.thread_id == "t1"
    assert await within(store.delete_thread(OWNER, "t1"))
    assert await within(documents.get(NOTE, "n1", OWNER)) is None
    assert await ids(store, {"match_all": {}}) == {"n2", "n3"}
    assert not await within(documents.delete(NOTE, "n1", OWNER))
    await within(documents.put(NOTE, "n1", OTHER, {"title": "new"}, 0))
    assert await ids(store, matches("new"), OTHER) == {"n1"}


async def test_however_many_documents_a_thread_has_all_go_with_it(store: Store) -> None:
    await begin(store, "r1", "t1")
    for number in range(250):
        await within(store.documents.put(NOTE, f"n{number}", OWNER, BODY, thread_id="t1"))
    await within(store.documents.put(NOTE, "large", OWNER, {"text": "x" * 1_000_000}, thread_id="t1"))
    assert len(await ids(store, matches("wolf"))) == 250
    assert await within(store.delete_thread(OWNER, "t1"))
    await within(store.documents.put(NOTE, "n1", OWNER, {"title": "new"}, 0))
    assert await ids(store, {"match_all": {}}) == {"n1"}


async def test_a_document_belongs_to_a_thread_of_its_owners_alone(store: Store) -> None:
    await begin(store, "r1", "t1", owner=OTHER)
    for thread_id in ("t1", "nope"):
        with pytest.raises(NotFoundError):
            await within(store.documents.put(NOTE, "n1", OWNER, BODY, thread_id=thread_id))
    assert await ids(store, {"match_all": {}}) == set()


async def test_a_document_that_left_its_thread_stays(store: Store) -> None:
    await begin(store, "r1", "t1")
    await within(store.documents.put(NOTE, "n1", OWNER, BODY, thread_id="t1"))
    await within(store.documents.put(NOTE, "n1", OWNER, BODY))
    assert await within(store.delete_thread(OWNER, "t1"))
    assert await ids(store, matches("wolf")) == {"n1"}


async def test_the_documents_of_a_sites_visitors_are_counted(store: Store) -> None:
    visitor = visitor_owner("shop", "a")
    await begin(store, "r1", "t1", owner=visitor)
    before = await within(store.stored_bytes("shop"))
    await within(store.documents.put(NOTE, "n1", visitor, BODY, thread_id="t1"))
    await within(store.documents.put(NOTE, "n2", visitor, BODY))
    grown = await within(store.stored_bytes("shop")) - before
    assert grown > 0
    await within(store.documents.put(NOTE, "n2", visitor, BODY, thread_id="t1"))
    assert await within(store.stored_bytes("shop")) - before == grown
    await within(store.documents.delete(NOTE, "n2", visitor))
    assert await within(store.stored_bytes("shop")) - before == grown // 2
    assert await within(store.delete_thread(visitor, "t1"))
    assert await within(store.stored_bytes("shop")) == 0


# --- what is sealed


async def test_what_is_sealed_is_given_to_whoever_asks_for_it_and_found_by_nobody(store: Store) -> None:
    await within(store.documents.put(NOTE, "n1", OWNER, SECRETS))
    document = await within(store.documents.get(NOTE, "n1", OWNER))
    assert document is not None
    assert document.body == {
        "title": "A Wolf",
        "tools": [{"headers": {"Empty": None}}, {"name": "plain"}, {"headers": []}],
    }
    assert "of-the-wolf" not in str(await hit(store, {"query": matches("wolf")}))
    assert await ids(store, {"query_string": {"query": "*of-the-wolf OR token"}}) == set()
    opened = await within(store.documents.get(NOTE, "n1", OWNER, unsealed=True))
    assert opened is not None
    assert opened.body == SECRETS
    assert await within(store.documents.get(NOTE, "n1", OTHER, unsealed=True)) is None


async def test_a_replaced_document_has_the_secrets_that_it_was_given_last(store: Store) -> None:
    await within(store.documents.put(NOTE, "n1", OWNER, SECRETS))
    for body in ({"credential": "another one"}, {"title": "none"}):
        await within(store.documents.put(NOTE, "n1", OWNER, body))  # type: ignore[arg-type]
        opened = await within(store.documents.get(NOTE, "n1", OWNER, unsealed=True))
        assert opened is not None
        assert opened.body == body


@pytest.mark.parametrize("name", ENVIRONMENTS)
async def test_secrets_are_told_before_they_are_written_and_when_they_are_opened(name: str, tmp_path: Path) -> None:
    told: list[str] = []

    def learn(secrets: Any) -> None:
        told.extend(secret.reveal() for secret in secrets if isinstance(secret, Secret))

    store = ENVIRONMENTS[name](tmp_path, MovableClock(), learn)
    await within(store.open())
    with pytest.raises(InvalidRequestError):
        await within(store.documents.put(NOTE, "n1", OWNER, {**SECRETS, "rank": "many"}))
    assert told == ["key-of-the-wolf", "token-of-the-wolf"]
    await within(store.documents.put(NOTE, "n1", OWNER, SECRETS))
    told.clear()
    await within(store.documents.get(NOTE, "n1", OWNER))
    assert told == []
    await within(store.documents.get(NOTE, "n1", OWNER, unsealed=True))
    assert told == ["key-of-the-wolf", "token-of-the-wolf"]
    await within(store.close())


async def test_whoever_owns_a_document_is_known_by_its_id(store: Store) -> None:
    await within(store.documents.put(NOTE, "n1", OWNER, BODY))
    assert await within(store.documents.owner_of(NOTE, "n1")) == OWNER
    assert await within(store.documents.owner_of(NOTE, "n2")) is None
    await within(store.documents.delete(NOTE, "n1", OWNER))
    assert await within(store.documents.owner_of(NOTE, "n1")) is None


async def test_who_has_documents_of_a_kind_is_known(store: Store) -> None:
    assert await within(store.documents.owners(OWN)) == []
    for owner in (OWNER, OTHER, "key-\udcff"):
        await within(store.documents.put(OWN, "d1", owner, BODY))
    await within(store.documents.put(NOTE, "n1", "key-3", BODY, public=True))
    await within(store.documents.put(NOTE, "n2", OTHER, BODY))
    assert sorted(await within(store.documents.owners(OWN))) == sorted([OWNER, OTHER, "key-\udcff"])
    assert await within(store.documents.owners(NOTE)) == [OTHER]
