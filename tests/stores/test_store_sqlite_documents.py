"""Documents in the embedded store's file: its key, its full disk, and what is in the file."""

from __future__ import annotations

import base64
import logging
import os
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest

from gateway.agent import Secret
from gateway.clock import SystemClock
from gateway.documents.document import DocumentKind
from gateway.embedded_index.entries import TABLES
from gateway.errors import ConfigurationError, StoreFullError, UnavailableError
from gateway.messages import JsonObject
from gateway.sqlite.address import Address
from gateway.sqlite.document_rows import BY_ID, PAGE
from gateway.sqlite.erasure import ErasureTimes
from gateway.sqlite.schema import make_documents
from gateway.sqlite.store import SqliteStore
from gateway.sqlite.tables import delete_thread
from gateway.store import Store, StoreEnvironment
from gateway.stores.sqlite import STORE as SQLITE
from tests.full_disks import mounted_disk, take_all
from tests.stored_samples import OWNER, begin, sqlite_file, sqlite_store, within
from tests.waiting import until_outside

NOTE = DocumentKind("note", {"title": {"type": "text"}, "tags": {"type": "flat_object"}}, sealed=("/secret",))
BODY: JsonObject = {"title": "The Sea Wolf", "secret": "of the wolf"}
OLD, NEW = (base64.b64encode(os.urandom(32)).decode() for _ in range(2))


def keyed_store(folder: Path, *keys: str) -> Store:
    environment = StoreEnvironment(SystemClock(), folder, master_keys=tuple(map(Secret, keys)))
    return SQLITE.open("sqlite:///gateway.db", environment)


async def opened(folder: Path, *keys: str) -> Store:
    store = keyed_store(folder, *keys)
    await within(store.open())
    return store


async def secret_of(store: Store, document_id: str = "n1") -> Any:
    document = await within(store.documents.get(NOTE, document_id, OWNER, unsealed=True))
    assert document is not None
    return document.body.get("secret")


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def is_found(folder: Path, word: str) -> bool:
    """Whether the word is in a file of the store."""
    return any(
        word.encode() in (folder / name).read_bytes() for name in names_in(folder) if name.startswith("gateway.")
    )


async def test_a_document_and_a_page_of_them_are_found_by_an_index(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await within(store.documents.put(NOTE, "n1", OWNER, {"title": "The Sea Wolf"}))
    await within(store.close())
    with sqlite_file(tmp_path) as connection:
        connection.execute("ANALYZE")
        asked: list[tuple[str, str, tuple[object, ...]]] = [
            (PAGE, "documents USING INDEX sqlite_autoindex_documents_1 (index_id=? AND id>?)", (1, "", 10)),
            (BY_ID, "documents USING INDEX documents_by_id (kind=? AND id=?)", ("note", "n1")),
        ]
        for query, search, values in asked:
            plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {query}", values)]
            assert f"SEARCH {search}" in plan
            assert not any(step.startswith("SCAN") or "B-TREE" in step for step in plan), plan


async def fill(store: Store) -> None:
    """Put documents until there is no room."""
    for number in range(2_000):
        try:
            await within(store.documents.put(NOTE, f"m{number}", OWNER, {"text": "x" * 20_000}))
        except StoreFullError:
            return
    raise AssertionError("there was room for everything")


# --- the key


async def test_without_a_key_one_is_made_when_it_is_needed_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await within(store.documents.put(NOTE, "n1", OWNER, {"title": "nothing is secret"}))
    file = tmp_path / "gateway.key"
    assert not file.exists()
    await within(store.documents.put(NOTE, "n1", OWNER, BODY))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(base64.b64decode(file.read_text("ascii"))) == 32
    await within(store.documents.put(NOTE, "n2", OWNER, BODY))
    await within(store.close())
    assert sorted(name for name in names_in(tmp_path) if "key" in name) == ["gateway.key"]
    store = await opened(tmp_path)
    assert await secret_of(store) == await secret_of(store, "n2") == "of the wolf"
    await within(store.close())


async def test_a_lost_key_is_named_and_not_replaced(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await within(store.documents.put(NOTE, "n1", OWNER, BODY))
    await within(store.close())
    (tmp_path / "gateway.key").rename(tmp_path / "moved.key")
    store = await opened(tmp_path)
    with pytest.raises(UnavailableError, match=r"'gateway\.key'"):
        await within(store.documents.put(NOTE, "n2", OWNER, BODY))
    with pytest.raises(UnavailableError) as raised:
        await secret_of(store)
    assert raised.value.code == "sealing_key_missing"
    document = await within(store.documents.get(NOTE, "n1", OWNER))
    assert document is not None
    assert document.body == {"title": "The Sea Wolf"}
    await within(store.close())
    assert not (tmp_path / "gateway.key").exists()
    (tmp_path / "moved.key").rename(tmp_path / "gateway.key")
    store = await opened(tmp_path)
    assert await secret_of(store) == "of the wolf"
    await within(store.close())


async def test_keys_are_changed_one_after_the_other(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await within(store.documents.put(NOTE, "n1", OWNER, BODY))
    await within(store.close())
    for keys, document_id in (((OLD,), "n2"), ((NEW, OLD), "n3")):
        store = await opened(tmp_path, *keys)
        assert await secret_of(store) == "of the wolf", "the file's key opens what it sealed"
        await within(store.documents.put(NOTE, document_id, OWNER, BODY))
        await within(store.close())
    store = await opened(tmp_path, NEW)
    assert await secret_of(store, "n3") == "of the wolf"
    with pytest.raises(UnavailableError):
        await secret_of(store, "n2")
    await within(store.documents.put(NOTE, "n2", OWNER, BODY))
    assert await secret_of(store, "n2") == "of the wolf"
    await within(store.close())


@pytest.mark.parametrize("content", ["", "garbage", base64.b64encode(b"short").decode()])
async def test_a_key_file_with_no_key_in_it_is_refused_at_the_start(tmp_path: Path, content: str) -> None:
    (tmp_path / "gateway.key").write_text(content, "ascii")
    with pytest.raises(ConfigurationError, match="has no key in it"):
        await opened(tmp_path)
    (tmp_path / "gateway.key").unlink()
    store = await opened(tmp_path)
    await within(store.close())


async def test_a_key_file_that_others_could_read_is_tightened(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "gateway.key"
    file.write_text(OLD, "ascii")
    file.chmod(0o644)
    with caplog.at_level(logging.WARNING):
        store = await opened(tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "gateway.key" in str(caplog.records[-1].__dict__["files"])
    await within(store.close())


# --- the file


async def test_neither_secrets_nor_deleted_words_are_in_any_file(tmp_path: Path) -> None:
    store = SqliteStore(Address(tmp_path / "gateway.db"), erasure_times=ErasureTimes(empty_seconds=0.01))
    await within(store.open())
    await begin(store)
    await within(store.documents.put(NOTE, "n1", OWNER, {"title": "octopus", "tags": {"a": "tentacle"}}))
    await within(store.documents.put(NOTE, "n2", OWNER, {"title": "jellyfish", "secret": "anemone"}, thread_id="t1"))
    words = ("octopus", "tentacle", "jellyfish")
    assert all(is_found(tmp_path, word) for word in words)
    assert await within(store.documents.delete(NOTE, "n1", OWNER))
    await until_outside(lambda: not any(is_found(tmp_path, word) for word in words[:2]))
    assert await within(store.delete_thread(OWNER, "t1"))
    await until_outside(lambda: not any(is_found(tmp_path, word) for word in words))
    assert not is_found(tmp_path, "anemone")
    await within(store.close())
    with sqlite_file(tmp_path) as connection:
        assert connection.execute("SELECT count(*) FROM documents").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM words").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM field_values").fetchone() == (0,)


async def test_documents_of_a_thread_whose_deletion_was_cut_off_are_gone_and_swept_later(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await begin(store)
    await within(store.documents.put(NOTE, "n1", OWNER, BODY, thread_id="t1"))
    await within(store.close())
    with sqlite_file(tmp_path) as connection:  # what the first transaction of a deletion leaves, before a kill -9
        assert delete_thread(connection, OWNER, "t1")
    store = await opened(tmp_path)
    assert await within(store.documents.get(NOTE, "n1", OWNER)) is None
    answer: Any = await within(store.documents.search(NOTE, {"aggs": {"n": {"value_count": {"field": "tags"}}}}, OWNER))
    assert answer["hits"]["total"]["value"] == 0
    await within(store.remove_logs(finished_before=0))
    await within(store.close())
    with sqlite_file(tmp_path) as connection:
        assert connection.execute("SELECT count(*) FROM documents").fetchone() == (0,)


async def test_a_full_store_takes_no_document_and_gives_those_that_it_has(tmp_path: Path) -> None:
    store = sqlite_store(tmp_path, "sqlite:///gateway.db?max_size_bytes=400000")
    await within(store.open())
    await within(store.documents.put(NOTE, "n1", OWNER, BODY))
    await fill(store)
    assert await secret_of(store) == "of the wolf"
    answer: Any = await within(store.documents.search(NOTE, {"query": {"match": {"title": "wolf"}}}, OWNER))
    assert answer["hits"]["total"]["value"] == 1
    assert await within(store.documents.delete(NOTE, "m0", OWNER))
    await within(store.documents.put(NOTE, "n1", OWNER, {"title": "there is room again"}))
    await within(store.close())


async def test_a_document_is_deleted_on_a_full_disk(tmp_path: Path) -> None:
    with mounted_disk(tmp_path, "24m") as disk:
        store = await opened(disk)
        await within(store.documents.put(NOTE, "n1", OWNER, BODY))
        take_all(disk)
        await fill(store)
        assert await within(store.documents.delete(NOTE, "n1", OWNER))
        await within(store.close())


def test_the_tables_have_what_entries_are_kept_in() -> None:
    with sqlite3.connect(":memory:") as entries, sqlite3.connect(":memory:") as store:
        for statement in TABLES:
            entries.execute(statement)
        make_documents(store)
        make_documents(store)
        assert definitions(entries).items() <= definitions(store).items()


def definitions(connection: sqlite3.Connection) -> dict[str, str]:
    rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    return {name: "".join(str(sql).split()) for name, sql in rows}


async def test_a_store_without_documents_has_no_tables_for_them(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await begin(store)
    assert await within(store.documents.get(NOTE, "n1", OWNER)) is None
    assert not await within(store.documents.delete(NOTE, "n1", OWNER))
    answer: Any = await within(store.documents.search(NOTE, {"query": {"match": {"title": "wolf"}}}, OWNER))
    assert answer["hits"]["hits"] == []
    assert await within(store.delete_thread(OWNER, "t1"))
    await within(store.close())
    with sqlite_file(tmp_path) as connection:
        assert connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'documents'").fetchone() is None
