"""A program that imports a file into a store, and says so and waits in the middle of it.

Its arguments: the kind of store, its URL, its folder, the file.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from gateway.clock import SystemClock
from gateway.records import encode_message
from gateway.store import StoreEnvironment
from gateway.store.export_file import read_export
from gateway.store.transfer import Moved, MovedMessage, MovedThread, MovedVersion
from tests.documentation import ROOT
from tests.full_store import KEY
from tests.stored_samples import OWNER, STORE_TYPES, message, within

_MANY = 5_000  # a store must have begun to write


def with_a_long_thread(path: Path) -> list[Moved]:
    """The pieces of a file, and before its threads one more, which is longer than all others together."""
    pieces = [*read_export(path)]
    place = next(number for number, piece in enumerate(pieces) if isinstance(piece, MovedThread))
    long: list[Moved] = [MovedThread(OWNER, "long", 1.0, 2.0)]
    long += [MovedMessage(encode_message(message(number))) for number in range(_MANY)]
    return [*pieces[:place], *long, MovedVersion(1, 1.0, messages=((0, _MANY),)), *pieces[place:]]


async def killed_in_the_middle(kind: str, url: str, directory: Path, path: Path) -> None:
    """Kill the program in the middle of the import."""
    os.makedirs(directory, exist_ok=True)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__, kind, url, str(directory), str(path), cwd=ROOT,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert await within(process.stdout.readline()) == b"half\n"
    finally:
        process.kill()
        await within(process.wait())


def _half(pieces: list[Moved]) -> Iterator[Moved]:
    yield from pieces[: len(pieces) - 10]
    print("half", flush=True)
    sys.stdin.read()


async def _main(kind: str, url: str, directory: str, path: str) -> None:
    store = STORE_TYPES[kind].open(url, StoreEnvironment(SystemClock(), Path(directory), (KEY,)))
    await store.open()
    await store.import_(_half(with_a_long_thread(Path(path))))


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
