"""What the runner keeps of runs that are over: what they remember, what of them is forgotten."""

from __future__ import annotations

import pytest

from gateway.errors import ConflictError, NotFoundError, TooLargeError
from gateway.events import RunFinished
from gateway.frozen import replace
from gateway.runs.limits import MOST_REQUEST_BYTES
from gateway.store import RunRecord, RunStatus, Thread
from tests.agent_inputs import changed
from tests.runner_scene import HANGS, OWNER, SAYS_HELLO, Scene, agent_of, end_of, question, read, runner_scene


async def ids_of_runs(scene: Scene, thread_id: str = "t") -> list[str]:
    page = await scene.runner.thread_runs(OWNER, thread_id, limit=10, cursor=None)
    return [record.run_id for record in page.items]


async def test_a_run_remembers_its_protocol_its_request_and_its_threads_end() -> None:
    async with runner_scene(agent_of("a", SAYS_HELLO)) as scene:
        asked = changed(question(), protocol="some_protocol", request={"metadata": {"a": 1}})
        await read(await scene.start("a", asked))
        record = await scene.runner.run(OWNER, "r")
        assert (record.origin, record.request) == ("some_protocol", {"metadata": {"a": 1}})
        thread = await scene.store.load_thread(OWNER, "t")
        assert thread is not None
        assert (record.thread_version, record.thread_length) == (1, 2)
        assert record.last_message_id == thread.messages[-1].id
        await read(await scene.start("a", question(run_id="r2", history="append")))
        assert (await scene.runner.run(OWNER, "r2")).thread_length == 4
        assert await scene.runner.run(OWNER, "r") == record


async def test_a_run_under_way_has_no_end_of_its_thread_yet() -> None:
    async with runner_scene(agent_of("a", HANGS)) as scene:
        await scene.start("a", question())
        record = await scene.runner.run(OWNER, "r")
        assert (record.thread_length, record.last_message_id) == (None, None)


async def test_a_run_that_the_last_process_left_behind_knows_its_threads_end_too() -> None:
    async with runner_scene(agent_of("a", SAYS_HELLO)) as scene:
        thread = Thread(OWNER, "t", "a", 1.0, 1.0, messages=question().sent.messages, last_run_id="r")
        await scene.store.begin_run(RunRecord(OWNER, "r", "t", "a", RunStatus.RUNNING, 1.0, 1.0), thread, keep=0)
        await scene.runner.driver.recover()
        record = await scene.runner.run(OWNER, "r")
        assert (record.status, record.thread_length) == (RunStatus.FAILED, 1)
        assert record.last_message_id == question().sent.messages[0].id


async def test_more_is_not_remembered_of_a_request_than_a_record_may_hold() -> None:
    async with runner_scene(agent_of("a", SAYS_HELLO)) as scene:
        with pytest.raises(TooLargeError):
            await scene.start("a", changed(question(), request={"a": "x" * MOST_REQUEST_BYTES}))
        with pytest.raises(NotFoundError):
            await scene.runner.run(OWNER, "r")


async def test_a_threads_runs_are_listed_and_an_unknown_thread_has_none() -> None:
    async with runner_scene(agent_of("a", SAYS_HELLO)) as scene:
        with pytest.raises(NotFoundError):
            await ids_of_runs(scene)
        for number in range(3):
            await read(await scene.start("a", question(run_id=f"r{number}", history="append")))
        assert await ids_of_runs(scene) == ["r2", "r1", "r0"]


async def test_a_run_that_is_forgotten_leaves_its_words_and_its_id() -> None:
    async with runner_scene(agent_of("a", SAYS_HELLO)) as scene:
        for number in range(2):
            await read(await scene.start("a", question(run_id=f"r{number}", history="append")))
        thread = await scene.store.load_thread(OWNER, "t")
        for run_id in ("r1", "r0"):
            await scene.runner.delete_run(OWNER, run_id)
            with pytest.raises(NotFoundError):
                await scene.runner.run(OWNER, run_id)
            with pytest.raises(NotFoundError):
                await scene.runner.delete_run(OWNER, run_id)
        assert await scene.store.load_thread(OWNER, "t") == thread
        assert await ids_of_runs(scene) == []
        shown = await read(await scene.runner.connect(OWNER, "a", question(run_id="x")))
        assert isinstance(end_of(shown), RunFinished), "the thread's last run is not there any more"
        await read(await scene.start("a", question(run_id="r0", history="append")))
        assert await ids_of_runs(scene) == ["r0"]


async def test_all_runs_that_clients_know_by_an_id_are_forgotten_with_it() -> None:
    async with runner_scene(agent_of("a", SAYS_HELLO)) as scene:
        await read(await scene.start("a", question()))
        first = await scene.store.load_run(OWNER, "r")
        await scene.store.queue_run(replace(first, run_id="own", reused_id="r", started_at=None))
        assert await ids_of_runs(scene) == ["own", "r"]
        await scene.runner.delete_run(OWNER, "r")
        assert await ids_of_runs(scene) == []


async def test_a_run_under_way_is_not_forgotten() -> None:
    async with runner_scene(agent_of("a", HANGS)) as scene:
        await scene.start("a", question())
        with pytest.raises(ConflictError) as refused:
            await scene.runner.delete_run(OWNER, "r")
        assert refused.value.code == "run_not_ended"
        assert await scene.status("r") == "running"
