"""The JSON of Bedrock Converse, and the rules that a conversation must keep to be accepted.

Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html and, for the turn rules,
the service's own refusals. Pure. Above: the request writer, which makes these shapes from canonical
messages.

The rules, as `arrange` establishes them for any conversation:
1. The first message is a user's, the roles alternate, the last message is a user's.
2. Each `toolUse` is answered in the next message, all of one turn in one message, in call order, before anything else.
3. There is no result without its call in the message before, and no second result of a call.
4. No text is blank, no content is empty, no answer ends with reasoning.
5. A family that accepts no text or media beside results gets them in a separate message.
6. A message with documents has a text; their names have only allowed characters and are unique in the conversation.
7. No message holds more pictures or documents than are allowed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypedDict

from gateway.bedrock.families import Family
from gateway.bedrock.media import MAX_PER_MESSAGE
from gateway.wire import stand_ins

PROVIDER_NAME = "bedrock/converse"

# Converse requires a declared tool if the history contains calls, and has no way to forbid calls.
NO_TOOL = "gateway_no_tool_available"


class S3Location(TypedDict):
    """`uri` begins with `s3://`."""

    uri: str


class MediaBody(TypedDict, total=False):
    """One of the two. `bytes` is standard base64."""

    bytes: str
    s3Location: S3Location


class Media(TypedDict):
    """A picture, film or sound."""

    format: str
    source: MediaBody


class Document(TypedDict):
    """`name`: 1-200 letters, digits, single spaces, hyphens, parentheses, square brackets."""

    format: str
    name: str
    source: MediaBody


class CachePoint(TypedDict, total=False):
    """`type` is always there; `ttl` is `5m` or `1h`."""

    type: Literal["default"]
    ttl: str


class ToolUse(TypedDict):
    """`toolUseId`: 1-64 of `a-zA-Z0-9_.:-`; `name`: 1-64 of `a-zA-Z0-9_-`; `input`: a JSON object."""

    toolUseId: str
    name: str
    input: object


class ReasoningText(TypedDict, total=False):
    text: str
    signature: str


class Reasoning(TypedDict, total=False):
    """One of the two. `redactedContent` is base64 of reasoning that only the model can read."""

    reasoningText: ReasoningText
    redactedContent: str


class ResultPart(TypedDict, total=False):
    """Exactly one of them."""

    text: str
    image: Media
    document: Document
    video: Media


class _ToolResultContent(TypedDict):
    toolUseId: str
    content: list[ResultPart]


class ToolResult(_ToolResultContent, total=False):
    """`status` is `success` or `error`, and only for families that know it."""

    status: str


class Block(TypedDict, total=False):
    """Exactly one of them."""

    text: str
    image: Media
    document: Document
    video: Media
    audio: Media
    toolUse: ToolUse
    toolResult: ToolResult
    reasoningContent: Reasoning
    cachePoint: CachePoint


class Turn(TypedDict):
    """One message of a conversation. Converse's third role, `system`, is not used: few models know it."""

    role: Literal["user", "assistant"]
    content: list[Block]


ACKNOWLEDGED = "OK."
DOCUMENT_ATTACHED = "(see the attached document)"

MAX_DOCUMENT_NAME = 200
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_CALL_ID = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")
_NOT_IN_DOCUMENT_NAME = re.compile(r"[^a-zA-Z0-9()\[\]-]+")


def arrange(
    turns: Iterable[Turn],
    family: Family,
    names: set[str] | None = None,
    *,
    begins: bool = True,
    ends: bool = True,
) -> list[Turn]:
    """The conversation under the rules above. Lists and blocks of `turns` are not changed, but may be shared.

    A conversation may be arranged in parts if `may_part` allows it. Each part gets the same `names` of documents; the
    flags say whether it is the first or the last.
    """
    arranged = _merged(_calls_answered(_merged(_cleaned(turns))))
    arranged = _framed(_apart(arranged, family), begins, ends)
    names = set() if names is None else names
    for turn in arranged:
        turn["content"] = _with_documents_named(_within_limits(turn["content"]), names)
    return arranged


def may_part(arranged: Sequence[Turn], following: Turn) -> bool:
    """Whether a conversation can be divided here. The caller knows that no call before this place is answered after it.

    It can between an answer without calls and a question: nothing is merged across such a place.
    """
    return (
        bool(arranged)
        and arranged[-1]["role"] == "assistant"
        and following["role"] == "user"
        and not any("toolResult" in block for block in following["content"])
    )


def call_ids(turns: Iterable[Turn]) -> set[str]:
    """The ids of the calls and results in the turns."""
    return {
        (block["toolUse"] if "toolUse" in block else block["toolResult"])["toolUseId"]
        for turn in turns
        for block in turn["content"]
        if "text" not in block and ("toolUse" in block or "toolResult" in block)
    }


def tool_name(name: str) -> str:
    """A name that Converse accepts: `name` itself, or its allowed characters with a hash that tells names apart."""
    if _TOOL_NAME.fullmatch(name):
        return name
    return f"{re.sub(r'[^a-zA-Z0-9_-]', '_', name)[:55] or 'tool'}_{_digest(name, 8)}"


def call_id(identifier: str) -> str:
    """An id that Converse accepts, always the same one for the same id."""
    return identifier if _CALL_ID.fullmatch(identifier) else f"call_{_digest(identifier, 32)}"


def document_name(name: str | None) -> str:
    """A file's name reduced to what Converse allows. It is never empty, but not yet unique."""
    stem = re.sub(r"\.[a-zA-Z0-9]{1,5}$", "", name or "")
    return _NOT_IN_DOCUMENT_NAME.sub(" ", stem)[: MAX_DOCUMENT_NAME - 10].strip() or "document"


def _digest(text: str, length: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:length]


# --- 4: no blank text, no block in the wrong role ----------------------------------------------------------------

_OF_MODELS_ONLY = frozenset({"toolUse", "reasoningContent"})


def _cleaned(turns: Iterable[Turn]) -> Iterator[Turn]:
    for turn in turns:
        content = [block for block in turn["content"] if not _is_blank(block)]
        if turn["role"] == "user":
            content = [block for block in content if not _OF_MODELS_ONLY & block.keys()]
        yield {"role": turn["role"], "content": content}


def _is_blank(block: Block | ResultPart) -> bool:
    return "text" in block and not block["text"].strip()


# --- 1: alternation ----------------------------------------------------------------------------------------------


def _merged(turns: Iterable[Turn]) -> list[Turn]:
    """Join neighbours of one role. Answers that are empty, or have only reasoning, are left out."""
    merged: list[Turn] = []
    for turn in turns:
        if turn["role"] == "assistant" and all("reasoningContent" in block for block in turn["content"]):
            continue
        if merged and merged[-1]["role"] == turn["role"]:
            merged[-1]["content"] += turn["content"]
        else:
            merged.append({"role": turn["role"], "content": list(turn["content"])})
    return merged


def _framed(turns: list[Turn], begins: bool, ends: bool) -> list[Turn]:
    if begins and (not turns or turns[0]["role"] == "assistant"):
        turns.insert(0, {"role": "user", "content": [{"text": stand_ins.OPENING}]})
    if ends and turns[-1]["role"] == "assistant":
        turns.append({"role": "user", "content": [{"text": stand_ins.GO_ON}]})
    for turn in turns:
        while turn["content"] and "reasoningContent" in turn["content"][-1]:
            turn["content"].pop()
        if not turn["content"]:
            turn["content"] = [{"text": stand_ins.NO_CONTENT}]
    return turns


# --- 2 and 3: calls and results ----------------------------------------------------------------------------------


def _calls_answered(turns: Sequence[Turn]) -> Iterator[Turn]:
    results: dict[str, ToolResult] = {}
    for turn in turns:
        for block in turn["content"]:
            if "toolResult" in block and turn["role"] == "user":
                results.setdefault(block["toolResult"]["toolUseId"], block["toolResult"])
    called: set[str] = set()
    for turn in turns:
        content = _with_new_calls_only(turn, called)
        if content or not turn["content"]:
            yield {"role": turn["role"], "content": content}
        if answers := [_answer(block["toolUse"], results) for block in content if "toolUse" in block]:
            yield {"role": "user", "content": answers}


def _with_new_calls_only(turn: Turn, called: set[str]) -> list[Block]:
    """The content without repeated calls and without results, which are inserted again in the right place."""
    content: list[Block] = []
    for block in turn["content"]:
        if "toolResult" in block:
            continue
        if "toolUse" in block:
            if block["toolUse"]["toolUseId"] in called:
                continue
            called.add(block["toolUse"]["toolUseId"])
        content.append(block)
    return content


def _answer(call: ToolUse, results: dict[str, ToolResult]) -> Block:
    result = results.get(call["toolUseId"])
    if result is None:
        return {"toolResult": {"toolUseId": call["toolUseId"], "content": [{"text": stand_ins.UNANSWERED}]}}
    answer: ToolResult = {**result, "content": [part for part in result["content"] if not _is_blank(part)]}
    if not answer["content"]:
        answer["content"] = [{"text": stand_ins.NO_OUTPUT}]
    return {"toolResult": answer}


# --- 5: blocks beside results -----------------------------------------------------------------------------------


def _apart(turns: Iterable[Turn], family: Family) -> list[Turn]:
    apart: list[Turn] = []
    for turn in turns:
        results = [block for block in turn["content"] if "toolResult" in block]
        others = [block for block in turn["content"] if "toolResult" not in block]
        if not results or all(family.beside_results & block.keys() for block in others):
            apart.append(turn)
            continue
        apart.append({"role": "user", "content": results})
        apart.append({"role": "assistant", "content": [{"text": ACKNOWLEDGED}]})
        apart.append({"role": "user", "content": others})
    return apart


# --- 6 and 7: documents and numbers ------------------------------------------------------------------------------


def _within_limits(content: list[Block]) -> list[Block]:
    counts = dict.fromkeys(MAX_PER_MESSAGE, 0)
    kept: list[Block] = []
    for block in content:
        if "toolResult" in block:
            parts: list[ResultPart] = []
            for part in block["toolResult"]["content"]:
                note = _over_limit(part, counts)
                parts.append({"text": note} if note else part)
            kept.append({"toolResult": {**block["toolResult"], "content": parts}})
        else:
            note = _over_limit(block, counts)
            kept.append({"text": note} if note else block)
    return kept


def _over_limit(block: Block | ResultPart, counts: dict[str, int]) -> str | None:
    """A note in place of `block` if there are too many of its kind already."""
    for kind, limit in MAX_PER_MESSAGE.items():
        if kind in block:
            counts[kind] += 1
            if counts[kind] > limit:
                return stand_ins.left_out(kind, f"at most {limit} may stand in one message")
    return None


def _with_documents_named(content: list[Block], names: set[str]) -> list[Block]:
    named: list[Block] = []
    for block in content:
        if "document" in block:
            named.append({"document": _named(block["document"], names)})
        elif "toolResult" in block:
            named.append({"toolResult": _result_with_documents_named(block["toolResult"], names)})
        else:
            named.append(block)
    if any("document" in block for block in named) and not any("text" in block for block in named):
        named.append({"text": DOCUMENT_ATTACHED})
    return named


def _result_with_documents_named(result: ToolResult, names: set[str]) -> ToolResult:
    parts: list[ResultPart] = [
        {"document": _named(part["document"], names)} if "document" in part else part for part in result["content"]
    ]
    if any("document" in part for part in parts) and not any("text" in part for part in parts):
        parts.append({"text": DOCUMENT_ATTACHED})
    return {**result, "content": parts}


def _named(document: Document, names: set[str]) -> Document:
    wanted = name = document_name(document["name"])
    number = 1
    while name in names:
        number += 1
        name = f"{wanted} ({number})"
    names.add(name)
    return {**document, "name": name}


# --- for the finished conversation -----------------------------------------------------------------------------


def place_cache_points(body: Mapping[str, object], turns: Sequence[Turn], family: Family, lifetime: object) -> None:
    """Put a cache point at the end of the tools, the system prompt and the conversation: three of the four that are
    allowed.

    `lifetime` is a time to live (`5m`, `1h`) or anything else for the default. `turns` are the request's messages.
    """
    point: CachePoint = {"type": "default"}
    if isinstance(lifetime, str):
        point["ttl"] = lifetime
    tools, system, last = body.get("toolConfig"), body.get("system"), turns[-1]["content"]
    if isinstance(tools, dict) and "tools" in family.cache_places:
        tools["tools"].append({"cachePoint": point})
    if isinstance(system, list) and "system" in family.cache_places:
        system.append({"cachePoint": point})
    if "messages" in family.cache_places and "document" not in last[-1]:  # refused after most kinds of documents
        last.append({"cachePoint": point})


def drop_impossible_thinking(body: dict[str, object], turns: Sequence[Turn], *, forced: bool = False) -> None:
    """Remove `thinking` if Claude would refuse it.

    It may not begin in the middle of a turn, after calls that were made without it, nor if a tool is `forced`.
    """
    fields = body.get("additionalModelRequestFields")
    if not isinstance(fields, dict) or not isinstance(thinking := fields.get("thinking"), dict):
        return
    if forced:
        body["additionalModelRequestFields"] = {**fields, "thinking": {"type": "disabled"}}
        return
    if thinking.get("type") != "enabled" or "toolResult" not in turns[-1]["content"][0]:
        return
    if "reasoningContent" not in turns[-2]["content"][0]:
        body["additionalModelRequestFields"] = {name: value for name, value in fields.items() if name != "thinking"}
