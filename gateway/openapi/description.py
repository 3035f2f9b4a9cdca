"""A protocol's description of its paths for the OpenAPI document, and the pieces to write it with.

Below: messages (JSON's types). Above: document, and the protocols. https://spec.openapis.org/oas/v3.1.1
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from gateway.messages import JsonObject

Operation: TypeAlias = "tuple[str, str, JsonObject]"
"""A path (`/runs/{runId}`), a method in lower case, and the OpenAPI operation."""


@dataclass(frozen=True, slots=True)
class ApiDescription:
    """A protocol's part of the document.

    `tags` are names with a sentence each, which group the operations. `schemas` and `parameters` are the document's
    components of these names: two protocols may share one if it is equal. `problem_members` are JSON Schemas of the
    members that the protocol's problems add to the usual ones.
    """

    tags: Mapping[str, str] = field(default_factory=dict)
    operations: Sequence[Operation] = ()
    schemas: JsonObject = field(default_factory=dict)
    parameters: JsonObject = field(default_factory=dict)
    problem_members: JsonObject = field(default_factory=dict)


ApiPart: TypeAlias = ApiDescription | Callable[[], ApiDescription]
"""A description, or a function that reads it once the document is asked for."""


def operation(
    tag: str,
    operation_id: str,
    summary: str,
    responses: JsonObject,
    needs_key: bool = True,
    *,
    description: str = "",
    parameters: Sequence[str] = (),
    body: JsonObject | None = None,
    problems: Sequence[str] = (),
) -> JsonObject:
    """An operation whose errors are `problems`; with `needs_key` also 401 and 403.

    `parameters` are names of components: the protocol's own, or `limit` and `cursor`.
    """
    answers: JsonObject = dict(responses)
    for status in ["401", "403", *problems] if needs_key else problems:
        answers[status] = {"$ref": f"#/components/responses/problem{status}"}
    described: JsonObject = {"tags": [tag], "operationId": operation_id, "summary": summary}
    if description:
        described["description"] = description
    if parameters:
        described["parameters"] = [{"$ref": f"#/components/parameters/{name}"} for name in parameters]
    if body is not None:
        described["requestBody"] = body
    if not needs_key:
        described["security"] = []
    described["responses"] = dict(sorted(answers.items()))
    return described


def answer(description: str, content: JsonObject | None = None) -> JsonObject:
    """A response with that description; without `content` it has no body."""
    described: JsonObject = {
        "description": description,
        "headers": {"x-request-id": {"$ref": "#/components/headers/requestId"}},
    }
    if content is not None:
        described["content"] = content
    return described


def described_json(schema: str, description: str) -> JsonObject:
    """A response with a JSON body of that schema."""
    return answer(description, {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}})


def parameter(place: str, name: str, description: str, schema: JsonObject) -> JsonObject:
    """A parameter. `place`: path, query or header."""
    return {"name": name, "in": place, "required": place == "path", "description": description, "schema": schema}
