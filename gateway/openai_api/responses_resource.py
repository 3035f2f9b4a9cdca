"""The Response object: the members from its request, the part that its run's record keeps, and the object itself.

Below: errors, ids. Above: the renderer, the readers of requests, stored responses. Pure. It has all members that
https://www.openresponses.org (2026-04-24) requires of a ResponseResource, and those of OpenAI's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, cast

from gateway.events import Incomplete, StopReason
from gateway.messages import JsonObject, JsonValue
from gateway.openai_api.tools import NamespacedName
from gateway.protocol.earlier_calls import EarlierCall, earlier_calls, kept_calls
from gateway.store import RunRecord

BackendTools: TypeAlias = Literal["mcp_call", "function_call", "hidden"]
Approvals: TypeAlias = Literal["mcp_approval_request", "message"]
ResponseStatus: TypeAlias = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]

ORIGIN: Final = "responses"
"""InputOrigin.protocol of the runs that Responses begins."""
CHAT_ORIGIN: Final = "chat_completions"
"""That of the runs that Chat Completions begins."""

# What a Response says where its request says nothing. Open Responses knows no null for most of them.
_UNSAID: Final[Mapping[str, JsonValue]] = MappingProxyType(
    {
        "previous_response_id": None,
        "instructions": None,
        "tools": [],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "top_p": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "top_logprobs": 0,
        "max_output_tokens": None,
        "max_tool_calls": None,
        "text": {},
        "reasoning": {},
        "truncation": "disabled",
        "service_tier": "default",
        "metadata": {},
        "user": None,
        "safety_identifier": None,
        "prompt_cache_key": None,
    }
)
_TOOL: Final[JsonObject] = {"type": "function", "name": "", "description": None, "parameters": None, "strict": None}
_JSON_SCHEMA: Final[JsonObject] = {"description": None, "schema": None, "strict": False}
# Our codes that OpenAI has a word for in ResponseError.code; all others are `server_error`.
_ERROR_CODES: Final = {
    "model_throttled": "rate_limit_exceeded",
    "model_quota": "rate_limit_exceeded",
    "model_context_overflow": "invalid_prompt",
    "model_content_filter": "invalid_prompt",
}
_INCOMPLETE: Final = {StopReason.MAX_TOKENS: "max_output_tokens"}


@dataclass(frozen=True, slots=True)
class ResponseForm:
    """The parts of a Response that do not come from its run's events.

    `model` is the agent's id, as the request wrote it. `echoed` are members that repeat the request, in the API's
    spelling; what it leaves out is filled in. `created_at` is in whole Unix seconds. `encrypted`: the request's
    `include` asks for the reasoning's sealed envelope. `earlier` are the thread's calls that wait for a person.
    `by_word` as in `question_text`, `namespaced` as in ReadTools.
    """

    run_id: str
    thread_id: str
    model: str
    created_at: int
    echoed: JsonObject = field(default_factory=dict)
    store: bool = True
    background: bool = False
    backend_tools: BackendTools = "mcp_call"
    approvals: Approvals = "mcp_approval_request"
    by_word: bool = False
    encrypted: bool = False
    earlier: tuple[EarlierCall, ...] = ()
    namespaced: Mapping[str, NamespacedName] = field(default_factory=dict)

    @property
    def remembered(self) -> JsonObject:
        """The form in which the run's record keeps it; `form_of` reads it."""
        kept: JsonObject = {
            "created_at": self.created_at,
            "echoed": self.echoed,
            "store": self.store,
            "background": self.background,
            "backend_tools": self.backend_tools,
            "approvals": self.approvals,
            "by_word": self.by_word,
            "encrypted": self.encrypted,
        }
        if self.namespaced:
            kept["namespaced"] = {name: [*client_name] for name, client_name in self.namespaced.items()}
        return {**kept, **kept_calls(self.earlier)}

    @property
    def seals(self) -> bool:
        """Whether reasoning items carry the sealed envelope: without a stored response they cannot be named."""
        return self.encrypted or not self.store


def form_of(record: RunRecord) -> ResponseForm:
    """The form of a run that has begun earlier, of whichever protocol."""
    run_id, thread_id, created_at = record.client_id, record.thread_id, int(record.created_at)
    request = record.request or {}
    if record.origin != ORIGIN:
        kept, by_word = request.get("store") is not False, request.get("by_word") is True
        return ResponseForm(run_id, thread_id, record.agent_id, created_at, store=kept, by_word=by_word)
    namespaced = cast("Mapping[str, list[str]]", request.get("namespaced", {}))
    return ResponseForm(
        run_id,
        thread_id,
        record.agent_id,
        cast(int, request.get("created_at", created_at)),
        cast(JsonObject, request.get("echoed", {})),
        store=request.get("store") is not False,
        background=request.get("background") is True,
        backend_tools=cast(BackendTools, request.get("backend_tools", "mcp_call")),
        approvals=cast(Approvals, request.get("approvals", "mcp_approval_request")),
        by_word=request.get("by_word") is True,
        encrypted=request.get("encrypted") is True,
        earlier=earlier_calls(request),
        namespaced={name: NamespacedName(*client_name) for name, client_name in namespaced.items()},
    )


def response_object(form: ResponseForm, status: ResponseStatus, output: Sequence[JsonObject] = ()) -> JsonObject:
    """A Response that has not ended, with all of its members."""
    return {
        "id": form.run_id,
        "object": "response",
        "created_at": form.created_at,
        "completed_at": None,
        "status": status,
        "background": form.background,
        "error": None,
        "incomplete_details": None,
        "model": form.model,
        "output": [*output],
        "usage": None,
        "store": form.store,
        "conversation": {"id": form.thread_id} if form.store else None,
        **_echo(form.echoed),
    }


def response_error(code: str, message: str) -> JsonObject:
    """The `error` of a failed Response. Its `code` is one of OpenAI's few; `type` is our own code."""
    return {"code": _ERROR_CODES.get(code, "server_error"), "message": message, "type": code}


def incomplete_details(outcome: Incomplete) -> JsonObject:
    """Why a Response is incomplete; where OpenAI has no word for it, in ours."""
    return {"reason": _INCOMPLETE.get(outcome.reason, outcome.reason.value)}


def _echo(echoed: JsonObject) -> JsonObject:
    said: JsonObject = {**_UNSAID, **{name: value for name, value in echoed.items() if value is not None}}
    text = cast(JsonObject, said["text"])
    said["tools"] = [{**_TOOL, **tool} for tool in cast("list[JsonObject]", said["tools"])]
    said["text"] = {**text, "format": _text_format(text.get("format"))}
    said["reasoning"] = {"effort": None, "summary": None, **cast(JsonObject, said["reasoning"])}
    return said


def _text_format(form: JsonValue) -> JsonObject:
    if not isinstance(form, dict):
        return {"type": "text"}
    if form.get("type") != "json_schema":
        return form
    return {**_JSON_SCHEMA, **{name: value for name, value in form.items() if value is not None}}
