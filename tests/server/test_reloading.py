"""The configuration file is read again while the gateway serves."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import stat
import sys
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway.server.outcome import outcome_file
from gateway.server.pid_file import pid_file, serving_pid
from gateway.settings import Flags, load_settings, needing_restart
from tests.running_gateway import (
    DEADLINE_SECONDS,
    GatewayProcess,
    agent,
    gateway_command,
    gateway_process,
    local_gateway,
    run_body,
    scripted,
    write_configuration,
)
from tests.waiting import until_answered

HELLO = scripted([{"text": "hello"}])
CHANGED = scripted([{"text": "changed"}])
TALKS_ON = scripted([{"text": "one two three "}, {"delay_seconds": 600}])
TOOK_OVER = "took over the agents of the configuration file"


async def until_logged(gateway: GatewayProcess, message: str, count: int = 1) -> list[dict[str, Any]]:
    """The log's lines with that message, once there are so many."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            whole, _, _ = gateway.log.read_text().rpartition("\n")  # the last one may be half written
            lines = [json.loads(line) for line in whole.splitlines() if line.startswith("{")]
            found = [line for line in lines if line["message"] == message]
            if len(found) >= count:
                return found
            await gateway.client.get("/healthz")


async def agent_ids(gateway: GatewayProcess) -> list[str]:
    return [each["id"] for each in (await gateway.client.get("/agents"))["agents"]]


def said(frames: Any) -> str:
    return "".join(frame.data["delta"] for frame in frames if frame.type == "TEXT_MESSAGE_CONTENT")


@contextlib.asynccontextmanager
async def reloadable(
    directory: Path, *agents: Mapping[str, Any], **configuration: Any
) -> AsyncGenerator[GatewayProcess]:
    file = write_configuration(directory, agents, **configuration)
    async with gateway_process(file) as gateway:
        yield gateway


async def reload_command(directory: Path, *arguments: str, env: Mapping[str, str] | None = None) -> tuple[int, str]:
    """`agui-gateway reload`: its exit code and all that it says."""
    return await gateway_command(directory, "reload", "--config", str(directory / "gateway.yaml"), *arguments, env=env)


def pending_signals(pid: int) -> set[int]:
    """Those that were sent to a process which is stopped."""
    status = Path(f"/proc/{pid}/status").read_text()
    masks = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith(("SigPnd", "ShdPnd"))]
    return {number for number in range(1, 65) for mask in masks if mask >> (number - 1) & 1}


# --- what a signal does


async def test_agents_come_change_and_go_at_a_signal_and_no_stream_is_dropped(tmp_path: Path) -> None:
    async with reloadable(tmp_path, agent("a", HELLO), agent("b", TALKS_ON), agent("c", HELLO)) as gateway:
        client = gateway.client
        async with client.stream("b", run_body(run_id="open")) as stream:
            await stream.until("TEXT_MESSAGE_CONTENT")
            write_configuration(tmp_path, [agent("a", CHANGED), agent("c", HELLO), agent("d", HELLO)])
            gateway.process.send_signal(signal.SIGHUP)
            [line] = await until_logged(gateway, TOOK_OVER)
            assert (line["added"], line["changed"], line["removed"]) == (["d"], ["a"], ["b"])
            assert await agent_ids(gateway) == ["a", "c", "d"]
            assert said(await client.run("a", run_body(thread_id="2", run_id="2"))) == "changed"
            assert said(await client.run("d", run_body(thread_id="3", run_id="3"))) == "hello"
            refused = await client.http.post(client.run_url("b"), json=run_body(thread_id="4", run_id="4"))
            assert (refused.status_code, refused.json()["code"]) == (404, "agent_not_found")

            assert (await client.get("/runs/open"))["status"] == "running"
            await client.http.post("/runs/open/cancel")
            assert (await stream.rest())[-1].type in ("RUN_FINISHED", "RUN_ERROR")
            assert said(stream.frames) == "one two three "


async def test_a_file_with_a_problem_changes_nothing_and_the_log_says_where_it_is(tmp_path: Path) -> None:
    async with reloadable(tmp_path, agent("a", HELLO)) as gateway:
        (tmp_path / "gateway.yaml").write_text("agents:\n- id: a\n  model: {model_provider: demmo}\n")
        gateway.process.send_signal(signal.SIGHUP)
        [line] = await until_logged(gateway, "the configuration file has problems: nothing was changed")
        [problem] = line["problems"]
        assert f"{tmp_path / 'gateway.yaml'}:3:11: agents[0].model.model_provider: " in problem
        assert said(await gateway.client.run("a", run_body())) == "hello"

        write_configuration(tmp_path, [agent("a", CHANGED)])
        gateway.process.send_signal(signal.SIGHUP)
        await until_logged(gateway, TOOK_OVER)
        assert said(await gateway.client.run("a", run_body(thread_id="2", run_id="2"))) == "changed"


async def test_what_needs_a_restart_is_named_by_its_field(tmp_path: Path) -> None:
    async with reloadable(tmp_path, agent("a", HELLO)) as gateway:
        server = {"drain_seconds": 1, "api_keys": [{"name": "alice", "key": "alice-0123456789"}]}
        write_configuration(tmp_path, [agent("a", HELLO)], server=server, store="sqlite:///b.db")
        gateway.process.send_signal(signal.SIGHUP)
        [line] = await until_logged(gateway, "the configuration file has changes that need a restart")
        assert line["fields"] == ["server.api_keys", "server.drain_seconds", "store"]
        [taken] = await until_logged(gateway, TOOK_OVER)
        assert (taken["added"], taken["changed"], taken["removed"]) == ([], [], [])
        assert await agent_ids(gateway) == ["a"], "no key is asked for"


async def test_a_new_secret_is_masked_before_anything_runs_with_it(tmp_path: Path) -> None:
    secret = "the quick brown fox 4711"
    module = f"import logging\n\nlogging.getLogger('shop').warning('made with {secret}')\n"
    (tmp_path / "shop_of_secrets.py").write_text(module + "\n\ndef sell() -> str:\n    return 'x'\n")
    async with reloadable(tmp_path, agent("a", HELLO)) as gateway:
        tool = {"type": "PythonTool", "parameters": {"function": "shop_of_secrets:sell"}}
        keyed = {**HELLO, "headers": {"x-shop": secret}}
        write_configuration(tmp_path, [agent("a", HELLO), agent("b", keyed, tools=[tool])])
        gateway.process.send_signal(signal.SIGHUP)
        await until_logged(gateway, TOOK_OVER)
        await until_logged(gateway, "made with ***")
        assert secret not in gateway.log.read_text()


async def test_signals_while_the_file_is_read_read_it_once_more(tmp_path: Path) -> None:
    async with reloadable(tmp_path, agent("a", HELLO)) as gateway:
        for number in range(10):
            write_configuration(tmp_path, [agent("a", HELLO), agent(f"b{number}", HELLO)])
            gateway.process.send_signal(signal.SIGHUP)
        await until_answered(lambda: agent_ids(gateway), lambda ids: ids == ["a", "b9"])


@pytest.mark.skipif(sys.platform != "linux", reason="terminals are made as Linux does")
async def test_a_terminal_that_is_closed_ends_the_process_as_ever(tmp_path: Path) -> None:
    file = write_configuration(tmp_path, [agent("a", HELLO)])
    ours, theirs = os.openpty()
    # The first terminal that a session opens is its own. Who runs these tests under nohup hands the ignored signal on.
    command = (
        "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_DFL); os.open(sys.argv[1], os.O_RDWR);"
        " os.execv(sys.executable, sys.argv[2:])"
    )
    log = tmp_path / "gateway.log"
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", command, os.ttyname(theirs)),
            *(sys.executable, "-m", "gateway", "serve", "--config", str(file)),
            stdout=asyncio.subprocess.PIPE, stderr=errors, start_new_session=True,
        )  # fmt: skip
    os.close(theirs)
    said = b""
    try:
        assert process.stdout is not None
        async with asyncio.timeout(DEADLINE_SECONDS):
            said = await process.stdout.readline()
            assert b"serves" in said, log.read_text()
            os.close(ours)
            assert await process.wait() == 0, log.read_text()
    except TimeoutError:
        pytest.fail(f"exit code {process.returncode}, said {said!r}, log: {log.read_text()}")
    finally:
        if process.returncode is None:
            process.kill()
        async with asyncio.timeout(DEADLINE_SECONDS):
            await process.communicate()


async def test_an_agent_that_is_the_same_keeps_what_it_has_open(tmp_path: Path) -> None:
    others = ("text", "number", "secret")
    first = {"text": HELLO, "number": {**HELLO}, "secret": {**HELLO, "headers": {"x-shop": "one 4711 4711"}}}
    first["number"]["model_parameters"] = {**HELLO["model_parameters"], "delta_seconds": 0}
    async with local_gateway(tmp_path, [agent("same", HELLO), *(agent(id, first[id]) for id in others)]) as gateway:
        agents = gateway.application.driver.agents
        before = dict(agents)
        then = {"text": CHANGED, "number": {**HELLO}, "secret": {**HELLO, "headers": {"x-shop": "two 4711 4711"}}}
        then["number"]["model_parameters"] = {**HELLO["model_parameters"], "delta_seconds": 0.0}
        file = write_configuration(tmp_path, [agent("same", HELLO), *(agent(id, then[id]) for id in others)])
        changes = gateway.application.take_over(load_settings(Flags(config=file), environ={}).agents)
        assert changes == {"added": [], "changed": list(others), "removed": []}
        assert agents["same"] is before["same"]
        assert [id for id in others if agents[id] is before[id]] == []


async def test_the_agent_for_requests_that_name_none_may_change(tmp_path: Path) -> None:
    chosen = {"default_agent": "b"}
    async with local_gateway(tmp_path, [agent("a", HELLO), agent("b", HELLO)], server=chosen) as gateway:
        application = gateway.application
        assert application.driver.agents.default == "b"
        file = write_configuration(tmp_path, [agent("a", HELLO), agent("c", HELLO)], server={"default_agent": "c"})
        settings = load_settings(Flags(config=file), environ={})
        assert "server.default_agent" not in needing_restart(application.settings, settings)
        changes = application.take_over(settings.agents, settings.server.default_agent)
        assert changes == {"added": ["c"], "changed": [], "removed": ["b"], "default": ["c"]}
        assert application.driver.agents.default == "c"
        assert "default" not in application.take_over(settings.agents, "c")


# --- the command


async def test_the_command_finds_the_process_by_its_store(tmp_path: Path) -> None:
    store = tmp_path / "gateway.db"
    async with reloadable(tmp_path, agent("a", HELLO)) as gateway:
        assert serving_pid(store) == gateway.process.pid
        assert stat.S_IMODE(pid_file(store).stat().st_mode) == 0o600
        write_configuration(tmp_path, [agent("a", HELLO), agent("b", HELLO)])
        code, output = await reload_command(tmp_path)
        assert (code, f"process {gateway.process.pid} took over the agents of its file" in output) == (0, True)
        assert await agent_ids(gateway) == ["a", "b"]
        assert stat.S_IMODE(outcome_file(store, "reload").stat().st_mode) == 0o600
        assert await gateway.signal(signal.SIGTERM) == 0
    assert not pid_file(store).exists()
    assert not outcome_file(store, "reload").exists()
    code, output = await reload_command(tmp_path)
    assert (code, "no gateway serves the store" in output) == (1, True)


async def test_the_command_says_what_is_wrong_with_a_file_and_signals_nobody(tmp_path: Path) -> None:
    async with reloadable(tmp_path, agent("a", HELLO)) as gateway:
        (tmp_path / "gateway.yaml").write_text("agents:\n- id: a\n  model: {model_provider: demmo}\n")
        code, output = await reload_command(tmp_path)
        assert code == 1
        assert f"{tmp_path / 'gateway.yaml'}:3:11: agents[0].model.model_provider: " in output
        write_configuration(tmp_path, [agent("b", HELLO)])
        assert (await reload_command(tmp_path))[0] == 0
        assert await agent_ids(gateway) == ["b"]
        assert "nothing was changed" not in gateway.log.read_text()


async def test_the_command_says_what_has_changed_and_what_needs_a_restart(tmp_path: Path) -> None:
    async with reloadable(tmp_path, agent("a", HELLO), agent("b", HELLO), agent("c", HELLO)) as gateway:
        took_over = f"process {gateway.process.pid} took over the agents of its file:"
        assert await reload_command(tmp_path) == (0, f"{took_over}\n  no agent has changed\n")
        server = {"drain_seconds": 1, "max_waiting_runs": 3}
        write_configuration(tmp_path, [agent("b", CHANGED), agent("c", HELLO), agent("d", HELLO)], server=server)
        changes = ["added: d", "changed: b", "removed: a"]
        restart = "a restart is needed for: server.drain_seconds, server.max_waiting_runs"
        assert await reload_command(tmp_path) == (0, "\n  ".join([took_over, *changes, restart]) + "\n")


async def test_the_command_says_why_the_process_refuses_a_file_that_the_command_itself_takes(tmp_path: Path) -> None:
    async with reloadable(tmp_path, agent("a", HELLO)) as gateway:
        write_configuration(tmp_path, [agent("b", {**HELLO, "headers": {"x-shop": "${env:ONLY_THE_COMMAND_HAS_IT}"}})])
        code, output = await reload_command(tmp_path, env={"ONLY_THE_COMMAND_HAS_IT": "4711 4711 4711"})
        assert (code, f"process {gateway.process.pid} changed nothing:\n" in output) == (1, True)
        assert "agents[0].model.headers.x-shop: " in output
        assert "ONLY_THE_COMMAND_HAS_IT" in output
        assert await agent_ids(gateway) == ["a"]


async def test_the_command_does_not_take_an_earlier_outcome_for_its_own(tmp_path: Path) -> None:
    async with reloadable(tmp_path, agent("a", HELLO)) as gateway:
        await reload_command(tmp_path)
        write_configuration(tmp_path, [agent("a", HELLO), agent("b", HELLO)])
        gateway.process.send_signal(signal.SIGSTOP)  # it hears nothing until it goes on
        code, output = await reload_command(tmp_path, "--timeout", "0.2")
        assert (code, f"process {gateway.process.pid} did not say within 0.2 seconds" in output) == (1, True)
        gateway.process.send_signal(signal.SIGCONT)
        code, output = await reload_command(tmp_path)
        assert code == 0
        assert await agent_ids(gateway) == ["a", "b"]


@pytest.mark.skipif(sys.platform != "linux", reason="it is seen in /proc that the signal was sent")
async def test_the_command_does_not_wait_for_a_process_that_ends(tmp_path: Path) -> None:
    async with reloadable(tmp_path, agent("a", HELLO)) as gateway:
        gateway.process.send_signal(signal.SIGSTOP)
        asked = asyncio.create_task(reload_command(tmp_path, "--timeout", "60"))
        async with asyncio.timeout(DEADLINE_SECONDS):
            while signal.SIGHUP not in pending_signals(gateway.process.pid):
                await asyncio.sleep(0)
        gateway.process.kill()
        code, output = await asked
        assert (code, f"process {gateway.process.pid} ended before it had read its file again" in output) == (1, True)


async def test_what_a_killed_process_left_behind_is_no_process(tmp_path: Path) -> None:
    store = tmp_path / "gateway.db"
    async with reloadable(tmp_path, agent("a", HELLO)) as gateway:
        await gateway.signal(signal.SIGKILL)
    pid_file(store).write_text(f"{os.getpid()}\n")  # as if the number were this process's by now, which it would end
    code, output = await reload_command(tmp_path)
    assert (code, "no gateway serves the store" in output) == (1, True)
    async with reloadable(tmp_path, agent("a", HELLO)) as gateway:
        assert serving_pid(store) == gateway.process.pid


async def test_a_store_without_a_file_has_no_process_to_find(tmp_path: Path) -> None:
    write_configuration(tmp_path, [agent("a", HELLO)], store="sqlite://:memory:")
    code, output = await reload_command(tmp_path)
    assert (code, "send it SIGHUP" in output) == (1, True)
