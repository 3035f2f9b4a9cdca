"""AG-UI inputs for tests: their bytes, what is read of them, and what is refused of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.ag_ui.input import parse_run_input
from gateway.ag_ui.peer import PeerProfile
from gateway.agent import AgentInput
from gateway.errors import InvalidRequestError

DROP = object()


def body(*messages: object, **members: object) -> bytes:
    given = {"threadId": "t", "runId": "r", "messages": list(messages), **members}
    return json.dumps({name: value for name, value in given.items() if value is not DROP}).encode()


def parse(*messages: object, **members: object) -> AgentInput:
    return parse_run_input(body(*messages, **members))[0]


def profile(*messages: object, **members: object) -> PeerProfile:
    return parse_run_input(body(*messages, **members))[1]


def refusal(*messages: object, **members: object) -> InvalidRequestError:
    with pytest.raises(InvalidRequestError) as refused:
        parse_run_input(body(*messages, **members))
    return refused.value


def pointers(error: InvalidRequestError) -> set[str]:
    return {problem.pointer for problem in error.problems}


def user(content: object = "Hi", **members: object) -> dict[str, Any]:
    return {"id": "u", "role": "user", "content": content, **members}
