"""Starts an example: `python examples/start.py shell`, or `make example NAME=shell`.

It installs what the folder needs, then starts the lines of its Procfile. A line waits until the line above has printed
the address at which it listens. When the last line's program ends, all others are ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import shlex
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent
CONSTRAINTS = os.path.join("..", "..", "constraints.txt")  # from an example's folder
INSTALLED = "build"
END_SECONDS = 30.0
_ADDRESS = re.compile(rb"http://[\w.]+:\d+")
_NEVER = re.compile(rb"(?!)")


def lines_of(folder: Path) -> dict[str, str]:
    """The Procfile's commands, by their names."""
    lines = (folder / "Procfile").read_text("utf-8").splitlines()
    return {name: command.strip() for name, _, command in (line.partition(":") for line in lines)}


def install(folder: Path, environment: Mapping[str, str]) -> None:
    """Install what the example needs: Python's packages beside the gateway, in its versions; Node's beside the page.

    A folder that is a package itself is installed for this example alone, so that the gateway stays as it was.
    """
    versions = {"PIP_CONSTRAINT": CONSTRAINTS, "PIP_BUILD_CONSTRAINT": CONSTRAINTS}
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if (folder / "requirements.txt").is_file():
        command = [*pip, "--requirement", "requirements.txt"]
        subprocess.run(command, cwd=folder, env={**environment, **versions}, check=True)
    if (folder / "pyproject.toml").is_file():
        command = [*pip, "--no-deps", "--upgrade", "--target", INSTALLED, "."]
        subprocess.run(command, cwd=folder, env={**environment, **versions}, check=True)
    if (folder / "page" / "package.json").is_file():
        subprocess.run(["npm", "install", "--loglevel=error"], cwd=folder / "page", env=environment, check=True)


@contextlib.asynccontextmanager
async def running(
    command: str, folder: Path, environment: Mapping[str, str], output: int | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    """The command's processes until the block is left. They are a group of their own, so none of them is left behind.

    `output`: where they write, errors too; None: where this program writes.
    """
    process = await asyncio.create_subprocess_exec(
        *shlex.split(command), cwd=folder, env=environment, start_new_session=True, stdout=output,
        stderr=None if output is None else asyncio.subprocess.STDOUT,
    )  # fmt: skip
    try:
        yield process
    finally:
        for end in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, end)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), END_SECONDS)


async def show(process: asyncio.subprocess.Process, until: re.Pattern[bytes]) -> bool:
    """Show what a program says until a line matches. False: it has ended before."""
    assert process.stdout is not None
    async for line in process.stdout:
        print(line.decode(errors="replace"), end="", flush=True)
        if until.search(line):
            return True
    return False


async def start(folder: Path, environment: Mapping[str, str]) -> int:
    """Run the example until its last line's program ends; that program's exit code."""
    this = asyncio.current_task()
    assert this is not None
    for number in (signal.SIGTERM, signal.SIGHUP):  # as Ctrl-C does
        asyncio.get_running_loop().add_signal_handler(number, this.cancel)
    *services, (_, last) = lines_of(folder).items()
    async with contextlib.AsyncExitStack() as stack:
        for name, command in services:
            service = running(command, folder, environment, asyncio.subprocess.PIPE)
            process = await stack.enter_async_context(service)
            if not await show(process, until=_ADDRESS):
                raise SystemExit(f"{name} has ended before it listened, with the exit code {await process.wait()}")
            further = asyncio.create_task(show(process, until=_NEVER))
            stack.callback(further.cancel)
        program = await stack.enter_async_context(running(last, folder, environment))
        return await program.wait()


def main() -> int:
    """The command line."""
    names = sorted(path.parent.name for path in EXAMPLES.glob("*/Procfile"))
    if sys.argv[1:] not in [[name] for name in names]:
        raise SystemExit(f"which example? One of: {', '.join(names)}")
    folder = EXAMPLES / sys.argv[1]
    environment = {
        "AGUI_GATEWAY__SERVER__LOG_LEVEL": "warning",  # no line for each request between the words of an answer
        "ALICE_KEY": secrets.token_hex(32),
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        "PYTHONPATH": str(folder / INSTALLED),
        "PYTHONUNBUFFERED": "1",
    }
    try:
        install(folder, environment)
        return asyncio.run(start(folder, environment))
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 0


if __name__ == "__main__":
    sys.exit(main())
