"""How ml-commons' operations stand in the API document: their tag, their answers and their errors.

Below: openapi. Above: the protocols under `/_plugins/_ml`. Of bodies and answers it says that they are objects: their
fields are described where ml-commons describes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.messages import JsonObject
from gateway.ml_commons.routes import PREFIX
from gateway.openapi.description import ApiDescription, Operation, answer, operation, parameter
from gateway.openapi.shapes import object_of, ref, text

_TAG: Final = "ml-commons"
_TAGS: Final = {_TAG: "ml-commons' REST API: agents, their memory, tools and tasks, in OpenSearch's shapes."}
_OBJECT: Final[JsonObject] = {"type": "object", "additionalProperties": True}
_ERRORS: Final = {
    "400": "Something in the request is wrong; `error.fields` names fields of the body.",
    "401": "A key is needed, as a bearer or as the password of its name.",
    "403": "The caller may not do this.",
    "404": "There is none, or none of the caller's.",
    "413": "The body is larger than `server.max_body_bytes`, or larger than the key allows.",
    "415": "The body is not JSON by its Content-Type.",
}
_SCHEMAS: Final[JsonObject] = {
    "MlError": object_of(
        ["error", "status"],
        {
            "error": object_of(["type", "reason"], {"type": text(), "reason": text("What was wrong.")}),
            "status": {"type": "integer"},
        },
        "An error in OpenSearch's form.",
    )
}


def ml_operation(
    method: str,
    path: str,
    operation_id: str,
    summary: str,
    *,
    body: str = "",
    result: str = "The answer.",
    parameters: Sequence[str] = (),
    content: JsonObject | None = None,
    description: str = "",
) -> Operation:
    """An operation at `path`, which has its parameters in braces (`/tools/{toolName}`) and begins below `/_plugins/_ml`
    unless it begins with `/_`.

    `body` and `result` say what is sent and answered; without `body` nothing is sent. `content` is of an answer that is
    no JSON object. `parameters` are names of components: those of the path, too.
    """
    statuses = ["401", "403"]
    if body:
        statuses += ["400", "413", "415"]
    if "{" in path:
        statuses.append("404")
    error: JsonObject = {"application/json": {"schema": ref("MlError")}}
    answers: JsonObject = {status: answer(_ERRORS[status], error) for status in statuses}
    answers["200"] = answer(result, content or {"application/json": {"schema": _OBJECT}})
    sent: JsonObject | None = None
    if body:
        sent = {"required": True, "description": body, "content": {"application/json": {"schema": _OBJECT}}}
    described = operation(
        _TAG, operation_id, summary, answers, needs_key=True, description=description, parameters=parameters, body=sent
    )
    described["responses"] = dict(sorted(answers.items()))
    described["security"] = [{"key": []}, {"password": []}, {}]  # visitors get none of it
    return (path if path.startswith("/_") else PREFIX + path, method, described)


def ml_searches(path: str, operation_id: str, summary: str, *, parameters: Sequence[str] = ()) -> Sequence[Operation]:
    """The search at `path`, by GET, also with a body, and by POST."""
    return [
        ml_operation(
            method,
            path,
            f"{operation_id}{how}",
            f"{summary}{', with a body' if method == 'get' else ''}",
            body="A search in OpenSearch's query language; without one all are found.",
            result="OpenSearch's answer to a search.",
            parameters=parameters,
        )
        for method, how in (("get", "ByGet"), ("post", ""))
    ]


def ml_api(operations: Sequence[Operation], **path_parameters: str) -> ApiDescription:
    """A protocol's part of the document. `path_parameters`: their names, with what each of them is."""
    described: JsonObject = {
        name: parameter("path", name, meaning, {"type": "string"}) for name, meaning in path_parameters.items()
    }
    return ApiDescription(_TAGS, operations, _SCHEMAS, described)
