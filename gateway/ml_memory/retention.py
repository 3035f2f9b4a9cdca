"""A container's retention policy: how long its memories stay, and how many.

Below: fields. Above: memory_containers, and the protocol that applies it.
"""

from __future__ import annotations

from typing import Final

from gateway.messages import JsonObject
from gateway.protocol.fields import Fields

_LIMITS: Final = {
    "sessions": ("retention_days", "max_count"),
    "long-term": ("retention_days", "max_count"),
    "history": ("max_count",),
}


def read_policy(fields: Fields) -> JsonObject:
    """The policy in a body, as it is stored: the limits that were given, by the type of memory."""
    policy: JsonObject = {}
    for name in fields.value:
        if name not in _LIMITS:
            fields.wrong(name, _unknown_type(name))
    for name, known in _LIMITS.items():
        if (limits := fields.inner(name)) is not None:
            policy[name] = _read_limits(limits, name, known)
    return policy


def _read_limits(limits: Fields, memory_type: str, known: tuple[str, ...]) -> JsonObject:
    for name in limits.value:
        if name not in known:
            limits.wrong(name, f"{name} is not supported for {memory_type} memory type; supported: {', '.join(known)}")
    return {name: value for name in known if (value := limits.number(name, least=1)) is not None}


def _unknown_type(name: str) -> str:
    supported = f"supported types: {', '.join(_LIMITS)}"
    if name == "working":
        return f"retention_policy is not supported for working memory type, which goes with its session; {supported}"
    return f"retention_policy has no memory type {name[:64]!r}; {supported}"
