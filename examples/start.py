"""Starts an example: `python examples/start.py shell`, or `make example NAME=shell`.

It installs what the folder needs, then starts the lines of its Procfile. A line waits until the line above has printed
the address at which it listens. When the last line's program ends, all others are ended.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

EXAMPLES = Path(__file__).resolve().parent
CONSTRAINTS = os.path.join("..", "..", "constraints.txt")  # from an example's folder
INSTALLED = "build"
END_SECONDS = 30.0
_ADDRESS = re.compile(r"http://[\w.]+:\d+")


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


@contextlib.contextmanager
def running(
    command: str, folder: Path, environment: Mapping[str, str], output: int | None = None
) -> Iterator[subprocess.Popen[str]]:
    """The command's processes until the block is left. They are a group of their own, so none of them is left behind.

    `output`: where they write, errors too; None: where this program writes.
    """
    errors = None if output is None else subprocess.STDOUT
    process = subprocess.Popen(
        shlex.split(command), cwd=folder, env=environment, text=True, start_new_session=True, stdout=output,
        stderr=errors,
    )  # fmt: skip
    try:
        yield process
    finally:
        for end in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, end)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(END_SECONDS)


def show(said: IO[str]) -> None:
    """Show what a program says, until it ends."""
    for line in said:
        print(line, end="", flush=True)


def follow_until_it_listens(name: str, process: subprocess.Popen[str]) -> None:
    """Show what a program says, and return when it has said its address; the rest is shown as it comes.

    Raises:
        SystemExit: it ended before.
    """
    assert process.stdout is not None
    for line in process.stdout:
        print(line, end="", flush=True)
        if _ADDRESS.search(line):
            threading.Thread(target=show, args=[process.stdout], daemon=True).start()
            return
    raise SystemExit(f"{name} has ended before it listened, with the exit code {process.wait()}")


def start(folder: Path) -> int:
    """Run the example until its last line's program ends; that program's exit code."""
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    environment = {
        "AGUI_GATEWAY__SERVER__LOG_LEVEL": "warning",  # no line for each request between the words of an answer
        "ALICE_KEY": secrets.token_hex(32),
        **os.environ,
        "PATH": programs,
        "PYTHONPATH": str(folder / INSTALLED),
        "PYTHONUNBUFFERED": "1",
    }
    install(folder, environment)
    *services, (_, program) = lines_of(folder).items()
    with contextlib.ExitStack() as stack:
        for name, command in services:
            follow_until_it_listens(name, stack.enter_context(running(command, folder, environment, subprocess.PIPE)))
        return stack.enter_context(running(program, folder, environment)).wait()


def main() -> int:
    """The command line."""
    names = sorted(path.parent.name for path in EXAMPLES.glob("*/Procfile"))
    if sys.argv[1:] not in [[name] for name in names]:
        raise SystemExit(f"which example? One of: {', '.join(names)}")
    for end in (signal.SIGTERM, signal.SIGHUP):  # so that what was started is ended
        signal.signal(end, lambda number, frame: sys.exit(128 + number))
    try:
        return start(EXAMPLES / sys.argv[1])
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
