"""Random requests over A2A's routes: real ones, with one or several things wrong in path, query, headers or body.

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
_WEATHER: Final = {"name": "weather", "description": "d", "parameters": {"type": "object", "properties": {}}}
_CONFIG: Final = {"id": "c1", "url": "https://example.invalid/hook", "token": "t",
                  "authentication": {"scheme": "Bearer", "credentials": "c"}}  # fmt: skip
_NOW: Final = {"returnImmediately": True, "historyLength": 1, "acceptedOutputModes": ["text/plain"]}
_PARTS: Final = [
    {"text": "a", "metadata": {"a": 1}, "mediaType": "text/plain"},
    {"raw": "iVBORw0KGgo=", "mediaType": "image/png", "filename": "a.png"},
    {"url": "https://example.invalid/a.pdf", "mediaType": "application/pdf"},
    {"data": {"a": [1, None]}},
]
_PARTS_03: Final = [
    {"kind": "text", "text": "a"},
    {"kind": "file", "file": {"bytes": "iVBORw0KGgo=", "mimeType": "image/png", "name": "a.png"}},
    {"kind": "file", "file": {"uri": "https://example.invalid/a.pdf"}},
    {"kind": "data", "data": {"a": 1}},
]


def _message(parts: Any, **more: Any) -> dict[str, Any]:
    return {"messageId": "m1", "role": "ROLE_USER", "parts": parts, **more}


_SENT: Final = (
    {"message": _message([{"text": "weather"}], metadata={"tools": [_WEATHER]}), "metadata": {"a": "b"}},
    {"message": _message(_PARTS, extensions=["x"], referenceTaskIds=["task_1"]), "configuration": _NOW},
    {"message": _message([{"text": "hi"}], contextId="ctx_1"), "configuration": {"returnImmediately": False}},
    {"message": _message([{"text": "more"}], taskId="task_1", contextId="ctx_1")},
    {"message": _message([{"text": "approve"}], taskId="task_1")},
    {"message": _message([{"data": {"decision": "approve", "tool_call_id": "call_1", "arguments": {"a": 1}}}],
                         taskId="task_1")},
    {"message": _message([{"data": {"tool_call_id": "call_1", "output": {"a": 1}, "is_error": False}}],
                         taskId="task_1")},
    {"message": _message([{"text": "hi"}]), "configuration": {"taskPushNotificationConfig": _CONFIG}},
)  # fmt: skip
_SENT_03: Final = (
    {"message": {"kind": "message", "messageId": "m1", "role": "user", "parts": _PARTS_03},
     "configuration": {"blocking": False, "historyLength": 2, "acceptedOutputModes": ["text"]}},
    {"message": {"kind": "message", "messageId": "m2", "role": "user", "taskId": "task_1",
                 "parts": [{"kind": "text", "text": "deny"}]}},
    {"message": {"kind": "message", "messageId": "m3", "role": "user", "parts": [{"kind": "text", "text": "hi"}]},
     "configuration": {"pushNotificationConfig": {"url": "https://example.invalid/hook"}}},
)  # fmt: skip
_TASK: Final = ({"id": "task_1", "historyLength": 2}, {"id": "task_1"})
_LIST: Final = (
    {"contextId": "ctx_1", "status": "TASK_STATE_COMPLETED", "pageSize": 3, "includeArtifacts": True},
    {"statusTimestampAfter": "2026-01-01T00:00:00Z", "historyLength": 0, "pageToken": ""},
    {"status": "TASK_STATE_INPUT_REQUIRED", "pageSize": 100},
)
CALLS: Final[dict[str, tuple[Any, ...]]] = {
    "SendMessage": _SENT,
    "SendStreamingMessage": _SENT,
    "GetTask": _TASK,
    "ListTasks": _LIST,
    "CancelTask": _TASK,
    "SubscribeToTask": _TASK,
    "CreateTaskPushNotificationConfig": ({"taskId": "task_1", **_CONFIG},),
    "GetTaskPushNotificationConfig": ({"taskId": "task_1", "id": "c1"},),
    "ListTaskPushNotificationConfigs": ({"taskId": "task_1", "pageSize": 2},),
    "DeleteTaskPushNotificationConfig": ({"taskId": "task_1", "id": "c1"},),
    "GetExtendedAgentCard": ({}, None),
    "message/send": _SENT_03,
    "message/stream": _SENT_03,
    "tasks/get": _TASK,
    "tasks/cancel": _TASK,
    "tasks/resubscribe": _TASK,
    "tasks/pushNotificationConfig/set": ({"taskId": "task_1", "pushNotificationConfig": {"url": "https://a.invalid"}},),
    "tasks/pushNotificationConfig/get": ({"id": "task_1"}, {"id": "task_1", "pushNotificationConfigId": "c1"}),
    "tasks/pushNotificationConfig/list": ({"id": "task_1"},),
    "tasks/pushNotificationConfig/delete": ({"id": "task_1", "pushNotificationConfigId": "c1"},),
    "agent/getAuthenticatedExtendedCard": (None,),
}
"""By method, the parameters that are mutated."""
_ONE, _CONFIGS = "/tasks/{task}", "/tasks/{task}/pushNotificationConfigs"
ROUTES: Final[dict[tuple[str, str], tuple[Any, ...]]] = {
    **{("POST", f"#{method}"): params for method, params in CALLS.items()},
    ("POST", "/message:send"): _SENT,
    ("POST", "/message:stream"): _SENT,
    ("GET", "/tasks"): (None,),
    ("GET", _ONE): (None,),
    ("POST", _ONE + ":cancel"): (None, {}),
    ("POST", _ONE + ":subscribe"): (None,),
    ("GET", _ONE + ":subscribe"): (None,),
    ("GET", _CONFIGS): (None,),
    ("POST", _CONFIGS): (_CONFIG,),
    ("GET", _CONFIGS + "/{config}"): (None,),
    ("DELETE", _CONFIGS + "/{config}"): (None,),
    ("GET", "/extendedAgentCard"): (None,),
    ("GET", "/.well-known/agent-card.json"): (None,),
}
"""By method and path, the bodies that are mutated. A path `#SendMessage` is a call of JSON-RPC."""
_RARE: Final = {"#CancelTask": 0.3, "#tasks/cancel": 0.3, _ONE + ":cancel": 0.3}
_ODD_IDS: Final = ("nope", "..", ".", "%2e%2e", "a/b", "a b", "é", "x" * 513, "\u202e", "*", "'", "task_", ":cancel")
_QUERIES: Final = (
    "pageSize=2", "pageSize=0", "pageSize=x", "pageSize=99999999999999999999", "historyLength=-1", "historyLength=1",
    "includeArtifacts=true", "includeArtifacts=maybe", "status=TASK_STATE_WORKING", "status=gone", "pageToken=x",
    "contextId=x", "statusTimestampAfter=2026-01-01", "statusTimestampAfter=9999-99", "A2A-Version=1.0", "x=%00",
    "A2A-Version=7", "a=%ff", "page_size=1", "pageToken=AAAA",
)  # fmt: skip
_TYPES: Final = (*("application/json",) * 20, "application/a2a+json", "text/plain", "")
_HEADERS: Final = ("a2a-version", "a2a-extensions", "x-request-id", "accept", "if-none-match")
_HEADER_VALUES: Final = ("1.0", "0.3", "2.0", "", " ", "\xe9", "x" * 300, "urn:agui-gateway:a2a:activity:1", "*", "1")
_NAMES: Final = ("x", "", "id", "kind", "role", "parts", "é")
_ID: Final = re.compile(r"call_task_[0-9a-f]{32}(?:_\d+)*|task_[0-9a-f]{32}|ctx_[0-9a-f]{32}|push_[0-9a-f]{32}")
_PLACES: Final = {"taskId": "task", "contextId": "ctx", "tool_call_id": "call", "pushNotificationConfigId": "push"}


@dataclass(slots=True)
class A2AFuzz:
    """Makes requests. `agents` are asked: their models answer. Other ids are learned."""

    seed: int
    agents: tuple[str, ...]
    _random: random.Random = field(init=False)
    _ids: defaultdict[str, deque[str]] = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._ids = defaultdict(lambda: deque(maxlen=_POOL))

    def requests(self, each: int) -> Iterator[FuzzedRequest]:
        """About so many for each route, in a random order; fewer of those that cancel."""
        routes = [route for route in ROUTES for _ in range(round(each * _RARE.get(route[1], 1)))]
        self._random.shuffle(routes)
        for method, path in routes:
            yield self._request(method, path)

    def _request(self, method: str, path: str) -> FuzzedRequest:
        rng = self._random
        prefix = "/a2a" if rng.random() < 0.4 else f"/agents/{rng.choice((*self.agents, 'nobody'))}/a2a"
        body = self._filled(copy.deepcopy(rng.choice(ROUTES[method, path])))
        if path.startswith("#"):
            target = prefix + rng.choice(("", "", "/"))
            call = {"jsonrpc": "2.0", "id": rng.choice((1, "a", None, 1.5)), "method": path[1:], "params": body}
            if rng.random() < 0.05:
                del call["id"]
            body = call
        else:
            target = prefix + re.sub(r"\{(\w+)\}", lambda found: self._place(found[1]), path)
        if rng.random() < (0.6 if method == "GET" else 0.1):
            target += f"?{rng.choice(_QUERIES)}"
        headers = {}
        if rng.random() < 0.15:
            headers[rng.choice(_HEADERS)] = rng.choice((*_HEADER_VALUES, *self._known()))
        if body is None and rng.random() < 0.9:
            return FuzzedRequest(method, target, None, headers)
        headers["content-type"] = rng.choice(_TYPES)
        return FuzzedRequest(method, target, mutated(body, rng, _NAMES, self._known()), headers)

    def learn(self, answer: str) -> None:
        """Take ids from an answer."""
        for each in _ID.findall(answer):
            pool = self._ids[each.partition("_")[0]]
            if each not in pool:
                pool.append(each)

    def _filled(self, value: Any) -> Any:
        """Parameters with ids of the gateway's for most of the made-up ones, and another message's id."""
        rng = self._random
        if isinstance(value, list):
            return [self._filled(each) for each in value]
        if not isinstance(value, dict):
            return value
        filled = {name: self._filled(each) for name, each in value.items()}
        for name, each in filled.items():
            kind = "task" if name == "id" and str(each).startswith("task_") else _PLACES.get(name)
            if kind and self._ids[kind] and rng.random() < 0.8:
                filled[name] = rng.choice(self._ids[kind])
        if "messageId" in filled and rng.random() < 0.9:
            filled["messageId"] = f"m{rng.random()}"
        return filled

    def _place(self, name: str) -> str:
        """An id for a place of a path: one of the gateway's, or an odd one."""
        rng = self._random
        known = tuple(self._ids["push" if name == "config" else name])
        if known and rng.random() < 0.85:
            return quote(rng.choice(known), safe="")
        return quote(rng.choice(_ODD_IDS), safe="" if rng.random() < 0.5 else "/%.:")

    def _known(self) -> list[str]:
        return [each for pool in self._ids.values() for each in pool]
