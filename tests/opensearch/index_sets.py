"""Sets of indices on the shared node for the tests of one process, used again by test after test: making them takes
longer than most tests.
"""

from __future__ import annotations

import os
from pathlib import Path

import httpx
import pytest

from gateway.messages import JsonObject

_DEADLINE_SECONDS = 30.0


class IndexSets:
    """Gives each folder, which is a store's in other tests, a set of indices. A set is emptied for a new folder. One
    that does not exist has none.
    """

    def __init__(self) -> None:
        self._url = ""
        self._folders: list[Path | None] = []

    def begin_test(self, url: str) -> None:
        """A new test begins, on the node of that URL."""
        self._url = url
        self._folders = [None] * len(self._folders)

    def store_url(self, folder: Path, through: str = "") -> str:
        """The URL of the folder's store; `through`: of another way to the node."""
        assert self._url, "the test has no node: it needs the fixture of tests/stores/conftest.py"
        if not folder.exists():
            return self._url_of("none")
        if folder not in self._folders:
            free = [number for number, each in enumerate(self._folders) if each is None or not each.exists()]
            if free:
                self._folders[free[0]] = folder
            else:
                self._folders.append(folder)
            self._empty(self._folders.index(folder))
        return self._url_of(self._prefix(self._folders.index(folder)), through)

    def _url_of(self, prefix: str, through: str = "") -> str:
        return f"{(through or self._url).replace('http://', 'opensearch://', 1)}?prefix={prefix}"

    def _prefix(self, number: int) -> str:
        return f"test-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}-{number}"

    def _empty(self, number: int) -> None:
        indices = f"{self._url}/{self._prefix(number)}-*"
        with httpx.Client(timeout=_DEADLINE_SECONDS) as client:
            client.post(f"{indices}/_refresh").raise_for_status()
            everything: JsonObject = {"query": {"match_all": {}}}
            client.post(f"{indices}/_delete_by_query?refresh=true", json=everything).raise_for_status()


INDEX_SETS = IndexSets()


def store_url(kind: str, directory: Path, request: pytest.FixtureRequest) -> str:
    """The URL of a gateway's store of that kind, for a test that shares the node with others."""
    if kind != "opensearch":
        return "sqlite:///gateway.db"
    INDEX_SETS.begin_test(request.getfixturevalue("opensearch_url"))
    return INDEX_SETS.store_url(directory)
