"""What every store promises of documents, kept by those in a cluster."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable

import pytest
import pytest_asyncio

from gateway.store import Store
from tests.movable_clock import MovableClock
from tests.opensearch.documents_in_cluster import DocumentsInCluster, new_prefix
from tests.stored_samples import within
from tests.stores import test_store_contract_documents as contract

_FIXTURES = {"store", "environment_store", "open_again"}

# The tests of the shared suite that ask for a store by these fixtures.
for _name, _test in vars(contract).items():
    if _name.startswith("test_") and _FIXTURES & set(inspect.signature(_test).parameters):
        globals()[_name] = _test


@pytest_asyncio.fixture
async def store(opensearch_url: str) -> AsyncGenerator[Store]:
    opened = DocumentsInCluster(opensearch_url)
    await within(opened.open())
    yield opened.as_store()
    await within(opened.close())


@pytest_asyncio.fixture
async def environment_store(opensearch_url: str) -> AsyncGenerator[tuple[Store, MovableClock]]:
    clock = MovableClock()
    opened = DocumentsInCluster(opensearch_url, clock)
    await within(opened.open())
    yield opened.as_store(), clock
    await within(opened.close())


@pytest.fixture
def open_again(opensearch_url: str) -> Callable[[], Store]:
    prefix = new_prefix()
    return lambda: DocumentsInCluster(opensearch_url, prefix=prefix, keeps=True).as_store()
