"""Renders an OpenAPI document as one HTML page, on the server: no script, nothing from another host.

Below: messages. The packages that contain Swagger UI or the like are either years old or load from a CDN. A page of
text also prints, works offline and needs no exception in a content security policy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from typing import Any, cast

from gateway.messages import JsonObject

_METHODS = ("get", "post", "put", "patch", "delete")
_CODE = re.compile(r"`([^`]+)`")
_LINK = re.compile(r"https://[^\s)]+[^\s).,;]")


def render_page(document: JsonObject, *, stylesheet: str) -> str:
    """The page. `stylesheet` is a URL relative to the page's own."""
    return "\n".join(_Page(document).lines(stylesheet)) + "\n"


class _Page:
    def __init__(self, document: JsonObject) -> None:
        # the gateway's own document: its shape needs no checks
        self._document = cast("dict[str, Any]", document)

    def lines(self, stylesheet: str) -> Iterator[str]:
        info = self._document["info"]
        title = f"{escape(info['title'])} {escape(info['version'])}"
        yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
        yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
        yield f'<title>{title}</title>\n<link rel="stylesheet" href="{escape(stylesheet)}">\n</head>\n<body>'
        yield f"<header>\n<h1>{title}</h1>\n<p>{_prose(info['description'])}</p>"
        yield '<p>The same for programs: <a href="openapi.json">openapi.json</a></p>\n</header>'
        yield from self._contents()
        yield "<main>"
        for tag in self._document["tags"]:
            yield f'<section>\n<h2 id="{escape(tag["name"])}">{escape(tag["name"].capitalize())}</h2>'
            yield f"<p>{_prose(tag['description'])}</p>"
            for path, method, operation in self._operations(tag["name"]):
                yield from self._operation(path, method, operation)
            yield "</section>"
        yield '<section>\n<h2 id="shapes">Shapes</h2>'
        for name, schema in self._document["components"]["schemas"].items():
            yield from self._shape(name, schema)
        yield "</section>\n</main>\n</body>\n</html>"

    def _contents(self) -> Iterator[str]:
        yield '<nav aria-label="Contents">\n<ul>'
        for tag in self._document["tags"]:
            for path, method, operation in self._operations(tag["name"]):
                anchor = escape(operation["operationId"])
                yield f'<li><a href="#{anchor}"><code>{method.upper()} {escape(path)}</code></a></li>'
        yield '<li><a href="#shapes">Shapes</a></li>\n</ul>\n</nav>'

    def _operations(self, tag: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
        for path, item in self._document["paths"].items():
            for method in _METHODS:
                if method in item and tag in item[method]["tags"]:
                    yield path, method, item[method]

    def _operation(self, path: str, method: str, operation: dict[str, Any]) -> Iterator[str]:
        yield f'<article id="{escape(operation["operationId"])}">'
        yield f"<h3><code>{method.upper()} {escape(path)}</code> {escape(operation['summary'])}</h3>"
        if "description" in operation:
            yield f"<p>{_prose(operation['description'])}</p>"
        rows = [self._parameter_row(self._resolve(parameter)) for parameter in operation.get("parameters", ())]
        if "requestBody" in operation:
            body = operation["requestBody"]
            rows.append(("body", self._content(body["content"]), body["description"]))
        yield from _table(("Request", "Type", "Meaning"), rows)
        answers = ((status, self._resolve(answer)) for status, answer in operation["responses"].items())
        yield from _table(
            ("Answer", "Type", "Meaning"),
            [(status, self._content(answer.get("content", {})), answer["description"]) for status, answer in answers],
        )
        yield "</article>"

    def _shape(self, name: str, schema: dict[str, Any]) -> Iterator[str]:
        yield f'<article id="shape-{escape(name)}">\n<h3>{escape(name)}</h3>'
        if "description" in schema:
            yield f"<p>{_prose(schema['description'])}</p>"
        required = schema.get("required", ())
        rows = [
            (f"{field}{'' if field in required else ' (optional)'}", self._type(inner), inner.get("description", ""))
            for field, inner in schema.get("properties", {}).items()
        ]
        yield from _table(("Field", "Type", "Meaning"), rows)
        yield "</article>"

    def _parameter_row(self, parameter: dict[str, Any]) -> tuple[str, str, str]:
        name = f"{parameter['name']} ({parameter['in']})"
        return name, self._type(parameter["schema"]), parameter["description"]

    def _content(self, content: dict[str, Any]) -> str:
        kinds = {media: self._type(each["schema"]) for media, each in content.items()}
        return "<br>".join(f"{escape(media)}: {kind}" for media, kind in kinds.items())

    def _type(self, schema: dict[str, Any]) -> str:
        """As HTML."""
        if "$ref" in schema:
            name = escape(schema["$ref"].rpartition("/")[2])
            return f'<a href="#shape-{name}">{name}</a>'
        if "anyOf" in schema:
            return " or ".join(map(self._type, schema["anyOf"]))
        if "enum" in schema or "const" in schema:
            words = schema.get("enum") or [schema["const"]]
            return " | ".join(f"<code>{escape(str(word))}</code>" for word in words)
        kind = schema.get("type", "any JSON")
        if kind == "array":
            return f"list of {self._type(schema['items'])}"
        return escape(" or ".join(kind) if isinstance(kind, list) else kind)

    def _resolve(self, value: dict[str, Any]) -> dict[str, Any]:
        if "$ref" not in value:
            return value
        resolved: Any = self._document
        for part in value["$ref"].removeprefix("#/").split("/"):
            resolved = resolved[part]
        return cast("dict[str, Any]", resolved)


def _table(heads: tuple[str, str, str], rows: list[tuple[str, str, str]]) -> Iterator[str]:
    """Rows of plain text, HTML and prose."""
    if not rows:
        return
    columns = "".join(f'<th scope="col">{head}</th>' for head in heads)
    yield f"<table>\n<thead><tr>{columns}</tr></thead>\n<tbody>"
    for name, kind, meaning in rows:
        yield f'<tr><th scope="row">{escape(name)}</th><td>{kind}</td><td>{_prose(meaning)}</td></tr>'
    yield "</tbody>\n</table>"


def _prose(text: str) -> str:
    """Text as HTML, with its `code` and its links."""
    marked = _CODE.sub(r"<code>\1</code>", escape(text, quote=False))
    return _LINK.sub(lambda found: f'<a href="{found[0]}" rel="noreferrer">{found[0]}</a>', marked)
