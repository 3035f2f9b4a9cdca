"""Servers as processes of their own, and what the system says about them: CPU time and memory. Needs Linux's /proc."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import resource
import signal
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

START_SECONDS = 30.0
STOP_SECONDS = 10.0
_PORT = re.compile(rb"(?:^|at http://127\.0\.0\.1:)(\d+)\s*$")


@dataclass(frozen=True, slots=True)
class Cores:
    """Which cores the measured server may use, and which everybody else. None: no pinning, there is only one."""

    server: frozenset[int] | None
    others: frozenset[int] | None


def split_cores() -> Cores:
    """One core for the server, the rest for the load."""
    known = sorted(os.sched_getaffinity(0))
    if len(known) < 2:
        return Cores(None, None)
    return Cores(frozenset(known[:1]), frozenset(known[1:]))


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A server that runs."""

    pid: int
    port: int

    def cpu_seconds(self) -> float:
        """CPU time of all of its threads so far."""
        total = 0
        tasks = Path(f"/proc/{self.pid}/task")
        try:
            for task in tasks.iterdir():
                with contextlib.suppress(FileNotFoundError):
                    total += int((task / "schedstat").read_text().split()[0])
        except (OSError, IndexError, ValueError):
            total = 0
        return total / 1e9 if total else self._coarse_cpu_seconds()

    def waiting_seconds(self) -> float:
        """How long its main thread was ready and had no processor so far: others had it. 0 where nobody counts it."""
        try:
            return int(Path(f"/proc/{self.pid}/task/{self.pid}/schedstat").read_text().split()[1]) / 1e9
        except (OSError, IndexError, ValueError):
            return 0.0

    def private_kilobytes(self) -> int:
        """Memory that is this process's alone."""
        lines = Path(f"/proc/{self.pid}/smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))

    def _coarse_cpu_seconds(self) -> float:
        # a kernel without scheduler statistics: counted in ticks of 10 ms
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.asynccontextmanager
async def server_process(
    *arguments: str, directory: Path, cores: frozenset[int] | None, environment: Mapping[str, str] | None = None
) -> AsyncGenerator[ServerProcess]:
    """`python -m ARGUMENTS` until the block is left. It has to print its port, alone or at the end of an address."""
    variables = {
        **os.environ,
        **(environment or {}),
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": os.pathsep.join(_import_path()),
    }
    log = directory / f"{arguments[0]}.log"
    with log.open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", *arguments, cwd=directory, env=variables, stdout=asyncio.subprocess.PIPE,
            stderr=errors,
        )  # fmt: skip
    try:
        if cores is not None:
            os.sched_setaffinity(process.pid, cores)
        async with asyncio.timeout(START_SECONDS):
            port = await _read_port(process)
        if port is None:
            raise RuntimeError(f"a server did not start: {_end_of(log)}")
        yield ServerProcess(process.pid, port)
    finally:
        await _stop(process)


def raise_file_limit(count: int) -> None:
    """Allow so many open files, here and in processes started from now on; as many as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _import_path() -> Sequence[str]:
    root = str(Path(__file__).resolve().parents[2])
    return [root, *filter(None, [os.environ.get("PYTHONPATH")])]


def _end_of(log: Path) -> str:
    return log.read_text()[-2000:]


async def _read_port(process: asyncio.subprocess.Process) -> int | None:
    assert process.stdout is not None
    while line := await process.stdout.readline():
        if found := _PORT.search(line):
            return int(found[1])
    return None


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await process.communicate()
    except TimeoutError:
        process.kill()
        await process.communicate()
