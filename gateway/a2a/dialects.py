"""The two versions of A2A on the wire: their methods' names, and the JSON in which each writes objects of 1.0.

Below: parts, states. Above: tasks, JSON-RPC, REST. Inside this room everything has the form of 1.0; 0.3 is made of it
here. 0.3 tells objects apart by `kind`, names roles and states in lower case, and says `final` where a stream ends.
https://a2a-protocol.org/latest/specification/#5-protocol-binding-requirements-and-interoperability (1.0),
https://a2a-protocol.org/v0.3.0/specification/
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

import orjson

from gateway.a2a.parts import parts_v03
from gateway.a2a.states import TaskState
from gateway.messages import JsonObject
from gateway.tool_output import encodable
from gateway.wire import strict_json

ACTIVITY: Final = "urn:agui-gateway:a2a:activity:1"
"""The extension by which a client asks for reasoning and the gateway's tools, in the messages of WORKING statuses."""

StreamKind: TypeAlias = Literal["task", "message", "statusUpdate", "artifactUpdate"]
"""The object in a stream's frame, by its member's name in 1.0."""


class Dialect(StrEnum):
    """A version of A2A, as `A2A-Version` names it."""

    V1 = "1.0"
    V03 = "0.3"


class Method(StrEnum):
    """A method, by its name in 1.0."""

    SEND = "SendMessage"
    STREAM = "SendStreamingMessage"
    GET = "GetTask"
    LIST = "ListTasks"
    CANCEL = "CancelTask"
    SUBSCRIBE = "SubscribeToTask"
    PUSH_CREATE = "CreateTaskPushNotificationConfig"
    PUSH_GET = "GetTaskPushNotificationConfig"
    PUSH_LIST = "ListTaskPushNotificationConfigs"
    PUSH_DELETE = "DeleteTaskPushNotificationConfig"
    CARD = "GetExtendedAgentCard"


_NAMES_V03: Final[Mapping[str, Method]] = MappingProxyType(
    {
        "message/send": Method.SEND,
        "message/stream": Method.STREAM,
        "tasks/get": Method.GET,
        "tasks/list": Method.LIST,
        "tasks/cancel": Method.CANCEL,
        "tasks/resubscribe": Method.SUBSCRIBE,
        "tasks/pushNotificationConfig/set": Method.PUSH_CREATE,
        "tasks/pushNotificationConfig/get": Method.PUSH_GET,
        "tasks/pushNotificationConfig/list": Method.PUSH_LIST,
        "tasks/pushNotificationConfig/delete": Method.PUSH_DELETE,
        "agent/getAuthenticatedExtendedCard": Method.CARD,
    }
)
_METHODS: Final[Mapping[str, tuple[Method, Dialect]]] = MappingProxyType(
    {
        **{method.value: (method, Dialect.V1) for method in Method},
        **{name: (method, Dialect.V03) for name, method in _NAMES_V03.items()},
    }
)


def method_of(name: str) -> tuple[Method, Dialect] | None:
    """The method, and the version that names it so; None: there is no such method."""
    return _METHODS.get(name)


def dump(value: object) -> bytes:
    """JSON on one line, whatever its reader takes for a line, and with text alone.

    The clients of the a2a-sdk package end a line at U+2028, U+2029 and U+0085, which JSON leaves alone, and refuse half
    a surrogate pair.
    """
    try:
        data = orjson.dumps(value)
    except TypeError:  # half a surrogate pair, or a value that JSON cannot write
        plain = json.loads(strict_json.dump(value))
        data = encodable(json.dumps(plain, ensure_ascii=False, separators=(",", ":"))).encode()
    return strict_json.on_one_line(data)


# --- objects in a version's form --------------------------------------------------------------------------------------


def written_task(dialect: Dialect, task: JsonObject) -> JsonObject:
    """A task in this version."""
    return task if dialect is Dialect.V1 else _task_v03(task)


def stream_response(dialect: Dialect, kind: StreamKind, value: JsonObject) -> JsonObject:
    """The object in one frame of a stream, and the result of SendMessage (kinds `task` and `message`)."""
    return {kind: value} if dialect is Dialect.V1 else _WRITERS_V03[kind](value)


def _message_v03(message: Any) -> JsonObject:
    role = "agent" if message["role"] == "ROLE_AGENT" else "user"
    return {**message, "kind": "message", "role": role, "parts": parts_v03(message["parts"])}


def _status_v03(status: Any) -> JsonObject:
    written: JsonObject = {**status, "state": TaskState(status["state"]).word}
    if "message" in status:
        written["message"] = _message_v03(status["message"])
    return written


def _artifact_v03(artifact: Any) -> JsonObject:
    return {**artifact, "parts": parts_v03(artifact["parts"])}


def _task_v03(task: Any) -> JsonObject:
    written: JsonObject = {**task, "kind": "task", "status": _status_v03(task["status"])}
    if "history" in task:
        written["history"] = [_message_v03(message) for message in task["history"]]
    if "artifacts" in task:
        written["artifacts"] = [_artifact_v03(artifact) for artifact in task["artifacts"]]
    return written


def _status_update_v03(update: Any) -> JsonObject:
    final = not TaskState(update["status"]["state"]).at_work
    return {**update, "kind": "status-update", "status": _status_v03(update["status"]), "final": final}


def _artifact_update_v03(update: Any) -> JsonObject:
    return {**update, "kind": "artifact-update", "artifact": _artifact_v03(update["artifact"])}


_WRITERS_V03: Final = {
    "task": _task_v03,
    "message": _message_v03,
    "statusUpdate": _status_update_v03,
    "artifactUpdate": _artifact_update_v03,
}
