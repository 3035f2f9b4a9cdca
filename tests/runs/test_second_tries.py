"""What is no second try: a request whose run failed before it took anything in."""

from __future__ import annotations

from gateway.messages import Message, TextBlock, ToolResult
from gateway.runs.second_tries import is_second_try
from tests.agent_inputs import agent_input
from tests.runner_scene import HANGS, OWNER, agent_of, question, runner_scene


async def test_a_result_that_waited_when_the_gateway_was_stopped_is_not_taken_for_stored() -> None:
    result = Message("m2", "tool", (ToolResult("c1", (TextBlock("yes"),)),))
    async with runner_scene(agent_of("a", HANGS, on_concurrent_run="enqueue")) as scene:
        await scene.start("a", question(run_id="r1"))
        given = agent_input("t", "r2", (result,), history="append")
        await scene.start("a", given)
        await scene.runner.driver.shut_down(0)
        thread = await scene.store.load_thread(OWNER, given.thread.id)
        assert thread is not None
        assert thread.last_run_id == "r2"
        assert (await scene.runner.run(OWNER, "r2")).error_code == "server_shutdown"
        assert all(message.role != "tool" for message in thread.messages)
        assert not await is_second_try(scene.store, thread, "a", given)
