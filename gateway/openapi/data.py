"""Reads a room's part of the API document, which stands as data beside it: `api_document.yaml`.

Below: description. Above: the rooms of protocols, whose parts name it by `api_data`. Nothing is read before the
document is asked for.

    include: [gateway.ml_commons]   rooms whose tags, schemas and forms this file uses, too
    forms: tag, security, content, error, errors
        of all operations: their tag; their `security`, where it is not the document's; the content of a body and of a
        response where none is written; the content of errors, and their descriptions by status
    tags, schemas                   as in the document
    parts:                          by the names of the protocols
      NAME: operations, schemas, parameters, problem_members; `includes_schemas: true` adds those of the file
        operations: path, method, id, summary, description, parameters, body, responses, errors, security; with
          `open: true` no key is needed
          a body or a response is its description, or {description, schema: NAME}, or {description, content}
          `errors` are statuses: of `forms.errors` where they are written there, else the document's problems
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.resources import files
from typing import Any, Final

import yaml

from gateway.messages import JsonObject
from gateway.openapi.description import ApiDescription, Operation, answer, operation

FILE: Final = "api_document.yaml"
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Forms = Mapping[str, Any]


def api_data(package: str, name: str) -> Callable[[], ApiDescription]:
    """Reads the part of that name in the package's file, when it is called."""
    return partial(_description, package, name)


def written_parts(package: str) -> Sequence[str]:
    """The names of the parts in the package's file."""
    return list(_read(package)["parts"])


def _description(package: str, name: str) -> ApiDescription:
    file = _read(package)
    part, forms, schemas = file["parts"][name], dict(file.get("forms", {})), dict(file.get("schemas", {}))
    tags = dict(file.get("tags", {}))
    for included in file.get("include", []):
        other = _read(included)
        forms = {**other.get("forms", {}), **forms}
        schemas, tags = {**other.get("schemas", {}), **schemas}, {**other.get("tags", {}), **tags}
    used = part.get("tags", list(tags))
    return ApiDescription(
        {tag: tags[tag] for tag in used},
        [_operation(written, forms) for written in part.get("operations", [])],
        {**part.get("schemas", {}), **(schemas if part.get("includes_schemas", True) else {})},
        part.get("parameters", {}),
        part.get("problem_members", {}),
    )


def _read(package: str) -> Mapping[str, Any]:
    text = files(package).joinpath(FILE).read_text(encoding="utf-8")
    read: Mapping[str, Any] = yaml.load(text, _LOADER)
    return read


def _operation(written: Mapping[str, Any], forms: _Forms) -> Operation:
    described = operation(
        written.get("tag", forms.get("tag")),
        written["id"],
        written["summary"],
        {},
        needs_key=not written.get("open", False),
        description=written.get("description", ""),
        parameters=written.get("parameters", ()),
        body=_body(written["body"], forms) if "body" in written else None,
    )
    answers: JsonObject = {status: answer(**_content(said, forms)) for status, said in written["responses"].items()}
    for status in written.get("errors", ()):
        answers[status] = _error(status, forms)
    described["responses"] = dict(sorted(answers.items()))
    if "security" in (security := {**forms, **written}) and not written.get("open", False):
        described["security"] = security["security"]
    return (written["path"], written["method"], described)


def _error(status: str, forms: _Forms) -> JsonObject:
    errors = forms.get("errors", {})
    if status not in errors:
        return {"$ref": f"#/components/responses/problem{status}"}
    return answer(errors[status], forms["error"])


def _body(written: Any, forms: _Forms) -> JsonObject:
    return {"required": True, **_content(written, forms)}


def _content(written: Any, forms: _Forms) -> dict[str, Any]:
    """The description and the content of a body or a response."""
    if isinstance(written, str):
        return {"description": written, "content": forms.get("content")}
    if (name := written.get("schema")) is None:
        return {"description": written["description"], "content": written.get("content")}
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}
    return {"description": written["description"], "content": content}
