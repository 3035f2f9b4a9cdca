"""Threads that an agent, a request or their owner brings into a collection: whatever writes a message, it is found."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from gateway.access.callers import Caller
from gateway.access.limits import Meter
from gateway.errors import ConflictError
from gateway.events import Event, RunStarted, TextDelta, TextStarted
from gateway.frozen import replace
from gateway.messages import Message, TextBlock
from gateway.protocol import ProtocolEnvironment
from gateway.records import encode_events
from gateway.sse import OpenStreams
from gateway.store import RunRecord, RunStatus, ThreadChange
from tests.agent_inputs import changed
from tests.collected_words import CollectedWords, documented
from tests.runner_scene import OWNER, SAYS_HELLO, Scene, agent_of, question, read, runner_scene

ME = Caller(OWNER)


@asynccontextmanager
async def collecting() -> AsyncGenerator[tuple[Scene, ProtocolEnvironment]]:
    """`a` has a collection, `plain` has none."""
    agents = replace(agent_of("a", SAYS_HELLO), about={"collection": "c1"}), agent_of("plain", SAYS_HELLO)
    async with runner_scene(*agents, thread_documents=CollectedWords()) as scene:
        yield scene, ProtocolEnvironment(scene.runner, OpenStreams(), Meter(scene.clock, "runs"))


async def texts(scene: Scene, thread_id: str = "t") -> list[object]:
    return [text for _, text in await documented(scene.store, thread_id, OWNER)]


async def collection(environment: ProtocolEnvironment, thread_id: str = "t") -> str:
    return (await environment.thread(ME, thread_id)).collection


def said(name: str, text: str) -> Message:
    return Message(name, "user", (TextBlock(text),))


async def test_an_agents_runs_bring_their_threads_into_its_collection() -> None:
    async with collecting() as (scene, environment):
        await read(await environment.start(ME, "a", question("Who is it?")))
        assert await collection(environment) == "c1"
        assert await texts(scene) == ["Who is it?", "hello there"]
        await environment.append_messages(ME, "t", [said("m1", "A remark.")])
        assert await texts(scene) == ["Who is it?", "hello there", "A remark."]


async def test_threads_of_other_agents_are_in_none() -> None:
    async with collecting() as (scene, environment):
        await read(await environment.start(ME, "plain", question("Who is it?")))
        assert await collection(environment) == ""
        assert await texts(scene) == []
        await read(await environment.start(ME, "a", question("And now?", run_id="r2", history="append")))
        assert await collection(environment) == "c1"
        assert await texts(scene) == ["Who is it?", "hello there", "And now?", "hello there"]


async def test_a_request_names_a_collection_in_place_of_the_agents() -> None:
    async with collecting() as (scene, environment):
        await read(await environment.start(ME, "a", changed(question("One"), collection="c2")))
        assert await collection(environment) == "c2"
        again = question("Two", run_id="r2", history="append")
        with pytest.raises(ConflictError, match="another memory container"):
            await environment.start(ME, "a", again)
        await read(await environment.start(ME, "a", changed(again, collection="c2")))
        await read(await environment.start(ME, "plain", question("Three", run_id="r3", history="append")))
        assert await collection(environment) == "c2", "a thread stays where it is"
        assert await texts(scene) == ["One", "hello there", "Two", "hello there", "Three", "hello there"]


async def test_an_edit_and_a_fork_are_found_as_they_are_shown() -> None:
    async with collecting() as (scene, environment):
        await environment.create_thread(ME, "t", [said("m1", "One"), said("m2", "Two")], collection="c3")
        assert await texts(scene) == ["One", "Two"]
        fork = await environment.fork(ME, "t", "m1")
        assert await collection(environment, fork) == "c3"
        assert await texts(scene, fork) == ["One"]
        edited = changed(question(), messages=(said("m1", "One"), said("m3", "Three")))
        await read(await environment.start(ME, "plain", edited))
        assert await texts(scene) == ["One", "Three", "hello there"]
        await environment.select_version(ME, "t", 1)
        assert await texts(scene) == ["One", "Two"]
        assert await texts(scene, fork) == ["One"]


async def test_an_owner_brings_a_thread_into_a_collection() -> None:
    async with collecting() as (scene, environment):
        await environment.create_thread(ME, "t", [said("m1", "One")])
        await environment.update_thread(ME, "t", ThreadChange(collection="c4"))
        assert await texts(scene) == ["One"]
        await environment.delete(ME, "t")
        assert await texts(scene) == []


async def test_what_a_run_said_before_its_process_ended_is_found_with_its_end() -> None:
    async with collecting() as (scene, environment):
        await environment.create_thread(ME, "t", [said("m1", "One")], collection="c1")
        thread = await scene.store.load_thread(OWNER, "t")
        assert thread is not None
        record = RunRecord(OWNER, "lost", "t", "a", RunStatus.RUNNING, 1.0, 1.0)
        events: list[Event] = [
            RunStarted("t", "lost"),
            TextStarted("m2"),
            TextDelta("m2", "cut o"),
        ]
        held = replace(thread, last_run_id="lost")
        await scene.store.begin_run(record, held, keep=1, records=encode_events(events))
        await scene.runner.driver.recover()
        assert await texts(scene) == ["One", "cut o"]
