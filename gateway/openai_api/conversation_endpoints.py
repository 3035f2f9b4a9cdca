"""OpenAI's conversations: threads, and their messages as items.

Below: the protocols' environment; openai_api. Every thread of the caller's is a conversation, whichever protocol began
it. https://platform.openai.com/docs/api-reference/conversations
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway.access.authentication import has_body
from gateway.access.callers import Caller
from gateway.errors import ConflictError
from gateway.openai_api.conversations import (
    conversation_json,
    conversation_named,
    deleted_json,
    item_with,
    items_refused,
    metadata_after,
    named,
    read_added,
    read_change,
    read_new,
    without_item,
)
from gateway.openai_api.ids import new_thread_id
from gateway.openai_api.includes import ENCRYPTED, includes_asked
from gateway.openai_api.item_lists import item_list, part_asked
from gateway.openai_api.response_view import view_of
from gateway.openai_api.routes import KEY_HEADER, openai_error_form, openai_routes, read_object
from gateway.openai_api.settings import RESPONSES_SECTION
from gateway.openai_api.thread_items import ThreadItems, message_items
from gateway.openapi.data import api_data
from gateway.protocol import WHOLE_THREAD, Endpoint, ProtocolEnvironment, WireProtocol, caller_of, path_id
from gateway.protocol.answers import json_response
from gateway.store import ThreadChange


class _Endpoints:
    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._environment = environment

    async def create(self, request: Request) -> Response:
        caller, key = caller_of(request), request.headers.get(KEY_HEADER, "")
        key = key and f"created {key}"
        messages, metadata = read_new(await read_object(request) if has_body(request.headers) else {})
        thread_id = new_thread_id(key)
        try:
            await self._environment.create_thread(caller, thread_id, named(messages, key), metadata=metadata)
        except ConflictError:
            if not key:
                raise
        return await self._conversation(caller, thread_id)

    async def _conversation(self, caller: Caller, thread_id: str) -> Response:
        with conversation_named(thread_id):
            return json_response(conversation_json(await self._environment.thread(caller, thread_id)))

    async def conversation(self, request: Request) -> Response:
        return await self._conversation(caller_of(request), path_id(request, "conversation"))

    async def update(self, request: Request) -> Response:
        caller, thread_id = caller_of(request), path_id(request, "conversation")
        metadata = read_change(await read_object(request))
        with conversation_named(thread_id):
            before = (await self._environment.thread(caller, thread_id)).metadata
            change = ThreadChange(metadata=metadata_after(before, metadata))
            await self._environment.update_thread(caller, thread_id, change)
        return await self._conversation(caller, thread_id)

    async def delete(self, request: Request) -> Response:
        thread_id = path_id(request, "conversation")
        with conversation_named(thread_id):
            await self._environment.delete(caller_of(request), thread_id)
        return json_response(deleted_json(thread_id))

    async def items(self, request: Request) -> Response:
        query = request.query_params.multi_items()
        part, encrypted = part_asked(query), ENCRYPTED in includes_asked(query)
        items = await self._items(caller_of(request), path_id(request, "conversation"), encrypted=encrypted)
        if part.after is not None:
            items = items.cut_at(part.after, oldest_first=part.oldest_first)
        return json_response(part.of(items))

    async def add(self, request: Request) -> Response:
        caller, thread_id = caller_of(request), path_id(request, "conversation")
        includes_asked(request.query_params.multi_items())
        messages = named(read_added(await read_object(request)), request.headers.get(KEY_HEADER, ""))
        with conversation_named(thread_id), items_refused():
            kept = await self._environment.append_messages(caller, thread_id, messages)
        return json_response(item_list([item.value for message in kept for item in message_items(message)]))

    async def item(self, request: Request) -> Response:
        encrypted = ENCRYPTED in includes_asked(request.query_params.multi_items())
        thread_id, item_id = path_id(request, "conversation"), path_id(request, "item_id")
        items = await self._items(caller_of(request), thread_id, encrypted=encrypted)
        return json_response(item_with(items, thread_id, item_id).value)

    async def delete_item(self, request: Request) -> Response:
        caller = caller_of(request)
        thread_id, item_id = path_id(request, "conversation"), path_id(request, "item_id")
        items = await self._items(caller, thread_id)
        item = item_with(items, thread_id, item_id)
        with conversation_named(thread_id):
            await self._environment.leave_messages(caller, thread_id, without_item(items, item), waits=False)
        return await self._conversation(caller, thread_id)

    async def _items(self, caller: Caller, thread_id: str, *, encrypted: bool = False) -> ThreadItems:
        with conversation_named(thread_id):
            messages = (await self._environment.messages(caller, thread_id, limit=WHOLE_THREAD)).items
            runs = (await self._environment.thread_runs(caller, thread_id, limit=WHOLE_THREAD)).items
        brought = await self._environment.message_runs(caller, thread_id)
        return ThreadItems(messages, brought, runs, await view_of(self._environment, caller, runs, encrypted=encrypted))


def _routes(environment: ProtocolEnvironment) -> Sequence[BaseRoute]:
    on = _Endpoints(environment)
    one, items = "/conversations/{conversation}", "/conversations/{conversation}/items"
    return openai_routes(
        [
            Route("/conversations", Endpoint(on.create), methods=["POST"]),
            Route(one, Endpoint(on.conversation), methods=["GET"]),
            Route(one, Endpoint(on.update), methods=["POST"]),
            Route(one, Endpoint(on.delete), methods=["DELETE"]),
            Route(items, Endpoint(on.items), methods=["GET"]),
            Route(items, Endpoint(on.add), methods=["POST"]),
            Route(items + "/{item_id}", Endpoint(on.item), methods=["GET"]),
            Route(items + "/{item_id}", Endpoint(on.delete_item), methods=["DELETE"]),
        ]
    )


PROTOCOL = WireProtocol(
    "openai_conversations",
    _routes,
    error_form=openai_error_form,
    api=api_data("gateway.openai_api", "openai_conversations"),
    settings=RESPONSES_SECTION,
)
