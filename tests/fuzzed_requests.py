"""Requests whose bodies have one or several things wrong, for tests that send random ones."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

_ODD: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 1, 3, 10**9, 10**30, -(10**19), 0.5, 1e308, "", " ", "x", "0", "-1", "true", "null",
    "\x00", "\u202e", "\ud800", "é" * 600, "${parameters.x}", "${env:HOME}", "../../etc", "a/b", "_search", "*", "(((",
    [], {}, [[]], [{}], [None], {"": ""}, {"query": {}}, {"match_all": {}}, {"script": {"source": "1"}},
    {"bool": {"must": {"bool": {}}}}, {"range": {"created_time": {"gte": "now-1d||/x"}}}, ["a", 1, None], "x" * 20_000,
)  # fmt: skip
_NO_OBJECTS: Final = (b"", b"{", b"[]", b'"x"', b"NaN", b"\xff\xfe", b'{"a":1,"a":2}', b"[" * 3_000, b"null")


@dataclass(frozen=True, slots=True)
class FuzzedRequest:
    """`content` is the body's bytes, None for none."""

    method: str
    target: str
    content: bytes | None
    headers: dict[str, str]


def mutated(body: Any, rng: random.Random, names: Sequence[str], known: Sequence[str]) -> bytes:
    """The bytes of a body in which up to three things are wrong. It is changed on the way.

    `names` are those that members get, `known` are ids, which stand in wrong places.
    """
    if rng.random() < 0.05:
        return rng.choice(_NO_OBJECTS)
    holder = {"body": body}
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
        _mutate(holder, rng, names, known)
    raw = json.dumps(holder.get("body"), ensure_ascii=rng.random() < 0.5, default=str)
    return raw.encode("utf-8", "surrogatepass")


def _mutate(holder: dict[str, Any], rng: random.Random, names: Sequence[str], known: Sequence[str]) -> None:
    nodes = _nodes(holder)
    if not nodes:  # the body itself was taken away
        return
    container, key = rng.choice(nodes)
    match rng.randrange(6):
        case 0:
            del container[key]
        case 1:
            container[key] = [container[key]]
        case 2 if isinstance(container, dict):
            container[rng.choice(names)] = container[key]
        case 3:
            other, place = rng.choice(nodes)
            container[key] = copy.deepcopy(other[place]) if _has(other, place) else None
        case 4:
            container[key] = rng.choice(known) if known else "nope"
        case _:
            container[key] = copy.deepcopy(rng.choice(_ODD))


def _nodes(value: Any) -> list[tuple[Any, Any]]:
    """Every place of a JSON value, as its container and its key."""
    keys: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value)))
    found: list[tuple[Any, Any]] = []
    for key in keys:
        found.append((value, key))
        if isinstance(value[key], dict | list):
            found += _nodes(value[key])
    return found


def _has(container: Any, key: Any) -> bool:
    return key in container if isinstance(container, dict) else key < len(container)
