"""Sends the table of requests to a server of ml-commons' API, and writes its answers so that two can be compared.

What differs between any two runs is replaced by its kind: ids, times, ports, positions in an index.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx

from tests.ml_commons.oracle_ask import Ask
from tests.ml_commons.oracle_requests import REQUESTS
from tests.waiting import until_answered

RECORDED: Final = Path(__file__).parents[1] / "recordings" / "ml-commons" / "answers.json"
SECONDS: Final = 20.0
NO_ANSWER: Final = {"status": None, "body": f"no answer within {SECONDS:.0f} s"}

_ID = re.compile(r"(?=.*[a-z])(?=.*[A-Z])[A-Za-z0-9_-]{20}")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|msg_\d+|call_\d+|run_[0-9a-f]{32}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z?")
_TIMES = {
    "created_time",
    "last_updated_time",
    "create_time",
    "update_time",
    "updated_time",
    "timestamp",
    "took",
    "last_update_time",
}
_POSITIONS = {
    "_seq_no",
    "_primary_term",
    "_version",
    "_score",
    "max_score",
    "_shards",
    "forced_refresh",
    "worker_node",
    "stack_trace",
}
_PARTS = {"result", "dataAsMap"}
_COMPARED: Final = ("content-type", "allow", "x-opaque-id", "x-opensearch-version")
_HEADERS: Final = {"content-type": "application/json"}
_NAMED = re.compile(r"\{(\w+)\}")

Registered = Callable[[str], Awaitable[None]]


@dataclass
class Oracle:
    """A server that is asked. `registered` is called with the id of each agent that it registered."""

    http: httpx.AsyncClient
    models: str
    registered: Registered | None = None
    kept: dict[str, str] = field(default_factory=dict)

    async def answers(self) -> dict[str, Any]:
        """Its answers by the requests' names, in the order of the table."""
        return {ask.name: await self._answer(ask) for ask in REQUESTS}

    async def _answer(self, ask: Ask) -> dict[str, Any]:
        try:
            answer = await until_answered(lambda: self._sent(ask), lambda answer: _is_wanted(ask, answer))
        except (httpx.TimeoutException, TimeoutError):
            return dict(NO_ANSWER)
        said = _said(answer)
        for name, place in ask.keep.items():
            if (value := _at(said, place)) is not None:
                self.kept[name] = str(value)
        if self.registered is not None and ask.path.endswith("/agents/_register") and answer.is_success:
            await self.registered(said["agent_id"])
        headers = {name: answer.headers[name] for name in _COMPARED if name in answer.headers}
        if "allow" in headers:
            headers["allow"] = ", ".join(sorted(re.split(r",\s*", headers["allow"])))
        return {"status": answer.status_code, "headers": headers, "body": self._plain(said)}

    async def _sent(self, ask: Ask) -> httpx.Response:
        path, body = self._filled(ask.path), self._filled(ask.body)
        content = ask.raw.encode() if ask.raw is not None else None if body is None else json.dumps(body).encode()
        headers = {name: value for name, value in ({**_HEADERS, **ask.headers}).items() if value}
        return await self.http.request(ask.method, path, content=content, headers=headers, timeout=SECONDS)

    def _filled(self, value: Any) -> Any:
        """With what earlier answers gave for `{name}`."""
        if isinstance(value, str):
            return _NAMED.sub(lambda found: self._of(found[1]) or found[0], value)
        if isinstance(value, list):
            return [self._filled(each) for each in value]
        if isinstance(value, Mapping):
            return {key: self._filled(each) for key, each in value.items()}
        return value

    def _of(self, name: str) -> str | None:
        return self.models if name == "models" else self.kept.get(name)

    def _plain(self, value: Any, key: str = "") -> Any:
        if key in _POSITIONS or (key in _TIMES and value is not None):
            return f"<{key}>"
        if isinstance(value, Mapping):
            return {name: self._plain(each, name) for name, each in sorted(value.items())}
        if isinstance(value, list):
            return [self._plain(each) for each in value]
        return self._plain_text(value) if isinstance(value, str) else value

    def _plain_text(self, text: str) -> str:
        for name, value in self.kept.items():
            text = text.replace(value, f"<{name}>")
        text = text.replace(self.models, "<models>")
        if _ID.fullmatch(text) or _UUID.fullmatch(text):
            return "<id>"
        return _TIME.sub("<time>", text)


def _is_wanted(ask: Ask, answer: httpx.Response) -> bool:
    return ask.until is None or str(_at(_said(answer), ask.until[0])) == ask.until[1]


def _said(answer: httpx.Response) -> Any:
    """The body as JSON; the frames of a stream; else the text."""
    if "event-stream" in answer.headers.get("content-type", ""):
        return [_frame(each) for each in answer.text.split("\n\n") if each.strip() and not each.startswith(":")]
    try:
        return answer.json()
    except ValueError:
        return answer.text


def _frame(frame: str) -> Any:
    data = "\n".join(line.removeprefix("data:").strip() for line in frame.splitlines() if line.startswith("data:"))
    try:
        return json.loads(data)
    except ValueError:
        return data


def _at(value: Any, place: str) -> Any:
    for step in place.strip("/").split("/"):
        try:
            value = value[int(step)] if isinstance(value, list) else value[step]
        except (KeyError, IndexError, ValueError, TypeError):
            return None
    return value


def differences(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> list[str]:
    """Where two answers differ: `status`, or the headers and the members of the bodies."""
    if theirs["status"] != ours["status"]:
        return ["status"]
    headers = (f"header {place[1:]}" for place in _different(theirs["headers"], ours["headers"], ""))
    return sorted({*headers, *_different(_without_echo(theirs["body"]), _without_echo(ours["body"]), "")})


def _by_name(value: Any) -> Any:
    """The parts of an output by their names, where each has one of its own."""
    if not isinstance(value, list) or not all(isinstance(each, Mapping) and _PARTS & each.keys() for each in value):
        return value
    named = {str(each.get("name")): each for each in value}
    return named if len(named) == len(value) else value


def _without_echo(body: Any) -> Any:
    """Without `root_cause` where it repeats the error around it."""
    error = body.get("error") if isinstance(body, Mapping) else None
    if not isinstance(error, Mapping) or not isinstance(causes := error.get("root_cause"), list):
        return body
    said = {key: value for key, value in error.items() if key in causes[0]}
    return {**body, "error": {k: v for k, v in error.items() if k != "root_cause"}} if causes == [said] else body


def _different(one: Any, other: Any, place: str) -> Iterator[str]:
    one, other = _by_name(one), _by_name(other)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in {**one, **other}:
            if key not in one or key not in other:
                yield f"{place}/{key}"
            else:
                yield from _different(one[key], other[key], f"{place}/{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (each, its) in enumerate(zip(one, other, strict=True)):
            yield from _different(each, its, f"{place}/{number}")
    elif one != other:
        yield place or "body"
