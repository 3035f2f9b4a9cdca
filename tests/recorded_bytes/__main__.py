"""`python -m tests.recorded_bytes write FOLDER | record`: the bytes of every recorded run, or their digests.

`write` makes a file of each run and column below the folder. To see what a change does, write them before and after it
and compare the folders (`diff -r`). `record` replaces the digests that the test compares with: only where other bytes
are wanted. Both take the runs whose name contains `--only TEXT`.
"""

from __future__ import annotations

import argparse
import asyncio
import re
from pathlib import Path

from tests.recorded_bytes.digests import digests_of, read_digests, write_digests
from tests.recorded_bytes.renderings import Columns, columns_of
from tests.recorded_bytes.runs import RecordedRun, recorded_runs


def main() -> None:
    """Write the bytes, or record their digests."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.recorded_bytes", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="runs whose name contains it")
    commands = parser.add_subparsers(required=True, dest="command")
    commands.add_parser("write").add_argument("folder", type=Path)
    commands.add_parser("record")
    arguments = parser.parse_args()
    runs = {name: run for name, run in recorded_runs().items() if arguments.only in name}
    if arguments.command == "write":
        for name, run in runs.items():
            _write(arguments.folder, name, _columns(run))
    else:
        found = {name: digests_of(_columns(run)) for name, run in runs.items()}
        kept = {name: row for name, row in read_digests().items() if name not in runs} if arguments.only else {}
        write_digests({**kept, **found})


def _columns(run: RecordedRun) -> Columns:
    return asyncio.run(columns_of(run))


def _write(folder: Path, name: str, columns: Columns) -> None:
    place = folder / re.sub(r"[^\w./-]", "_", name)
    place.mkdir(parents=True, exist_ok=True)
    for column, content in columns.items():
        (place / column).write_bytes(content)


if __name__ == "__main__":
    main()
