"""Messages as tests write them: a text may stand as a plain string."""

from __future__ import annotations

from gateway.messages import ContentBlock, Message, Role, TextBlock, ToolResult


def message(role: Role, *blocks: ContentBlock | str) -> Message:
    return Message("m", role, _content(blocks))


def user(*blocks: ContentBlock | str, name: str | None = None) -> Message:
    return Message("u", "user", _content(blocks), name=name)


def assistant(*blocks: ContentBlock | str) -> Message:
    return Message("a", "assistant", _content(blocks), turn_id="t")


def result(call_id: str, *blocks: ContentBlock | str, is_error: bool = False) -> Message:
    return Message(f"r-{call_id}", "tool", (ToolResult(call_id, _content(blocks), is_error),), turn_id="t")


def _content(blocks: tuple[ContentBlock | str, ...]) -> tuple[ContentBlock, ...]:
    return tuple(TextBlock(block) if isinstance(block, str) else block for block in blocks)
