"""The books that the tests of the search engines search."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.messages import JsonObject
from gateway.search_engine import SearchEnvironment, SearchSettings
from gateway.search_engines.embedded import ENGINE, EmbeddedSearchEngine
from tests.found_books import BOOKS


@pytest.fixture
async def engine() -> AsyncIterator[EmbeddedSearchEngine]:
    opened = ENGINE.open(SearchSettings("embedded:"), SearchEnvironment(Path.cwd()))
    assert isinstance(opened, EmbeddedSearchEngine)
    mappings: JsonObject = {"properties": {"tags": {"type": "keyword"}, "price": {"type": "double"}}}
    await opened.index("books", BOOKS, mappings)
    yield opened
    await opened.close()
