"""One gateway before each client's scenes, all played in one process: starting such a client takes seconds."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from tests.agui_client import find_node
from tests.missing_parts import missing_part
from tests.openai_scene import AGENTS
from tests.running_gateway import agent, local_gateway, scripted

CLIENTS: Final = Path(__file__).parent
PYTHON: Final = CLIENTS / ".venv/bin/python"
ONLY_LOOPBACK: Final = CLIENTS.parent / "front_ends/loopback_only.mjs"
CLIENT_SECONDS: Final = 100.0
POET: Final = agent("poet", scripted(rules=[{"when": {}, "response": [{"text": "A poem."}]}]))
# Hands over to the poet, by the tool that openai-agents makes for it.
DESK: Final = agent(
    "desk", scripted([{"tool": "transfer_to_poet", "arguments": {}}], [{"text": "It was not handed over."}])
)


async def told_by(client: str, directory: Path, protocols: dict[str, Any], **environ: str) -> dict[str, Any]:
    """What a client's scenes came to, by their names. `protocols` is that section of the gateway's file,
    `environ` is for the client."""
    command = {
        ".py": [str(PYTHON), str(CLIENTS / client)],
        ".mjs": [str(find_node()), "--import", str(ONLY_LOOPBACK), str(CLIENTS / client)],
    }[Path(client).suffix]
    quiet = {"NO_PROXY": "127.0.0.1", "DO_NOT_TRACK": "1", "LANGSMITH_TRACING": "false"}
    async with local_gateway(directory, [*AGENTS, POET, DESK], sections={"protocols": protocols}) as gateway:
        process = await asyncio.create_subprocess_exec(
            *command, f"{gateway.client.base_url}/v1", stdout=subprocess.PIPE, env={**os.environ, **quiet, **environ}
        )
        try:
            async with asyncio.timeout(CLIENT_SECONDS):
                printed, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    told: dict[str, Any] = json.loads(printed)
    return told


@pytest.fixture(scope="module")
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the scenes of the module's CLIENT came to. Its parameter is what the client's environment has besides."""
    if not PYTHON.exists() or not (CLIENTS / "node_modules").is_dir():
        missing_part("OpenAI's clients are not installed here; 'make clients' installs them")
    protocols = getattr(request.module, "PROTOCOLS", {})
    environ: dict[str, str] = getattr(request, "param", {})
    return asyncio.run(told_by(request.module.CLIENT, tmp_path_factory.mktemp("client"), protocols, **environ))
