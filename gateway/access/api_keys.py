"""Finds the owner of a key of server.api_keys, sent as a bearer or as a password.

Below: callers. Above: authentication. Keys are kept as hashes; each look-up compares all of them, so its time reveals
nothing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Collection, Iterable, Mapping

from gateway.access.callers import LOCAL_CALLER, NO_LIMITS, Caller
from gateway.access.limits import KeyLimits
from gateway.agent import Secret
from gateway.errors import UnauthenticatedError


class ApiKeys:
    """The configured keys, by their hashes, and the callers that they belong to."""

    def __init__(
        self,
        keys: Iterable[tuple[str, Secret]],
        limits: Mapping[str, KeyLimits],
        approvers: Collection[str] = (),
        administrators: Collection[str] = (),
    ) -> None:
        self._by_key: list[tuple[bytes, Caller]] = []
        self._by_password: list[tuple[bytes, Caller]] = []
        for name, key in keys:
            caller = Caller(
                name,
                name,
                limits.get(name, NO_LIMITS),
                may_approve=name in approvers,
                may_administer=name in administrators,
            )
            self._by_key.append((_digest(key.reveal()), caller))
            self._by_password.append((_digest(f"{name}:{key.reveal()}"), caller))  # no name has a colon

    def caller(self, bearer: str, *, needed: bool) -> Caller:
        """The caller of a bearer key; LOCAL_CALLER where no key is `needed`.

        Raises:
            UnauthenticatedError: no key, or an unknown one.
        """
        if not needed:
            return LOCAL_CALLER
        if not bearer:
            raise UnauthenticatedError("a key is needed; send it as 'Authorization: Bearer <key>'")
        found = _find(bearer, self._by_key)
        if found is None:
            raise UnauthenticatedError("this key is not known; send one of server.api_keys")
        return found

    def caller_by_password(self, credentials: str) -> Caller:
        """The caller of `<name>:<key>`, see basic_in.

        Raises:
            UnauthenticatedError: none were sent, or the name or the key is wrong: the error does not say which.
        """
        if not credentials:
            raise UnauthenticatedError(
                "a key is needed; send it as 'Authorization: Bearer <key>', or as the password of its name"
            )
        found = _find(credentials, self._by_password)
        if found is None:
            raise UnauthenticatedError("this name with this key is not known; send one of server.api_keys")
        return found


def basic_in(authorization: str | None) -> str:
    """The user and the password of `Authorization: Basic ...`, as `<user>:<password>`; empty where there are none
    (https://www.rfc-editor.org/rfc/rfc7617).
    """
    scheme, _, encoded = (authorization or "").partition(" ")
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(encoded.strip(), validate=True).decode()
    except (binascii.Error, ValueError):  # ValueError: characters that are not ASCII, or bytes that are not UTF-8
        return ":"  # nobody has an empty name


def _find(presented: str, known: Iterable[tuple[bytes, Caller]]) -> Caller | None:
    digest, found = _digest(presented), None
    for other, caller in known:
        if hmac.compare_digest(digest, other):
            found = caller
    return found


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
