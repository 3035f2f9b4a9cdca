"""The node that the tests of the OpenSearch store share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.opensearch.shared_node import run_folder, shared_node


@pytest.fixture(scope="session")
def opensearch_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a cluster that all tests of the run share: what a test writes there has names of its own."""
    with shared_node(run_folder(tmp_path_factory)) as url:
        yield url
