"""What every store promises of threads in a collection: each message that a thread shows is found, and no other is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings

from gateway.errors import StoreError
from gateway.frozen import replace
from gateway.history.versions import Rewrite
from gateway.messages import JsonObject, Message
from gateway.owners import visitor_owner
from gateway.records import encode_message
from gateway.sqlite import tables
from gateway.sqlite.store import SqliteStore
from gateway.store import Store, Thread, ThreadChange
from gateway.store.transfer import Moved, MovedLate
from tests.collected_words import SAID, TALK, CollectedWords, document_id, documented, found, talk
from tests.movable_clock import MovableClock
from tests.stored_samples import ENVIRONMENTS, OWNER, ended, message, records, run, sqlite_file, thread, within
from tests.version_walks import STEPS, VersionWalk
from tests.waiting import until

VISITOR = visitor_owner("shop", "anna")


def opened(kind: str, folder: Path, clock: MovableClock | None = None) -> Store:
    return ENVIRONMENTS[kind](folder, clock or MovableClock(), thread_documents=CollectedWords())


@pytest_asyncio.fixture(params=ENVIRONMENTS, ids=str)
async def collecting(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Store]:
    store = opened(request.param, tmp_path)
    await within(store.open())
    yield store
    await within(store.close())


def said(*texts: str, thread_id: str = "t1", collection: str = "c1", **changes: Any) -> Thread:
    """A thread in a collection with these messages."""
    spoken = tuple(message(number, text) for number, text in enumerate(texts))
    return replace(thread(thread_id), messages=spoken, collection=collection, **changes)


def numbered(*texts: str) -> Sequence[tuple[object, object]]:
    return list(enumerate(texts))


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ENVIRONMENTS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS)
async def test_what_is_found_is_what_the_current_versions_show(kind: str, steps: list[tuple[str, int, int]]) -> None:
    """Edits, regenerates, shorter histories, forks, switches and deletions leave no message out, and none behind."""
    with TemporaryDirectory() as directory:
        store = opened(kind, Path(directory))
        await within(store.open())
        try:
            walk = VersionWalk(store, VISITOR, collection="c1")
            for step in steps:
                await walk.step(*step)
                await walk.check()
                shown = {name: [each.text for each in plain.now.shown] for name, plain in walk.threads.items()}
                for name, texts in shown.items():
                    assert await documented(store, name, VISITOR) == numbered(*texts)
                assert len(await found(store, {"match_all": {}}, VISITOR)) == sum(map(len, shown.values()))
            for name in [*walk.threads]:
                await within(store.delete_thread(VISITOR, name))
            await within(store.remove_logs(finished_before=0.0))
            assert await within(store.stored_bytes("shop")) == 0, "each document counts as long as it is there"
        finally:
            await within(store.close())


async def test_messages_are_found_however_they_came(collecting: Store) -> None:
    begun = said("a question")
    await within(collecting.begin_run(run(), begun, keep=0))
    assert await documented(collecting) == numbered("a question")
    answered = replace(begun, messages=(*begun.messages, message(1, "an answer")))
    await within(collecting.end_run(ended(), answered, keep=1, first=1, records=records(1, 1)))
    added = replace(answered, messages=(*answered.messages, message(2, "a remark")))
    await within(collecting.write_thread(added, keep=2))
    assert await documented(collecting) == numbered("a question", "an answer", "a remark")
    assert [each["text"] for each in await found(collecting, {"match": {"text": "answer"}})] == ["an answer"]

    await within(collecting.create_thread(said("hello", thread_id="t2", collection="c2"), {}))
    assert await documented(collecting, "t2") == numbered("hello")
    assert [each["thread"] for each in await found(collecting, {"term": {"collection": "c2"}})] == ["t2"]


async def test_a_thread_in_a_collection_says_so_and_has_a_document_of_its_own(collecting: Store) -> None:
    await within(collecting.create_thread(said("hello", title="A title"), {"a": 1}))
    held = await within(collecting.load_thread(OWNER, "t1"))
    summary = await within(collecting.load_summary(OWNER, "t1"))
    assert held is not None
    assert held.collection == "c1"
    assert summary is not None
    assert summary.collection == "c1"
    document = await talk(collecting)
    assert document is not None
    assert document.body == {"title": "A title", "collection": "c1", "metadata": {"a": 1}}
    assert document.thread_id == "t1"

    await within(collecting.documents.put(TALK, "t1", OWNER, {"title": "changed"}, thread_id="t1"))
    await within(collecting.write_thread(replace(said("hello", "again"), title="A title"), keep=1))
    document = await talk(collecting)
    assert document is not None
    assert document.body == {"title": "changed"}


async def test_other_threads_and_owners_have_no_part_in_it(collecting: Store) -> None:
    await within(collecting.create_thread(said("mine"), {}))
    await within(collecting.create_thread(said("plain", thread_id="t2", collection=""), {}))
    await within(collecting.create_thread(said("yours", owner="key-2"), {}))
    assert [each["text"] for each in await found(collecting, {"match_all": {}})] == ["mine"]
    assert [each["text"] for each in await found(collecting, {"match_all": {}}, "key-2")] == ["yours"]
    assert await talk(collecting, "t2") is None
    await within(collecting.delete_thread("key-2", "t1"))
    assert await documented(collecting) == numbered("mine")


async def test_a_stored_collection_stays_whatever_is_written(collecting: Store) -> None:
    await within(collecting.create_thread(said("one"), {}))
    for number, other in enumerate(("", "c2"), 1):
        held = said(*["one"] * (number + 1), collection=other)
        await within(collecting.write_thread(held, keep=number))
        found_again = await within(collecting.load_thread(OWNER, "t1"))
        assert found_again is not None
        assert found_again.collection == "c1"
    assert {each["collection"] for each in await found(collecting, {"match_all": {}})} == {"c1"}
    assert await documented(collecting) == numbered("one", "one", "one")


async def test_a_thread_is_given_a_collection_another_and_none(collecting: Store) -> None:
    await within(collecting.create_thread(said("one", "two", collection="", title="A title"), {}))
    assert await within(collecting.update_thread(OWNER, "t1", ThreadChange(collection="c1")))
    assert await documented(collecting) == numbered("one", "two")
    assert await talk(collecting) is not None
    assert await within(collecting.update_thread(OWNER, "t1", ThreadChange(collection="c2")))
    assert {each["collection"] for each in await found(collecting, {"match_all": {}})} == {"c2"}
    assert await within(collecting.update_thread(OWNER, "t1", ThreadChange(collection="")))
    assert await found(collecting, {"match_all": {}}) == []
    assert not await within(collecting.update_thread(OWNER, "none", ThreadChange(collection="c1")))


async def test_a_run_that_began_before_its_thread_got_a_collection_is_found_too(collecting: Store) -> None:
    begun = said("a question", collection="")
    await within(collecting.begin_run(run(), begun, keep=0))
    await within(collecting.update_thread(OWNER, "t1", ThreadChange(collection="c1")))
    answered = replace(begun, messages=(*begun.messages, message(1, "an answer")))
    await within(collecting.end_run(ended(), answered, keep=1, first=1, records=records(1, 1)))
    assert await documented(collecting) == numbered("a question", "an answer")


async def test_a_run_brings_a_thread_into_a_collection_with_all_that_it_shows(collecting: Store) -> None:
    held = said("one", "two", "three", collection="")
    await within(collecting.create_thread(held, {}))
    edited = replace(said("one"), messages=(held.messages[0], message(9, "other")), version=2, last_version=2)
    await within(collecting.begin_run(run(), edited, keep=1, rewrite=Rewrite(from_message="msg_0")))
    assert await documented(collecting) == numbered("one", "other")
    await within(collecting.select_version(OWNER, "t1", 1))
    assert await documented(collecting) == numbered("one", "two", "three")


async def test_a_message_that_is_replaced_leaves_no_word(collecting: Store) -> None:
    held = said("one", "two", "three")
    await within(collecting.create_thread(held, {}))
    shorter = replace(held, messages=(held.messages[0], message(1, "second")))
    await within(collecting.write_thread(shorter, keep=1))
    assert await documented(collecting) == numbered("one", "second")
    assert await found(collecting, {"match": {"text": "two"}}) == []


async def test_a_document_knows_when_its_message_came(collecting: Store) -> None:
    await within(collecting.create_thread(said("one", "two", collection=""), {}))
    later = said("one", "two", "three", collection="", updated_at=300.0)
    await within(collecting.write_thread(later, keep=2))
    await within(collecting.update_thread(OWNER, "t1", ThreadChange(collection="c1")))
    assert [each["at"] for each in await found(collecting, {"match_all": {}})] == [100.0, 100.0, 300.0]
    latest = said("one", "two", "three", "four", updated_at=400.0)
    await within(collecting.write_thread(latest, keep=3))
    assert [each["at"] for each in await found(collecting, {"match_all": {}})] == [100.0, 100.0, 300.0, 400.0]


async def test_other_documents_of_the_thread_stay(collecting: Store) -> None:
    held = said("one", "two")
    await within(collecting.create_thread(held, {}))
    body: JsonObject = {"text": "data", "number": 100, "thread": "t1"}
    await within(collecting.documents.put(SAID, "data", OWNER, body, thread_id="t1"))
    await within(collecting.write_thread(replace(held, messages=held.messages[:1]), keep=1))
    assert await documented(collecting) == [(0, "one"), (100, "data")]
    await within(collecting.delete_thread(OWNER, "t1"))
    assert await found(collecting, {"match_all": {}}) == []
    assert await talk(collecting) is None


async def test_a_thread_of_a_deleted_one_s_id_has_its_own_documents(collecting: Store) -> None:
    await within(collecting.create_thread(said("old", "older", title="Old"), {}))
    await within(collecting.delete_thread(OWNER, "t1"))
    await within(collecting.create_thread(said("new", title="New"), {}))
    assert await documented(collecting) == numbered("new")
    document = await talk(collecting)
    assert document is not None
    assert document.body["title"] == "New"


@pytest.mark.parametrize("text", ["nothing", "fails", "too long", "misfit"])
async def test_a_message_without_a_document_is_kept_like_any_other(collecting: Store, text: str) -> None:
    held = said("one", text, "three")
    await within(collecting.create_thread(held, {}))
    assert await within(collecting.load_thread(OWNER, "t1")) == held
    assert await documented(collecting) == [(0, "one"), (2, "three")]
    await within(collecting.write_thread(replace(held, messages=held.messages[:1]), keep=1))
    assert await documented(collecting) == numbered("one")


@pytest.mark.parametrize("text", ["nothing", "fails", "too long", "misfit"])
async def test_a_message_that_becomes_one_without_a_document_leaves_none(collecting: Store, text: str) -> None:
    held = said("one", "two")
    await within(collecting.create_thread(held, {}))
    changed = replace(held, messages=(held.messages[0], message(1, text)))
    await within(collecting.write_thread(changed, keep=1))
    assert await documented(collecting) == numbered("one")
    assert await found(collecting, {"match": {"text": "two"}}) == []


async def test_a_thread_without_a_document_is_kept_like_any_other(collecting: Store) -> None:
    await within(collecting.create_thread(said("one", title="fails"), {}))
    assert await talk(collecting) is None
    assert await documented(collecting) == numbered("one")


async def test_a_run_that_cannot_begin_leaves_no_document(collecting: Store) -> None:
    held = said("one")
    await within(collecting.create_thread(held, {}))
    with pytest.raises(StoreError):
        await within(collecting.begin_run(run(), said("one", "two", "three"), keep=2))
    assert await documented(collecting) == numbered("one")


async def test_a_document_that_a_client_changed_stays_until_its_message_changes(collecting: Store) -> None:
    held = said("one", "two")
    await within(collecting.create_thread(held, {}))
    body: JsonObject = {"text": "changed", "number": 0, "thread": "t1"}
    await within(collecting.documents.put(SAID, document_id("t1", "msg_0"), OWNER, body, thread_id="t1"))
    await within(collecting.write_thread(replace(held, messages=held.messages[:1]), keep=1))
    assert await documented(collecting) == numbered("changed")


async def test_a_store_that_makes_no_documents_keeps_the_collection(store: Store) -> None:
    await within(store.create_thread(said("one"), {}))
    held = await within(store.load_thread(OWNER, "t1"))
    assert held is not None
    assert held.collection == "c1"
    assert await found(store, {"match_all": {}}) == []


async def test_collections_outlive_the_process(tmp_path: Path) -> None:
    make: Callable[[], Store] = lambda: opened("sqlite", tmp_path)  # noqa: E731
    store = make()
    await within(store.open())
    await within(store.create_thread(said("one"), {}))
    await within(store.close())
    store = make()
    await within(store.open())
    await within(store.write_thread(said("one", "two"), keep=1))
    assert await documented(store) == numbered("one", "two")
    await within(store.close())


# --- many documents at once

MANY = [f"word{number}" for number in range(250)]


async def test_many_documents_let_other_writes_pass(tmp_path: Path) -> None:
    store = opened("sqlite", tmp_path)
    await within(store.open())
    ended: list[str] = []

    async def noted(name: str, work: Awaitable[object]) -> None:
        await work
        ended.append(name)

    many = noted("many", store.create_thread(said(*MANY), {}))
    other = noted("other", store.create_thread(said("hello", thread_id="t2", collection=""), {}))
    await within(asyncio.gather(many, other))
    assert ended == ["other", "many"]
    assert await documented(store) == numbered(*MANY), "whoever wrote is told when all are there"
    await within(store.close())


async def test_many_messages_are_encoded_before_their_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While they are encoded nobody's write waits."""
    within_transactions = 0

    def counted(message: Message) -> bytes:
        nonlocal within_transactions
        within_transactions += 1
        return encode_message(message)

    monkeypatch.setattr(tables, "encode_message", counted)
    store = opened("sqlite", tmp_path)
    await within(store.open())
    first, more, others = said(*MANY * 3), said(*MANY * 6), said(*MANY[:100], *["other"] * 1_400, version=2)
    await within(store.create_thread(first, {}))
    await within(store.write_thread(more, keep=len(first.messages)))
    await within(store.write_thread(others, keep=100))
    assert within_transactions == 0
    loaded = await within(store.load_thread(OWNER, "t1"))
    assert loaded is not None
    assert loaded.messages == others.messages
    await within(store.close())


async def test_however_many_documents_change_they_are_what_the_thread_shows(collecting: Store) -> None:
    held = said(*MANY, collection="")
    await within(collecting.create_thread(held, {}))
    await within(collecting.update_thread(OWNER, "t1", ThreadChange(collection="c1")))
    assert await documented(collecting) == numbered(*MANY)
    shorter = replace(held, messages=held.messages[1:], collection="c1")
    await within(collecting.write_thread(shorter, keep=0))
    assert await documented(collecting) == numbered(*MANY[1:])
    other = replace(shorter, messages=(message(900, "other"),), version=2, last_version=2)
    await within(collecting.begin_run(run(), other, keep=0, rewrite=Rewrite(from_message="msg_1")))
    assert await documented(collecting) == numbered("other")
    await within(collecting.select_version(OWNER, "t1", 1))
    assert await documented(collecting) == numbered(*MANY[1:])
    fork = replace(shorter, thread_id="t2", collection="c2")
    await within(collecting.fork_thread(OWNER, "t1", fork))
    assert await documented(collecting, "t2") == numbered(*MANY[1:])
    await within(collecting.update_thread(OWNER, "t1", ThreadChange(collection="")))
    assert await documented(collecting) == []
    assert await documented(collecting, "t2") == numbered(*MANY[1:])


async def interrupted(store: Store, work: Coroutine[Any, Any, object]) -> None:
    """A write that nobody waits for any more once its messages are kept, as after a kill."""
    assert isinstance(store, SqliteStore)
    task = asyncio.create_task(work)
    await until(lambda: store._threads._cache.get((OWNER, "t1")))
    task.cancel()
    with suppress(asyncio.CancelledError):
        await within(task)


async def test_documents_that_a_killed_process_left_are_written_later(tmp_path: Path) -> None:
    store = opened("sqlite", tmp_path)
    await within(store.open())
    await interrupted(store, store.create_thread(said(*MANY), {}))
    assert len(await documented(store)) < len(MANY)
    await within(store.close())
    store = opened("sqlite", tmp_path)
    await within(store.open())
    await within(store.remove_logs(finished_before=0.0))
    assert await documented(store) == numbered(*MANY)
    await within(store.close())


async def test_documents_that_a_killed_process_left_are_written_by_the_store_that_everything_moved_to(
    tmp_path: Path,
) -> None:
    store = opened("sqlite", tmp_path)
    await within(store.open())
    await interrupted(store, store.create_thread(said(*MANY), {}))
    pieces: list[Moved] = []
    await within(store.export(pieces.append))
    await within(store.close())
    assert any(isinstance(piece, MovedLate) for piece in pieces)
    new = tmp_path / "new"
    new.mkdir()
    store = opened("sqlite", new)
    await within(store.open())
    await within(store.import_(pieces))
    await within(store.remove_logs(finished_before=0.0))
    assert await documented(store) == numbered(*MANY)
    await within(store.close())


async def test_a_write_that_comes_before_the_documents_of_the_last_one_wins(tmp_path: Path) -> None:
    store = opened("sqlite", tmp_path)
    await within(store.open())
    held = said(*MANY)
    await interrupted(store, store.create_thread(held, {}))
    some = replace(held, messages=(*held.messages[:99], message(900, "new"), *held.messages[150:240]))
    await within(store.write_thread(some, keep=99))
    texts = [each.text for each in some.messages]
    assert await documented(store) == numbered(*texts)
    await within(store.delete_thread(OWNER, "t1"))
    assert await found(store, {"match_all": {}}) == []
    await within(store.close())


async def test_documents_of_a_deleted_thread_are_not_written_any_more(tmp_path: Path) -> None:
    store = opened("sqlite", tmp_path)
    await within(store.open())
    await interrupted(store, store.create_thread(said(*MANY), {}))
    await within(store.delete_thread(OWNER, "t1"))
    await within(store.remove_logs(finished_before=0.0))
    assert await found(store, {"match_all": {}}) == []
    await within(store.close())
    with sqlite_file(tmp_path) as connection:
        assert connection.execute("SELECT count(*) FROM late_documents").fetchone() == (0,)
