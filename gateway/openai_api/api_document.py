"""How the operations of OpenAI's API stand in the API document: their tag, their answers and their errors.

Below: openapi. Above: the protocols under `/v1`. Of bodies and answers it says that they are objects: their fields are
described where OpenAI describes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.messages import JsonObject
from gateway.openai_api.routes import PREFIXES
from gateway.openapi.description import ApiDescription, Operation, answer, operation, parameter
from gateway.openapi.shapes import object_of, ref, text

_TAG: Final = "openai"
_TAGS: Final = {_TAG: "OpenAI's API: Chat Completions and Responses. Each path is also below `/compatible-mode/v1`."}
_OBJECT: Final[JsonObject] = {"type": "object", "additionalProperties": True}
_STREAM: Final[JsonObject] = {"schema": {"type": "string", "description": "Server-sent events; `[DONE]` is the last."}}
_ERRORS: Final = {
    "400": "Something in the request is wrong; `error.param` names a field of the body.",
    "401": "A key is needed.",
    "403": "The caller may not do this.",
    "404": "There is none, or none of the caller's.",
    "409": "The thread is busy, or its `Idempotency-Key` was sent with another request.",
    "413": "The body is larger than `server.max_body_bytes`, or larger than the key allows.",
    "415": "The body is not JSON by its Content-Type.",
    "429": "A limit of the caller's or of the model's provider is reached.",
    "502": "The model failed; as 503 and 504, where it is overloaded or slow.",
}
_SCHEMAS: Final[JsonObject] = {
    "OpenAIError": object_of(
        ["error"],
        {
            "error": object_of(
                ["message", "type", "param", "code"],
                {
                    "message": text("What was wrong, then what would be right."),
                    "type": text(),
                    "param": {"type": ["string", "null"], "description": "The wrong field."},
                    "code": {"type": ["string", "null"], "description": "Stable: programs match on it."},
                },
            )
        },
        "An error in OpenAI's form.",
    )
}


def openai_operation(
    method: str,
    path: str,
    operation_id: str,
    summary: str,
    *,
    body: str = "",
    result: str = "The answer.",
    runs: bool = False,
    streams: bool = False,
    parameters: Sequence[str] = (),
    description: str = "",
) -> Operation:
    """An operation at `path`, written without prefix, with its parameters in braces: `/models/{model}`.

    `body` and `result` say what is sent and answered; without `body` nothing is sent. `runs`: it begins a run.
    `streams`: it can answer as a stream. `parameters` are names of components: those of the path, too.
    """
    statuses = ["401", "403"]
    if body:
        statuses += ["400", "413", "415"]
    if runs:
        statuses += ["404", "409", "429", "502"]
    elif "{" in path:
        statuses.append("404")
    error: JsonObject = {"application/json": {"schema": ref("OpenAIError")}}
    answers: JsonObject = {status: answer(_ERRORS[status], error) for status in statuses}
    content: JsonObject = {"application/json": {"schema": _OBJECT}}
    answers["200"] = answer(result, {**content, "text/event-stream": _STREAM} if streams else content)
    sent: JsonObject | None = {"required": True, "description": body, "content": content} if body else None
    described = operation(
        _TAG, operation_id, summary, answers, needs_key=True, description=description, parameters=parameters, body=sent
    )
    described["responses"] = dict(sorted(answers.items()))
    described["security"] = [{"key": []}, {}]  # visitors get none of it
    return (PREFIXES[0] + path, method, described)


def openai_api(operations: Sequence[Operation], **path_parameters: str) -> ApiDescription:
    """A protocol's part of the document. `path_parameters`: their names, with what each of them is."""
    described: JsonObject = {
        name: parameter("path", name, meaning, {"type": "string"}) for name, meaning in path_parameters.items()
    }
    return ApiDescription(_TAGS, operations, _SCHEMAS, described)
