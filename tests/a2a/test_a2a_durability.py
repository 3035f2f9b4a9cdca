"""A2A's tasks outlive the process that works on them."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.a2a_scene import A2AClient, of_agent, said, state_of, words_of
from tests.openai_scene import REFUNDER, SLOW, WORDS
from tests.running_gateway import gateway_process, write_configuration
from tests.waiting import until_answered

AT_ONCE = {"returnImmediately": True}


async def test_a_killed_gateway_leaves_no_task_at_work(tmp_path: Path) -> None:
    path = write_configuration(tmp_path, [WORDS, SLOW, REFUNDER])
    async with gateway_process(path) as gateway:
        a2a = A2AClient(gateway.client)
        slow = (await a2a.call("SendMessage", said("go", configuration=AT_ONCE), to=of_agent("slow")))["task"]
        queued = said("then", configuration=AT_ONCE, contextId=slow["contextId"])
        behind = (await a2a.call("SendMessage", queued))["task"]
        done = (await a2a.call("SendMessage", said("hello")))["task"]
        waiting = (await a2a.call("SendMessage", said("refund"), to=of_agent("refunder")))["task"]
        await until_answered(lambda: a2a.task(slow["id"]), lambda task: words_of(task) == "word by word")
        await gateway.signal(signal.SIGKILL)
    async with gateway_process(path) as gateway:
        a2a = A2AClient(gateway.client)
        lists = [
            (await a2a.call("ListTasks", {"includeArtifacts": True}, to=of_agent(agent_id)))["tasks"]
            for agent_id in ("slow", "words", "refunder")
        ]
        listed = [task for tasks in lists for task in tasks]
        states = {task["id"]: state_of(task) for task in listed}
        assert states == {
            slow["id"]: "FAILED",
            behind["id"]: states[behind["id"]],
            done["id"]: "COMPLETED",
            waiting["id"]: "INPUT_REQUIRED",
        }
        assert states[behind["id"]] not in ("WORKING", "SUBMITTED")
        failed = await a2a.task(slow["id"])
        assert (words_of(failed), bool(failed["status"]["message"]["parts"][0]["text"])) == ("word by word", True)
        assert (await a2a.call("ListTasks", {"status": "TASK_STATE_WORKING"}, to=of_agent("slow")))["tasks"] == []
        approved = (await a2a.call("SendMessage", said("approve", taskId=waiting["id"])))["task"]
    assert (state_of(approved), "refunded" in words_of(approved)) == ("COMPLETED", True)
