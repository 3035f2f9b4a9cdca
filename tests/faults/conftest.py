"""What the fault tests share: nothing may be left behind, whatever broke."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.fault_scenes import executions
from tests.forked_gateways import fork_server_pid
from tests.waiting import until


@pytest_asyncio.fixture(autouse=True)
async def _no_task_is_left() -> AsyncGenerator[None]:
    """Every task that a test's gateway started is over when the gateway is."""
    yield
    try:
        await until(lambda: not _other_tasks())
    except TimeoutError:
        raise AssertionError(f"left behind: {_other_tasks()}") from None


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    before = _children()
    yield
    assert _children() - before == set(), "a process is left behind"


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    executions.clear()


def _other_tasks() -> set[asyncio.Task[object]]:
    return {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}


def _children() -> set[str]:
    """The children of this process and of the one that gateways are forked from, where the system says (Linux)."""
    server = fork_server_pid()
    own = _children_of(os.getpid())
    return own if server is None else (own - {str(server)}) | _children_of(server)


def _children_of(process_id: int) -> set[str]:
    found: set[str] = set()
    for each in Path(f"/proc/{process_id}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread ended meanwhile
            found.update(each.read_text().split())
    return found
