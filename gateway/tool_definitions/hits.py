"""The hits of a search as ml-commons' tools show them: a line of JSON for each.

Above: the tools that search. Below: tool_output.
"""

from __future__ import annotations

from collections.abc import Iterator

from gateway.messages import JsonObject
from gateway.tool_output import json_text


def hit_lines(response: JsonObject) -> Iterator[str]:
    """A line for each hit of a `_search`, the best first, with `_index`, `_source`, `_id` and `_score`."""
    found = response.get("hits")
    hits = found.get("hits") if isinstance(found, dict) else None
    for hit in hits if isinstance(hits, list) else ():
        if isinstance(hit, dict):
            kept = {key: hit[key] for key in ("_index", "_source", "_id", "_score") if key in hit}
            yield json_text(kept) + "\n"
