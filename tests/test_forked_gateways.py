"""A forked gateway does what `python -m gateway` does, and ends with the tests."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.forked_gateways import ForkedProcess, can_fork, fork_server_pid
from tests.running_gateway import (
    NEW_INTERPRETER,
    agent,
    gateway_command,
    gateway_process,
    run_body,
    scripted,
    write_configuration,
)
from tests.waiting import until_outside

ROOT = Path(__file__).parent.parent
HELLO = agent("a", scripted([{"text": "hello"}]))
TOOLS = '''
import os, sys

def place() -> str:
    """Where this runs."""
    os.umask(mask := os.umask(0))
    return f"{os.getcwd()} {sys.path[0]} {os.environ.get('ONLY_HERE')} {mask:o} {sys.argv[1:]}"
'''
pytestmark = pytest.mark.skipif(not can_fork(os.environ), reason="gateways are forked on Linux only")


@pytest.fixture
def unusual_umask() -> Iterator[None]:
    before = os.umask(0o027)
    yield
    os.umask(before)


@pytest.mark.usefixtures("unusual_umask")
async def test_a_fork_has_the_folder_the_environment_and_the_words_it_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "placed_tools.py").write_text(TOOLS)
    tool = {"type": "PythonTool", "name": "place", "parameters": {"function": "placed_tools:place"}}
    configuration = write_configuration(tmp_path, [agent("a", scripted([{"tool": "place"}], []), tools=[tool])])
    said = []
    monkeypatch.setenv("ONLY_HERE", "4711")
    for program in (None, NEW_INTERPRETER):
        async with gateway_process(configuration, program=program) as gateway:
            assert isinstance(gateway.process, ForkedProcess) == (program is None)
            frames = await gateway.client.run("a", run_body(run_id=f"run-{program}", thread_id=f"thread-{program}"))
            said += [frame.data["content"] for frame in frames if frame.type == "TOOL_CALL_RESULT"]

    assert said == [f"{tmp_path} {tmp_path} 4711 27 ['serve', '--config', '{configuration}']"] * 2


@pytest.mark.parametrize("words", [("--version",), ("config", "check", "none.yaml"), ("sing",)], ids=" ".join)
async def test_a_fork_says_and_returns_what_a_new_interpreter_does(words: tuple[str, ...], tmp_path: Path) -> None:
    forked = await gateway_command(tmp_path, *words)

    assert forked == await gateway_command(tmp_path, *words, program=NEW_INTERPRETER)


async def test_a_fork_that_is_killed_says_by_which_signal(tmp_path: Path) -> None:
    async with gateway_process(write_configuration(tmp_path, [HELLO])) as gateway:
        assert gateway.process.returncode is None
        assert await gateway.signal(signal.SIGKILL) == -signal.SIGKILL
        assert gateway.process.returncode == -signal.SIGKILL


async def test_all_gateways_of_one_test_process_come_from_one_server(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    first, second = (write_configuration(tmp_path / name, [HELLO]) for name in ("first", "second"))
    async with gateway_process(first) as one, gateway_process(second) as two:
        assert {_parent(each.process.pid) for each in (one, two)} == {fork_server_pid()}


@pytest.mark.parametrize("name", ["PYTHONPATH", "PYTHONWARNINGS", "LD_PRELOAD"])
def test_what_python_reads_when_it_starts_needs_a_new_interpreter(name: str) -> None:
    assert can_fork({**os.environ, "ANYTHING_ELSE": "1"})
    assert not can_fork({**os.environ, name: "changed"})


CRASH = """
import asyncio, os, signal, sys
from pathlib import Path
from tests.forked_gateways import fork_server_pid
from tests.running_gateway import gateway_process

async def crash():
    async with gateway_process(Path(sys.argv[1])) as gateway:
        print(gateway.process.pid, fork_server_pid(), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(crash())
"""


async def test_gateways_and_their_server_end_with_a_test_process_that_is_killed(tmp_path: Path) -> None:
    configuration = write_configuration(tmp_path, [HELLO])
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CRASH, str(configuration), cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()

    assert process.returncode == -signal.SIGKILL
    await until_outside(lambda: not any(_runs(int(process_id)) for process_id in said.split()))


def _parent(process_id: int) -> int:
    return int(_status(process_id)["PPid"])


def _runs(process_id: int) -> bool:
    try:
        return not _status(process_id)["State"].startswith("Z")  # where nobody collects orphans
    except OSError:
        return False


def _status(process_id: int) -> dict[str, str]:
    lines = Path(f"/proc/{process_id}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
