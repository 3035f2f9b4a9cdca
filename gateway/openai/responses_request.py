"""A model request in the words of the Responses API. Pure.

Above: the Responses models. Below: model (the request), messages; the wire's facts are in `responses`.
Source: https://platform.openai.com/docs/api-reference/responses/create (API version 1).

An answer is sent back as the items that it came as, in their order: texts, calls, and the reasoning and server-side
items of this provider and model. Ids of items are left out wherever the API allows that: the API looks an id up among
stored responses, and here none are stored.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field

import orjson

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
from gateway.openai.chat_completions import safe_tool_name
from gateway.openai.responses import (
    MESSAGE_ITEM,
    OUTPUT_ITEM,
    REASONING_ITEM,
    REPLAYED_ITEMS,
    SEALED_REASONING,
    Profile,
    replayed_item,
    replayed_reasoning,
)
from gateway.openai.responses_options import responses_options
from gateway.options.generation import NO_OPTIONS, OneTool, ToolChoice
from gateway.providers.conversions import tell_conversion
from gateway.providers.media import LeftOutMedia, UnsendableError, picture, quoted, reachable, refusal_by, whole
from gateway.providers.option_table import with_options
from gateway.wire import stand_ins, strict_json
from gateway.wire.media_bytes import bare_type, is_written
from gateway.wire.stand_ins import NO_CONTENT, NO_OUTPUT, OPENING
from gateway.wire.tool_schema import object_schema

_EXTENSIONS = {"application/pdf": "pdf", "application/msword": "doc", "application/vnd.ms-excel": "xls"}
_CALL_ID = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")
_LISTS = ("tools", "include")


@dataclass(frozen=True, slots=True)
class ResponsesTarget:
    """The server and model of a request.

    `wire_model_id`: the model's name in the request. `sealed`: ask for reasoning in sealed form. `forgotten`: ids of
    reasoning items that do not go back. `params` go out last, exactly as they are. `stored`: the provider keeps the
    response, so that a request may continue it; `background`: it works on it when nobody listens.
    """

    provider: str
    model_id: str
    profile: Profile
    wire_model_id: str
    sealed: bool = True
    forgotten: Container[str] = frozenset()
    params: JsonObject = field(default_factory=dict)
    stored: bool = False
    background: bool = False


def responses_request(request: ModelRequest, target: ResponsesTarget) -> JsonObject:
    """The body of the request: the whole conversation, or only what follows the response that it continues.

    `model_parameters` win over the gateway's own fields, and the run's options over these; a null removes a field. The
    `tools` (a web search at the provider, ...) and `include` of `model_parameters` are joined with the gateway's.
    """
    body: JsonObject = {"model": target.wire_model_id, "stream": True, "store": target.stored}
    if target.background:
        body["background"] = True
    if request.system.strip():
        body["instructions"] = request.system  # of this response alone: a chain does not hand them on
    if (continuation := request.continuation) is None:
        items: list[JsonValue] = [*input_items(request.messages, target)] or [_message("user", OPENING)]
    else:
        body["previous_response_id"] = continuation.response_id
        items = [*input_items(continuation.messages, target, continuation.answer)]
    body["input"] = items
    if request.tools:
        body["tools"] = [_tool(spec) for spec in request.tools]
    if target.sealed:
        body["include"] = [SEALED_REASONING]
    ours = {name: listed for name in _LISTS if isinstance(listed := body.get(name), list)}
    parameters = request.parameters
    if request.options is not NO_OPTIONS:
        parameters = with_options(parameters, request.options, responses_options(target.profile))
    body |= parameters
    for name, listed in ours.items():
        if isinstance(theirs := parameters.get(name), list):
            body[name] = [*listed, *(entry for entry in theirs if entry not in listed)]
    if request.tools and request.tool_choice != "auto":  # no parameter may override the choice of the loop
        body["tool_choice"] = _tool_choice(request.tool_choice)
    if not body.get("tools"):
        body.pop("tool_choice", None)  # refused in a request without tools, such as one for a summary
    tell_conversion(target.provider, target.model_id, request, body, items)
    return {name: value for name, value in body.items() if value is not None} | target.params


def input_items(
    messages: Sequence[Message], target: ResponsesTarget, stored: Message | None = None
) -> list[JsonObject]:
    """The messages as input items.

    `stored`: the provider keeps the answer before these messages. Outputs for its calls must use the provider's call
    ids, which may differ from ours.
    """
    writer = _Writer(target, () if stored is None else stored.tool_calls)
    for message in messages:
        writer.add(message)
    writer.flush_shown()
    writer.left_out.tell()
    items = writer.items
    if stored is None and items and all(item.get("role") in ("system", "developer") for item in items):
        items.append(_message("user", OPENING))
    return items


def _message(role: str, content: JsonValue) -> JsonObject:
    return {"role": role, "content": content}


def _tool_choice(choice: ToolChoice) -> JsonValue:
    return {"type": "function", "name": safe_tool_name(choice.name)} if isinstance(choice, OneTool) else choice


def _tool(spec: ToolSpec) -> JsonObject:
    tool: JsonObject = {"type": "function", "name": safe_tool_name(spec.name)}
    if spec.description:
        tool["description"] = spec.description
    tool["parameters"] = {"type": "object", "properties": {}, **object_schema(spec.input_schema)}
    tool["strict"] = False  # the default is true, which most schemas do not fit
    return tool


def safe_call_id(call_id: str) -> str:
    """`call_id` if the wire accepts it, else a replacement, which is always the same for the same id."""
    if _CALL_ID.fullmatch(call_id):
        return call_id
    return f"call_{hashlib.sha256(call_id.encode('utf-8', 'surrogatepass')).hexdigest()[:40]}"


class _Writer:
    """Writes messages as items, in order. Media that a call's output cannot hold wait in `_shown` until the outputs
    end.
    """

    def __init__(self, target: ResponsesTarget, stored_calls: Sequence[ToolCall]) -> None:
        self.items: list[JsonObject] = []
        self.left_out = LeftOutMedia()
        self._target = target
        self._profile = target.profile
        self._stored_ids = {call.call_id: call.provider_call_id or call.call_id for call in stored_calls}
        self._names = {call.call_id: call.name for call in stored_calls}
        self._shown: list[JsonValue] = []
        self._loop_begins = 0  # how many items stand before the last user message

    def add(self, message: Message) -> None:
        if message.role != "tool":
            self.flush_shown()
        match message.role:
            case "system":
                self._instruct("system", message.text)
            case "developer":
                self._instruct(self._profile.developer_role, message.text)
            case "user":
                self._forget_thoughts()
                self.items.append(_message("user", self._content(message.content)))
            case "assistant" | "reasoning":
                self._answer(message)
            case "tool":
                if (result := message.tool_result) is not None:
                    self.items.append(self._result(result))

    def flush_shown(self) -> None:
        if self._shown:
            self.items.append(_message("user", self._shown))
            self._shown = []

    def _instruct(self, role: str, text: str) -> None:
        if text.strip():
            self.items.append(_message(role, text))

    def _forget_thoughts(self) -> None:
        """A new question begins. Plain reasoning is wanted back only within one tool loop; later it is only a cost."""
        kept = [item for item in self.items[self._loop_begins :] if not _in_plain_words(item)]
        self.items[self._loop_begins :] = kept
        self._loop_begins = len(self.items)

    # --- answers ----------------------------------------------------------------------------------------------------

    def _answer(self, message: Message) -> None:
        items = [item for block in message.content if (item := self._answered(block)) is not None]
        while items and items[-1].get("type") == "reasoning":
            items.pop()  # refused: "reasoning was provided without its required following item"
        self.items += items

    def _answered(self, block: ContentBlock) -> JsonObject | None:
        match block:
            case TextBlock(text, _, opaque):
                if not text.strip():
                    return None
                written = _message("assistant", text)
                own = self._own(opaque, MESSAGE_ITEM)
                if own is not None and own.get("phase"):
                    written["phase"] = own["phase"]
                return written
            case ReasoningBlock(_, _, opaque):
                if (item := self._own(opaque, REASONING_ITEM)) is not None:
                    return None if item.get("id") in self._target.forgotten else replayed_reasoning(item)
                if (item := self._own(opaque, OUTPUT_ITEM)) is not None and item.get("type") in REPLAYED_ITEMS:
                    return replayed_item(item)
                return None
            case ToolCall():
                self._names[block.call_id] = block.name
                return {
                    "type": "function_call",
                    "call_id": self._call_id(block.call_id),
                    "name": safe_tool_name(block.name),
                    "arguments": strict_json.object_text(block.arguments),
                }
            case ImageBlock() | AudioBlock() | VideoBlock() | DocumentBlock():
                return self._given(block)
            case ToolResult():
                return None

    def _given(self, block: MediaBlock) -> JsonObject:
        """A medium that a model made: as the item that this provider gave, else as words in its place."""
        item = self._own(block.opaque, OUTPUT_ITEM)
        if item is not None and item.get("type") in REPLAYED_ITEMS and isinstance(block.source, Base64Source):
            return {**replayed_item(item), "result": block.source.data}
        return _message("assistant", self.left_out.stand_in(block, stand_ins.ONLY_USERS))

    def _own(self, opaque: Opaque | None, kind: str) -> JsonObject | None:
        """The item in an opaque part that this provider and model minted, else None."""
        target = self._target
        if opaque is None or (opaque.provider, opaque.model, opaque.kind) != (target.provider, target.model_id, kind):
            return None
        try:
            item = orjson.loads(opaque.value)
        except ValueError:
            return None
        return item if isinstance(item, dict) else None

    def _call_id(self, call_id: str) -> str:
        return self._stored_ids.get(call_id) or safe_call_id(call_id)

    # --- results ----------------------------------------------------------------------------------------------------

    def _result(self, result: ToolResult) -> JsonObject:
        parts = [part for block in result.content if (part := self._part(block)) is not None]
        output: JsonValue
        if any(part["type"] != "input_text" for part in parts) and self._profile.multimodal_outputs:
            failed = [_text_part("Error:")] if result.is_error else []
            output = list[JsonValue]([*failed, *parts])
        else:
            texts = [self._text_or_shown(part, self._names.get(result.call_id, "call")) for part in parts]
            text = "\n".join(texts)
            text = text if text.strip() else NO_OUTPUT
            output = f"Error: {text}" if result.is_error else text
        return {"type": "function_call_output", "call_id": self._call_id(result.call_id), "output": output}

    def _text_or_shown(self, part: JsonObject, tool: str) -> str:
        if part["type"] == "input_text":
            return str(part["text"])
        self._shown += [_text_part(stand_ins.result_of(tool)), part]
        return stand_ins.attached_below("image" if part["type"] == "input_image" else "document")

    # --- content ----------------------------------------------------------------------------------------------------

    def _content(self, blocks: Iterable[ContentBlock]) -> JsonValue:
        """A plain string where everything is text, because every server accepts that; else a list of parts."""
        parts = [part for block in blocks if (part := self._part(block)) is not None]
        if all(part["type"] == "input_text" for part in parts):
            return "\n".join(str(part["text"]) for part in parts) or NO_CONTENT
        return list[JsonValue](parts)

    def _part(self, block: ContentBlock) -> JsonObject | None:
        if isinstance(block, TextBlock):
            return _text_part(block.text) if block.text.strip() else None
        return self._medium(block) if isinstance(block, MediaBlock) else None

    def _medium(self, block: MediaBlock) -> JsonObject:
        """The content part of a medium. Where the wire has no such part, a text that says what was left out."""
        try:
            return _sent(block, self._target.provider, self._profile)
        except UnsendableError as error:
            return _text_part(self.left_out.stand_in(block, error))


def _in_plain_words(item: JsonObject) -> bool:
    return item.get("type") == "reasoning" and "encrypted_content" not in item


# --- media ---------------------------------------------------------------------------------------------------------


def media_refusal(provider: str, profile: Profile) -> MediaRefusal:
    """Why the server does not take a user's medium, see ModelCapabilities."""
    images = "images and " if profile.images else ""
    documents = ", ".join(["text", *sorted(profile.documents)])
    supported = f"it takes {images}documents ({documents}), in base64, behind http URLs and as files that it keeps"
    return refusal_by(lambda block: _sent(block, provider, profile), supported)


def _sent(block: MediaBlock, provider: str, profile: Profile) -> JsonObject:
    source = reachable(block.source, "http://", "https://")
    if isinstance(source, FileSource) and source.provider not in (None, provider):
        raise UnsendableError(stand_ins.KEPT_ELSEWHERE)
    match block:
        case ImageBlock():
            return _image(source, profile)
        case DocumentBlock():
            return _document(block, source, profile)
        case AudioBlock() | VideoBlock():
            raise UnsendableError(stand_ins.NO_SUCH_MEDIA)


def _text_part(text: str) -> JsonObject:
    return {"type": "input_text", "text": text}


def _image(source: MediaSource, profile: Profile) -> JsonObject:
    if not profile.images:
        raise UnsendableError(stand_ins.NO_SUCH_MEDIA)
    part: JsonObject = {"type": "input_image", "detail": "auto"}
    match source:
        case FileSource(file_id):
            part["file_id"] = file_id
        case UrlSource(url):
            part["image_url"] = url
        case Base64Source():
            shown = picture(source)
            part["image_url"] = f"data:{shown.media_type};base64,{shown.data}"
    return part


def _document(block: DocumentBlock, source: MediaSource, profile: Profile) -> JsonObject:
    match source:
        case FileSource(file_id):
            return {"type": "input_file", "file_id": file_id}
        case UrlSource(url):
            if not profile.documents:
                raise UnsendableError(stand_ins.NO_SUCH_MEDIA)
            return {"type": "input_file", "file_url": url}  # a name beside it is refused
        case Base64Source(data, media_type):
            kind = bare_type(media_type)
            if is_written(kind):
                return _text_part(quoted(block, data))
            if kind not in profile.documents:
                raise UnsendableError(stand_ins.NO_SUCH_FORMAT)
            name = block.name or "document"
            if "." not in name and kind in _EXTENSIONS:
                name += f".{_EXTENSIONS[kind]}"  # the type is told by the name
            return {"type": "input_file", "filename": name, "file_data": f"data:{kind};base64,{whole(data)}"}
