"""One OpenSearch node for all test processes of a run: whoever needs it first starts it, and it ends with the last.

`OPENSEARCH_URL` names another cluster instead. The node belongs to a process of its own, the keeper, which is this
module as a program. Test processes hold a shared lock on a file; once nobody holds it any more, because all are done or
killed, the keeper gets it, and ends the node.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import IO

import pytest

from tests.missing_parts import missing_part
from tests.opensearch.installation import NoNodeError, cache_folder
from tests.opensearch.node import prepared, running_node

_ROOT = Path(__file__).parents[2]
_URL = "url "
_REASON = "reason "


def run_folder(factory: pytest.TempPathFactory) -> Path:
    """A folder that all test processes of a run have, and no other run."""
    own = factory.getbasetemp()
    return (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "opensearch"


@contextlib.contextmanager
def shared_node(folder: Path) -> Generator[str]:
    """The URL of the node of this folder. Without one, whoever asks is skipped, or fails in CI."""
    if given := os.environ.get("OPENSEARCH_URL"):
        yield given.rstrip("/")
        return
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "starting").open("w") as starting, (folder / "users").open("w") as users:
        fcntl.flock(starting, fcntl.LOCK_EX)
        fcntl.flock(users, fcntl.LOCK_SH)  # a keeper that is ending holds it to its end
        said = _said(folder) or _start_keeper(folder)
        fcntl.flock(starting, fcntl.LOCK_UN)
        if not said.startswith(_URL):
            missing_part(said.removeprefix(_REASON))
        yield said.removeprefix(_URL)


def _said(folder: Path) -> str:
    """What this folder's keeper has said; empty without one."""
    try:
        return (folder / "said").read_text("utf-8")
    except FileNotFoundError:
        return ""


def _start_keeper(folder: Path) -> str:
    with (folder / "keeper.log").open("ab") as log:
        keeper = subprocess.Popen(
            [sys.executable, "-m", __spec__.name, str(folder)], cwd=_ROOT, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True,
        )  # fmt: skip
    _keepers.append(keeper)
    with _output(keeper) as output:
        line = output.readline().strip()
    return line or f"{_REASON}the node did not start: {(folder / 'keeper.log').read_text('utf-8', 'replace')[-2_000:]}"


_keepers: list[subprocess.Popen[str]] = []  # a keeper outlives the process that started it, so nobody waits for it


def _output(process: subprocess.Popen[str]) -> IO[str]:
    assert process.stdout is not None
    return process.stdout


# --- the keeper


async def keep(folder: Path) -> None:
    """Run a node, or say why there is none, until nobody needs to know any more."""
    data = Path(tempfile.mkdtemp(prefix="node-", dir=folder))
    try:
        async with contextlib.AsyncExitStack() as stack:
            try:
                ready = await prepared(cache_folder())
            except NoNodeError as error:
                said = f"{_REASON}{error}"
            else:
                said = _URL + (await stack.enter_async_context(running_node(data, ready))).url
            (folder / "said").write_text(said, "utf-8")
            print(said, flush=True)
            with (folder / "users").open("w") as users:
                await asyncio.to_thread(fcntl.flock, users, fcntl.LOCK_EX)
                (folder / "said").unlink(missing_ok=True)
                await stack.aclose()
    finally:
        shutil.rmtree(data, ignore_errors=True)


if __name__ == "__main__":
    asyncio.run(keep(Path(sys.argv[1])))
