"""The rights and limits of callers, and their documents; and the parts of the gateway that a protocol uses.

Below: the runner, access. Above: agent_access.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Final

from starlette.requests import Request

from gateway.access.callers import Caller
from gateway.access.limits import Meter
from gateway.access.visitors import Visitors
from gateway.documents.document import DocumentKind
from gateway.documents.owned import OwnedDocuments
from gateway.errors import ForbiddenError
from gateway.http_client.clients import HttpClients
from gateway.http_client.endpoint_policy import EndpointPolicy
from gateway.http_client.fetcher import Fetcher
from gateway.messages import JsonObject
from gateway.owners import GATEWAY
from gateway.protocol.protocol_settings import ProtocolSettings, SettingsT
from gateway.protocol.time_sharing import TimeSharing
from gateway.runner import Admission, Runner
from gateway.sse import OpenStreams
from gateway.store import Gateways, HeldElsewhereError, RunRecord

_MANY: Final = 1_000  # items of a request: a stage of it takes some 5 ms for so many


class CallerAccess:
    """The rights and limits of callers, and the documents of each."""

    __slots__ = (
        "_configured_url",
        "_open_to_all",
        "_runner",
        "_runs",
        "_settings",
        "_shared",
        "endpoints",
        "fetcher",
        "needs_key",
        "sections",
        "streams",
        "time",
        "visitors",
    )

    def __init__(
        self,
        runner: Runner,
        streams: OpenStreams,
        runs: Meter,
        *,
        visitors: Visitors | None = None,
        configured_url: str | None = None,
        needs_key: bool = False,
        open_to_all: bool = False,
        endpoints: EndpointPolicy | None = None,
        fetcher: Fetcher | None = None,
        sections: Mapping[str, JsonObject] | None = None,
        settings: ProtocolSettings | None = None,
        time: TimeSharing | None = None,
    ) -> None:
        """`runs` counts them. `needs_key`: every caller has one. `open_to_all`: other machines' users may be among the
        callers without a key. `endpoints`: which ones callers' agents may reach. `fetcher` calls URLs that callers
        name, under the fetch policy. `sections` of the configuration file belong to protocols; `settings` are its
        section `protocols`, and those of its keys. `time` shares the event loop between long pieces of work.
        """
        self._runner = runner
        self._runs = runs
        self._configured_url = configured_url
        self.needs_key = needs_key
        self._open_to_all = open_to_all
        self._shared: dict[object, object] = {}
        self._settings = settings or ProtocolSettings({}, {})
        self.streams = streams
        self.visitors = visitors
        self.endpoints = endpoints or EndpointPolicy(())
        self.fetcher = fetcher or HttpClients(runner.clock).fetcher
        self.sections = sections or {}
        self.time = time or TimeSharing()

    @property
    def gateways(self) -> Gateways:
        """The gateways that use the store, of which this process is one."""
        return self._runner.store.gateways

    @property
    def is_private(self) -> bool:
        """Whether no key is needed, and only this machine reaches the gateway."""
        return not (self.needs_key or self._open_to_all)

    def is_operators(self, caller: Caller) -> bool:
        """Whether the caller may see why a model failed: it has an API key, or only this machine reaches a gateway
        without.
        """
        return not caller.is_visitor and (bool(caller.key_name) or not self._open_to_all)

    def check_administrator(self, caller: Caller) -> None:
        """Refuse callers that may not change settings of the gateway. Raises ForbiddenError."""
        if not (caller.may_administer or (not caller.key_name and self.is_operators(caller))):
            raise ForbiddenError(
                "this is for keys that administer the gateway; add 'admin: true' to the key in server.api_keys",
                code="administrator_needed",
            )

    def protocol_settings(self, caller: Caller, kind: type[SettingsT]) -> SettingsT:
        """The settings of this kind that hold for the caller."""
        return self._settings.of(caller, kind)

    def public_url(self, request: Request) -> str:
        """The URL by which the caller reaches the gateway, without a slash at the end."""
        return (self._configured_url or str(request.base_url)).rstrip("/")

    def now(self) -> float:
        """The time that threads, runs and documents get."""
        return self._runner.clock.now()

    async def turn_after(self, caller: Caller, items: int) -> None:
        """Let others in between two stages of a request, where it has many messages, parts, tools and answers."""
        if items > _MANY:
            await self.time.turn(caller.owner)

    async def pause(self, seconds: float) -> None:
        """Wait, by the gateway's clock."""
        await self._runner.clock.sleep(seconds)

    async def on_run_begun(
        self,
        caller: Caller,
        thread_id: str,
        listener: Callable[[RunRecord], None],
        on_lost: Callable[[], None] = lambda: None,
    ) -> Callable[[], None]:
        """Call `listener` with the record of each run that begins on a thread of the caller's; it must return at once.
        The function that this gives ends it. Until then this gateway holds the thread: its next run begins here. If it
        loses the thread, because others took it for dead, `on_lost` is called, and nobody hears of runs any more.

        Raises:
            HeldElsewhereError: another gateway holds it.
            ConflictError: a gateway that is gone left a run on it.
            StoreError: not now.
        """
        return await self._runner.driver.beginnings.listen(caller.owner, thread_id, listener, on_lost)

    # --- documents

    def documents(self, caller: Caller, *, counted: bool = True) -> OwnedDocuments:
        """The caller's documents of a kind. If `counted`, each one that is put counts as a run."""
        count = partial(self._counted, caller) if counted else nullcontext
        return OwnedDocuments(self._runner.store.documents, caller.owner, count)

    def own_documents(self) -> OwnedDocuments:
        """Documents of the gateway's own, which no caller reaches."""
        return OwnedDocuments(self._runner.store.documents, GATEWAY, nullcontext)

    async def keep_secret(self, name: str, fresh: bytes) -> bytes:
        """The secret of that name, for a protocol's own signatures; if there is none yet, `fresh` becomes it, for every
        gateway of the store.
        """
        return await self._runner.store.keep_secret(name, fresh)

    async def keepers(self, kind: DocumentKind) -> list[Caller]:
        """A caller for each owner of documents of this kind: for WireProtocol.sweep."""
        return [Caller(owner) for owner in await self._runner.store.documents.owners(kind)]

    def count(self, caller: Caller) -> None:
        """Count a change or a deletion as a run that the caller has begun and that is over. For what a protocol deletes
        in several steps here, none of which is `counted`; the other methods count by themselves.

        Raises:
            TooManyRequestsError: the caller may begin no more in this minute.
        """
        if quotas := caller.run_quotas():
            self._runs.count(quotas)

    @contextmanager
    def counted_change(self, caller: Caller) -> Generator[None]:
        """Count what the block does, as `count`; where another gateway has to do it, it counts there alone."""
        self.count(caller)
        with self._taken_back(caller):
            yield

    @contextmanager
    def _counted(self, caller: Caller) -> Generator[None]:
        """Count a write of this caller as a run for as long as the block takes. As `counted_change` otherwise."""
        release = self._admission(caller)()
        try:
            with self._taken_back(caller):
                yield
        finally:
            release(None)

    @contextmanager
    def _taken_back(self, caller: Caller) -> Generator[None]:
        """Take back what was counted if the block does nothing, because another gateway holds the thread."""
        try:
            yield
        except HeldElsewhereError:
            self._runs.take_back(caller.run_quotas())
            raise

    def _admission(self, caller: Caller) -> Admission:
        """The check that the runner calls before a new run of this caller."""
        return partial(self._runs.begin, caller.run_quotas())
