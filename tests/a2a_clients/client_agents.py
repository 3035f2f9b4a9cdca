"""Agents of Google's ADK and of Strands that ask the gateway's agent `words`; prints what each understood, by name."""

from __future__ import annotations

import asyncio
import json
import sys
from importlib import import_module
from typing import Any

import httpx

# not imported by their names: the gateway's own environment does not have them
a2a: Any = import_module("a2a.client")
adk: Any = import_module("google.adk.agents.remote_a2a_agent")
runs: Any = import_module("google.adk.runners")
genai: Any = import_module("google.genai.types")
strands: Any = import_module("strands.agent.a2a_agent")
CLIENT_SECONDS = 40.0


async def asked_by_adk(base: str, *, streaming: bool) -> list[str]:
    """The texts that ADK holds for whole."""
    async with httpx.AsyncClient(timeout=CLIENT_SECONDS, trust_env=False) as http:
        clients = a2a.ClientFactory(a2a.ClientConfig(streaming=streaming, httpx_client=http))
        card = f"{base}/agents/words/a2a/.well-known/agent-card.json"
        agent = adk.RemoteA2aAgent(name="words", agent_card=card, httpx_client=http, a2a_client_factory=clients)
        runner = runs.InMemoryRunner(agent=agent, app_name="tests")
        session = await runner.session_service.create_session(app_name="tests", user_id="ann")
        message = genai.Content(role="user", parts=[genai.Part(text="hello")])
        events = runner.run_async(user_id="ann", session_id=session.id, new_message=message)
        said = [event async for event in events]
        return [part.text for event in said if event.content and not event.partial for part in event.content.parts]


async def asked_by_strands(base: str) -> list[str]:
    """The texts of the message that Strands puts together."""
    answer = await strands.A2AAgent(endpoint=f"{base}/agents/words/a2a").invoke_async("hello")
    return [block["text"] for block in answer.message["content"]]


async def main(base: str) -> None:
    understood = {
        "adk": await asked_by_adk(base, streaming=False),
        "adk streaming": await asked_by_adk(base, streaming=True),
        "strands": await asked_by_strands(base),
    }
    print(json.dumps(understood))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
