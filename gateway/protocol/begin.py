"""Begins the run that a request asks for, or finds the one that an earlier copy of the request began.

Below: the environment. Above: the rooms of protocols, which read a request, and plan its run from what they read. The
order is the same for all of them: the agent, the earlier copy, the plans, the start. The record of a run that has a
name keeps a digest of the request that began it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar

import orjson

from gateway.access.callers import Caller
from gateway.agent import AgentInput
from gateway.agents.open_agent import OpenAgent
from gateway.errors import ConflictError, GatewayError, NotFoundError
from gateway.messages import JsonObject
from gateway.protocol.environment import ProtocolEnvironment
from gateway.runs.viewer import Viewer
from gateway.store import RunRecord

FormT = TypeVar("FormT")

DIGEST: Final = "digest"
"""The member of InputOrigin.request with the digest of the request that named the run."""


def body_digest(body: JsonObject) -> str:
    """A digest of the body. The order of its members does not matter."""
    return hashlib.blake2b(orjson.dumps(body, option=orjson.OPT_SORT_KEYS), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class RepeatWords:
    """A protocol's words where a request cannot be repeated. `reused`: the name of its run came with another body
    before; `cancelled`: the run was cancelled before it began.
    """

    reused: str
    reused_code: str
    cancelled: str


@dataclass(frozen=True, slots=True)
class RunName(Generic[FormT]):
    """A request names its run, by an id or a key, so that it can be sent again. `digest` identifies the request.
    `form_of` reads the form of the run that an earlier copy began, from its record.
    """

    run_id: str
    digest: str
    form_of: Callable[[RunRecord], FormT]
    words: RepeatWords


@dataclass(frozen=True, slots=True)
class Plan(Generic[FormT]):
    """A way to run a request. The answer is made of the run's events and of `form`.

    `only_again`: the plan counts only if an earlier run took in the same results or answers, and then failed. Then the
    model is asked, and nothing is taken in twice. `gives_way`: codes of conflicts at which the next plan is tried.
    """

    given: AgentInput
    form: FormT
    only_again: bool = False
    gives_way: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Plans(Generic[FormT]):
    """The plans of a request, in the order in which they are tried. `refusal` is the error if none of them counts."""

    ways: Sequence[Plan[FormT]]
    refusal: GatewayError | None = None


@dataclass(frozen=True, slots=True)
class RunRequest(Generic[FormT]):
    """A request as a protocol read it. `plans` is called with the agent, which stays open until the run has begun, and
    only if no earlier copy of the request began a run. `unknown_agent` makes the error for an agent that the caller
    does not have; None: the gateway's own.
    """

    agent_id: str
    plans: Callable[[OpenAgent], Awaitable[Plans[FormT]]]
    name: RunName[FormT] | None = None
    unknown_agent: Callable[[str], NotFoundError] | None = None


@dataclass(frozen=True, slots=True)
class BegunRun(Generic[FormT]):
    """A run that has begun, and its thread. Close the viewer at the end, which is one from event 1."""

    viewer: Viewer
    form: FormT
    thread_id: str
    run_id: str


async def begin(environment: ProtocolEnvironment, caller: Caller, request: RunRequest[FormT]) -> BegunRun[FormT]:
    """Begin the run that a request asks for; a repeated request that names its run gets that one.

    Raises:
        GatewayError: as `plans` and `ProtocolEnvironment.start`; `Plans.refusal`.
        ConflictError: the run that it names is another request's, or was cancelled before it began.
        NotFoundError: the agent is unknown; or the log of the named run was deleted.
    """
    name = request.name
    async with AsyncExitStack() as held:
        try:
            agent = await held.enter_async_context(environment.agent(caller, request.agent_id))
        except NotFoundError:
            if request.unknown_agent is None:
                raise
            raise request.unknown_agent(request.agent_id) from None
        if name is not None and (before := await _begun_before(environment, caller, name)) is not None:
            return before
        begun = await begin_planned(environment, caller, request.agent_id, await request.plans(agent), name)
    return begun if name is None else await _with_own_form(environment, caller, name, begun)


async def begin_planned(
    environment: ProtocolEnvironment,
    caller: Caller,
    agent_id: str,
    plans: Plans[FormT],
    name: RunName[FormT] | None = None,
) -> BegunRun[FormT]:
    """Begin a run by the first plan that counts. Raises GatewayError: as ProtocolEnvironment.start; `Plans.refusal`."""
    for plan in plans.ways:
        given = plan.given if name is None else _named(plan.given, name)
        if plan.only_again and not await environment.is_second_try(caller, agent_id, given):
            continue
        try:
            viewer = await environment.start(caller, agent_id, given, from_first=True)
        except ConflictError as error:
            if error.code not in plan.gives_way:
                raise
            continue
        return BegunRun(viewer, plan.form, given.thread.id, given.run_id)
    assert plans.refusal is not None, "without a refusal the last plan counts always"
    raise plans.refusal


def _named(given: AgentInput, name: RunName[FormT]) -> AgentInput:
    origin = given.origin
    return replace(given, origin=replace(origin, request={**(origin.request or {}), DIGEST: name.digest}))


async def _begun_before(
    environment: ProtocolEnvironment, caller: Caller, name: RunName[FormT]
) -> BegunRun[FormT] | None:
    """The run of an earlier copy of the request, from its first event on; None: there is none."""
    if (record := await environment.known_run(caller, name.run_id)) is None:
        return None
    _check_same(record, name)
    if (viewer := await environment.attach(caller, name.run_id, needs_log=True)) is None:
        raise ConflictError(name.words.cancelled, code="cancelled")
    return BegunRun(viewer, name.form_of(record), record.thread_id, name.run_id)


async def _with_own_form(
    environment: ProtocolEnvironment, caller: Caller, name: RunName[FormT], begun: BegunRun[FormT]
) -> BegunRun[FormT]:
    """The run with its own form: another request of that name may have begun it at the same moment."""
    try:
        record = await environment.run(caller, name.run_id)
        _check_same(record, name)
    except BaseException:
        begun.viewer.close()
        raise
    return BegunRun(begun.viewer, name.form_of(record), record.thread_id, name.run_id)


def _check_same(record: RunRecord, name: RunName[FormT]) -> None:
    if (record.request or {}).get(DIGEST) != name.digest:
        raise ConflictError(name.words.reused, code=name.words.reused_code)
