"""The header of a request that one gateway sends on to another: who asked, signed with a secret of their store.

    agui-gateway-hop: 1;TIME;SCHEME;HOST;PORT;SENDER;RECEIVER;BODY;MAC

TIME is Unix seconds. SCHEME, HOST and PORT are the client's connection; HOST is percent-encoded, and empty if it is
unknown. SENDER and RECEIVER are ids of gateways. BODY is the SHA-256 of the body, in hex. MAC is HMAC-SHA256, in hex,
of all before it, the method, and the path with its query. Above: hops, which writes it; entry, which reads it.
"""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

from starlette.types import Scope

from gateway.clock import Clock
from gateway.store import Gateways

HOP_HEADER: Final = "agui-gateway-hop"
HOPPED: Final = "hopped"
"""The member of a request's state that is set for one that came with this header: it is not sent on again."""

_VERSION: Final = "1"
_SECONDS: Final = 30
"""How much the clocks of two gateways may differ, the way of the request included."""
_LONGEST: Final = 4096
_UNCHANGED: Final = "!$%&'()*+,/:;=?@"
_NO_CODE: Final = re.compile("%(?![0-9A-Fa-f]{2})")
_NAME: Final = HOP_HEADER.encode("ascii")


@dataclass(frozen=True, slots=True)
class Hop:
    """What the header says. `client`: the client's address and port; None: unknown. `body_digest`: SHA-256, in hex."""

    sent_at: int
    scheme: str
    client: tuple[str, int] | None
    sender: str
    receiver: str
    body_digest: str


class HopSignatures:
    """Signs requests for other gateways, and knows theirs. `secret` is the store's; it is set once the store is open,
    and until then no request is known.
    """

    def __init__(self, gateways: Gateways, clock: Clock, secret: bytes = b"") -> None:
        self.secret = secret
        self._gateways = gateways
        self._clock = clock

    def header_for(self, scope: Scope, receiver: str, body_digest: str) -> str:
        """The header of a request that is sent on to another gateway."""
        client, sent_at = scope.get("client"), int(self._clock.now())
        hop = Hop(sent_at, scope["scheme"], client, self._gateways.own_id, receiver, body_digest)
        return write_hop(hop, scope["method"], target_of(scope), self.secret)

    def hop_of(self, scope: Scope) -> Hop | None:
        """What the header of a request says; None: no other gateway has sent it for this request, to this one, now."""
        value = next(value for name, value in scope["headers"] if name == _NAME)
        hop = read_hop(value.decode("latin-1"), scope["method"], target_of(scope), self.secret) if self.secret else None
        if hop is None or hop.receiver != self._gateways.own_id or abs(self._clock.now() - hop.sent_at) > _SECONDS:
            return None
        return hop


def has_hop(scope: Scope) -> bool:
    """Whether a request has the header."""
    return any(name == _NAME for name, _ in scope["headers"])


def without_hop(scope: Scope) -> Scope:
    """The request without the header."""
    return {**scope, "headers": [field for field in scope["headers"] if field[0] != _NAME]}


def target_of(scope: Scope) -> str:
    """A request's path with its query, in a spelling that no HTTP client changes; both mean what was sent."""
    path = _spelled(scope["raw_path"]).replace("/.", "/%2E")  # '..' would be taken for a step up
    query: bytes = scope["query_string"]
    return f"{path}?{_spelled(query)}" if query else path


def _spelled(text: bytes) -> str:
    return _NO_CODE.sub("%25", quote(text, safe=_UNCHANGED))


def write_hop(hop: Hop, method: str, target: str, secret: bytes) -> str:
    """The header's value. `target` is as `target_of` gives it."""
    host, port = hop.client or ("", 0)
    fields = (_VERSION, hop.sent_at, hop.scheme, quote(host, safe=":"), port, hop.sender, hop.receiver, hop.body_digest)
    signed = ";".join(map(str, fields))
    return f"{signed};{_mac(signed, method, target, secret)}"


def read_hop(text: str, method: str, target: str, secret: bytes) -> Hop | None:
    """What the value says; None: it was not written with this secret, for this request."""
    signed, _, mac = text.rpartition(";")
    if len(text) > _LONGEST or not text.isascii() or not hmac.compare_digest(mac, _mac(signed, method, target, secret)):
        return None
    version, sent_at, scheme, host, port, sender, receiver, body_digest = signed.split(";")
    if version != _VERSION:
        return None
    return Hop(int(sent_at), scheme, (unquote(host), int(port)) if host else None, sender, receiver, body_digest)


def _mac(signed: str, method: str, target: str, secret: bytes) -> str:
    return hmac.digest(secret, f"{signed}\n{method}\n{target}".encode(), "sha256").hex()
