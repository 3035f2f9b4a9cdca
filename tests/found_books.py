"""Books to search for, and what a search found of them."""

from __future__ import annotations

from gateway.messages import JsonObject, JsonValue
from gateway.search_engines.embedded import EmbeddedSearchEngine

BOOKS: list[dict[str, JsonValue]] = [
    {"_id": "1", "title": "The Sea Wolf", "year": 1904, "tags": ["sea", "classic"], "price": 9.5, "sold": True},
    {"_id": "2", "title": "Sea and Sky", "year": 2001, "tags": ["sea"], "printed": "2001-05-01", "price": 12},
    {"_id": "3", "title": "A Wolf in Winter", "year": 2010, "tags": [], "printed": "2010-12-31T23:00:00Z"},
    {"_id": "4", "title": "Cooking for Two", "year": 2020, "author": {"name": "Ana Díaz", "born": 1980}, "sold": False},
    {"_id": "5", "title": "Don't Panic: 3,519,000 Copies", "year": 1979, "author": {"name": "D. Adams"}},
]


async def ids(engine: EmbeddedSearchEngine, query: JsonObject, **body: JsonValue) -> list[str]:
    answer = await engine.search("books", {"query": query, "sort": ["_doc"], **body})
    return [hit["_id"] for hit in hits(answer)]  # type: ignore[misc]


def hits(answer: JsonObject) -> list[JsonObject]:
    found = answer["hits"]
    assert isinstance(found, dict)
    listed = found["hits"]
    assert isinstance(listed, list)
    return listed  # type: ignore[return-value]
