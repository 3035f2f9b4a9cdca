"""The contract of wire protocols: what a protocol is, and ProtocolEnvironment, its access to agents, runs, threads and
documents.

Below: the runner, access; endpoints, of which a protocol finds here what it needs. A protocol parses requests into
AgentInput (pure), calls its ProtocolEnvironment, and renders events (pure).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar, cast

from pydantic import BaseModel
from starlette.requests import Request
from starlette.routing import BaseRoute

from gateway.access.callers import Caller
from gateway.access.limits import Meter
from gateway.access.visitors import Visitors
from gateway.agent import AgentInput, InterruptAnswer
from gateway.agents.caller_tools import ToolDescription
from gateway.agents.open_agent import OpenAgent, no_agent
from gateway.agents.stored import AgentToStore, PartsForCallers, StoredAgent
from gateway.documents.document import Document, DocumentKind
from gateway.documents.owned import OwnedDocuments
from gateway.endpoints.answers import json_response, time_text
from gateway.endpoints.requests import caller_of, page_asked, path_id, read_body, read_json, request_id_of
from gateway.endpoints.routes import Endpoint, VisitorRoute
from gateway.errors import ForbiddenError
from gateway.events import Interrupt
from gateway.http_client.endpoint_policy import EndpointPolicy
from gateway.messages import ContentBlock, JsonObject, Message
from gateway.openapi.description import ApiDescription
from gateway.owners import GATEWAY
from gateway.problems import ErrorForm, problem_json
from gateway.runner import Admission, Runner
from gateway.runs.viewer import Viewer
from gateway.sse import OpenStreams
from gateway.store import (
    Approval,
    Page,
    RunRecord,
    Thread,
    ThreadChange,
    ThreadDocuments,
    ThreadSummary,
    ThreadVersion,
)

__all__ = [
    "Endpoint",
    "ProtocolEnvironment",
    "VisitorRoute",
    "WireProtocol",
    "caller_of",
    "json_response",
    "page_asked",
    "path_id",
    "read_body",
    "read_json",
    "request_id_of",
    "time_text",
]


Item = TypeVar("Item")
SettingsT = TypeVar("SettingsT", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class WireProtocol:
    """A part: `routes(environment)` gives the protocol's routes.

    `paths` are patterns of further paths that belong to the protocol, written as those of routes: `/v1/{rest:path}`.
    `open_paths` are not patterns. They need no key and allow any website, so requests for them have no `caller_of`; one
    that ends with `/` includes everything below it. On `basic_paths`, written like these, a key may also be sent as the
    password of its name (Basic authentication). `open` is awaited before the first request, once the store can be used.
    `error_form` renders errors on its routes' paths and on `paths`, also before a route is reached, as without a key,
    and where there is no route. `api` is its part of the API document. `sweep` is called at the start and then once an
    hour, to delete what is due. `thread_documents` says what the store keeps of threads in a collection; of several
    protocols the first one's counts.
    """

    name: str
    routes: Callable[[ProtocolEnvironment], Sequence[BaseRoute]]
    paths: Sequence[str] = ()
    error_form: ErrorForm = problem_json
    api: ApiDescription = field(default_factory=ApiDescription)
    open_paths: Sequence[str] = ()
    basic_paths: Sequence[str] = ()
    open: Callable[[ProtocolEnvironment], Awaitable[None]] | None = None
    sweep: Callable[[ProtocolEnvironment], Awaitable[None]] | None = None
    thread_documents: ThreadDocuments | None = None


class ProtocolEnvironment:
    """The access of every protocol to agents, runs and threads.

    Each method takes the caller first. It refuses what this caller may not do, and counts what is limited, so that
    protocols need no checks of their own. Threads and runs are the caller's own; those of others are unknown.
    """

    __slots__ = (
        "_configured_url",
        "_open_to_all",
        "_runner",
        "_runs",
        "_shared",
        "endpoints",
        "sections",
        "streams",
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
        open_to_all: bool = False,
        endpoints: EndpointPolicy | None = None,
        sections: Mapping[str, JsonObject] | None = None,
    ) -> None:
        """`runs` counts them. `open_to_all`: other machines' users may be among the callers without a key. `endpoints`:
        which ones callers' agents may reach. `sections` of the configuration file belong to protocols.
        """
        self._runner = runner
        self._runs = runs
        self._configured_url = configured_url
        self._open_to_all = open_to_all
        self._shared: dict[object, object] = {}
        self.streams = streams
        self.visitors = visitors
        self.endpoints = endpoints or EndpointPolicy(())
        self.sections = sections or {}

    def shared(self, make: Callable[[ProtocolEnvironment], Item]) -> Item:
        """What several protocols share: `make` makes it once for all of them."""
        if make not in self._shared:
            self._shared[make] = make(self)
        return cast(Item, self._shared[make])

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
        return kind()

    def public_url(self, request: Request) -> str:
        """The URL by which the caller reaches the gateway, without a slash at the end."""
        return (self._configured_url or str(request.base_url)).rstrip("/")

    def now(self) -> float:
        """The time that threads, runs and documents get."""
        return self._runner.clock.now()

    # --- documents

    def documents(self, caller: Caller, *, counted: bool = True) -> OwnedDocuments:
        """What is neither thread nor run of the caller's. Putting one counts as a run, if it is `counted`."""
        count = partial(self._counted, caller) if counted else nullcontext
        return OwnedDocuments(self._runner.store.documents, caller.owner, count)

    def own_documents(self) -> OwnedDocuments:
        """Documents of the gateway's own, which no caller reaches."""
        return OwnedDocuments(self._runner.store.documents, GATEWAY, nullcontext)

    async def keepers(self, kind: DocumentKind) -> list[Caller]:
        """A caller for each owner of documents of this kind: for WireProtocol.sweep."""
        return [Caller(owner) for owner in await self._runner.store.documents.owners(kind)]

    # --- agents

    def agents(self, caller: Caller) -> Sequence[OpenAgent]:
        """The configured agents of this caller."""
        return [agent for agent in self._runner.agents.values() if caller.may_use(agent.definition.id)]

    async def stored_agents(
        self, caller: Caller, *, limit: int, after: str = ""
    ) -> tuple[list[StoredAgent], str | None]:
        """The stored agents of this caller, by id, behind that id; and behind which id more are, None for no more. None
        for visitors.
        """
        stored = self._runner.agents.stored
        if stored is None or caller.agents is not None:
            return [], None
        found, more = await stored.page(caller.owner, after=after, limit=limit)
        seen = [each for each in found if each.agent_id not in self._runner.agents]
        return seen, found[-1].agent_id if more else None

    @asynccontextmanager
    async def agent(self, caller: Caller, agent_id: str) -> AsyncGenerator[OpenAgent]:
        """The agent of that id, configured or stored, which stays open during the block.

        Raises:
            NotFoundError: no such agent for this caller.
            ConflictError: a stored agent cannot be used any more.
            StoreError, UnavailableError: a stored agent cannot be loaded now.
        """
        self._check_agent(caller, agent_id)
        async with self._runner.agents.leased(caller.owner, agent_id) as agent:
            yield agent

    async def check_agent(self, caller: Caller, agent_id: str) -> None:
        """Refuse an agent that is not there for this caller. Raises as `agent`."""
        self._check_agent(caller, agent_id)
        await self._runner.agents.check(caller.owner, agent_id)

    async def put_agent(self, caller: Caller, agent_id: str, body: JsonObject, *, public: bool = False) -> bool:
        """Store an agent of the caller's, with the fields that agents of the configuration have; whether it is new.

        Raises:
            ForbiddenError: the caller may make no agents.
            ConflictError: code `id_taken`: the configuration or somebody else has an agent of that id.
            InvalidRequestError: it has wrong fields.
        """
        self.check_maker(caller)
        return await self._runner.agents.put(caller.owner, agent_id, body, public=public)

    @property
    def parts_for_callers(self) -> PartsForCallers:
        """What agents that callers make may have."""
        stored = self._runner.agents.stored
        return PartsForCallers() if stored is None else stored.parts

    async def create_agent(self, caller: Caller, agent_id: str, agent: AgentToStore) -> None:
        """Store a new agent of the caller's. Raises as `put_agent`; `id_taken` also for the caller's own."""
        self.check_maker(caller)
        await self._runner.agents.create(caller.owner, agent_id, agent)

    async def update_agent(self, caller: Caller, agent_id: str, change: Callable[[Document], AgentToStore]) -> int:
        """Change an agent of the caller's (StoredAgents.update); its version. Raises as `put_agent`; NotFoundError."""
        self.check_maker(caller)
        return await self._runner.agents.update(caller.owner, agent_id, change)

    async def agent_document(self, caller: Caller, agent_id: str) -> Document | None:
        """The document of a stored agent that the caller may see, without credentials; None: there is none."""
        stored = self._runner.agents.stored
        if stored is None or caller.agents is not None:
            return None
        return await stored.document(caller.owner, agent_id)

    async def delete_agent(self, caller: Caller, agent_id: str) -> None:
        """Delete an agent of the caller's; its runs go on.

        Raises:
            ForbiddenError: the caller may make no agents.
            NotFoundError: the caller has no such agent.
            ConflictError: it is the configuration's.
        """
        self.check_maker(caller)
        await self._runner.agents.delete(caller.owner, agent_id)

    def _check_agent(self, caller: Caller, agent_id: str) -> None:
        # what a website's visitors may use is configured: somebody else could take the id of an agent that was removed
        allowed = caller.agents is None or (agent_id in caller.agents and agent_id in self._runner.agents)
        if not allowed:
            raise no_agent(agent_id)

    def check_maker(self, caller: Caller) -> None:
        """Refuse a caller that may make no agents; `put_agent` and `delete_agent` do so too. Raises ForbiddenError."""
        if not self.is_operators(caller):
            raise ForbiddenError(
                "agents are made by callers with an API key, or on a gateway without keys that only this machine "
                "reaches; add server.api_keys",
                code="agents_not_allowed",
            )

    # --- tools

    async def tools(self, caller: Caller) -> Sequence[ToolDescription]:
        """The kinds of tools that agents of callers may have, by name."""
        tools = self._runner.agents.caller_tools
        return () if tools is None else await tools.descriptions()

    async def call_tool(
        self, caller: Caller, name: str, parameters: JsonObject, request_id: str = ""
    ) -> tuple[ContentBlock, ...]:
        """Run a tool without an agent, which counts as a run for the caller. Raises as CallerTools.call, and:

        Raises:
            ForbiddenError: the caller may make no agents.
            TooManyRequestsError: a limit of the caller's is reached.
        """
        self.check_maker(caller)
        tools = self._runner.agents.caller_tools
        assert tools is not None, "requests come once the gateway serves"
        with self._counted(caller):
            return await tools.call(name, parameters, caller.owner, request_id)

    # --- runs

    async def start(self, caller: Caller, agent_id: str, given: AgentInput, *, from_first: bool = False) -> Viewer:
        """Begin a run and watch it; a repeated request watches its earlier run again. Close the viewer at the end.

        `from_first`: the viewer of a repeated request has all events of its run, as a renderer.Renderer needs; without,
        it has a prelude of what was said so far, and what follows.

        `async for batch in viewer` gives all of the run. A visitor's system and developer messages are left out, and
        what it wishes for its run.

        Raises:
            NotFoundError: no such agent for this caller.
            ConflictError: the thread is busy, or the run id belongs to another request.
            TooManyRequestsError: too many runs wait for the thread, or a limit of the caller's is reached.
            TooLargeError: more of the input is new than the caller may send.
            InvalidRequestError: an answer does not fit its interrupt, or a wish cannot come true.
            StoreError, UnavailableError: the store or the gateway cannot be used now.
        """
        self._check_agent(caller, agent_id)
        admission = self._admission(caller)
        limits = caller.run_limits()
        return await self._runner.start(
            caller.owner, agent_id, caller.admitted(given), admission, limits, from_first=from_first
        )

    async def connect(self, caller: Caller, agent_id: str, given: AgentInput) -> Viewer:
        """Watch a thread: its history, then its live run's events, or how its last run ended.

        Raises:
            NotFoundError: no such agent for this caller.
        """
        self._check_agent(caller, agent_id)
        return await self._runner.connect(caller.owner, agent_id, given)

    async def attach(
        self, caller: Caller, run_id: str, *, after: int = 0, log_id: str = "", pace: float | None = None
    ) -> Viewer | None:
        """Watch a run's events after that number; None if the run is over and has no more.

        `log_id` is the prefix of the event id that had the number (RunRecord.log_id). `pace`: logged events come with
        the pauses between them, divided by it.

        Raises:
            NotFoundError: no such run.
            InvalidRequestError: the run's log does not reach that number.
        """
        return await self._runner.attach(caller.owner, run_id, after=after, log_id=log_id, pace=pace)

    async def cancel(self, caller: Caller, run_id: str) -> RunRecord:
        """Cancel a run; gives its record as it is now: one that has not ended will end within a second. Raises
        NotFoundError.
        """
        return await self._runner.cancel(caller.owner, run_id)

    async def run(self, caller: Caller, run_id: str) -> RunRecord:
        """A run's record. Raises NotFoundError."""
        return await self._runner.run(caller.owner, run_id)

    async def delete_run(self, caller: Caller, run_id: str) -> None:
        """Forget a run and its events; what it said stays on its thread.

        Raises:
            NotFoundError: no such run.
            ConflictError: it is under way.
        """
        await self._runner.delete_run(caller.owner, run_id)

    # --- threads

    async def threads(
        self, caller: Caller, *, limit: int, cursor: str | None = None, skip: int = 0
    ) -> Page[ThreadSummary]:
        """A page of the caller's threads, the latest first, without the first `skip` of them."""
        return await self._runner.threads(caller.owner, limit=limit, cursor=cursor, skip=skip)

    async def thread(self, caller: Caller, thread_id: str) -> ThreadSummary:
        """What is told of a thread without its messages. Raises NotFoundError."""
        return await self._runner.thread(caller.owner, thread_id)

    async def message(self, caller: Caller, thread_id: str, message_id: str) -> Message:
        """A message of a thread, by its id. Raises NotFoundError."""
        return await self._runner.message(caller.owner, thread_id, message_id)

    async def message_times(self, caller: Caller, thread_id: str) -> list[float | None]:
        """When each message of a thread came, in order, in Unix seconds; None where an older gateway stored it. Empty
        for an unknown thread.
        """
        return await self._runner.store.message_times(caller.owner, thread_id)

    async def find_message(self, caller: Caller, message_id: str, *, limit: int = 1) -> list[str]:
        """The ids of the caller's threads that have a message of that id: the latest first, behind them those that are
        not listed. It takes longer than other reads (0.2 s for an id that none of 100,000 threads has).
        """
        return await self._runner.store.find_message(caller.owner, message_id, limit=limit)

    async def messages(
        self, caller: Caller, thread_id: str, *, limit: int, cursor: str | None = None, version: int | None = None
    ) -> Page[Message]:
        """A page of a thread's messages, from the first; of its current version without a number.

        Raises:
            NotFoundError: no such thread or version.
        """
        return await self._runner.messages(caller.owner, thread_id, limit=limit, cursor=cursor, version=version)

    async def versions(
        self, caller: Caller, thread_id: str, *, limit: int, cursor: str | None = None
    ) -> Page[ThreadVersion]:
        """A page of a thread's versions, by number. Raises NotFoundError."""
        return await self._runner.versions.page(caller.owner, thread_id, limit=limit, cursor=cursor)

    async def select_version(self, caller: Caller, thread_id: str, version: int) -> None:
        """Make a version of a thread the current one.

        Raises:
            NotFoundError: no such thread or version.
            ConflictError: a run is at work on the thread, or waits for it.
        """
        await self._runner.versions.select(caller.owner, thread_id, version)

    async def delete_version(self, caller: Caller, thread_id: str, version: int) -> None:
        """Delete a version of a thread.

        Raises:
            NotFoundError: no such thread or version.
            ConflictError: it is the current one.
        """
        await self._runner.versions.delete(caller.owner, thread_id, version)

    async def fork(self, caller: Caller, thread_id: str, from_message: str) -> str:
        """Make a thread that begins as this one does, up to and with that message, which counts as a run for the
        caller; its id.

        Raises:
            NotFoundError: no such thread.
            InvalidRequestError: its current version has no such message.
            TooManyRequestsError: a limit of the caller's is reached.
        """
        with self._counted(caller):
            return await self._runner.versions.fork(caller.owner, thread_id, from_message, caller.run_limits())

    async def thread_runs(
        self, caller: Caller, thread_id: str, *, limit: int, cursor: str | None = None
    ) -> Page[RunRecord]:
        """A page of a thread's runs, the newest first. Raises NotFoundError."""
        return await self._runner.thread_runs(caller.owner, thread_id, limit=limit, cursor=cursor)

    async def interrupts(self, caller: Caller, thread_id: str) -> Sequence[Interrupt]:
        """The thread's interrupts that can still be answered; none for an unknown thread."""
        return await self._runner.interrupts(caller.owner, thread_id)

    async def create_thread(
        self,
        caller: Caller,
        thread_id: str,
        messages: Sequence[Message] = (),
        *,
        agent_id: str = "",
        title: str | None = None,
        metadata: JsonObject | None = None,
        listed: bool = True,
        expires_at: float | None = None,
        collection: str = "",
    ) -> None:
        """Make a thread without a run, which counts as one for the caller. Without a title its first words are its
        title. One that is not `listed` stays so, whatever runs on it. With `expires_at` it is deleted then, but not
        within an hour of its last write (LEAST_LIFE_SECONDS). `collection` as in store.Thread.

        Raises:
            NotFoundError: no such agent for this caller.
            ConflictError: there is a thread of that id, or a run is about to make one; or the agent cannot be used.
            InvalidRequestError: two messages have one id.
            TooLargeError, TooManyRequestsError: a limit of the caller's is reached.
            StoreError, UnavailableError: not now.
        """
        if agent_id:
            await self.check_agent(caller, agent_id)
        given = caller.admitted(AgentInput(thread_id, "", tuple(messages)))
        now = self._runner.clock.now()
        thread = Thread(
            caller.owner, thread_id, agent_id, now, now, title, given.messages,
            listed=listed, hidden=not listed, expires_at=expires_at, collection=collection,
        )  # fmt: skip
        with self._counted(caller):
            await self._runner.writes.create(thread, metadata or {}, caller.run_limits())

    async def append_messages(
        self, caller: Caller, thread_id: str, messages: Sequence[Message], *, waits: bool = False
    ) -> Sequence[Message]:
        """Add messages to a thread without a run, which counts as one for the caller; these as they are kept. Those
        that the thread has already stay, so that a request may be repeated. What a visitor says in the operator's voice
        is left out. `waits`: for the runs that are at work on the thread.

        Raises:
            NotFoundError: no such thread.
            ConflictError: a run is at work on the thread; or another message has the id of one of these.
            InvalidRequestError: two have one id, or one answers a call that is not the client's to answer.
            TooLargeError, TooManyRequestsError: a limit of the caller's is reached.
            StoreError, UnavailableError: not now.
        """
        given = caller.admitted(AgentInput(thread_id, "", tuple(messages)))
        with self._counted(caller):
            return await self._runner.writes.append(caller.owner, given, caller.run_limits(), waits=waits)

    async def edit_messages(
        self, caller: Caller, thread_id: str, edited: Callable[[tuple[Message, ...]], tuple[Message, ...]]
    ) -> None:
        """Make a thread's messages what `edited` makes of them, which counts as a run for the caller. It waits for the
        runs that are at work on the thread. Other words make a version of the thread.

        Raises:
            NotFoundError: no such thread.
            TooLargeError, TooManyRequestsError: a limit of the caller's is reached.
            StoreError, UnavailableError: not now.
        """
        with self._counted(caller):
            await self._runner.writes.edit(caller.owner, thread_id, edited, caller.run_limits())

    async def remove_messages(self, caller: Caller, thread_id: str, message_ids: Collection[str]) -> None:
        """Take messages out of a thread's current version, with the results of their calls. No version of the thread
        keeps one, unless it is in one that was made before. It waits for the runs that are at work on the thread.

        Raises:
            NotFoundError: no such messages.
            StoreError, UnavailableError: not now.
        """
        await self._runner.writes.remove(caller.owner, thread_id, message_ids)

    async def update_thread(self, caller: Caller, thread_id: str, change: ThreadChange) -> None:
        """Change what is told of a thread, also while a run is at work on it.

        Raises:
            NotFoundError: no such thread.
            TooLargeError, TooManyRequestsError: it is more metadata than the caller may store.
        """
        await self._runner.writes.update(caller.owner, thread_id, change, caller.run_limits())

    async def delete(self, caller: Caller, thread_id: str) -> None:
        """Delete a thread and its runs; a running one is cancelled first. Raises NotFoundError."""
        await self._runner.delete_thread(caller.owner, thread_id)

    # --- approvals

    def check_approver(self, caller: Caller) -> None:
        """Refuse callers that may not approve; all methods below do so, too. Raises ForbiddenError."""
        if not caller.may_approve:
            raise ForbiddenError(
                "this is for keys that may approve; add 'approvals: true' to the key in server.api_keys",
                code="approvals_not_allowed",
            )

    async def approvals(self, caller: Caller, *, limit: int, cursor: str | None = None) -> Page[Approval]:
        """A page of all open approvals, of every owner, the oldest first. Raises ForbiddenError."""
        self.check_approver(caller)
        return await self._runner.approvals(limit=limit, cursor=cursor)

    async def answer(self, caller: Caller, approval_id: str, answer: InterruptAnswer) -> RunRecord:
        """Answer an approval for the owner of its thread; gives the run that continues with it, which counts for the
        caller. `answer` needs no ids.

        Raises:
            ForbiddenError: the caller may not approve.
            NotFoundError: there is no such approval, or its agent is gone.
            ConflictError: it was answered, or has expired; or the thread is busy.
            InvalidRequestError: the arguments do not fit the tool.
            StoreError, TooManyRequestsError, UnavailableError: as `start`.
        """
        self.check_approver(caller)
        return await self._runner.answer(approval_id, answer, self._admission(caller))

    @contextmanager
    def _counted(self, caller: Caller) -> Generator[None]:
        """Count a write of this caller as a run for as long as the block takes."""
        admit = self._admission(caller)
        release = None if admit is None else admit()
        try:
            yield
        finally:
            if release is not None:
                release(None)

    def _admission(self, caller: Caller) -> Admission | None:
        """The check that the runner calls before a new run of this caller; None if nothing is counted."""
        quotas = caller.run_quotas()
        if not (quotas or self._runs.bounded):
            return None
        return partial(self._runs.begin, quotas)
