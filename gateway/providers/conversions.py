"""Logs how a request was converted to a provider's form: at debug level, numbers and kinds, never words.

Above: the request writers. Below: model (the request), messages.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from gateway.messages import ContentBlock, Message, ToolResult
from gateway.model import ModelRequest

logger = logging.getLogger(__name__)


def tell_conversion(
    provider: str, model_id: str, request: ModelRequest, body: Mapping[str, object], written: Sequence[object]
) -> None:
    """Log what the request had, and what the provider's request has. `written` are the entries of its `body` that the
    messages became.
    """
    if not logger.isEnabledFor(logging.DEBUG):
        return
    logger.debug(
        "wrote a request in the provider's form",
        extra={
            "provider": provider,
            "model": model_id,
            "messages": dict(Counter(message.role for message in request.messages)),
            "blocks": dict(Counter(_kinds(request.messages))),
            "written": len(written),
            "members": sorted(body),
        },
    )


def _kinds(messages: Sequence[Message]) -> Iterator[str]:
    def kinds(blocks: Sequence[ContentBlock]) -> Iterator[str]:
        for block in blocks:
            yield type(block).__name__
            if isinstance(block, ToolResult):
                yield from kinds(block.content)

    for message in messages:
        yield from kinds(message.content)
