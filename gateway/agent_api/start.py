"""Begins the run that a request of the Agent API asks for; or finds the one that it began before.

Below: request, recognition, output, protocol. Above: the protocol `agent_api`, and programs that answer in its place.
"""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from gateway.access.callers import Caller
from gateway.agent import (
    AgentDefinition,
    AgentInput,
    ClientApplication,
    InputNames,
    InputOrigin,
    InputTerms,
    InputThread,
    InterruptAnswer,
    SentMessages,
)
from gateway.agent_api.errors import wrong
from gateway.agent_api.ids import new_run_id, new_thread_id
from gateway.agent_api.input_messages import ApprovalAnswer, InputMessage, ReadInput, SaidMessage
from gateway.agent_api.mcp_servers import listed_servers
from gateway.agent_api.output import ORIGIN, ResponseForm, form_of
from gateway.agent_api.recognition import recognise
from gateway.agent_api.request import ProcessRequest, read_request
from gateway.agent_api.settings import AgentApiSettings
from gateway.errors import ConflictError, GatewayError
from gateway.events import Interrupt, approval_id
from gateway.history.recognition import common_beginning
from gateway.messages import (
    JsonObject,
    JsonValue,
    Message,
    ToolCall,
    ToolResult,
    ToolSpec,
    answered_calls,
    new_message_id,
)
from gateway.options.run_options import RunOptions
from gateway.protocol import OpenAgent, ProtocolEnvironment, Viewer
from gateway.protocol.begin import Plan, Plans, RepeatWords, RunName, RunRequest, begin, body_digest
from gateway.protocol.earlier_calls import EarlierCall
from gateway.protocol.input_cache import InputCache, KnownInput

logger = logging.getLogger(__name__)

_SESSION: Final = re.compile(rb'"session_id": ?"([^"\\]{1,256})"')
_EDGE: Final = 4096  # bytes at the beginning and at the end of a body where it usually stands
_NAMES: Final = InputNames(run_id="response_id", answers="input")
_REPEATED: Final = RepeatWords(
    "the response_id belongs to another request; use a new one for each",
    "response_id_reused",
    "the request was cancelled before it began; send it with another response_id",
)


@dataclass(frozen=True, slots=True)
class StartedResponse:
    """A run that has begun. Close the viewer at the end, which is one from event 1. The answer is made of its events
    and of `form`.
    """

    viewer: Viewer
    form: ResponseForm
    stream: bool


async def start_response(
    environment: ProtocolEnvironment,
    caller: Caller,
    agent_id: str | None,
    content: bytes,
    cache: InputCache[ReadInput],
    *,
    request_id: str = "",
) -> StartedResponse:
    """As `start_parsed`, of a body in bytes. The `cache` changes no result.

    Raises:
        GatewayError: as `start_parsed`; InvalidRequestError (400) if it is not strict JSON.
    """
    named = _named_session(content)
    known = cache.find(caller.owner, named)
    body = await known.parsed(content, caller.owner, environment.time)
    request = read_request(body, known.read)
    # without an answer among them the ids that the messages got here might say that a question is an old one
    if named and isinstance(body, dict) and any(message.role == "assistant" for message in request.input.messages):
        cache.keep(caller.owner, named, known, request.input, body, content)
    return await _start(environment, caller, agent_id, body, request, known, request_id)


async def start_parsed(
    environment: ProtocolEnvironment,
    caller: Caller,
    agent_id: str | None,
    body: JsonValue,
    *,
    request_id: str = "",
) -> StartedResponse:
    """Begin the run that a body asks for; one whose response_id came before with the same body gets that run.

    Without an `agent_id` the default agent answers.

    Raises:
        GatewayError: as `read_request` and `begin`.
        NotFoundError: there is no such agent for the caller.
        ConflictError: the question that it answers is not open, or its call was answered before.
    """
    known = input_cache().find(caller.owner, "")
    return await _start(environment, caller, agent_id, body, read_request(body), known, request_id)


def input_cache() -> InputCache[ReadInput]:
    """An empty cache for `start_response`."""
    return InputCache[ReadInput]("input", common_beginning)


def _named_session(content: bytes) -> str:
    """The name that the session seems to have, which only says where to look in the cache. Empty: there is none."""
    found = _SESSION.search(content, 0, _EDGE) or _SESSION.search(content, max(0, len(content) - _EDGE))
    return "" if found is None else found[1].decode("utf-8", "replace")


async def _start(
    environment: ProtocolEnvironment,
    caller: Caller,
    agent_id: str | None,
    body: JsonValue,
    request: ProcessRequest,
    known: KnownInput[ReadInput],
    request_id: str,
) -> StartedResponse:
    await environment.turn_after(caller, len(request.input.messages) + len(request.tools))
    agent_id = agent_id or environment.default_agent(caller)

    async def plans(agent: OpenAgent) -> Plans[ResponseForm]:
        session = await _session_of(environment, caller, request.thread_id)
        answers, late = _answers(request.input.read, session)
        _check_outputs(request.input, session)
        late = late or _answered_before(request.input, session)
        _check_outputs_agree(request.input)
        form = await _form(environment, caller, request, session, agent)
        given = _input(request, session, answers, form, known, request_id)
        return Plans([Plan(given, form, only_again=late is not None)], late)

    run_id = request.run_id
    name = None if run_id is None else RunName(run_id, _digest(agent_id, body), form_of, _REPEATED)
    begun = await begin(environment, caller, RunRequest(agent_id, plans, name))
    return StartedResponse(begun.viewer, begun.form, request.stream)


def _digest(agent_id: str, body: JsonValue) -> str:
    """A digest of a request. A request that was answered with a stream may be fetched as a whole later. Null is the
    same as absent.
    """
    members = body.items() if isinstance(body, dict) else ()
    kept: JsonObject = {name: value for name, value in members if name != "stream" and value is not None}
    return body_digest({"agent": agent_id, "body": kept})


# --- the session -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Session:
    """The thread of a request. `begins`: there is none yet."""

    thread_id: str
    messages: Sequence[Message] = ()
    questions: Sequence[Interrupt] = ()
    begins: bool = False

    @property
    def calls(self) -> dict[str, ToolCall]:
        """The calls in it, by their ids."""
        return {call.call_id: call for message in self.messages for call in message.tool_calls}


async def _session_of(environment: ProtocolEnvironment, caller: Caller, thread_id: str | None) -> _Session:
    if thread_id is None:
        return _Session(new_thread_id(), begins=True)
    if (head := await environment.thread_head(caller, thread_id)) is None:
        return _Session(thread_id, begins=True)
    return _Session(thread_id, head.messages, head.interrupts)


def _answers(
    given: Sequence[InputMessage], session: _Session
) -> tuple[tuple[InterruptAnswer, ...], GatewayError | None]:
    """A person's answers to the session's questions, and the error if a question is not open any more. Only answers
    after the agent's last message count: a client sends the earlier ones again. Messages with calls that open questions
    are about do not count as the last one: each may stand before its own answer.
    """
    asked = {question.call_id for question in session.questions}
    is_open = {name: question.id for question in session.questions for name in (question.id, question.call_id)}
    was_open: dict[str | None, str] | None = None
    answers, again, late = dict[str, InterruptAnswer](), False, None
    for message in reversed(given):
        if isinstance(message, ApprovalAnswer):
            if (answer := _answer(message, is_open)) is not None:
                if answers.setdefault(answer.interrupt_id, answer).approved != answer.approved:
                    raise wrong("the question is approved and denied; answer it once", f"{message.at}/content/0/data")
            elif not again:
                late = _no_question(message, session)
                if was_open is None:
                    was_open = {name: approval_id(call) for call in session.calls for name in (call, approval_id(call))}
                if (answer := _answer(message, was_open)) is None:
                    raise late
                answers.setdefault(answer.interrupt_id, answer)
            continue
        if all(each.role != "assistant" for each in message.messages):
            continue
        calls = {call.call_id for each in message.messages for call in each.tool_calls}
        if not calls or not calls <= asked:
            break
        again = True
    return tuple(answers.values())[::-1], late


def _answer(message: ApprovalAnswer, asked: Mapping[str | None, str]) -> InterruptAnswer | None:
    """The answer to a question in `asked`, which has questions' ids by these ids and by those of their calls; None: the
    question is not among them.
    """
    if (question_id := asked.get(message.request_id)) is None:
        return None
    return InterruptAnswer(question_id, "resolved", approved=message.approve, reason=message.reason)


def _no_question(message: ApprovalAnswer, session: _Session) -> GatewayError:
    """The error for an answer to a question that is not open."""
    shown = message.request_id[:64]
    if session.begins:
        return wrong(
            f"the session has no question {shown!r}; give the session_id and the id of an mcp_approval_request",
            f"{message.at}/content/0/data/approval_request_id",
        )
    return ConflictError(
        f"the question {shown!r} is not open: it was answered, withdrawn or has expired, or the session never had it",
        code="approval_answered",
    )


def _check_outputs(given: ReadInput, session: _Session) -> None:
    """Refuse outputs of unknown calls. Raises InvalidRequestError."""
    if not given.outputs:
        return
    known = set(session.calls)
    for said in given.read:
        if not isinstance(said, SaidMessage):
            continue
        for message in said.messages:
            known.update(call.call_id for call in message.tool_calls)
            if (result := message.tool_result) is not None and result.call_id not in known:
                raise wrong(
                    f"the session has no call {result.call_id[:64]!r}; give the call_id of a function_call",
                    f"{said.at}/content/0/data/call_id",
                )


def _answered_before(given: ReadInput, session: _Session) -> GatewayError | None:
    """The error for an input of nothing but outputs whose calls were answered before, where the agent went on with
    that: it would answer its own words.
    """
    last = session.messages[-1] if session.messages else None
    if last is None or last.role != "assistant" or last.tool_calls:
        return None
    if not all(message.tool_calls or message.tool_result for message in given.messages):
        return None
    if any(isinstance(each, ApprovalAnswer) for each in given.read):
        return None
    called = {call.call_id for message in given.messages for call in message.tool_calls} | given.outputs
    if called <= answered_calls(session.messages):
        return ConflictError("the session has the outputs of these calls, and an answer to them", code="call_answered")
    return None


def _check_outputs_agree(given: ReadInput) -> None:
    """Refuse two different outputs of one call. Raises InvalidRequestError."""
    if not given.outputs:
        return
    outputs: dict[str, ToolResult] = {}
    for said in given.read:
        if not isinstance(said, SaidMessage) or (result := said.messages[0].tool_result) is None:
            continue
        if outputs.setdefault(result.call_id, result) != result:
            shown = result.call_id[:64]
            raise wrong(f"the call {shown!r} has two different outputs; send one", f"{said.at}/content/0/data/output")


# --- its response's form ---------------------------------------------------------------------------------------------


async def _form(
    environment: ProtocolEnvironment, caller: Caller, request: ProcessRequest, session: _Session, agent: OpenAgent
) -> ResponseForm:
    now, settings = int(environment.now()), environment.protocol_settings(caller, AgentApiSettings)
    lists = session.begins and settings.mcp_list_tools
    tools = (await agent.tools())[0] if lists or session.questions else {}
    specs = {name: tool.spec for name, tool in tools.items()}
    servers = listed_servers(specs.values()) if lists else ()
    if request.answers > 1:
        extra = {"agent_id": agent.definition.id, "count": request.answers}
        logger.warning("a request asks for several answers: it gets one", extra=extra)
    return ResponseForm(
        request.run_id or new_run_id(),
        session.thread_id,
        now,
        settings.backend_tools,
        _warnings(request, agent.definition),
        servers,
        _waiting(session, specs),
    )


def _waiting(session: _Session, specs: Mapping[str, ToolSpec]) -> tuple[EarlierCall, ...]:
    """The calls of the session that wait for a person."""
    calls = session.calls if session.questions else {}
    asked = [calls[each.call_id] for each in session.questions if each.call_id in calls]
    servers = {name: spec.server for name, spec in specs.items()}
    return tuple(EarlierCall(call.call_id, call.name, call.arguments, servers.get(call.name)) for call in asked)


def _warnings(request: ProcessRequest, definition: AgentDefinition) -> tuple[str, ...]:
    warnings = []
    if request.model and not definition.allows_model(request.model):
        warnings.append(f"model {request.model[:64]!r} is ignored: the agent's 'allow_models' does not list it")
    if request.answers > 1:
        warnings.append(f"n is {request.answers}: the agent gives one answer")
    return tuple(warnings)


# --- the run ---------------------------------------------------------------------------------------------------------


def _input(
    request: ProcessRequest,
    session: _Session,
    answers: tuple[InterruptAnswer, ...],
    form: ResponseForm,
    known: KnownInput[ReadInput],
    request_id: str,
) -> AgentInput:
    messages = request.input.messages
    spare_ids = defaultdict[str, str](new_message_id)  # each is made once it is needed, and stays
    return AgentInput(
        form.run_id,
        InputThread(session.thread_id),
        SentMessages(
            messages,
            history="replace",
            minted_ids=request.input.ids,
            recognition=partial(known.recognise, how=partial(recognise, spare_ids=spare_ids)),
            history_cache=known.history,
        ),
        answers,
        ClientApplication(request.tools),
        InputTerms(
            RunOptions(request.options, model=request.model),
            must_answer=bool(answers) and not messages,
            names_calls=True,
        ),
        InputOrigin(ORIGIN, form.remembered, request_id, _NAMES),
    )
