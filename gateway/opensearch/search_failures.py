"""What a cluster's refusal of a search means for the model that wrote it. Pure.

The model gets the cluster's reason, because with it the search can be corrected, but no class names of the cluster's
program.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from gateway.errors import ToolError
from gateway.messages import JsonValue
from gateway.opensearch.cluster import Answer

_LONGEST_REASON = 500
_PLUGINS: Final = {"neural": "neural-search", "neural_sparse": "neural-search", "hybrid": "neural-search"} | {
    "knn": "opensearch-knn"
}
PPL_PLUGIN: Final = "opensearch-sql"

_UNKNOWN_QUERY = re.compile(r"unknown query \[(\w+)\]")
_NO_HANDLER = re.compile(r"^no handler found for uri")
_CLASS = re.compile(
    r"\b(?:org|javax?|jdk|com)(?:\.[a-z_]\w*)+\.[A-Z]\w*(?:\$\w+)*:?|\b[A-Z]\w*(?:Exception|Error)[\[:]"
)


def plugin_missing(plugin: str) -> ToolError:
    """The error of a search that needs a plugin which the cluster does not have."""
    return ToolError(f"the cluster cannot do this search: its plugin {plugin!r} is not installed")


def search_failure(answer: Answer) -> ToolError:
    """The error of an answer with a status of 400 or more."""
    error = answer.body.get("error")
    reason = "; ".join(dict.fromkeys(_reasons(error)))
    if answer.status == 401:
        return ToolError("the cluster does not know the gateway's user, or its password; the operator has to mend that")
    if answer.status == 403:
        return ToolError("the cluster refuses this: its user has no right to it")
    if (unknown := _UNKNOWN_QUERY.search(reason)) is not None and unknown[1] in _PLUGINS:
        return plugin_missing(_PLUGINS[unknown[1]])
    if "failed to find action" in reason:  # neural-search asks ml-commons for embeddings
        return plugin_missing("opensearch-ml")
    kind = error.get("type") if isinstance(error, dict) else None
    if kind == "index_not_found_exception":
        return ToolError("an index that was searched is not there any more; ListIndexTool tells which there are")
    if "cancelled" in reason or "timed out" in reason or "Time exceeded" in reason:
        return ToolError("the search took too long; make it narrower")
    return ToolError(f"the cluster refuses the search: {reason}" if reason else "the cluster failed to search")


def is_unhandled(answer: Answer) -> bool:
    """Whether the cluster has no such page: the plugin that would have it is missing."""
    error = answer.body.get("error")
    return answer.status in (400, 404, 405) and isinstance(error, str) and bool(_NO_HANDLER.match(error))


def _reasons(error: JsonValue) -> Iterator[str]:
    """The causes, the first one first: what the cluster says last is seldom why."""
    if isinstance(error, str):
        yield _shown(error)
    elif isinstance(error, dict):
        causes = error.get("root_cause")
        found = [each for each in (causes if isinstance(causes, list) else []) if isinstance(each, dict)] or [error]
        for cause in found[:2]:
            inner = cause.get("caused_by")
            for each in (cause, inner):
                if isinstance(each, dict) and isinstance(reason := each.get("reason"), str):
                    details = each.get("details")  # as the plugin of PPL has them
                    yield _shown(f"{reason}: {details}" if isinstance(details, str) else reason)


def _shown(reason: str) -> str:
    text = " ".join(_CLASS.sub("", reason).split())
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}..."
