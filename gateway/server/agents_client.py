"""Asks a running gateway for its agents, and stores and removes those of a caller: for the command line.

Above: cli. Below: configuration.file, which reads a file with agents and knows the line of each field.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

import httpx

from gateway.configuration.file import (
    ConfigurationText,
    FieldPath,
    InvalidConfigurationError,
    Problem,
    expand_references,
    parse_configuration,
    read_configuration,
)
from gateway.errors import GatewayError
from gateway.messages import JsonObject
from gateway.wire.json_pointer import names_in

_SECONDS = 30.0
_STDIN = "-"


@dataclass(frozen=True, slots=True)
class WrittenAgent:
    """An agent of a file; `path` is its place there."""

    agent_id: str
    body: JsonObject
    path: FieldPath
    text: ConfigurationText

    def problem(self, pointer: str, message: str) -> Problem:
        """The problem in the file for one with the agent's field `pointer` (RFC 6901)."""
        path = (*self.path, *(int(name) if name.isdigit() else name for name in names_in(pointer)))
        return Problem(self.text.place(path), path, message)


def read_agents(file: str, stdin: str, environ: Mapping[str, str]) -> list[WrittenAgent]:
    """The agents of a file, `-` for the text of `stdin`: one agent, or several under `agents`. References to the
    environment and to files are replaced here: the gateway takes none from callers.

    Raises:
        InvalidConfigurationError: it cannot be read, or holds no agents in this form.
    """
    if file == _STDIN:
        text = parse_configuration(stdin, "<stdin>")
        expand_references(text, environ, Path())
    else:
        text = read_configuration(Path(file), environ)
    found = list(_agents_in(text))
    if text.problems:
        raise InvalidConfigurationError(text.problems)
    return found


def _agents_in(text: ConfigurationText) -> Iterator[WrittenAgent]:
    listed = text.values.get("agents")
    if "agents" not in text.values:
        agents: list[tuple[FieldPath, Any]] = [((), text.values)]
    elif isinstance(listed, list):
        agents = [(("agents", number), each) for number, each in enumerate(listed)]
        for name in text.values:
            if name != "agents":
                text.report((name,), "is not an agent's; beside 'agents' there is nothing else")
    else:
        text.report(("agents",), "must be a list of agents, each beginning with '- '")
        return
    for path, body in agents:
        agent_id = body.get("id") if isinstance(body, dict) else None
        if isinstance(agent_id, str) and agent_id:
            yield WrittenAgent(agent_id, body, path, text)
        else:
            text.report((*path, "id"), "is missing: the agent's id, a text")


class AgentsClient:
    """A running gateway, as a caller with a key sees it; `key` is empty for one without keys. `close` it."""

    def __init__(self, url: str, key: str) -> None:
        """Raises GatewayError if `key` cannot be a key."""
        if not (key.isascii() and key.isprintable()):
            raise GatewayError("the key has characters that no key has; export it again")
        self._url = url.rstrip("/")
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self._http = httpx.Client(headers=headers, timeout=_SECONDS, trust_env=False)

    def __enter__(self) -> AgentsClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def agents(self) -> Iterator[Mapping[str, Any]]:
        """All agents that the caller may use, page after page.

        Raises:
            GatewayError: the gateway did not answer, or refused.
        """
        cursor: str | None = None
        while True:
            answer = self._ask("GET", "/agents", params={} if cursor is None else {"cursor": cursor})
            page = self._read(answer, "agents")
            yield from page["agents"]
            if (cursor := page.get("nextCursor")) is None:
                return

    def put(self, agent: WrittenAgent) -> tuple[bool, str]:
        """Store the agent; gives whether it is new, and the URL of its runs.

        Raises:
            InvalidConfigurationError: it has wrong fields.
            GatewayError: the gateway did not answer, or refused.
        """
        body = json.dumps(agent.body)
        answer = self._ask("PUT", _path(agent.agent_id), content=body, headers={"content-type": "application/json"})
        if answer.status_code in (200, 201):
            return answer.status_code == 201, self._read(answer, "url")["url"]
        problem = _problem_of(answer)
        if problem.get("code") != "invalid_agent":
            raise _refused(answer)
        raise InvalidConfigurationError([agent.problem(each["pointer"], each["detail"]) for each in problem["errors"]])

    def remove(self, agent_id: str) -> None:
        """Delete the caller's agent.

        Raises:
            GatewayError: the gateway did not answer, or refused.
        """
        answer = self._ask("DELETE", _path(agent_id))
        if answer.status_code != 204:
            raise _refused(answer)

    def _ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        try:
            return self._http.request(method, f"{self._url}{path}", **more)
        except httpx.HTTPError as error:
            raise GatewayError(
                f"no gateway answers at {self._url}; start one with 'agui-gateway serve', or name its address by --url"
            ) from error

    def _read(self, answer: httpx.Response, member: str) -> dict[str, Any]:
        if answer.is_success:
            try:
                read = answer.json()
            except ValueError:
                read = None
            if isinstance(read, dict) and member in read:
                return read
            raise GatewayError(f"what answers at {self._url} is not agui-gateway; name its address by --url")
        raise _refused(answer)


def _path(agent_id: str) -> str:
    return f"/agents/{quote(agent_id, safe='')}"


def _problem_of(answer: httpx.Response) -> dict[str, Any]:
    """The problem document (RFC 9457), empty where there is none: something else may answer for the gateway."""
    try:
        problem = answer.json()
    except ValueError:
        return {}
    return problem if isinstance(problem, dict) else {}


def _refused(answer: httpx.Response) -> GatewayError:
    detail = _problem_of(answer).get("detail")
    return GatewayError(str(detail) if detail else f"the gateway answered with HTTP status {answer.status_code}")
