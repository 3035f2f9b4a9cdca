"""Documents against a model of them: a dict, and searches that look at each document of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.documents.document import DocumentKind
from gateway.errors import ConflictError
from gateway.messages import JsonObject
from gateway.store import Store
from tests.stored_samples import STORES, begin

NOTE = DocumentKind(
    "note",
    {
        "words": {"type": "text"},
        "rank": {"type": "long"},
        "tags": {"type": "flat_object"},
        "parts": {"type": "nested", "properties": {"name": {"type": "keyword"}, "size": {"type": "long"}}},
    },
    sealed=("/secret",),
)

IDS = st.sampled_from(["a", "b", "c", "d"])
OWNERS = st.sampled_from(["anna", "ben", "carl"])
THREADS = st.sampled_from([None, None, "t1", "t2"])
WORDS = st.sampled_from(["wolf", "sea", "sky"])
PARTS = st.fixed_dictionaries({"name": WORDS, "size": st.integers(0, 2)})
BODIES = st.fixed_dictionaries(
    {},
    optional={
        "words": st.lists(WORDS, max_size=4).map(" ".join),
        "rank": st.integers(0, 3),
        "tags": st.dictionaries(st.sampled_from(["x", "y"]), WORDS, max_size=2),
        "parts": st.lists(PARTS, max_size=3),
        "secret": WORDS,
    },
)
PUTS = st.tuples(st.just("put"), IDS, OWNERS, BODIES, st.sampled_from([None, None, 0, "last"]), st.booleans(), THREADS)
DELETES = st.tuples(st.just("delete"), IDS, OWNERS)
THREAD_DELETES = st.tuples(st.just("delete thread"), OWNERS, st.sampled_from(["t1", "t2"]))
STEPS = st.lists(st.one_of(PUTS, PUTS, PUTS, DELETES, THREAD_DELETES), max_size=12)


@dataclass
class Kept:
    owner: str
    body: JsonObject
    public: bool
    thread: str | None
    version: int


@dataclass
class Model:
    kept: dict[str, Kept] = field(default_factory=dict)

    def seen_by(self, owner: str) -> dict[str, Kept]:
        return {key: each for key, each in self.kept.items() if each.owner == owner or each.public}

    def found(self, owner: str, fits: Callable[[dict[str, Any]], bool]) -> set[str]:
        return {key for key, each in self.seen_by(owner).items() if fits(each.body)}


def words(body: dict[str, Any]) -> list[str]:
    return str(body.get("words", "")).split()


def has_part(body: dict[str, Any]) -> bool:
    return any(part["name"] == "wolf" and part["size"] >= 1 for part in body.get("parts", ()))


WOLF_PART: JsonObject = {"bool": {"filter": [{"term": {"parts.name": "wolf"}}, {"range": {"parts.size": {"gte": 1}}}]}}
SEARCHES: list[tuple[JsonObject, Callable[[dict[str, Any]], bool]]] = [
    ({"match_all": {}}, lambda body: True),
    ({"match": {"words": "wolf sky"}}, lambda body: bool({"wolf", "sky"} & set(words(body)))),
    ({"match_phrase": {"words": "sea wolf"}}, lambda body: " sea wolf " in f" {' '.join(words(body))} "),
    ({"range": {"rank": {"gte": 2}}}, lambda body: body.get("rank", 0) >= 2),
    ({"bool": {"must_not": [{"exists": {"field": "rank"}}]}}, lambda body: "rank" not in body),
    ({"term": {"tags": "sea"}}, lambda body: "sea" in body.get("tags", {}).values()),
    ({"term": {"tags.x": "sea"}}, lambda body: body.get("tags", {}).get("x") == "sea"),
    ({"exists": {"field": "tags.y"}}, lambda body: "y" in body.get("tags", {})),
    ({"nested": {"path": "parts", "query": WOLF_PART}}, has_part),
]


async def check(store: Store, model: Model) -> None:
    for owner in ("anna", "ben", "carl", "nobody"):
        for query, fits in SEARCHES:
            body: JsonObject = {"query": query, "aggs": {"ranks": {"value_count": {"field": "rank"}}}}
            answer: Any = await store.documents.search(NOTE, body, owner)
            found = {hit["_id"] for hit in answer["hits"]["hits"]}
            assert found == model.found(owner, fits), (owner, query)
            assert answer["hits"]["total"]["value"] == len(found)
            ranked = sum("rank" in model.kept[key].body for key in found)
            assert answer["aggregations"]["ranks"]["value"] == ranked
        for document_id in ("a", "b", "c", "d"):
            document = await store.documents.get(NOTE, document_id, owner, unsealed=True)
            expected = model.seen_by(owner).get(document_id)
            if expected is None:
                assert document is None
            else:
                assert document is not None
                assert (document.owner, document.body, document.version, document.public, document.thread_id) == (
                    *(expected.owner, expected.body, expected.version, expected.public, expected.thread),
                )


async def put(store: Store, model: Model, step: Any) -> None:
    _, document_id, owner, body, expected, public, thread = step
    old = model.kept.get(document_id)
    if_version = (0 if old is None else old.version) if expected == "last" else expected
    writing = store.documents.put(NOTE, document_id, owner, body, if_version, public=public, thread_id=thread)
    if (old is not None and old.owner != owner) or (
        if_version is not None and if_version != (old.version if old else 0)
    ):
        with pytest.raises(ConflictError):
            await writing
    else:
        model.kept[document_id] = Kept(owner, body, public, thread, await writing)


async def follow(name: str, steps: list[Any], folder: Path) -> None:
    store, model = STORES[name](folder), Model()
    await store.open()
    for owner in ("anna", "ben", "carl"):
        for thread in ("t1", "t2"):
            await begin(store, f"{owner} {thread}", thread, owner=owner)
    for number, step in enumerate(steps):
        match step[0]:
            case "put":
                await put(store, model, step)
            case "delete":
                _, document_id, owner = step
                is_own = document_id in model.kept and model.kept[document_id].owner == owner
                assert await store.documents.delete(NOTE, document_id, owner) == is_own
                if is_own:
                    del model.kept[document_id]
            case _:
                _, owner, thread = step
                await store.delete_thread(owner, thread)
                gone = [key for key, each in model.kept.items() if (each.owner, each.thread) == (owner, thread)]
                for key in gone:
                    del model.kept[key]
                await begin(store, f"run {number} of {owner}", thread, owner=owner)
    await check(store, model)
    await store.close()


@pytest.mark.thorough
@pytest.mark.parametrize("name", STORES)
def test_documents_are_what_a_dict_of_them_would_be(name: str) -> None:
    # a cluster takes a hundred times as long
    @settings(max_examples=4 if name == "opensearch" else 60, deadline=None)
    @given(STEPS)
    def holds(steps: list[Any]) -> None:
        with TemporaryDirectory() as folder:
            asyncio.run(asyncio.wait_for(follow(name, steps, Path(folder)), 30))

    holds()
