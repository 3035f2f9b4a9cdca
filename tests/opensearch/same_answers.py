"""Compares what a search finds in a cluster with what it finds in the embedded index."""

from __future__ import annotations

import math
from typing import Any

from gateway.documents.document import DocumentKind, DocumentStore
from gateway.errors import InvalidRequestError
from gateway.messages import JsonObject

NEAR = 1e-4
"""Scores are floats of 32 bits in the cluster; differences below this count as none."""


async def answered(documents: DocumentStore, kind: DocumentKind, body: JsonObject, owner: str) -> dict[str, Any]:
    """The answer, or the refusal."""
    try:
        return dict(await documents.search(kind, body, owner))
    except InvalidRequestError as error:
        return {"refused": (error.code, error.message)}


def difference(left: dict[str, Any], right: dict[str, Any]) -> str:
    """What differs between two answers, but for versions and for the order of hits that are as good; empty: nothing."""
    if "refused" in left or "refused" in right:
        return "" if left == right else f"{left} is not {right}"
    for place in ("total", "max_score"):
        one, other = left["hits"].get(place), right["hits"].get(place)
        if not _same(one, other):
            return f"{place} {one} is not {other}"
    if not _same(left.get("aggregations"), right.get("aggregations")):
        return f"aggregations {left.get('aggregations')} are not {right.get('aggregations')}"
    ones, others = left["hits"]["hits"], right["hits"]["hits"]
    if [hit["_score"] for hit in ones] and not _same([h["_score"] for h in ones], [h["_score"] for h in others]):
        return f"scores {_scores(ones)} are not {_scores(others)}"
    listed, other_listed = _known(ones), _known(others)
    if sorted(map(str, listed)) != sorted(map(str, other_listed)) and not _cut_among_equals(ones, others):
        return f"hits {_scores(ones)} are not {_scores(others)}"
    for one, other in zip(ones, others, strict=True):
        if not _same(_shown(one), _shown(other)) and not _as_good(one, other):
            return f"hit {_shown(one)} is not {_shown(other)}"
    return ""


def _known(hits: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(hit["_id"], hit["_owner"]) for hit in hits]


def _scores(hits: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    return [(hit["_id"], hit["_score"]) for hit in hits]


def _shown(hit: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in hit.items() if name not in ("_version", "_score")}


def _as_good(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two hits may change places: only their scores decide, and these are nearly the same."""
    return one["_score"] is not None and _same(one["_score"], other["_score"]) and "sort" not in one


def _cut_among_equals(ones: list[dict[str, Any]], others: list[dict[str, Any]]) -> bool:
    """Whether the lists differ only among the last hits, which are as good as each other."""
    last = ones[-1]["_score"]
    if last is None or "sort" in ones[-1]:
        return False
    better = [_known([hit]) for hit in ones if not _same(hit["_score"], last)]
    return better == [_known([hit]) for hit in others if not _same(hit["_score"], last)]


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) or isinstance(other, float):
        numbers = isinstance(one, int | float) and isinstance(other, int | float)
        return numbers and math.isclose(one, other, rel_tol=NEAR, abs_tol=1e-6)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)
