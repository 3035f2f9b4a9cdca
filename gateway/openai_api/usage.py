"""The tokens of a run in the forms of Chat Completions and of Responses. Pure.

Below: usage of the words. Above: the renderers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from gateway.events import Usage
from gateway.messages import JsonObject
from gateway.usage import add_usage


def chat_usage(usages: Sequence[Usage]) -> JsonObject | None:
    """The `usage` of a chat completion, of all models together; None: nothing was reported. A number
    that no model call reported is null.
    """
    if not usages:
        return None
    total = reduce(add_usage, usages)
    if total.input_tokens is None and total.output_tokens is None:
        return None
    return {
        "prompt_tokens": total.input_tokens,
        "prompt_tokens_details": {
            "cached_tokens": total.cached_input_tokens,
            "cache_write_tokens": total.cache_write_input_tokens,
        },
        "completion_tokens": total.output_tokens,
        "completion_tokens_details": {"reasoning_tokens": total.reasoning_tokens},
        "total_tokens": total.total_tokens,
    }


def responses_usage(usages: Sequence[Usage]) -> JsonObject | None:
    """The `usage` of a response, of all models together; None: one of them did not say how many tokens it took.

    Cached and reasoning tokens are parts of the totals. The published schema has no null for them: unknown ones are 0.
    """
    if not usages or any(usage.total_tokens is None for usage in usages):
        return None
    total = reduce(add_usage, usages)
    return {
        "input_tokens": total.input_tokens,
        "input_tokens_details": {
            "cached_tokens": total.cached_input_tokens or 0,
            "cache_write_tokens": total.cache_write_input_tokens or 0,
        },
        "output_tokens": total.output_tokens,
        "output_tokens_details": {"reasoning_tokens": total.reasoning_tokens or 0},
        "total_tokens": total.total_tokens,
    }
