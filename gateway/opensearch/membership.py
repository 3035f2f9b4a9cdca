"""The gateways that use a prefix: who is there, who is gone, and whether this one still counts.

Below: sources. Above: the store. Each gateway has a document, its heartbeat, that it writes again and again. The list
of all is one more document, which changes when one comes or goes. A gateway whose heartbeat has not changed for the
lease is gone: another one marks the heartbeat, which a gateway that was only paused finds when it writes it again.

Clocks may differ, so only changes count, each by the observer's own clock, and only while the cluster acknowledges the
observer's own heartbeats: an outage of the cluster lasts as long for all, and kills nobody. A gateway itself counts
from the moment at which it sent its last acknowledged heartbeat. So it knows that its lease is over before any other
can know it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from gateway import __version__
from gateway.errors import ConfigurationError, StoreError
from gateway.messages import JsonObject
from gateway.opensearch.bulks import Place
from gateway.opensearch.cluster import Answer, Cluster
from gateway.opensearch.ids import digest, new_token
from gateway.opensearch.indices import STATE
from gateway.opensearch.sources import Found, Key, Sources, documents_of
from gateway.records import dump_json, load_json
from gateway.store import Gateway, GatewayEvents

logger = logging.getLogger(__name__)

LEASE_SECONDS: Final = 10.0
"""How long a gateway counts that is no longer heard of."""
BEATS_A_LEASE: Final = 5
_OWN_SHARE = 0.8
"""The share of its lease that a gateway itself counts on: its timers may be late."""
_LOOK_SECONDS = 0.5
_ALL: Final = Key(STATE, "gateways")


def own_name() -> str:
    """The name by which another gateway's operator finds this process."""
    return f"{socket.gethostname()} (process {os.getpid()})"


def heartbeat_key(gateway_id: str) -> Key:
    return Key(STATE, digest("gateway", gateway_id))


def list_path(cluster: Cluster) -> str:
    """Where the document is that names all gateways of the prefix."""
    return f"/{cluster.index(_ALL.name)}/_doc/{_ALL.document_id}"


@dataclass(frozen=True, slots=True)
class _Heard:
    """A gateway's heartbeat, and when this process first saw it so."""

    gateway: Gateway
    place: Place
    since: float


async def read_gateways(sources: Sources) -> list[Gateway]:
    """The gateways that use the prefix, or did when they were killed."""
    listed = await sources.read_one(_ALL)
    return [gateway for gateway, _ in await _heartbeats(sources, _ids_in(listed))]


class Membership:
    """This gateway and the others (see store.Gateways). Without an `address` it takes the prefix alone. `on_lost` is
    called once this gateway was taken for dead.
    """

    on_lost: Callable[[], Awaitable[None]]

    def __init__(
        self,
        sources: Sources,
        address: str | None = None,
        lease_seconds: float = LEASE_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.sources = sources
        self.events = GatewayEvents()
        self.own_id = ""
        self.is_lost = False
        self._address = address
        self._lease_seconds = lease_seconds
        self._clock = clock
        self._joined_at = 0.0
        self._place: Place | None = None
        self._lease_until = 0.0  # by the event loop's clock
        self._heard: dict[str, _Heard] = {}  # the others that are there
        self._gone: set[str] = set()  # those that this process knows to be gone
        self._first = ""
        self._have_left = False  # others are gone, and `on_left` has not ended yet
        self._found_left = False  # this gateway has met such a run
        self._leaving: asyncio.Task[None] | None = None
        self._telling: asyncio.Task[None] | None = None
        self._beaten = asyncio.Event()
        self._beating: asyncio.Task[None] | None = None
        self._failure = StoreError("the OpenSearch cluster does not answer")

    @property
    def is_first(self) -> bool:
        return self._first == self.own_id and self.may_act

    @property
    def is_shared(self) -> bool:
        """Whether other gateways may use the prefix."""
        return self._address is not None

    @property
    def may_act(self) -> bool:
        return not self.is_lost and asyncio.get_running_loop().time() < self._lease_until

    async def until_sure(self) -> None:
        while not self.may_act:
            self._beaten.clear()
            await self._beaten.wait()

    @property
    def beat_seconds(self) -> float:
        """How often it is heard of."""
        return self._lease_seconds / BEATS_A_LEASE

    def address_of(self, gateway_id: str) -> str | None:
        heard = self._heard.get(gateway_id)
        return None if heard is None else heard.gateway.address

    async def all(self) -> Sequence[Gateway]:
        return await read_gateways(self.sources)

    def note_left(self) -> None:
        """Have what gateways that are gone left ended at the next heartbeat: a run of one was met. Its begin may have
        come late, after the others had looked.
        """
        self._found_left = True

    async def is_there(self, gateway_id: str) -> bool:
        """Whether this is another gateway that is there."""
        if not (gateway_id and self.is_shared) or gateway_id == self.own_id or gateway_id in self._gone:
            return False
        if gateway_id not in self._heard:  # it has just come, or is gone for long
            await self._look((gateway_id,))
        return gateway_id in self._heard

    # --- coming and going

    async def join(self) -> None:
        """Be one of the gateways; waits until the place of one that was killed is free, if it takes the prefix alone.

        Raises:
            ConfigurationError: another gateway has the prefix alone, or is there and this one would be alone.
            StoreError: the cluster cannot be reached.
        """
        self.own_id = new_token()
        self.is_lost = False
        self._joined_at = self._clock()
        self._place = None
        while True:
            listed = await self.sources.read_one(_ALL)
            try:
                stay = await self._make_room(_ids_in(listed))
            except ConfigurationError:
                await self._delete_own()
                raise
            if not await self._send_beat():
                raise StoreError("the gateway's heartbeat could not be written")
            if await self._list([*stay, self.own_id], listed):
                break
        self._first = (*stay, self.own_id)[0]
        self._have_left = False
        self._beating = asyncio.create_task(self._keep_beating(), name="membership")

    async def come_back(self) -> None:
        """Join as another gateway, as soon as that can be done."""
        while True:
            try:
                await self.join()
                self.note_left()  # what it had begun itself
                return
            except (StoreError, ConfigurationError) as error:
                logger.warning("the gateway cannot come back yet", extra={"code": error.code})
                await asyncio.sleep(self.beat_seconds)

    async def _make_room(self, ids: Sequence[str]) -> list[str]:
        """Those of these gateways that may stay."""
        stay: list[str] = []
        for gateway, found in await _heartbeats(self.sources, ids):
            if self._address is not None and gateway.address is not None:
                stay.append(gateway.gateway_id)  # if it is gone, it is found to be so while this one serves
                continue
            await self._until_free(gateway, found)
            await self._mark(gateway, found.place)
        return stay

    async def _until_free(self, gateway: Gateway, first: Found) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + self._lease_seconds
        key = heartbeat_key(gateway.gateway_id)
        while loop.time() < until:
            await asyncio.sleep(_LOOK_SECONDS)
            found = await self.sources.read_one(key)
            if found is None:
                return
            if found.place != first.place:
                raise _taken(self.sources, gateway)

    async def leave(self) -> None:
        """Be no longer one of the gateways. What it holds is another one's to end."""
        await self._stop()
        self._lease_until = 0.0
        with suppress(StoreError):
            await self._delete_own()
            while not await self._without(self.own_id):
                pass

    async def _delete_own(self) -> None:
        place, self._place = self._place, None
        if place is not None and not self.is_lost:
            await self._request("DELETE", heartbeat_key(self.own_id), _where(place))

    async def _stop(self) -> None:
        for task in (self._beating, self._leaving, self._telling):
            if task is not None and task is not asyncio.current_task():
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        self._beating = self._leaving = self._telling = None

    def check(self) -> None:
        """Raises StoreError if the cluster has not acknowledged a heartbeat lately, or another gateway took this one
        for dead.
        """
        if self.is_lost:
            raise StoreError("this gateway was taken for dead, and comes back as another one")
        if not self.may_act:
            raise self._failure

    # --- the heart

    async def _keep_beating(self) -> None:
        while not self.is_lost:
            await asyncio.sleep(self.beat_seconds)
            await self.beat()
        await self.on_lost()

    async def beat(self) -> None:
        """Write the heartbeat, then look at those of the others."""
        try:
            if not await self._send_beat():
                self.is_lost = True
                logger.error("another gateway took this one for dead: it gives up what it had")
                return
            await self._look_around()
        except StoreError as error:
            self._failure = error
            self._heard_anew()
            logger.warning("this gateway's heartbeat could not be stored", extra={"code": error.code})
        else:
            if self.is_shared and self._telling is None:
                self._telling = asyncio.create_task(self._tell(), name="beat")

    async def _tell(self) -> None:
        """Call those who want to know of each beat: not within it, because the next one must not wait for them."""
        try:
            for called in self.events.on_beat:
                await called()
        except Exception as error:
            code = error.code if isinstance(error, StoreError) else "internal_error"
            logger.warning("what other gateways changed is not known yet", extra={"code": code}, exc_info=error)
        finally:
            self._telling = None

    def stop_beating(self) -> None:
        """Write the heartbeat no more, as a killed process does."""
        if self._beating is not None:
            self._beating.cancel()

    def _heard_anew(self) -> None:
        """Count from now on: while the cluster is silent, nobody can be heard of."""
        now = asyncio.get_running_loop().time()
        self._heard = {key: _Heard(each.gateway, each.place, now) for key, each in self._heard.items()}

    async def _send_beat(self) -> bool:
        """Write the heartbeat. False: another gateway has deleted it."""
        loop = asyncio.get_running_loop()
        was_due, token = self._lease_until, new_token()
        source, _ = documents_of(_ALL, dump_json(self._told()), {"kind": "gateway"}, token)
        key = heartbeat_key(self.own_id)
        while True:
            sent_at, expected = loop.time(), self._place
            self._place = _place_in(await self._request("PUT", key, _where(expected), source))
            if self._place is not None:
                break
            found = await self.sources.read_one(key)  # an earlier one may have come late, or its answer was lost
            if found is None:
                return False
            self._place = found.place
            if found.token == token:
                break
        if expected is not None and loop.time() > was_due:
            self._heard_anew()  # it was silent itself, so it may have missed the others
        self._lease_until = sent_at + _OWN_SHARE * self._lease_seconds
        self._beaten.set()
        return True

    def _told(self) -> JsonObject:
        """What the heartbeat says."""
        return {
            "id": self.own_id,
            "name": own_name(),
            "address": self._address,
            "version": __version__,
            "joined_at": self._joined_at,
            "beat_at": self._clock(),
            "runs": self.events.runs(),
        }

    async def _look_around(self) -> None:
        """Learn who has come and who is gone."""
        ids = _ids_in(await self.sources.read_one(_ALL))
        if self.own_id not in ids:  # a list that was made before this gateway came
            await self._with_own()
        await self._look([each for each in ids if each != self.own_id])
        unlisted = [each for each in self._heard if each not in ids]
        now = asyncio.get_running_loop().time()
        silent = [key for key, each in self._heard.items() if now - each.since > self._lease_seconds]
        for gateway_id in silent:
            heard = self._heard[gateway_id]
            if await self._mark(heard.gateway, heard.place):
                logger.warning("a gateway is gone", extra={"gateway": heard.gateway.name})
        for gateway_id in {*unlisted, *silent, *(each for each in ids if each in self._gone)}:
            self._note_gone(gateway_id)
            await self._without(gateway_id)
        self._first = next((each for each in ids if each == self.own_id or each in self._heard), self.own_id)
        if (self._found_left or (self._have_left and self.is_first)) and self._leaving is None:
            self._leaving = asyncio.create_task(self._end_what_others_left(), name="takeover")

    async def _end_what_others_left(self) -> None:
        try:
            self._have_left = self._found_left = False
            if self.events.on_left is not None:
                await self.events.on_left()
        except Exception as error:
            self._have_left = True
            code = error.code if isinstance(error, StoreError) else "internal_error"
            logger.warning("what other gateways left is not ended yet", extra={"code": code}, exc_info=error)
        finally:
            self._leaving = None

    async def _look(self, ids: Sequence[str]) -> None:
        """Look at these heartbeats."""
        now = asyncio.get_running_loop().time()
        found = {gateway.gateway_id: (gateway, each) for gateway, each in await _heartbeats(self.sources, ids)}
        for gateway_id in ids:
            if gateway_id not in found:
                self._note_gone(gateway_id)
                continue
            gateway, document = found[gateway_id]
            heard = self._heard.get(gateway_id)
            if heard is None or heard.place != document.place:
                self._heard[gateway_id] = _Heard(gateway, document.place, now)

    def _note_gone(self, gateway_id: str) -> None:
        self._heard.pop(gateway_id, None)
        self._gone.add(gateway_id)
        self._have_left = True

    async def _mark(self, gateway: Gateway, place: Place) -> bool:
        """Delete the heartbeat of a gateway that is gone, unless it has changed."""
        answer = await self._request("DELETE", heartbeat_key(gateway.gateway_id), _where(place))
        return answer.status < 400

    # --- the list of all

    async def _with_own(self) -> None:
        listed = await self.sources.read_one(_ALL)
        await self._list([*_ids_in(listed), self.own_id], listed)

    async def _without(self, gateway_id: str) -> bool:
        """Take a gateway out of the list. False: somebody else has changed the list."""
        listed = await self.sources.read_one(_ALL)
        ids = _ids_in(listed)
        return gateway_id not in ids or await self._list([each for each in ids if each != gateway_id], listed)

    async def _list(self, ids: Sequence[str], listed: Found | None) -> bool:
        token = new_token()
        source, _ = documents_of(_ALL, dump_json([*ids]), {"kind": "gateways"}, token)
        if (await self._request("PUT", _ALL, _where(None if listed is None else listed.place), source)).status < 400:
            return True
        found = await self.sources.read_one(_ALL)
        return found is not None and found.token == token

    async def _request(self, method: str, key: Key, where: str, source: bytes | None = None) -> Answer:
        """Write one of these documents: not by the shared bulks, which wait while this gateway may not act."""
        cluster = self.sources.cluster
        path = f"/{cluster.index(key.name)}/_doc/{key.document_id}?{where}"
        body = None if source is None else load_json(source)
        return await cluster.request(method, path, body, seconds=self._lease_seconds / 2, allowed=(404, 409))


async def _heartbeats(sources: Sources, ids: Sequence[str]) -> list[tuple[Gateway, Found]]:
    """Those of these gateways that have a heartbeat."""
    found = await sources.read([heartbeat_key(each) for each in ids])
    there = [load_json(each.record) for each in found if each is not None]
    first = there[0]["id"] if there else ""
    gateways = [_gateway(each, is_first=each["id"] == first) for each in there]
    return list(zip(gateways, [each for each in found if each is not None], strict=True))


def _gateway(told: Mapping[str, Any], *, is_first: bool) -> Gateway:
    return Gateway(
        told["id"],
        told["name"],
        told["address"],
        told["version"],
        told["joined_at"],
        told["beat_at"],
        told["runs"],
        is_first,
    )


def _ids_in(listed: Found | None) -> list[str]:
    return [] if listed is None else load_json(listed.record)


def _where(expected: Place | None) -> str:
    """The condition of a write: the state that the document must have; None: it must not be there."""
    if expected is None:
        return "op_type=create"
    return f"if_seq_no={expected.seq_no}&if_primary_term={expected.primary_term}"


def _place_in(answer: Answer) -> Place | None:
    if answer.status >= 400:
        return None
    body: Any = answer.body
    return Place(body["_seq_no"], body["_primary_term"])


def _taken(sources: Sources, gateway: Gateway) -> ConfigurationError:
    prefix = sources.cluster.address.prefix
    return ConfigurationError(
        f"the prefix {prefix!r} is used by the gateway {gateway.name}; stop it, give this one another prefix in the"
        " store's URL, or let both serve it with 'cluster.advertise'"
    )
