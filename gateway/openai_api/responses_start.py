"""Begins the run that a request of Responses asks for.

Below: responses_request, responses_chain, responses_references, protocol. Above: the protocol `responses`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from gateway.access.callers import Caller
from gateway.agent import (
    ABSENT,
    Absent,
    AgentInput,
    ClientApplication,
    InputNames,
    InputOrigin,
    InputTerms,
    InputThread,
    InterruptAnswer,
    SentMessages,
)
from gateway.errors import GatewayError, InvalidRequestError
from gateway.events import approval_id
from gateway.history.model_view import open_calls
from gateway.messages import Message, ToolCall, unanswered_calls
from gateway.openai_api.errors import unknown_model, wrong
from gateway.openai_api.header_threads import ThreadPlace, first_named, header_place
from gateway.openai_api.ids import new_run_id, new_thread_id
from gateway.openai_api.questions import decision_of
from gateway.openai_api.reasoning_envelopes import EnvelopeKey
from gateway.openai_api.responses_chain import Chain, approval_gone, check_outputs, find_chain, whole_thread
from gateway.openai_api.responses_history import common_beginning
from gateway.openai_api.responses_items import ApprovalItem, ReadInput, SaidItem, plain_messages
from gateway.openai_api.responses_output import Seal
from gateway.openai_api.responses_references import (
    StoredItems,
    answers_by_word,
    answers_of,
    resolved,
    waiting_calls,
    without_decisions,
)
from gateway.openai_api.responses_request import ResponsesRequest, read_request
from gateway.openai_api.responses_resource import ORIGIN, Approvals, ResponseForm, form_of
from gateway.openai_api.routes import KEY_HEADER, REPEAT_WORDS, left_out_headers
from gateway.openai_api.settings import ResponsesSettings
from gateway.protocol import OpenAgent, ProtocolEnvironment, Viewer
from gateway.protocol.answers import run_headers
from gateway.protocol.begin import Plan, Plans, RunName, RunRequest, begin, body_digest
from gateway.protocol.earlier_calls import EarlierCall
from gateway.protocol.input_cache import InputCache, KnownInput
from gateway.protocol.requests import expect_object

logger = logging.getLogger(__name__)

_RUN: Final = re.compile(rb"_(resp_[0-9a-f]{32})_")
_SEARCHED_BYTES: Final = 256 * 1024
_TAKEN: Final = frozenset({"thread_busy", "stale_history"})
_NAMES: Final = InputNames(run_id="Idempotency-Key", answers="input", response_format="text/format")


@dataclass(frozen=True, slots=True)
class StartedResponse:
    """A run that has begun. Close the viewer at the end. The response is made of its events and of `form`; `seal`
    seals its reasoning where that is sealed, `headers` are the response's.
    """

    viewer: Viewer
    form: ResponseForm
    stream: bool
    seal: Seal | None
    headers: Mapping[str, str]


async def start_response(
    environment: ProtocolEnvironment,
    caller: Caller,
    content: bytes,
    headers: Mapping[str, str],
    cache: InputCache[ReadInput],
    *,
    request_id: str = "",
) -> StartedResponse:
    """Begin the run that a body asks for; a repeated request with an Idempotency-Key gets its earlier run. The `cache`
    changes no result.

    Raises:
        GatewayError: as `expect_object`, `read_request`, `first_named`, `find_chain`, `resolved`, `answers_of`,
            `check_outputs`, `EnvelopeKey.envelopes` and `ProtocolEnvironment.start`.
        NotFoundError: an unknown model.
    """
    named = _first_run(content)
    known = cache.find(caller.owner, named)
    body = expect_object(await known.parsed(content, caller.owner, environment.time))
    goes_behind = bool(body.get("previous_response_id") or body.get("conversation"))
    before = None if goes_behind else known.read
    settings = environment.protocol_settings(caller, ResponsesSettings)
    refuses_others = settings.other_tools == "refuse"
    request = read_request(body, before, refuses_others=refuses_others)
    await environment.turn_after(caller, request.counted + len(request.tools))
    plain = () if goes_behind else plain_messages(request.items, before)
    seal = await _seal_for(environment, caller) if request.encrypted or not request.store else None
    key = headers.get(KEY_HEADER, "")
    run_id = new_run_id("resp_", key)
    own_thread = new_thread_id(key and run_id)

    async def plans(agent: OpenAgent) -> Plans[ResponseForm]:
        asked, new = request, own_thread
        if taken := await _taken_names(agent, request):
            asked = read_request(body, before, refuses_others=refuses_others, taken=taken)
            await environment.turn_after(caller, asked.counted + len(asked.tools))
        place = None
        if settings.thread_headers and not goes_behind:
            place = await _header_place(environment, caller, asked, headers, settings, new)
        if place is None:
            chain = await find_chain(environment, caller, asked)
        elif (chain := await whole_thread(environment, caller, place.thread_id)) is None:
            new = place.thread_id
        if named and not goes_behind and isinstance(given := body.get("input"), list):
            cache.keep(caller.owner, named, known, ReadInput(given, asked.items, plain, asked.counted), body, content)
        said = await _said(environment, caller, agent, asked, chain, plain, by_word=settings.approve_by_word)
        form = _form(asked, run_id, new, environment.now(), settings, said.earlier)
        form = replace(form, approvals=_approvals(settings, asked, chain))
        return _plans(_Plan(asked, chain, place, said, form, request_id, known))

    name = RunName(run_id, body_digest(body), form_of, REPEAT_WORDS) if key else None
    begun = await begin(environment, caller, RunRequest(request.model, plans, name, unknown_model))
    given_back = {**run_headers(begun.form.thread_id, begun.form.run_id), **left_out_headers(request.left_out)}
    return StartedResponse(begun.viewer, begun.form, request.stream, seal, given_back)


def _plans(plan: _Plan) -> Plans[ResponseForm]:
    """The run is on the thread that goes on, or on a new one."""
    chain, said = plan.chain, plan.said
    ways: list[Plan[ResponseForm]] = []
    if chain is not None:
        there = replace(plan, form=replace(plan.form, thread_id=chain.head.thread.thread_id))
        tries = [there] if said.again is None else [there, replace(there, said=said.again)]
        ways += (each.on_thread(chain, only_again=True) for each in tries if each.may_come_again)
        if said.late is None and _goes_on(chain, plan.place, plan.request, said.answers):
            ways.append(there.on_thread(chain))
    if said.late is None:
        ways.append(Plan(plan.new_thread(), plan.form))
    return Plans(ways, said.late)


async def _taken_names(agent: OpenAgent, request: ResponsesRequest) -> Collection[str]:
    """The names of the agent's own tools, where a function in a namespace would have one of them."""
    if not request.namespaced:
        return ()
    tools, _ = await agent.tools()
    return () if request.namespaced.keys().isdisjoint(tools) else frozenset(tools)


async def _seal_for(environment: ProtocolEnvironment, caller: Caller) -> Seal:
    """The function that seals the reasoning in the answer. The key is read before the run begins, because a client asks
    again if the store cannot give it.
    """
    return partial((await environment.shared(EnvelopeKey).envelopes()).seal, caller.owner)


def _first_run(content: bytes) -> str:
    """The first run that the items of a body seem to come from, which only says where to look in the cache. Empty:
    there is none.
    """
    found = _RUN.search(content, 0, _SEARCHED_BYTES)
    return "" if found is None else found[1].decode()


# --- what is said ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Said:
    """What a request says. `earlier` are the calls of its thread that wait for a person. `late` is the error where the
    thread has its answers or outputs already: only a run that failed with them is gone on with. `again` is the same
    with its last word as an answer, where nothing that was asked there is open any more.
    """

    messages: tuple[Message, ...]
    answers: tuple[InterruptAnswer, ...] = ()
    earlier: tuple[EarlierCall, ...] = ()
    late: GatewayError | None = None
    again: _Said | None = None


async def _said(
    environment: ProtocolEnvironment,
    caller: Caller,
    agent: OpenAgent,
    request: ResponsesRequest,
    chain: Chain | None,
    plain: tuple[Message, ...],
    *,
    by_word: bool,
) -> _Said:
    """What the items say, of which the first say just `plain`. `by_word`: a person may answer in words.

    Raises:
        GatewayError: as `resolved`, `answers_of` and `check_outputs`.
    """
    if chain is None and 0 < len(plain) == len(request.items):
        return _Said(plain)
    stored = StoredItems(environment, caller)
    given = without_decisions(request.items[len(plain) :], chain)
    items = await _unsealed(environment, caller, await resolved(given, chain, stored))
    answers, late = await answers_of(items, chain, stored)
    waiting = () if chain is None else await waiting_calls(chain.interrupts, chain.messages, stored)
    if by_word and not answers and chain is not None and chain.interrupts:
        own = chain.head.interrupts_of(request.model)
        items, answers = answers_by_word(items, request.items, chain, waiting, own)
    try:
        check_outputs(await _pending(agent, chain), items, chain)
    except InvalidRequestError as error:
        late = late or error
    messages = (*plain, *(message for item in items if isinstance(item, SaidItem) for message in item.messages))
    if chain is None and not messages:
        message = "input says nothing; give it a string, or an array of items"
        raise wrong(message, "/input", code="missing_required_parameter")
    said = _Said(messages, answers, waiting, late)
    return _answered_before(said, chain) if by_word and not answers else said


def _answered_before(said: _Said, chain: Chain | None) -> _Said:
    """What is said, and what it is if its last word answered a question that is not open any more."""
    if chain is None or chain.interrupts or not said.messages or said.late is not None:
        return said
    calls = unanswered_calls(chain.messages)
    if not calls or (approved := decision_of(said.messages[-1])) is None:
        return said
    answers = tuple(InterruptAnswer(approval_id(call.call_id), "resolved", approved=approved) for call in calls)
    return replace(said, again=replace(said, messages=said.messages[:-1], answers=answers, late=approval_gone()))


async def _unsealed(
    environment: ProtocolEnvironment, caller: Caller, items: Sequence[SaidItem | ApprovalItem]
) -> Sequence[SaidItem | ApprovalItem]:
    """The items with the reasoning in their envelopes; where nobody here made the envelope, the summary stays."""
    if not any(isinstance(item, SaidItem) and item.sealed for item in items):
        return items
    envelopes = await environment.shared(EnvelopeKey).envelopes()
    found: list[SaidItem | ApprovalItem] = []
    for item in items:
        if isinstance(item, SaidItem) and item.sealed:
            if (block := envelopes.opened(caller.owner, item.sealed)) is None:
                logger.warning(
                    "ignored a reasoning's envelope that this gateway did not make", extra={"field": item.at}
                )
            else:
                item = replace(item, messages=(replace(item.messages[0], content=(block,)),))
        found.append(item)
    return found


async def _pending(agent: OpenAgent, chain: Chain | None) -> Sequence[str]:
    """The calls of the client's tools that wait for their output."""
    calls: Sequence[ToolCall] = ()
    if chain is not None and not chain.replays:
        asked = {each.call_id for each in chain.interrupts}  # perhaps another agent's, whose tools are not this one's
        calls = [call for call in open_calls(chain.messages) if call.call_id not in asked]
    if not calls:
        return ()
    tools, _ = await agent.tools()
    return [call.call_id for call in calls if call.name not in tools]


# --- the run ---------------------------------------------------------------------------------------------------------


async def _header_place(
    environment: ProtocolEnvironment,
    caller: Caller,
    request: ResponsesRequest,
    headers: Mapping[str, str],
    settings: ResponsesSettings,
    aside: str,
) -> ThreadPlace | None:
    """The thread that a header names; None: none does."""
    if not (named := first_named(headers, settings.thread_headers)):
        return None
    messages = [message for item in request.items if isinstance(item, SaidItem) for message in item.messages]
    return await header_place(
        environment, caller, named, messages, common_beginning, stream=request.stream, aside=aside
    )


def _goes_on(
    chain: Chain, place: ThreadPlace | None, request: ResponsesRequest, answers: Sequence[InterruptAnswer]
) -> bool:
    """Whether the run is on the chain's thread, and not on a new one that begins as that does."""
    if answers or (chain.record is None and place is None):
        return True
    if place is not None and place.short_lived:
        return True
    # what is not to be stored stays apart from what is
    return chain.is_short_lived is not request.store and (chain.replays or chain.is_last)


def _form(
    request: ResponsesRequest,
    run_id: str,
    thread_id: str,
    now: float,
    settings: ResponsesSettings,
    earlier: tuple[EarlierCall, ...],
) -> ResponseForm:
    return ResponseForm(
        run_id,
        thread_id,
        request.model,
        int(now),
        request.echoed,
        store=request.store,
        background=request.background,
        backend_tools=settings.backend_tools,
        by_word=settings.approve_by_word,
        encrypted=request.encrypted,
        earlier=earlier,
        namespaced=request.namespaced,
    )


def _approvals(settings: ResponsesSettings, request: ResponsesRequest, chain: Chain | None) -> Approvals:
    """How the run asks: by items where its client takes them, or where the run before it did; else in words."""
    if settings.approvals != "auto":
        return settings.approvals
    if request.takes_requests or any(isinstance(item, ApprovalItem) for item in request.items):
        return "mcp_approval_request"
    before = None if chain is None else chain.record
    return "message" if before is None or before.origin != ORIGIN else form_of(before).approvals


@dataclass(frozen=True, slots=True)
class _Plan:
    """Everything that a run's input is made of. The form names its thread; `place` is what a header says of it."""

    request: ResponsesRequest
    chain: Chain | None
    place: ThreadPlace | None
    said: _Said
    form: ResponseForm
    request_id: str
    known: KnownInput[ReadInput]

    @property
    def may_come_again(self) -> bool:
        """Whether the chain's thread may have what the request says already, by a run that failed with it."""
        chain = self.chain
        if chain is None or chain.is_short_lived is self.request.store:
            return False
        return not chain.is_last or self.said.late is not None

    def on_thread(self, chain: Chain, *, only_again: bool = False) -> Plan[ResponseForm]:
        """The run on the chain's thread. Where that is taken, a run without answers begins a thread."""
        gives_way = frozenset[str]() if chain.record is None or self.said.answers else _TAKEN
        return Plan(self._same_thread(), self.form, only_again=only_again, gives_way=gives_way)

    def new_thread(self) -> AgentInput:
        """The input of a run that begins a thread: as the chain's, where there is one."""
        end = None if self.chain is None else self.chain.end
        if self.place is not None:
            end = self.place.begins_from
        request, place = self.request, self.place
        keeps = request.store and not (place is not None and place.short_lived)
        thread = InputThread(
            self.form.thread_id, short_lived=not keeps, forgets_pauses=not request.store, begins_from=end
        )
        return self._input(thread, begins=True)

    def _same_thread(self) -> AgentInput:
        """The input of a run on the chain's thread."""
        chain = self.chain
        end = None if chain is None or chain.replays or self.said.answers else chain.end
        thread = InputThread(self.form.thread_id, forgets_pauses=not self.request.store)
        return self._input(thread, begins=False, seen=ABSENT if end is None else end.last_message_id)

    def _input(self, thread: InputThread, *, begins: bool, seen: str | Absent | None = ABSENT) -> AgentInput:
        request, said = self.request, self.said
        replays = self.place is not None or (self.chain is not None and self.chain.replays)
        return AgentInput(
            self.form.run_id,
            thread,
            SentMessages(
                said.messages,
                "replace" if replays else "append",
                frozenset(message.id for message in said.messages),
                seen,
                self.known.recognise if replays else None,
                self.known.history if replays else None,
            ),
            said.answers,
            ClientApplication(request.tools),
            InputTerms(
                request.options,
                unattended=request.background,
                must_answer=bool(said.answers) and not said.messages,
                names_calls=True,
                calls_as_written=True,
            ),
            InputOrigin(ORIGIN, {**self.form.remembered, "begins_thread": begins}, self.request_id, _NAMES),
        )
