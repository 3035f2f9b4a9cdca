"""Random requests over OpenAI's routes: real ones, with one or several things wrong in path, query, headers or body.

What they ask of is real: ids come from the gateway's own answers. The same seed gives the same requests, but for ids
that the gateway made.
"""

from __future__ import annotations

import copy
import random
import re
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from tests.fuzzed_requests import FuzzedRequest, mutated

_POOL: Final = 6
_PICTURE: Final = "data:image/png;base64,iVBORw0KGgo="
_WEATHER: Final = {"name": "weather", "description": "d", "parameters": {"type": "object", "properties": {}}}
_SCHEMA: Final = {"name": "s", "schema": {"type": "object", "properties": {"a": {"type": "string"}}}, "strict": True}
_CHAT_PARTS: Final = [
    {"type": "text", "text": "a"},
    {"type": "image_url", "image_url": {"url": _PICTURE, "detail": "low"}},
    {"type": "input_audio", "input_audio": {"data": "UklGRiQAAABXQVZF", "format": "wav"}},
    {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0xLjQK", "filename": "a.pdf"}},
]
_CHAT_CALLS: Final = [
    {"role": "user", "content": "weather"},
    {"role": "assistant", "content": None, "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}},
        {"id": "call_2", "type": "function", "function": {"name": "weather", "arguments": "{\"a\": 1}"}}]},
    {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
    {"role": "tool", "tool_call_id": "call_2", "content": [{"type": "text", "text": "rainy"}]},
    {"role": "user", "content": "so?"},
]  # fmt: skip
_CHATS: Final = (
    {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}], "temperature": 0.5,
     "top_p": 1, "max_tokens": 9, "max_completion_tokens": 9, "stop": ["x"], "seed": 1, "presence_penalty": 0,
     "frequency_penalty": 0, "n": 1, "logprobs": False, "user": "u", "store": False, "metadata": {"thread_id": "t1"},
     "reasoning_effort": "low", "stream_options": {"include_usage": True}, "logit_bias": {}, "service_tier": "auto"},
    {"messages": [{"role": "user", "content": _CHAT_PARTS}, {"role": "assistant", "content": "b", "refusal": None},
                  {"role": "developer", "content": "d"}, {"role": "user", "content": "weather", "name": "bob"}],
     "tools": [{"type": "function", "function": _WEATHER}], "tool_choice": "auto", "parallel_tool_calls": True},
    {"messages": _CHAT_CALLS, "tools": [{"type": "function", "function": _WEATHER}],
     "tool_choice": {"type": "function", "function": {"name": "weather"}},
     "response_format": {"type": "json_schema", "json_schema": _SCHEMA}},
)  # fmt: skip
_ITEMS: Final = [
    {"type": "message", "role": "user", "content": [
        {"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": _PICTURE, "detail": "auto"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0xLjQK"}]},
    {"role": "assistant", "content": [{"type": "output_text", "text": "b", "annotations": []}]},
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "r"}], "encrypted_content": "e"},
    {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}", "id": "fc_1"},
    {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
    {"role": "developer", "content": "d"},
    {"role": "user", "content": "weather"},
]  # fmt: skip
_RESPONSES: Final = (
    {"input": "hi", "instructions": "i", "temperature": 1, "top_p": 0.5, "max_output_tokens": 20, "max_tool_calls": 3,
     "metadata": {"a": "b"}, "store": True, "truncation": "auto", "user": "u", "reasoning": {"effort": "low"},
     "text": {"format": {"type": "json_schema", **_SCHEMA}, "verbosity": "low"}, "service_tier": "auto",
     "include": ["reasoning.encrypted_content"], "parallel_tool_calls": False, "previous_response_id": None},
    {"input": _ITEMS, "tools": [{"type": "function", **_WEATHER, "strict": True}], "tool_choice": "auto"},
    {"input": [{"role": "user", "content": "weather"}], "tools": [{"type": "function", **_WEATHER}],
     "tool_choice": {"type": "function", "name": "weather"}, "previous_response_id": "resp_1"},
    {"input": [{"type": "function_call_output", "call_id": "call_1", "output": [{"type": "input_text", "text": "x"}]},
               {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True, "reason": "r"},
               {"type": "item_reference", "id": "msg_1"}], "previous_response_id": "resp_1"},
    {"input": "more", "conversation": {"id": "conv_1"}},
    {"input": "later", "background": True, "store": True},
    {"input": "unkept", "store": False, "conversation": "conv_1"},
)  # fmt: skip
_ONE, _CONVERSATION = "/responses/{resp}", "/conversations/{conv}"
ROUTES: Final[dict[tuple[str, str], tuple[Any, ...]]] = {
    ("POST", "/chat/completions"): _CHATS,
    ("GET", "/chat/completions/{resp}"): (None,),
    ("GET", "/models"): (None,),
    ("GET", "/models/{agent}"): (None,),
    ("POST", "/responses"): _RESPONSES,
    ("GET", _ONE): (None,),
    ("DELETE", _ONE): (None,),
    ("POST", _ONE + "/cancel"): (None,),
    ("GET", _ONE + "/input_items"): (None,),
    ("POST", "/conversations"): ({"items": _ITEMS, "metadata": {"a": "b"}}, {}),
    ("GET", _CONVERSATION): (None,),
    ("POST", _CONVERSATION): ({"metadata": {"a": "c"}},),
    ("DELETE", _CONVERSATION): (None,),
    ("GET", _CONVERSATION + "/items"): (None,),
    ("POST", _CONVERSATION + "/items"): ({"items": _ITEMS},),
    ("GET", _CONVERSATION + "/items/{item}"): (None,),
    ("DELETE", _CONVERSATION + "/items/{item}"): (None,),
}
"""By method and path, the bodies that are mutated."""
_RARE: Final = {"DELETE": 0.1}  # else nothing would be left
_ODD_IDS: Final = (
    "nope",
    "..",
    ".",
    "%2e%2e",
    "a/b",
    "a b",
    "é",
    "x" * 513,
    "\u202e",
    "*",
    "-",
    "'",
    "resp_",
    "conv_x",
)
_QUERIES: Final = (
    "stream=true", "stream=true&starting_after=2", "starting_after=-1", "stream=maybe", "limit=2", "limit=0", "limit=x",
    "order=asc", "order=up", "after=x", "include=x", "include[]=reasoning.encrypted_content", "x=%00", "a=%ff",
    "stream=true&starting_after=99999999999999999999", "include_obfuscation=false",
)  # fmt: skip
_TYPES: Final = (*("application/json",) * 20, *("application/json; charset=UTF-8",) * 3, "text/plain", "")
_HEADERS: Final = ("x-thread-id", "idempotency-key", "last-event-id", "x-request-id")
_HEADER_VALUES: Final = ("t1", "t2", "k1", "k2", "", " ", "\xe9", "x" * 300, "a/b", "0", "conv_1", "\t", "%00")
_NAMES: Final = ("x", "", "id", "type", "role", "content", "é")
_ID: Final = re.compile(r"(?:resp|conv|msg|rs|fc|mcpr?|ig|call)_[\w-]{6,}|chatcmpl-\w+")


@dataclass(slots=True)
class OpenAIFuzz:
    """Makes requests. `agents` are run: their models answer. Other ids are learned."""

    seed: int
    agents: tuple[str, ...]
    _random: random.Random = field(init=False)
    _ids: defaultdict[str, deque[str]] = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._ids = defaultdict(lambda: deque(maxlen=_POOL))

    def requests(self, each: int) -> Iterator[FuzzedRequest]:
        """About so many for each route, in a random order; fewer of those that delete."""
        routes = [route for route in ROUTES for _ in range(round(each * _RARE.get(route[0], 1)))]
        self._random.shuffle(routes)
        for method, path in routes:
            yield self._request(method, path)

    def _request(self, method: str, path: str) -> FuzzedRequest:
        rng = self._random
        prefix = rng.choice(("/v1", "/v1", "/compatible-mode/v1"))
        target = prefix + re.sub(r"\{(\w+)\}", lambda found: self._place(found[1]), path)
        if rng.random() < (0.5 if method == "GET" else 0.1):
            target += f"?{rng.choice(_QUERIES)}"
        headers = {}
        if rng.random() < 0.15:
            headers[rng.choice(_HEADERS)] = rng.choice((*_HEADER_VALUES, *self._known()))
        body = self._filled(copy.deepcopy(rng.choice(ROUTES[method, path])))
        if body is None and rng.random() < 0.9:
            return FuzzedRequest(method, target, None, headers)
        headers["content-type"] = rng.choice(_TYPES)
        return FuzzedRequest(method, target, mutated(body, rng, _NAMES, self._known()), headers)

    def learn(self, answer: str) -> None:
        """Take ids from an answer."""
        for each in _ID.findall(answer):
            kind = "resp" if each.startswith("chatcmpl-") else each.partition("_")[0]
            pool = self._ids[kind if kind in ("resp", "conv", "call", "mcpr") else "item"]
            if each not in pool:
                pool.append(each)

    def _filled(self, body: Any) -> Any:
        """A body with an agent, and ids of the gateway's for the made-up ones."""
        rng = self._random
        if not isinstance(body, dict) or not body.keys() & {"messages", "input"}:
            return body
        body["model"] = rng.choice(self.agents)
        if rng.random() < 0.4:
            body["stream"] = rng.random() < 0.7
        for kind, members in (("resp", ("previous_response_id",)), ("conv", ("conversation",))):
            for name in members:
                if body.get(name) and self._ids[kind]:
                    body[name] = rng.choice(self._ids[kind])
        for item in body["input"] if isinstance(body.get("input"), list) else ():
            for name, kind in (("call_id", "call"), ("approval_request_id", "mcpr")):
                if name in item and self._ids[kind] and rng.random() < 0.5:
                    item[name] = rng.choice(self._ids[kind])
        return body

    def _place(self, name: str) -> str:
        """An id for a place of a path: one of the gateway's, or an odd one."""
        rng = self._random
        known = self.agents if name == "agent" else tuple(self._ids[name])
        if known and rng.random() < 0.85:
            return quote(rng.choice(known), safe="")
        return quote(rng.choice(_ODD_IDS), safe="" if rng.random() < 0.5 else "/%.")

    def _known(self) -> list[str]:
        return [each for pool in self._ids.values() for each in pool]
