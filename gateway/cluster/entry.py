"""Around everything else: a request that another gateway has sent on comes in as its client sent it.

Below: signatures. Above: the composition root. The client's address counts for limits and logs, its scheme for URLs.
Who the caller is, the gateway finds out itself: the headers are the client's.
"""

from __future__ import annotations

import hashlib
import logging

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.cluster.signatures import HOPPED, HopSignatures, has_hop, without_hop
from gateway.errors import ForbiddenError
from gateway.protocol.requests import end_with_client
from gateway.wire.mounts import below_mount

logger = logging.getLogger(__name__)


class HopEntry:
    """An ASGI application around another."""

    def __init__(self, app: ASGIApp, signatures: HopSignatures) -> None:
        self._app = app
        self._signatures = signatures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and has_hop(scope):
            scope, receive = self._as_sent(scope, receive)
        await self._app(scope, receive, send)

    def _as_sent(self, scope: Scope, receive: Receive) -> tuple[Scope, Receive]:
        """The request as its client sent it. A header that is not right is taken away, too."""
        if scope.get("root_path") or not scope.get("raw_path"):
            scope = below_mount(scope)
        scope.setdefault("state", {})[HOPPED] = True
        hop, scope = self._signatures.hop_of(scope), without_hop(scope)
        if hop is None:
            address, _ = scope.get("client") or ("", 0)
            logger.warning("ignored a hop's header that no gateway of this store sent now", extra={"from": address})
            return scope, receive
        end_with_client(Request(scope))  # a gateway whose client has left closes its connection
        return {**scope, "client": hop.client, "scheme": hop.scheme}, _expecting(receive, hop.body_digest)


def _expecting(receive: Receive, body_digest: str) -> Receive:
    """A `receive` that refuses a body with another digest, before its last part is given."""
    found = hashlib.sha256()

    async def receive_expected() -> Message:
        message = await receive()
        if message["type"] == "http.request":
            found.update(message.get("body", b""))
            if not message.get("more_body", False) and found.hexdigest() != body_digest:
                raise ForbiddenError("the body is not the one that a gateway has signed; send the request again")
        return message

    return receive_expected
