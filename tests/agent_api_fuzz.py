"""Random requests over the Agent API's routes: real ones, with one or several things wrong in path, query, headers or
body. Ids come from the gateway's own answers; but for those, the same seed gives the same requests.
"""

from __future__ import annotations

import copy
import random
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from tests.fuzzed_requests import FuzzedRequest, mutated

_POOL: Final = 6
_PICTURE: Final = "data:image/png;base64,iVBORw0KGgo="
_SCHEMA: Final = {"type": "object", "properties": {"a": {"type": "string"}}}


def _data(kind: str, role: str = "assistant", **members: Any) -> Any:
    return {"type": kind, "role": role, "content": [{"type": "data", "data": members}]}


_CONTENTS: Final = [
    {"type": "text", "text": "a", "index": 0, "delta": False, "msg_id": "m", "status": "completed"},
    {"type": "image", "image_url": _PICTURE},
    {"type": "audio", "data": "UklGRiQAAABXQVZF", "format": "wav"},
    {"type": "video", "video_url": "https://a.example/b.mp4"},
    {"type": "file", "file_data": "JVBERi0xLjQK", "filename": "a.pdf"},
    {"type": "refusal", "refusal": "no"},
    {"type": "data", "data": {"a": 1}},
]
_BODIES: Final = (
    {"input": [{"role": "user", "type": "message", "content": [{"type": "text", "text": "hi"}], "id": "m1"}],
     "temperature": 0.5, "top_p": 1, "max_tokens": 9, "stop": ["x"], "seed": 1, "presence_penalty": 0,
     "frequency_penalty": 0, "n": 1, "model": "m", "user_id": "u", "session_id": "s1", "biz_params": {"a": 1}},
    {"input": [{"role": "system", "content": [{"type": "text", "text": "s"}]},
               {"role": "user", "content": _CONTENTS, "metadata": {"a": 1}, "sequence_number": "3"}],
     "tools": [{"type": "function", "function": {"name": "weather", "description": "d", "parameters": _SCHEMA}},
               {"name": "flat", "description": "d", "parameters": _SCHEMA}], "response_id": "r1"},
    {"input": [{"role": "user", "content": [{"type": "text", "text": "weather"}]},
               _data("function_call", call_id="call_1", name="weather", arguments="{}"),
               _data("function_call_output", "tool", call_id="call_1", output="sunny"),
               {"type": "reasoning", "content": [{"type": "text", "text": "r"}]},
               {"type": "assistant", "content": [{"type": "text", "text": "b"}]},
               _data("plugin_call", call_id="c2", name="x", arguments="{}"),
               _data("plugin_call_output", "tool", call_id="c2", output="1", is_error=True),
               {"role": "user", "content": [{"type": "text", "text": "weather"}]}], "session_id": "s2"},
    {"input": [_data("mcp_approval_request", id="i1", name="x", arguments="{}", server_label="gateway"),
               _data("mcp_approval_response", "user", approval_request_id="i1", approve=True, reason="r")],
     "session_id": "s1"},
    {"input": [_data("function_call_output", "tool", call_id="call_1", output=[{"type": "text", "text": "x"}])],
     "session_id": "s1", "id": "r2"},
)  # fmt: skip
ROUTES: Final[dict[tuple[str, str], tuple[Any, ...]]] = {
    ("POST", "/process"): _BODIES,
    ("POST", "/agents/{agent}/process"): _BODIES,
    ("GET", "/process/{response}"): (None,),
    ("POST", "/process/{response}/cancel"): (None,),
}
"""By method and path, the bodies that are mutated."""
_ODD_IDS: Final = ("nope", "a/b", "a b", "é", "x" * 513, "\u202e", "*", "'", "response_")
_QUERIES: Final = (
    "stream=false", "stream=true", "stream=maybe", "after=0", "after=2", "after=-1", "after=x", "after=%00",
    "stream=false&after=1", "after=99999999999999999999", "stream=", "x=%ff",
)  # fmt: skip
_TYPES: Final = (*("application/json",) * 20, "application/json; charset=UTF-8", "text/plain", "")
_HEADERS: Final = ("accept", "last-event-id", "x-request-id", "idempotency-key")
_HEADER_VALUES: Final = ("application/json", "text/event-stream", "*/*", "", "\xe9", "x" * 300, "0")
_NAMES: Final = ("x", "", "id", "type", "role", "content", "data", "é")
_RESPONSE: Final = re.compile(r'"id":"(response_\w+|r\d)"')
_ID_OF: Final = {
    "call_id": re.compile(r'"call_id":"([^"\\]+)"'),
    "approval_request_id": re.compile(r'"type":"mcp_approval_request".{0,200}?"data":\{"id":"([^"\\]+)"'),
    "session_id": re.compile(r'"session_id":"([^"\\]+)"'),
}


@dataclass(slots=True)
class AgentApiFuzz:
    """Makes requests. `agents` are run: their models answer. Other ids are learned."""

    seed: int
    agents: tuple[str, ...]
    _random: random.Random = field(init=False)
    _ids: dict[str, deque[str]] = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._ids = {name: deque(maxlen=_POOL) for name in ("response", *_ID_OF)}

    def requests(self, each: int) -> Iterator[FuzzedRequest]:
        """So many for each route, in a random order."""
        routes = [route for route in ROUTES for _ in range(each)]
        self._random.shuffle(routes)
        for method, path in routes:
            yield self._request(method, path)

    def learn(self, answer: str) -> None:
        """Take ids from an answer."""
        for name, pattern in (("response", _RESPONSE), *_ID_OF.items()):
            for found in pattern.findall(answer):
                if found not in self._ids[name]:
                    self._ids[name].append(found)

    def _request(self, method: str, path: str) -> FuzzedRequest:
        rng = self._random
        target = re.sub(r"\{(\w+)\}", lambda found: self._place(found[1]), path)
        if rng.random() < (0.6 if method == "GET" else 0.05):
            target += f"?{rng.choice(_QUERIES)}"
        headers = {}
        if rng.random() < 0.15:
            headers[rng.choice(_HEADERS)] = rng.choice(_HEADER_VALUES)
        body = copy.deepcopy(rng.choice(ROUTES[method, path]))
        if body is None and rng.random() < 0.9:
            return FuzzedRequest(method, target, None, headers)
        headers["content-type"] = rng.choice(_TYPES)
        known = [each for pool in self._ids.values() for each in pool]
        return FuzzedRequest(method, target, mutated(self._filled(body), rng, _NAMES, known), headers)

    def _filled(self, body: Any) -> Any:
        """A body with ids of the gateway's for the made-up ones."""
        rng = self._random
        if body is None:
            return body
        if rng.random() < 0.4:
            body["stream"] = rng.random() < 0.5
        if rng.random() < 0.7:
            body.pop("response_id", None)
        holders = [body, *(part["data"] for each in body["input"] for part in each["content"] if "data" in part)]
        for holder in (each for each in holders if isinstance(each, dict)):
            for name in _ID_OF:
                if name in holder and self._ids[name] and rng.random() < 0.5:
                    holder[name] = rng.choice(self._ids[name])
        return body

    def _place(self, name: str) -> str:
        """An id for a place of a path: one of the gateway's, or an odd one."""
        rng = self._random
        known = self.agents if name == "agent" else tuple(self._ids[name])
        if known and rng.random() < 0.85:
            return quote(rng.choice(known), safe="")
        return quote(rng.choice(_ODD_IDS), safe="" if rng.random() < 0.5 or name == "agent" else "/%.")
