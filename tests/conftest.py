"""What holds for all tests."""

from __future__ import annotations

import gc
from collections.abc import Generator, Iterator

import pytest

from tests.opensearch.shared_node import run_folder, shared_node


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collecting the tests makes a million objects that stay: no collection of garbage looks at them, then or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session")
def opensearch_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a cluster that all tests of the run share: what a test writes there has names of its own."""
    with shared_node(run_folder(tmp_path_factory)) as url:
        yield url
