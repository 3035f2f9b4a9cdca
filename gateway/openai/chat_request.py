"""Writes a model request for chat completions. Pure.

Above: the chat completions model. Below: model (the request), messages; the wire's facts are in `chat_completions`.
Source: https://platform.openai.com/docs/api-reference/chat/create (API version 1).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import orjson

from gateway.messages import (
    INSTRUCTION_ROLES,
    MEDIA_KINDS,
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
from gateway.openai.chat_completions import (
    DETAILS,
    EXTRA_CONTENT,
    PROVIDER_NAME,
    Dialect,
    safe_call_id,
    safe_participant,
    safe_tool_name,
)
from gateway.openai.chat_options import chat_options
from gateway.options.generation import NO_OPTIONS, OneTool, ToolChoice
from gateway.providers.conversions import tell_conversion
from gateway.providers.media import LeftOutMedia, UnsendableError, quoted, reachable, refusal_by, whole
from gateway.providers.option_table import with_options
from gateway.wire import stand_ins, strict_json
from gateway.wire.media_bytes import bare_type, is_written
from gateway.wire.stand_ins import NO_CONTENT, NO_OUTPUT, OPENING
from gateway.wire.tool_schema import object_schema

_ABOUT_TOOLS = ("tool_choice", "parallel_tool_calls")  # refused in a request without tools, such as one for a summary
_AUDIO_FORMATS = {"mpeg": "mp3", "mp3": "mp3", "wav": "wav", "wave": "wav", "x-wav": "wav", "vnd.wave": "wav"}


def chat_request(request: ModelRequest, model_id: str, dialect: Dialect) -> JsonObject:
    """The body of the request. `model_parameters` win over the gateway's own fields; a null removes a field.

    The run's options win over `model_parameters`.
    """
    messages: list[JsonValue] = [*_messages(request, model_id, dialect)]
    body: JsonObject = {"model": model_id, "messages": messages, "stream": True}
    if dialect.stream_usage:
        body["stream_options"] = {"include_usage": True}
    if request.tools:
        body["tools"] = [_tool(spec) for spec in request.tools]
    if request.options is NO_OPTIONS:
        body |= request.parameters
    else:
        body |= with_options(request.parameters, request.options, chat_options(dialect, model_id))
    if request.tools and request.tool_choice != "auto":  # no parameter may override the choice of the loop
        body["tool_choice"] = _tool_choice(request.tool_choice)
    if not body.get("tools"):
        for name in _ABOUT_TOOLS:
            body.pop(name, None)
    tell_conversion(PROVIDER_NAME, model_id, request, body, messages)
    return {name: value for name, value in body.items() if value is not None}


def _tool_choice(choice: ToolChoice) -> JsonValue:
    if isinstance(choice, OneTool):
        return {"type": "function", "function": {"name": safe_tool_name(choice.name)}}
    return choice


def _tool(spec: ToolSpec) -> JsonObject:
    function: JsonObject = {"name": safe_tool_name(spec.name)}
    if spec.description:
        function["description"] = spec.description
    # an object schema without properties is refused by OpenAI
    function["parameters"] = {"type": "object", "properties": {}, **object_schema(spec.input_schema)}
    return {"type": "function", "function": function}


def _messages(request: ModelRequest, model_id: str, dialect: Dialect) -> list[JsonObject]:
    messages: list[JsonObject] = []
    _append_instruction(messages, "system", request.system)
    view, settled = request.messages, request.settled
    if settled is not None and settled.messages and view[: len(settled.messages)] == settled.messages:
        # What precedes the first message that is no instruction goes together with the request's own instructions.
        head = next((place for place, message in enumerate(view) if message.role not in INSTRUCTION_ROLES), len(view))
        messages = _written(messages, view[:head], model_id, dialect)
        known = settled.forms.setdefault((PROVIDER_NAME, model_id, dialect), _Settled(head))
        known.extend(settled.messages, model_id, dialect)
        messages += known.written
        view = view[max(head, len(settled.messages)) :]
    messages = _written(messages, view, model_id, dialect)
    if all(message["role"] in ("system", "developer") for message in messages):
        # OpenAI refuses an empty list, and many chat templates one without a user's message.
        messages.append({"role": "user", "content": OPENING})
    return messages


class _Settled:
    """The form of the settled messages from `start` on: those before it are instructions."""

    def __init__(self, start: int) -> None:
        self.written: list[JsonObject] = []
        self._count = start

    def extend(self, settled: tuple[Message, ...], model_id: str, dialect: Dialect) -> None:
        new = settled[self._count :]
        self._count = max(self._count, len(settled))
        # A user message follows: nobody is in the middle of a tool loop any more.
        self.written += _written([], new, model_id, dialect, last_user=len(new))


def _written(
    messages: list[JsonObject], view: Sequence[Message], model_id: str, dialect: Dialect, last_user: int | None = None
) -> list[JsonObject]:
    """`messages` with the written form of `view` appended. The list is changed in place, so nobody else may hold it."""
    names = {call.call_id: call.name for message in view for call in message.tool_calls}
    if last_user is None:
        last_user = next((place for place in reversed(range(len(view))) if view[place].role == "user"), -1)
    shown: list[JsonValue] = []  # media of tool results, for the user message that follows the last of them
    left_out = LeftOutMedia()
    for place, message in enumerate(view):
        if shown and message.role != "tool":
            messages.append({"role": "user", "content": shown})
            shown = []
        match message.role:
            case "system":
                _append_instruction(messages, "system", message.text)
            case "developer":
                _append_instruction(messages, dialect.developer_role, message.text)
            case "user":
                messages.append(_user(message, dialect, left_out))
            case "assistant" | "reasoning":
                if answer := _assistant(message, model_id, dialect, left_out, thoughts=place > last_user):
                    messages.append(answer)
            case "tool":
                if (result := message.tool_result) is not None:
                    name = names.get(result.call_id, "")
                    messages.append(_tool_result(result, name, dialect, shown, left_out))
    if shown:
        messages.append({"role": "user", "content": shown})
    left_out.tell()
    return messages


def _append_instruction(messages: list[JsonObject], role: str, text: str) -> None:
    """Join instructions that follow one another: many chat templates accept only one, and only at the beginning."""
    if not text.strip():
        return
    last = messages[-1] if messages else None
    if last is not None and last["role"] == role:
        last["content"] = f"{last['content']}\n\n{text}"
    else:
        messages.append({"role": role, "content": text})


def _user(message: Message, dialect: Dialect, left_out: LeftOutMedia) -> JsonObject:
    written: JsonObject = {"role": "user", "content": _content(message.content, dialect, left_out)}
    if dialect.participant_names and (name := safe_participant(message.name)):
        written["name"] = name
    return written


def _assistant(
    message: Message, model_id: str, dialect: Dialect, left_out: LeftOutMedia, *, thoughts: bool
) -> JsonObject | None:
    """The answer as it is sent back to the server; None if none of it is.

    `thoughts`: the answer belongs to the current tool loop. Servers that want reasoning back want it only there.
    """
    texts = [text for block in message.content if (text := _answered(block, left_out)).strip()]
    calls = message.tool_calls
    if not texts and not calls:
        return None
    written: JsonObject = {"role": "assistant", "content": "\n\n".join(texts) or None}
    written |= _reasoning(message, model_id, dialect, thoughts)
    if calls:
        written["tool_calls"] = [_call(call, model_id, dialect) for call in calls]
    return written


def _answered(block: ContentBlock, left_out: LeftOutMedia) -> str:
    if isinstance(block, MediaBlock):
        return left_out.stand_in(block, stand_ins.ONLY_USERS)
    return block.text if isinstance(block, TextBlock) else ""


def _reasoning(message: Message, model_id: str, dialect: Dialect, thoughts: bool) -> JsonObject:
    blocks = [block for block in message.content if isinstance(block, ReasoningBlock)]
    if dialect.reasoning_details:
        details: list[JsonValue] = []
        for block in blocks:
            found = _own(block.opaque, DETAILS, model_id)
            details += found if isinstance(found, list) else []
        if details:
            return {DETAILS: details}
    text = "\n\n".join(block.text for block in blocks if block.text)
    return {dialect.reasoning_field: text} if thoughts and text and dialect.reasoning_field else {}


def _call(call: ToolCall, model_id: str, dialect: Dialect) -> JsonObject:
    function: JsonObject = {"name": safe_tool_name(call.name), "arguments": strict_json.object_text(call.arguments)}
    written: JsonObject = {"id": safe_call_id(call.call_id, dialect), "type": "function", "function": function}
    if extra := _own(call.opaque, EXTRA_CONTENT, model_id):
        written[EXTRA_CONTENT] = extra
    return written


def _own(opaque: Opaque | None, kind: str, model_id: str) -> JsonValue:
    """The JSON value of an opaque part that this provider and model minted, else None."""
    if opaque is None or (opaque.provider, opaque.model, opaque.kind) != (PROVIDER_NAME, model_id, kind):
        return None
    try:
        value: JsonValue = orjson.loads(opaque.value)
    except ValueError:
        return None
    return value


def _tool_result(
    result: ToolResult, name: str, dialect: Dialect, shown: list[JsonValue], left_out: LeftOutMedia
) -> JsonObject:
    """The text of a result. Its media are added to `shown`, since a tool message cannot contain any."""
    texts: list[str] = []
    for block in result.content:
        if isinstance(block, TextBlock):
            texts.append(block.text)
        elif isinstance(block, MediaBlock):
            part = _media_part(block, dialect, left_out)
            if part["type"] == "text":
                texts.append(str(part["text"]))
            else:
                texts.append(stand_ins.attached_below(MEDIA_KINDS[type(block)]))
                shown += [{"type": "text", "text": stand_ins.result_of(name)}, part]
    text = "\n".join(texts)
    text = text if text.strip() else NO_OUTPUT
    return {
        "role": "tool",
        "tool_call_id": safe_call_id(result.call_id, dialect),
        "content": f"Error: {text}" if result.is_error else text,
    }


def _content(blocks: Iterable[ContentBlock], dialect: Dialect, left_out: LeftOutMedia) -> JsonValue:
    """A plain string if everything is text, because every server accepts that; else a list of parts."""
    parts: list[JsonObject] = []
    for block in blocks:
        if isinstance(block, TextBlock):
            if block.text.strip():
                parts.append({"type": "text", "text": block.text})
        elif isinstance(block, MediaBlock):
            parts.append(_media_part(block, dialect, left_out))
    if all(part["type"] == "text" for part in parts):
        return "\n".join(str(part["text"]) for part in parts) or NO_CONTENT
    return list[JsonValue](parts)


# --- media ---------------------------------------------------------------------------------------------------------


def media_refusal(dialect: Dialect) -> MediaRefusal:
    """Why a server does not take a user's medium, see ModelCapabilities."""
    documents = ", ".join(sorted(dialect.documents))
    videos = "and videos" if dialect.videos else "but no videos"
    supported = (
        "OpenAI Chat Completions takes images in base64 and by URL, documents in base64 and as files that it keeps "
        f"(text, {documents}), {videos}"
    )
    return refusal_by(lambda block: _sent(block, dialect), supported)


def _sent(block: MediaBlock, dialect: Dialect) -> JsonObject:
    return _WRITERS[type(block)](block, reachable(block.source, "http://", "https://"), dialect)


def _media_part(block: MediaBlock, dialect: Dialect, left_out: LeftOutMedia) -> JsonObject:
    """The content part of a medium. If the wire has no such part, a text that says what was left out."""
    try:
        return _sent(block, dialect)
    except UnsendableError as error:
        return {"type": "text", "text": left_out.stand_in(block, error)}


def _data_url(source: Base64Source) -> str:
    return f"data:{source.media_type};base64,{whole(source.data)}"


def _image(block: MediaBlock, source: MediaSource, dialect: Dialect) -> JsonObject:
    if isinstance(source, FileSource):
        raise UnsendableError(stand_ins.OUT_OF_REACH)
    url = _data_url(source) if isinstance(source, Base64Source) else source.url
    return {"type": "image_url", "image_url": {"url": url}}


def _audio(block: MediaBlock, source: MediaSource, dialect: Dialect) -> JsonObject:
    if not isinstance(source, Base64Source):
        raise UnsendableError(stand_ins.OUT_OF_REACH)
    subtype = bare_type(source.media_type).removeprefix("audio/")
    return {
        "type": "input_audio",
        "input_audio": {"data": whole(source.data), "format": _AUDIO_FORMATS.get(subtype, subtype.removeprefix("x-"))},
    }


def _video(block: MediaBlock, source: MediaSource, dialect: Dialect) -> JsonObject:
    if not dialect.videos:
        raise UnsendableError(stand_ins.NO_SUCH_MEDIA)
    if isinstance(source, FileSource):
        raise UnsendableError(stand_ins.OUT_OF_REACH)
    url = _data_url(source) if isinstance(source, Base64Source) else source.url
    return {"type": "video_url", "video_url": {"url": url}}


def _document(block: MediaBlock, source: MediaSource, dialect: Dialect) -> JsonObject:
    name = (block.name if isinstance(block, DocumentBlock) else None) or "document"
    match source:
        case FileSource(file_id, provider):
            if provider not in (None, PROVIDER_NAME):
                raise UnsendableError(stand_ins.KEPT_ELSEWHERE)
            return {"type": "file", "file": {"file_id": file_id}}
        case UrlSource(url):
            if not dialect.file_urls:
                raise UnsendableError(stand_ins.OUT_OF_REACH)
            return {"type": "file", "file": {"filename": name, "file_data": url}}
        case Base64Source(data, media_type):
            kind = bare_type(media_type)
            if is_written(kind) and isinstance(block, DocumentBlock):
                return {"type": "text", "text": quoted(block, data)}
            if kind not in dialect.documents:
                raise UnsendableError(stand_ins.NO_SUCH_FORMAT)
            return {"type": "file", "file": {"filename": name, "file_data": _data_url(source)}}


_WRITERS = {ImageBlock: _image, AudioBlock: _audio, VideoBlock: _video, DocumentBlock: _document}
