"""The hits of a search as ml-commons' tools show them: a line of JSON for each.

Above: the tools that search. Below: tool_output.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gateway.messages import JsonObject
from gateway.tool_output import json_text

_SHOWN: Final = ("_index", "_source", "_id", "_score")
_ASKED_FOR: Final = ("fields", "highlight", "inner_hits")  # ml-commons' tools leave these out


def hit_lines(response: JsonObject) -> Iterator[str]:
    """A line for each hit of a `_search`, the best first: where and what it is, its score, and what else the search
    asked for.
    """
    found = response.get("hits")
    hits = found.get("hits") if isinstance(found, dict) else None
    for hit in hits if isinstance(hits, list) else ():
        if isinstance(hit, dict):
            kept = {key: hit[key] for key in (*_SHOWN, *_ASKED_FOR) if key in hit}
            yield json_text(kept) + "\n"
