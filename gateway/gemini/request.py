"""Writes a model request for Gemini's generateContent. Pure.

Above: the Gemini model. Below: model (the request), messages; the wire's facts are in `generate_content`.
Source: https://ai.google.dev/api/generate-content (v1beta), https://ai.google.dev/gemini-api/docs/thought-signatures.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias, cast

import orjson

from gateway.gemini.generate_content import (
    ITEM,
    ITEM_PARTS,
    PROVIDER_NAME,
    SIGNATURE,
    TEXT_SIGNATURE,
    TOP_LEVEL,
    Profile,
    function_name,
    schema_subset,
)
from gateway.gemini.options import gemini_options
from gateway.messages import (
    MEDIA_KINDS,
    AudioBlock,
    Base64Source,
    ContentBlock,
    DocumentBlock,
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
from gateway.model import ModelRequest
from gateway.options.generation import NO_OPTIONS, OneTool, ToolChoice
from gateway.providers.conversions import tell_conversion
from gateway.providers.media import LeftOutMedia, UnsendableError, refusal_by, whole
from gateway.providers.option_table import with_options
from gateway.wire import stand_ins, strict_json
from gateway.wire.media_bytes import bare_type, is_written
from gateway.wire.stand_ins import GO_ON, NO_CONTENT, OPENING

# Gemini 3 refuses a call of the current turn without a signature, except with this one, which says that another model
# made the call: https://ai.google.dev/gemini-api/docs/thought-signatures#faqs
FOREIGN_SIGNATURE = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="  # skip_thought_signature_validator

_OWN_FILES = (None, "gemini", "google", PROVIDER_NAME)
_REACHABLE = ("gs://", "https://", "files/")

_Part: TypeAlias = JsonObject


def gemini_request(request: ModelRequest, model_id: str, profile: Profile) -> JsonObject:
    """The body of the request. `MediaFetcher` must have made media behind https URLs inline before.

    `model_parameters` override the gateway's own fields. Members of the request stay there, all others go into
    `generationConfig`, and a null removes a field. The run's options override `model_parameters`.
    """
    writer = _HistoryWriter(model_id, profile, request.messages)
    contents = writer.contents()
    body: JsonObject = {"contents": cast(JsonValue, contents)}
    system: list[JsonValue] = [{"text": text} for text in (request.system, *writer.system) if text.strip()]
    if system:
        body["systemInstruction"] = {"parts": system}
    if request.tools:
        body["tools"] = [{"functionDeclarations": [_declared(spec) for spec in request.tools]}]
    _place_parameters(body, request, profile)
    if request.tools and request.tool_choice != "auto":  # no parameter may override the choice of the loop
        body["toolConfig"] = {"functionCallingConfig": _calling(request.tool_choice)}
    if not body.get("tools"):
        body.pop("toolConfig", None)  # refused in a request without tools, such as one for a summary
    tell_conversion(PROVIDER_NAME, model_id, request, body, contents)
    return {name: value for name, value in body.items() if value is not None}


def _place_parameters(body: JsonObject, request: ModelRequest, profile: Profile) -> None:
    config: JsonObject = {}
    for name, value in request.parameters.items():
        if name == "generationConfig" and isinstance(value, dict):
            config |= value
        elif name == "tools" and isinstance(value, list):
            declared = body.get("tools")
            body["tools"] = [*(declared if isinstance(declared, list) else []), *value]  # google_search, url_context
        elif name in TOP_LEVEL:
            body[name] = value
        else:
            config[name] = value
    if request.options is not NO_OPTIONS:
        config = with_options(config, request.options, gemini_options(profile))
    if config:
        body["generationConfig"] = {name: value for name, value in config.items() if value is not None}


def _calling(choice: ToolChoice) -> JsonObject:
    if type(choice) is OneTool:
        return {"mode": "ANY", "allowedFunctionNames": [function_name(choice.name)]}
    return {"mode": "ANY" if choice == "required" else "NONE"}


def _declared(spec: ToolSpec) -> JsonObject:
    declared: JsonObject = {"name": function_name(spec.name), "description": spec.description}
    parameters = schema_subset({**spec.input_schema, "type": "object"})
    if parameters["properties"]:
        declared["parameters"] = cast(JsonObject, parameters)
    return declared


class _HistoryWriter:
    """Writes messages as contents. `system` collects the instructions among them."""

    def __init__(self, model_id: str, profile: Profile, messages: Sequence[Message]) -> None:
        self._model_id = model_id
        self._profile = profile
        self._messages = messages
        self._names = {call.call_id: call.name for message in messages for call in message.tool_calls}
        last_user = [place for place, message in enumerate(messages) if message.role == "user"]
        self._turn_begins = last_user[-1] if last_user else 0
        self.system: list[str] = []
        self._left_out = LeftOutMedia()

    def contents(self) -> list[JsonObject]:
        """The contents: messages of one role are joined, the first and the last are a user's, and none is empty."""
        arranged: list[tuple[str, list[_Part]]] = []
        media: list[_Part] = []  # of results: they follow all results of their turn
        for place, message in enumerate(self._messages):
            if message.role in ("system", "developer"):
                self.system.append(message.text)
                continue
            role, parts = self._content(message, place, media)
            if message.role != "tool" and media:
                arranged[-1][1].extend(media)
                media = []
            if arranged and arranged[-1][0] == role:
                arranged[-1][1].extend(parts)
            elif parts or role == "user":
                arranged.append((role, parts))
        if media:
            arranged[-1][1].extend(media)
        self._left_out.tell()
        return [{"role": role, "parts": cast(JsonValue, parts)} for role, parts in _framed(arranged)]

    def _content(self, message: Message, place: int, media: list[_Part]) -> tuple[str, list[_Part]]:
        if message.role in ("assistant", "reasoning"):
            return "model", self._answer(message, self._profile.signed_calls and place > self._turn_begins)
        if (result := message.tool_result) is not None:
            return "user", [self._response(result, media)]
        return "user", [part for block in message.content for part in self._asked(block)]

    def _asked(self, block: ContentBlock) -> Iterator[_Part]:
        match block:
            case TextBlock(text):
                if text.strip():
                    yield {"text": text}
            case ImageBlock() | AudioBlock() | VideoBlock() | DocumentBlock():
                yield self._medium(block)
            case ReasoningBlock() | ToolCall() | ToolResult():
                return

    def _medium(self, block: MediaBlock) -> _Part:
        try:
            return _sent(block.source)
        except UnsendableError as error:
            return {"text": self._left_out.stand_in(block, error)}

    def _answer(self, message: Message, must_sign: bool) -> list[_Part]:
        parts: list[_Part] = []
        signed = False
        for block in message.content:
            part = self._answered(block)
            if part is None:
                continue
            if "functionCall" in part:
                # The first call of a step has the signature, the others have none.
                if must_sign and not signed and "thoughtSignature" not in part:
                    part["thoughtSignature"] = FOREIGN_SIGNATURE
                signed = True
            parts.append(part)
        return parts

    def _answered(self, block: ContentBlock) -> _Part | None:
        """A block of the model's own answer as it is sent back; None if it must not be."""
        match block:
            case TextBlock(text, _, opaque):
                signature = self._own(opaque, SIGNATURE)
                return _signed({"text": text}, signature) if text.strip() or signature else None
            case ReasoningBlock():
                return self._reasoning(block)
            case ToolCall():
                call: JsonObject = {
                    "id": block.call_id,
                    "name": function_name(block.name),
                    "args": strict_json.object_in(block.arguments),
                }
                return _signed({"functionCall": call}, self._own(block.opaque, SIGNATURE))
            case ImageBlock() | AudioBlock() | VideoBlock() | DocumentBlock():
                return _signed(self._medium(block), self._own(block.opaque, SIGNATURE))
            case ToolResult():
                return None

    def _reasoning(self, block: ReasoningBlock) -> _Part | None:
        """A thought that this model signed. Thoughts of other models are not sent."""
        if signature := self._own(block.opaque, SIGNATURE):
            return {"text": block.text, "thought": True, "thoughtSignature": signature}
        if signature := self._own(block.opaque, TEXT_SIGNATURE):
            return {"text": "", "thoughtSignature": signature}
        if item := self._own(block.opaque, ITEM):
            return _item(item)
        return None

    def _own(self, opaque: Opaque | None, kind: str) -> str | None:
        if opaque is None or (opaque.provider, opaque.model, opaque.kind) != (PROVIDER_NAME, self._model_id, kind):
            return None
        return opaque.value

    def _response(self, result: ToolResult, media: list[_Part]) -> _Part:
        texts: list[str] = []
        for block in result.content:
            for part in self._asked(block):
                if isinstance(text := part.get("text"), str):
                    texts.append(text)
                elif isinstance(block, MediaBlock):
                    texts.append(stand_ins.attached_below(MEDIA_KINDS[type(block)]))
                    media.append(part)
        name = function_name(self._names.get(result.call_id, "") or "unknown")
        response: JsonObject = {"error" if result.is_error else "output": "\n".join(texts)}
        return {"functionResponse": {"id": result.call_id, "name": name, "response": response}}


def _framed(arranged: list[tuple[str, list[_Part]]]) -> list[tuple[str, list[_Part]]]:
    if not arranged or arranged[0][0] != "user":
        arranged.insert(0, ("user", [{"text": OPENING}]))
    if arranged[-1][0] == "model":
        arranged.append(("user", [{"text": GO_ON}]))
    return [(role, parts or [{"text": NO_CONTENT}]) for role, parts in arranged]


# --- parts -----------------------------------------------------------------------------------------------------------


media_refusal = refusal_by(
    lambda block: _sent(block.source),
    "Gemini takes media in base64, behind https URLs, as gs:// URIs and as files that it keeps (files/...)",
    fetches=True,
)
"""Why Gemini does not take a user's medium, see ModelCapabilities."""


def _sent(source: MediaSource) -> _Part:
    if isinstance(source, Base64Source):
        if not (kind := bare_type(source.media_type)):
            raise UnsendableError(stand_ins.NO_SUCH_FORMAT)
        if is_written(kind) and not kind.startswith("text/"):
            kind = "text/plain"
        return {"inlineData": {"mimeType": kind, "data": whole(source.data)}}
    address = source.url if isinstance(source, UrlSource) else source.file_id
    if not isinstance(source, UrlSource) and source.provider not in _OWN_FILES:
        raise UnsendableError(stand_ins.KEPT_ELSEWHERE)
    if not address.startswith(_REACHABLE):
        raise UnsendableError(stand_ins.OUT_OF_REACH)
    data: JsonObject = {"fileUri": address}
    if source.media_type:
        data["mimeType"] = source.media_type.lower()
    return {"fileData": data}


def _signed(part: _Part, signature: str | None) -> _Part:
    return {**part, "thoughtSignature": signature} if signature else part


def _item(value: str) -> _Part | None:
    try:
        item: JsonValue = orjson.loads(value)
    except ValueError:
        return None
    return item if isinstance(item, dict) and any(name in item for name in ITEM_PARTS) else None
