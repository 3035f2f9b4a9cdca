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


# The tests on a cluster that `make test` has too.
_ON_A_CLUSTER = ("test_store_contract.py", "test_store_contract_runs.py", "test_store_contract_whole.py")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A cluster takes long: most tests on one belong to the whole suite alone."""
    for item in items:
        given = getattr(item, "callspec", None)
        on_a_cluster = "opensearch_url" in getattr(item, "fixturenames", ())
        on_a_cluster = on_a_cluster or (given is not None and "opensearch" in given.params.values())
        if on_a_cluster and item.path.name not in _ON_A_CLUSTER:
            item.add_marker(pytest.mark.thorough)


@pytest.fixture(scope="session")
def opensearch_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a cluster that all tests of the run share: what a test writes there has names of its own."""
    with shared_node(run_folder(tmp_path_factory)) as url:
        yield url
