"""Begins the run that a request of Chat Completions asks for: finds its thread, and the run that it began before.

Below: chat_request, chat_history, chat_renderer, protocol. Above: the protocol `chat_completions`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gateway.access.callers import Caller
from gateway.agent import (
    AgentInput,
    ClientApplication,
    InputNames,
    InputOrigin,
    InputTerms,
    InputThread,
    InterruptAnswer,
    SentMessages,
)
from gateway.events import approval_id
from gateway.openai_api.chat_history import common_beginning
from gateway.openai_api.chat_renderer import ChatForm, form_of
from gateway.openai_api.chat_request import ChatRequest, ReadItems, read_chat_request
from gateway.openai_api.errors import unknown_model, wrong
from gateway.openai_api.header_threads import (
    ThreadPlace,
    first_named,
    header_place,
    no_thread_id,
    thread_id_of,
    thread_of_header,
)
from gateway.openai_api.ids import new_run_id, new_thread_id, place_of
from gateway.openai_api.questions import asked_ids, decision_of
from gateway.openai_api.responses_references import StoredItems, call_asked, waiting_calls
from gateway.openai_api.responses_resource import CHAT_ORIGIN
from gateway.openai_api.routes import KEY_HEADER, REPEAT_WORDS, header_text, left_out_headers
from gateway.openai_api.settings import ChatSettings
from gateway.protocol import OpenAgent, ProtocolEnvironment, Viewer
from gateway.protocol.answers import THREAD_HEADER, run_headers
from gateway.protocol.begin import Plan, Plans, RunName, RunRequest, begin, body_digest
from gateway.protocol.earlier_calls import EarlierCall
from gateway.protocol.input_cache import InputCache, KnownInput
from gateway.protocol.requests import expect_object

_NAMES: Final = InputNames(run_id="Idempotency-Key", instructions="messages")
_NOTED_THREAD: Final = re.compile(rb'"thread_id": ?"([^"\\]{1,256})"')


@dataclass(frozen=True, slots=True)
class StartedChat:
    """A run that has begun. Close the viewer at the end. The answer is made of its events and of `form`, and has
    `headers`.
    """

    viewer: Viewer
    form: ChatForm
    stream: bool
    headers: Mapping[str, str]


async def start_chat(
    environment: ProtocolEnvironment,
    caller: Caller,
    content: bytes,
    headers: Mapping[str, str],
    cache: InputCache[ReadItems],
    *,
    request_id: str = "",
) -> StartedChat:
    """Begin the run that a body asks for; a repeated request with an Idempotency-Key gets its earlier run. The `cache`
    changes no result.

    Raises:
        GatewayError: as `expect_object`, `read_chat_request` and `ProtocolEnvironment.start`; NotFoundError for an
            unknown model.
    """
    settings = environment.protocol_settings(caller, ChatSettings)
    named = _named_thread(headers, content, settings)
    chat = cache.find(caller.owner, named)
    body = expect_object(await chat.parsed(content, caller.owner, environment.time))
    request = read_chat_request(body, chat.read, refuses_others=settings.other_tools == "refuse")
    key = headers.get(KEY_HEADER, "")
    run_id = new_run_id("chatcmpl-", key)

    async def plans(_: OpenAgent) -> Plans[ChatForm]:
        place = await _place_of(environment, caller, request, headers, settings, new_thread_id(key and run_id))
        if named and not place.short_lived:
            cache.keep(caller.owner, named, chat, request.read, body, content)
        asked = await _asked(environment, caller, request, place.thread_id)
        form = replace(_form(request, run_id, environment.now(), settings), earlier=asked.earlier)
        given = _input(request, chat, form, place, request_id)
        return _plans(given, form, asked if settings.approve_by_word else _Asked())

    name = RunName(run_id, body_digest(body), form_of, REPEAT_WORDS) if key else None
    begun = await begin(environment, caller, RunRequest(request.model, plans, name, unknown_model))
    begun.viewer.may_return = bool(key) or not request.stream
    given_back = {**run_headers(begun.thread_id, begun.form.id), **left_out_headers(request.left_out)}
    return StartedChat(begun.viewer, begun.form, request.stream, given_back)


def _plans(given: AgentInput, form: ChatForm, asked: _Asked) -> Plans[ChatForm]:
    """The last message is a person's answer, where that is asked for."""
    if not asked.answers:
        return Plans([Plan(given, form)])
    answered = replace(
        given,
        sent=replace(given.sent, messages=given.sent.messages[:-1]),
        answers=asked.answers,
        terms=replace(given.terms, must_answer=True),
    )
    if not asked.are_late:
        return Plans([Plan(answered, form)])
    return Plans([Plan(answered, form, only_again=True), Plan(given, form)])


def _input(
    request: ChatRequest, chat: KnownInput[ReadItems], form: ChatForm, place: ThreadPlace, request_id: str
) -> AgentInput:
    return AgentInput(
        form.id,
        InputThread(place.thread_id, short_lived=place.short_lived, begins_from=place.begins_from),
        SentMessages(
            request.messages,
            "replace",
            frozenset(message.id for message in request.messages),
            recognition=chat.recognise,
            history_cache=chat.history,
        ),
        application=ClientApplication(request.tools),
        terms=InputTerms(request.options, names_calls=True, calls_as_written=True),
        origin=InputOrigin(CHAT_ORIGIN, form.remembered, request_id, _NAMES),
    )


def _form(request: ChatRequest, run_id: str, now: float, settings: ChatSettings) -> ChatForm:
    return ChatForm(
        run_id,
        int(now),
        request.model,
        include_usage=request.include_usage,
        backend_tools=settings.backend_tools,
        store=request.store,
        metadata=request.metadata,
        by_word=settings.approve_by_word,
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    """The calls that a thread waits for, and the answers of a last message that decides by word a question of the
    answer before it. `are_late`: none of them is open any more, so only a run that failed with them is gone on with.
    """

    earlier: tuple[EarlierCall, ...] = ()
    answers: tuple[InterruptAnswer, ...] = ()
    are_late: bool = False


async def _asked(environment: ProtocolEnvironment, caller: Caller, request: ChatRequest, thread_id: str) -> _Asked:
    approved, ids = decision_of(request.messages[-1]), _asked_last(request)
    stored = StoredItems(environment, caller)
    head = await environment.thread_head(caller, thread_id)
    if head is None or not (interrupts := head.interrupts):
        return await _late(approved, ids, stored)
    earlier = await waiting_calls(interrupts, head.messages, stored)
    if approved is None or not ids:
        return _Asked(earlier)
    # Each answer asks for all that is open, so what is open and was asked there is all of it, or what it names.
    by_last = head.last_run_id is not None and any(_run_of(each) == head.last_run_id for each in ids)
    named = {call.call_id for call in earlier if call.approval_request_id in ids}
    asked = [each for each in interrupts if by_last or each.call_id in named]
    own = head.interrupts_of(request.model)
    asked = [each for each in asked if each in own] or asked  # another agent's are refused by name
    return _Asked(earlier, tuple(InterruptAnswer(each.id, "resolved", approved=approved) for each in asked))


async def _late(approved: bool | None, ids: Sequence[str], stored: StoredItems) -> _Asked:
    if approved is None:
        return _Asked()
    calls = [call_id for each in ids if (call_id := await call_asked(each, stored)) is not None]
    answers = (InterruptAnswer(approval_id(call_id), "resolved", approved=approved) for call_id in calls)
    return _Asked(answers=tuple(answers), are_late=True)


def _asked_last(request: ChatRequest) -> Sequence[str]:
    """The ids of the approvals for which the last answer in a conversation asks."""
    last = next((message for message in reversed(request.messages) if message.role == "assistant"), None)
    return () if last is None else asked_ids(last.text)


def _run_of(approval_id: str) -> str:
    place = place_of(approval_id)
    return "" if place is None else place.run_id


def _named_thread(headers: Mapping[str, str], content: bytes, settings: ChatSettings) -> str:
    """The name that the thread seems to have, which only says where to look in the cache. Empty: there is none."""
    sent = (header_text(headers, name) for name in (THREAD_HEADER, *settings.thread_headers))
    if named := next(filter(None, sent), ""):
        return named
    noted = _NOTED_THREAD.match(content, max(0, content.rfind(b'"thread_id"')))
    return "" if noted is None else noted[1].decode("utf-8", "replace")


async def _place_of(
    environment: ProtocolEnvironment,
    caller: Caller,
    request: ChatRequest,
    headers: Mapping[str, str],
    settings: ChatSettings,
    new: str,
) -> ThreadPlace:
    """The thread that a request names, or to which its calls lead; without any, one of the id `new`."""
    if named := thread_of_header(headers, THREAD_HEADER) or _noted_thread(request):
        return ThreadPlace(named)
    if named := first_named(headers, settings.thread_headers):
        return await header_place(
            environment, caller, named, request.messages, common_beginning, stream=request.stream, aside=new
        )
    known = await _thread_of_question(environment, caller, request)
    if known is None:
        known = await _thread_of_calls(environment, caller, request)
    return ThreadPlace(new, short_lived=True) if known is None else ThreadPlace(known)


def _noted_thread(request: ChatRequest) -> str:
    """The thread that the metadata name; empty: they name none. Raises InvalidRequestError (400)."""
    noted = (request.metadata or {}).get("thread_id")
    if not isinstance(noted, str):
        return ""
    if (named := thread_id_of(noted)) is None:
        raise wrong(no_thread_id("metadata.thread_id"), "/metadata/thread_id")
    return named


async def _thread_of_question(environment: ProtocolEnvironment, caller: Caller, request: ChatRequest) -> str | None:
    """The thread where the last answer in the request asks a person."""
    for run_id in map(_run_of, reversed(_asked_last(request))):
        if (record := await environment.known_run(caller, run_id)) is not None:
            return record.thread_id
    return None


async def _thread_of_calls(environment: ProtocolEnvironment, caller: Caller, request: ChatRequest) -> str | None:
    """The thread of the last run that made one of the calls in the request."""
    for call_id in reversed(request.call_ids):
        if (place := place_of(call_id)) is not None:
            record = await environment.known_run(caller, place.run_id)
            return None if record is None else record.thread_id
    return None
