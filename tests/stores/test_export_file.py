"""The file of an export: whoever reads it gets all that was written, or learns that the file is wrong."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import stat
from collections import Counter
from pathlib import Path
from random import Random
from typing import cast, get_args

import pytest

from gateway import __version__
from gateway.errors import ConfigurationError
from gateway.store import RunRecord
from gateway.store.export_file import read_export, written_export
from gateway.store.transfer import Moved, MovedMessage, MovedSecret, MovedStore, MovedThread
from tests.full_store import full_export

PIECES: list[Moved] = [
    MovedStore(("key",), 7),
    MovedSecret("any bytes", bytes(range(256))),
    MovedThread("owner", "half \ud800 a pair", 1.0, 2.5, metadata=b'{"n":1e400}'),
    MovedMessage(b'{"words":"a line\\nof \xc3\xa4"}', 3.0),
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of a store with everything."""
    return asyncio.run(full_export("sqlite", tmp_path_factory.mktemp("whole"))).read_bytes()


def write(path: Path, pieces: list[Moved] = PIECES) -> Path:
    with written_export(path, 1.5) as writer:
        for piece in pieces:
            writer.take(piece)
    return path


def refusal(path: Path, content: bytes) -> str:
    """Why a file with this content is refused."""
    path.write_bytes(content)
    with pytest.raises(ConfigurationError) as refused:
        list(read_export(path))
    return refused.value.message


def test_what_was_written_is_read_and_counted(tmp_path: Path) -> None:
    counts = Counter[str]()
    path = write(tmp_path / "out")
    assert list(read_export(path, counts)) == PIECES
    assert counts == {"secret": 1, "thread": 1, "message": 1}
    header = json.loads(path.read_bytes().partition(b"\n")[0])
    assert (header["format"], header["version"]) == ("agui-gateway export", 1)
    assert (header["gateway"], header["at"]) == (__version__, 1.5)


def test_the_file_is_its_owners_alone_and_replaces_no_other(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        path = write(tmp_path / "out")
    finally:
        os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_bytes()
    with pytest.raises(ConfigurationError, match="exists already; name another file"):
        write(path)
    assert path.read_bytes() == before


def test_a_file_that_does_not_become_whole_is_removed(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        write(tmp_path / "out", [MovedStore(), cast(Moved, "no piece")])
    assert not (tmp_path / "out").exists()
    with pytest.raises(ConfigurationError, match="cannot be written: No such file or directory"):
        write(tmp_path / "none" / "out")
    with pytest.raises(ConfigurationError, match="cannot be read: No such file or directory"):
        list(read_export(tmp_path / "out"))


def test_a_file_that_is_cut_off_anywhere_is_refused(whole: bytes, tmp_path: Path) -> None:
    places = {0, 1, len(whole) - 1, *(at + 1 for at, byte in enumerate(whole) if byte == ord("\n"))} - {len(whole)}
    for place in {*places, *Random(2).sample(range(len(whole)), 200)}:
        assert "cut off" in (said := refusal(tmp_path / "cut", whole[:place])) or "is not a file that" in said, place


def test_a_file_with_a_changed_byte_is_refused(whole: bytes, tmp_path: Path) -> None:
    header = range(whole.index(b"\n") + 1)
    end = range(whole.rindex(b"\n", 0, -1), len(whole))
    for place in {*header, *end, *Random(3).sample(range(len(whole)), 300)}:
        changed = bytearray(whole)
        changed[place] ^= 1
        refusal(tmp_path / "changed", bytes(changed))


def test_a_file_with_more_or_fewer_lines_is_refused(whole: bytes, tmp_path: Path) -> None:
    lines = whole.splitlines(keepends=True)
    path = tmp_path / "lines"
    refusal(path, b"".join([*lines, lines[-1]]))
    refusal(path, b"".join([*lines, b"\n"]))
    refusal(path, b"".join([*lines[:5], lines[4], *lines[5:]]))
    refusal(path, b"".join([*lines[:5], *lines[6:]]))
    refusal(path, b"".join([*lines[:5], lines[6], lines[5], *lines[7:]]))


def test_a_newer_format_and_another_kind_of_file_are_named(tmp_path: Path) -> None:
    newer = write(tmp_path / "out").read_bytes().replace(b'"version":1,"gateway":"', b'"version":2,"gateway":"9')
    said = refusal(tmp_path / "newer", newer)
    assert f"has the format 2, and this version reads the format 1; import it with agui-gateway 9{__version__}" in said
    for other in (b"", b"\n", b"SQLite format 3\x00", b"{}\n", b"[]\n", b'{"format":"another"}\n', b"\xff" * 2_000_000):
        assert "is not a file that 'agui-gateway export' wrote" in refusal(tmp_path / "other", other)


# A change here needs a new number of the format, by which older gateways refuse the file with a reason.
FORMAT_1 = """
MovedSecret: name content
DueDeletion: deletion_id agent_id holder names since tries
MovedThread: owner thread_id created_at updated_at title metadata listed hidden expires_at paused collection version
 last_version versions
MovedMessage: record at
MovedVersion: number created_at agent_id parent from_message shortened last_run_id interrupts state model_states hidden
 messages
MovedLate: first stop gone
MovedApproval: approval_id owner thread_id expires_at waits
MovedRun: run has_log waiting_messages
MovedEvents: first last lines at
MovedIndex: kind properties owner public
MovedDocument: document_id owner version source created_at updated_at thread_id sealed
RunRecord: owner run_id thread_id agent_id status created_at started_at finished_at error_code error_message usage
 input_digest reused_id origin request thread_version thread_length last_message_id terminal has_custom
"""


def test_a_new_field_needs_a_new_number_of_the_format() -> None:
    classes = [cls for cls in (*get_args(Moved), RunRecord) if cls is not MovedStore]  # which is the header
    fields = [f"{cls.__name__}: {' '.join(field.name for field in dataclasses.fields(cls))}" for cls in classes]
    assert fields == FORMAT_1.strip().replace("\n ", " ").splitlines()
