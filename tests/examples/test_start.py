"""`examples/start.py`, which starts an example: its gateway first, then its program, and an end for all of them."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from tests.documentation import EXAMPLES, LEFT_BY_EXAMPLES, example
from tests.example_gateway import ADDRESS, ENVIRONMENT
from tests.held_ports import held_port
from tests.running_gateway import DEADLINE_SECONDS


@pytest.fixture
def port() -> Iterator[int]:
    with held_port() as port:
        yield port


def copied(name: str, port: int, directory: Path) -> Path:
    """The starting program, in a folder with that example alone. Its gateway has this port."""
    shutil.copytree(EXAMPLES / name, directory / name, ignore=LEFT_BY_EXAMPLES)
    shutil.copy(EXAMPLES / "start.py", directory)
    file = yaml.safe_load(example(f"{name}/gateway.yaml"))
    (directory / name / "gateway.yaml").write_text(yaml.safe_dump({**file, "server": {"port": port}}), "utf-8")
    for script in (directory / name).glob("*.sh"):
        script.write_text(script.read_text("utf-8").replace(ADDRESS, f"http://127.0.0.1:{port}"), "utf-8")
    return directory / "start.py"


def written(name: str, lines: str, directory: Path) -> Path:
    """The starting program, in a folder with one example that has these lines."""
    (directory / name).mkdir()
    (directory / name / "Procfile").write_text(lines, "utf-8")
    shutil.copy(EXAMPLES / "start.py", directory)
    return directory / "start.py"


@asynccontextmanager
async def started(program: Path, name: str) -> AsyncGenerator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(program), name, env={**os.environ, **ENVIRONMENT},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            yield process
    finally:
        if process.returncode is None:
            process.terminate()  # it ends what it started
            await process.wait()


async def said_by(process: asyncio.subprocess.Process) -> str:
    said, _ = await process.communicate()
    return said.decode()


def nobody_listens(port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) != 0


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl is installed here")
async def test_the_program_asks_the_gateway_and_both_end(tmp_path: Path, port: int) -> None:
    async with started(copied("shell", port, tmp_path), "shell") as process:
        said = await said_by(process)

    assert process.returncode == 0, said
    assert said.index(f"serves gateway.yaml at http://127.0.0.1:{port}") < said.index("RUN_STARTED")
    assert "3,519,000" in said
    assert nobody_listens(port)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_what_serves_is_ended_with_it(tmp_path: Path, port: int, number: signal.Signals) -> None:
    site = f"python -m http.server {port} --bind 127.0.0.1"
    async with started(written("site", f"first: {site}\nlast: sleep 600\n", tmp_path), "site") as process:
        assert process.stdout is not None
        while f"http://127.0.0.1:{port}".encode() not in (line := await process.stdout.readline()):
            assert line
        process.send_signal(number)
        await process.communicate()

    assert process.returncode == 0
    assert nobody_listens(port)


async def test_a_line_that_ends_before_it_listens_ends_it(tmp_path: Path) -> None:
    async with started(written("site", "gateway: echo no\nprogram: sleep 600\n", tmp_path), "site") as process:
        said = await said_by(process)

    assert (process.returncode, said) == (1, "no\ngateway has ended before it listened, with the exit code 0\n")


async def test_an_unknown_example_is_told_those_there_are(tmp_path: Path) -> None:
    async with started(written("site", "program: true\n", tmp_path), "sight") as process:
        said = await said_by(process)

    assert (process.returncode, said) == (1, "which example? One of: site\n")
