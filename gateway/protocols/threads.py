"""Threads over REST: list, read, rename, fork and delete them, and their versions.

Below: protocol, ag_ui for messages. Shapes are camelCase; lists are paged by `nextCursor`.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from gateway.ag_ui.events import interrupt_json
from gateway.ag_ui.messages import ag_ui_messages
from gateway.ag_ui.peer import profile_asked
from gateway.errors import FieldProblem, InvalidRequestError, NotFoundError
from gateway.messages import JsonObject, JsonValue
from gateway.openapi.data import api_data
from gateway.protocol import (
    ProtocolEnvironment,
    VisitorRoute,
    WireProtocol,
    caller_of,
    json_response,
    page_asked,
    path_id,
    read_json,
    time_text,
)
from gateway.protocol.pages import PAGE_BYTES
from gateway.protocol.requests import whole_number
from gateway.store import ThreadChange, ThreadSummary, ThreadVersion

_MAX_TITLE = 500
_MAX_VERSION_DIGITS = 9


class _Endpoints:
    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._environment = environment

    async def threads(self, request: Request) -> Response:
        limit, cursor = page_asked(request)
        page = await self._environment.threads(caller_of(request), limit=limit, cursor=cursor)
        return json_response({"threads": [_thread_json(item) for item in page.items], "nextCursor": page.next_cursor})

    async def messages(self, request: Request) -> Response:
        limit, cursor = page_asked(request)
        thread_id = path_id(request, "thread_id")
        caller = caller_of(request)
        profile, version = profile_asked(request.query_params.get("protocolVersion")), _version_asked(request)
        page = await self._environment.messages(
            caller, thread_id, limit=limit, cursor=cursor, version=version, max_bytes=PAGE_BYTES
        )
        asked = await self._environment.interrupts(caller, thread_id) if version is None else ()
        answer: JsonObject = {
            "messages": [*ag_ui_messages(page.items, profile)],
            "incomplete": [message.id for message in page.items if message.incomplete],
            "interrupts": [interrupt_json(each) for each in asked],
            "nextCursor": page.next_cursor,
        }
        return json_response(answer)

    async def thread(self, request: Request) -> Response:
        return await (self._delete(request) if request.method == "DELETE" else self._rename(request))

    async def _rename(self, request: Request) -> Response:
        title = _title(await read_json(request))
        change = ThreadChange(title)
        await self._environment.update_thread(caller_of(request), path_id(request, "thread_id"), change)
        return Response(status_code=204)

    async def _delete(self, request: Request) -> Response:
        await self._environment.delete(caller_of(request), path_id(request, "thread_id"))
        return Response(status_code=204)

    async def versions(self, request: Request) -> Response:
        limit, cursor = page_asked(request)
        thread_id = path_id(request, "thread_id")
        page = await self._environment.versions(caller_of(request), thread_id, limit=limit, cursor=cursor)
        return json_response({"versions": [_version_json(each) for each in page.items], "nextCursor": page.next_cursor})

    async def version(self, request: Request) -> Response:
        thread_id, version = path_id(request, "thread_id"), _version(request)
        change = self._environment.delete_version if request.method == "DELETE" else self._environment.select_version
        await change(caller_of(request), thread_id, version)
        return Response(status_code=204)

    async def fork(self, request: Request) -> Response:
        from_message = _from_message(await read_json(request))
        fork_id = await self._environment.fork(caller_of(request), path_id(request, "thread_id"), from_message)
        return json_response({"threadId": fork_id}, 201)


def _thread_json(thread: ThreadSummary) -> JsonObject:
    return {
        "id": thread.thread_id,
        "title": thread.title,
        "agentId": thread.agent_id,
        "createdAt": time_text(thread.created_at),
        "updatedAt": time_text(thread.updated_at),
    }


def _version_json(version: ThreadVersion) -> JsonObject:
    return {
        "version": version.number,
        "current": version.is_current,
        "parent": version.parent,
        "fromMessage": version.from_message,
        "createdAt": time_text(version.created_at),
    }


def _version(request: Request) -> int:
    name = path_id(request, "version")
    number = whole_number(name, most_digits=_MAX_VERSION_DIGITS)
    if number is None:
        raise NotFoundError(f"there is no version {name[:64]!r}; versions have numbers", code="version_not_found")
    return number


def _version_asked(request: Request) -> int | None:
    name = request.query_params.get("version")
    number = None if name is None else whole_number(name, most_digits=_MAX_VERSION_DIGITS)
    if name is not None and number is None:
        raise InvalidRequestError(f"version is {name[:64]!r}; it has to be the number of a version", status=400)
    return number


def _from_message(body: JsonValue) -> str:
    given = body if isinstance(body, dict) else {}
    value = given.get("fromMessage")
    problems = [FieldProblem(f"/{name}", "is not known here") for name in given if name != "fromMessage"]
    if isinstance(value, str) and not problems:
        return value
    if not isinstance(value, str):
        problems.append(FieldProblem("/fromMessage", "expected the id of the last message that the fork is to have"))
    raise InvalidRequestError("the thread cannot be forked like that", problems=problems)


def _title(body: JsonValue) -> str | None:
    if not isinstance(body, dict) or "title" not in body:
        raise InvalidRequestError("nothing to change", problems=[FieldProblem("/title", "expected a string or null")])
    unknown = [FieldProblem(f"/{name}", "only title can be changed") for name in body if name != "title"]
    title = body["title"]
    if not (title is None or (isinstance(title, str) and len(title.strip()) > 0 and len(title) <= _MAX_TITLE)):
        unknown.append(FieldProblem("/title", f"expected null or a string of 1 to {_MAX_TITLE} characters"))
    if unknown:
        raise InvalidRequestError("the thread cannot be changed like that", problems=unknown)
    return title.strip() if isinstance(title, str) else None


def _routes(environment: ProtocolEnvironment) -> Sequence[BaseRoute]:
    on = _Endpoints(environment)
    return [
        VisitorRoute("/threads", on.threads),
        VisitorRoute("/threads/{thread_id:path}/messages", on.messages),
        VisitorRoute("/threads/{thread_id:path}/versions", on.versions),
        VisitorRoute("/threads/{thread_id:path}/versions/{version}", on.version, methods=["POST", "DELETE"]),
        VisitorRoute("/threads/{thread_id:path}/fork", on.fork, methods=["POST"]),
        # one route: of several, a 405 would name the methods of the first alone
        VisitorRoute("/threads/{thread_id:path}", on.thread, methods=["PATCH", "DELETE"]),
    ]


PROTOCOL = WireProtocol("threads", _routes, api=api_data("gateway.protocols", "threads"))
