"""Microsoft's AGUIChatClient over three turns, for a Python that has it. Prints what it came to as JSON.

python microsoft_client.py http://127.0.0.1:8000/agents/assistant/run
"""

import asyncio
import json
import sys

from agent_framework import Agent, tool  # type: ignore[import-not-found,unused-ignore]
from agent_framework_ag_ui import AGUIChatClient  # type: ignore[import-not-found,unused-ignore]

calls: list[str] = []


@tool  # type: ignore[untyped-decorator,unused-ignore]
def pick_color(mood: str) -> str:
    """Pick a colour for a mood."""
    calls.append(mood)
    return "green"


async def main(endpoint: str) -> None:
    async with AGUIChatClient(endpoint=endpoint) as client:
        agent = Agent(client=client, tools=[pick_color])
        session = agent.create_session()
        answers = [
            (await agent.run(question, session=session)).text for question in ("hello", "which colour?", "and now?")
        ]
    print(json.dumps({"answers": answers, "calls": calls}))


asyncio.run(main(sys.argv[1]))
