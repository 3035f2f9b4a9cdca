"""Writes a model request for Anthropic's Messages API. Pure.

Above: the Anthropic model. Below: model (the request), messages; the wire's facts are in `messages_api`. Source:
https://docs.claude.com/en/api/messages (anthropic-version 2023-06-01).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import cast

import orjson

from gateway.anthropic.messages_api import (
    DECLINED,
    ITEM,
    PROVIDER_NAME,
    REDACTED,
    REFUSED,
    SERVER_CALLS,
    SIGNATURE,
    Profile,
    is_server_item,
    wire_name,
)
from gateway.anthropic.options import anthropic_options, fit_beside_thinking
from gateway.messages import (
    AudioBlock,
    Base64Source,
    ContentBlock,
    DocumentBlock,
    FileSource,
    ImageBlock,
    JsonObject,
    JsonValue,
    MediaBlock,
    MediaSource,
    Message,
    Opaque,
    ReasoningBlock,
    TextBlock,
    ToolCall,
    ToolResult,
    ToolSpec,
    UrlSource,
    VideoBlock,
)
from gateway.model import MediaRefusal, ModelRequest
from gateway.options.generation import NO_OPTIONS, OneTool, ToolChoice
from gateway.providers.conversions import tell_conversion
from gateway.providers.media import LeftOutMedia, UnsendableError, picture, reachable, refusal_by, text_in, whole
from gateway.providers.option_table import with_options
from gateway.wire import stand_ins, strict_json
from gateway.wire.media_bytes import bare_type, is_written
from gateway.wire.stand_ins import GO_ON, NO_CONTENT, OPENING
from gateway.wire.tool_schema import object_schema

_WITHHELD = "(this message is withheld: the model declined to answer it)"

PROMPT_CACHING = "prompt_caching"  # ours, not Anthropic's: true, "5m" or "1h"
BETAS = "anthropic_beta"  # the header's, not the body's
_OWN_PARAMETERS = frozenset({PROMPT_CACHING, BETAS})

LEAST_ANSWER = 4_096  # tokens, beside those of its thoughts

_ALONE = "disable_parallel_tool_use"
_OWN_FILES = (None, "anthropic", PROVIDER_NAME)


def anthropic_request(request: ModelRequest, model_id: str, profile: Profile) -> JsonObject:
    """The body of the request. `model_parameters` override the gateway's own fields; a null removes a field.

    The run's options override `model_parameters`.
    """
    parameters, options = request.parameters, request.options
    if options is not NO_OPTIONS:
        parameters = with_options(parameters, options, anthropic_options(profile))
    writer = _HistoryWriter(model_id, profile)
    turns = _arranged(map(writer.turn, _without_refused(request.messages)))
    writer.left_out.tell()
    system = [text for text in (request.system, *writer.system) if text.strip()]
    body: JsonObject = {"model": model_id, "max_tokens": profile.max_tokens, "stream": True}
    if system:
        body["system"] = [{"type": "text", "text": text} for text in system]
    body["messages"] = cast(JsonValue, turns)
    if request.tools:
        body["tools"] = [_tool(spec) for spec in request.tools]
    thinking = parameters.get("thinking")
    if isinstance(thinking, dict) and isinstance(budget := thinking.get("budget_tokens"), int):
        body["max_tokens"] = max(profile.max_tokens, budget + LEAST_ANSWER)  # refused if thinking may use all of it
    body |= {name: value for name, value in parameters.items() if name not in _OWN_PARAMETERS}
    if options is not NO_OPTIONS:
        fit_beside_thinking(body, options)
        _complete_tool_choice(body)
    if request.tools and request.tool_choice != "auto":  # no parameter may override the choice of the loop
        _place_tool_choice(body, request.tool_choice)
    if not body.get("tools"):
        body.pop("tool_choice", None)  # refused in a request without tools, such as one for a summary
    if caching := parameters.get(PROMPT_CACHING):
        _place_cache_points(body, turns, caching)
    _drop_impossible_thinking(body, turns)
    tell_conversion(PROVIDER_NAME, model_id, request, body, turns)
    return {name: value for name, value in body.items() if value is not None}


def beta_header(request: ModelRequest) -> str:
    """The features that the parameters ask for, as the `anthropic-beta` header; empty if there are none."""
    betas = request.parameters.get(BETAS)
    if isinstance(betas, str):
        return betas
    return ",".join(str(beta) for beta in betas) if isinstance(betas, list) else ""


class _HistoryWriter:
    """Writes messages as turns, one by one. `system` collects the instructions among them."""

    def __init__(self, model_id: str, profile: Profile) -> None:
        self._model_id = model_id
        self._profile = profile
        self.system: list[str] = []
        self.left_out = LeftOutMedia()

    def turn(self, message: Message) -> tuple[str, list[JsonObject]]:
        if message.role in ("system", "developer"):
            self.system.append(message.text)
            return "system", []
        if message.role in ("assistant", "reasoning"):
            return "assistant", [made for block in message.content if (made := self._answered(block))]
        return "user", [made for block in message.content for made in self._asked(block)]

    def _answered(self, block: ContentBlock) -> JsonObject | None:
        """A block of the model's own answer as it is sent back; None if it must not be."""
        match block:
            case TextBlock():
                return _text(block.text)
            case ReasoningBlock():
                return self._reasoning(block)
            case ToolCall():
                call_id, name = wire_name(block.call_id), wire_name(block.name)
                return {
                    "type": "tool_use",
                    "id": call_id,
                    "name": name,
                    "input": strict_json.object_in(block.arguments),
                }
            case ImageBlock() | AudioBlock() | VideoBlock() | DocumentBlock():
                return _text_part(self.left_out.stand_in(block, stand_ins.ONLY_USERS))
            case ToolResult():
                return None

    def _asked(self, block: ContentBlock) -> Iterator[JsonObject]:
        match block:
            case TextBlock():
                if (text := _text(block.text)) is not None:
                    yield text
            case ImageBlock() | AudioBlock() | VideoBlock() | DocumentBlock():
                yield self._medium(block)
            case ToolResult():
                yield self._result(block)
            case ReasoningBlock() | ToolCall():
                return

    def _medium(self, block: MediaBlock) -> JsonObject:
        try:
            return _sent(block, self._profile)
        except UnsendableError as error:
            return _text_part(self.left_out.stand_in(block, error))

    def _result(self, result: ToolResult) -> JsonObject:
        parts: list[JsonValue] = [made for block in result.content for made in self._asked(block)]
        written: JsonObject = {"type": "tool_result", "tool_use_id": wire_name(result.call_id), "content": parts}
        if result.is_error:  # refused with anything but texts, and also empty
            written["is_error"] = True
            texts: list[JsonValue] = [
                _text(block.text)
                if isinstance(block, TextBlock)
                else _text_part(self.left_out.stand_in(block, "a result that failed has only text"))
                for block in result.content
                if isinstance(block, TextBlock | ImageBlock | AudioBlock | VideoBlock | DocumentBlock)
            ]
            written["content"] = [text for text in texts if text] or [{"type": "text", "text": NO_CONTENT}]
        return written

    def _reasoning(self, block: ReasoningBlock) -> JsonObject | None:
        """A thought that this model signed or encrypted. Any other would be refused."""
        opaque = block.opaque
        if opaque is None or (opaque.provider, opaque.model) != (PROVIDER_NAME, self._model_id):
            return None
        if opaque.kind == SIGNATURE:
            return {"type": "thinking", "thinking": block.text, "signature": opaque.value}
        if opaque.kind == REDACTED:
            return {"type": "redacted_thinking", "data": opaque.value}
        return _item(opaque) if opaque.kind == ITEM else None


# --- what was refused ------------------------------------------------------------------------------------------------


def _without_refused(messages: Sequence[Message]) -> Sequence[Message]:
    """The messages without the questions that were refused, and without the messages from each to its refusal.

    https://docs.claude.com/en/docs/test-and-evaluate/strengthen-guardrails/handle-streaming-refusals: if they stay,
    everything after them is refused, too.
    """
    if not any(map(_is_refused, messages)):
        return messages
    kept: list[Message] = []
    calls: set[str] = set()
    for message in messages:
        if _is_refused(message):
            calls |= {call.call_id for call in message.tool_calls}
            while kept and kept[-1].role in ("assistant", "tool"):
                kept.pop()
            for at in range(len(kept) - 1, -1, -1):
                if kept[at].role == "user":
                    kept[at] = replace(kept[at], content=(TextBlock(_WITHHELD),))
                elif kept[at].role in ("assistant", "tool"):
                    break
            kept.append(replace(message, content=(TextBlock(DECLINED),)))
        elif (result := message.tool_result) is None or result.call_id not in calls:
            kept.append(message)
    return kept


def _is_refused(message: Message) -> bool:
    return message.role == "assistant" and any(
        type(block) is TextBlock
        and block.opaque is not None
        and (block.opaque.provider, block.opaque.kind) == (PROVIDER_NAME, REFUSED)
        for block in message.content
    )


# --- turns -----------------------------------------------------------------------------------------------------------


def _arranged(turns: Iterable[tuple[str, list[JsonObject]]]) -> list[JsonObject]:
    """The turns as the API accepts them: the roles alternate, the first is a user's, and none is empty."""
    arranged: list[tuple[str, list[JsonObject]]] = []
    for role, blocks in turns:
        if role == "system" or (role == "assistant" and not blocks):
            continue
        if arranged and arranged[-1][0] == role:
            arranged[-1][1].extend(blocks)
        else:
            arranged.append((role, list(blocks)))
    if not arranged or arranged[0][0] != "user":
        arranged.insert(0, ("user", [{"type": "text", "text": OPENING}]))
    last = len(arranged) - 1
    kept = [(role, _whole(blocks, role == "assistant" and at < last)) for at, (role, blocks) in enumerate(arranged)]
    if kept[-1][0] == "assistant" and not _is_paused(kept[-1][1]):
        kept.append(("user", [{"type": "text", "text": GO_ON}]))  # most models refuse to continue an answer
    return [
        {"role": role, "content": cast(JsonValue, blocks or [{"type": "text", "text": NO_CONTENT}])}
        for role, blocks in kept
    ]


def _whole(blocks: Sequence[JsonObject], answered: bool) -> list[JsonObject]:
    """The blocks of a finished answer, without calls of the provider's own tools that have no result."""
    if not answered:
        return list(blocks)
    results = {block.get("tool_use_id") for block in blocks if str(block["type"]).endswith("_tool_result")}
    return [block for block in blocks if block["type"] not in SERVER_CALLS or block.get("id") in results]


def _is_paused(blocks: Sequence[JsonObject]) -> bool:
    """Whether the provider paused while its own tools ran. It continues from the answer as it is."""
    return bool(blocks) and is_server_item(str(blocks[-1]["type"]))


def _complete_tool_choice(body: JsonObject) -> None:
    """Complete a choice that only says whether calls may be parallel: its type is `auto`."""
    if isinstance(choice := body.get("tool_choice"), dict):
        body["tool_choice"] = {"type": "auto", **choice}


def _place_tool_choice(body: JsonObject, choice: ToolChoice) -> None:
    if choice == "none":
        body["tool_choice"] = {"type": "none"}
        return
    before = body.get("tool_choice")
    alone = {_ALONE: before[_ALONE]} if isinstance(before, dict) and _ALONE in before else {}
    named: JsonObject = {"type": "tool", "name": wire_name(choice.name)} if type(choice) is OneTool else {"type": "any"}
    body["tool_choice"] = {**named, **alone}
    if "thinking" in body:
        body["thinking"] = {"type": "disabled"}  # refused together with a tool that has to be called


def _drop_impossible_thinking(body: JsonObject, turns: Sequence[JsonObject]) -> None:
    """Remove `thinking` if the current turn's calls were made without it: it may not begin within a turn."""
    thinking = body.get("thinking")
    if not isinstance(thinking, dict) or thinking.get("type") != "enabled" or len(turns) < 2:
        return
    asked, answer = (cast("list[JsonObject]", turn["content"]) for turn in (turns[-1], turns[-2]))
    if asked[0]["type"] == "tool_result" and answer[0]["type"] not in ("thinking", "redacted_thinking"):
        del body["thinking"]


def _place_cache_points(body: JsonObject, turns: Sequence[JsonObject], caching: JsonValue) -> None:
    """Mark the ends of the parts that the next request repeats: the tools, the prompt, the history so far.

    https://docs.claude.com/en/docs/build-with-claude/prompt-caching
    """
    point: JsonObject = {"type": "ephemeral"}
    if caching == "1h":
        point["ttl"] = "1h"
    for blocks in (body.get("tools"), body.get("system"), turns[-1]["content"]):
        if isinstance(blocks, list) and blocks and isinstance(last := blocks[-1], dict):
            blocks[-1] = {**last, "cache_control": point}


# --- blocks ----------------------------------------------------------------------------------------------------------


def _text(text: str) -> JsonObject | None:
    return {"type": "text", "text": text} if text.strip() else None  # blank text is refused


def _tool(spec: ToolSpec) -> JsonObject:
    declared: JsonObject = {
        "name": wire_name(spec.name),
        "input_schema": {**object_schema(spec.input_schema), "type": "object"},
    }
    if spec.description.strip():
        declared["description"] = spec.description
    return declared


def _item(opaque: Opaque) -> JsonObject | None:
    try:
        item: JsonValue = orjson.loads(opaque.value)
    except ValueError:
        return None
    return item if isinstance(item, dict) and is_server_item(str(item.get("type"))) else None


def media_refusal(profile: Profile) -> MediaRefusal:
    """Why the server does not take a user's medium, see ModelCapabilities."""
    documents = " and documents (PDF and text)" if profile.documents else ""
    supported = f"Anthropic takes images{documents}, in base64, behind https URLs and as files that it keeps"
    return refusal_by(lambda block: _sent(block, profile), supported)


def _sent(block: MediaBlock, profile: Profile) -> JsonObject:
    match block:
        case ImageBlock():
            return {"type": "image", "source": _image_source(reachable(block.source, "https://"))}
        case DocumentBlock():
            return _document(block, profile)
        case AudioBlock() | VideoBlock():
            raise UnsendableError(stand_ins.NO_SUCH_MEDIA)


def _image_source(source: MediaSource) -> JsonObject:
    if isinstance(source, Base64Source):
        shown = picture(source)
        return {"type": "base64", "media_type": shown.media_type, "data": shown.data}
    return _far_source(source)


def _document(block: DocumentBlock, profile: Profile) -> JsonObject:
    if not profile.documents:
        raise UnsendableError(stand_ins.NO_SUCH_MEDIA)
    written: JsonObject = {"type": "document", "source": _document_source(reachable(block.source, "https://"))}
    if block.name:
        written["title"] = block.name[:255]
    return written


def _document_source(source: MediaSource) -> JsonObject:
    if not isinstance(source, Base64Source):
        return _far_source(source)
    kind = bare_type(source.media_type)
    if kind == "application/pdf":
        return {"type": "base64", "media_type": kind, "data": whole(source.data)}
    if is_written(kind):
        return {"type": "text", "media_type": "text/plain", "data": text_in(source.data)}
    raise UnsendableError(stand_ins.NO_SUCH_FORMAT)


def _far_source(source: UrlSource | FileSource) -> JsonObject:
    if isinstance(source, UrlSource):
        return {"type": "url", "url": source.url}
    if source.provider not in _OWN_FILES:
        raise UnsendableError(stand_ins.KEPT_ELSEWHERE)
    return {"type": "file", "file_id": source.file_id}


def _text_part(text: str) -> JsonObject:
    return {"type": "text", "text": text}
