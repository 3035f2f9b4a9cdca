"""The model provider, the tool and the store of docs/architecture.md: each is one file, comes alive and is typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.configuration.known_parts import known_parts
from tests.documentation import snippet
from tests.newcomers import file_in_room, what_mypy_says
from tests.running_gateway import agent, local_gateway, run_body, scripted

EXAMPLES = {
    "echo.py": snippet("docs/architecture.md", "python", "PROVIDER = "),
    "dice.py": snippet("docs/architecture.md", "python", "TOOL_TYPE = "),
    "audited.py": snippet("docs/architecture.md", "python", "STORE = "),
}


async def test_the_provider_repeats_the_last_message(tmp_path: Path) -> None:
    with file_in_room(EXAMPLES["echo.py"], tmp_path):
        parrot = agent("parrot", {"model_provider": "echo"})
        async with local_gateway(tmp_path, [parrot], parts=known_parts()) as gateway:
            frames = await gateway.client.run("parrot", run_body("Say it again"))

    assert [frame.data["delta"] for frame in frames if frame.type == "TEXT_MESSAGE_CONTENT"] == ["Say it again"]
    assert frames[-1].type == "RUN_FINISHED"


async def test_the_tool_is_called_with_arguments_that_fit_its_schema(tmp_path: Path) -> None:
    calls = [{"tool": "dice", "arguments": {"sides": sides}} for sides in (1, 6)]
    with file_in_room(EXAMPLES["dice.py"], tmp_path):
        player = agent("player", scripted(calls, [{"text": "Done."}]), tools=[{"type": "DiceTool"}])
        async with local_gateway(tmp_path, [player], parts=known_parts()) as gateway:
            frames = await gateway.client.run("player", run_body("Roll"))

    refused, rolled = [frame.data["content"] for frame in frames if frame.type == "TOOL_CALL_RESULT"]
    assert "sides" in refused
    assert 1 <= int(rolled) <= 6


async def test_the_store_keeps_runs_over_a_restart_and_logs_each(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "audit")
    threads: list[str] = []
    with file_in_room(EXAMPLES["audited.py"], tmp_path):
        for number in (1, 2):
            agents = [agent("a", scripted([{"text": "hello"}]))]
            store = "audited:///kept.db"
            async with local_gateway(tmp_path, agents, parts=known_parts(), store=store) as gateway:
                await gateway.client.run("a", run_body(thread_id=f"t{number}", run_id=f"r{number}"))
                threads = [thread["id"] for thread in (await gateway.client.get("/threads"))["threads"]]

    assert threads == ["t2", "t1"]
    lines = [record.__dict__ for record in caplog.records if record.name == "audit"]
    assert [(line["run_id"], line["status"]) for line in lines] == [("r1", "completed"), ("r2", "completed")]


@pytest.mark.timeout(300)  # without a cache the whole package is read
@pytest.mark.parametrize("name", EXAMPLES)
def test_it_is_typed(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(EXAMPLES[name], "utf-8")
    assert what_mypy_says(path) == ""
