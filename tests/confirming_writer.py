"""A process that writes to a store and prints what was confirmed: what a test kills to see whether it is there.

    python confirming_writer.py FOLDER ROUND [documents | threads | collected]

Prints a line `run number` for each event once the store says it is kept, or `document version` for each document, or
`thread number` for each message that is added without a run, and goes on until it is killed. Threads that are
`collected` are in a collection, so that each message has a document, and every third one replaces the one before.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from gateway.clock import SystemClock
from gateway.documents.document import DocumentKind
from gateway.frozen import replace
from gateway.store import Store, ThreadChange
from tests.collected_words import CollectedWords
from tests.stored_samples import ENVIRONMENTS, OWNER, begin, message, records, sqlite_store, thread

RUNS = 5
DOCUMENTS = 20
NOTE = DocumentKind("note", {"title": {"type": "text"}}, sealed=("/secret",))


async def append_for_ever(folder: Path, round_number: str) -> None:
    store = sqlite_store(folder)
    await store.open()
    names = [f"round-{round_number}-run-{number}" for number in range(RUNS)]
    for name in names:
        await begin(store, name, f"thread of {name}")
    kept = dict.fromkeys(names, 0)
    while True:
        waiting = []
        for place, name in enumerate(names):
            first, size = kept[name] + 1, 1 + place
            appended = store.append_events(OWNER, name, first, records(first, first + size - 1))
            waiting.append((name, first + size - 1, appended))
        for name, last, appended in waiting:
            await appended
            kept[name] = last
            os.write(1, f"{name} {last}\n".encode())


async def put_for_ever(folder: Path, round_number: str) -> None:
    store = sqlite_store(folder)
    await store.open()
    number = 0
    while True:
        number += 1
        name = f"round-{round_number}-document-{number % DOCUMENTS}"
        version = await store.documents.put(NOTE, name, OWNER, {"title": f"number {number}", "secret": f"of {number}"})
        os.write(1, f"{name} {version}\n".encode())


async def add_for_ever(folder: Path, round_number: str) -> None:
    store = sqlite_store(folder)
    await store.open()
    held = [thread(f"round-{round_number}-thread-{number}", count=0) for number in range(RUNS)]
    for each in held:
        await store.create_thread(each, {})
    number = 0
    while True:
        held = [replace(each, messages=(*each.messages, message(number))) for each in held]
        number += 1
        for each in held:
            said = asyncio.ensure_future(store.update_thread(OWNER, each.thread_id, ThreadChange(f"number {number}")))
            await store.write_thread(each, keep=number - 1)
            await said
            os.write(1, f"{each.thread_id} {number}\n".encode())


async def collect_for_ever(folder: Path, round_number: str) -> None:
    store = collecting_store(folder)
    await store.open()
    held = [replace(thread(f"round-{round_number}-thread-{number}", count=0), collection="c") for number in range(RUNS)]
    for each in held:
        await store.create_thread(each, {})
    number = 0
    while True:
        number += 1
        for place, each in enumerate(held):
            kept = each.messages[:-1] if number % 3 == 0 else each.messages
            held[place] = replace(each, messages=(*kept, message(number, f"number {number}")))
            await store.write_thread(held[place], keep=len(kept))
            os.write(1, f"{each.thread_id} {number}\n".encode())


def collecting_store(folder: Path) -> Store:
    return ENVIRONMENTS["sqlite"](folder, SystemClock(), thread_documents=CollectedWords())


WRITERS = {"documents": put_for_ever, "threads": add_for_ever, "collected": collect_for_ever}

if __name__ == "__main__":
    write_for_ever = WRITERS[sys.argv[3]] if sys.argv[3:] else append_for_ever
    asyncio.run(write_for_ever(Path(sys.argv[1]), sys.argv[2]))
