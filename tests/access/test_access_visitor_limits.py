"""How much strangers, and everybody else, may ask: over real sockets, on a clock that stands still."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.movable_clock import MovableClock
from tests.running_gateway import GatewayClient, LocalGateway, gateway_process, run_body, write_configuration
from tests.waiting import until_answered
from tests.website import AGENTS, ALICE_KEY, SHOP, Answer, Visitor, greet, keys, visitor, website

ALICE = {"authorization": f"Bearer {ALICE_KEY}"}


def fresh(number: int) -> dict[str, Any]:
    return {"thread_id": f"t{number}", "run_id": f"r{number}"}


async def test_runs_a_minute_of_one_visitor(tmp_path: Path) -> None:
    clock = MovableClock()
    async with website(tmp_path, {"visitor_runs_per_minute": 3}, clock=clock) as local:
        eager, other = await visitor(local.client), await visitor(local.client)
        for number in range(3):
            assert (await eager.run(**fresh(number))).status == 200
            await clock.advance(5)
        refused = await eager.run(**fresh(3))
        assert (refused.status, refused.code, refused.retry_after) == (429, "limit_visitor_runs_per_minute", 45)
        assert refused.response.headers["access-control-allow-origin"] == SHOP
        assert "retry-after" in refused.response.headers["access-control-expose-headers"]
        assert (await other.run(**fresh(3))).status == 200, "another visitor has minutes of its own"
        await clock.advance(45)
        assert (await eager.run(**fresh(4))).status == 200
        assert (await eager.run(**fresh(5))).status == 429
        await clock.advance(60)
        assert (await eager.run(**fresh(3))).status == 200, "what was refused is new"


@pytest.mark.parametrize(
    ("limit", "code"),
    [("runs_per_minute", "limit_runs_per_minute"), ("address_runs_per_minute", "limit_address_runs_per_minute")],
)
async def test_runs_a_minute_of_all_and_of_one_address(tmp_path: Path, limit: str, code: str) -> None:
    clock = MovableClock()
    async with website(tmp_path, {limit: 4}, clock=clock) as local:
        crowd = [await visitor(local.client, address="203.0.113.9") for _ in range(5)]
        answers = [await each.run(**fresh(number)) for number, each in enumerate(crowd)]
        assert [answer.status for answer in answers] == [200, 200, 200, 200, 429]
        assert answers[-1].code == code
        elsewhere = await visitor(local.client, address="203.0.113.10")
        assert (await elsewhere.run()).status == (429 if limit == "runs_per_minute" else 200)
        await clock.advance(60)
        assert (await crowd[-1].run()).status == 200


async def test_runs_at_once_are_counted_until_they_end_whoever_watches(tmp_path: Path) -> None:
    async with website(tmp_path, {"visitor_concurrent_runs": 2}) as local:
        busy, other = await visitor(local.client), await visitor(local.client)
        for number in range(2):
            async with busy.stream(**fresh(number)) as response:
                assert response.status_code == 200
        refused = await busy.run(**fresh(2))
        assert (refused.status, refused.code) == (429, "limit_visitor_concurrent_runs"), "the sockets are gone"
        assert refused.retry_after > 0
        assert (await other.run()).status == 200
        assert (await busy.ask("POST", "/runs/r0/cancel")).status == 202
        await until_ended(busy, "r0")
        assert (await busy.run(**fresh(2))).status == 200
        assert (await busy.run(**fresh(3))).status == 200, "that one has ended too"


async def until_ended(who: Visitor, run_id: str) -> None:
    await until_answered(lambda: who.ask("GET", f"/runs/{run_id}"), lambda answer: answer.json["finishedAt"])


async def test_a_run_that_is_attached_to_does_not_count_again(tmp_path: Path) -> None:
    async with website(tmp_path, {"visitor_concurrent_runs": 1, "visitor_runs_per_minute": 2}) as local:
        known = await visitor(local.client)
        for _ in range(5):
            async with known.stream(**fresh(0)) as response:
                assert response.status_code == 200
        for path in ("/runs/r0/events", "/threads/t0/messages"):
            async with local.client.http.stream("GET", path, headers=known.headers) as response:
                assert response.status_code == 200
        async with local.client.http.stream(
            "POST", "/agents/sleeper/connect", json=run_body(**fresh(0)), headers=known.headers
        ) as response:
            assert response.status_code == 200
        await known.ask("POST", "/runs/r0/cancel")
        await until_ended(known, "r0")
        for _ in range(5):
            assert (await known.run(**fresh(1))).status == 200, "a replay is no run"
        assert (await known.run("sleeper", **fresh(0))).status == 200
        assert (await known.run(**fresh(2))).code == "limit_visitor_runs_per_minute"


@pytest.mark.parametrize("limit", ["visitor_runs_per_minute", "concurrent_runs", "visitor_concurrent_runs"])
async def test_of_a_hundred_requests_at_one_moment_as_many_pass_as_may(tmp_path: Path, limit: str) -> None:
    async with website(tmp_path, {limit: 7}) as local:
        known = await visitor(local.client)

        async def try_one(number: int) -> int:
            async with known.stream(**fresh(number)) as response:
                return response.status_code

        statuses = Counter(await asyncio.gather(*[try_one(number) for number in range(100)]))
        assert statuses == {200: 7, 429: 93}


async def test_a_conflict_gives_its_place_back(tmp_path: Path) -> None:
    async with website(tmp_path, {"visitor_concurrent_runs": 2}) as local:
        known = await visitor(local.client)
        async with known.stream(**fresh(0)):
            for number in range(5):
                assert (await known.run(thread_id="t0", run_id=f"other{number}")).status == 409
            assert (await known.run(**fresh(1))).status == 200


@pytest.mark.parametrize(
    ("limit", "same_address", "code"),
    [
        ("visitors_per_minute", False, "limit_visitors_per_minute"),
        ("address_visitors_per_minute", True, "limit_address_visitors_per_minute"),
    ],
)
async def test_new_visitors_a_minute(tmp_path: Path, limit: str, same_address: bool, code: str) -> None:
    clock = MovableClock()
    async with website(tmp_path, {limit: 3}, clock=clock) as local:

        def address(number: int) -> str:
            return "2001:db8::1" if same_address else f"203.0.113.{number}"

        first = [await greet(local.client, address=address(number)) for number in range(3)]
        assert [answer.status for answer in first] == [201, 201, 201]
        refused = await greet(local.client, address="2001:db8::ffff" if same_address else address(9))
        assert (refused.status, refused.code, refused.retry_after) == (429, code, 60)
        if same_address:
            assert (await greet(local.client, address="2001:db8:0:1::1")).status == 201, "another network"
        else:
            token = first[0].json["visitorToken"]
            assert (await greet(local.client, token, address=address(8))).status == 201, "a known visitor is not new"
        await clock.advance(60)
        assert (await greet(local.client, address=address(9))).status == 201


@pytest.mark.parametrize("others", [[], ["10.0.0.0/8"]])
async def test_an_address_is_believed_only_from_trusted_proxies(tmp_path: Path, others: list[str]) -> None:
    document = keys({"address_visitors_per_minute": 1}, trusted_proxies=others)
    path = write_configuration(tmp_path, AGENTS, server=document, search=None)
    async with gateway_process(path) as process:
        answers = [await greet(process.client, address=f"203.0.113.{number}") for number in range(3)]
        assert [answer.status for answer in answers] == [201, 429, 429]
        log = process.log.read_text()
    assert log.count("server.trusted_proxies does not name") == 1
    path = write_configuration(tmp_path, AGENTS, server={**document, "trusted_proxies": ["127.0.0.0/8"]}, search=None)
    async with gateway_process(path) as process:
        answers = [await greet(process.client, address=f"203.0.113.{number}") for number in range(3)]
        assert [answer.status for answer in answers] == [201, 201, 201]
        forged = await greet(process.client, address="198.51.100.1, 203.0.113.1")
        assert forged.status == 429, "what the visitor's own browser claims stands further left"


# --- sizes ----------------------------------------------------------------------------------------------------------


async def test_bodies_and_messages_have_a_size(tmp_path: Path) -> None:
    async with website(tmp_path, {"max_body_bytes": 3_000, "max_message_bytes": 100}) as local:
        known = await visitor(local.client)
        assert (await known.run(text="x" * 100)).status == 200
        for text in ("x" * 101, "ä" * 51):
            answer = await known.run(text=text, run_id="r2")
            assert (answer.status, answer.code) == (413, "message_too_large")
            assert "100 bytes" in answer.json["detail"]
        answer = await known.run(text="x" * 3_000, run_id="r3")
        assert (answer.status, answer.code) == (413, "body_too_large")
        assert answer.response.headers["access-control-allow-origin"] == SHOP
        alice = await local.client.http.post("/agents/helper/run", json=run_body("x" * 5_000), headers=ALICE)
        assert alice.status_code == 200, "the limits are the shop's"


# --- everybody else -------------------------------------------------------------------------------------------------


async def alice_runs(client: GatewayClient, number: int, agent_id: str = "helper", **body: Any) -> Answer:
    url, sent = f"/agents/{agent_id}/run", run_body(**fresh(number), **body)
    async with client.http.stream("POST", url, json=sent, headers=ALICE) as response:
        if response.status_code != 200:
            await response.aread()
        return Answer(response)


async def test_an_api_key_may_have_limits_too(tmp_path: Path) -> None:
    limits = {"runs_per_minute": 3, "concurrent_runs": 1, "max_message_bytes": 10, "max_body_bytes": 2_000}
    clock = MovableClock()
    api_keys = [{"name": "alice", "key": ALICE_KEY, "limits": limits}, {"name": "bob", "key": "bob-0123456789abcdef"}]
    async with website(tmp_path, clock=clock, api_keys=api_keys) as local:
        assert (await alice_runs(local.client, 0, "sleeper")).status == 200
        assert (await alice_runs(local.client, 1)).code == "limit_concurrent_runs"
        await local.client.http.post("/runs/r0/cancel", headers=ALICE)
        await until_answered(
            lambda: local.client.http.get("/runs/r0", headers=ALICE), lambda answer: answer.json()["finishedAt"]
        )
        assert (await alice_runs(local.client, 1)).status == 200
        assert (await alice_runs(local.client, 2, text="x" * 11)).code == "message_too_large"
        large = await alice_runs(local.client, 2, text="x" * 3_000)
        assert large.code == "body_too_large"
        assert "of the key" in large.json["detail"]
        await clock.settle()
        assert (await alice_runs(local.client, 2)).status == 200
        assert (await alice_runs(local.client, 3)).code == "limit_runs_per_minute"
        bob = {"authorization": "Bearer bob-0123456789abcdef"}
        for number in range(6):
            body = run_body("x" * 20, **fresh(number))
            assert (await local.client.http.post("/agents/helper/run", json=body, headers=bob)).status_code == 200


async def test_a_gateway_that_has_enough_to_do_says_when_to_come_again(tmp_path: Path) -> None:
    async with website(tmp_path, max_concurrent_runs=3) as local:
        known = await visitor(local.client)
        assert (await alice_runs(local.client, 0, "sleeper")).status == 200
        async with known.stream(**fresh(0)), known.stream(**fresh(1)):
            for refused in (await known.run(**fresh(2)), await alice_runs(local.client, 2)):
                assert (refused.status, refused.code) == (503, "overloaded")
                assert refused.retry_after > 0
            assert (await local.client.http.get("/readyz")).status_code == 200, "it is busy, not broken"
            await known.ask("POST", "/runs/r0/cancel")
            await until_ended(known, "r0")
            assert (await alice_runs(local.client, 2)).status == 200
        text = local.application.metrics.render()[0].decode()
        assert 'refusals_total{code="overloaded",key="alice"} 1.0' in text
        assert 'refusals_total{code="overloaded",key="shop"} 1.0' in text


async def test_a_hundred_at_one_moment_do_not_overload_it(tmp_path: Path) -> None:
    async with website(tmp_path, max_concurrent_runs=9) as local:
        answers = await asyncio.gather(*[alice_runs(local.client, number, "sleeper") for number in range(100)])
        assert Counter(answer.status for answer in answers) == {200: 9, 503: 91}


def _admissions(local: LocalGateway) -> int:
    return len(local.application.runner._runs)


async def test_nothing_is_left_of_runs_that_were_refused(tmp_path: Path) -> None:
    async with website(tmp_path, {"visitor_concurrent_runs": 1}) as local:
        known = await visitor(local.client)
        async with known.stream(**fresh(0)):
            for number in range(1, 20):
                assert (await known.run(**fresh(number))).status == 429
                assert (await known.ask("GET", f"/runs/r{number}")).status == 404
            assert _admissions(local) == 1
        assert [thread["id"] for thread in (await known.ask("GET", "/threads")).json["threads"]] == ["t0"]
