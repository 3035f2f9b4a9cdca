"""What every lasting store promises of moving: the new store gives the same answers, or it is as empty as before."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import get_args

import orjson
import pytest
from hypothesis import HealthCheck, given, settings

from gateway.errors import ConfigurationError
from gateway.frozen import replace
from gateway.records import encode_message
from gateway.store import RunStatus, Store
from gateway.store.export_file import read_export
from gateway.store.transfer import (
    Moved,
    MovedDocument,
    MovedIndex,
    MovedLate,
    MovedMessage,
    MovedRun,
    MovedStore,
    MovedThread,
    MovedVersion,
)
from tests.collected_words import SAID, found
from tests.full_store import KEY, NOTE, OTHER_KEY, VISITOR, answers, exported, fill, full_export, opened
from tests.movable_clock import MovableClock
from tests.stored_samples import (
    DEADLINE_SECONDS,
    ENVIRONMENTS,
    LASTING_STORES,
    OWNER,
    ended,
    message,
    records,
    run,
    thread,
    within,
)
from tests.version_walks import STEPS, VersionWalk

each_store = pytest.mark.parametrize("kind", LASTING_STORES)


@pytest.fixture(scope="module")
def full_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("full")


@each_store
async def test_the_new_store_gives_the_same_answers_to_everything(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path / "one") as store:
        await fill(store)
        first = await exported(store, tmp_path / "first")
        assert {type(piece) for piece in read_export(first)} == {*get_args(Moved)} - {MovedLate}
        before = await answers(store)
    async with opened(kind, tmp_path / "two") as store:
        await within(store.import_(read_export(first)))
        after = await answers(store)
        assert {name for name in before if before[name] != after[name]} == set()
        second = await exported(store, tmp_path / "second", now=2.0)
    heads = [path.read_bytes().partition(b"\n") for path in (first, second)]
    assert heads[0][2] == heads[1][2], "the same bytes but for the header"
    assert heads[0][0] != heads[1][0]


@each_store
async def test_the_new_store_goes_on_like_the_old_one(kind: str, tmp_path: Path, full_directory: Path) -> None:
    path = await full_export(kind, full_directory)
    (head,) = [piece for piece in read_export(path) if isinstance(piece, MovedStore)]
    versions = [piece.version for piece in read_export(path) if isinstance(piece, MovedDocument)]
    assert head.last_document_version >= max(versions)
    async with opened(kind, tmp_path / "new") as store:
        await within(store.import_(read_export(path)))
        assert await within(store.documents.put(NOTE, "new", OWNER, {"title": "new"})) > head.last_document_version
        edited = await within(store.load_thread(OWNER, "edited"))
        assert edited is not None
        more = replace(edited, messages=(*edited.messages, message(60)), updated_at=900.0)
        await within(store.begin_run(run("next", "edited", at=900.0), more, keep=len(edited.messages)))
        assert await within(store.load_thread(OWNER, "edited")) == more
        assert [
            each.run_id for each in (await within(store.list_runs(OWNER, "edited", limit=2, cursor=None))).items
        ] == [
            "next",
            "e5",
        ]
        await within(store.append_events("key-2", "live", 4, records(4, 5)))
        for owner, thread_id in ((VISITOR, "visited"), (OWNER, "edited")):
            assert await within(store.delete_thread(owner, thread_id))
        assert await within(store.stored_bytes("shop")) > 0, "a public document of a visitor"
        await within(store.documents.delete(NOTE, "public", VISITOR))
        assert await within(store.stored_bytes("shop")) == 0


@each_store
async def test_many_runs_of_some_threads_move_in_their_order(kind: str, tmp_path: Path) -> None:
    ids = [f"r{number}" for number in range(400)]
    owned = {"t0": ids[::3], "t1": [each for each in ids if each not in ids[::3]], "t2": []}
    pieces: list[Moved] = [MovedStore()]
    for thread_id in owned:
        pieces += [MovedThread(OWNER, thread_id, 1.0, 2.0), MovedVersion(1, 1.0)]
    pieces += [MovedRun(ended(each, next(name for name in owned if each in owned[name]))) for each in ids]
    async with opened(kind, tmp_path) as store:
        await within(store.import_(pieces))
        for thread_id, runs in owned.items():
            page = await within(store.list_runs(OWNER, thread_id, limit=1000, cursor=None))
            assert [each.run_id for each in page.items] == runs[::-1]
        again: list[Moved] = []
        await within(store.export(again.append))
        assert again == pieces


@each_store
async def test_late_documents_are_written_and_deleted_by_the_new_store(kind: str, tmp_path: Path) -> None:
    """A thread has three messages, of which its current version shows two; only the third has a document."""
    words = [MovedMessage(encode_message(message(number, f"word {number}"))) for number in range(3)]
    pieces: list[Moved] = [
        MovedStore(last_document_version=1),
        MovedThread(OWNER, "t1", 1.0, 2.0, collection="c1", version=2, last_version=2, versions=2),
        *words,
        MovedVersion(1, 1.0, messages=((0, 3),)),
        MovedVersion(2, 2.0, messages=((0, 2),)),
        MovedLate(0, 2),
        MovedLate(gone="msg_2"),
        MovedIndex("said", orjson.dumps(dict(SAID.properties)), OWNER),
        MovedDocument("t1/msg_2", OWNER, 1, b'{"text":"word 2","number":2,"thread":"t1"}', 1.0, 1.0, "t1"),
    ]
    async with opened(kind, tmp_path) as store:
        await within(store.import_(pieces))
        again: list[Moved] = []
        await within(store.export(again.append))
        assert sorted(map(repr, again[1:])) == sorted(map(repr, pieces[1:]))
        await within(store.remove_logs(finished_before=0.0))
        assert [each["text"] for each in await found(store, {"match_all": {}})] == ["word 0", "word 1"]


@pytest.mark.thorough
@pytest.mark.timeout(400)  # on a cluster it takes a quarter of that, without other load
@each_store
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS, more=STEPS)
async def test_versions_and_forks_move_as_they_are(
    kind: str, steps: list[tuple[str, int, int]], more: list[tuple[str, int, int]]
) -> None:
    with TemporaryDirectory() as folder:
        directory = Path(folder)
        async with opened(kind, directory / "one") as store:
            walk = VersionWalk(store, VISITOR, collection="c1")
            for step in steps:
                await walk.step(*step)
            first = await exported(store, directory / "first")
        async with opened(kind, directory / "two") as store:
            await within(store.import_(read_export(first)))
            second = await exported(store, directory / "second")
            assert [*read_export(second)][1:] == [*read_export(first)][1:]
            walk.store = store
            await walk.check()
            for step in more:
                await walk.step(*step)
            await walk.check()
            await within(store.remove_logs(finished_before=0.0))
            for name in [*walk.threads]:
                await within(store.delete_thread(VISITOR, name))
            await within(store.remove_logs(finished_before=0.0))
            assert await within(store.stored_bytes("shop")) == 0, "each message of each thread is counted"


# --- what is refused


async def is_empty(store: Store, directory: Path) -> bool:
    path = await exported(store, directory / "of an empty store")
    pieces = [*read_export(path)]
    path.unlink()
    return pieces == [MovedStore()]


@each_store
async def test_an_import_that_fails_on_its_way_leaves_the_store_empty(
    kind: str, tmp_path: Path, full_directory: Path
) -> None:
    path = await full_export(kind, full_directory)
    count = sum(1 for _ in read_export(path))

    def failing(after: int) -> Iterator[Moved]:
        for number, piece in enumerate(read_export(path)):
            if number == after:
                raise ConfigurationError("cut off")
            yield piece

    async with opened(kind, tmp_path / "new") as store:
        for after in [1, count - 1, *Random(1).sample(range(2, count), 10)]:
            with pytest.raises(ConfigurationError, match="cut off"):
                await within(store.import_(failing(after)))
            assert await is_empty(store, tmp_path)
        await within(store.import_(read_export(path)))


KEPT: dict[str, Callable[[Store], Awaitable[object]]] = {
    "a thread": lambda store: store.create_thread(thread(), {}),
    "a run that waits": lambda store: store.queue_run(replace(run(status=RunStatus.QUEUED), started_at=None)),
    "a secret": lambda store: store.keep_secret("visitor tokens", b"fresh"),
    "a document": lambda store: store.documents.put(NOTE, "n1", OWNER, {"title": "a note"}),
}


@each_store
@pytest.mark.parametrize("kept", KEPT)
async def test_only_an_empty_store_takes_in_an_export(
    kind: str, kept: str, tmp_path: Path, full_directory: Path
) -> None:
    path = await full_export(kind, full_directory)
    async with opened(kind, tmp_path / "new") as store:
        await within(KEPT[kept](store))
        before = [*read_export(await exported(store, tmp_path / "before"))]
        with pytest.raises(ConfigurationError, match=r"the store is not empty: it has .* Name another store"):
            await within(store.import_(read_export(path)))
        assert [*read_export(await exported(store, tmp_path / "after"))] == before


@each_store
async def test_missing_keys_are_named(kind: str, tmp_path: Path, full_directory: Path) -> None:
    path = await full_export(kind, full_directory)
    head = next(read_export(path))
    assert isinstance(head, MovedStore)
    (key_id,) = head.key_ids
    async with opened(kind, tmp_path / "new", OTHER_KEY) as store:
        with pytest.raises(ConfigurationError, match=f"not have: {key_id}; add these keys to 'server.master_keys'"):
            await within(store.import_(read_export(path)))
        assert await is_empty(store, tmp_path)
    async with opened(kind, tmp_path / "new", OTHER_KEY, KEY) as store:
        await within(store.import_(read_export(path)))
        document = await within(store.documents.get(NOTE, "n1", OWNER, unsealed=True))
        assert document is not None
        assert document.body["credential"] == {"api_key": "key-of-the-wolf"}


async def test_a_store_that_ends_with_its_process_cannot_be_moved(tmp_path: Path) -> None:
    async with opened("sqlite-memory", tmp_path) as store:
        for work in (store.export(lambda piece: None), store.import_([])):
            with pytest.raises(ConfigurationError, match="ends with its process"):
                await within(work)


@each_store
async def test_a_store_is_exported_while_it_is_used_and_while_it_is_not_open(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as used:
        await within(used.create_thread(thread(), {}))
        other = ENVIRONMENTS[kind](tmp_path, MovableClock())
        threads: list[str] = []

        def take(piece: Moved) -> None:
            """Others write meanwhile: what they write is not exported."""
            if isinstance(piece, MovedStore):
                asyncio.run_coroutine_threadsafe(used.create_thread(thread("t2"), {}), loop).result(DEADLINE_SECONDS)
            if isinstance(piece, MovedThread):
                threads.append(piece.thread_id)

        loop = asyncio.get_running_loop()
        await within(other.export(take))
        assert threads == ["t1"]
    pieces: list[Moved] = []
    await within(other.export(pieces.append))
    assert [piece.thread_id for piece in pieces if isinstance(piece, MovedThread)] == ["t1", "t2"]


@each_store
async def test_a_store_that_is_not_there_is_not_made_by_its_export(kind: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no store"):
        await within(ENVIRONMENTS[kind](tmp_path / "none", MovableClock()).export(lambda piece: None))
    assert os.listdir(tmp_path) == []
