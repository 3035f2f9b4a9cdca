"""The composition root: settings -> parts -> store -> driver, runner -> a Starlette application.

Above: the command line. Below: everything. Parts are opened in the lifespan and closed in reverse order at its end.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import cache, partial

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.access.authentication import AccessMiddleware, AccessRules, Paths
from gateway.access.limits import Meter
from gateway.access.visitors import Visitors
from gateway.adapters.choice import choose_protocols
from gateway.adapters.protocol_adapter import ProtocolAdapter
from gateway.agent import AgentDefinition
from gateway.agent_opening import AgentOpening
from gateway.agents.caller_tools import CallerTools
from gateway.agents.directory import AgentDirectory
from gateway.agents.open_agent import OpenAgent
from gateway.agents.stored import StoredAgents
from gateway.clock import Clock, SystemClock
from gateway.cluster.entry import HopEntry
from gateway.cluster.hops import Hops
from gateway.cluster.signatures import HopSignatures
from gateway.configuration.agent_body import CallerRules, parts_for_callers, read_agent
from gateway.configuration.definitions import PartEnvironments
from gateway.configuration.known_parts import KnownParts, known_parts, scheme
from gateway.configuration.protocol_sections import NamedSettings
from gateway.errors import StoreError, UnavailableError
from gateway.http_client.clients import HttpClients
from gateway.http_client.endpoint_policy import EndpointPolicy
from gateway.logs import Redaction
from gateway.loop import LoopEnvironment
from gateway.metrics import Metrics
from gateway.model import ModelEnvironment
from gateway.openapi.data import api_data
from gateway.openapi.description import ApiDescription
from gateway.openapi.document import openapi_document
from gateway.openapi.routes import docs_routes
from gateway.page import WebPage, read_page
from gateway.parts import find
from gateway.protocol import ProtocolEnvironment, WireProtocol
from gateway.protocol.closed_protocols import ClosedProtocols
from gateway.protocol.error_forms import ErrorForms
from gateway.protocol.paths import path_with_marked_slashes
from gateway.protocol.protocol_settings import ProtocolSettings
from gateway.protocol.route_table import RouteTable, expect_distinct
from gateway.protocol.routes import check_open_to_visitors
from gateway.protocol.time_sharing import TimeSharing
from gateway.runner import Runner
from gateway.runs.driver import RunDriver, RunOptions
from gateway.search_engine import SearchEngine, SearchEnvironment
from gateway.settings import Settings
from gateway.sse import OpenStreams
from gateway.store import GatewayEvents, Store, StoreEnvironment
from gateway.telemetry.model_calls import traced_providers
from gateway.telemetry.requests import TracedRequests
from gateway.telemetry.tool_calls import traced_tool_types
from gateway.tool import ToolEnvironment
from gateway.traces import Tracer
from gateway.turns.circuit import Circuits
from gateway.wire.mounts import prefixed_redirects

logger = logging.getLogger(__name__)

_HEALTH_PATHS = ("/healthz", "/readyz")
_OWN_OPEN_PATHS = (*_HEALTH_PATHS, "/docs", "/docs/", "/openapi.json")
_RETENTION_ROUND_SECONDS = 3600.0
_EXPIRY_ROUND_SECONDS = 60.0
_DAY_SECONDS = 86_400
_COUNTING_SECONDS = 1.0  # metrics are needed most while the store does not answer
_NOT_OPEN = (
    "the gateway is not open: the application that serves it has to open its lifespan,"
    " 'async with application.lifespan():'; docs/embedding.md says how"
)
_OPEN_TO_OTHERS = "others than this machine reach the gateway and need no key: server.allow_unauthenticated is set"


class Application:
    """The gateway as an ASGI application (`asgi`), with the methods by which the server around it stops it well."""

    def __init__(
        self,
        settings: Settings,
        protocol_adapters: Sequence[ProtocolAdapter] | None = None,
        *,
        clock: Clock | None = None,
        parts: KnownParts | None = None,
        page: WebPage | None = None,
        redaction: Redaction | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        """`protocol_adapters`: the protocols to serve beside AG-UI and the gateway's own API, even if the file turns
        them off; None: all that the file does not turn off.

        `redaction` learns the secrets of a reloaded configuration; it is the log's own, if there is one. `tracer` is
        None if no traces are collected.

        Raises:
            ConfigurationError: the file has settings of a protocol that is not among the adapters; or two protocols
                have one path, or an adapter adds something that is not an endpoint.
        """
        self.settings = settings
        self.clock = clock or SystemClock()
        self.metrics = Metrics()
        self.streams = OpenStreams(heartbeat_seconds=settings.server.heartbeat_seconds)
        self.metrics.viewers_active.set_function(lambda: len(self.streams))
        self._tracer = tracer
        self.parts = parts or known_parts()
        if tracer is not None:
            self.parts = _traced(self.parts)
        self._page = page or read_page()
        self._opening: AgentOpening | None = None  # set while it serves
        self._unopened_paths = Paths((*_OWN_OPEN_PATHS, *self._page.open_paths))
        self._is_open = False  # between the begin and the end of its lifespan
        self._serves = False  # once all of it is open
        self._connecting: set[asyncio.Task[None]] = set()
        self._time = TimeSharing()
        self.redaction = redaction or Redaction(settings.secrets)
        self._choice = choose_protocols(settings, protocol_adapters)
        self.store = self._open_store(self._choice.found)
        self.driver = RunDriver(
            AgentDirectory(), self.store, self.clock, _run_options(settings), self.metrics, self.redaction.text, tracer
        )
        self.runner = Runner(self.driver)
        runs = self.driver.runs
        self.store.gateways.events = GatewayEvents(self._end_left, self.driver.give_up_all, runs=runs.__len__)
        self.visitors = self._visitors_of_sites()
        callers = settings.callers
        self.endpoints = EndpointPolicy(callers.endpoints, private_addresses=callers.private_addresses)
        self._http = HttpClients(
            self.clock,
            allowed_private_hosts=frozenset(settings.server.allowed_private_hosts),
            environment_proxies=settings.server.environment_proxies,
        )
        self._signatures = HopSignatures(self.store.gateways, self.clock)
        self._hops = self._hops_to_others()
        served = self._serve_protocols()
        self._closed = ClosedProtocols(served, _turned_off(settings, self._choice.settings))
        self.starlette = Starlette(routes=[route for _, routes in served for route in routes], lifespan=self.lifespan)
        self._routes = RouteTable(self.starlette.routes)
        self.asgi = self._guarded(served)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, as `asgi` does."""
        await self.asgi(scope, receive, send)

    def _serve_protocols(self) -> list[tuple[WireProtocol, Sequence[BaseRoute]]]:
        """Collect the protocols' routes; their descriptions make the API document. A protocol that is not served is
        still opened, swept and closed, for the data that it stored.
        """
        server = self.settings.server
        runs = Meter(self.clock, "runs", most_at_once=server.max_concurrent_runs)
        open_paths = (*_OWN_OPEN_PATHS, *self._page.open_paths)
        api = api_data("gateway.openapi", "service")
        own = WireProtocol("service", self._own_routes, open_paths=open_paths, api=api)
        protocols = [*self._choice.found, own]
        environment = ProtocolEnvironment(
            self.runner,
            self.streams,
            runs,
            visitors=self.visitors,
            configured_url=server.public_url,
            needs_key=server.has_keys,
            open_to_all=server.allow_unauthenticated,
            endpoints=self.endpoints,
            fetcher=self._http.fetcher,
            sections={"ml_commons": self.settings.ml_commons},
            settings=ProtocolSettings(self._choice.settings, {key.name: key.protocols for key in server.api_keys}),
            time=self._time,
        )
        self._opens = [partial(each.open, environment) for each in protocols if each.open is not None]
        self._closes = [partial(each.close, environment) for each in protocols if each.close is not None]
        self._sweeps = [partial(protocol.sweep, environment) for protocol in protocols if protocol.sweep is not None]
        served = [protocol for protocol in protocols if protocol is own or self._choice.serves(protocol)]
        self._root = next((protocol.root for protocol in served if protocol.root is not None), None)
        self._api_document = cache(partial(openapi_document, [protocol.api for protocol in served]))
        if any(isinstance(protocol.api, ApiDescription) and protocol.api.operations for protocol in served):
            self._api_document()  # one that was dropped in: it may give a name that is taken
        routes = [(protocol, protocol.routes(environment)) for protocol in served]
        # AG-UI's routes are tried first. The gateway's own stay last: they take every path.
        routes.sort(key=lambda each: each[0].name != "ag_ui")
        expect_distinct(routes)
        return routes

    def _guarded(self, served: Sequence[tuple[WireProtocol, Sequence[BaseRoute]]]) -> ASGIApp:
        """The routes inside the access middleware, and inside the hops to other gateways if there may be some."""
        server = self.settings.server
        rules = AccessRules(
            keys=[(key.name, key.key) for key in server.api_keys],
            key_limits={key.name: key.limits for key in server.api_keys},
            approvers=[key.name for key in server.api_keys if key.approvals],
            administrators=[key.name for key in server.api_keys if key.admin],
            cors_origins=server.cors_origins,
            allowed_hosts=server.allowed_hosts if server.has_keys else server.host_names,
            open_paths=[path for protocol, _ in served for path in protocol.open_paths],
            basic_paths=[path for protocol, _ in served for path in protocol.basic_paths],
            document_paths=[] if self._root is None else ["/"],
            quiet_paths=(*_HEALTH_PATHS, "/metrics"),
            max_body_bytes=server.max_body_bytes,
            max_body_seconds=server.max_body_seconds,
            max_unread_bytes=server.max_unread_bytes,
        )
        guarded: ASGIApp = AccessMiddleware(
            self._hops or self._route,
            rules,
            visitors=self.visitors,
            on_refused=self.metrics.refused,
            error_form=ErrorForms(served).of,
        )
        if self._tracer is not None:
            guarded = TracedRequests(guarded, self._tracer, rules.quiet_paths)
        return guarded if self._hops is None else HopEntry(guarded, self._signatures)

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call Starlette's routes, without Starlette's own middleware. The access middleware turns their exceptions
        into responses, and each layer of exception handling costs every chunk of every stream a coroutine.
        """
        scope["app"] = self.starlette
        if scope["type"] != "http":
            await self.starlette.router(scope, receive, send)
            return
        if not (self._serves or scope["path"] in self._unopened_paths):
            raise UnavailableError(_NOT_OPEN, code="not_started")
        scope["state"]["time"] = self._time
        raw_path = scope["raw_path"].lower()
        if b"%2f" in raw_path or b"%00" in raw_path:
            scope["path"] = path_with_marked_slashes(scope["raw_path"])
        if (root := scope.get("app_root_path")) and scope["path"].endswith("/"):  # few requests have it, and no stream
            send = prefixed_redirects(root, send)
        caller = scope["state"].get("caller")
        if caller is not None:
            if self.visitors is not None and caller.is_visitor:
                check_open_to_visitors(self.starlette.routes, scope)
            self._closed.check(caller, scope)
        await self._routes(scope, receive, send)

    async def stop(self) -> None:
        """Stop being ready, tell viewers when to reconnect, and end the runs. Returns once no run is left.

        A second call does not wait: it cancels the runs that are left.
        """
        drain_seconds = 0 if self.driver.draining else self.settings.server.drain_seconds
        self.streams.drain()
        await self.driver.shut_down(drain_seconds)
        self.streams.close()

    @asynccontextmanager
    async def lifespan(self, host: object = None) -> AsyncGenerator[None]:
        """Opens everything that requests need, and closes it at the end: `async with application.lifespan():`. An
        application that mounts `asgi` opens it in its own lifespan, or uses it as its lifespan: `Starlette(...,
        lifespan=application.lifespan)`. It opens only once.
        """
        if self.driver.draining:
            raise RuntimeError("the application's lifespan is over and opens only once; make a new Application")
        if self._is_open:
            raise RuntimeError("the application's lifespan is open already: one 'lifespan' of your program opens it")
        async with AsyncExitStack() as stack:
            self._is_open = True
            stack.callback(self._note_closed)
            if self._tracer is not None:
                stack.push_async_callback(self._tracer.close)
            await self.store.open()
            stack.push_async_callback(self.store.close)
            stack.callback(self._stop_serving)
            await self._load_visitor_secret()
            if self._hops is not None:
                stack.push_async_callback(self._hops.close)
                self._signatures.secret = await self.store.keep_secret("hops", os.urandom(32))
            for open_protocol in self._opens:
                await open_protocol()
            stack.push_async_callback(self._http.close)
            callers_http = self._caller_clients()
            stack.push_async_callback(callers_http.close)
            search = self._open_search()
            if search is not None:
                stack.push_async_callback(search.close)
            stack.push_async_callback(self.driver.agents.close)
            self._opening = self._ready_to_open(self._http, search)
            opened = [self._opening.open(agent) for agent in self.settings.agents]
            self.driver.agents.replace(opened, self.settings.server.default_agent)
            self.driver.agents.stored = self._stored_agents(callers_http, search)
            tools = ToolEnvironment(self.clock, callers_http, self.settings.directory, search)
            self.driver.agents.caller_tools = CallerTools(self.parts.tools, tools)
            agents = list(self.driver.agents.values())
            for agent in agents:
                agent.warn_of_ignored()
            for close_protocol in self._closes:
                stack.push_async_callback(close_protocol)
            stack.push_async_callback(self.runner.removal.close)
            await self.driver.recover()
            self._warn_of_unapprovable_tools(agents)
            stack.callback(self._stop_connecting)
            self._connect_tools(agents)
            for forget, seconds in (
                (self._delete_old, _RETENTION_ROUND_SECONDS),
                (self._delete_expired, _EXPIRY_ROUND_SECONDS),
            ):
                retention = asyncio.create_task(self._repeat(forget, seconds), name="retention")
                stack.callback(retention.cancel)
            stack.push_async_callback(self.stop)
            self._serves = True
            yield

    def _stop_serving(self) -> None:
        self._serves = False

    def _note_closed(self) -> None:
        self._is_open = False

    def _visitors_of_sites(self) -> Visitors | None:
        server = self.settings.server
        if not server.publishable_keys:
            return None
        return Visitors(server.publishable_keys, self.clock, token_days=server.visitor_token_days)

    def _hops_to_others(self) -> Hops | None:
        if self.settings.cluster.advertise is None:
            return None
        gateways, signatures = self.store.gateways, self._signatures
        return Hops(self._route, gateways, signatures, self.clock, on_hop=self.metrics.hopped)

    async def _load_visitor_secret(self) -> None:
        """Load the stored signing secret, so that tokens of earlier processes stay valid."""
        if self.visitors is None:
            return
        configured = self.settings.server.visitor_secret
        if configured is not None:
            self.visitors.use_secret(configured.reveal().encode("utf-8", "surrogatepass"))
        else:
            self.visitors.use_secret(await self.store.keep_secret("visitor tokens", os.urandom(32)))

    def _open_store(self, protocols: Sequence[WireProtocol]) -> Store:
        settings = self.settings
        store_type = find(self.parts.stores, scheme(settings.store), "store")
        environment = StoreEnvironment(
            self.clock,
            settings.store_directory,
            master_keys=settings.server.master_keys,
            on_secrets=self.redaction.learn_from_callers,
            thread_documents=next(filter(None, (each.thread_documents for each in protocols)), None),
            address=settings.cluster.advertise,
            lease_seconds=settings.cluster.lease_seconds,
        )
        return store_type.open(settings.store, environment)

    def _open_search(self) -> SearchEngine | None:
        settings = self.settings.search
        if settings is None:
            return None
        engine = find(self.parts.search_engines, scheme(settings.url), "search engine")
        return engine.open(settings, SearchEnvironment(self.settings.directory, self.settings.store))

    def _ready_to_open(
        self, http: HttpClients, search: SearchEngine | None, *, own_identity: bool = True
    ) -> AgentOpening:
        environments = PartEnvironments(
            ModelEnvironment(self.clock, http, self.driver.window, own_identity),
            ToolEnvironment(self.clock, http, self.settings.directory, search),
            LoopEnvironment(self.clock, http, self.settings.directory),
        )
        return AgentOpening(self.parts, environments, Circuits(self.metrics.circuit_turned))

    def _caller_clients(self) -> HttpClients:
        """The HTTP clients of agents that callers made."""
        return HttpClients(self.clock, endpoints=self.endpoints)

    def _stored_agents(self, http: HttpClients, search: SearchEngine | None) -> StoredAgents:
        callers = self.settings.callers
        opening = self._ready_to_open(http, search, own_identity=callers.own_identity)
        rules = CallerRules(self.parts, opening.environments, keys_approve=self.settings.server.keys_approve)
        read = partial(read_agent, rules=rules)
        return StoredAgents(
            self.store.documents, read, opening.open_for_caller,
            most=callers.max_agents, parts=parts_for_callers(rules), clock=self.clock,
            is_shared=self.store.gateways.is_shared,
        )  # fmt: skip

    def take_over(self, definitions: Sequence[AgentDefinition], default: str | None = None) -> dict[str, list[str]]:
        """Use these agents for new runs, and `default` for requests that name none. Returns the ids of the agents that
        were added, changed and removed. An agent whose definition is the same stays open as it is. Runs keep the agents
        that they began with.

        Raises:
            ConfigurationError: one cannot be opened; nothing has changed.
        """
        before = self.driver.agents
        assert self._opening is not None, "agents can be taken over only while the gateway serves"
        agents, fresh = [], []
        for definition in definitions:
            agent = before.get(definition.id)
            if agent is None or not _are_same(agent.definition, definition):
                agent = self._opening.open(definition)
                fresh.append(agent)
            agents.append(agent)
        ids = {definition.id for definition in definitions}
        changes = {
            "added": [agent.definition.id for agent in fresh if agent.definition.id not in before],
            "changed": [agent.definition.id for agent in fresh if agent.definition.id in before],
            "removed": [id for id in before if id not in ids],
        }
        if (default or "") != before.default:
            changes["default"] = [default or "the first"]
        before.replace(agents, default)
        for agent in fresh:
            agent.warn_of_ignored()
        self._warn_of_unapprovable_tools(fresh)
        self._connect_tools(fresh)
        return changes

    def _warn_of_unapprovable_tools(self, agents: Sequence[OpenAgent]) -> None:
        """Warn of visitors' agents whose tools need an approval that no key may give."""
        server = self.settings.server
        if server.keys_approve:
            return
        shown = {agent_id for key in server.publishable_keys for agent_id in key.agents}
        for agent in (opened.definition for opened in agents):
            asks = any(tool.approval == "always" and tool.approvers is None for tool in agent.tools)
            if asks and agent.id in shown:
                logger.warning(
                    "visitors use an agent with a tool that needs approval, which nobody may give:"
                    " set 'approvals: true' on a key of server.api_keys, or 'approvers: callers' on the tool",
                    extra={"agent_id": agent.id},
                )

    def _connect_tools(self, agents: Sequence[OpenAgent]) -> None:
        """Connect to tool servers before the first run needs them, so that readiness knows which are down. Warn of
        agents that callers made under the id of one of these agents.
        """

        async def connect() -> None:
            for agent in agents:
                await agent.tools()
            await self.driver.agents.warn_of_hidden([agent.definition.id for agent in agents])

        task = asyncio.create_task(connect(), name="connect to the tools")
        for agent in agents:
            self.driver.agents.hold(agent, until=task)
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    def _stop_connecting(self) -> None:
        for task in self._connecting:
            task.cancel()

    async def _repeat(self, forget: Callable[[], Awaitable[None]], seconds: float) -> None:
        while True:
            try:
                if self.store.gateways.is_first:
                    await forget()
            except StoreError:
                logger.warning("old logs and threads, or data at providers, could not be deleted; they are tried again")
            await self.clock.sleep(seconds)

    async def _delete_expired(self) -> None:
        if deleted := await self.runner.delete_expired():
            logger.info("deleted threads that had expired", extra={"threads": deleted})

    async def _delete_old(self) -> None:
        now, server = self.clock.now(), self.settings.server
        if removed := await self.store.remove_logs(finished_before=now - server.retention_days * _DAY_SECONDS):
            logger.info("removed old run logs", extra={"runs": removed})
        if server.visitor_retention_days is not None:
            before = now - server.visitor_retention_days * _DAY_SECONDS
            if deleted := await self.runner.delete_idle_visitors(before=before):
                logger.info("deleted old threads of visitors", extra={"threads": deleted})
        await self._sweep()
        # last: the threads that were just deleted may have responses to delete at providers, too
        await self.runner.removal.go_on(self.driver.agents)

    async def _sweep(self) -> None:
        for sweep in self._sweeps:
            try:
                await sweep()
            except StoreError:
                raise
            except Exception:  # a protocol's failure must not end the removal of old logs
                logger.exception("a protocol's expired data could not be deleted; it is tried again")

    async def _end_left(self) -> None:
        """End what other gateways left."""
        await self.driver.recover()
        if self._serves:  # else it comes with the first round
            await self._sweep()

    def _own_routes(self, _: ProtocolEnvironment) -> Sequence[BaseRoute]:
        return [
            Route("/healthz", _healthy),
            Route("/readyz", self._ready),
            Route("/metrics", self._metrics),
            *docs_routes(self._api_document),
            *self._page.routes(self._root),
        ]

    async def _ready(self, request: Request) -> Response:
        problems: list[str] = []
        if self.driver.draining:
            problems.append("shutting down")
        try:
            await self.store.check()
        except StoreError as error:
            problems.append(error.message)
        body = {"status": "unavailable" if problems else "ready", "problems": problems, "warnings": self._warnings()}
        return JSONResponse(body, 503 if problems else 200, headers={"cache-control": "no-store"})

    def _warnings(self) -> list[str]:
        """Warnings that do not stop readiness: the gateway is open to everybody, or tool servers are down, as their
        agents work without them.

        If other machines can reach the gateway, tool servers are only counted: anybody may ask for readiness, and the
        servers' names are private.
        """
        server = self.settings.server
        warnings = [f"{id}: {text}" for id, agent in self.driver.agents.items() for text in agent.problems()]
        if warnings and (server.has_keys or server.is_open_to_others):
            warnings = [f"tool servers that are down: {len(warnings)}; the log says which"]
        return [*([_OPEN_TO_OTHERS] if server.is_open_to_others else []), *warnings]

    async def _metrics(self, request: Request) -> Response:
        gateways = self.store.gateways
        with suppress(StoreError, TimeoutError):  # then they are as many as when they were last counted
            async with asyncio.timeout(_COUNTING_SECONDS):
                self.metrics.gateways.set(len(await gateways.all()) if gateways.is_shared else 1)
        content, content_type = self.metrics.render(request.headers.get("accept", ""))
        return Response(content, headers={"content-type": content_type})


def _turned_off(settings: Settings, general: NamedSettings) -> dict[str, list[str]]:
    """For each key with protocol settings, the names of the settings that are turned off for it, by its own section or
    by the general one.
    """
    return {
        key.name: [name for name in general if key.protocols.get(name, general[name]) is None]
        for key in settings.server.api_keys
        if None in key.protocols.values()
    }


def _are_same(one: AgentDefinition, other: AgentDefinition) -> bool:
    # 1, 1.0 and True are equal in Python, but not to a provider; the text leaves secrets out
    return one == other and repr(one) == repr(other)


async def _healthy(request: Request) -> Response:
    return JSONResponse({"status": "ok"}, headers={"cache-control": "no-store"})


def _traced(parts: KnownParts) -> KnownParts:
    return replace(parts, models=traced_providers(parts.models), tools=traced_tool_types(parts.tools))


def _run_options(settings: Settings) -> RunOptions:
    server = settings.server
    return RunOptions(
        disconnect_grace_seconds=server.disconnect_grace_seconds,
        max_waiting_per_thread=server.max_waiting_runs,
        max_versions=server.max_versions,
        max_viewer_events=server.max_viewer_events,
    )
