"""`agui-gateway vacuum`: the store's file is rewritten, by the process that serves it or by the command itself."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

from gateway.server.outcome import outcome_file
from gateway.server.pid_file import can_vacuum, pid_file, serving_pid
from tests.fault_scenes import SERVER, talker
from tests.running_gateway import (
    NEW_INTERPRETER,
    GatewayClient,
    agent,
    gateway_command,
    gateway_process,
    run_body,
    scripted,
    write_configuration,
)

GREETER = agent("greeter", scripted([{"text": "hi"}]))
SAYS_MUCH = "y" * 800_000


async def vacuum(directory: Path, *arguments: str) -> tuple[int, str]:
    """The command's exit code, and all that it says."""
    return await gateway_command(directory, "vacuum", "--config", str(directory / "gateway.yaml"), *arguments)


async def delete_much(client: GatewayClient) -> None:
    for number in range(10):
        await client.run("greeter", run_body(SAYS_MUCH, run_id=f"r{number}", thread_id=f"t{number}"))
    for number in range(10):
        assert (await client.http.delete(f"/threads/t{number}")).status_code == 204


async def test_the_process_rewrites_the_file_and_ends_no_run(tmp_path: Path) -> None:
    configuration = write_configuration(tmp_path, [talker(), GREETER], server=SERVER)
    store = tmp_path / "gateway.db"
    async with gateway_process(configuration, program=NEW_INTERPRETER) as gateway:
        client = gateway.client
        assert (serving_pid(store), can_vacuum(store)) == (gateway.process.pid, True)
        async with client.stream("talker", run_body(run_id="live", thread_id="live")) as stream:
            await stream.until("TEXT_MESSAGE_CONTENT", 3)
            await delete_much(client)
            code, said = await vacuum(tmp_path)
            assert (code, said.splitlines()[0]) == (0, f"process {gateway.process.pid} rewrote {store}:")
            assert re.search(r"nothing was written for \d+\.\d+ seconds; no run was ended\n", said)
            assert (await client.get("/runs/live"))["status"] == "running"
            await client.run("greeter", run_body(run_id="after", thread_id="after"))
            await client.http.post("/runs/live/cancel")
            assert (await stream.rest())[-1].type == "RUN_FINISHED"
        assert store.stat().st_size < 1_000_000
        [line] = [
            json.loads(each) for each in gateway.log.read_text().splitlines() if "the store was rewritten" in each
        ]
        assert line["bytes_after"] < 1_000_000
        assert line["bytes_before"] > 8_000_000, "also what is still in the write-ahead log"
        assert stat.S_IMODE(outcome_file(store, "vacuum").stat().st_mode) == 0o600


async def test_the_command_says_why_the_process_rewrote_nothing(tmp_path: Path) -> None:
    configuration = write_configuration(tmp_path, [GREETER], server=SERVER)
    async with gateway_process(configuration) as gateway:
        with closing(sqlite3.connect(tmp_path / "gateway.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            code, said = await vacuum(tmp_path)
        assert (code, said) == (
            1,
            f"process {gateway.process.pid} did not rewrite {tmp_path / 'gateway.db'}:\n"
            "  the store is busy: another program holds its file\n",
        )


async def test_without_a_process_the_command_rewrites_the_file_itself(tmp_path: Path) -> None:
    configuration = write_configuration(tmp_path, [GREETER], server=SERVER)
    store = tmp_path / "gateway.db"
    code, said = await vacuum(tmp_path)
    assert (code, "is not a file that could be rewritten" in said) == (1, True)
    assert not store.exists(), "it makes no store"
    async with gateway_process(configuration) as gateway:
        await gateway.client.run("greeter", run_body("keep me", run_id="kept", thread_id="kept"))
        await delete_much(gateway.client)
        assert await gateway.signal(signal.SIGTERM) == 0
    before = store.stat().st_size
    code, said = await vacuum(tmp_path)
    assert (code, said.splitlines()[0]) == (0, f"rewrote {store}:")
    assert store.stat().st_size < before / 2
    async with gateway_process(configuration) as gateway:
        assert (await gateway.client.get("/runs/kept"))["status"] == "completed"


async def test_an_older_process_which_the_signal_would_end_is_not_sent_it(tmp_path: Path) -> None:
    write_configuration(tmp_path, [GREETER], server=SERVER)
    store = tmp_path / "gateway.db"
    store.touch()
    with pid_file(store).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(f"{os.getpid()}\n")  # this process would end by it
        file.flush()
        assert (serving_pid(store), can_vacuum(store)) == (os.getpid(), False)
        code, said = await vacuum(tmp_path)
    assert (code, said) == (1, f"process {os.getpid()} is an older version, which cannot be asked; restart it first\n")
