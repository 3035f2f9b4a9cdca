"""ListTasks shows messages of an agent's own, which its run's log alone has."""

from __future__ import annotations

from pathlib import Path

from tests.a2a_scene import a2a_gateway, said
from tests.running_gateway import agent, scripted

TELLER = agent(
    "teller",
    scripted([{"tool": "tell_over_a2a", "arguments": {}}], []),
    tools=[{"type": "PythonTool", "parameters": {"function": "tests.case_tools:tell_over_a2a"}}],
)


async def test_a_listed_task_has_the_message_that_its_agent_gave(tmp_path: Path) -> None:
    async with a2a_gateway(tmp_path, [TELLER]) as a2a:
        await a2a.call("SendMessage", said("hello"))
        (task,) = (await a2a.call("ListTasks", {}))["tasks"]
        assert task["status"]["message"]["parts"] == [{"text": "My own words"}]
        assert task == await a2a.task(task["id"])
