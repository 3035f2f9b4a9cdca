"""One run over a real socket, in both ways of having a gateway."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.running_gateway import (
    NEW_INTERPRETER,
    agent,
    gateway_process,
    local_gateway,
    run_body,
    scripted,
    write_configuration,
)

HELLO = agent("greeter", scripted([{"text": "Hello there"}]))
TEXT_RUN = ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED"]


async def test_a_text_run_streams_from_start_to_end(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [HELLO]) as gateway:
        frames = await gateway.client.run("greeter", run_body("hi"))

    assert [frame.type for frame in frames] == TEXT_RUN
    assert frames[2].data["delta"] == "Hello there"
    ids = [frame.id for frame in frames if frame.id is not None]
    assert ids == sorted(set(ids))


async def test_a_process_serves_a_run_and_ends_well_at_sigterm(tmp_path: Path) -> None:
    configuration = write_configuration(tmp_path, [HELLO])
    async with gateway_process(configuration, program=NEW_INTERPRETER) as gateway:
        frames = await gateway.client.run("greeter", run_body("hi"))
        code = await gateway.signal(signal.SIGTERM)

    assert [frame.type for frame in frames] == TEXT_RUN
    assert code == 0
    assert "Traceback" not in gateway.log.read_text()
