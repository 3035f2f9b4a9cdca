"""The body of `POST /v1/responses`. Pure.

Below: the readers of its parts. Above: responses_start. Members that mean nothing to this gateway are
echoed or ignored; members that would change the answer's form are refused.
https://platform.openai.com/docs/api-reference/responses/create (November 2026)
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from gateway.messages import JsonObject, JsonValue, ToolSpec
from gateway.openai_api.fields import OpenAIFields
from gateway.openai_api.generation import read_generation
from gateway.openai_api.includes import ENCRYPTED, read_includes
from gateway.openai_api.metadata import read_metadata
from gateway.openai_api.responses_items import InputItem, ReadInput, read_input
from gateway.openai_api.tools import NamespacedName, read_tool_choice, read_tools
from gateway.options.run_options import RequestedLimits, RunOptions


@dataclass(frozen=True, slots=True)
class ResponsesRequest:
    """A request. `echoed` are the members of its Response that repeat it. `conversation`: the thread's id. `encrypted`:
    the client wants reasoning items with `encrypted_content`. `takes_requests`: it sent a tool of type `mcp`, so it
    knows items of type `mcp_approval_request`. `counted` as in ReadInput, `namespaced` and
    `left_out` as in ReadTools.
    """

    model: str
    items: tuple[InputItem, ...]
    tools: tuple[ToolSpec, ...]
    options: RunOptions
    echoed: JsonObject
    previous_response_id: str | None = None
    conversation: str | None = None
    store: bool = True
    background: bool = False
    stream: bool = False
    encrypted: bool = False
    takes_requests: bool = False
    counted: int = 0
    namespaced: Mapping[str, NamespacedName] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()


_TRUNCATIONS: Final[Mapping[str, str]] = MappingProxyType({each: each for each in ("auto", "disabled")})
_ECHOED: Final = (
    "instructions", "parallel_tool_calls", "temperature", "top_p", "max_output_tokens", "max_tool_calls", "metadata",
    "text", "truncation", "service_tier", "safety_identifier", "prompt_cache_key", "previous_response_id",
)  # fmt: skip
_OFFERED_NOT: Final = ("prompt", "logprobs")


def read_request(
    body: JsonObject,
    known: ReadInput | None = None,
    *,
    refuses_others: bool = False,
    taken: Container[str] = (),
) -> ResponsesRequest:
    """The request that a body is; `known` as for `read_input`, `refuses_others` and `taken` as for `read_tools`.

    Raises:
        InvalidRequestError: 400; it names all wrong fields.
    """
    fields = OpenAIFields(body)
    model = fields.required("model", filled=True)
    items = read_input(fields, known=known)
    counted = fields.counted
    tools = read_tools(fields, namespaces=True, refuses_others=refuses_others, taken=taken)
    allowed, choice = read_tool_choice(fields, tools)
    options = RunOptions(
        generation=read_generation(fields),
        tool_choice=choice,
        instructions=fields.text("instructions") or "",
        limits=RequestedLimits(max_tool_calls=fields.number("max_tool_calls", least=1)),
        detached=bool(fields.boolean("background")),
    )
    store = fields.boolean("store")
    request = ResponsesRequest(
        model,
        items,
        allowed,
        options,
        previous_response_id=fields.text("previous_response_id") or None,
        conversation=_conversation(fields),
        store=store is not False,
        background=options.detached,
        stream=bool(fields.boolean("stream")),
        encrypted=ENCRYPTED in read_includes(fields),
        echoed=_echoed(fields),
        takes_requests=_takes_requests(body),
        counted=counted,
        namespaced=tools.namespaced,
        left_out=tools.left_out,
    )
    _check_rest(fields, request)
    fields.check()
    return request


def _takes_requests(body: JsonObject) -> bool:
    tools = body.get("tools")
    return isinstance(tools, list) and any(isinstance(tool, dict) and tool.get("type") == "mcp" for tool in tools)


def _conversation(fields: OpenAIFields) -> str | None:
    """The conversation's id, which may stand in an object."""
    value = fields.value.get("conversation")
    if isinstance(value, dict):
        return fields.below("conversation", value).required("id", filled=True)
    return fields.text("conversation") or None


def _check_rest(fields: OpenAIFields, request: ResponsesRequest) -> None:
    """Note problems in members that are only checked."""
    read_metadata(fields)
    fields.word("truncation", _TRUNCATIONS)
    for name in ("service_tier", "safety_identifier", "prompt_cache_key"):
        fields.text(name)
    fields.object("stream_options")
    if request.background and not request.store:
        fields.wrong("background", "background needs store: its answer is asked for later; leave out 'store: false'")
    for name in _OFFERED_NOT:
        if fields.value.get(name):
            fields.wrong(name, f"{name} is not offered here; leave it out")
    if fields.number("top_logprobs"):
        fields.wrong("top_logprobs", "top_logprobs must be 0: this gateway knows no log probabilities")


# --- what the Response repeats ---------------------------------------------------------------------------------------


def _echoed(fields: OpenAIFields) -> JsonObject:
    """The request's members that a Response repeats; none of those that the request leaves out."""
    body = fields.value
    echoed = {name: body[name] for name in _ECHOED if body.get(name) is not None}
    if isinstance(user := body.get("user"), str):  # some clients send an object
        echoed["user"] = user
    if isinstance(tools := body.get("tools"), list):
        echoed["tools"] = [_flat(tool) for tool in tools if isinstance(tool, dict) and tool.get("type") == "function"]
    if (choice := body.get("tool_choice")) is not None:
        echoed["tool_choice"] = _flat(choice) if isinstance(choice, dict) else choice
    if isinstance(reasoning := body.get("reasoning"), dict):
        summary = reasoning.get("summary", reasoning.get("generate_summary"))
        echoed["reasoning"] = {"effort": reasoning.get("effort"), "summary": summary}
    return echoed


def _flat(value: JsonObject) -> JsonObject:
    """A tool in the form of Responses, if a client wrote it in that of Chat Completions, where the function is an
    object.
    """
    inside: JsonValue = value.get("function")
    if not isinstance(inside, dict):
        return value
    return {**{name: each for name, each in value.items() if name != "function"}, **inside}
