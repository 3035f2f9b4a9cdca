"""The one gateway that uses a prefix: a document that it writes again and again.

Below: sources. Above: the store. A second gateway that sees the document change is refused; once it has not changed for
FREE_SECONDS, the gateway that wrote it is gone, and its place is free. Only the changes count: clocks may differ. A
gateway that cannot reach the cluster for a while keeps its place unless another one has taken it meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from contextlib import suppress
from typing import Final

from gateway.errors import ConfigurationError, StoreError
from gateway.messages import JsonObject
from gateway.opensearch.bulks import Item, Place
from gateway.opensearch.cluster import Cluster
from gateway.opensearch.ids import new_token
from gateway.opensearch.indices import STATE
from gateway.opensearch.sources import Found, Key, Sources, documents_of, write
from gateway.records import dump_json, load_json

logger = logging.getLogger(__name__)

FREE_SECONDS: Final = 10.0
"""How long a place is kept for a gateway that no longer writes."""
BEAT_SECONDS: Final = 2.0
_LOOK_SECONDS = 0.5
_LOST = "another gateway has taken over this store's prefix; restart this one"
_PLACE: Final = Key(STATE, "gateway")


def own_name() -> str:
    """The name by which another gateway's operator finds this process."""
    return f"{socket.gethostname()} (process {os.getpid()})"


def holder_path(cluster: Cluster) -> str:
    """Where the document is of the gateway that uses the prefix."""
    return f"/{cluster.index(_PLACE.name)}/_doc/{_PLACE.document_id}"


def name_of(document: JsonObject) -> str | None:
    """The name of the gateway in this answer; it may be gone. None: there is none."""
    source = document.get("_source")
    if not isinstance(source, dict):
        return None
    name: str = load_json(str(source["record"]).encode())["name"]
    return name


class Membership:
    """This gateway's place. `free_seconds` as FREE_SECONDS."""

    def __init__(self, sources: Sources, free_seconds: float = FREE_SECONDS) -> None:
        self.sources = sources
        self._free_seconds = free_seconds
        self._place: Place | None = None
        self._token = ""
        self._beating: asyncio.Task[None] | None = None
        self._last_beat = 0.0
        self._failure = StoreError("the OpenSearch cluster does not answer")
        self.is_lost = False

    async def join(self) -> None:
        """Take the place; waits until that of a gateway that was killed is free.

        Raises:
            ConfigurationError: another gateway has it.
            StoreError: the cluster cannot be reached.
        """
        found = await self._free_place()
        self.is_lost = False
        self._token = new_token()
        place = await self._write("create" if found is None else "index", None if found is None else found.place)
        if place is None:
            raise _taken(self.sources, await self.sources.read_one(_PLACE))
        self._place = place
        self._note_beat()
        self._beating = asyncio.create_task(self._keep_beating(), name="membership")

    async def leave(self) -> None:
        """Give the place up."""
        if self._beating is not None:
            self._beating.cancel()
            with suppress(asyncio.CancelledError):
                await self._beating
            self._beating = None
        if self._place is not None and not self.is_lost:
            with suppress(StoreError):
                await self.sources.write_one(
                    Item("delete", _PLACE.name, _PLACE.document_id, None, self._place), seconds=BEAT_SECONDS
                )
        self._place = None

    def check(self) -> None:
        """Raises StoreError if the cluster has not confirmed the place lately, or another gateway has it."""
        if self.is_lost:
            raise StoreError(_LOST)
        if asyncio.get_running_loop().time() - self._last_beat > 2 * BEAT_SECONDS:
            raise self._failure

    async def _free_place(self) -> Found | None:
        """The document of a gateway that is gone; None: there is none."""
        first = found = await self.sources.read_one(_PLACE)
        loop = asyncio.get_running_loop()
        until = loop.time() + self._free_seconds
        while found is not None and loop.time() < until:
            if first is None or found.place != first.place:
                raise _taken(self.sources, found)
            await asyncio.sleep(_LOOK_SECONDS)
            found = await self.sources.read_one(_PLACE)
        return found

    async def _keep_beating(self) -> None:
        while not self.is_lost:
            await asyncio.sleep(BEAT_SECONDS)
            await self.beat()

    async def beat(self) -> None:
        """Write the document again."""
        try:
            place = await self._write("index", self._place)
        except StoreError as error:
            self._failure = error
            logger.warning("the store's place could not be confirmed", extra={"code": error.code})
            return
        if place is None:
            self.is_lost = True
            self.sources.bulks.refusal = StoreError(_LOST)
            logger.error("another gateway has taken over this store's prefix: nothing is written any more")
            return
        self._place = place
        self._note_beat()

    def stop_beating(self) -> None:
        """Write the document no more, as a killed process does."""
        if self._beating is not None:
            self._beating.cancel()

    def _note_beat(self) -> None:
        self._last_beat = asyncio.get_running_loop().time()

    async def _write(self, action: str, expected: Place | None) -> Place | None:
        """Write the document. None: somebody else has written it."""
        members: JsonObject = {"kind": "gateway", "beat": new_token()}
        source, _ = documents_of(_PLACE, dump_json({"name": own_name()}), members, self._token)
        item = write("create" if action == "create" else "index", _PLACE, source, expected)
        done = await self.sources.write_one(item, seconds=BEAT_SECONDS)
        if done.place is not None:
            return done.place
        found = await self.sources.read_one(_PLACE)  # the answer to an earlier try may have been lost
        return found.place if found is not None and found.token == self._token else None


def _taken(sources: Sources, found: Found | None) -> ConfigurationError:
    name = "another gateway" if found is None else f"the gateway {name_of({'_source': {**found.source}})}"
    prefix = sources.cluster.address.prefix
    return ConfigurationError(
        f"the prefix {prefix!r} is used by {name}; stop it, or give this one another prefix in the store's URL"
    )
