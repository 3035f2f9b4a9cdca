"""Reasoning as clients keep it: `encrypted_content`, signed, so that only reasoning of this gateway comes back to a
model.

Below: the protocols' environment, whose store keeps the key. Above: the starts of runs, and stored responses. An
envelope names the provider and the model that its data is for; nobody else is ever sent it (history.model_view). It is
the same every time, as a renderer's frames have to be.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import os
from typing import Final

import orjson

from gateway.documents.document import DocumentKind
from gateway.messages import Opaque, ReasoningBlock
from gateway.protocol import ProtocolEnvironment

_SECRET: Final = "reasoning envelopes"
_ID: Final = "openai_api"
_EARLIER_KEY: Final = DocumentKind("reasoning key", {}, sealed=("/key",))
"""The document in which earlier versions of the gateway kept the key."""
_KEY_BYTES: Final = 32
_SIGNATURE_BYTES: Final = 16
_VERSION: Final = "r1"


class ReasoningEnvelopes:
    """Seals reasoning for its owner, and opens what that owner sends back."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def seal(self, owner: str, text: str, opaque: Opaque | None) -> str:
        """The envelope of a reasoning."""
        data = [text] if opaque is None else [text, opaque.provider, opaque.model, opaque.kind, opaque.value]
        inside = base64.urlsafe_b64encode(orjson.dumps(data)).decode()
        return f"{_VERSION}.{inside}.{self._signature(owner, inside)}"

    def opened(self, owner: str, sealed: str) -> ReasoningBlock | None:
        """The reasoning in an envelope; None: the envelope is another owner's, or was changed."""
        version, _, rest = sealed.partition(".")
        inside, _, signature = rest.partition(".")
        if version != _VERSION or not hmac.compare_digest(
            self._signature(owner, inside).encode(), signature.encode(errors="replace")
        ):
            return None
        try:
            text, *opaque = orjson.loads(base64.urlsafe_b64decode(inside))
        except (binascii.Error, ValueError):
            return None
        return ReasoningBlock(text, opaque=Opaque(*opaque) if opaque else None)

    def _signature(self, owner: str, inside: str) -> str:
        said = b"\0".join((owner.encode(errors="replace"), inside.encode(errors="replace")))
        digest = hashlib.blake2b(said, digest_size=_SIGNATURE_BYTES, key=self._key).digest()
        return base64.urlsafe_b64encode(digest).decode()


class EnvelopeKey:
    """The store's key for envelopes: `environment.shared(EnvelopeKey)`."""

    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._environment = environment
        self._documents = environment.own_documents()
        self._envelopes: ReasoningEnvelopes | None = None
        self._reading = asyncio.Lock()

    async def envelopes(self) -> ReasoningEnvelopes:
        """Made with the key, which is made when it is needed first.

        Raises:
            StoreError, UnavailableError: it cannot be read or kept.
        """
        async with self._reading:
            if self._envelopes is None:
                self._envelopes = ReasoningEnvelopes(await self._key())
            return self._envelopes

    async def _key(self) -> bytes:
        earlier = await self._documents.get(_EARLIER_KEY, _ID, unsealed=True)
        fresh = os.urandom(_KEY_BYTES) if earlier is None else bytes.fromhex(str(earlier.body["key"]))
        key = await self._environment.keep_secret(_SECRET, fresh)
        if earlier is not None:
            await self._documents.delete(_EARLIER_KEY, _ID)
        return key
