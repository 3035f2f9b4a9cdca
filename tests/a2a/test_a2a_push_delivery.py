"""Push notifications: what a receiver gets of a task, and what becomes of receivers that do not take it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import pytest
from a2a.compat.v0_3 import types

from gateway.a2a.dialects import Dialect
from gateway.a2a.push_delivery import PushDelivery
from gateway.events import Events, ModelCallAccepted, ModelCallStarted
from gateway.loop import LoopContext
from gateway.runs.driver import RunOptions
from tests.a2a_push_scene import (
    ALICE,
    CONFIG,
    CREDENTIALS,
    REFUSED,
    TAKEN,
    TASK,
    THREAD,
    TOKEN,
    asking_agent,
    kinds,
    push_scene,
    received_of,
    words_of,
)
from tests.openai_chat_server import Script
from tests.runner_scene import HANGS, SAYS_HELLO, agent_of
from tests.waiting import until

DELTA_SECONDS = 1 / 64  # which adds up without rounding
LONG: list[list[dict[str, Any]]] = [[{"text": "word " * 200, "chunk_characters": 5, "delta_seconds": DELTA_SECONDS}]]


async def test_a_receiver_gets_each_state_and_each_finished_artifact_in_order() -> None:
    async with push_scene(agent_of("a", SAYS_HELLO)) as scene:
        scene.receiver.answers(TAKEN, TAKEN, TAKEN)
        await scene.begin("a", CONFIG)
        bodies = await scene.posted(3)
        await scene.until_quiet()

        assert kinds(bodies) == ["WORKING", "artifact", "COMPLETED"]
        assert words_of(bodies[1]) == "hello there"
        assert bodies[1]["artifactUpdate"]["lastChunk"] is True
        assert "append" not in bodies[1]["artifactUpdate"]
        assert all(next(iter(body.values()))["taskId"] == TASK for body in bodies)
        assert len(scene.receiver.requests) == 3
        for request in scene.receiver.requests:
            assert (request.method, request.target) == ("POST", "/hook")
            assert request.headers["content-type"] == "application/json"
            assert request.headers["x-a2a-notification-token"] == TOKEN
            assert request.headers["authorization"] == f"Bearer {CREDENTIALS}"


async def test_without_token_and_credentials_no_such_header_is_sent() -> None:
    async with push_scene(agent_of("a", SAYS_HELLO)) as scene:
        scene.receiver.answers(TAKEN)
        await scene.begin("a", {"url": CONFIG["url"], "authentication": {"scheme": "Bearer"}})
        request = await scene.receiver.received()
        assert not {"authorization", "x-a2a-notification-token"} & request.headers.keys()


async def test_what_is_not_taken_is_posted_three_times_with_pauses_before_the_next_is() -> None:
    async with push_scene(agent_of("a", SAYS_HELLO)) as scene:
        clock = scene.runs.clock
        scene.receiver.answers(REFUSED, Script(pieces=(), ending="reset", raw=b""), TAKEN, TAKEN, TAKEN)
        await scene.begin("a", CONFIG)
        for number, pause in ((1, 1), (2, 5)):
            await scene.receiver.received(number)
            await clock.until_timer(pause)
            assert len(scene.receiver.requests) == number
            await clock.advance(pause)
        assert kinds(await scene.posted(5)) == ["WORKING", "WORKING", "WORKING", "artifact", "COMPLETED"]


async def test_a_receiver_that_did_not_take_one_gets_the_whole_task_at_its_end_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with push_scene(agent_of("a", SAYS_HELLO)) as scene:
        clock = scene.runs.clock
        scene.receiver.answers(REFUSED, REFUSED, Script(302, headers=[("location", "/elsewhere")]), TAKEN)
        with caplog.at_level(logging.WARNING):
            await scene.begin("a", CONFIG)
            for number, pause in ((1, 1), (2, 5)):
                await scene.receiver.received(number)
                await clock.until_timer(pause)
                await clock.advance(pause)
            bodies = await scene.posted(4)
            await scene.until_quiet()

        assert kinds(bodies) == ["WORKING"] * 3 + ["task COMPLETED"]
        assert words_of(bodies[3]) == "hello there"
        assert [request.target for request in scene.receiver.requests] == ["/hook"] * 4, "no redirect is followed"
        [entry] = [each for each in caplog.records if each.message == "a push notification was not taken"]
        assert entry.__dict__["reason"] == "the answer was status 302"
        assert TOKEN not in caplog.text
        assert not any(secret in str(each.__dict__) for each in caplog.records for secret in (TOKEN, CREDENTIALS))


async def test_a_receiver_that_hangs_holds_up_neither_the_run_nor_another_receiver() -> None:
    async with push_scene(agent_of("a", SAYS_HELLO)) as scene:
        clock = scene.runs.clock
        never = Script(headers_after=asyncio.Event())
        # the receivers' requests come in any order: all hang but those of the other one
        scene.receiver.answers(never)
        await scene.begin("a", {**CONFIG, "id": "hangs", "url": "http://media.example/hangs"})
        await scene.receiver.received()
        await scene.until_ended()

        scene.receiver.answers(TAKEN, TAKEN, TAKEN)
        await scene.put({**CONFIG, "id": "other"}, first_run=TASK)
        await scene.receiver.received(4)
        others = received_of(scene.receiver, "/hook")
        assert kinds([request.json for request in others]) == ["WORKING", "artifact", "COMPLETED"]
        await until(lambda: len(scene.push._followers) == 1)  # else time runs out for the last answer to it, too

        scene.receiver.answers(TAKEN, TAKEN, TAKEN)
        await clock.until_timer(10)
        await clock.advance(10)
        await clock.until_timer(1)
        await clock.advance(1)
        await scene.until_quiet()
        hung = received_of(scene.receiver, "/hangs")
        assert kinds([request.json for request in hung]) == ["WORKING", "WORKING", "artifact", "COMPLETED"]


async def test_a_slow_receiver_of_a_long_answer_misses_nothing_though_it_falls_behind() -> None:
    async with push_scene(agent_of("a", LONG), options=RunOptions(max_viewer_events=10)) as scene:
        waits = asyncio.Event()
        scene.receiver.answers(Script(headers_after=waits), TAKEN, TAKEN)
        await scene.begin("a", CONFIG)
        await scene.receiver.received()
        clock = scene.runs.clock
        while not (await scene.run()).status.ended:
            # time passes only while the model waits for it: the receiver's runs out, too
            await clock.advance(DELTA_SECONDS if min(clock.pending) <= DELTA_SECONDS else 0)
        waits.set()
        bodies = await scene.posted(3)
        assert kinds(bodies) == ["WORKING", "artifact", "COMPLETED"]
        assert words_of(bodies[1]) == "word " * 200


async def test_a_deleted_config_is_posted_nothing_more(caplog: pytest.LogCaptureFixture) -> None:
    async with push_scene(agent_of("a", HANGS)) as scene:
        scene.receiver.answers(TAKEN, TAKEN)
        await scene.begin("a", CONFIG)
        await scene.posted(2)
        await scene.push.delete(ALICE, TASK, "hook")
        await scene.push.delete(ALICE, TASK, "hook")
        await scene.environment.cancel(ALICE, TASK)
        await scene.until_quiet()
        assert len(scene.receiver.requests) == 2
        assert not [each for each in caplog.records if each.levelno >= logging.WARNING], "it is what was asked for"


async def test_a_name_that_begins_to_lead_inside_is_not_reached(caplog: pytest.LogCaptureFixture) -> None:
    async with push_scene(agent_of("a", SAYS_HELLO)) as scene:
        clock = scene.runs.clock
        scene.net.names["media.example"] = ["10.0.0.1"]
        await scene.begin("a", CONFIG)
        for _ in range(2):
            for pause in (1, 5):
                await clock.until_timer(pause)
                await clock.advance(pause)
        await scene.until_quiet()
        assert not scene.receiver.requests
        assert "10.0.0.1" not in caplog.text
        scene.receiver.answers(TAKEN)
        await scene.push.sweep()
        await scene.until_quiet()
        assert not scene.receiver.requests, "it was given up"


async def test_a_config_of_a_task_at_work_gets_all_of_its_run() -> None:
    async with push_scene(agent_of("a", HANGS)) as scene:
        scene.receiver.answers(TAKEN, TAKEN, TAKEN)
        await scene.begin("a")
        await scene.put()
        await scene.posted(2)
        await scene.environment.cancel(ALICE, TASK)
        assert kinds(await scene.posted(3)) == ["WORKING", "artifact", "CANCELED"]


async def test_a_config_of_an_ended_task_is_kept_and_posted_nothing() -> None:
    async with push_scene(agent_of("a", SAYS_HELLO)) as scene:
        await scene.begin("a")
        await scene.until_ended()
        await scene.put()
        await scene.push.sweep()
        await scene.until_quiet()
        assert not scene.receiver.requests


@pytest.mark.parametrize(
    ("run_id", "origin"), [(f"{TASK}_2", "a2a"), ("run-of-ag-ui", "")], ids=["over A2A", "over another protocol"]
)
async def test_the_run_that_goes_on_where_the_task_waited_is_posted_too(run_id: str, origin: str) -> None:
    async with push_scene(asking_agent("a")) as scene:
        scene.receiver.answers(*[TAKEN] * 9)
        await scene.begin("a", CONFIG)
        assert kinds(await scene.posted(2)) == ["WORKING", "INPUT_REQUIRED"]
        await scene.until_ended()
        await scene.until_quiet()
        await scene.begin("a", run_id=run_id, origin=origin, text="thanks")
        bodies = await scene.posted(5)
        await scene.until_ended(run_id)
        await scene.until_quiet()
        assert kinds(bodies[2:]) == ["WORKING", "artifact", "COMPLETED"]
        assert {next(iter(body.values()))["taskId"] for body in bodies} == {TASK}
        assert len(scene.receiver.requests) == 5


async def test_another_task_of_the_context_is_not_posted() -> None:
    async with push_scene(asking_agent("a")) as scene:
        scene.receiver.answers(*[TAKEN] * 9)
        await scene.begin("a", CONFIG)
        await scene.posted(2)
        await scene.until_ended()
        await scene.begin("a", task_id="task_" + "b" * 32)
        await scene.until_ended("task_" + "b" * 32)
        await scene.until_quiet()
        assert len(scene.receiver.requests) == 2


async def test_receivers_of_0_3_get_the_task_whenever_its_state_changes() -> None:
    async with push_scene(agent_of("a", HANGS)) as scene:
        scene.receiver.answers(TAKEN, TAKEN)
        config = {"url": CONFIG["url"], "token": TOKEN, "authentication": {"schemes": ["Basic"], "credentials": "x"}}
        await scene.begin("a", config, dialect=Dialect.V03)
        request = await scene.receiver.received()
        assert request.headers["authorization"] == "Basic x"
        await scene.environment.cancel(ALICE, TASK)
        tasks = [types.Task.model_validate(body) for body in await scene.posted(2)]
        assert [task.status.state.value for task in tasks] == ["working", "canceled"]
        assert [task.id for task in tasks] == [TASK, TASK]


async def test_what_an_earlier_process_left_is_posted_once_as_the_whole_task() -> None:
    async with push_scene(agent_of("a", SAYS_HELLO)) as scene:
        scene.receiver.answers(Script(headers_after=asyncio.Event()))
        await scene.begin("a", CONFIG)
        await scene.receiver.received()
        await scene.push.close()
        await scene.until_ended()

        scene.receiver.answers(TAKEN, TAKEN)
        after = PushDelivery(scene.environment)
        await after.sweep()
        bodies = await scene.posted(2)
        await until(lambda: not after._followers)
        assert kinds(bodies) == ["WORKING", "task COMPLETED"]
        assert words_of(bodies[1]) == "hello there"

        await after.sweep()
        await PushDelivery(scene.environment).sweep()
        await until(lambda: not after._followers)
        assert len(scene.receiver.requests) == 2


async def test_a_task_that_waited_through_a_restart_is_posted_as_it_goes_on() -> None:
    async with push_scene(asking_agent("a")) as scene:
        scene.receiver.answers(*[TAKEN] * 5)
        await scene.begin("a", CONFIG)
        await scene.posted(2)
        await scene.until_ended()
        await scene.until_quiet()
        await scene.push.close()

        after = PushDelivery(scene.environment)
        await after.sweep()
        await until(lambda: not after._followers)
        assert len(scene.receiver.requests) == 2
        await scene.begin("a", run_id=f"{TASK}_2", text="thanks")
        assert kinds((await scene.posted(5))[2:]) == ["WORKING", "artifact", "COMPLETED"]
        await after.close()


async def test_configs_go_with_the_thread_of_their_task(caplog: pytest.LogCaptureFixture) -> None:
    async with push_scene(agent_of("a", HANGS)) as scene:
        scene.receiver.answers(*[TAKEN] * 3)
        await scene.begin("a", CONFIG)
        await scene.posted(2)
        await scene.environment.delete(ALICE, THREAD)
        await scene.until_quiet()
        assert await scene.push.all(ALICE, TASK, Dialect.V1) == []
        last = [request.json for request in scene.receiver.requests[2:]]
        assert kinds(last) in ([], ["CANCELED"]), "the run is stopped first, and its end may be posted meanwhile"
        assert not [each for each in caplog.records if each.levelno >= logging.WARNING], "it is what was asked for"


async def test_a_sweep_forgets_a_task_that_waited_and_was_deleted() -> None:
    async with push_scene(asking_agent("a")) as scene:
        scene.receiver.answers(*[TAKEN] * 5)
        await scene.begin("a", CONFIG)
        await scene.posted(2)
        await scene.until_ended()
        await scene.until_quiet()
        assert scene.push._open
        await scene.environment.delete(ALICE, THREAD)
        await scene.push.sweep()
        await scene.until_quiet()
        assert not scene.push._open


class LeftLoop:
    """Its model's answer can be taken up by the next process, and never comes."""

    async def run(self, context: LoopContext) -> AsyncGenerator[Events]:
        yield [ModelCallStarted("turn", "p", "m"), ModelCallAccepted("resp_1", {})]
        await asyncio.Event().wait()


async def test_the_end_of_a_run_that_is_left_to_the_next_process_is_posted_by_that() -> None:
    async with push_scene(replace(agent_of("a", []), loop=LeftLoop())) as scene:
        scene.receiver.answers(*[TAKEN] * 5)
        await scene.begin("a", CONFIG)
        assert kinds(await scene.posted(1)) == ["WORKING"]
        await scene.runs.clock.until(lambda: scene.runs.runner.driver.runs["alice", TASK].accepted)
        await scene.runs.runner.driver.shut_down(0)
        await scene.until_quiet()

        after = PushDelivery(scene.environment)
        await scene.runs.runner.driver.recover()  # nobody has the answer
        await after.sweep()
        assert kinds(await scene.posted(2)) == ["WORKING", "task FAILED"]
        await until(lambda: not after._followers)


async def test_configs_of_tasks_that_ended_a_week_ago_are_forgotten() -> None:
    async with push_scene(agent_of("a", SAYS_HELLO)) as scene:
        scene.receiver.answers(TAKEN, TAKEN, TAKEN)
        await scene.begin("a", CONFIG)
        await scene.posted(3)
        await scene.until_quiet()
        for days, left in ((6.9, 1), (0.2, 0)):
            await scene.runs.clock.advance(days * 86_400)
            await scene.push.sweep()
            assert len(await scene.push.all(ALICE, TASK, Dialect.V1)) == left


async def test_one_caller_has_at_most_16_requests_under_way() -> None:
    async with push_scene(agent_of("a", SAYS_HELLO)) as scene:
        released = asyncio.Event()
        scene.receiver.answers(*[Script(202, headers_after=released)] * 24)
        configs = [{**CONFIG, "id": f"hook-{number}"} for number in range(8)]
        for letter in "abc":
            await scene.begin("a", *configs, task_id=f"task_{letter * 32}", thread_id=f"ctx_{letter}")
        await scene.receiver.received(16)
        await scene.runs.clock.settle()
        assert len(scene.receiver.requests) == 16
        scene.receiver.answers(*[TAKEN] * 48)
        released.set()
        await scene.receiver.received(72)
