"""The contract of wire protocols: their routes and their form of errors; and ProtocolEnvironment, their access to runs.

Below: the runner, access. A protocol parses requests into AgentInput (pure), calls its ProtocolEnvironment, and renders
events (pure).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from urllib.parse import unquote

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Mount, Route, compile_path
from starlette.types import Receive, Scope, Send

from gateway.access.callers import Caller
from gateway.access.limits import Meter
from gateway.access.visitors import Visitors
from gateway.agent import AgentInput, InterruptAnswer
from gateway.agents.open_agent import OpenAgent, no_agent
from gateway.agents.stored import StoredAgent
from gateway.errors import ForbiddenError, InvalidRequestError, TooLargeError
from gateway.events import Interrupt
from gateway.messages import JsonObject, JsonValue, Message
from gateway.openapi.description import ApiDescription
from gateway.problems import ErrorForm, problem_json
from gateway.runner import Admission, Runner
from gateway.runs.viewer import Viewer
from gateway.sse import OpenStreams
from gateway.store import Approval, Page, RunRecord, Thread, ThreadChange, ThreadSummary, ThreadVersion
from gateway.wire import strict_json

_PAGE = 50
_MAX_PAGE = 500
_SLASH = "\0"  # no id has control characters


class ProtocolEnvironment:
    """The access of every protocol to agents, runs and threads.

    Each method takes the caller first. It refuses what this caller may not do, and counts what is limited, so that
    protocols need no checks of their own. Threads and runs are the caller's own; those of others are unknown.
    """

    __slots__ = ("_configured_url", "_open_to_all", "_runner", "_runs", "streams", "visitors")

    def __init__(
        self,
        runner: Runner,
        streams: OpenStreams,
        runs: Meter,
        *,
        visitors: Visitors | None = None,
        configured_url: str | None = None,
        open_to_all: bool = False,
    ) -> None:
        """`runs` counts them. `open_to_all`: other machines' users may be among the callers without a key."""
        self._runner = runner
        self._runs = runs
        self._configured_url = configured_url
        self._open_to_all = open_to_all
        self.streams = streams
        self.visitors = visitors

    def is_operators(self, caller: Caller) -> bool:
        """Whether the caller may see why a model failed: it has an API key, or only this machine reaches a gateway
        without.
        """
        return not caller.is_visitor and (bool(caller.key_name) or not self._open_to_all)

    def public_url(self, request: Request) -> str:
        """The URL by which the caller reaches the gateway, without a slash at the end."""
        return (self._configured_url or str(request.base_url)).rstrip("/")

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

    async def threads(self, caller: Caller, *, limit: int, cursor: str | None = None) -> Page[ThreadSummary]:
        """A page of the caller's threads, the latest first."""
        return await self._runner.threads(caller.owner, limit=limit, cursor=cursor)

    async def thread(self, caller: Caller, thread_id: str) -> ThreadSummary:
        """What is told of a thread without its messages. Raises NotFoundError."""
        return await self._runner.thread(caller.owner, thread_id)

    async def message(self, caller: Caller, thread_id: str, message_id: str) -> Message:
        """A message of a thread, by its id. Raises NotFoundError."""
        return await self._runner.message(caller.owner, thread_id, message_id)

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
    ) -> None:
        """Make a thread without a run, which counts as one for the caller. Without a title its first words are its
        title. One that is not `listed` stays so, whatever runs on it. With `expires_at` it is deleted then, but not
        within an hour of its last write (LEAST_LIFE_SECONDS).

        Raises:
            NotFoundError: no such agent for this caller.
            ConflictError: there is a thread of that id, or a run is about to make one.
            InvalidRequestError: two messages have one id.
            TooLargeError, TooManyRequestsError: a limit of the caller's is reached.
            StoreError, UnavailableError: not now.
        """
        if agent_id:
            self._check_agent(caller, agent_id)
        given = caller.admitted(AgentInput(thread_id, "", tuple(messages)))
        now = self._runner.clock.now()
        thread = Thread(
            caller.owner, thread_id, agent_id, now, now, title, given.messages,
            listed=listed, hidden=not listed, expires_at=expires_at,
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


@dataclass(frozen=True, slots=True)
class WireProtocol:
    """A part: `routes(environment)` gives the protocol's routes.

    `paths` are patterns of further paths that belong to the protocol, written as those of routes: `/v1/{rest:path}`.
    `open_paths` are not patterns. They need no key and allow any website, so requests for them have no `caller_of`; one
    that ends with `/` includes everything below it. `error_form` renders errors on its routes' paths and on these, also
    before a route is reached, as without a key, and where there is no route. `api` is its part of the API document.
    """

    name: str
    routes: Callable[[ProtocolEnvironment], Sequence[BaseRoute]]
    paths: Sequence[str] = ()
    error_form: ErrorForm = problem_json
    api: ApiDescription = field(default_factory=ApiDescription)
    open_paths: Sequence[str] = ()


class ErrorForms:
    """Chooses the form of a request's error: that of the protocol with the most specific pattern for its path.

    Of two patterns, the one that is literal further to the left is more specific, `{id}` more than `{rest:path}`.
    """

    def __init__(self, served: Iterable[tuple[WireProtocol, Sequence[BaseRoute]]]) -> None:
        """`served`: the protocols with their routes."""
        patterns = [
            (pattern, protocol.error_form)
            for protocol, routes in served
            for pattern in (*protocol.paths, *_patterns(routes))
        ]
        patterns.sort(key=lambda each: _specificity(each[0]), reverse=True)
        self._forms = [(compile_path(pattern)[0], form) for pattern, form in patterns]

    def of(self, scope: Scope) -> ErrorForm:
        """The form for this request; problem+json if no pattern matches."""
        path = path_with_marked_slashes(scope["raw_path"])
        return next((form for pattern, form in self._forms if pattern.match(path)), problem_json)


def _patterns(routes: Sequence[BaseRoute]) -> Iterator[str]:
    for route in routes:
        if isinstance(route, Route):
            yield route.path
        elif isinstance(route, Mount):
            yield f"{route.path}/{{rest:path}}"


def _specificity(pattern: str) -> list[int]:
    parts = pattern.strip("/").split("/")
    return [0 if ":path}" in part else 1 if "{" in part else 2 for part in parts]


class VisitorRoute(Route):
    """A route that visitors of websites may use too: it shows only the caller's own threads, runs and agents.

    All other routes are closed to visitors, also in protocols that do not consider them. No id in its path is empty.
    """

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, found = super().matches(scope)
        return (match, found) if match is Match.NONE or "" not in found["path_params"].values() else (Match.NONE, {})


def check_open_to_visitors(routes: Sequence[BaseRoute], scope: Scope) -> None:
    """Refuse visitors on routes other than VisitorRoute; unknown paths are left to the router.

    Raises:
        ForbiddenError
    """
    for route in routes:
        if route.matches(scope)[0] is Match.FULL:
            if not isinstance(route, VisitorRoute):
                raise ForbiddenError("this is not for the visitors of a website", code="not_for_visitors")
            return


class Endpoint:
    """A function from a request to its response as an ASGI application, for a route's endpoint.

    Starlette wraps functions in its own exception handling, which every chunk of a stream would pass; the access
    middleware handles exceptions instead.
    """

    __slots__ = ("_answer",)

    def __init__(self, answer: Callable[[Request], Awaitable[Response]]) -> None:
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._answer(Request(scope, receive, send))
        await response(scope, receive, send)


def caller_of(request: Request) -> Caller:
    """The caller, whom the access middleware has identified."""
    caller: Caller = request.scope["state"]["caller"]
    return caller


def request_id_of(request: Request) -> str:
    """The request's id, which its answer carries too."""
    request_id: str = request.scope["state"]["request_id"]
    return request_id


def path_id(request: Request, name: str) -> str:
    """An id from the path. Ids are any text, so a `/` in one arrives unchanged."""
    value: str = request.path_params[name]
    return value.replace(_SLASH, "/")


def path_with_marked_slashes(raw_path: bytes) -> str:
    """The path with `%2F` marked: such a slash separates nothing, and belongs to an id.

    Otherwise nobody could ask for the run `a/events`: servers decode a path before it is split.
    """
    parts = (unquote(part.decode("ascii", "replace")) for part in raw_path.split(b"/"))
    # a NUL that was sent is not a slash, and in no id either
    return "/".join(part.replace(_SLASH, "\ufffd").replace("/", _SLASH) for part in parts)


def page_asked(request: Request, *, usual: int = _PAGE) -> tuple[int, str | None]:
    """The requested length of a list, else the `usual` one, and its cursor. Raises InvalidRequestError (400)."""
    text = request.query_params.get("limit", str(usual))
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and 1 <= int(text) <= _MAX_PAGE):
        raise InvalidRequestError(f"limit is {text[:64]!r}; it must be a number from 1 to {_MAX_PAGE}", status=400)
    return int(text), request.query_params.get("cursor")


def time_text(seconds: float | None) -> str | None:
    """A time in Unix seconds as text for answers (RFC 3339, UTC)."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def json_response(value: JsonValue, status: int = 200) -> Response:
    """A JSON answer that must not be cached."""
    headers = {"cache-control": "no-store", "content-type": "application/json"}
    return Response(orjson.dumps(value), status, headers)


@dataclass(frozen=True, slots=True)
class BodyTimes:
    """How long a body may pause, and take in all; in real time, not the clock's."""

    pause_seconds: float = 30.0
    longest_seconds: float = 300.0


async def read_body(request: Request, *, max_bytes: int | None = None, times: BodyTimes = BodyTimes()) -> bytes:
    """The request's body. `max_bytes`: if an endpoint takes less than the access middleware admits.

    Raises:
        InvalidRequestError: 408, it stopped arriving: a request may not stay open for ever.
        TooLargeError: it is larger than `max_bytes`.
        ClientDisconnect: there is nobody to answer.
    """
    size = 0
    loop = asyncio.get_running_loop()
    latest = loop.time() + times.longest_seconds
    chunks: list[bytes] = []
    try:
        async with asyncio.timeout(times.pause_seconds) as limit:
            while True:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                chunk = message.get("body", b"")
                chunks.append(chunk)
                size += len(chunk)
                if max_bytes is not None and size > max_bytes:
                    raise TooLargeError(f"the body is larger than {max_bytes:,} bytes; send less")
                if not message.get("more_body", False):
                    break
                limit.reschedule(min(loop.time() + times.pause_seconds, latest))
    except TimeoutError:
        raise InvalidRequestError(
            "the body did not arrive in time; send it without pauses", code="body_timeout", status=408
        ) from None
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def read_json(request: Request, *, max_bytes: int | None = None) -> JsonValue:
    """The request's body as parsed JSON, see read_body. Raises InvalidRequestError (400) if it is not strict JSON."""
    try:
        value: JsonValue = strict_json.load(await read_body(request, max_bytes=max_bytes))
    except strict_json.NotStrictJsonError as error:
        raise InvalidRequestError(f"the body is not strict JSON: {error}", code="invalid_json", status=400) from None
    return value
