"""A visitor's token: identifies a visitor; the gateway signs it, the browser keeps it.

    vt1~KEY-NAME~VISITOR~ISSUED~EXPIRES~MAC

VISITOR is 128 random bits as 32 hex digits; ISSUED and EXPIRES are Unix seconds in decimal; MAC is HMAC-SHA256 of
everything before the last `~`, in unpadded base64url. A token has exactly one valid spelling. The visitor may read all
of it; anybody else must not have it. Above: visitors.
"""

from __future__ import annotations

import base64
import hmac
import os
from dataclasses import dataclass

TOKEN_PREFIX = "vt1~"
_LONGEST = 256


@dataclass(frozen=True, slots=True)
class VisitorToken:
    """A token's content. `key_name` is the publishable key's; times are Unix seconds."""

    key_name: str
    visitor_id: str
    issued_at: int
    expires_at: int


def new_visitor_id() -> str:
    return os.urandom(16).hex()


def write_token(token: VisitorToken, secret: bytes) -> str:
    """The token as text. A key's name has no `~`."""
    signed = f"{TOKEN_PREFIX}{token.key_name}~{token.visitor_id}~{token.issued_at}~{token.expires_at}"
    return f"{signed}~{_mac(signed, secret)}"


def read_token(text: str, secret: bytes) -> VisitorToken | None:
    """The token's content, expired or not; None if it was not written with this secret."""
    if len(text) > _LONGEST or not text.isascii():
        return None
    signed, _, mac = text.rpartition("~")
    if not hmac.compare_digest(mac, _mac(signed, secret)):
        return None
    _, key_name, visitor_id, issued_at, expires_at = signed.split("~")
    return VisitorToken(key_name, visitor_id, int(issued_at), int(expires_at))


def _mac(signed: str, secret: bytes) -> str:
    digest = hmac.digest(secret, signed.encode("ascii"), "sha256")
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")
