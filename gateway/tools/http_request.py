"""HttpTool: sends the model's arguments to an endpoint that the operator has set.

    - type: HttpTool
      name: order_status
      description: Tell the status of an order.
      parameters:
        url: "https://shop.internal/orders/{order_id}"
        headers: {Authorization: "Bearer ${env:SHOP_KEY}"}
        query: {lang: "{language}"}
        input_schema:
          type: object
          properties: {order_id: {type: integer}, language: {type: string}}
          required: [order_id]

`{name}` is a placeholder for an argument. It may be in the URL's path and query (percent-encoded, so that no argument
can change the rest of the URL), in `query`, and in texts of `body`. A text of `body` or `query` that is only `{name}`
takes the argument with its type, and is left out where the argument is missing. Without `body` and `query`, the
arguments that the URL does not use are sent as the JSON body (POST, PUT, PATCH) or as the query (GET, DELETE).

The operator chooses the endpoint, which may be in a private network. So arguments cannot be in scheme, host, port and
headers, and redirects are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote, urlencode, urlsplit

from pydantic import Field, InstanceOf

from gateway.agent import Secret, ToolSettings
from gateway.errors import ConfigurationError, ModelError, ModelErrorKind, ToolError
from gateway.http_client.clients import HttpCall, HttpClients, HttpStream, StreamTimeouts
from gateway.messages import ContentBlock, JsonObject, JsonValue, ToolSpec
from gateway.tool import SingleTool, Toolbox, ToolContext, ToolEnvironment, ToolType
from gateway.tool_definitions.parameters import ToolParameters, parameter_error, read_parameters, tool_label
from gateway.tool_output import (
    bounded,
    encodable,
    json_text,
    media_block,
    text_blocks,
)
from gateway.turns.tool_calls import schema_problem

_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FORBIDDEN_IN_A_HEADER = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
# The client sets these: they delimit a request.
_OWN_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "connection", "accept-encoding"})
_MAX_ERROR_CHARACTERS = 2_000
_SHORTEST_SECRET = 8
_TEXT_TYPES = re.compile(r"text/.*|application/(.*\+)?(json|xml|javascript|yaml|x-ndjson|x-www-form-urlencoded)")
_FAILURES = {
    ModelErrorKind.TIMEOUT: "it did not answer in time",
    ModelErrorKind.NETWORK: "it cannot be reached",
}


class HttpToolParameters(ToolParameters):
    """The `parameters` of an HttpTool, which sends the model's arguments to an endpoint that the operator has set."""

    url: InstanceOf[str]
    """The endpoint, an http or https URL. Its path and query may contain placeholders `{name}`, which the model fills
    in."""
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"] = "GET"
    """The method of the request."""
    headers: dict[str, InstanceOf[str]] = Field(default_factory=dict)
    """Headers of the request, such as the endpoint's key as '${env:NAME}'. The model never sees them."""
    query: dict[str, Any] | None = None
    """The query's members; texts may contain placeholders. If query and body are absent, the query of a GET or DELETE
    has the arguments that the URL does not use."""
    body: Any = None
    """The JSON body; its texts may contain placeholders. If query and body are absent, the body of a POST, PUT or PATCH
    has the arguments that the URL does not use."""
    input_schema: JsonObject | None = None
    """The JSON Schema of the tool's arguments; if absent, each placeholder is a required text."""
    timeout_seconds: float = Field(default=20.0, gt=0)
    """How long the endpoint may take to answer."""
    max_response_bytes: int = Field(default=1_000_000, gt=0)
    """How much of the response is read. The rest of a text is cut off; other content that is longer is left out."""


@dataclass(frozen=True, slots=True)
class HttpTool:
    """One endpoint. `headers` as they are sent; `arguments`: the names in the schema; `secrets`: values that the model
    must not see, even if the endpoint repeats them.
    """

    spec: ToolSpec
    clients: HttpClients
    parameters: HttpToolParameters
    url: str
    headers: Mapping[str, str]
    arguments: frozenset[str]
    secrets: tuple[str, ...]

    async def call(self, arguments: JsonObject, context: ToolContext) -> tuple[ContentBlock, ...]:
        call = self.request(arguments).part_of(context.trace)
        seconds = self.parameters.timeout_seconds
        timeouts = StreamTimeouts(connect=seconds, first_byte=seconds, idle=seconds, total=seconds)
        try:
            async with self.clients.stream(call, timeouts) as response:
                blocks = await self._content(response)
                return bounded(blocks, self.parameters.max_output_characters)
        except ModelError as error:
            # the client's messages name a model provider
            reason = _FAILURES.get(error.kind, "its answer is not HTTP as it should be")
            raise ToolError(f"the endpoint of {self.spec.name!r} failed: {reason}") from error

    def request(self, arguments: JsonObject) -> HttpCall:
        """The request for a call.

        Raises:
            ToolError: an argument that the path needs is missing, empty, or would change the path.
        """
        url = _filled_url(self.url, arguments)
        rest = {name: value for name, value in arguments.items() if name not in _PLACEHOLDER.findall(self.url)}
        sends_body = self.parameters.method in ("POST", "PUT", "PATCH")
        query, body = self.parameters.query, self.parameters.body
        if query is not None:
            query = _filled(query, arguments, self.arguments)
        elif body is None and not sends_body:
            query = rest
        if body is not None:
            body = _filled(body, arguments, self.arguments)
        elif self.parameters.query is None and sends_body:
            body = rest
        if query:
            url += ("&" if "?" in url else "?") + urlencode(list(_pairs(query)))
        headers = dict(self.headers)
        content = b""
        if body is not None and not isinstance(body, _Absent):
            content = json_text(body).encode()
            headers.setdefault("content-type", "application/json")
        return HttpCall(self.parameters.method, url, headers, content)

    async def _content(self, response: HttpStream) -> tuple[ContentBlock, ...]:
        """The response as blocks.

        Raises:
            ToolError: a redirect, or a status of 400 and above; with the beginning of the endpoint's response.
        """
        limit = self.parameters.max_response_bytes
        body = await response.read(limit + 1)
        cut, body = len(body) > limit, body[:limit]
        media_type, charset = _media_type(response.headers.get("content-type", ""))
        is_text = not media_type or bool(_TEXT_TYPES.fullmatch(media_type))
        text = self._without_secrets(_decoded(body, charset)) if is_text else ""
        if 300 <= response.status < 400:
            raise ToolError(
                f"the endpoint answered with a redirect (HTTP status {response.status}), which is not followed"
            )
        if response.status >= 400:
            said = text.strip()[:_MAX_ERROR_CHARACTERS]
            raise ToolError(f"the endpoint answered with HTTP status {response.status}" + (f": {said}" if said else ""))
        if is_text:
            return text_blocks(text + (f"\n[truncated: this is the first {limit:,} bytes]" if cut else ""))
        if cut:
            return text_blocks(f"[left out: {media_type} of more than {limit:,} bytes]")
        return (media_block(body, media_type),) if body else ()

    def _without_secrets(self, text: str) -> str:
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


class _Absent:
    """Stands for an argument that was not given."""


_ABSENT = _Absent()


def _filled_url(template: str, arguments: Mapping[str, JsonValue]) -> str:
    path, mark, query = template.partition("?")
    origin_end = path.index("/", path.index("//") + 2)
    segments = path[origin_end:].split("/")
    filled = [_filled_segment(segment, arguments) for segment in segments]
    return path[:origin_end] + "/".join(filled) + mark + _PLACEHOLDER.sub(lambda m: _encoded(m[1], arguments), query)


def _filled_segment(segment: str, arguments: Mapping[str, JsonValue]) -> str:
    names = _PLACEHOLDER.findall(segment)
    filled = _PLACEHOLDER.sub(lambda match: _encoded(match[1], arguments), segment)
    # encoded or not, dots alone lead to another path
    if names and filled.replace("%2E", ".").replace("%2e", ".") in ("", ".", ".."):
        raise ToolError(f"the argument {names[0]!r} must not be empty, '.' or '..'")
    return filled


def _encoded(name: str, arguments: Mapping[str, JsonValue]) -> str:
    value = arguments.get(name)
    if value is None:
        raise ToolError(f"the argument {name!r} is missing")
    return quote(_text(name, value), safe="")


def _text(name: str, value: JsonValue) -> str:
    if isinstance(value, dict | list):
        raise ToolError(f"the argument {name!r} must be text, a number, true or false")
    return encodable(value) if isinstance(value, str) else json_text(value)


def _filled(template: Any, arguments: Mapping[str, JsonValue], known: frozenset[str]) -> Any:
    if isinstance(template, dict):
        items = {key: _filled(value, arguments, known) for key, value in template.items()}
        return {key: value for key, value in items.items() if not isinstance(value, _Absent)}
    if isinstance(template, list):
        values = [_filled(item, arguments, known) for item in template]
        return [value for value in values if not isinstance(value, _Absent)]
    if not isinstance(template, str):
        return template
    whole = _PLACEHOLDER.fullmatch(template)
    if whole is not None and whole[1] in known:
        return arguments.get(whole[1], _ABSENT)
    # other braces are the operator's text, as in a GraphQL query
    return _PLACEHOLDER.sub(
        lambda match: _text(match[1], arguments.get(match[1], "")) if match[1] in known else match[0], _plain(template)
    )


def _pairs(query: Mapping[str, JsonValue]) -> Iterator[tuple[str, str]]:
    for name, value in query.items():
        for item in value if isinstance(value, list) else [value]:
            if item is not None:
                yield name, _text(name, item)


def _media_type(header: str) -> tuple[str, str]:
    media_type, _, rest = header.partition(";")
    charset = re.search(r"charset\s*=\s*\"?([\w.-]+)", rest, re.IGNORECASE)
    return media_type.strip().lower(), charset[1] if charset else "utf-8"


def _decoded(body: bytes, charset: str) -> str:
    try:
        return body.decode(charset, "replace")
    except LookupError:
        return body.decode("utf-8", "replace")


def _plain(text: str) -> str:
    return text.reveal() if isinstance(text, Secret) else text


def open_http_tool(settings: ToolSettings, environment: ToolEnvironment) -> Toolbox:
    """The tool of an endpoint.

    Raises:
        ConfigurationError: no usable URL, headers or schema, or placeholders that no argument can fill.
    """
    parameters = read_parameters(settings, HttpToolParameters)
    label = tool_label(settings)
    if settings.name is None:
        raise ConfigurationError(f"the tool {label} needs a 'name', by which the model calls it")
    url = _checked_url(settings, parameters)
    headers = _checked_headers(settings, parameters)
    given = parameters.input_schema
    schema = _derived_schema(url, parameters) if given is None else {"type": "object", **given}
    if (wrong := schema_problem(schema)) is not None:
        raise parameter_error(settings, "input_schema", f"is no usable JSON Schema: {wrong}")
    properties = schema.get("properties")
    known = frozenset(properties if isinstance(properties, dict) else ())
    unknown = [name for name in _needed(url, parameters) if name not in known]
    if unknown:
        raise ConfigurationError(f"the tool {label}: {{{unknown[0]}}} is not a property of parameters.input_schema")
    spec = ToolSpec(settings.name, settings.description or f"Sends a request: {settings.name}.", schema)
    return SingleTool(HttpTool(spec, environment.http, parameters, url, headers, known, _secrets(parameters)))


def _checked_url(settings: ToolSettings, parameters: HttpToolParameters) -> str:
    url = _plain(parameters.url).partition("#")[0]
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
        parts = urlsplit("")
    if not usable or any(character.isspace() or not character.isprintable() for character in url):
        raise parameter_error(settings, "url", "is not an http or https URL")
    if "@" in parts.netloc:
        raise parameter_error(settings, "url", "holds a password; put it into parameters.headers")
    if "{" in parts.netloc:
        raise parameter_error(settings, "url", "has a placeholder before its path; only path and query can have one")
    if not parts.path:
        start = url.index("//") + 2 + len(parts.netloc)
        return f"{url[:start]}/{url[start:]}"
    return url


def _checked_headers(settings: ToolSettings, parameters: HttpToolParameters) -> dict[str, str]:
    headers = {name.lower(): _plain(value) for name, value in parameters.headers.items()}
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or _FORBIDDEN_IN_A_HEADER.search(value) or name in _OWN_HEADERS:
            raise parameter_error(settings, "headers", f"has {name!r}, or a value, that cannot be sent")
    return {"accept": "application/json, text/*;q=0.9, */*;q=0.5", **headers}


def _needed(url: str, parameters: HttpToolParameters) -> Iterator[str]:
    """The arguments that the schema must declare: those in the URL, and placeholders that are a whole text."""
    yield from _PLACEHOLDER.findall(url)
    for text in _texts([parameters.query, parameters.body]):
        if (whole := _PLACEHOLDER.fullmatch(text)) is not None:
            yield whole[1]


def _texts(template: Any) -> Iterator[str]:
    return (_plain(leaf) for leaf in _leaves(template) if isinstance(leaf, str))


def _leaves(template: Any) -> Iterator[object]:
    if isinstance(template, dict):
        for value in template.values():
            yield from _leaves(value)
    elif isinstance(template, list):
        for item in template:
            yield from _leaves(item)
    else:
        yield template


def _secrets(parameters: HttpToolParameters) -> tuple[str, ...]:
    """The secrets that are sent, and their words (the token of a "Bearer ..."), the longest first."""
    texts = [parameters.url, *parameters.headers.values(), *_leaves([parameters.query, parameters.body])]
    revealed = [text.reveal() for text in texts if isinstance(text, Secret)]
    words = {word for text in revealed for word in (text, *text.split()) if len(word) >= _SHORTEST_SECRET}
    return tuple(sorted(words, key=len, reverse=True))


def _derived_schema(url: str, parameters: HttpToolParameters) -> JsonObject:
    names = dict.fromkeys(
        [
            *_PLACEHOLDER.findall(url),
            *(name for text in _texts([parameters.query, parameters.body]) for name in _PLACEHOLDER.findall(text)),
        ]
    )
    properties: JsonObject = {name: {"type": "string"} for name in names}
    return {"type": "object", "properties": properties, "required": list(names), "additionalProperties": False}


TOOL_TYPE = ToolType("HttpTool", open_http_tool, parameters=HttpToolParameters)
