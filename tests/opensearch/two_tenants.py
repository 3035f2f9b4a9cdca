"""Two tenants' indices on a shared node: what alice may search, and what is bob's.

    with two_tenants(url) as tenants:
        async with tenants.engine() as engine:  # alice's
            ...

Whatever is bob's has the word `SECRET` in it. Some names of alice's pattern lead to it, and some names that are not of
her pattern lead to her own indices.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from gateway.messages import JsonObject
from gateway.opensearch.cluster_search import ClusterSearchEngine
from gateway.search_engine import SearchEnvironment, SearchSettings
from gateway.search_engines.opensearch import ENGINE

SECRET = "salaries"
_DEADLINE_SECONDS = 30.0
_YEAR = datetime.now(UTC).year
_MAPPING: JsonObject = {
    "properties": {
        "title": {"type": "text"},
        "word": {"type": "keyword"},
        "words": {"type": "keyword"},
        "place": {"type": "geo_shape"},
        "asked": {"type": "percolator"},
        "price": {"type": "integer"},
    }
}


def document(word: str, price: int) -> JsonObject:
    """A document that alone has this word, and a place far from those of other prices."""
    return {
        "title": f"the {word} of the year, the {word} of all",
        "word": word,
        "words": [word],
        "price": price,
        "place": {"type": "point", "coordinates": [price, price]},
        "asked": {"match": {"title": word}},
    }


@dataclass(frozen=True)
class Tenants:
    """`url`: the node's. `alice` and `bob` begin the names of their indices."""

    url: str
    alice: str
    bob: str

    @property
    def books(self) -> str:
        return f"{self.alice}-books"

    @property
    def of_this_year(self) -> str:
        return f"{self.alice}-{_YEAR}"

    @property
    def secrets(self) -> str:
        return f"{self.bob}-books"

    def settings(self, url: str | None = None, **more: Any) -> SearchSettings:
        """Those of alice; `url`: of a front before the node."""
        address = (url or self.url).replace("http://", "opensearch://", 1)
        return SearchSettings(address, **{"indices": (f"{self.alice}-*",), **more})

    @asynccontextmanager
    async def engine(self, url: str | None = None, **more: Any) -> AsyncGenerator[ClusterSearchEngine]:
        """An engine that may search what alice may. Its store has the prefix `{alice}-store`."""
        store = f"opensearch://127.0.0.1:9200?prefix={self.alice}-store"
        engine = ENGINE.open(self.settings(url, **more), SearchEnvironment(Path(), store))
        assert isinstance(engine, ClusterSearchEngine)
        try:
            yield engine
        finally:
            await engine.close()

    def ask(self, method: str, path: str, body: JsonObject | None = None) -> Any:
        """What the node itself says."""
        with httpx.Client(timeout=_DEADLINE_SECONDS) as client:
            response = client.request(method, f"{self.url}{path}", json=body)
        response.raise_for_status()
        return response.json()

    def point(self, alias: str, index: str, **more: Any) -> None:
        """Let an alias lead to that index and no other."""
        actions: Any = [
            {"remove": {"index": "*", "alias": alias, "must_exist": False}},
            {"add": {"index": index, "alias": alias, **more}},
        ]
        self.ask("POST", "/_aliases", {"actions": actions})


@contextmanager
def two_tenants(url: str) -> Iterator[Tenants]:
    """Their indices, which are gone afterwards."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    tenants = Tenants(url, f"alice-{worker}", f"bob-{worker}")
    _delete(tenants)
    _make(tenants)
    yield tenants
    _delete(tenants)


def _make(tenants: Tenants) -> None:
    alice, bob = tenants.alice, tenants.bob
    words = {
        f"{alice}-books": ("stories", 10),
        f"{alice}-papers": ("letters", 20),
        tenants.of_this_year: ("stories", 30),
        f"{bob}-books": (SECRET, 40),
        f"{bob}-{_YEAR}": (SECRET, 50),
        f"{alice}-store-threads": (SECRET, 60),
        f".{alice}-hidden": (SECRET, 70),
    }
    for index, (word, price) in words.items():
        tenants.ask("PUT", f"/{index}", {"mappings": _MAPPING, "settings": {"number_of_replicas": 0}})
        tenants.ask("PUT", f"/{index}/_doc/1?refresh=true", document(word, price))
    second = document("stories", 11)
    tenants.ask("PUT", f"/{alice}-books/_doc/2?refresh=true", {**second, "asked": {"match": {"title": "nothing"}}})
    tenants.point(f"{alice}-lent", tenants.secrets)
    tenants.point(f"{alice}-cheap", tenants.books, filter={"term": {"price": 10}})
    tenants.point(f"{bob}-door", tenants.books)
    for owner, word in ((alice, "stories"), (bob, SECRET)):
        template: JsonObject = {"index_patterns": [f"{owner}-log"], "data_stream": {}, "priority": 500}
        tenants.ask("PUT", f"/_index_template/{owner}-log", template)
        tenants.ask("POST", f"/{owner}-log/_doc?refresh=true", {"@timestamp": "2026-01-01", "title": f"the {word}"})


def _delete(tenants: Tenants) -> None:
    for owner in (tenants.alice, tenants.bob):
        with httpx.Client(timeout=_DEADLINE_SECONDS) as client:
            client.delete(f"{tenants.url}/_data_stream/{owner}-log")
            client.delete(f"{tenants.url}/_index_template/{owner}-log")
            client.delete(f"{tenants.url}/{owner}-*,.{owner}-*?expand_wildcards=all")
