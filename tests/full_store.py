"""A store with something of all that a store can keep, and all answers that its read methods give."""

from __future__ import annotations

import base64
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gateway.agent import Secret
from gateway.documents.document import DocumentKind
from gateway.events import Cancelled, Completed, Interrupt, OpenInterrupt, RunFailed, RunFinished, Usage
from gateway.frozen import replace
from gateway.history.versions import Rewrite, Stretch
from gateway.messages import Base64Source, ImageBlock, JsonObject, Message, TextBlock, ToolCall
from gateway.model_state import Chain, HeldResponse
from gateway.owners import visitor_owner
from gateway.store import DueDeletion, Page, RunFilter, RunStatus, Store, Terminal, Thread, ThreadChange
from gateway.store.export_file import written_export
from tests.collected_words import SAID, TALK, CollectedWords
from tests.movable_clock import MovableClock
from tests.stored_samples import ENVIRONMENTS, OWNER, ended, message, records, run, thread, within

OTHER = "key-2"
HALF = "half \ud800 a pair"
SITE = "shop"
VISITOR = visitor_owner(SITE, "anna")
OWNERS = (OWNER, OTHER, HALF, VISITOR)
NOTE = DocumentKind(
    "note",
    {
        "title": {"type": "text"},
        "tags": {"type": "flat_object"},
        "lines": {"type": "nested", "properties": {"role": {"type": "keyword"}}},
    },
    sealed=("/credential",),
)
DRAFT = DocumentKind("draft", {"title": {"type": "text"}}, own_ids=True)
KINDS = (NOTE, DRAFT, TALK, SAID)
LATER = 10_000_000_000.0
_CHAINS = {
    "assistant": {"default": Chain("holder", (HeldResponse("resp_1", 2, "digest", "turn_1", 90.0),), ("resp_0",))}
}


KEY = Secret(base64.b64encode(b"k" * 32).decode())
OTHER_KEY = Secret(base64.b64encode(b"o" * 32).decode())


@asynccontextmanager
async def opened(kind: str, directory: Path, *keys: Secret) -> AsyncGenerator[Store]:
    os.makedirs(directory, exist_ok=True)
    store = ENVIRONMENTS[kind](directory, MovableClock(), thread_documents=CollectedWords(), master_keys=keys or (KEY,))
    await within(store.open())
    try:
        yield store
    finally:
        await within(store.close())


async def exported(store: Store, path: Path, now: float = 1.0) -> Path:
    with written_export(path, now) as writer:
        await within(store.export(writer.take))
    return path


async def full_export(kind: str, directory: Path) -> Path:
    """The export of a store with everything; made once."""
    path = directory / f"{kind}.jsonl"
    if not path.exists():
        async with opened(kind, directory / kind) as store:
            await fill(store)
            await exported(store, path)
    return path


def asked(name: str, expires_at: float | None = None) -> OpenInterrupt:
    call = ToolCall(f"call-{name}", "refund", '{"amount": 1}')
    interrupt = Interrupt(f"int-{name}", "tool_call", "Refund?", call.call_id, expires_at=expires_at)
    return OpenInterrupt(interrupt, call, f"approval-{name}", "assistant", 900.0)


async def fill(store: Store) -> None:
    """Store all that a store can keep. `store` makes documents of collected words."""
    await _versions(store)
    await _forks(store)
    await _approvals(store)
    await _runs(store)
    await _threads(store)
    await _documents(store)
    await within(store.keep_secret("visitor tokens", bytes(range(256))))
    await within(store.keep_secret("another", b""))


async def _begin(store: Store, held: Thread, run_id: str, keep: int = 0, rewrite: Rewrite | None = None) -> None:
    asked = run(run_id, held.thread_id, owner=held.owner, at=held.updated_at)
    await within(store.begin_run(asked, held, keep=keep, rewrite=rewrite, records=records(1, 2)))


async def _versions(store: Store) -> None:
    """A thread that was edited, shortened, and gone back; with states, chains and questions of each version."""
    first = replace(thread("edited", count=4), state={"n": 1}, interrupts=(asked("old"),), model_states=_CHAINS)
    await _begin(store, first, "e1")
    edited = replace(first, messages=(*first.messages[:2], message(20, HALF)), version=2, last_version=2)
    edited = replace(edited, updated_at=300.0, state=None, interrupts=(), model_states={}, last_run_id="e2")
    await _begin(store, edited, "e2", 2, Rewrite(from_message="msg_1"))
    short = replace(edited, messages=(message(20, HALF), message(30)), version=3, last_version=3, shortened=True)
    await _begin(store, short, "e3", 0, Rewrite((Stretch(0, 2, 1),), from_message=None))
    shorter = replace(short, messages=(message(30), message(31)), updated_at=400.0)
    await _begin(store, shorter, "e4", 0, Rewrite((Stretch(0, 1, 1),), hides=(0,)))
    last = replace(shorter, messages=(message(40),), version=4, last_version=4, shortened=False, state=[2**70, 1.5])
    await _begin(store, last, "e5", 0, Rewrite())
    assert await within(store.select_version(OWNER, "edited", 3))
    assert await within(store.delete_version(OWNER, "edited", 2))
    alone = replace(thread("alone"), state="before")
    await _begin(store, alone, "a1")
    await _begin(store, replace(alone, version=2, last_version=2, messages=(message(9),)), "a2", 0, Rewrite())
    assert await within(store.delete_version(OWNER, "alone", 1))


async def _forks(store: Store) -> None:
    """A fork of a version, a fork of the fork, and a fork whose origin is gone."""
    fork = replace(thread("fork", count=2), updated_at=500.0)
    assert await within(store.fork_thread(OWNER, "alone", replace(fork, messages=(message(9),))))
    longer = replace(fork, messages=(message(9), message(50)), updated_at=510.0)
    await _begin(store, longer, "f1", 1)
    assert await within(store.fork_thread(OWNER, "fork", replace(longer, thread_id="second fork")))
    await _begin(store, thread("origin", count=3), "o1")
    assert await within(store.fork_thread(OWNER, "origin", replace(thread("orphan", count=3), updated_at=520.0)))
    deletion = DueDeletion("due-1", "assistant", "holder", ("resp_1", HALF), 1.5, 2)
    assert await within(store.delete_thread(OWNER, "origin", [deletion]))


async def _approvals(store: Store) -> None:
    held = replace(thread("asking"), interrupts=(asked("b", LATER), asked("a")), paused=True, expires_at=500.0)
    await _begin(store, held, "q1")
    await _begin(store, replace(held, interrupts=(asked("a"),)), "q2", 1)
    await _begin(store, replace(thread("asking too"), interrupts=(asked("0"),)), "q3")


async def _runs(store: Store) -> None:
    """Runs in every status, with logs that were retracted, removed, or never begun."""
    usage = (Usage("demo", "demo", 1, 2),)
    held = replace(thread("running", owner=OTHER), last_run_id="failed")
    endings: dict[RunStatus, Terminal | None] = {
        RunStatus.COMPLETED: RunFinished(Completed(), usage),
        RunStatus.CANCELLED: RunFinished(Cancelled()),
        RunStatus.FAILED: RunFailed("internal_error", HALF, usage),
        RunStatus.INTERRUPTED: None,
    }
    for status, terminal in endings.items():
        asked = run(status.value, "running", owner=OTHER)
        asked = replace(asked, reused_id="again" if terminal is None else None, origin="a2a", request={"n": [2**70]})
        await within(store.begin_run(asked, held, keep=0))
        await within(store.append_events(OTHER, asked.run_id, 1, records(1, 3)))
        done = replace(asked, status=status, finished_at=150.0, usage=usage, terminal=terminal, thread_length=1)
        done = replace(done, last_message_id="msg_0", error_code="e" if status is RunStatus.FAILED else None)
        erase = frozenset({"msg_a"}) if status is RunStatus.CANCELLED else frozenset()
        await within(store.end_run(done, held, keep=1, first=4, records=records(4, 4), erase=erase))
    await within(store.remove_logs(finished_before=160.0))
    after = ended("kept", "running", owner=OTHER)
    await within(store.begin_run(run("kept", "running", owner=OTHER), held, keep=1))
    at = replace(records(1, 5), at=123.25)
    await within(
        store.end_run(replace(after, has_custom=True), held, keep=1, first=1, records=at, erase=frozenset({"msg_a"}))
    )
    await within(store.begin_run(run("live", "running", owner=OTHER), held, keep=1, records=records(1, 3)))
    picture = Message("u1", "user", (ImageBlock(Base64Source("image/png", "AAAA")), TextBlock(f"a line\n{HALF}")))
    queued = replace(run("queued", "nowhere", owner=OTHER, status=RunStatus.QUEUED), started_at=None)
    await within(store.queue_run(queued, (picture, message(1))))
    await within(store.queue_run(replace(queued, run_id="left"), (message(2),)))
    await within(store.queue_run(replace(queued, run_id="left", status=RunStatus.CANCELLED, finished_at=170.0)))
    await within(store.queue_run(replace(queued, run_id="without")))


async def _threads(store: Store) -> None:
    """Threads that no run began: with metadata, hidden, unlisted, expiring, collected, of odd owners and visitors."""
    await within(store.create_thread(thread(HALF, owner=HALF, text=HALF), {"half": HALF, "large": 2**70}))
    await within(store.create_thread(thread("empty", count=0), {}))
    await within(store.create_thread(replace(thread("unlisted"), listed=False), {}))
    await within(store.create_thread(replace(thread("expiring"), expires_at=200.0), {}))
    await within(store.create_thread(thread("named"), {}))
    named = ThreadChange(title="A name", metadata={"a": 1}, listed=False, expires_at=700.0, updated_at=600.0)
    assert await within(store.update_thread(OWNER, "named", named))
    collected = replace(thread("collected", count=3, text="wolves"), collection="c1", title="Wolves")
    await within(store.create_thread(collected, {"of": "wolves"}))
    visitors = replace(thread("visited", owner=VISITOR, count=2), collection="c1", state={"n": 1})
    await within(store.create_thread(visitors, {"page": "/"}))
    edited = replace(visitors, messages=(message(3),), version=2, last_version=2, state={"n": 22})
    await _begin(store, edited, "v1", 0, Rewrite())
    done, erase = ended("v1", "visited", owner=VISITOR), frozenset({"msg_a"})
    await within(store.end_run(done, edited, keep=1, first=3, records=records(3, 5), erase=erase))


async def _documents(store: Store) -> None:
    documents = store.documents
    lines: JsonObject = {
        "title": "The Sea Wolf",
        "tags": {"genre": "novel"},
        "lines": [{"role": "user"}, {"role": "x"}],
    }
    sealed: JsonObject = {**lines, "credential": {"api_key": "key-of-the-wolf"}}
    for number in range(3):
        await within(documents.put(NOTE, f"n{number}", OWNER, sealed if number else lines))
    await within(documents.put(NOTE, "n1", OWNER, {**sealed, "title": "A White Fang"}))
    await within(documents.put(NOTE, HALF, OTHER, lines, public=True))
    await within(documents.put(NOTE, "public", VISITOR, sealed, public=True))
    await within(documents.put(DRAFT, "d1", OWNER, {"title": "mine", "large": 2**70}))
    await within(documents.put(DRAFT, "d1", VISITOR, {"title": HALF}, thread_id="visited"))
    await within(documents.put(DRAFT, "gone", OTHER, {"title": "gone"}))
    await within(documents.delete(DRAFT, "gone", OTHER))


async def answers(store: Store) -> dict[str, Any]:
    """What every read method gives, for each owner."""
    found: dict[str, Any] = {
        "approvals": await _pages(lambda cursor: store.list_approvals(now=100.0, limit=2, cursor=cursor)),
        "due": await within(store.due_deletions()),
        "expired": await within(store.expired_threads(by=LATER, limit=100)),
        "idle": await within(store.idle_visitor_threads(before=LATER, limit=100)),
        "bytes": await within(store.stored_bytes(SITE)),
        "unfinished": await within(store.unfinished_runs()),
        "waiting": await within(store.waiting_runs()),
        "secrets": [await within(store.keep_secret(name, b"fresh")) for name in ("visitor tokens", "another")],
        "approval": [await within(store.find_approval(f"approval-{name}")) for name in ("old", "a", "b", "0", "none")],
    }
    for owner in OWNERS:
        found |= {f"{owner} {name}": each async for name, each in _of_owner(store, owner)}
    return found


async def _of_owner(store: Store, owner: str) -> AsyncIterator[tuple[str, Any]]:
    yield "threads", await _pages(lambda cursor: store.list_threads(owner, limit=2, cursor=cursor))
    for thread_id in (
        *("edited", "alone", "fork", "second fork", "origin", "orphan", "asking", "asking too", "running", HALF),
        *("empty", "unlisted", "expiring", "named", "collected", "visited"),
    ):
        async for name, each in _of_thread(store, owner, thread_id):
            yield f"{thread_id} {name}", each
    yield "found", [await within(store.find_message(owner, f"msg_{number}", limit=9)) for number in range(51)]
    wanted = RunFilter("a2a", 36)
    yield "tasks", (await within(store.find_runs(owner, wanted, limit=100, cursor=None)))[0].items
    for kind in KINDS:
        yield kind.name, await _of_kind(store, owner, kind)


async def _of_thread(store: Store, owner: str, thread_id: str) -> AsyncIterator[tuple[str, Any]]:
    yield "thread", await within(store.load_thread(owner, thread_id))
    yield "summary", await within(store.load_summary(owner, thread_id))
    yield "times", await within(store.message_times(owner, thread_id))
    yield "interrupts", await within(store.list_interrupts(owner, thread_id))
    yield "states", await within(store.version_states(owner, thread_id))
    versions = await _pages(lambda cursor: store.list_versions(owner, thread_id, limit=2, cursor=cursor))
    yield "versions", versions
    for version in (None, *(each.number for each in versions)):
        listed = lambda cursor, version=version: store.list_messages(  # noqa: E731
            owner, thread_id, limit=2, cursor=cursor, version=version
        )
        yield f"messages of {version}", await _pages(listed)
        yield (
            f"version {version}",
            None if version is None else await within(store.load_version(owner, thread_id, version)),
        )
    runs = await _pages(lambda cursor: store.list_runs(owner, thread_id, limit=2, cursor=cursor))
    yield "runs", runs
    for each in runs:
        yield (
            each.run_id,
            (
                await within(store.load_run(owner, each.run_id)),
                await within(store.load_start(owner, each.client_id)),
                [asdict(event) for event in await within(store.read_events(owner, each.run_id, after=0, limit=100))],
                await within(store.read_logs(owner, [each.run_id], limit=100, max_bytes=10_000)),
                await within(store.last_sequence(owner, each.run_id)),
            ),
        )


async def _of_kind(store: Store, owner: str, kind: DocumentKind) -> Any:
    page = await within(store.documents.page(kind, owner, limit=100))
    ids = [each.document_id for each in page]
    return (
        [await within(store.documents.get(kind, each, owner, unsealed=True)) for each in ids],
        [None if kind.own_ids else await within(store.documents.owner_of(kind, each)) for each in ids],
        await within(store.documents.owners(kind)),
        [await _search(store, owner, kind, query) for query in _QUERIES],
    )


_QUERIES: tuple[JsonObject, ...] = (
    {"match_all": {}},
    {"match": {"title": "wolf"}},
    {"match": {"text": "wolves"}},
    {"term": {"tags.genre": "novel"}},
    {"nested": {"path": "lines", "query": {"term": {"lines.role": "user"}}}},
)


async def _search(store: Store, owner: str, kind: DocumentKind, query: JsonObject) -> Any:
    if "nested" in query and kind is not NOTE:
        return None
    answer = await within(store.documents.search(kind, {"query": query, "size": 100}, owner))
    return {**answer, "took": 0}


async def _pages(read: Callable[[str | None], Awaitable[Page[Any]]]) -> list[Any]:
    page = await within(read(None))
    found = [*page.items]
    while page.next_cursor is not None:
        page = await within(read(page.next_cursor))
        found += page.items
    return found
