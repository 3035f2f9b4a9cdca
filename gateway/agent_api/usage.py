"""The tokens of a run in the form of the Agent API. Pure.

Below: usage of the words. Above: the renderer.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from gateway.events import Usage
from gateway.messages import JsonObject
from gateway.usage import add_usage


def response_usage(usages: Sequence[Usage]) -> JsonObject | None:
    """The `usage` of a response, of all models together; None: nothing was reported. A number that no model call
    reported is left out.
    """
    if not usages:
        return None
    total = reduce(add_usage, usages)
    counts = {
        "input_tokens": total.input_tokens,
        "output_tokens": total.output_tokens,
        "total_tokens": total.total_tokens,
    }
    return {name: count for name, count in counts.items() if count is not None} or None
