"""`forwardedProps.agui_gateway.seen` over real sockets: what a client that did not see a message cannot delete."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.observed_runs import thread_messages
from tests.running_gateway import LocalGateway, agent, local_gateway, run_body, scripted

Json = dict[str, Any]

ECHOES = scripted([{"text": "I heard: {{user}}"}], [{"text": "I heard: {{user}}"}])
SLOW = scripted(
    [{"text": "one two three", "chunk_characters": 4}, {"hang": True}],
    rules=[{"when": {"last_user_contains": "quick"}, "response": [{"text": "done"}]}],
)
AGENTS = [
    agent("echo", ECHOES),
    agent("appending", ECHOES, history="append"),
    agent("superseding", SLOW, on_concurrent_run="cancel_previous"),
    agent("queueing", SLOW, on_concurrent_run="enqueue"),
]


def user(text: str, id: str) -> Json:
    return {"id": id, "role": "user", "content": text}


def seeing(seen: object) -> Json:
    return {"forwardedProps": {"agui_gateway": {"seen": seen}}}


def said(messages: list[Json]) -> list[str]:
    return [str(message["content"]) for message in messages]


class Thread:
    """One thread of an agent, asked by several tabs."""

    def __init__(self, gateway: LocalGateway, agent_id: str = "echo") -> None:
        self.gateway, self.agent_id, self.runs = gateway, agent_id, 0

    async def ask(self, messages: list[Json], **more: Any) -> httpx.Response:
        self.runs += 1
        body = run_body(messages=messages, thread_id="t", run_id=f"r{self.runs}", **more)
        return await self.gateway.client.http.post(f"/agents/{self.agent_id}/run", json=body)

    async def now(self) -> list[Json]:
        return await thread_messages(self.gateway, "t")


async def test_a_history_that_lacks_what_came_meanwhile_is_refused_with_what_it_lacks(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, AGENTS) as gateway:
        thread = Thread(gateway)
        await thread.ask([user("first", "u1")], **seeing(None))
        both_know = await thread.now()
        await thread.ask([*both_know, user("second", "u2")], **seeing(both_know[-1]["id"]))
        whole = await thread.now()

        stale = await thread.ask([*both_know, user("third", "u3")], **seeing(both_know[-1]["id"]))

        assert stale.status_code == 409
        told = stale.json()
        assert told["code"] == "stale_history"
        assert told["missing"] == whole[2:]
        assert told["after"] == both_know[-1]["id"]
        assert await thread.now() == whole
        assert (await gateway.client.http.get("/runs/r3")).status_code == 404


async def test_the_same_request_is_served_once_the_missing_messages_are_taken_in(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, AGENTS) as gateway:
        thread = Thread(gateway)
        await thread.ask([user("first", "u1")])
        stale = (await thread.ask([user("third", "u3")], **seeing(None))).json()
        thread.runs -= 1  # the refused run never was: its id is free

        again = await thread.ask([*stale["missing"], user("third", "u3")], **seeing(stale["missing"][-1]["id"]))

        assert again.status_code == 200
        assert said(await thread.now()) == ["first", "I heard: first", "third", "I heard: third"]


async def test_an_edit_that_has_seen_everything_is_served_with_its_shorter_history(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, AGENTS) as gateway:
        thread = Thread(gateway)
        await thread.ask([user("first", "u1")])
        last = (await thread.now())[-1]["id"]

        edited = await thread.ask([user("first, put better", "u1b")], **seeing(last))

        assert edited.status_code == 200
        assert said(await thread.now()) == ["first, put better", "I heard: first, put better"]


async def test_without_seen_a_shorter_history_is_an_edit_as_ever(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, AGENTS) as gateway:
        thread = Thread(gateway)
        await thread.ask([user("first", "u1")])
        assert (await thread.ask([user("other", "u2")])).status_code == 200
        assert said(await thread.now()) == ["other", "I heard: other"]


async def test_who_knew_what_was_edited_away_is_told_where_the_thread_goes_on(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, AGENTS) as gateway:
        thread = Thread(gateway)
        await thread.ask([user("first", "u1")])
        await thread.ask([*(await thread.now()), user("second", "u2")])
        old = await thread.now()
        await thread.ask([*old[:2], user("second, put better", "u2b")], **seeing(old[-1]["id"]))

        stale = await thread.ask([*old, user("third", "u3")], **seeing(old[-1]["id"]))

        assert stale.status_code == 409
        assert stale.json()["after"] == old[1]["id"]
        assert said(stale.json()["missing"]) == ["second, put better", "I heard: second, put better"]


async def test_an_appended_message_is_refused_too_where_its_writer_had_not_seen_the_last_one(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, AGENTS) as gateway:
        thread = Thread(gateway, "appending")
        await thread.ask([user("first", "u1")])
        stale = await thread.ask([user("second", "u2")], **seeing("u1"))
        assert (stale.status_code, stale.json()["code"]) == (409, "stale_history")
        assert (await thread.ask([user("second", "u2")], **seeing(stale.json()["missing"][-1]["id"]))).is_success


async def test_a_stale_tab_does_not_cancel_the_run_under_way(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, AGENTS, server={"drain_seconds": 0}) as gateway:
        thread = Thread(gateway, "superseding")
        await thread.ask([user("quick", "u1")])
        known = await thread.now()
        body = run_body(messages=[*known, user("slow", "u2")], thread_id="t", run_id="live")
        async with gateway.client.stream("superseding", body) as live:
            await live.until("TEXT_MESSAGE_CONTENT")

            stale = await thread.ask([*known, user("quick", "u3")], **seeing(known[-1]["id"]))

            assert (stale.status_code, stale.json()["code"]) == (409, "stale_history")
            assert said(stale.json()["missing"]) == ["slow"]
            assert (await gateway.client.http.get("/runs/live")).json()["status"] == "running"


async def test_a_queued_run_keeps_what_came_while_it_waited(tmp_path: Path) -> None:
    """Nobody can have seen the answer for which the run waits, so that it is no reason to refuse it."""
    async with local_gateway(tmp_path, AGENTS) as gateway:
        thread = Thread(gateway, "queueing")
        first = run_body(messages=[user("slow", "u1")], thread_id="t", run_id="first", **seeing(None))
        second = run_body(messages=[user("quick", "u2")], thread_id="t", run_id="second", **seeing(None))
        async with gateway.client.stream("queueing", first) as live:
            await live.until("TEXT_MESSAGE_CONTENT")
            async with gateway.client.stream("queueing", second) as waiting:
                await gateway.client.http.post("/runs/first/cancel")
                assert (await waiting.rest())[-1].type == "RUN_FINISHED"
        words = said(await thread.now())
        assert (words[0], words[2:]) == ("slow", ["quick", "done"])
        assert words[1].startswith("one")


@pytest.mark.parametrize("seen", [7, True, ["a1"], {"id": "a1"}])
async def test_a_seen_that_is_no_id_is_named(tmp_path: Path, seen: object) -> None:
    async with local_gateway(tmp_path, AGENTS) as gateway:
        refused = await Thread(gateway).ask([user("hi", "u1")], **seeing(seen))
        assert refused.status_code == 422
        assert [each["pointer"] for each in refused.json()["errors"]] == ["/forwardedProps/agui_gateway/seen"]
