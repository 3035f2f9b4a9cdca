"""The gateways that share a store, as a table: for the command line.

Above: cli. Below: the contract of stores; the part of the store says who uses it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gateway.clock import SystemClock
from gateway.configuration.known_parts import KnownParts, scheme
from gateway.errors import ConfigurationError
from gateway.messages import JsonObject
from gateway.parts import find
from gateway.protocol.answers import time_text
from gateway.settings import Settings
from gateway.store import Gateway, StoreEnvironment

_HEAD: Final = ("name", "address", "version", "joined", "last heartbeat", "runs", "")


async def listed(settings: Settings, parts: KnownParts) -> Sequence[Gateway]:
    """The gateways that use the store, the first one first.

    Raises:
        ConfigurationError: the store takes one gateway.
        StoreError: it cannot be read.
    """
    store = find(parts.stores, scheme(settings.store), "store")
    if store.gateways is None:
        raise ConfigurationError(f"a {store.name}: store takes one gateway; several share an opensearch: store")
    return await store.gateways(settings.store, StoreEnvironment(SystemClock(), settings.store_directory))


def lines(gateways: Sequence[Gateway]) -> Iterator[str]:
    """The table for a terminal."""
    if not gateways:
        yield "no gateway uses the store"
        return
    rows = [_HEAD, *map(_row, gateways)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def _row(gateway: Gateway) -> tuple[str, ...]:
    return (
        gateway.name,
        gateway.address or "alone",
        gateway.version,
        time_text(gateway.joined_at) or "",
        time_text(gateway.beat_at) or "",
        str(gateway.runs),
        "first" if gateway.is_first else "",
    )


def member(gateway: Gateway) -> JsonObject:
    """The gateway for programs."""
    return {
        "id": gateway.gateway_id,
        "name": gateway.name,
        "address": gateway.address,
        "version": gateway.version,
        "joinedAt": time_text(gateway.joined_at),
        "lastHeartbeatAt": time_text(gateway.beat_at),
        "runs": gateway.runs,
        "isFirst": gateway.is_first,
    }
