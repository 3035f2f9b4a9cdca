"""Around the routes: a request that meets a thread of another gateway is sent there, whole, and the answer comes back.

Below: kept_request, signatures, http_client, the contract of gateways. Above: the composition root, which puts it
inside the access middleware.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.access.authentication import ADDED_HEADERS
from gateway.clock import Clock
from gateway.cluster.kept_request import KeptRequest
from gateway.cluster.signatures import HOP_HEADER, HOPPED, HopSignatures, target_of
from gateway.errors import ConflictError, ModelError, ModelErrorKind, UnavailableError
from gateway.http_client.clients import HttpCall, HttpClients, StreamTimeouts
from gateway.metrics import HopOutcome
from gateway.protocol.requests import end_with_client, read_body
from gateway.store import Gateways, HeldElsewhereError
from gateway.traces import Span, part_of

logger = logging.getLogger(__name__)

_AGAIN: Final = 3
_REFUSED_SECONDS: Final = 1  # by then its sender knows who has the thread
_LOOK_SECONDS: Final = 5.0
_NO_LIMIT: Final = 1e9  # seconds
_TIMEOUTS: Final = StreamTimeouts(connect=2.0, first_byte=_NO_LIMIT, idle=_NO_LIMIT)
_HASHED_AT_ONCE: Final = 1_000_000  # bytes, in some 2 ms
# of one connection: https://www.rfc-editor.org/rfc/rfc9110#section-7.6.1
_OF_CONNECTION: Final = frozenset(
    {"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}
)
_NOT_SENT: Final = _OF_CONNECTION | {"content-length", "expect"}
_NOT_PASSED_ON: Final = _OF_CONNECTION | ADDED_HEADERS | {"date", "server"}


class Hops:
    """An ASGI application around another, which raises HeldElsewhereError where another gateway has the thread."""

    def __init__(
        self,
        app: ASGIApp,
        gateways: Gateways,
        signatures: HopSignatures,
        clock: Clock,
        *,
        on_hop: Callable[[HopOutcome], None] = lambda outcome: None,
    ) -> None:
        self._app = app
        self._gateways = gateways
        self._signatures = signatures
        self._clock = clock
        self._http = HttpClients(clock)  # of its own: it asks gateways, whose addresses may be private, without a proxy
        self._on_hop = on_hop

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = KeptRequest(scope, receive, send)
        for left in range(_AGAIN, -1, -1):
            try:
                await self._app(request.scope, request.receive, request.send)
                return
            except HeldElsewhereError as error:
                if request.has_answer:
                    raise
                holder = error.gateway_id
            request.begin_again()
            if holder is not None:
                await self._send_on(request, holder)
                return
            self._on_hop("again" if left else "busy")
        raise ConflictError("other gateways change the thread all the time; try again in a moment", code="thread_busy")

    async def close(self) -> None:
        await self._http.close()

    async def _send_on(self, request: KeptRequest, holder: str) -> None:
        """Let the gateway that has the thread answer.

        Raises:
            UnavailableError: it gives no answer.
        """
        if request.scope["state"].get(HOPPED):
            self._on_hop("refused")
            raise _unreachable("has given the thread to another one", retry_after_seconds=_REFUSED_SECONDS)
        address = self._gateways.address_of(holder)
        if address is None:
            self._on_hop("unreachable")
            raise _unreachable("is gone")
        whole = Request(request.scope, request.receive)
        request.body = await read_body(whole)
        end_with_client(whole)  # only the routes there know whether it is a run's answer, which nobody may wait for
        try:
            with part_of(
                request.scope["state"].get("span"), "hop", {"server.address": urlsplit(address).netloc}
            ) as span:
                self._on_hop(await self._relayed(request, holder, address, span))
        except ModelError as error:  # as the HTTP client tells all failures
            reason = {"gateway": holder, "reason": error.provider_message or error.message}
            if request.has_answer:
                self._on_hop("broken")
                logger.warning("cut off an answer: the gateway that gave it has broken off", extra=reason)
                return
            self._on_hop("unreachable")
            logger.warning("the gateway that has a thread did not answer", extra=reason)
            raise _unreachable("does not answer") from error

    async def _call(self, request: KeptRequest, holder: str, address: str) -> HttpCall:
        scope, body = request.scope, request.body
        digest = hashlib.sha256(body) if len(body) <= _HASHED_AT_ONCE else await asyncio.to_thread(hashlib.sha256, body)
        own = {
            "accept-encoding": "identity",  # the answer is packed here
            "x-request-id": scope["state"]["request_id"],
            HOP_HEADER: self._signatures.header_for(scope, holder, digest.hexdigest()),
        }
        # aiohttp writes UTF-8; of a repeated header the first one counts, as in the access middleware
        asked = {name.decode("latin-1"): value.decode("utf-8", "replace") for name, value in reversed(scope["headers"])}
        headers = {name: value for name, value in asked.items() if name not in _NOT_SENT} | own
        return HttpCall(scope["method"], address.rstrip("/") + target_of(scope), headers, body)

    async def _relayed(self, request: KeptRequest, holder: str, address: str, span: Span | None) -> HopOutcome:
        """Relay the answer to its end, or until the client leaves. Raises ModelError if the other gateway breaks off,
        or is gone.
        """
        tasks = [
            asyncio.create_task(work)
            for work in (
                self._relay(request, holder, address, span),
                _client_leaves(request),
                self._holder_leaves(holder),
            )
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            return next(task for task in tasks if task in done).result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _relay(self, request: KeptRequest, holder: str, address: str, span: Span | None) -> HopOutcome:
        # no name has the call, whose body may be large: the answer may take hours
        async with self._http.stream((await self._call(request, holder, address)).part_of(span), _TIMEOUTS) as answer:
            headers = _passed_on(answer.headers)
            await request.send({"type": "http.response.start", "status": answer.status, "headers": headers})
            left = int(answer.headers.get("content-length", -1))  # -1: unknown, the body's end says it
            more = True
            while more:
                piece = await answer.receive()
                left -= len(piece)
                more = bool(piece) and left != 0
                await request.send({"type": "http.response.body", "body": piece, "more_body": more})
            await answer.settle()
        return "forwarded"

    async def _holder_leaves(self, holder: str) -> HopOutcome:
        """A machine that has lost its power says nothing; what others hear of it does."""
        while self._gateways.address_of(holder) is not None:
            await self._clock.sleep(_LOOK_SECONDS)
        raise ModelError(ModelErrorKind.NETWORK, "the gateway is gone")


async def _client_leaves(request: KeptRequest) -> HopOutcome:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    return "left"


def _passed_on(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """The headers of an answer without those that are of a connection, or are added here, too."""
    return [
        (name.lower().encode("ascii"), value.encode("utf-8", "surrogateescape"))
        for name, value in headers.items()
        if name.lower() not in _NOT_PASSED_ON
    ]


def _unreachable(why: str, *, retry_after_seconds: int | None = None) -> UnavailableError:
    return UnavailableError(
        f"another gateway has this thread, and it {why}; try again in a moment",
        code="gateway_unreachable",
        retry_after_seconds=retry_after_seconds,
    )
