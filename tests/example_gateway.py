"""The examples of examples/ in tests: each one's gateway, in this process, and its programs before that gateway."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from tests.documentation import EXAMPLES, example
from tests.running_gateway import DEADLINE_SECONDS, LocalGateway, local_gateway

ADDRESS: Final = "http://127.0.0.1:8000"  # of the gateway, in the examples
ALICE_KEY: Final = "alice-key-of-the-examples"
DEMO: Final = "{model_provider: demo}"
DEMO_WITHOUT_PAUSES: Final = "{model_provider: demo, model_parameters: {words_per_second: 0}}"
# as examples/start.py gives it to the programs; nothing of it goes through a proxy
ENVIRONMENT: Final[Mapping[str, str]] = {
    "ALICE_KEY": ALICE_KEY,
    "NO_PROXY": "*",
    "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
}


@asynccontextmanager
async def example_gateway(
    configuration: str, directory: Path, origins: Mapping[str, str] | None = None, **options: Any
) -> AsyncGenerator[LocalGateway]:
    """The gateway of an example's `gateway.yaml`, with the Python files beside it.

    `origins`: where a test has the sites that the file lets in, by their names in the file.
    """
    text = example(configuration).replace("${env:ALICE_KEY}", ALICE_KEY).replace(DEMO, DEMO_WITHOUT_PAUSES)
    for named, real in (origins or {}).items():
        assert named in text
        text = text.replace(named, real)
    for module in (EXAMPLES / configuration).parent.glob("*.py"):
        shutil.copy(module, directory)
    file: dict[str, Any] = yaml.safe_load(text)
    agents, server = file.pop("agents"), file.pop("server", None)
    async with local_gateway(directory, agents, server=server, sections=file, **options) as gateway:
        yield gateway


async def program_output(name: str, gateway: LocalGateway, directory: Path) -> str:
    """What an example's program (`.py` or `.sh`) prints before that gateway; it has to end well and in time."""
    program = directory / f"program{Path(name).suffix}"
    program.write_text(example(name).replace(ADDRESS, gateway.client.base_url), "utf-8")
    return await output({".py": "python", ".sh": "sh"}[program.suffix], str(program), directory=directory)


async def output(*command: str, directory: Path) -> str:
    """What a command prints; it has to end well and in time."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=directory,
        env={**os.environ, **ENVIRONMENT},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            said, wrong = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, wrong.decode()
    return said.decode()
