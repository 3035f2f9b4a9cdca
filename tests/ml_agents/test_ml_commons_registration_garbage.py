"""Whatever a body says, it is an agent, or it is refused in words that name fields of that body."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.agents.stored import ABOUT, DEFINITION, PartsForCallers
from gateway.documents.document import Document
from gateway.errors import InvalidRequestError
from gateway.ml_agents.registration import Registration, read_change, read_registration
from tests.word_samples import REPEATABLE

SECRET = "a-secret-of-the-tests"
PARTS = PartsForCallers({"bedrock/converse": frozenset({"access_key", "secret_key"}), "p": frozenset({"p_api_key"})})
BODY: Any = {
    "name": "n",
    "type": "conversational_v2",
    "description": "d",
    "model": {
        "model_id": "m",
        "model_provider": "bedrock/converse",
        "credential": {"access_key": "a", "secret_key": SECRET, "region": "r"},
        "model_parameters": {"temperature": "0.1", "stop": ["a"], "max_tokens": 3, "system_prompt": "s", "x": 1},
    },
    "tools": [
        {"type": "ListIndexTool", "parameters": {"page_size": 1}, "attributes": {"input_schema": "{}"}, "config": {}},
        {"type": "McpServer", "url": f"https://user@h/p?{SECRET}", "headers": {"a": SECRET}},
    ],
    "memory": {"type": "agentic_memory", "window_size": 1},
    "parameters": {"max_iteration": 3, "message_history_limit": "3", "top_p": 1},
    "access_mode": "public",
}
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["[1", "{}", "0.5"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=5,
)


def places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [(*way,), *(place for name, each in inner for place in places(each, (*way, name)))]


PLACES = [place for place in places(BODY) if place]


@st.composite
def bodies(draw: st.DrawFn) -> Any:
    """The body with some of its members replaced, added or left out."""
    body = copy.deepcopy(BODY)
    for way in draw(st.lists(st.sampled_from(PLACES), max_size=3)):
        target: Any = body
        try:
            for name in way[:-1]:
                target = target[name]
            if draw(st.booleans()):
                target[way[-1]] = draw(VALUES)
            else:
                del target[way[-1]]
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took it away
    return body


def stored() -> Document:
    agent = read_registration(BODY, PARTS).agent
    assert agent.shown is not None
    body: Any = {**agent.shown, DEFINITION: agent.definition, ABOUT: agent.about}
    return Document("agent", "a", "local", 1, copy.deepcopy(body), 0, 0)


def wrong_fields(read: Callable[[], Registration]) -> list[str] | None:
    """The pointers that a refusal names; None: it is an agent, in whose shown part there is no secret."""
    try:
        found = read()
    except InvalidRequestError as error:
        return [problem.pointer for problem in error.problems]
    assert not re.search(f"{SECRET}|user@", str(found.agent.shown))
    return None


@REPEATABLE
@given(bodies())
def test_a_body_is_an_agent_or_is_refused_by_its_fields(body: Any) -> None:
    before = copy.deepcopy(body)
    for read in (partial(read_registration, body, PARTS), partial(read_change, body, stored(), PARTS)):
        wrong = wrong_fields(read)
        assert wrong != []
        assert all(pointer.startswith("/") for pointer in wrong or ())
    assert str(body) == str(before), "what was given is not changed"
