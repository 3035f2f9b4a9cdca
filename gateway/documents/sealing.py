"""Encrypts members of documents (AES-GCM) under the operator's keys.

The first key encrypts and all keys decrypt, so that an operator can replace keys. A value is bound to its place (the
kind and id of its document, and its JSON pointer): it cannot be decrypted in any other place. Below: messages. Above:
the stores.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gateway.errors import ConfigurationError, UnavailableError
from gateway.messages import JsonObject, JsonValue
from gateway.wire.json_pointer import escaped, names_in

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32

_VERSION = "v1"
_NONCE_BYTES = 12
_TAKEN: Any = object()


def parse_key(text: str) -> bytes:
    """A key from its text: 32 bytes in base64, in either alphabet.

    Raises:
        ValueError: the text is not a key.
    """
    try:
        key = base64.b64decode(text.strip().encode("ascii").translate(bytes.maketrans(b"-_", b"+/")), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise ValueError("a master key is base64") from None
    if len(key) != KEY_BYTES:
        raise ValueError(f"a master key has {KEY_BYTES} bytes, and not {len(key)}")
    return key


class Sealing:
    """Encrypts with the first of some keys, and decrypts with all of them."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = {_key_id(key): key for key in keys}

    @property
    def has_key(self) -> bool:
        return bool(self._keys)

    def add(self, key: bytes) -> None:
        """Add a key after the others."""
        self._keys.setdefault(_key_id(key), key)

    def check(self, key_ids: Iterable[str], otherwise: str = "") -> None:
        """Raises ConfigurationError if one of these keys is missing. `otherwise`: what helps besides adding it."""
        if missing := [key_id for key_id in key_ids if key_id not in self._keys]:
            raise ConfigurationError(
                f"documents are sealed with keys that this gateway does not have: {', '.join(missing)}; add these keys"
                f" to 'server.master_keys'{otherwise}"
            )

    def seal(self, kind: str, document_id: str, values: Mapping[str, JsonValue]) -> dict[str, str]:
        """Each value encrypted, by its pointer."""
        key_id, key = next(iter(self._keys.items()))
        cipher = _cipher(key)
        sealed: dict[str, str] = {}
        for pointer, value in values.items():
            nonce = os.urandom(_NONCE_BYTES)
            text = cipher.encrypt(nonce, json.dumps(value).encode(), _place(kind, document_id, pointer))
            sealed[pointer] = f"{_VERSION}:{key_id}:{base64.b64encode(nonce + text).decode()}"
        return sealed

    def open(self, kind: str, document_id: str, sealed: Mapping[str, str]) -> dict[str, JsonValue]:
        """Each value decrypted, by its pointer.

        Raises:
            UnavailableError: code `sealing_key_missing`: a value's key is missing; `sealed_value_damaged`: a value was
                changed.
        """
        return {pointer: self._open(kind, document_id, pointer, text) for pointer, text in sealed.items()}

    def _open(self, kind: str, document_id: str, pointer: str, sealed: str) -> JsonValue:
        what = f"{pointer} of the {kind} {document_id!r}"
        version, _, rest = sealed.partition(":")
        key_id, _, text = rest.partition(":")
        key = self._keys.get(key_id)
        if version != _VERSION or key is None:
            raise UnavailableError(
                f"{what} cannot be opened: it was sealed with the key {key_id}, which this gateway does not have; add "
                "that key to 'server.master_keys', put back the key file, or give the value again",
                code="sealing_key_missing",
            )
        opened = _decrypted(_cipher(key), text, _place(kind, document_id, pointer))
        if opened is None:
            raise UnavailableError(
                f"{what} cannot be opened: what is stored was changed; give the value again",
                code="sealed_value_damaged",
            )
        value: JsonValue = json.loads(opened)
        return value


def key_ids_in(sealed: Mapping[str, str]) -> set[str]:
    """The ids of the keys that open these values."""
    return {text.split(":", 2)[1] for text in sealed.values()}


def _cipher(key: bytes) -> AESGCM:
    # Imported only when it is needed: it takes 9 MB of memory.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)


def _decrypted(cipher: AESGCM, text: str, place: bytes) -> bytes | None:
    """The decrypted value; None if it was changed, or belongs to another place."""
    from cryptography.exceptions import InvalidTag

    try:
        data = base64.b64decode(text, validate=True)
        return cipher.decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], place)
    except (InvalidTag, ValueError):
        return None


def taken_apart(body: JsonObject, pointers: Iterable[str]) -> tuple[JsonObject, dict[str, JsonValue]]:
    """The body without the values that the pointers name, and these values by their own pointers.

    In a list, null takes the place of each such value.
    """
    patterns = [tuple(names_in(pointer)) for pointer in pointers]
    found: dict[str, JsonValue] = {}
    return _without(body, patterns, "", found) if patterns else body, found


def put_together(body: JsonObject, values: Mapping[str, JsonValue]) -> None:
    """Put the values that `taken_apart` took out back into `body`, in place."""
    for pointer, value in values.items():
        place: Any = body
        *way, last = names_in(pointer)
        for token in way:
            place = place[int(token)] if isinstance(place, list) else place[token]
        place[int(last) if isinstance(place, list) else last] = value


def texts_in(values: Iterable[JsonValue]) -> Iterable[str]:
    """Every text in these values."""
    for value in values:
        match value:
            case str():
                yield value
            case dict():
                yield from texts_in(value.values())
            case list():
                yield from texts_in(value)
            case _:
                pass


def _without(value: Any, patterns: Sequence[tuple[str, ...]], pointer: str, found: dict[str, JsonValue]) -> Any:
    if () in patterns and value is not None:
        found[pointer] = value
        return _TAKEN
    if isinstance(value, dict):
        kept = {name: _member(inner, name, patterns, pointer, found) for name, inner in value.items()}
        return {name: inner for name, inner in kept.items() if inner is not _TAKEN}
    if isinstance(value, list):
        items = [_member(inner, str(number), patterns, pointer, found) for number, inner in enumerate(value)]
        return [None if inner is _TAKEN else inner for inner in items]
    return value


def _member(
    value: Any, token: str, patterns: Sequence[tuple[str, ...]], pointer: str, found: dict[str, JsonValue]
) -> Any:
    further = [pattern[1:] for pattern in patterns if pattern and pattern[0] in ("*", token)]
    return _without(value, further, f"{pointer}/{escaped(token)}", found) if further else value


def _key_id(key: bytes) -> str:
    """Identifies a key without revealing anything of it."""
    return hashlib.sha256(b"agui-gateway master key\0" + key).hexdigest()[:16]


def _place(kind: str, document_id: str, pointer: str) -> bytes:
    return json.dumps([_VERSION, kind, document_id, pointer]).encode()
