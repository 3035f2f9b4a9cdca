"""Random requests over ml-commons' routes: real ones, with one or several things wrong in path, query or body.

What they ask of is real: ids come from the gateway's own answers. The same seed gives the same requests, but for ids
that the gateway made.
"""

from __future__ import annotations

import copy
import random
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from tests.fuzzed_requests import FuzzedRequest, mutated

_POOL: Final = 4  # few, so that an id of a container and one of what is in it fit together
_NAMES: Final = ("x", "", "_id", "owner", "definition", "about", "é")
_IDS: Final = ("nope", "_search", "..", ".", "%2e%2e", "a/b", "a b", "é", "x" * 513, "\u202e", "_all", "*", "-", "'")
_QUERIES: Final = (
    "", "pretty", "pretty=false", "async=true", "async=maybe", "max_results=2", "max_results=-1", "max_results=x",
    "next_token=1", "next_token=-5", "next_token=99999999999", "delete_all_memories=true", "delete_memories=sessions",
    "flat_settings=true", "include_defaults=true", "order=desc", "x=%00", "a=%ff",
)  # fmt: skip
_TYPES: Final = (*("application/json",) * 15, *("application/json; charset=UTF-8",) * 3, "text/plain", "")
_QUERY: Final = {
    "query": {"match": {"name": "x"}},
    "size": 3,
    "sort": ["created_time"],
    "aggs": {"a": {"terms": {"field": "type"}}},
}
_AGENT: Final = {
    "name": "n", "type": "conversational", "description": "d", "app_type": "rag", "parameters": {"max_iteration": 3},
    "model": {"model_id": "m", "model_provider": "openai/v1/chat/completions", "endpoint": "http://127.0.0.1:9/v1",
              "credential": {"openai_api_key": "k"}, "model_parameters": {"temperature": "0.5", "max_tokens": 10}},
    "tools": [{"type": "ListIndexTool", "name": "list", "attributes": {"input_schema": {"type": "object"}}}],
    "memory": {"type": "conversation_index", "window_size": 3},
}  # fmt: skip
_BLOCKS: Final = [
    {"type": "text", "text": "hi"},
    {"type": "image", "source": {"type": "base64", "format": "png", "data": "AAAA"}},
]
_MESSAGES: Final = [
    {"role": "user", "content": [{"type": "text", "text": "a"}]},
    {"role": "assistant", "content": [{"type": "text", "text": "b"}],
     "toolCalls": [{"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}}]},
    {"role": "tool", "toolCallId": "c", "content": [{"type": "text", "text": "r"}]},
    {"role": "wizard", "id": "w", "content": "hm"},
    {"role": "user", "content": [{"type": "text", "text": "c"}]},
]  # fmt: skip
_PARAMETERS: Final = {
    "question": "q", "memory_id": "m1", "verbose": "true", "message_history_limit": "2", "max_iteration": 2,
    "selected_tools": '["a"]', "temperature": "0.1", "stop": ["x"], "include_token_usage": True,
    "parent_interaction_id": "p", "system_prompt": "s",
}  # fmt: skip
_AG_UI: Final = {
    "threadId": "t", "runId": "r", "state": {}, "messages": [{"id": "1", "role": "user", "content": "hi"}], "tools": [],
    "context": [{"description": "d", "value": "v"}], "forwardedProps": {},
}  # fmt: skip
_CONTAINER: Final = {
    "name": "c", "description": "d",
    "configuration": {"index_prefix": "p", "retention_policy": {"sessions": {"retention_days": 3, "max_count": 2}}},
}  # fmt: skip
_MEMORY: Final = {
    "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}], "payload_type": "conversational",
    "namespace": {"session_id": "s1", "user_id": "u"}, "metadata": {"a": "b"}, "tags": {"t": "v"}, "infer": False,
}  # fmt: skip
_DATA: Final = {
    "payload_type": "data",
    "structured_data": {"a": 1},
    "structured_data_blob": {"b": [1]},
    "namespace": {"user_id": "u"},
}
_SETTINGS: Final = {"persistent": {"plugins.ml_commons.max_json_size": 1000000, "plugins": {"ml_commons": {"x": 1}}}}
_CHANGE: Final = {"summary": "s", "memory": "m", "tags": {"a": "b"}, "pinned": True}
_NEWEST: Final = [{"created_time": "desc"}]
_P: Final = "/_plugins/_ml"
_OF_TYPE: Final = _P + "/memory_containers/{memory_container_id}/memories"

ROUTES: Final[tuple[tuple[str, str, Any], ...]] = (
    ("POST", _P + "/agents/_register", _AGENT),
    ("GET", _P + "/agents/{agent_id}", None),
    ("PUT", _P + "/agents/{agent_id}", _AGENT),
    ("DELETE", _P + "/agents/{agent_id}", None),
    ("POST", _P + "/agents/_search", _QUERY),
    ("GET", _P + "/agents/_search", _QUERY),
    *((method, _P + f"/agents/{{executed}}/_execute{form}", body)
      for method in ("POST",) for form in ("", "/stream")
      for body in ({"input": "hi", "parameters": _PARAMETERS}, {"input": _BLOCKS}, {"input": _MESSAGES},
                   {"parameters": _PARAMETERS}, _AG_UI)),
    ("POST", _P + "/agents/{executed}/_execute?async=true", {"input": "hi"}),
    ("POST", _P + "/agents/{agent_id}/_execute", {"input": 7}),
    ("GET", _P + "/tasks/{task_id}", None),
    ("POST", _P + "/tasks/_search", _QUERY),
    ("POST", _P + "/tasks/{task_id}/_cancel", None),
    ("DELETE", _P + "/tasks/{task_id}", None),
    ("GET", _P + "/tools", None),
    ("GET", _P + "/tools/{tool}", None),
    ("POST", _P + "/tools/_execute/{tool}", {"parameters": {"index": "products", "query": {"match_all": {}}}}),
    ("POST", _P + "/memory", {"name": "n", "application_type": "a", "additional_info": {"k": "v"}}),
    ("GET", _P + "/memory", None),
    ("GET", _P + "/memory/{memory_id}", None),
    ("PUT", _P + "/memory/{memory_id}", {"name": "m", "additional_info": {"k": 2}}),
    ("DELETE", _P + "/memory/{memory_id}", None),
    ("POST", _P + "/memory/_search", _QUERY),
    ("POST", _P + "/memory/{memory_id}/_search", {"query": {"match": {"input": "hi"}}}),
    ("POST", _P + "/memory/{memory_id}/messages",
     {"input": "i", "response": "r", "prompt_template": "p", "origin": "o", "additional_info": {"a": "b"},
      "parent_message_id": "p", "trace_number": 1}),
    ("GET", _P + "/memory/{memory_id}/messages", None),
    ("GET", _P + "/memory/message/{message_id}", None),
    ("PUT", _P + "/memory/message/{message_id}", {"response": "new", "additional_info": {"x": 1}}),
    ("GET", _P + "/memory/message/{message_id}/traces", None),
    ("POST", _P + "/memory_containers/_create", _CONTAINER),
    ("GET", _P + "/memory_containers/{memory_container_id}", None),
    ("PUT", _P + "/memory_containers/{memory_container_id}", _CONTAINER),
    ("DELETE", _P + "/memory_containers/{memory_container_id}", {"delete_memories": ["sessions"]}),
    ("POST", _P + "/memory_containers/_search", _QUERY),
    ("POST", _P + "/memory_containers/_retention/_dry_run", None),
    ("POST", _OF_TYPE, _MEMORY),
    ("POST", _OF_TYPE, _DATA),
    ("POST", _OF_TYPE + "/sessions", {"session_id": "s1", "summary": "s", "metadata": {"a": "b"}, "agents": {}}),
    ("POST", _OF_TYPE + "/long-term", {"memory": "likes tea", "namespace": {"user_id": "u"}, "tags": {"t": "v"}}),
    ("POST", _OF_TYPE + "/history", {"memory_id": "m", "action": "ADD", "after": {"memory": "x"}}),
    *((method, _OF_TYPE + f"/{kind}/{{of_container}}", _CHANGE)
      for method in ("GET", "PUT", "DELETE") for kind in ("sessions", "working", "long-term", "history", "bogus")),
    *(("POST", _OF_TYPE + f"/{kind}/{what}", {"query": {"term": {"namespace.user_id": "u"}}, "sort": _NEWEST})
      for kind in ("sessions", "working", "long-term", "history") for what in ("_search", "_delete_by_query")),
    ("POST", _OF_TYPE + "/long-term/_semantic_search", {"query": "tea", "k": 3}),
    ("POST", _OF_TYPE + "/long-term/_hybrid_search", {"query": "tea", "bm25_weight": 0.5, "neural_weight": 0.5}),
    ("PUT", "/_cluster/settings", _SETTINGS),
    ("GET", "/_cluster/settings", None),
    ("PATCH", _P + "/agents/{agent_id}", None),
    ("GET", _P + "/nothing/here", None),
)  # fmt: skip
_IN_CONTAINERS: Final = ("session_id", "working_memory_id", "memory_id")
_WEIGHTS: Final = [1 if method == "DELETE" else 12 for method, _, _ in ROUTES]
_TOOLS: Final = ("ListIndexTool", "SearchIndexTool", "IndexMappingTool", "McpServer", "Ghost")


@dataclass(slots=True)
class Fuzz:
    """Makes requests. `executed` are the agents that are run: their models answer. Other ids are learned."""

    seed: int
    executed: tuple[str, ...]
    _random: random.Random = field(init=False)
    _ids: defaultdict[str, deque[str]] = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._ids = defaultdict(lambda: deque(maxlen=_POOL))

    def next(self) -> FuzzedRequest:
        rng = self._random
        method, template, body = rng.choices(ROUTES, _WEIGHTS)[0]
        target = template.format_map(_Places(self))
        if query := rng.choice(_QUERIES) if rng.random() < 0.3 else "":
            target += f"{'&' if '?' in target else '?'}{query}"
        content = None if body is None and rng.random() < 0.8 else self._content(copy.deepcopy(body))
        headers = {} if content is None else {"content-type": rng.choice(_TYPES)}
        return FuzzedRequest(method, target, content, headers)

    def learn(self, answer: Any) -> None:
        """Take ids from an answer."""
        if not isinstance(answer, dict):
            return
        for name, value in answer.items():
            if name.endswith("_id") and isinstance(value, str) and value:
                self._ids[name].append(value)
                if name in _IN_CONTAINERS:
                    self._ids["of_container"].append(value)

    def place(self, name: str) -> str:
        """An id for a place of a path: one of the gateway's, or an odd one."""
        rng = self._random
        if name == "executed":
            return self._among(self.executed) if rng.random() < 0.95 else "nope"
        if name == "tool":
            return rng.choice(_TOOLS)
        known = self._ids[name]
        if known and rng.random() < 0.85:
            return quote(rng.choice(known), safe="")
        return quote(rng.choice(_IDS), safe="" if rng.random() < 0.5 else "/%.")

    def _among(self, values: tuple[str, ...]) -> str:
        return self._random.choice(values)

    def _content(self, body: Any) -> bytes:
        known = [each for pool in self._ids.values() for each in pool]
        return mutated(body, self._random, _NAMES, known)


class _Places(dict[str, str]):
    def __init__(self, fuzz: Fuzz) -> None:
        super().__init__()
        self._fuzz = fuzz

    def __missing__(self, name: str) -> str:
        return self._fuzz.place(name)
