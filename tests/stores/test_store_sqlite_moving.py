"""The embedded store's own promises of moving: what its file must be, and what a killed import leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.errors import ConfigurationError
from gateway.sqlite.schema import APPLICATION_ID, MIGRATIONS, migrate
from gateway.store import Thread
from gateway.store.export_file import read_export
from gateway.store.transfer import Moved, MovedStore, MovedThread
from tests.full_store import full_export, opened
from tests.half_an_import import killed_in_the_middle
from tests.stored_samples import OWNER, sqlite_file, sqlite_store, within


async def test_an_import_that_is_killed_leaves_an_empty_store(tmp_path: Path) -> None:
    path, directory = await full_export("sqlite", tmp_path), tmp_path / "new"
    await killed_in_the_middle("sqlite", "sqlite:///gateway.db", directory, path)
    async with opened("sqlite", directory) as store:
        pieces: list[Moved] = []
        await within(store.export(pieces.append))
        assert pieces == [MovedStore()]
        await within(store.import_(read_export(path)))
    with sqlite_file(directory) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


@pytest.mark.parametrize("version", [0, 1, len(MIGRATIONS) - 1])
async def test_a_file_of_an_earlier_version_is_exported_once_it_was_opened(tmp_path: Path, version: int) -> None:
    with sqlite_file(tmp_path) as connection:
        migrate(connection, MIGRATIONS[:version])
        if version:
            connection.execute(
                "INSERT INTO threads (owner, id, agent_id, created_at, updated_at, message_count, interrupts)"
                " VALUES (?, 'old', 'assistant', 1.0, 2.0, 0, x'')",
                (OWNER,),
            )
    store = sqlite_store(tmp_path)
    pieces: list[Moved] = []
    with pytest.raises(ConfigurationError, match=r"an older agui-gateway; serve it once .* 'agui-gateway vacuum'"):
        await within(store.export(pieces.append))
    assert pieces == []
    await within(store.open())
    await within(store.export(pieces.append))
    assert [piece.thread_id for piece in pieces if isinstance(piece, MovedThread)] == ["old"][: version and 1]
    if version:
        assert await within(store.load_thread(OWNER, "old")) == Thread(OWNER, "old", "assistant", 1.0, 2.0)
    await within(store.close())


async def test_a_file_that_is_no_store_is_refused_and_left_alone(tmp_path: Path) -> None:
    async def refusal() -> str:
        with pytest.raises(ConfigurationError) as refused:
            await within(sqlite_store(tmp_path).export(lambda piece: None))
        return refused.value.message

    file = tmp_path / "gateway.db"
    file.write_bytes(b"no database" * 1000)
    assert "is damaged or not a SQLite file" in await refusal()
    assert file.read_bytes() == b"no database" * 1000
    file.unlink()
    with sqlite_file(tmp_path) as connection:
        connection.execute("CREATE TABLE customers (id)")
    assert "another program" in await refusal()
    with sqlite_file(tmp_path) as connection:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 99")
    assert "newer agui-gateway (schema 99" in await refusal()
