"""What is wrong with an agent is told by the paths of its fields, wherever it was read from."""

from __future__ import annotations

import pytest

from gateway.configuration.checks import agent_problems
from gateway.configuration.file import FieldPath
from gateway.configuration.known_parts import known_parts
from gateway.configuration.sections import AgentSection


@pytest.mark.parametrize("path", [(), ("agents", 3)])
def test_an_agents_problems_are_found_by_path_without_a_file(path: FieldPath) -> None:
    section = AgentSection.model_validate(
        {
            "id": "shop",
            "type": "conversational",
            "model": {"model_provider": "demo", "fallback": [{"model_provider": "dem", "endpoint": "nowhere"}]},
            "tools": [{"type": "PythonTool", "name": "a"}, {"type": "PythonTool", "name": "a", "approvers": "keys"}],
        }
    )
    found = dict(agent_problems(section, known_parts(), keys_approve=True, path=path))
    assert [where[len(path) :] for where in found] == [
        ("model", "fallback", 0, "endpoint"),
        ("model", "fallback", 0, "model_provider"),
        ("tools", 1, "approvers"),
        ("tools", 1, "name"),
    ]
    assert all(where[: len(path)] == path for where in found)
    assert "did you mean 'demo'?" in found[(*path, "model", "fallback", 0, "model_provider")]
