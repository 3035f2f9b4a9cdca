"""The recorded digests: a line a run, with a digest for each column.

Below: renderings. Above: the test and the command.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Final

from tests.recorded_bytes.renderings import Columns

FILE: Final = Path(__file__).with_name("digests.txt")
_BYTES: Final = 5

Digests = Mapping[str, str]
"""By column."""


def digests_of(columns: Columns) -> Digests:
    """The digest of each column's bytes."""
    return {name: blake2b(content, digest_size=_BYTES).hexdigest() for name, content in columns.items()}


def read_digests() -> Mapping[str, Digests]:
    """Those that are recorded, by the run's name."""
    rows: dict[str, Digests] = {}
    for line in FILE.read_text().splitlines():
        name, _, cells = line.rpartition(" | ")
        rows[name] = dict(cell.split("=", 1) for cell in cells.split())
    return rows


def write_digests(rows: Mapping[str, Digests]) -> None:
    """Record these."""
    lines = [f"{name} | {' '.join(f'{column}={cell}' for column, cell in row.items())}" for name, row in rows.items()]
    FILE.write_text("".join(f"{line}\n" for line in lines))
