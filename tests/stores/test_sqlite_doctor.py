"""What the examination of the embedded store finds, and that it changes nothing."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.agent import Secret
from gateway.clock import SystemClock
from gateway.documents.document import DocumentKind
from gateway.sqlite import schema
from gateway.sqlite.address import parse_address
from gateway.sqlite.doctor import examine
from gateway.sqlite.reserve import MOST_BYTES
from gateway.sqlite.schema import MIGRATIONS
from gateway.store import Finding, Level, StoreEnvironment
from gateway.stores.sqlite import STORE
from tests.full_disks import mounted_disk, take_all
from tests.stored_samples import begin, sqlite_file, sqlite_store, within

URL = "sqlite:///gateway.db"
KEPT_SECRETS = DocumentKind("note", {}, sealed=("/key",))
MASTER_KEY = Secret("MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=")


async def found(folder: Path, url: str = URL, master_keys: tuple[Secret, ...] = (), **more: Any) -> dict[str, Finding]:
    """The findings by their subjects, of which no two are the same. The folder is as it was."""
    before = files_in(folder)
    environment = StoreEnvironment(SystemClock(), folder, master_keys)

    async def all_findings() -> list[Finding]:
        return [finding async for finding in examine(parse_address(url, folder), environment, **more)]

    findings = await within(all_findings())
    assert files_in(folder) == before
    assert len({finding.subject for finding in findings}) == len(findings)
    assert [finding for finding in findings if finding.level is not Level.OK and not finding.remedy] == []
    return {finding.subject: finding for finding in findings}


def files_in(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Names, permissions and content, without the index of the write-ahead log, where readers mark their place."""
    return {
        path.name: (path.stat().st_mode, b"" if path.name.endswith("-shm") or path.is_dir() else path.read_bytes())
        for path in (folder.iterdir() if folder.is_dir() else ())
    }


def not_ok(findings: dict[str, Finding]) -> dict[str, Level]:
    return {subject: finding.level for subject, finding in findings.items() if finding.level is not Level.OK}


async def make_store(folder: Path, url: str = URL) -> None:
    store = sqlite_store(folder, url)
    await within(store.open())
    await within(store.close())


async def test_a_store_that_is_not_there_yet_is_well(tmp_path: Path) -> None:
    findings = await found(tmp_path)

    assert not_ok(findings) == {}
    assert findings["store file"].text.endswith("is made at the first start")
    assert files_in(tmp_path) == {}


async def test_a_closed_store_is_well_and_no_file_comes_beside_it(tmp_path: Path) -> None:
    await make_store(tmp_path)
    findings = await found(tmp_path)

    assert not_ok(findings) == {}
    assert {"folder", "store file", "permissions", "disk", "format", "integrity", "keys"} == findings.keys()


async def test_a_store_at_work_is_well_and_can_write_meanwhile(tmp_path: Path) -> None:
    store = sqlite_store(tmp_path)
    await within(store.open())
    try:
        await begin(store, "r1")
        findings = await found(tmp_path)
        await begin(store, "r2", "t2")
    finally:
        await within(store.close())

    assert not_ok(findings) == {}
    assert "has the store open" in findings["in use"].text
    assert findings["integrity"].text == "the file is whole"


async def test_a_store_in_memory_is_said_to_end_with_its_process(tmp_path: Path) -> None:
    assert not_ok(await found(tmp_path, "sqlite://:memory:")) == {"store file": Level.WARNING}


# --- the folder and the file


async def test_a_folder_that_does_not_exist_is_a_problem(tmp_path: Path) -> None:
    findings = await found(tmp_path, "sqlite:///data/gateway.db")

    assert not_ok(findings) == {"folder": Level.PROBLEM}
    assert "does not exist" in findings["folder"].text


def nothing_writable(path: object, mode: int, **more: Any) -> bool:
    """What the system says where the user has no right: the tests may run as one who has every right."""
    return not mode & os.W_OK


async def test_a_folder_that_may_not_be_written_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", nothing_writable)
    findings = await found(tmp_path)

    assert not_ok(findings) == {"folder": Level.PROBLEM}
    assert "may not be written" in findings["folder"].text


async def test_a_file_that_may_not_be_written_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await make_store(tmp_path)
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).is_dir() or nothing_writable(path, mode))

    assert not_ok(await found(tmp_path)) == {"store file": Level.PROBLEM}


async def test_a_folder_in_the_place_of_the_file_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "gateway.db").mkdir(0o700)

    assert not_ok(await found(tmp_path)) == {"store file": Level.PROBLEM}


async def test_a_file_of_another_user_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await make_store(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)

    assert not_ok(await found(tmp_path)) == {"store file": Level.WARNING}


@pytest.mark.parametrize("name", ["gateway.db", "gateway.key", "gateway.db.reserve"])
async def test_a_file_that_others_may_read_is_a_warning_and_stays_as_it_is(tmp_path: Path, name: str) -> None:
    await make_store(tmp_path)
    (tmp_path / "gateway.key").write_text(MASTER_KEY.reveal())
    (tmp_path / "gateway.key").chmod(0o600)
    (tmp_path / name).chmod(0o644)
    findings = await found(tmp_path)

    assert not_ok(findings) == {"permissions": Level.WARNING}
    assert f"chmod 600 {name} " in findings["permissions"].remedy


# --- what is left of a killed process


def killed_writer(folder: Path, mode: str) -> None:
    """A process that is killed while it writes to the store's file."""
    program = (
        f"import os, sqlite3; c = sqlite3.connect({str(folder / 'gateway.db')!r}, isolation_level=None);"
        f"c.execute('PRAGMA journal_mode = {mode}'); c.execute('PRAGMA cache_size = 1'); c.execute('BEGIN');"
        "c.execute('INSERT INTO write_probe VALUES (zeroblob(90000))');"
        "c.execute('COMMIT') if c.execute('PRAGMA journal_mode').fetchone()[0] == 'wal' else None;"
        f"os.kill(os.getpid(), {int(signal.SIGKILL)})"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=20, check=False).returncode == -signal.SIGKILL


async def test_the_journal_of_a_killed_gateway_is_told_and_read(tmp_path: Path) -> None:
    await make_store(tmp_path)
    killed_writer(tmp_path, "WAL")
    findings = await found(tmp_path)

    assert not_ok(findings) == {}
    assert "the next start takes it in" in findings["journal"].text
    assert findings["integrity"].text == "the file is whole"


async def test_a_journal_without_its_index_is_left_to_the_next_start(tmp_path: Path) -> None:
    await make_store(tmp_path)
    killed_writer(tmp_path, "WAL")
    (tmp_path / "gateway.db-shm").unlink()
    findings = await found(tmp_path)

    assert not_ok(findings) == {}
    assert "has to be taken in first" in findings["content"].text


async def test_the_rollback_journal_of_a_killed_program_is_told(tmp_path: Path) -> None:
    await make_store(tmp_path)
    killed_writer(tmp_path, "DELETE")
    findings = await found(tmp_path)

    assert "the next start undoes" in findings["journal"].text


async def test_a_journal_whose_store_is_gone_is_a_problem(tmp_path: Path) -> None:
    await make_store(tmp_path)
    killed_writer(tmp_path, "WAL")
    (tmp_path / "gateway.db").unlink()

    assert not_ok(await found(tmp_path)) == {"journal": Level.PROBLEM}


async def test_a_journal_that_has_grown_is_a_warning(tmp_path: Path) -> None:
    await make_store(tmp_path)
    with (tmp_path / "gateway.db-wal").open("wb") as log:
        log.truncate(65 * 1024 * 1024)
    (tmp_path / "gateway.db-wal").chmod(0o600)

    assert not_ok(await found(tmp_path)) == {"journal": Level.WARNING}


# --- room


async def test_a_full_disk_is_a_problem_and_a_small_one_a_warning(tmp_path: Path) -> None:
    with mounted_disk(tmp_path, "16m") as disk:
        assert not_ok(await found(disk)) == {"disk": Level.WARNING}
        take_all(disk)
        assert not_ok(await found(disk)) == {"disk": Level.PROBLEM}


async def test_a_small_disk_whose_reserve_is_taken_is_well(tmp_path: Path) -> None:
    with mounted_disk(tmp_path, "100m") as disk:
        await make_store(disk)
        take_all(disk, but=MOST_BYTES)
        assert not_ok(await found(disk)) == {}


async def test_a_size_that_the_disk_cannot_give_is_a_warning(tmp_path: Path) -> None:
    findings = await found(tmp_path, f"{URL}?max_size_bytes={2**62}")

    assert not_ok(findings) == {"disk": Level.WARNING}


@pytest.mark.parametrize(("spare_pages", "level"), [(100, None), (2, Level.WARNING), (0, Level.PROBLEM)])
async def test_a_store_that_nears_its_size_is_told(tmp_path: Path, spare_pages: int, level: Level | None) -> None:
    await make_store(tmp_path)
    with sqlite_file(tmp_path) as file:
        pages, unused, page_size = (
            file.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
    findings = await found(tmp_path, f"{URL}?max_size_bytes={(pages - unused + spare_pages) * page_size}")

    assert not_ok(findings) == ({} if level is None else {"size": level})
    assert "of max_size_bytes" in findings["size"].text


# --- what is in the file


@contextlib.contextmanager
def store_with(folder: Path) -> Iterator[sqlite3.Connection]:
    with sqlite_file(folder) as file:
        yield file
    (folder / "gateway.db").chmod(0o600)


async def test_an_older_file_is_a_warning_since_there_is_no_way_back(tmp_path: Path) -> None:
    with store_with(tmp_path) as file:
        schema.migrate(file, MIGRATIONS[:-1])
    findings = await found(tmp_path)

    assert not_ok(findings) == {"format": Level.WARNING}
    assert f"from {len(MIGRATIONS) - 1} to {len(MIGRATIONS)}" in findings["format"].text


async def test_a_newer_file_is_a_problem(tmp_path: Path) -> None:
    with store_with(tmp_path) as file:
        schema.migrate(file, [*MIGRATIONS, ("CREATE TABLE later (x)",)])
    findings = await found(tmp_path)

    assert not_ok(findings) == {"format": Level.PROBLEM}
    assert "a newer agui-gateway" in findings["format"].text


async def test_a_file_of_another_program_is_a_problem(tmp_path: Path) -> None:
    with store_with(tmp_path) as file:
        file.execute("CREATE TABLE theirs (x)")

    assert not_ok(await found(tmp_path)) == {"format": Level.PROBLEM}


async def test_an_empty_file_gets_its_tables_at_the_first_start(tmp_path: Path) -> None:
    (tmp_path / "gateway.db").touch(0o600)
    findings = await found(tmp_path)

    assert not_ok(findings) == {}
    assert "at the first start" in findings["format"].text


async def test_a_file_that_is_no_database_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "gateway.db").write_bytes(b"hello" * 1000)
    (tmp_path / "gateway.db").chmod(0o600)

    assert not_ok(await found(tmp_path)) == {"integrity": Level.PROBLEM}


async def test_a_damaged_page_is_a_problem(tmp_path: Path) -> None:
    await make_store(tmp_path)
    with sqlite_file(tmp_path) as file:
        page, page_size = (
            file.execute("SELECT rootpage FROM sqlite_master WHERE name = 'threads_by_update'").fetchone()[0],
            file.execute("PRAGMA page_size").fetchone()[0],
        )
        file.execute("PRAGMA journal_mode = DELETE")
    with (tmp_path / "gateway.db").open("r+b") as damaged:
        damaged.seek((page - 1) * page_size)
        damaged.write(b"\xff" * page_size)
    findings = await found(tmp_path)

    assert not_ok(findings) == {"integrity": Level.PROBLEM}
    assert "\n" not in findings["integrity"].text


async def test_a_file_that_cannot_be_checked_in_time_is_a_warning(tmp_path: Path) -> None:
    await make_store(tmp_path)
    with store_with(tmp_path) as file:
        file.execute("PRAGMA journal_mode = WAL")
        file.execute("CREATE TABLE many (x)")
        file.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000)"
            " INSERT INTO many SELECT i FROM n"
        )

    assert not_ok(await found(tmp_path, check_seconds=0.0)) == {"integrity": Level.WARNING}


# --- keys


async def seal_a_note(folder: Path, master_keys: tuple[Secret, ...] = ()) -> None:
    store = STORE.open(URL, StoreEnvironment(SystemClock(), folder, master_keys))
    await within(store.open())
    await within(store.documents.put(KEPT_SECRETS, "n1", "key-1", {"key": "secret"}))
    await within(store.close())


@pytest.mark.parametrize("master_keys", [(), (MASTER_KEY,)])
async def test_sealed_documents_whose_key_is_there_are_well(tmp_path: Path, master_keys: tuple[Secret, ...]) -> None:
    await seal_a_note(tmp_path, master_keys)
    findings = await found(tmp_path, master_keys=master_keys)

    assert not_ok(findings) == {}
    assert findings["keys"].text == "the keys of all sealed documents are there"


async def test_sealed_documents_without_their_key_are_a_problem(tmp_path: Path) -> None:
    await seal_a_note(tmp_path)
    (tmp_path / "gateway.key").unlink()
    findings = await found(tmp_path)

    assert not_ok(findings) == {"keys": Level.PROBLEM}
    assert "server.master_keys" in findings["keys"].remedy


async def test_a_key_file_without_a_key_is_a_problem(tmp_path: Path) -> None:
    await make_store(tmp_path)
    (tmp_path / "gateway.key").write_text("no key")
    (tmp_path / "gateway.key").chmod(0o600)

    assert not_ok(await found(tmp_path)) == {"keys": Level.PROBLEM}
