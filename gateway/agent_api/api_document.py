"""The operations of the Agent API in the API document.

Below: openapi. Above: the protocol `agent_api`. Of bodies and frames it says what a client needs to know; the package
`gateway.agent_api` has models of all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.messages import JsonObject
from gateway.openapi.description import ApiDescription, Operation, answer, json_body, operation, parameter
from gateway.openapi.shapes import object_of, ref, text, words

_TAG: Final = "agent-api"
_TAGS: Final = {_TAG: "The Agent API: answers as responses, messages and contents."}
_ANY: Final[JsonObject] = {"type": "object", "additionalProperties": True}
_ERRORS: Final = {
    "400": "The body is no strict JSON.",
    "401": "A key is needed.",
    "403": "The caller may not do this.",
    "404": "There is none, or none of the caller's.",
    "409": (
        "The session is busy, or the `response_id` belongs to another request, or a call or a question is answered "
        "already."
    ),
    "413": "The body is larger than `server.max_body_bytes`, or larger than the key allows.",
    "415": "The body is not JSON by its Content-Type.",
    "422": "Something in the request is wrong; `errors` name the fields.",
    "429": "A limit of the caller's is reached.",
    "503": "The gateway or its store cannot be used now.",
}
_STATUSES: Final[JsonObject] = {
    "type": "string",
    "enum": ["created", "in_progress", "queued", "completed", "incomplete", "failed", "canceled", "rejected"],
}
_OUTPUT: Final = words(
    "message", "reasoning", "plugin_call", "plugin_call_output", "mcp_call", "mcp_call_output", "mcp_list_tools",
    "function_call", "mcp_approval_request", "error",
)  # fmt: skip
_VALUES: Final[JsonObject] = {
    "text": text(),
    "refusal": text(),
    "data": {"type": ["object", "string"], "description": "An object; of audio base64, or a URL."},
    "image_url": text("A URL, or a data URL."),
    "video_url": text("A URL, or a data URL."),
    "format": text("Of audio, as `wav`."),
    "file_url": text(),
    "file_data": text("A data URL."),
    "file_id": text("The model's provider has the file."),
    "filename": text(),
}
_SCHEMAS: Final[JsonObject] = {
    "AgentApiError": object_of(
        ["object", "code", "message", "error"],
        {
            "object": {"const": "error"},
            "code": text("Stable: programs match on it."),
            "message": text("What was wrong, then what would be right."),
            "error": object_of(["code", "message"], {"code": text(), "message": text()}),
            "errors": {
                "type": "array",
                "items": object_of(["pointer", "detail"], {"pointer": text("A JSON pointer."), "detail": text()}),
            },
        },
        "An error before the response.",
    ),
    "AgentApiRequest": object_of(
        ["input"],
        {
            "input": {"type": "array", "minItems": 1, "items": _ANY, "description": "Messages: what is new."},
            "stream": {"type": "boolean", "default": True},
            "session_id": text("The thread; without one a new one begins."),
            "response_id": text("The run's id, which the client chooses. The same request again gets the same run."),
            "id": text("The same as `response_id`, which counts where both are there."),
            "model": text("Another model than the agent's, where its `allow_models` lists it."),
            "tools": {"type": "array", "items": _ANY, "description": "The client's own functions."},
            "temperature": {"type": "number", "minimum": 0, "maximum": 2},
            "top_p": {"type": "number", "minimum": 0, "maximum": 1},
            "frequency_penalty": {"type": "number", "minimum": -2, "maximum": 2},
            "presence_penalty": {"type": "number", "minimum": -2, "maximum": 2},
            "max_tokens": {"type": "integer", "minimum": 1},
            "stop": {"type": ["string", "array"], "items": {"type": "string"}},
            "seed": {"type": "integer"},
            "n": {"type": "integer", "minimum": 1, "maximum": 5, "description": "The agent gives one answer."},
        },
        "Other members are ignored.",
    ),
    "AgentApiContent": object_of(
        ["object", "type", "status", "index", "delta", "msg_id"],
        {
            "object": {"const": "content"},
            "type": words("text", "refusal", "data", "image", "audio", "video", "file"),
            "status": _STATUSES,
            "index": {"type": "integer", "minimum": 0, "description": "Its place in its message."},
            "delta": {"type": "boolean", "description": "It goes on with what came before; false: it is the whole."},
            "msg_id": text("Its message's id."),
            **_VALUES,
        },
        "A content of a message.",
    ),
    "AgentApiMessage": object_of(
        ["object", "id", "type", "status", "role"],
        {
            "object": {"const": "message"},
            "id": text(),
            "type": _OUTPUT,
            "status": _STATUSES,
            "role": words("assistant", "tool"),
            "content": {"type": "array", "items": ref("AgentApiContent")},
            "code": text("Of an error."),
            "message": text("Of an error."),
        },
        "A message of a response.",
    ),
    "AgentApiResponse": object_of(
        ["id", "object", "status", "created_at", "session_id", "output"],
        {
            "id": text("The run's id."),
            "object": {"const": "response"},
            "status": _STATUSES,
            "sequence_number": {"type": "integer", "minimum": 0, "description": "Of its last frame, if it has one."},
            "created_at": {"type": "integer", "description": "Unix seconds."},
            "completed_at": {"type": "integer", "description": "Unix seconds."},
            "session_id": text("The thread's id."),
            "output": {"type": "array", "items": ref("AgentApiMessage")},
            "usage": {
                "type": "object",
                "additionalProperties": {"type": "integer", "minimum": 0},
                "description": "`input_tokens`, `output_tokens` and `total_tokens`, as far as the models told them.",
            },
            "error": object_of(
                ["code", "message", "retryable"],
                {"code": text(), "message": text(), "retryable": {"type": "boolean"}},
                "Why it failed.",
            ),
            "incomplete_details": object_of(
                ["reason"], {"reason": text("Such as `max_tokens`.")}, "Why its answer was cut off."
            ),
            "metadata": object_of(
                ["warnings"], {"warnings": {"type": "array", "items": {"type": "string"}}}, "What was ignored."
            ),
        },
        "A response.",
    ),
}
_STREAM: Final[JsonObject] = {
    "schema": {
        "type": "string",
        "description": "Server-sent events: responses, messages and contents, each with a `sequence_number`.",
    }
}
_ID: Final = ["responseId"]


def agent_api_document() -> ApiDescription:
    """The protocol's part of the document."""
    parameters: JsonObject = {
        "agentId": parameter("path", "agentId", "The agent's id.", {"type": "string"}),
        "responseId": parameter("path", "responseId", "The response's id, which is a run's.", {"type": "string"}),
        "afterFrame": parameter(
            "query",
            "after",
            "The `sequence_number` of the last frame that the client has.",
            {"type": "integer", "minimum": 0},
        ),
        "streamed": parameter(
            "query", "stream", "`false` gives the response as it is now.", {"type": "boolean", "default": True}
        ),
    }
    return ApiDescription(_TAGS, _operations(), _SCHEMAS, parameters)


def _operations() -> Sequence[Operation]:
    body = json_body("AgentApiRequest", "Messages, and how they are to be answered. Unknown members are ignored.")
    begins = ["400", "404", "409", "413", "415", "422", "429", "503"]
    result = "The frames of the response; with `stream: false` the response."
    return [
        _operation(
            "post",
            "/process",
            "process",
            "Ask the default agent",
            result,
            begins,
            streams=True,
            body=body,
            description="The agent is `server.default_agent`, else the first one of the configuration file.",
        ),
        _operation(
            "post",
            "/agents/{agentId}/process",
            "processWithAgent",
            "Ask an agent",
            result,
            begins,
            streams=True,
            body=body,
            parameters=["agentId"],
        ),
        _operation(
            "get",
            "/process/{responseId}",
            "getProcess",
            "Follow a response",
            "Its frames; with `stream=false`, or where only JSON is accepted, the response as it is now.",
            ["404", "422", "503"],
            streams=True,
            parameters=[*_ID, "afterFrame", "streamed"],
            description=(
                "Every run of the caller's is a response, whichever protocol it came by. Once its log is deleted, a "
                "stream is a 404 `log_expired`; the response itself is read from its thread."
            ),
        ),
        _operation(
            "post",
            "/process/{responseId}/cancel",
            "cancelProcess",
            "Stop a response",
            "What became of it: one that has ended stays as it is.",
            ["404", "503"],
            parameters=_ID,
        ),
    ]


def _operation(
    method: str,
    path: str,
    operation_id: str,
    summary: str,
    result: str,
    statuses: Sequence[str],
    *,
    streams: bool = False,
    body: JsonObject | None = None,
    parameters: Sequence[str] = (),
    description: str = "",
) -> Operation:
    error: JsonObject = {"application/json": {"schema": ref("AgentApiError")}}
    answers: JsonObject = {status: answer(_ERRORS[status], error) for status in ("401", "403", *statuses)}
    content: JsonObject = {"application/json": {"schema": ref("AgentApiResponse")}}
    answers["200"] = answer(result, {**content, "text/event-stream": _STREAM} if streams else content)
    described = operation(
        _TAG,
        operation_id,
        summary,
        answers,
        needs_key=False,
        description=description,
        parameters=parameters,
        body=body,
    )
    described["security"] = [{"key": []}, {}]  # visitors get none of it
    return (path, method, described)
