"""How A2A's operations stand in the API document.

Below: openapi. Above: the protocol. Of bodies and answers it says that they are objects: their members are described
where A2A describes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.messages import JsonObject
from gateway.openapi.description import ApiDescription, Operation, answer, operation, parameter
from gateway.openapi.shapes import object_of, ref, text

_TAG: Final = "a2a"
_TAGS: Final = {
    _TAG: (
        "A2A: the default agent for other agents. Each agent has the same below `/agents/{agentId}/a2a`, and its card "
        "at `/agents/{agentId}/a2a/.well-known/agent-card.json`."
    )
}
_OBJECT: Final[JsonObject] = {"type": "object", "additionalProperties": True}
_JSON: Final[JsonObject] = {"application/json": {"schema": _OBJECT}}
_STREAM: Final[JsonObject] = {
    "text/event-stream": {"schema": {"type": "string", "description": "Server-sent events; the task is the first."}}
}
_ERRORS: Final = {
    "400": "Something in the request is wrong, or the task does not allow it.",
    "401": "A key is needed.",
    "403": "The caller may not do this.",
    "404": "There is none, or none of the caller's.",
    "409": "Something else goes on in the context that keeps the gateway from it.",
    "413": "The body is larger than `server.max_body_bytes`, or larger than the key allows.",
    "415": "The body is not JSON by its Content-Type, or a part is of a type that agents cannot be given.",
    "429": "A limit of the caller's is reached.",
}
_SCHEMAS: Final[JsonObject] = {
    "A2AError": object_of(
        ["error"],
        {
            "error": object_of(
                ["code", "message"],
                {
                    "code": {"type": "integer", "description": "The HTTP status, or JSON-RPC's code."},
                    "status": text("REST: google.rpc's word for the code."),
                    "message": text("What was wrong, then what would be right."),
                    "details": {"type": "array", "items": _OBJECT, "description": "REST: `reason` is stable."},
                    "data": {"type": "array", "items": _OBJECT, "description": "JSON-RPC: the same."},
                },
            )
        },
        "An error in A2A's form.",
    )
}
_PARAMETERS: Final[JsonObject] = {
    "taskId": parameter("path", "taskId", "The task's id.", {"type": "string"}),
    "configId": parameter("path", "configId", "The push notification config's id.", {"type": "string"}),
}


def _operation(
    method: str,
    path: str,
    operation_id: str,
    summary: str,
    result: str,
    *,
    body: str = "",
    content: JsonObject = _JSON,
    statuses: Sequence[str] = (),
    description: str = "",
) -> Operation:
    """An operation; `body` says what is sent, and without it nothing is. It has the path's parameters."""
    parameters = [name for name in _PARAMETERS if f"{{{name}}}" in path]
    failures = {"401", "403", *statuses, *(("400", "413", "415") if body else ()), *(("404",) if parameters else ())}
    error: JsonObject = {"application/json": {"schema": ref("A2AError")}}
    answers: JsonObject = {status: answer(_ERRORS[status], error) for status in failures}
    answers["200"] = answer(result, content)
    sent: JsonObject | None = {"required": True, "description": body, "content": _JSON} if body else None
    described = operation(
        _TAG, operation_id, summary, answers, needs_key=True, description=description, parameters=parameters, body=sent
    )
    described["responses"] = dict(sorted(answers.items()))
    described["security"] = [{"key": []}, {}]  # visitors get none of it
    return (path, method, described)


def _card() -> Operation:
    answers: JsonObject = {
        "200": answer("The card. It has an `ETag`.", _JSON),
        "404": answer("Its operator does not show the agent to strangers."),
    }
    described = operation(_TAG, "getAgentCard", "The default agent's card", answers, needs_key=False)
    return ("/.well-known/agent-card.json", "get", described)


_SENT: Final = "`message`, and how it is to be answered (`configuration`)."
_TASK: Final = "/a2a/tasks/{taskId}"
_CONFIGS: Final = _TASK + "/pushNotificationConfigs"
_OPERATIONS: Final = (
    _operation(
        "post",
        "/a2a",
        "callA2A",
        "A call of JSON-RPC, 1.0 or 0.3",
        "The call's `result` or `error`; of methods that stream, frames with a `result` each.",
        body="`jsonrpc`, `id`, `method` (`SendMessage`, or `message/send`) and `params`.",
        content={**_JSON, **_STREAM},
        statuses=["404", "429"],
        description="`A2A-Version` names the version; without it the method's name does. Errors of methods are 200.",
    ),
    _operation(
        "post", "/a2a/message:send", "sendMessage", "Send a message",
        "The task, once it has ended or asks for something, or a message of the agent's.",
        body=_SENT, statuses=["404", "409", "429"],
    ),
    _operation(
        "post", "/a2a/message:stream", "sendStreamingMessage", "Send a message and see what becomes of it",
        "The task, then what changes.", body=_SENT, content=_STREAM, statuses=["404", "409", "429"],
    ),
    _operation(
        "get", "/a2a/tasks", "listTasks", "The caller's tasks", "A page of them, the one that changed last first.",
        statuses=["400"],
        description=(
            "`contextId`, `status`, `statusTimestampAfter`, `pageSize` (1 to 100), `pageToken`, `historyLength` and "
            "`includeArtifacts` say which, and how much of each."
        ),
    ),
    _operation("get", _TASK, "getTask", "A task", "The task as it is now.", statuses=["400"]),
    _operation(
        "post", _TASK + ":cancel", "cancelTask", "Stop a task", "The canceled task.", statuses=["400"],
    ),
    _operation(
        "post", _TASK + ":subscribe", "subscribeToTask", "Watch a task",
        "The task as it is, then what changes.", content=_STREAM, statuses=["400"],
        description="Also as `GET`. A task that waits for its caller is followed once it goes on.",
    ),
    _operation(
        "post", _CONFIGS, "createTaskPushNotificationConfig", "Have a task's updates posted to a URL", "The config.",
        body="`url`, and `token` or `authentication` for it.", statuses=["429"],
    ),
    _operation("get", _CONFIGS, "listTaskPushNotificationConfigs", "Where a task's updates go", "The configs."),
    _operation(
        "get", _CONFIGS + "/{configId}", "getTaskPushNotificationConfig", "One of them", "The config.",
    ),
    _operation(
        "delete", _CONFIGS + "/{configId}", "deleteTaskPushNotificationConfig", "Post no more updates there",
        "An empty object.",
    ),
    _operation(
        "get", "/a2a/extendedAgentCard", "getExtendedAgentCard", "The card that a key shows",
        "The card, with the agent's tools among its skills.", statuses=["400", "404"],
    ),
    _card(),
)  # fmt: skip

A2A_API: Final = ApiDescription(_TAGS, _OPERATIONS, _SCHEMAS, _PARAMETERS)
