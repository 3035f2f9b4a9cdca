"""Retention policies of memory containers: what is due goes, by itself and when it is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway.access.callers import Caller
from gateway.access.limits import Meter
from gateway.messages import JsonObject, Message, TextBlock
from gateway.ml_memory import memory_containers
from gateway.ml_memory.container_memories import ContainerMemories
from gateway.ml_memory.memory_access import container_of
from gateway.ml_memory.memory_kinds import CONTAINERS
from gateway.ml_memory.retention_sweep import apply_policy
from gateway.protocol import ProtocolEnvironment
from gateway.sse import OpenStreams
from tests.ml_commons_scene import MlGateway, ml_gateway
from tests.movable_clock import MovableClock
from tests.runner_scene import OWNER, SAYS_HELLO, agent_of, runner_scene
from tests.running_gateway import run_body
from tests.waiting import until_answered

DAY = 86_400.0
KEYS = {"api_keys": [{"name": name, "key": f"{name}-key-0123456789"} for name in ("alice", "bob")]}


def as_(name: str) -> dict[str, Any]:
    return {"headers": {"authorization": f"Bearer {name}-key-0123456789"}}


async def new_container(ml: MlGateway, policy: dict[str, Any], container_id: str = "c", **more: Any) -> str:
    """The path of the container's memories."""
    body = {"name": "n", "memory_container_id": container_id, "configuration": {"retention_policy": policy}}
    status, made = await ml.call("POST", "/memory_containers/_create", body, **more)
    assert status == 200, made
    return f"/memory_containers/{container_id}/memories"


async def new_session(ml: MlGateway, memories: str, session_id: str, **more: Any) -> None:
    status, made = await ml.call("POST", f"{memories}/sessions", {"session_id": session_id}, **more)
    assert status == 200, made


async def ids_in(ml: MlGateway, path: str, **more: Any) -> list[str]:
    status, found = await ml.call("POST", f"{path}/_search", {"size": 100}, **more)
    assert status == 200, found
    return sorted(hit["_id"] for hit in found["hits"]["hits"])


async def after_hours(ml: MlGateway, clock: MovableClock, path: str, expected: list[str], **more: Any) -> list[str]:
    """The ids that are left after as many hours as it takes."""

    async def an_hour_later() -> list[str]:
        await clock.advance(3600)
        return await ids_in(ml, path, **more)

    return await until_answered(an_hour_later, lambda ids: ids == expected)


async def retention(ml: MlGateway, path: str, **more: Any) -> list[dict[str, Any]]:
    status, answer = await ml.call("POST", f"/memory_containers{path}", **more)
    assert status == 200, answer
    containers: list[dict[str, Any]] = answer["containers"]
    return containers


async def test_sessions_that_are_too_old_go_with_their_threads_but_for_pinned_ones(tmp_path: Path) -> None:
    clock = MovableClock()
    async with ml_gateway(tmp_path, clock=clock) as ml:
        memories = await new_container(ml, {"sessions": {"retention_days": 30}})
        for session_id in ("old", "pinned", "used"):
            await new_session(ml, memories, session_id)
        assert (await ml.call("PUT", f"{memories}/sessions/pinned", {"pinned": True}))[0] == 200
        await clock.advance(29 * DAY)
        await ml.gateway.client.run("configured", run_body("hi", thread_id="used"))
        await new_session(ml, memories, "young")
        expected = [{"memory_container_id": "c", "memories": {"sessions": 0}}]
        assert await retention(ml, "/_retention/_dry_run") == expected
        await clock.advance(DAY + 1)

        left = await after_hours(ml, clock, f"{memories}/sessions", ["pinned", "used", "young"])
        assert left == ["pinned", "used", "young"], "what was said on a thread keeps its session"
        threads = {each["id"] for each in (await ml.gateway.client.get("/threads"))["threads"]}
    assert threads == {"pinned", "used", "young"}


async def test_the_oldest_go_where_there_are_more_than_may_be(tmp_path: Path) -> None:
    clock = MovableClock()
    async with ml_gateway(tmp_path, clock=clock) as ml:
        policy = {"sessions": {"max_count": 2}, "long-term": {"max_count": 1}, "history": {"max_count": 3}}
        memories = await new_container(ml, policy)
        for number in range(4):
            await new_session(ml, memories, f"s{number}")
            assert (await ml.call("POST", f"{memories}/long-term", {"memory": f"m{number}"}))[0] == 200
            await clock.advance(1)
        assert (await ml.call("PUT", f"{memories}/sessions/s0", {"pinned": True}))[0] == 200
        await ml.gateway.client.run("configured", run_body("hi", thread_id="s1"))

        due = [{"memory_container_id": "c", "memories": {"sessions": 1, "long-term": 3, "history": 1}}]
        assert await retention(ml, "/_retention/_dry_run") == due
        assert await retention(ml, "/c/_retention/_dry_run") == due
        assert await ids_in(ml, f"{memories}/sessions") == ["s0", "s1", "s2", "s3"], "nothing was deleted"
        done = await retention(ml, "/_retention/_execute")
        assert done[0]["memories"] == {"sessions": 1, "long-term": 3, "history": 4}, "deletions are history, too"
        assert await ids_in(ml, f"{memories}/sessions") == ["s0", "s1", "s3"], "one is pinned, one was used"
        assert len(await ids_in(ml, f"{memories}/history")) == 3
        assert await retention(ml, "/_retention/_execute") == [
            {"memory_container_id": "c", "memories": {"sessions": 0, "long-term": 0, "history": 0}}
        ]


async def test_policies_are_applied_for_every_owner_and_asked_for_by_each(tmp_path: Path) -> None:
    clock = MovableClock()
    async with ml_gateway(tmp_path, clock=clock, server=KEYS) as ml:
        paths = {}
        for name in ("alice", "bob"):
            policy = {"long-term": {"retention_days": 1}}
            paths[name] = await new_container(ml, policy, f"of-{name}", **as_(name))
            assert (await ml.call("POST", f"{paths[name]}/long-term", {"memory": "m"}, **as_(name)))[0] == 200
        answer = await retention(ml, "/_retention/_dry_run", **as_("bob"))
        assert [each["memory_container_id"] for each in answer] == ["of-bob"]
        assert (await ml.call("POST", "/memory_containers/of-alice/_retention/_dry_run", **as_("bob")))[0] == 404
        await clock.advance(DAY + 1)
        for name, path in paths.items():
            await after_hours(ml, clock, f"{path}/long-term", [], **as_(name))


async def test_of_more_sessions_than_are_looked_at_together_only_the_oldest_go() -> None:
    me = Caller(OWNER)
    async with runner_scene(agent_of("a", SAYS_HELLO)) as scene:
        environment = ProtocolEnvironment(scene.runner, OpenStreams(), Meter(scene.clock, "runs"))
        policy: JsonObject = {"sessions": {"max_count": 2}}
        body: JsonObject = {"name": "n", "configuration": {"retention_policy": policy}}
        container_id, document = memory_containers.new_container(body, me.owner, environment.now())
        await environment.documents(me).put(CONTAINERS, container_id, document)
        container = await container_of(environment.documents(me), container_id)
        memories = ContainerMemories(environment, me, container)
        for number in range(8):
            await memories.create_session({"session_id": f"s{number}"})
            await scene.clock.advance(1)
        for used in ("s0", "s2"):
            await environment.append_messages(me, used, [Message(f"m{used}", "user", (TextBlock("hi"),))])
        assert await apply_policy(memories, window=3) == {"sessions": 6}
        left = {each.thread_id for each in (await environment.threads(me, limit=50)).items}
    assert left == {"s0", "s2"}, "they were used last"
