"""The tokens of a run as OpenAI's API tells them. What no model call reported is null.

Below: usage of the words. Above: the renderers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from gateway.events import Usage
from gateway.messages import JsonObject
from gateway.usage import add_usage


def chat_usage(usages: Sequence[Usage]) -> JsonObject | None:
    """The `usage` of a chat completion, of all models together; None: nothing was reported."""
    return _usage(usages, "prompt", "completion")


def responses_usage(usages: Sequence[Usage]) -> JsonObject | None:
    """The `usage` of a response, of all models together; None: nothing was reported."""
    return _usage(usages, "input", "output")


def _usage(usages: Sequence[Usage], asked: str, answered: str) -> JsonObject | None:
    if not usages:
        return None
    total = reduce(add_usage, usages)
    if total.input_tokens is None and total.output_tokens is None:
        return None
    return {
        f"{asked}_tokens": total.input_tokens,
        f"{asked}_tokens_details": {
            "cached_tokens": total.cached_input_tokens,
            "cache_write_tokens": total.cache_write_input_tokens,
        },
        f"{answered}_tokens": total.output_tokens,
        f"{answered}_tokens_details": {"reasoning_tokens": total.reasoning_tokens},
        "total_tokens": total.total_tokens,
    }
