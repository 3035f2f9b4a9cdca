"""What visitors of a website leave behind: how much of it there may be, and for how long. Over real sockets."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from gateway.owners import visitor_owner
from tests.movable_clock import MovableClock
from tests.responses_events import message_item
from tests.responses_server import ResponsesServer, responses_server
from tests.runner_scene import HANGS, SAYS_HELLO, agent_of, question, runner_scene
from tests.running_gateway import agent, local_gateway, run_body
from tests.stateful_scene import openai_model
from tests.waiting import until
from tests.website import ALICE_KEY, BLOG, BLOG_KEY, Visitor, keys, visitor, website

DAY = 86_400.0
ROUND_SECONDS = 3600.0
DEADLINE_SECONDS = 30
ALICE = {"authorization": f"Bearer {ALICE_KEY}"}


async def test_a_site_that_has_all_that_it_may_have_takes_no_new_runs(tmp_path: Path) -> None:
    async with website(tmp_path, {"max_stored_bytes": 30_000}) as local:
        eager, other = await visitor(local.client), await visitor(local.client)
        for number in range(3):
            assert (await eager.run(text="x" * 14_000, thread_id=f"t{number}", run_id=f"r{number}")).status == 200
        for who in (eager, other):
            refused = await who.run(text="hi", thread_id="new", run_id="new")
            assert (refused.status, refused.code) == (429, "limit_max_stored_bytes")
            assert "retry-after" not in refused.response.headers, "nobody knows when there is room"
        again = await eager.run(text="x" * 14_000, thread_id="t2", run_id="r2")
        assert again.types[-1] == "RUN_FINISHED", "what was asked before is no new run"
        assert (await eager.ask("GET", "/threads/t0/messages")).status == 200
        blog = await visitor(local.client, key=BLOG_KEY, origin=BLOG)
        assert (await blog.run()).status == 200, "another site has room of its own"
        assert (await local.client.http.post("/agents/helper/run", json=run_body(), headers=ALICE)).status_code == 200
        for number in range(2):
            assert (await eager.ask("DELETE", f"/threads/t{number}")).status == 204
        assert (await other.run(text="hi", thread_id="new", run_id="new")).status == 200


async def test_how_much_a_site_has_outlives_a_restart(tmp_path: Path) -> None:
    async with website(tmp_path, {"max_stored_bytes": 10_000}) as local:
        known = await visitor(local.client)
        assert (await known.run(text="x" * 12_000)).status == 200
    async with website(tmp_path, {"max_stored_bytes": 10_000}) as local:
        known = Visitor(local.client, known.token)
        assert (await known.run(text="hi", run_id="r2")).code == "limit_max_stored_bytes"
    async with website(tmp_path, {"max_stored_bytes": None}) as local:
        assert (await Visitor(local.client, known.token).run(text="hi", run_id="r2")).status == 200


# --- how long


def threads_of(listed: Any) -> list[str]:
    return sorted(thread["id"] for thread in listed["threads"])


async def test_visitors_threads_go_so_long_after_their_last_run(tmp_path: Path) -> None:
    clock = MovableClock()
    async with website(tmp_path, clock=clock, visitor_retention_days=2) as local:
        known, begun = await visitor(local.client), clock.now()
        await known.run(thread_id="left", run_id="r1")
        await known.run(thread_id="used", run_id="r2")
        blog = await visitor(local.client, key=BLOG_KEY, origin=BLOG)
        await blog.run(thread_id="left", run_id="r1")
        await local.client.http.post("/agents/helper/run", json=run_body(thread_id="alices"), headers=ALICE)
        await clock.advance(1.5 * DAY)
        await known.run(thread_id="used", run_id="r4", messages=[])
        assert threads_of((await known.ask("GET", "/threads")).json) == ["left", "used"]
        await clock.advance(0.6 * DAY)
        async with asyncio.timeout(DEADLINE_SECONDS):
            while threads_of((await known.ask("GET", "/threads")).json) != ["used"]:
                await clock.advance(ROUND_SECONDS)
            assert clock.now() < begun + 3 * DAY, "the other one has more time"
            while threads_of((await blog.ask("GET", "/threads")).json):
                await clock.advance(1)
        assert (await known.ask("GET", "/runs/r1")).status == 404
        kept = (await local.client.http.get("/threads", headers=ALICE)).json()
        assert threads_of(kept) == ["alices"], "keys keep theirs"
        assert (await known.run(thread_id="left", run_id="r1")).status == 200, "it may be begun anew"


async def test_a_thread_that_is_busy_or_was_just_used_stays() -> None:
    owner = visitor_owner("shop", "1")
    async with runner_scene(agent_of("talker", SAYS_HELLO), agent_of("sleeper", HANGS)) as scene:
        for agent_id, thread_id in (("talker", "over"), ("sleeper", "busy")):
            given = question("hi", thread_id=thread_id, run_id=f"r-{thread_id}")
            scene.viewers.append(await scene.runner.start(owner, agent_id, given))
        await until(lambda: (owner, "r-over") not in scene.runner.driver.runs)
        assert await scene.runner.delete_idle_visitors(before=scene.clock.now()) == 0, "used just now"
        assert await scene.runner.delete_idle_visitors(before=scene.clock.now() + 1) == 1
        assert await scene.store.load_thread(owner, "over") is None
        assert await scene.store.load_thread(owner, "busy") is not None
        await scene.runner.cancel(owner, "r-busy")


async def test_visitors_threads_stay_where_no_time_is_set(tmp_path: Path) -> None:
    clock = MovableClock()
    async with website(tmp_path, clock=clock, visitor_retention_days=None) as local:
        known = await visitor(local.client)
        await known.run(thread_id="t", run_id="r1")
        await clock.advance(60 * DAY)
        assert threads_of((await known.ask("GET", "/threads")).json) == ["t"]


def deleted_at(server: ResponsesServer) -> list[str]:
    return [request.target.rpartition("/")[2] for request in server.requests if request.method == "DELETE"]


async def test_their_provider_deletes_them_too(tmp_path: Path) -> None:
    clock = MovableClock()
    async with responses_server() as server:
        agents = [agent(name, openai_model(server)) for name in ("helper", "sleeper")]
        section = keys(visitor_retention_days=1)
        async with local_gateway(tmp_path, agents, clock=clock, server=section, search=None) as local:
            known = await visitor(local.client)
            for number in range(3):
                server.will_answer(message_item("yes"))
                await known.run(thread_id=f"t{number}", run_id=f"r{number}")
            held = {response.id for response in server.asked}
            await clock.advance(1.1 * DAY)
            async with asyncio.timeout(DEADLINE_SECONDS):
                while set(deleted_at(server)) != held:
                    await clock.advance(ROUND_SECONDS)
            assert server.responses == {}
            owner = visitor_owner("shop", known.token.split("~")[2])
            assert await local.application.store.load_thread(owner, "t0") is None
            assert await local.application.store.stored_bytes("shop") == 0
