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
from gateway.ag_ui.shapes import AG_UI_SHAPES
from gateway.errors import FieldProblem, InvalidRequestError, NotFoundError
from gateway.messages import JsonObject, JsonValue
from gateway.openapi.description import (
    ApiDescription,
    Operation,
    answer,
    described_json,
    json_body,
    operation,
    parameter,
)
from gateway.openapi.shapes import MAYBE_COUNT, NEXT_PAGE, TIME, list_of, nullable, object_of, ref, text
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


# --- in the API document


def _thread_operations() -> Sequence[Operation]:
    return [
        (
            "/threads",
            "get",
            operation(
                "threads",
                "listThreads",
                "The threads, latest first",
                {"200": described_json("ThreadList", "A page of them.")},
                parameters=["limit", "cursor"],
                problems=["400", "503"],
            ),
        ),
        (
            "/threads/{threadId}/messages",
            "get",
            operation(
                "threads",
                "listMessages",
                "A thread's messages, from the first",
                {"200": described_json("MessageList", "A page of them.")},
                parameters=["threadId", "version", "limit", "cursor", "protocolVersion"],
                problems=["400", "404", "503"],
            ),
        ),
        (
            "/threads/{threadId}",
            "patch",
            operation(
                "threads",
                "renameThread",
                "Give a thread a title",
                {"204": answer("It has the title now.")},
                parameters=["threadId"],
                body=json_body("ThreadChange", "What to change."),
                problems=["400", "404", "413", "415", "422", "503"],
            ),
        ),
        (
            "/threads/{threadId}",
            "delete",
            operation(
                "threads",
                "deleteThread",
                "Forget a thread",
                {"204": answer("The thread is gone, with its versions, messages, runs and logs.")},
                description="A run that is under way on the thread is cancelled first. What a stateful model's "
                "provider keeps of the thread is deleted there, too, once this request is answered.",
                parameters=["threadId"],
                problems=["404", "503"],
            ),
        ),
    ]


def _version_operations() -> Sequence[Operation]:
    listed = operation(
        "threads",
        "listVersions",
        "A thread's versions, by number",
        {"200": described_json("VersionList", "A page of them.")},
        description="An edit, a regenerated answer and a shorter history make a version, beside which the one before"
        " stays. `/connect`, runs and lists of messages show the current one.",
        parameters=["threadId", "limit", "cursor"],
        problems=["400", "404", "503"],
    )
    selected = operation(
        "threads",
        "selectVersion",
        "Make a version the current one",
        {"204": answer("It is the current one now.")},
        description="A 409 `thread_busy` is a thread with a run at work on it, or waiting for it.",
        parameters=["threadId", "versionNumber"],
        problems=["404", "409", "503"],
    )
    deleted = operation(
        "threads",
        "deleteVersion",
        "Delete a version",
        {"204": answer("It is gone, with the messages that no other version and no fork has.")},
        description="A 409 `version_is_current` is the current version: make another one current first, or delete the"
        " thread.",
        parameters=["threadId", "versionNumber"],
        problems=["404", "409", "503"],
    )
    forked = operation(
        "threads",
        "forkThread",
        "Begin a new thread as this one begins",
        {"201": described_json("Fork", "The new thread has the messages up to and with that one.")},
        description="Both go their own way from there, and each may be deleted without the other.",
        parameters=["threadId"],
        body=json_body("ForkPoint", "Where the new thread leaves this one."),
        problems=["400", "404", "409", "413", "415", "422", "429", "503"],
    )
    return [
        ("/threads/{threadId}/versions", "get", listed),
        ("/threads/{threadId}/versions/{version}", "post", selected),
        ("/threads/{threadId}/versions/{version}", "delete", deleted),
        ("/threads/{threadId}/fork", "post", forked),
    ]


def _parameters() -> JsonObject:
    number: JsonObject = {"type": "integer", "minimum": 1}
    return {
        "threadId": parameter("path", "threadId", "The thread's id.", {"$ref": "#/components/schemas/Id"}),
        "versionNumber": parameter("path", "version", "The version's number.", number),
        "version": parameter(
            "query",
            "version",
            "The version whose messages are asked for, with those that shorter histories left out of it since it was"
            " made. Without it: what the current version shows.",
            number,
        ),
    }


_API = ApiDescription(
    {"threads": "The conversations that are kept."},
    [*_thread_operations(), *_version_operations()],
    {
        "ThreadList": object_of(["threads", "nextCursor"], {"threads": list_of("Thread"), "nextCursor": NEXT_PAGE}),
        "Thread": object_of(
            ["id", "title", "agentId", "createdAt", "updatedAt"],
            {
                "id": ref("Id"),
                "title": nullable("string"),
                "agentId": text("The agent that ran last."),
                "createdAt": TIME,
                "updatedAt": TIME,
            },
        ),
        "ThreadChange": object_of(
            ["title"],
            {
                "title": {
                    "type": ["string", "null"],
                    "minLength": 1,
                    "maxLength": 500,
                    "description": "null takes the title away.",
                }
            },
        ),
        "MessageList": object_of(
            ["messages", "incomplete", "interrupts", "nextCursor"],
            {
                "messages": list_of("Message"),
                "incomplete": {
                    "type": "array",
                    "items": ref("Id"),
                    "description": "Those of the page's messages that were cut off, because their run failed or was"
                    " stopped.",
                },
                "interrupts": {
                    "type": "array",
                    "items": ref("Interrupt"),
                    "description": "The thread's questions that wait for an answer, the same on each page;"
                    " none with `version`.",
                },
                "nextCursor": NEXT_PAGE,
            },
        ),
        "VersionList": object_of(["versions", "nextCursor"], {"versions": list_of("Version"), "nextCursor": NEXT_PAGE}),
        "Version": object_of(
            ["version", "current", "parent", "fromMessage", "createdAt"],
            {
                "version": {"type": "integer", "minimum": 1},
                "current": {"type": "boolean"},
                "parent": {**MAYBE_COUNT, "description": "The version that it was made from; null where that is gone."},
                "fromMessage": nullable("string", "The last message that it shares with its parent; null for none."),
                "createdAt": TIME,
            },
        ),
        "ForkPoint": object_of(
            ["fromMessage"], {"fromMessage": text("The id of the last message that the new thread is to have.")}
        ),
        "Fork": object_of(["threadId"], {"threadId": ref("Id")}),
        **AG_UI_SHAPES,
    },
    _parameters(),
)

PROTOCOL = WireProtocol("threads", _routes, api=_API)
