"""ml-commons' REST API: the messages of conversation memory. Turns of threads are interactions, with their traces.

Below: the protocols' environment; ml_commons. Clients read and change messages of all protocols here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway.documents.document import Document
from gateway.errors import InvalidRequestError
from gateway.messages import JsonObject, Message
from gateway.ml_commons.answers import new_document_id, write_answer
from gateway.ml_commons.routes import (
    PREFIX,
    SETTINGS,
    ml_response,
    ml_routes,
    opensearch_error_form,
    read_object,
    read_search,
)
from gateway.ml_memory.interaction_writes import (
    InteractionWords,
    edited_messages,
    edited_words,
    posted_messages,
    posted_words,
)
from gateway.ml_memory.interactions import interaction_json, turn_with
from gateway.ml_memory.memories import MESSAGE_INDEX, stretch_asked
from gateway.ml_memory.memory_reading import ReadMemory, memory_named, no_message, read_memory
from gateway.ml_memory.memory_search import check_count, document_searches, search_documents
from gateway.ml_memory.posted_traces import TRACES, edit_trace, put_trace, traces_of
from gateway.openapi.data import api_data
from gateway.protocol import ProtocolEnvironment, WireProtocol, caller_of, path_id
from gateway.protocol.made_documents import Rest

_MEMORY = PREFIX + "/memory"
_TOO_FEW = "The number of interactions to retrieve must be positive"
_TOO_LOW = "The starting position must be nonnegative"


class _Endpoints:
    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._environment = environment
        self._searches = environment.shared(document_searches)

    async def messages(self, request: Request) -> Response:
        asked = stretch_asked(request.query_params, too_few=_TOO_FEW, too_low=_TOO_LOW)
        newest_first = _is_newest_first(request)
        memory = await read_memory(self._environment, caller_of(request), path_id(request, "conversation_id"))
        turns = memory.turns[::-1] if newest_first else memory.turns
        interactions = (interaction_json(memory.memory_id, turn) for turn in asked.of(turns))
        # in a thread: a single interaction may have many large questions
        return ml_response(request, await asyncio.to_thread(asked.answer, "messages", interactions, len(turns)))

    async def post(self, request: Request) -> Response:
        caller, memory_id = caller_of(request), path_id(request, "conversation_id")
        words = posted_words(await read_object(request))
        if words.parent is not None:
            return ml_response(request, {"message_id": await self._put_trace(request, memory_id, words)})
        message_id = new_document_id()
        messages = posted_messages(words, message_id, self._environment.now())
        with memory_named(memory_id):
            await self._environment.append_messages(caller, memory_id, messages, waits=True)
        return ml_response(request, {"message_id": message_id})

    async def _put_trace(self, request: Request, memory_id: str, words: InteractionWords) -> str:
        assert words.parent is not None, "it is a trace"
        memory = await read_memory(self._environment, caller_of(request), memory_id)
        turn = memory.turn(words.parent)
        documents, number = self._environment.documents(caller_of(request)), words.trace_number
        if number is None:
            posted = await traces_of(documents, memory_id, turn.id)
            number = 1 + max([len(memory.traces(turn)), *map(_number, posted)])
        with memory_named(memory_id):
            return await put_trace(documents, memory_id, turn.id, words, number, self._environment.now())

    async def search(self, request: Request) -> Response:
        caller, body = caller_of(request), await read_search(request)
        memory = await read_memory(self._environment, caller, path_id(request, "conversation_id"))
        posted = await traces_of(self._environment.documents(caller), memory.memory_id)

        def found(rest: Rest) -> JsonObject:
            made = [*posted, *(trace for turn in memory.turns for trace in memory.traces(turn))]
            made += [interaction_json(memory.memory_id, turn) for turn in memory.turns]
            check_count(len(made))
            named = {str(each["message_id"]): each for each in made}
            return search_documents(MESSAGE_INDEX, named, body, self._environment.now(), rest)

        answer = await self._searches.run(caller.owner, found)
        return ml_response(request, answer)

    async def message(self, request: Request) -> Response:
        message_id = path_id(request, "message_id")
        found = await self._found(request, message_id)
        if isinstance(found, Document):
            return ml_response(request, found.body)
        trace = found.trace(message_id)
        return ml_response(request, trace or interaction_json(found.memory_id, found.turn(message_id)))

    async def update(self, request: Request) -> Response:
        message_id, words = path_id(request, "message_id"), edited_words(await read_object(request))
        caller, now = caller_of(request), self._environment.now()
        found = await self._found(request, message_id)
        if isinstance(found, Document):
            version = await edit_trace(self._environment.documents(caller), found, words, now)
            return ml_response(request, write_answer(MESSAGE_INDEX, message_id, "updated", version))
        turn = found.turn(message_id)
        if found.trace(message_id) is not None:
            raise InvalidRequestError(
                f"message {message_id!r} is a step of a run, which stays as it was; change its interaction {turn.id!r}",
                status=400,
            )

        def edited(messages: tuple[Message, ...]) -> tuple[Message, ...]:
            turn = turn_with(found.turns_in(messages), message_id)
            if turn is None:
                raise no_message(message_id)
            return edited_messages(messages, turn, words, now)

        with memory_named(found.memory_id):
            await self._environment.edit_messages(caller, found.memory_id, edited)
        return ml_response(request, write_answer(MESSAGE_INDEX, turn.id, "updated"))

    async def traces(self, request: Request) -> Response:
        asked = stretch_asked(request.query_params, too_few=_TOO_FEW, too_low=_TOO_LOW)
        message_id = path_id(request, "message_id")
        found = await self._found(request, message_id)
        traces: list[JsonObject] = []
        if not isinstance(found, Document) and found.trace(message_id) is None:
            turn = found.turn(message_id)
            posted = await traces_of(self._environment.documents(caller_of(request)), found.memory_id, turn.id)
            traces = sorted([*found.traces(turn), *posted], key=_number)
        return ml_response(request, asked.answer("traces", asked.of(traces), len(traces)))

    async def _found(self, request: Request, message_id: str) -> ReadMemory | Document:
        """The memory with the message, or a trace that a client put. Of several memories that have one of that id,
        `memory_id` names one; without it the one that was used last. Raises NotFoundError.
        """
        caller = caller_of(request)
        memory_id = request.query_params.get("memory_id")
        if memory_id is None:
            memory_id = next(iter(await self._environment.find_message(caller, message_id)), None)
        trace = await self._environment.documents(caller).get(TRACES, message_id)
        if trace is not None and memory_id in (None, trace.body["memory_id"]):
            return trace
        if memory_id is None:
            raise no_message(message_id)
        memory = await read_memory(self._environment, caller, memory_id)
        memory.turn(message_id)
        return memory


def _number(trace: JsonObject) -> int:
    number = trace["trace_number"]
    assert isinstance(number, int), "every trace has one"
    return number


def _is_newest_first(request: Request) -> bool:
    order = request.query_params.get("order", "asc")
    if order not in ("asc", "desc"):
        raise InvalidRequestError(f"order is {order[:64]!r}; it must be asc (the oldest first) or desc", status=400)
    return order == "desc"


def _routes(environment: ProtocolEnvironment) -> Sequence[BaseRoute]:
    on = _Endpoints(environment)
    routes = [
        Route(_MEMORY + "/message/{message_id}", on.message, methods=["GET"]),
        Route(_MEMORY + "/message/{message_id}", on.update, methods=["PUT"]),
        Route(_MEMORY + "/message/{message_id}/traces", on.traces, methods=["GET"]),
        Route(_MEMORY + "/{conversation_id}/_search", on.search, methods=["GET", "POST"]),
        Route(_MEMORY + "/{conversation_id}/messages", on.messages, methods=["GET"]),
        Route(_MEMORY + "/{conversation_id}/messages", on.post, methods=["POST"]),
    ]
    return ml_routes(environment, routes, "memory_feature_enabled")


PROTOCOL = WireProtocol(
    "ml_messages",
    _routes,
    error_form=opensearch_error_form,
    api=api_data("gateway.ml_memory", "ml_messages"),
    settings=SETTINGS,
)
