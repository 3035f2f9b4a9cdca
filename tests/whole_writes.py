"""Writes that a store does as a whole or not at all, and everything that shows whether one was done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any

from gateway.store import Fork, Store, Thread
from tests.stored_samples import OWNER, ended, message, messages, records, run, thread

Write = Callable[[Store, str], Coroutine[Any, Any, object] | Awaitable[object]]


def longer(owner: str = OWNER) -> Thread:
    """The thread with two more messages, and a large state."""
    return replace(thread(owner=owner), messages=messages(3), last_run_id="r2", state={"much": "x" * 5_000})


def second(owner: str = OWNER) -> Thread:
    """The thread with a second version, which has another state."""
    return replace(longer(owner), messages=(message(7),), version=2, last_version=2, state={"more": "y" * 5_000})


def branch(owner: str = OWNER) -> Thread:
    """A fork of the thread."""
    return replace(thread("t2", owner=owner), last_run_id=None)


async def begin_with_fork(store: Store, owner: str = OWNER) -> None:
    fork = branch(owner)
    await store.begin_run(
        run("r3", "t2", owner=owner),
        replace(fork, messages=(message(0), message(4)), last_run_id="r3"),
        keep=1,
        records=records(1, 1),
        fork=Fork(fork, "t1", 1),
    )


def end(store: Store, owner: str = OWNER, *, first: int = 1) -> Awaitable[object]:
    finished = replace(ended("r1", owner=owner), thread_length=3, last_message_id="msg_2")
    return store.end_run(finished, longer(owner), keep=1, first=first, records=records(first, first + 1))


WRITES: dict[str, Write] = {
    "begin": lambda store, owner: store.begin_run(run("r2", owner=owner), longer(owner), keep=1, records=records(1, 2)),
    "begin with a version": lambda store, owner: store.begin_run(
        run("r2", owner=owner), second(owner), keep=0, records=records(1, 2)
    ),
    "begin with a fork": begin_with_fork,
    "end": end,
    "edit": lambda store, owner: store.write_thread(longer(owner), keep=0),
    "version": lambda store, owner: store.write_thread(second(owner), keep=0),
    "fork": lambda store, owner: store.fork_thread(owner, "t1", branch(owner)),
    "delete": lambda store, owner: store.delete_thread(owner, "t1"),
}
"""Each is done after `begin(store, "r1")`."""


async def seen(store: Store, owner: str = OWNER) -> tuple[object, ...]:
    """Everything that one read after the other shows of both threads. Each read is whole by itself."""
    return (
        await store.load_start(owner, "r1", "t1"),
        await store.load_start(owner, "r2", "t1"),
        await store.load_start(owner, "r3", "t2"),
        await store.list_messages(owner, "t1", limit=100, cursor=None),
        await store.list_messages(owner, "t2", limit=100, cursor=None),
        await store.read_events(owner, "r1", after=0, limit=100),
        await store.read_events(owner, "r2", after=0, limit=100),
        await store.list_versions(owner, "t1", limit=100, cursor=None),
        await store.load_version(owner, "t1", 1),
        await store.load_version(owner, "t1", 2),
        await store.list_runs(owner, "t1", limit=100, cursor=None),
    )
