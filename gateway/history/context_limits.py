"""Makes a history fit a model's context; a call and its result are never separated.

Below: messages. Above: the calls of models. All functions are pure. They take and give model views (model_view). The
thread keeps everything; only the request to the model becomes shorter.

A view is divided into groups: an answer (a response of the model) with its tool results, or any other message. Whole
groups are left out, oldest first. System and developer messages stay in their place, and so does the last user message.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gateway.lru import LruCache
from gateway.messages import ContentBlock, Message, ReasoningBlock, TextBlock, ToolCall, ToolResult

logger = logging.getLogger(__name__)

# English text has about four bytes to a token, code and JSON three; media cost about as much as in the largest models.
BYTES_PER_TOKEN = 3.5
TOKENS_PER_MEDIUM = 1_500
TOKENS_PER_MESSAGE = 4

# How many characters of a cut tool result stay, and by how many more a result must exceed that to be cut.
TRIMMED_RESULT_CHARACTERS = 800
_LEAST_GAIN = 200

MOST_REMEMBERED = 1_000


@dataclass(frozen=True, slots=True)
class HistoryLimits:
    """The limits of a thread's messages for a model. None: no limit. Tokens are estimated.

    `max_earlier`: how many messages before the last question (the user's last messages in a row), without those of the
    current run.
    """

    max_messages: int | None = None
    max_tokens: int | None = None
    max_earlier: int | None = None


NO_LIMITS = HistoryLimits()


def estimated_tokens(message: Message) -> int:
    """The estimated tokens of the message; expect an error of a fifth."""
    return TOKENS_PER_MESSAGE + sum(map(_block_tokens, message.content))


def limited(view: Sequence[Message], limits: HistoryLimits) -> tuple[Message, ...]:
    """The newest groups that keep within the limits.

    Messages that always stay count too. They stay even if they alone exceed the limit: then the provider decides
    whether they are too much.
    """
    if limits.max_earlier is not None:
        view = _with_earlier(view, limits.max_earlier)
    if not _exceeds(view, limits):
        return tuple(view)
    groups = _groups(view)
    kept = [_stays(group) for group in groups]
    last_user = max((place for place, group in enumerate(groups) if group[0].role == "user"), default=len(groups) - 1)
    kept[last_user] = True
    count = sum(len(group) for place, group in enumerate(groups) if kept[place])
    tokens = sum(_tokens(group) for place, group in enumerate(groups) if kept[place])
    for place in reversed(range(len(groups))):
        if kept[place]:
            continue
        count += len(groups[place])
        tokens += _tokens(groups[place])
        if _is_over(count, tokens, limits):
            break
        kept[place] = True
    return _begun_by_user(groups, kept)


def trimmed(view: Sequence[Message], *, unseen: bool = True) -> tuple[Message, ...] | None:
    """The view with every long tool result cut to its beginning and end; None if there is nothing to cut.

    The results of the last group, which the model has not seen yet, stay whole if there are others to cut, and always
    with `unseen` False.
    """
    groups = _groups(view)
    older = [message for group in groups[:-1] for message in group]
    last = list(groups[-1]) if groups else []
    shorter = [_cut(message) for message in older]
    if any(one is not other for one, other in zip(shorter, older, strict=True)):
        return (*shorter, *last)
    shortest = [_cut(message) if unseen else message for message in last]
    if any(one is not other for one, other in zip(shortest, last, strict=True)):
        return (*older, *shortest)
    return None


def parted(view: Sequence[Message]) -> tuple[tuple[Message, ...], tuple[Message, ...]] | None:
    """The older part of a view, to be summarised, and the newer part, to be kept; None if there is no older part.

    The newer part begins with a user's message: the last one, or an earlier one if that part is less than half of all.
    """
    groups = _groups(view)
    users = [place for place, group in enumerate(groups) if group[0].role == "user"]
    half = sum(map(_tokens, groups)) / 2
    cut = users[-1] if users else 0
    for place in reversed(users[:-1]):
        if sum(map(_tokens, groups[place:])) > half:
            break
        cut = place
    older = [message for group in groups[:cut] for message in group]
    if not any(message.role in ("user", "assistant") for message in older):
        return None
    return tuple(older), tuple(message for group in groups[cut:] for message in group)


def with_summary(older: Sequence[Message], summary: str, newer: Sequence[Message]) -> tuple[Message, ...]:
    """The newer part of a view after the summary of the older one, whose system messages stay."""
    text = f"A summary of the conversation up to here, made because it had grown too long:\n\n{summary.strip()}"
    kept = [message for message in older if message.role in ("system", "developer")]
    if newer and newer[0].role == "user":
        # Some providers refuse two user messages in a row.
        first = newer[0]
        return (*kept, replace(first, content=(TextBlock(f"{text}\n\n---\n\n"), *first.content)), *newer[1:])
    return (*kept, Message(f"summary-{older[-1].id}", "user", (TextBlock(text),)), *newer)


def transcript_text(messages: Iterable[Message]) -> str:
    """The messages as plain text, for a model that is to summarise them."""
    return "\n\n".join(line for message in messages if (line := _line(message)))


# --- inside ---------------------------------------------------------------------------------------------------------


def _groups(view: Sequence[Message]) -> list[list[Message]]:
    groups: list[list[Message]] = []
    for message in view:
        if message.role == "tool" and groups:
            groups[-1].append(message)
        else:
            groups.append([message])
    return groups


def _with_earlier(view: Sequence[Message], most: int) -> Sequence[Message]:
    """The last question and all messages after it, with at most `most` messages before it."""
    groups = _groups(view)
    users = [place for place, group in enumerate(groups) if group[0].role == "user"]
    begin = users[-1] if users else 0
    while begin and groups[begin - 1][0].role == "user":  # a question may be of several messages
        begin -= 1
    kept = [place >= begin or _stays(group) for place, group in enumerate(groups)]
    count = 0
    for place in reversed(range(begin)):
        if not kept[place]:
            count += len(groups[place])
            if count > most:
                return _begun_by_user(groups, kept)
            kept[place] = True
    return view


def _stays(group: Sequence[Message]) -> bool:
    return group[0].role in ("system", "developer")


def _begun_by_user(groups: Sequence[Sequence[Message]], kept: list[bool]) -> tuple[Message, ...]:
    """The kept messages, without answers at the front whose question is gone, if a user's message follows."""
    users = [place for place, group in enumerate(groups) if kept[place] and group[0].role == "user"]
    for place in range(users[0] if users else 0):
        kept[place] = kept[place] and _stays(groups[place])
    left_out = sum(len(group) for place, group in enumerate(groups) if not kept[place])
    logger.info("left out old messages of a long history", extra={"messages": left_out})
    return tuple(message for place, group in enumerate(groups) if kept[place] for message in group)


def _exceeds(view: Sequence[Message], limits: HistoryLimits) -> bool:
    if limits.max_messages is not None and len(view) > limits.max_messages:
        return True
    return limits.max_tokens is not None and _tokens(view) > limits.max_tokens


def _is_over(count: int, tokens: int, limits: HistoryLimits) -> bool:
    if limits.max_messages is not None and count > limits.max_messages:
        return True
    return limits.max_tokens is not None and tokens > limits.max_tokens


def _tokens(messages: Iterable[Message]) -> int:
    return sum(map(estimated_tokens, messages))


def _block_tokens(block: ContentBlock) -> int:
    if isinstance(block, TextBlock | ReasoningBlock):
        return _text_tokens(block.text)
    if isinstance(block, ToolCall):
        return _text_tokens(block.name) + _text_tokens(block.arguments)
    if isinstance(block, ToolResult):
        return sum(map(_block_tokens, block.content))
    return TOKENS_PER_MEDIUM


def _text_tokens(text: str) -> int:
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return int(size / BYTES_PER_TOKEN) + 1


def _cut(message: Message) -> Message:
    result = message.tool_result
    if result is None:
        return message
    content = tuple(_cut_block(block) for block in result.content)
    if all(one is other for one, other in zip(content, result.content, strict=True)):
        return message
    return replace(message, content=(replace(result, content=content),))


def _cut_block(block: ContentBlock) -> ContentBlock:
    if not isinstance(block, TextBlock):
        return TextBlock("[media left out]")
    text, most = block.text, TRIMMED_RESULT_CHARACTERS
    if len(text) < most + _LEAST_GAIN:
        return block
    note = f"\n[... {len(text) - most:,} characters left out ...]\n"
    return replace(block, text=text[: most * 3 // 4] + note + text[-most // 4 :])


def _line(message: Message) -> str:
    if (result := message.tool_result) is not None:
        return f"tool result: {_words(result.content)}"
    said = _words(message.content)
    calls = "".join(f"\n(called {call.name} with {call.arguments})" for call in message.tool_calls)
    return f"{message.role}: {said}{calls}" if said or calls else ""


def _words(content: Iterable[ContentBlock]) -> str:
    words = [block.text if isinstance(block, TextBlock) else "[media]" for block in content if _is_shown(block)]
    return " ".join(words)


def _is_shown(block: ContentBlock) -> bool:
    return not isinstance(block, ReasoningBlock | ToolCall | ToolResult)


# --- earlier fits -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fit:
    """The way in which a thread was made to fit. `trims`: results were cut. The first `count` messages, which have this
    digest, were summarised.
    """

    trims: bool = False
    count: int = 0
    digest: str = ""
    summary: str = ""


class FitCache(LruCache[tuple[str, str], Fit]):
    """The fits of one agent's threads, the latest `MOST_REMEMBERED` of them."""

    def __init__(self) -> None:
        super().__init__(MOST_REMEMBERED)
