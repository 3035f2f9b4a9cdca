"""What an operator keeps callers from setting."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from gateway.configuration.definitions import agent_definition
from gateway.configuration.known_parts import known_parts
from gateway.configuration.sections import AgentSection
from gateway.options.run_options import LOCKABLE


def locked(*names: str) -> frozenset[str]:
    section = AgentSection.model_validate({"id": "a", "model": {"model_provider": "demo"}, "locked": list(names)})
    return agent_definition(section, known_parts()).locked


def test_nothing_is_locked_unless_the_operator_says_so() -> None:
    assert locked() == frozenset()
    assert locked("temperature", "max_iteration") == {"temperature", "max_iteration"}
    assert locked("seed", "all") == LOCKABLE


def test_only_what_there_is_can_be_locked() -> None:
    with pytest.raises(ValidationError, match="temperature"):
        locked("temprature")
