"""The OpenSearch store's own promises of moving: to an embedded store and back, and what a broken import leaves."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.errors import ConfigurationError
from gateway.store.export_file import read_export
from gateway.store.transfer import Moved, MovedIndex, MovedStore
from tests.full_store import KINDS, OWNERS, SITE, answers, exported, full_export, opened
from tests.half_an_import import killed_in_the_middle, with_a_long_thread
from tests.opensearch.index_sets import INDEX_SETS
from tests.stored_samples import within

in_a_cluster = pytest.mark.parametrize("kind", ["opensearch"])


def documents_in(directory: Path, *indices: str) -> int:
    """How many documents there are in indices of the folder's store, as another program sees it."""
    url, _, prefix = INDEX_SETS.store_url(directory).replace("opensearch://", "http://", 1).partition("?prefix=")
    names = ",".join(f"{prefix}-{name}" for name in indices)
    with httpx.Client(timeout=10.0) as client:
        client.post(f"{url}/{names}/_refresh").raise_for_status()
        return int(client.get(f"{url}/{names}/_count").raise_for_status().json()["count"])


def of_any_store(found: dict[str, Any]) -> dict[str, Any]:
    """The answers without what stores may do in their own ways: scores, and who only had documents."""
    same = {**found}
    for owner, kind in product(OWNERS, KINDS):
        documents, owners, _, searches = found[f"{owner} {kind.name}"]
        hits = [[] if each is None else each["hits"]["hits"] for each in searches]
        same[f"{owner} {kind.name}"] = documents, owners, [sorted(each["_id"] for each in some) for some in hits]
    return same


def as_a_set(path: Path) -> set[str]:
    return {repr(piece) for piece in read_export(path) if not isinstance(piece, MovedStore | MovedIndex)}


@in_a_cluster
async def test_an_embedded_store_moves_into_a_cluster_and_back(kind: str, tmp_path: Path) -> None:
    first = await full_export("sqlite", tmp_path)
    async with opened("sqlite", tmp_path / "sqlite") as store:
        before = of_any_store(await answers(store))
    async with opened(kind, tmp_path / "cluster") as store:
        await within(store.import_(read_export(first)))
        between = of_any_store(await answers(store))
        second = await exported(store, tmp_path / "second")
    async with opened("sqlite", tmp_path / "back") as store:
        await within(store.import_(read_export(second)))
        after = of_any_store(await answers(store))
        third = await exported(store, tmp_path / "third")
    assert {name for name in before if before[name] != between[name]} == set()
    assert {name for name in before if before[name] != after[name]} == set()
    assert as_a_set(third) == as_a_set(first)


@in_a_cluster
async def test_an_import_that_breaks_after_much_was_written_leaves_an_empty_store(kind: str, tmp_path: Path) -> None:
    path, directory = await full_export("sqlite", tmp_path), tmp_path / "new"
    written: list[int] = []

    def breaking() -> Iterator[Moved]:
        yield from with_a_long_thread(path)
        written.append(documents_in(directory, "messages"))
        raise ConfigurationError("cut off")

    async with opened(kind, directory) as store:
        with pytest.raises(ConfigurationError, match="cut off"):
            await within(store.import_(breaking()))
        assert written[0] > 0
        await expect_nothing(directory)
        await within(store.import_(read_export(path)))


@in_a_cluster
async def test_what_a_killed_import_left_is_deleted_by_the_next_gateway(kind: str, tmp_path: Path) -> None:
    path, directory = await full_export("sqlite", tmp_path), tmp_path / "new"
    os.makedirs(directory)
    await killed_in_the_middle(kind, INDEX_SETS.store_url(directory), directory, path)
    assert documents_in(directory, "messages") > 0
    async with opened(kind, tmp_path / "other"):
        assert documents_in(directory, "messages") > 0
    async with opened(kind, directory) as store:
        await expect_nothing(directory)
        pieces: list[Moved] = []
        await within(store.export(pieces.append))
        assert pieces == [MovedStore()]
        await within(store.import_(read_export(path)))
        assert await within(store.stored_bytes(SITE)) > 0


@in_a_cluster
async def test_what_a_newer_gateway_has_written_is_not_exported(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as store:
        url, _, prefix = INDEX_SETS.store_url(tmp_path).replace("opensearch://", "http://", 1).partition("?prefix=")
        async with httpx.AsyncClient(timeout=10.0) as client:
            newer = {"kind": "format", "format": 99}
            (await client.put(f"{url}/{prefix}-state/_doc/format", json=newer)).raise_for_status()
        with pytest.raises(ConfigurationError, match="written by a newer gateway"):
            await within(store.export(lambda piece: None))


async def expect_nothing(directory: Path) -> None:
    names = ("threads", "messages", "runs", "events", "approvals", "documents")
    assert {name: documents_in(directory, name) for name in names} == dict.fromkeys(names, 0)
    assert documents_in(directory, "state") == 3, "the open store's heartbeat, the list of gateways, and the format"
