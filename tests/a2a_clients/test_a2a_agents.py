"""Google's ADK and Strands, whose agents ask agents elsewhere over A2A, before a gateway on a real socket.

Both read the last chunk of a text alone: the gateway sends them the whole text there. They play in a process of their
own, see client_agents.py. `make clients` runs this.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from tests.missing_parts import missing_part
from tests.openai_scene import WORDS
from tests.running_gateway import local_gateway

HERE: Final = Path(__file__).parent
PYTHON: Final = HERE / ".venv/bin/python"
CLIENT_SECONDS: Final = 100.0
LAST_CHUNK_WHOLE: Final = {"protocols": {"a2a": {"last_chunk": "whole"}}}

pytestmark = pytest.mark.timeout(CLIENT_SECONDS + 20)


async def texts_understood(directory: Path) -> dict[str, Any]:
    """The texts that the agents understood, by their frameworks."""
    async with local_gateway(directory, [WORDS], sections=LAST_CHUNK_WHOLE) as gateway:
        process = await asyncio.create_subprocess_exec(
            str(PYTHON), str(HERE / "client_agents.py"), gateway.client.base_url,
            stdout=subprocess.PIPE, env={**os.environ, "NO_PROXY": "127.0.0.1"},
        )  # fmt: skip
        try:
            async with asyncio.timeout(CLIENT_SECONDS):
                printed, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        understood: dict[str, Any] = json.loads(printed)
        return understood


@pytest.fixture(scope="module")
def understood(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    if not PYTHON.exists():
        missing_part("ADK and Strands are not installed here; 'make clients' installs them")
    return asyncio.run(texts_understood(tmp_path_factory.mktemp("agents")))


@pytest.mark.parametrize("framework", ["adk", "adk streaming", "strands"])
def test_agents_of_other_frameworks_understand_an_answer_whole(understood: dict[str, Any], framework: str) -> None:
    assert understood[framework] == ["I heard: hello"]
