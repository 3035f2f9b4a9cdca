"""File systems of their own, to be filled to the last byte."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def mounted_disk(folder: Path, size: str) -> Iterator[Path]:
    """A file system of so much (`64m`) in memory; where none may be mounted, the test is left out."""
    disk = folder / "disk"
    disk.mkdir()
    options = f"size={size}"
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", disk], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("no right to mount a small disk here; max_size_bytes is tested instead")
    try:
        yield disk
    finally:
        subprocess.run(["umount", disk], check=True, capture_output=True)


def take_all(disk: Path, *, but: int = 0) -> None:
    """Another program takes the rest of the disk, to its last byte where nothing is left over."""
    room = shutil.disk_usage(disk).free - but
    if room > 0:
        with (disk / "other").open("ab") as other:
            os.posix_fallocate(other.fileno(), other.tell(), room)
