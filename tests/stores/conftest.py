"""The stores that the shared suite runs on."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from gateway.store import Store
from tests.movable_clock import MovableClock
from tests.opensearch.index_sets import INDEX_SETS
from tests.stored_samples import ENVIRONMENTS, LASTING_STORES, STORES, within


@pytest.fixture(autouse=True)
def node(request: pytest.FixtureRequest) -> None:
    """Start the shared node for a test that asks for a store in a cluster."""
    asked = getattr(request.node, "callspec", None)
    if asked is not None and "opensearch" in asked.params.values():
        INDEX_SETS.begin_test(request.getfixturevalue("opensearch_url"))


@pytest_asyncio.fixture(params=STORES, ids=str)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Store]:
    opened = STORES[request.param](tmp_path)
    await within(opened.open())
    yield opened
    await within(opened.close())


@pytest_asyncio.fixture(params=ENVIRONMENTS, ids=str)
async def environment_store(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncGenerator[tuple[Store, MovableClock]]:
    """A store, and the clock that it asks."""
    clock = MovableClock()
    opened = ENVIRONMENTS[request.param](tmp_path, clock, lambda secrets: None)
    await within(opened.open())
    yield opened, clock
    await within(opened.close())


@pytest.fixture(params=LASTING_STORES, ids=str)
def open_again(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Store]:
    """A store of what the last one of this fixture left."""
    return lambda: LASTING_STORES[request.param](tmp_path)
