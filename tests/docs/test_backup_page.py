"""The page about backups: its program copies the store of a gateway that works, and its commands move the store."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.clock import SystemClock
from gateway.store import StoreEnvironment
from gateway.stores.opensearch import STORE as OPENSEARCH
from tests.documentation import snippet
from tests.opensearch.node import opensearch_node
from tests.running_gateway import (
    DEADLINE_SECONDS,
    LocalGateway,
    agent,
    gateway_command,
    local_gateway,
    run_body,
    scripted,
    write_configuration,
)
from tests.stored_samples import OWNER, thread, within

AGENTS = [agent("a", scripted([{"text": "word ", "repeat": 50}], switch_every_delta=True))]


async def backed_up(directory: Path) -> Path:
    """The copy that the page's program makes."""
    program, copy = directory / "backup.py", directory / "copy.db"
    program.write_text(snippet("docs/backup.md", "python", "backup"), "utf-8")
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(program), str(directory / "gateway.db"), str(copy)
    )
    async with asyncio.timeout(DEADLINE_SECONDS):
        assert await process.wait() == 0
    return copy


async def run(gateway: LocalGateway, number: int) -> None:
    frames = await gateway.client.run("a", run_body(thread_id=f"t{number}", run_id=f"r{number}"))
    assert frames[-1].type == "RUN_FINISHED"


async def messages_of(gateway: LocalGateway, number: int) -> Any:
    return (await gateway.client.http.get(f"/threads/t{number}/messages")).json()["messages"]


async def test_a_backup_under_load_has_every_thread_that_was_there_and_can_be_gone_on_with(tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    async with local_gateway(tmp_path / "first", AGENTS) as gateway:
        for number in range(20):
            await run(gateway, number)
        before = [await messages_of(gateway, number) for number in range(20)]
        load = [asyncio.create_task(run(gateway, number)) for number in range(20, 120)]
        copy = await backed_up(tmp_path / "first")
        await asyncio.gather(*load)

    copy.rename(tmp_path / "second" / "gateway.db")
    async with local_gateway(tmp_path / "second", AGENTS) as restored:
        assert [await messages_of(restored, number) for number in range(20)] == before
        listed = (await restored.client.get("/threads?limit=500"))["threads"]
        statuses = [(await restored.client.get(f"/runs/r{each['id'][1:]}"))["status"] for each in listed]
        frames = await restored.client.run("a", run_body(thread_id="t0", run_id="again"))
        assert frames[-1].type == "RUN_FINISHED"

    assert len(listed) >= 20
    assert {"completed"} <= set(statuses) <= {"completed", "failed"}


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl is installed here")
async def test_the_page_s_requests_bring_a_cluster_s_store_back(tmp_path: Path) -> None:
    async with opensearch_node(tmp_path / "node") as node, httpx.AsyncClient(base_url=node.url) as cluster:
        repository = {"type": "fs", "settings": {"location": "backups"}}
        (await cluster.put("/_snapshot/backups", json=repository)).raise_for_status()

        async def wrote(thread_id: str) -> list[str]:
            """All threads, after this one was written."""
            url = f"opensearch://127.0.0.1:{node.port}?prefix=agui"
            store = OPENSEARCH.open(url, StoreEnvironment(SystemClock(), tmp_path))
            await within(store.open())
            await within(store.create_thread(thread(thread_id), {}))
            page = await within(store.list_threads(OWNER, limit=9, cursor=None))
            await within(store.close())
            return sorted(each.thread_id for each in page.items)

        before = snippet("docs/backup.md", "sh", "INDICES=")
        assert await wrote("t1") == ["t1"]
        await in_a_shell(before, node.url)
        assert await wrote("t2") == ["t1", "t2"]
        indices = before.splitlines()[0]
        await in_a_shell(f"{indices}\n{snippet('docs/backup.md', 'sh', '_restore')}", node.url)
        assert await wrote("t3") == ["t1", "t3"]


async def in_a_shell(lines: str, cluster: str) -> None:
    """Run lines of curl; the cluster must not refuse one."""
    lines = lines.replace("curl ", "curl --fail-with-body --silent --show-error ")
    process = await asyncio.create_subprocess_exec(
        "sh", "-ec", lines, env={**os.environ, "CLUSTER": cluster},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    said, _ = await within(process.communicate())
    assert process.returncode == 0, said


async def test_the_page_s_commands_move_everything_to_another_store(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    write_configuration(tmp_path / "new", AGENTS)
    async with local_gateway(tmp_path, AGENTS) as gateway:
        await run(gateway, 1)
        before = await messages_of(gateway, 1)
    for line in snippet("docs/backup.md", "sh", "agui-gateway export").splitlines():
        program, *words = shlex.split(line)
        code, said = await gateway_command(tmp_path, *words)
        assert (program, code) == ("agui-gateway", 0), said
    async with local_gateway(tmp_path / "new", AGENTS) as gateway:
        assert await messages_of(gateway, 1) == before
