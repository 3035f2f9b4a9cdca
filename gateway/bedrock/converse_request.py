"""The body of a ConverseStream request, written from a `ModelRequest`.

Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html. Pure. The rules for
turns, families, media and parameters are in the folder's other files.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import orjson

from gateway.bedrock import converse
from gateway.bedrock.converse import NO_TOOL, PROVIDER_NAME
from gateway.bedrock.families import Family, bare_model_id
from gateway.bedrock.guardrails import (
    BLOCKED_INPUT,
    GUARD_CONTENT,
    WITHHELD,
    GuardrailMode,
    guard_places,
    guarded_system,
    guarded_turns,
)
from gateway.bedrock.media import FORMATS, MAX_BYTES, media_format
from gateway.bedrock.options import converse_options, fit_beside_thinking
from gateway.bedrock.parameters import PROMPT_CACHING, request_fields
from gateway.messages import (
    MEDIA_KINDS,
    AudioBlock,
    Base64Source,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    JsonObject,
    MediaBlock,
    MediaKind,
    Message,
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
from gateway.wire.media_bytes import head_of
from gateway.wire.tool_schema import object_schema

logger = logging.getLogger(__name__)

_NO_TOOL_SPEC = ToolSpec(NO_TOOL, "There is no tool to call now. Answer in words; never call this.", {})


@dataclass(frozen=True, slots=True)
class ConverseRequest:
    """`body`: the request's JSON. `names`: the tools' own names by their names on the wire, where these differ.

    `guardrail`: how a guardrail checks the answer.
    """

    body: Mapping[str, object]
    names: Mapping[str, str]
    guardrail: GuardrailMode = "none"


def converse_request(request: ModelRequest, model_id: str, family: Family) -> ConverseRequest:
    """The request. `MediaFetcher` must have made media behind URLs inline before.

    Raises:
        ValueError: a parameter that the service can never accept.
    """
    turns, instructions = _turns(request, model_id, family)
    system = [text for text in (request.system, *instructions) if text.strip()]
    if system and not family.system_prompt:
        turns[0]["content"][:0] = [{"text": text} for text in system]
        system = []
    tools = _offered(request, turns)
    body = _fields(request, family)
    body["messages"] = turns
    if system:
        body["system"] = [{"text": text} for text in system]
    if tools:
        body["toolConfig"] = {"tools": [_tool(spec) for spec in tools], **_tool_choice(request.tool_choice, family)}
    if request.parameters.get(PROMPT_CACHING):
        converse.place_cache_points(body, turns, family, request.parameters[PROMPT_CACHING])
    if family.signed_reasoning:
        forced = type(request.tool_choice) is OneTool or request.tool_choice == "required"
        converse.drop_impossible_thinking(body, turns, forced=forced)
    names = {converse.tool_name(spec.name): spec.name for spec in tools}
    guardrail = _guard(body, turns, request.parameters.get(GUARD_CONTENT))
    tell_conversion(PROVIDER_NAME, model_id, request, body, turns)
    return ConverseRequest(body, {wire: name for wire, name in names.items() if wire != name}, guardrail)


def _fields(request: ModelRequest, family: Family) -> dict[str, object]:
    """The fields of the agent's parameters and the run's options."""
    if request.options is NO_OPTIONS:
        return request_fields(request.parameters, one_sampler=family.one_sampler)
    parameters = with_options(request.parameters, request.options, converse_options(family))
    fields = request_fields(parameters, one_sampler=family.one_sampler)
    fit_beside_thinking(fields, request.options)
    return fields


def _guard(body: dict[str, object], turns: Sequence[converse.Turn], guard_content: object) -> GuardrailMode:
    """Mark the parts of the request for a guardrail, if there is one. Gives how it checks the answer."""
    config = body.get("guardrailConfig")
    if not isinstance(config, Mapping):
        return "none"
    # Only its trace distinguishes blocked from masked, and the model's words from the guardrail's.
    body["guardrailConfig"] = {"trace": "enabled", **config}
    if places := guard_places(guard_content):
        body["messages"] = guarded_turns(turns, places)
        if isinstance(system := body.get("system"), list):
            body["system"] = guarded_system(system, places)
    return "async" if config.get("streamProcessingMode") == "async" else "sync"


def _turns(request: ModelRequest, model_id: str, family: Family) -> tuple[list[converse.Turn], list[str]]:
    """The conversation arranged by the turn rules, and the instructions that were in it."""
    messages, settled = request.messages, request.settled
    if settled is not None and family.system_prompt and messages[: len(settled.messages)] == settled.messages:
        known = settled.forms.setdefault((PROVIDER_NAME, model_id, family), _Settled())
        if known.extend(settled.messages, model_id, family):
            new, instructions = _written(messages[len(settled.messages) :], model_id, family)
            if known.may_be_followed_by(new):
                arranged = converse.arrange(new, family, set(known.names), begins=False)
                return known.turns + arranged, known.instructions + instructions
    turns, instructions = _written(messages, model_id, family)
    return converse.arrange(turns, family), instructions


class _Settled:
    """The written form of the settled messages, as far as they can be arranged in parts. It is never changed."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self.turns: list[converse.Turn] = []
        self.instructions: list[str] = []
        self.names: set[str] = set()
        self._call_ids: set[str] = set()
        self._count = 0

    def extend(self, settled: Sequence[Message], model_id: str, family: Family) -> bool:
        """Continue to the end of `settled`. False: nothing is settled."""
        if self._count < len(settled):
            new, instructions = _written(settled[self._count :], model_id, family)
            if self._count and not self.may_be_followed_by(new):
                self._forget()
                new, instructions = _written(settled, model_id, family)
            self.turns += converse.arrange(new, family, self.names, begins=not self._count, ends=False)
            self.instructions += instructions
            self._call_ids |= converse.call_ids(new)
            self._count = len(settled)
        return bool(self._count)

    def may_be_followed_by(self, turns: Sequence[converse.Turn]) -> bool:
        return (
            bool(turns)
            and converse.may_part(self.turns, turns[0])
            and self._call_ids.isdisjoint(converse.call_ids(turns))
        )


def _written(messages: Sequence[Message], model_id: str, family: Family) -> tuple[list[converse.Turn], list[str]]:
    """The messages as turns, before the turn rules are applied, and the instructions among them."""
    writer = _HistoryWriter(model_id, family)
    turns: list[converse.Turn] = []
    for message in messages:
        if message.role == "assistant" and any(map(_tells_of_blocked_input, message.content)):
            _withhold_question(turns)
        if (turn := writer.turn(message)) is not None:
            turns.append(turn)
    writer.left_out.tell()
    return turns, writer.system


def _tells_of_blocked_input(block: ContentBlock) -> bool:
    if type(block) is not TextBlock or block.opaque is None:
        return False
    return block.opaque.provider == PROVIDER_NAME and block.opaque.kind == BLOCKED_INPUT


def _withhold_question(turns: list[converse.Turn]) -> None:
    """Remove the user's last question. A guardrail would block it, and with it the answer, in every later request."""
    for number in range(len(turns) - 1, -1, -1):
        turn = turns[number]
        if turn["role"] != "user" or any("toolResult" in block for block in turn["content"]):
            return
        turns[number] = {"role": "user", "content": [{"text": WITHHELD}]}


class _HistoryWriter:
    """Writes messages as Converse's, one by one, before the turn rules. `system` collects their instructions."""

    def __init__(self, model_id: str, family: Family) -> None:
        self._model_id = bare_model_id(model_id)
        self._family = family
        self.system: list[str] = []
        self.left_out = LeftOutMedia()

    def turn(self, message: Message) -> converse.Turn | None:
        if message.role in ("system", "developer"):
            self.system.append(message.text)
            return None
        if message.role in ("assistant", "reasoning"):
            return {"role": "assistant", "content": [made for b in message.content if (made := self._answered(b))]}
        return {"role": "user", "content": [made for block in message.content for made in self._asked(block)]}

    def _answered(self, block: ContentBlock) -> converse.Block | None:
        """A block of the model's own answer as it is sent back; None if it must not be."""
        match block:
            case TextBlock():
                return {"text": block.text}
            case ReasoningBlock():
                return self._reasoning(block)
            case ToolCall():
                name, call_id = converse.tool_name(block.name), converse.call_id(block.call_id)
                return {
                    "toolUse": {"toolUseId": call_id, "name": name, "input": strict_json.object_in(block.arguments)}
                }
            case ImageBlock() | AudioBlock() | VideoBlock() | DocumentBlock():
                return {"text": self.left_out.stand_in(block, stand_ins.ONLY_USERS)}
            case ToolResult():
                return None

    def _asked(self, block: ContentBlock) -> Iterator[converse.Block]:
        match block:
            case TextBlock():
                yield {"text": block.text}
            case ImageBlock() | AudioBlock() | VideoBlock() | DocumentBlock():
                yield self._medium(block)
            case ToolResult():
                yield from self._result(block)
            case ReasoningBlock() | ToolCall():
                return

    def _medium(self, block: MediaBlock) -> converse.Block:
        try:
            return _sent(block)
        except UnsendableError as error:
            return {"text": self.left_out.stand_in(block, error)}

    def _result(self, result: ToolResult) -> Iterator[converse.Block]:
        """The result, then the blocks that a result cannot contain and that must follow it."""
        parts: list[converse.ResultPart] = []
        outside: list[converse.Block] = []
        for block in result.content:
            for made in self._asked(block):
                (kind,) = made
                if kind == "toolResult":
                    continue
                if kind == "text" or kind in self._family.inside_results:
                    parts.append(made)
                else:
                    parts.append({"text": stand_ins.attached_below(kind)})
                    outside.append(made)
        answer: converse.ToolResult = {"toolUseId": converse.call_id(result.call_id), "content": parts}
        if self._family.result_status:
            answer["status"] = "error" if result.is_error else "success"
        elif result.is_error:
            parts.insert(0, {"text": "The call failed:"})
        yield {"toolResult": answer}
        yield from outside

    def _reasoning(self, block: ReasoningBlock) -> converse.Block | None:
        """Reasoning that this model signed or encrypted. All families refuse any other."""
        opaque = block.opaque
        if opaque is None or not self._family.signed_reasoning or opaque.provider != PROVIDER_NAME:
            return None
        if bare_model_id(opaque.model) != self._model_id:
            return None
        if opaque.kind == "redacted":
            return {"reasoningContent": {"redactedContent": opaque.value}}
        return {"reasoningContent": {"reasoningText": {"text": block.text, "signature": opaque.value}}}


def _formats(kind: MediaKind) -> str:
    return ", ".join(sorted(set(FORMATS[kind].values())))


media_refusal = refusal_by(
    lambda block: _sent(block),
    "URL-based content must use S3 URIs (s3://...) or https; Bedrock Converse takes "
    f"images ({_formats('image')}), documents ({_formats('document')}) and videos ({_formats('video')}), in base64 too",
    fetches=True,
)
"""Why Converse does not take a user's medium, see ModelCapabilities."""


def _sent(block: MediaBlock) -> converse.Block:
    kind, source = MEDIA_KINDS[type(block)], block.source
    name = block.name if isinstance(block, DocumentBlock) else None
    if isinstance(source, Base64Source):
        data = whole(source.data, MAX_BYTES[kind])
        return _block(kind, media_format(kind, source.media_type, head_of(data), name), {"bytes": data}, name)
    address = source.url if isinstance(source, UrlSource) else source.file_id
    if not address.startswith("s3://"):
        raise UnsendableError(stand_ins.OUT_OF_REACH)
    form = media_format(kind, source.media_type, name=name or address)
    return _block(kind, form, {"s3Location": {"uri": address}}, name or address.rpartition("/")[2])


def _block(kind: MediaKind, form: str | None, source: converse.MediaBody, name: str | None) -> converse.Block:
    if form is None:
        raise UnsendableError(stand_ins.NO_SUCH_FORMAT)
    if kind == "document":
        return {"document": {"format": form, "name": name or "", "source": source}}
    return {kind: {"format": form, "source": source}}  # type: ignore[misc]  # the other three have the same shape


def _offered(request: ModelRequest, turns: Sequence[converse.Turn]) -> list[ToolSpec]:
    if request.tools and request.tool_choice != "none":
        return list({converse.tool_name(spec.name): spec for spec in reversed(request.tools)}.values())[::-1]
    mentioned = any("toolUse" in block or "toolResult" in block for turn in turns for block in turn["content"])
    return [_NO_TOOL_SPEC] if mentioned else []


def _tool_choice(choice: ToolChoice, family: Family) -> JsonObject:
    if choice in ("auto", "none"):
        return {}
    tool = choice.name if type(choice) is OneTool else ""
    if not family.forced_tool:
        logger.warning("this model cannot be told which tool to call", extra={"tool": tool, "family": family.name})
        return {}
    return {"toolChoice": {"tool": {"name": converse.tool_name(tool)}} if tool else {"any": {}}}


def _tool(spec: ToolSpec) -> JsonObject:
    schema: JsonObject = {**object_schema(spec.input_schema), "type": "object"}
    if len(schema) == 1:
        schema["properties"] = {}
    declared: JsonObject = {"name": converse.tool_name(spec.name), "inputSchema": {"json": schema}}
    if spec.description.strip():
        declared["description"] = spec.description
    return {"toolSpec": declared}


def encoded(body: Mapping[str, object]) -> bytes:
    """The body's bytes."""
    try:
        return orjson.dumps(body)
    except TypeError:  # half a surrogate pair, a huge integer: rare, and the service would refuse them
        return json.dumps(json.loads(strict_json.dump(body)), ensure_ascii=False).encode("utf-8", "replace")
