"""Gateways on the loopback that send requests on to each other: the real layers around an application of the test."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from starlette.types import ASGIApp

from gateway.access.authentication import AccessMiddleware, AccessRules
from gateway.clock import Clock, SystemClock
from gateway.cluster.entry import HopEntry
from gateway.cluster.hops import Hops
from gateway.cluster.signatures import HopSignatures
from gateway.metrics import HopOutcome
from gateway.server.connection import Connection
from gateway.store import Gateway, GatewayEvents
from gateway.telemetry.requests import TracedRequests
from gateway.traces import Tracer
from tests.asgi_server import serving

SECRET = b"a secret of the store, 32 bytes."


class Neighbours:
    """The gateways of one store, as one of them sees them. `addresses` are shared by all, by their ids."""

    is_shared = True
    is_first = False
    is_shared = True

    def __init__(self, own_id: str, addresses: dict[str, str]) -> None:
        self.own_id = own_id
        self.events = GatewayEvents()
        self._addresses = addresses

    async def until_sure(self) -> None:
        """They have what they hold."""

    def address_of(self, gateway_id: str) -> str | None:
        return self._addresses.get(gateway_id)

    async def all(self) -> Sequence[Gateway]:
        return ()


@dataclass
class HoppingGateway:
    """`outcomes` of the requests that met a thread of another one, in their order."""

    port: int
    outcomes: list[HopOutcome] = field(default_factory=list)


@asynccontextmanager
async def hopping(
    own_id: str,
    application: ASGIApp,
    addresses: dict[str, str],
    *,
    rules: AccessRules | None = None,
    clock: Clock | None = None,
    secret: bytes = SECRET,
    tracer: Tracer | None = None,
) -> AsyncGenerator[HoppingGateway]:
    """A gateway whose routes are `application`; it stands among the addresses while it is there."""
    clock = clock or SystemClock()
    gateways = Neighbours(own_id, addresses)
    signatures = HopSignatures(gateways, clock, secret)
    outcomes: list[HopOutcome] = []
    hops = Hops(application, gateways, signatures, clock, on_hop=outcomes.append)
    guarded: ASGIApp = AccessMiddleware(hops, rules or AccessRules())
    if tracer is not None:
        guarded = TracedRequests(guarded, tracer, ())
    try:
        async with serving(HopEntry(guarded, signatures), Connection) as port:
            addresses[own_id] = f"http://127.0.0.1:{port}"
            yield HoppingGateway(port, outcomes)
            addresses.pop(own_id, None)
    finally:
        await hops.close()
