"""How documents are kept in a cluster: sealed, with lost answers, with threads, and moved."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gateway.documents.document import DocumentKind
from gateway.errors import (
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    StoreError,
    StoreFullError,
    UnavailableError,
)
from gateway.messages import JsonObject
from gateway.opensearch import document_transfer
from gateway.opensearch.document_fields import number_of, sortable
from gateway.opensearch.document_records import id_at, place_of
from gateway.opensearch.documents import ThreadDocument
from gateway.store.transfer import Moved, MovedDocument, MovedIndex, MovedStore
from tests.opensearch.documents_in_cluster import DocumentsInCluster, new_prefix, take_in
from tests.opensearch.front import CUT_AFTER, FULL, PASS, TOO_MANY, always, at, front_before
from tests.stored_samples import OWNER, sqlite_store, within

OTHER = "key-2"
NOTE = DocumentKind("note", {"title": {"type": "text"}, "rank": {"type": "long"}}, sealed=("/secret",))
OWN = DocumentKind("draft", {"title": {"type": "text"}}, own_ids=True)


@pytest_asyncio.fixture
async def store(opensearch_url: str) -> AsyncGenerator[DocumentsInCluster]:
    opened = DocumentsInCluster(opensearch_url)
    await within(opened.open())
    yield opened
    await within(opened.close())


async def found(store: DocumentsInCluster, kind: DocumentKind = NOTE, owner: str = OWNER) -> list[str]:
    answer: Any = await within(store.documents.search(kind, {"sort": ["_id"], "size": 1000}, owner))
    return [hit["_id"] for hit in answer["hits"]["hits"]]


# --- forms


def test_the_order_of_sortable_numbers_is_theirs() -> None:
    numbers = [-1e300, -(2.0**63), -(2**62) - 1, -(2**62), -1.5, -1, 0, 1e-9, 1, 1.5, 2, 2**53, 2**53 + 1, 2**53 + 2]
    numbers += [2**62, 2**62 + 1, 2**63 - 1, 2.0**63, 1e300]
    assert sorted(numbers, key=sortable) == numbers
    assert [number_of(sortable(number)) for number in numbers] == numbers


def test_the_order_of_places_is_that_of_ids() -> None:
    ids = ["\x00", "B", "a", "aa", "b", "é", "\U0001f43a", "a\ud800", "half \ud800"]
    assert sorted(ids, key=place_of) == ids
    assert [id_at(place_of(each)) for each in ids] == ids


# --- writes


async def test_without_a_key_a_document_with_secrets_is_refused(opensearch_url: str) -> None:
    store = DocumentsInCluster(opensearch_url, keys=())
    await within(store.open())
    with pytest.raises(UnavailableError) as raised:
        await within(store.documents.put(NOTE, "n1", OWNER, {"secret": "x"}))
    assert raised.value.code == "sealing_key_missing"
    await within(store.documents.put(NOTE, "n1", OWNER, {"title": "x"}))
    assert await within(document_transfer.key_ids(store.documents.index)) == []
    await within(store.close())


async def test_the_keys_of_sealed_documents_are_known(store: DocumentsInCluster) -> None:
    await within(store.documents.put(NOTE, "n1", OWNER, {"secret": "x"}))
    (key_id,) = await within(document_transfer.key_ids(store.documents.index))
    assert len(key_id) == 16


async def test_a_write_whose_answer_is_lost_is_done_once(opensearch_url: str) -> None:
    prefix = new_prefix()
    async with front_before(opensearch_url) as front:
        store = DocumentsInCluster(front.url, prefix=prefix)
        await within(store.open())
        documents = store.documents
        version = await within(documents.put(NOTE, "n0", OWNER, {}))
        front.forget(always(PASS))
        version = await within(documents.put(NOTE, "n0", OWNER, {"title": "one"}, version))
        for number in range(1, len(front.requests) + 1):
            front.forget(at(number, CUT_AFTER))
            created = await within(documents.put(NOTE, f"n{number}", OWNER, {}, 0))
            front.forget(at(number, CUT_AFTER))
            version = await within(documents.put(NOTE, f"n{number}", OWNER, {"title": "two"}, created))
            front.forget(at(number, CUT_AFTER))
            assert await within(documents.delete(NOTE, f"n{number}", OWNER, version))
        front.forget(at(1, TOO_MANY))
        await within(documents.put(NOTE, "n1", OWNER, {}, 0))
        assert await found(store) == ["n0", "n1"]
        front.forget(lambda number, request: FULL if "_bulk" in request.target else PASS)
        with pytest.raises(StoreFullError):
            await within(documents.put(NOTE, "n2", OWNER, {}))
        front.forget(always(PASS))
        await within(store.close())


async def test_of_writers_in_two_processes_one_wins(opensearch_url: str) -> None:
    prefix = new_prefix()
    one, other = (
        DocumentsInCluster(opensearch_url, prefix=prefix, keeps=True),
        DocumentsInCluster(opensearch_url, prefix=prefix),
    )
    await within(one.open())
    await within(other.open())
    version = await within(one.documents.put(NOTE, "n1", OWNER, {}))
    writes = [each.documents.put(NOTE, "n1", OWNER, {"rank": n}, version) for n in range(5) for each in (one, other)]
    outcomes = await within(asyncio.gather(*writes, return_exceptions=True))
    assert sorted(type(outcome).__name__ for outcome in outcomes) == [*["ConflictError"] * 9, "int"]
    writes = [each.documents.put(NOTE, "n1", OWNER, {"rank": n}) for n in range(5) for each in (one, other)]
    assert len(set(await within(asyncio.gather(*writes)))) == 10
    with pytest.raises(ConflictError):
        await within(other.documents.put(NOTE, "n1", OTHER, {}))
    await within(one.close())
    await within(other.close())


async def test_writes_of_a_document_happen_in_the_order_of_the_calls(store: DocumentsInCluster) -> None:
    large: JsonObject = {"title": "x " * 4_000, "rank": 0}
    writes = [store.documents.put(NOTE, "n1", OWNER, large if n % 2 else {"rank": n}) for n in range(9)]
    versions = await within(asyncio.gather(*writes))
    assert versions == sorted(versions)
    document = await within(store.documents.get(NOTE, "n1", OWNER))
    assert document is not None
    assert document.body == {"rank": 8}


async def test_a_write_is_done_even_if_its_caller_is_cancelled(store: DocumentsInCluster) -> None:
    task = asyncio.ensure_future(store.documents.put(NOTE, "n1", OWNER, {"rank": 1}))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await within(store.documents.put(NOTE, "n2", OWNER, {}))
    await within(store.documents.close())
    assert await found(store) == ["n1", "n2"]


async def test_a_silent_cluster_is_an_error(opensearch_url: str) -> None:
    async with front_before(opensearch_url) as front:
        store = DocumentsInCluster(front.url)
        await within(store.open())
        await within(store.documents.put(NOTE, "n1", OWNER, {}))
        front.forget(always(CUT_AFTER))
        with pytest.raises(StoreError):
            await within(store.documents.search(NOTE, {}, OWNER))
        front.forget(always(PASS))
        await within(store.close())


# --- kinds


async def test_documents_that_are_indexed_again_keep_their_versions(store: DocumentsInCluster) -> None:
    versions = {f"n{n}": await within(store.documents.put(NOTE, f"n{n}", OWNER, {"loose": "x"})) for n in range(30)}
    changed = DocumentKind("note", {"loose": {"type": "keyword"}})
    body: JsonObject = {"query": {"term": {"loose": "x"}}, "size": 50}
    answer: Any = await within(store.documents.search(changed, body, OWNER))
    assert {hit["_id"]: hit["_version"] for hit in answer["hits"]["hits"]} == versions
    assert [hit["_version"] for hit in answer["hits"]["hits"]] == sorted(versions.values())
    later = await within(store.documents.put(changed, "n3", OWNER, {}, versions["n3"]))
    assert later > max(versions.values())


async def test_values_that_are_too_long_for_the_cluster_are_found(store: DocumentsInCluster) -> None:
    kind = DocumentKind("long", {"key": {"type": "keyword"}, "text": {"type": "text"}, "flat": {"type": "flat_object"}})
    one, other = "x" * 40_000 + "1", "x" * 40_000 + "2"
    await within(store.documents.put(kind, "d1", OWNER, {"key": one, "text": one, "flat": {one: "y"}}))
    await within(store.documents.put(kind, "d2", OWNER, {"key": other, "text": other, "flat": {other: "y"}}))
    queries: list[JsonObject] = [{"term": {"key": one}}, {"match": {"text": one}}, {"term": {f"flat.{one}": "y"}}]
    for query in queries:
        answer: Any = await within(store.documents.search(kind, {"query": query}, OWNER))
        assert [hit["_id"] for hit in answer["hits"]["hits"]] == ["d1"]


# --- threads


async def test_a_document_of_a_thread_that_is_deleted_meanwhile_does_not_stay(opensearch_url: str) -> None:
    there = [True, False]

    async def has_thread(owner: str, thread_id: str) -> bool:
        return there.pop(0)

    store = DocumentsInCluster(opensearch_url)
    store.documents._has_thread = has_thread
    await within(store.open())
    with pytest.raises(NotFoundError):
        await within(store.documents.put(NOTE, "n1", OWNER, {}, thread_id="t1"))
    assert await found(store) == []
    await within(store.close())


async def test_documents_of_a_thread_are_written_together(store: DocumentsInCluster) -> None:
    def document(name: str, body: JsonObject | None, *, only_new: bool = False) -> ThreadDocument:
        return ThreadDocument(OWN, name, body, only_new)

    documents = store.documents
    first = [document("a", {"title": "one"}), document("b", {"title": "two"}), document("c", None)]
    await within(documents.write_of_thread(OWNER, "t1", first))
    assert await found(store, OWN) == ["a", "b"]
    made = await within(documents.get(OWN, "a", OWNER))
    assert made is not None
    assert (made.thread_id, made.body) == ("t1", {"title": "one"})
    second = [
        document("a", {"title": "three"}, only_new=True),
        document("b", None),
        document("c", {"title": "four"}),
        document("x" * 600, {"title": "its id is too long"}),
        document("d", {"title": "word " * 20_000}),
    ]
    await within(documents.write_of_thread(OWNER, "t1", second))
    assert await found(store, OWN) == ["a", "c"]
    kept = await within(documents.get(OWN, "a", OWNER))
    assert kept == made
    await within(documents.write_of_thread(OWNER, "t1", [document("c", {"title": "word " * 20_000})]))
    assert await found(store, OWN) == ["a"], "the old words of a document that cannot be stored must go"
    await within(documents.delete_of_thread(OTHER, "t1"))
    assert await found(store, OWN) == ["a"]
    await within(documents.delete_of_thread(OWNER, "t1"))
    assert await found(store, OWN) == []


# --- moves


async def test_documents_move_to_another_store_and_back(opensearch_url: str, tmp_path: Path) -> None:
    store = DocumentsInCluster(opensearch_url)
    await within(store.open())
    documents = store.documents
    for name, owner in (("n1", OWNER), ("n2", OTHER), ("half \ud800", "key-\udcff")):
        await within(documents.put(NOTE, name, owner, {"title": name[:2], "secret": "s"}, public=owner == OTHER))
    for owner in (OWNER, OTHER):
        await within(documents.put(OWN, "d1", owner, {"title": owner}))
    await within(documents.put(NOTE, "gone", OWNER, {}))
    await within(documents.delete(NOTE, "gone", OWNER))
    pieces = [piece async for piece in document_transfer.every_document(documents.index)]
    last = await within(document_transfer.last_version(documents.index))
    assert last > max(each.version for each in pieces if isinstance(each, MovedDocument))

    embedded = sqlite_store(tmp_path)
    await within(embedded.open())
    await within(embedded.import_([MovedStore((), last), *pieces]))
    await within(embedded.close())
    exported: list[Moved] = []
    await within(embedded.export(exported.append))
    moved = [each for each in exported if isinstance(each, MovedIndex | MovedDocument)]

    back = DocumentsInCluster(opensearch_url)
    await within(back.open())
    await within(take_in(back.documents, moved, last))
    again = [piece async for piece in document_transfer.every_document(back.documents.index)]
    assert sorted(map(repr, again)) == sorted(map(repr, pieces))
    assert await within(back.documents.put(NOTE, "n1", OWNER, {"title": "new"})) > last
    mine, theirs = (
        await within(back.documents.get(OWN, "d1", OWNER)),
        await within(back.documents.get(OWN, "d1", OTHER)),
    )
    assert mine is not None
    assert theirs is not None
    assert (mine.body, theirs.body) == ({"title": OWNER}, {"title": OTHER})
    assert await within(back.documents.delete(OWN, "d1", OWNER))
    assert await within(back.documents.get(OWN, "d1", OWNER)) is None
    assert await found(back, OWN, OTHER) == ["d1"]
    opened = await within(back.documents.get(NOTE, "n2", OWNER, unsealed=True))
    assert opened is not None
    assert opened.body["secret"] == "s"
    with pytest.raises(InvalidRequestError):
        await within(back.documents.put(NOTE, "", OWNER, {}))
    await within(back.close())
    await within(store.close())
