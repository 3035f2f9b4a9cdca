"""A deleted thread is deleted at its provider too."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from gateway.providers.background_tasks import CLOSE_SECONDS
from gateway.runs.removal import AGAIN_SECONDS, LONGEST_SECONDS, MOST_ROUNDS, MOST_TRIES
from gateway.store import DueDeletion, Store
from tests.movable_clock import MovableClock
from tests.openai_chat_server import Script, error
from tests.responses_events import call_item, message_item
from tests.responses_server import ResponsesServer, responses_server
from tests.runner_scene import GatedStore
from tests.running_gateway import (
    agent,
    gateway_process,
    local_gateway,
    parts_with_store,
    run_body,
    write_configuration,
)
from tests.stateful_scene import ADDING, StatefulScene, openai_model, stateful_gateway, stateful_scene
from tests.waiting import until, until_answered

DEADLINE_SECONDS = 30
ROUND_SECONDS = 3600.0
GONE = "a deleted thread's responses are deleted at their provider"
DELETED = Script(200, (b"{}",), "application/json", framing="length")
STAYS = "responses of a deleted thread stay at their provider"
LATER = "responses of a deleted thread are not deleted yet: their provider is asked again later"
GIVEN_UP = "responses of a deleted thread stay at their provider: it is not asked again"
NOBODY = "responses of a deleted thread stay at a server that no agent asks any more"


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncGenerator[StatefulScene]:
    """By a clock that stands still nothing is late."""
    async with stateful_scene(tmp_path, clock=MovableClock(), parts=parts_with_store(GatedStore)) as opened:
        yield opened


async def delete(scene: StatefulScene, thread_id: str = "t") -> None:
    deleted = await scene.gateway.client.http.delete(f"/threads/{thread_id}")
    assert deleted.status_code == 204


def deletions(server: ResponsesServer) -> list[str]:
    return [request.target.rpartition("/")[2] for request in server.requests if request.method == "DELETE"]


async def gone(server: ResponsesServer, count: int) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while len(deletions(server)) < count:
            await server.received(len(server.requests) + 1)


@pytest.mark.parametrize("agent_id", ["openai", "bedrock"])
async def test_all_that_was_stored_of_a_thread_is_deleted_and_nothing_of_others(
    scene: StatefulScene, agent_id: str
) -> None:
    """What an edit left behind, what was cut off, and other conversations among it."""
    scene.agent_id, server = agent_id, scene.server
    scene.thread_id = "other"
    server.will_answer(message_item("I stay"))
    await scene.say("Hi")
    scene.thread_id = "t"
    server.will_answer(call_item(*ADDING, "c1"))
    server.will_answer(message_item("Three"))
    await scene.say("Hi")
    known = await scene.messages()
    server.will_answer(message_item("Left behind"))
    await scene.say("Edited away")
    server.will_answer(message_item("Gone on with"))
    await scene.say("Instead", known=known)
    server.will_answer(message_item("Once upon a"), status="incomplete")
    await scene.say("A story")
    server.will_answer(message_item("Your bill"))
    await scene.say("Bill", forwardedProps={"conversation_id": "billing"})
    other, *stored = (each.id for each in server.asked)
    assert len(stored) == len(server.responses) - 1 == 6
    await delete(scene)
    await gone(server, len(stored))
    assert sorted(deletions(server)) == sorted(stored)
    assert list(server.responses) == [other]


async def test_what_was_stored_before_a_restart_is_deleted(tmp_path: Path) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS), responses_server() as server:
        async with stateful_gateway(tmp_path, server) as scene:
            server.will_answer(message_item("Hello"))
            await scene.say("Hi")
        async with stateful_gateway(tmp_path, server) as scene:
            await delete(scene)
            await gone(server, 1)
        assert server.responses == {}


async def test_the_answer_under_way_is_deleted_with_its_thread(scene: StatefulScene) -> None:
    server = scene.server
    server.will_answer(message_item("abcd"), hold=asyncio.Event(), hold_before=5)
    async with scene.gateway.client.stream("openai", run_body("Go", thread_id="t", run_id="run")) as stream:
        await stream.until("TEXT_MESSAGE_CONTENT")
        await delete(scene)
        await stream.rest()
    await gone(server, 1)
    assert deletions(server) == [scene.answered()]


async def test_a_run_that_begins_while_its_thread_is_looked_at_is_cancelled_too(scene: StatefulScene) -> None:
    server, store = scene.server, scene.gateway.application.store
    assert isinstance(store, GatedStore)
    server.will_answer(message_item("Hello"))
    await scene.say("Hi")
    store.hold("version_states")
    store.reached["version_states"].clear()
    deleting = asyncio.create_task(delete(scene))
    async with asyncio.timeout(DEADLINE_SECONDS):
        await store.reached["version_states"].wait()
    go_on = store.open_for_others("version_states")
    server.will_answer(message_item("abcd"), hold=asyncio.Event(), hold_before=5)
    async with scene.gateway.client.stream("openai", run_body("Go", thread_id="t", run_id="run")) as stream:
        await stream.until("TEXT_MESSAGE_CONTENT")
        go_on.set()
        await deleting
        assert (await stream.rest())[-1].data["outcome"]["type"] == "cancelled"
    await gone(server, 2)
    assert server.responses == {}


async def test_nobody_waits_for_the_provider(scene: StatefulScene, caplog: pytest.LogCaptureFixture) -> None:
    server, answers = scene.server, asyncio.Event()
    server.will_answer(message_item("Hello"))
    await scene.say("Hi")
    server.answers(Script(200, (b"{}",), "application/json", headers_after=answers))
    with caplog.at_level(logging.INFO, "gateway.runs.removal"):
        await delete(scene)
        await server.received(2)
        assert await scene.messages() == []
        answers.set()
        await scene.gateway.application.runner.removal.close()
    (entry,) = [entry for entry in caplog.records if entry.name == "gateway.runs.removal"]
    assert (entry.message, entry.__dict__["responses"]) == (GONE, 1)


async def stopping(clock: MovableClock) -> None:
    """Until the gateway waits for what it asks of the provider."""
    await clock.advance(1)  # the time limit on what is asked was as long: it is due sooner now
    await clock.until_timer(CLOSE_SECONDS)


async def test_a_gateway_that_stops_waits_a_moment_for_the_provider(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "gateway.runs.removal")
    clock = MovableClock()
    async with asyncio.timeout(DEADLINE_SECONDS), responses_server() as server:
        async with stateful_gateway(tmp_path, server, clock=clock) as scene:
            server.will_answer(message_item("Hello"))
            await scene.say("Hi")
            answers = asyncio.Event()
            server.answers(Script(200, (b"{}",), "application/json", headers_after=answers))
            await delete(scene)
            await server.received(2)

            async def answer_once_it_waits() -> None:
                await stopping(clock)
                answers.set()

            answering = asyncio.create_task(answer_once_it_waits())
        await answering
    (entry,) = [entry for entry in caplog.records if entry.name == "gateway.runs.removal"]
    assert entry.message == GONE


async def test_where_the_provider_refuses_it_is_asked_once_and_the_log_says_what_stays(
    scene: StatefulScene, caplog: pytest.LogCaptureFixture
) -> None:
    """Bedrock's bedrock:DeleteInvoke is a permission of its own."""
    server = scene.server
    for word in ("one", "two"):
        server.will_answer(message_item(f"{word}!"))
        await scene.say(word)
    server.answers(error(403, "not authorized to perform: bedrock:DeleteInvoke"))
    await delete(scene)
    await scene.gateway.application.runner.removal.close()
    (entry,) = [entry for entry in caplog.records if entry.message == STAYS]
    assert entry.__dict__["response_ids"] == [scene.answered(0), scene.answered(1)]
    assert entry.__dict__["code"] == "model_authentication"
    assert len(deletions(server)) == 1


async def test_one_that_cannot_be_deleted_keeps_no_other(
    scene: StatefulScene, caplog: pytest.LogCaptureFixture
) -> None:
    server = scene.server
    for word in ("one", "two"):
        server.will_answer(message_item(f"{word}!"))
        await scene.say(word)
    server.answers(error(400, "cannot be deleted"))
    await delete(scene)
    await scene.gateway.application.runner.removal.close()
    (entry,) = [entry for entry in caplog.records if entry.message == STAYS]
    assert entry.__dict__["response_ids"] == [scene.answered(1)]
    assert list(server.responses) == [scene.answered(1)]


@pytest.mark.parametrize("failures", [1, MOST_TRIES])
async def test_a_provider_that_is_down_is_asked_again_and_given_up_after_a_while(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, failures: int
) -> None:
    clock = MovableClock()
    async with (
        asyncio.timeout(DEADLINE_SECONDS),
        responses_server() as server,
        stateful_gateway(tmp_path, server, clock=clock) as scene,
    ):
        for word in ("one", "two"):
            server.will_answer(message_item(f"{word}!"))
            await scene.say(word)
        server.answers(*[error(503)] * failures)
        await delete(scene)
        for number in range(1, min(failures, MOST_TRIES - 1) + 1):
            await gone(server, number)
            await clock.until_timer(AGAIN_SECONDS)
            await clock.advance(AGAIN_SECONDS)
        await scene.gateway.application.runner.removal.close()
        left = [entry.__dict__["responses"] for entry in caplog.records if entry.message == LATER]
        assert left == ([] if failures == 1 else [2])
        assert len(server.responses) == sum(left)
        assert STAYS not in caplog.messages


async def test_a_provider_that_lets_go_of_one_after_the_other_is_asked_for_all(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """However often it limits the rate between them; it says how long to wait."""
    clock = MovableClock()
    async with (
        asyncio.timeout(DEADLINE_SECONDS),
        responses_server() as server,
        stateful_gateway(tmp_path, server, clock=clock) as scene,
    ):
        for word in ("one", "two"):
            server.will_answer(message_item(f"{word}!"))
            await scene.say(word)
        limited = [error(429, retry_after=20)] * (MOST_TRIES - 1)
        server.answers(*limited, DELETED, *limited, DELETED)
        await delete(scene)
        for number in (*range(1, MOST_TRIES), *range(MOST_TRIES + 1, 2 * MOST_TRIES)):
            await gone(server, number)
            await clock.until_timer(20)
            await clock.advance(20)
        await scene.gateway.application.runner.removal.close()
    assert deletions(server) == [scene.answered(1)] * MOST_TRIES + [scene.answered(0)] * MOST_TRIES
    assert STAYS not in caplog.messages


# --- what is still due when the process ends, or the provider is down for long


@pytest.mark.timeout(120)  # three processes start, one after the other; each has a deadline of its own
async def test_after_a_kill_the_next_process_goes_on(tmp_path: Path) -> None:
    async with responses_server() as server:
        configuration = write_configuration(tmp_path, [agent("openai", openai_model(server))])
        async with gateway_process(configuration) as gateway:
            for number, word in enumerate(("one", "two", "three")):
                server.will_answer(message_item(f"{word}!"))
                await gateway.client.run("openai", run_body(word, thread_id="t", run_id=f"run-{number}"))
            stored = [each.id for each in server.asked]
            server.answers(DELETED, Script(200, (b"{}",), "application/json", headers_after=asyncio.Event()))
            assert (await gateway.client.http.delete("/threads/t")).status_code == 204
            await gone(server, 2)
            await gateway.signal(signal.SIGKILL)
        assert deletions(server) == [stored[2], stored[1]]
        async with gateway_process(configuration) as gateway:
            await gone(server, 5)
            assert await gateway.signal(signal.SIGTERM) == 0
        assert sorted(deletions(server)[2:]) == sorted(stored)
        async with gateway_process(configuration) as gateway:
            server.will_answer(message_item("Hello"))
            await gateway.client.run("openai", run_body("Hi", thread_id="other", run_id="other"))
            assert await gateway.signal(signal.SIGTERM) == 0
        assert len(deletions(server)) == 5


async def test_a_gateway_that_stops_leaves_the_rest_to_the_next(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = MovableClock()
    async with asyncio.timeout(DEADLINE_SECONDS), responses_server() as server:
        async with stateful_gateway(tmp_path, server, clock=clock) as scene:
            server.will_answer(message_item("Hello"))
            await scene.say("Hi")
            server.answers(Script(200, (b"{}",), "application/json", headers_after=asyncio.Event()))
            await delete(scene)
            await gone(server, 1)

            async def lose_patience() -> None:
                await stopping(clock)
                await clock.advance(CLOSE_SECONDS)

            losing = asyncio.create_task(lose_patience())
        await losing
        (entry,) = [entry for entry in caplog.records if entry.message == LATER]
        assert entry.__dict__["code"] == "server_shutdown"
        async with stateful_gateway(tmp_path, server) as scene:
            await gone(server, 2)
            await nothing_due(scene)
        assert server.responses == {}


class LateStore:
    """A store whose list of due deletions comes late, once `held` is set, and which says late that a thread is deleted,
    once `deleting` is. `read`: the list was made.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.held: asyncio.Event | None = None
        self.deleting: asyncio.Event | None = None
        self.read = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def due_deletions(self) -> list[DueDeletion]:
        due = await self.store.due_deletions()
        if self.held is not None:
            self.read.set()
            await self.held.wait()
        return due

    async def delete_thread(self, owner: str, thread_id: str, due: Sequence[DueDeletion] = ()) -> bool:
        deleted = await self.store.delete_thread(owner, thread_id, due)
        if self.deleting is not None:
            await self.deleting.wait()
        return deleted


async def test_a_deletion_that_ends_while_the_due_ones_are_read_is_not_done_again(tmp_path: Path) -> None:
    parts = parts_with_store(cast("Callable[[Store], Store]", LateStore))
    async with stateful_scene(tmp_path, clock=MovableClock(), parts=parts) as scene:
        server, application = scene.server, scene.gateway.application
        store, removal = cast(LateStore, application.store), application.runner.removal
        server.will_answer(message_item("Hello"))
        await scene.say("Hi")
        answered = asyncio.Event()
        server.answers(Script(200, (b"{}",), "application/json", headers_after=answered))
        await delete(scene)
        await gone(server, 1)
        store.held = asyncio.Event()
        round_of_now = asyncio.create_task(removal.go_on(application.runner.agents))
        await store.read.wait()
        answered.set()
        await until_answered(store.store.due_deletions, lambda due: not due)
        await removal.close()
        store.held.set()
        await round_of_now
        await removal.close()
        assert len(deletions(server)) == 1


async def test_a_deletion_that_a_round_has_done_already_is_not_done_by_its_own_request(tmp_path: Path) -> None:
    parts = parts_with_store(cast("Callable[[Store], Store]", LateStore))
    async with stateful_scene(tmp_path, clock=MovableClock(), parts=parts) as scene:
        server, application = scene.server, scene.gateway.application
        store, removal = cast(LateStore, application.store), application.runner.removal
        server.will_answer(message_item("Hello"))
        await scene.say("Hi")
        store.deleting = asyncio.Event()
        deleting = asyncio.create_task(delete(scene))
        await until_answered(store.store.due_deletions, bool)
        await removal.go_on(application.runner.agents)
        await removal.close()
        store.deleting.set()
        await deleting
        await removal.close()
        assert len(deletions(server)) == 1


async def nothing_due(scene: StatefulScene) -> None:
    store = scene.gateway.application.store
    await until_answered(store.due_deletions, lambda due: not due)


async def test_a_provider_that_is_down_for_long_is_asked_in_later_rounds(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = MovableClock()
    async with (
        asyncio.timeout(DEADLINE_SECONDS),
        responses_server() as server,
        stateful_gateway(tmp_path, server, clock=clock) as scene,
    ):
        await scene_with_what_is_due(scene, clock, error(503), error(503), error(503))
        await next_round(clock)
        await gone(server, MOST_TRIES + 1)
        await nothing_due(scene)
        assert server.responses == {}
        assert (caplog.messages.count(LATER), caplog.messages.count(GIVEN_UP)) == (1, 0)


@pytest.mark.parametrize(("rounds", "asleep"), [(MOST_ROUNDS, 0.0), (2, LONGEST_SECONDS)], ids=["rounds", "days"])
async def test_a_provider_that_stays_down_is_given_up_and_the_log_says_what_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, rounds: int, asleep: float
) -> None:
    """After so many rounds, or after so many days, which the machine may have slept."""
    clock = MovableClock()
    async with (
        asyncio.timeout(DEADLINE_SECONDS),
        responses_server() as server,
        stateful_gateway(tmp_path, server, clock=clock) as scene,
    ):
        await scene_with_what_is_due(scene, clock, *[error(503)] * rounds * MOST_TRIES)
        clock.put_forward(asleep)
        for number in range(1, rounds):
            assert GIVEN_UP not in caplog.messages
            await tried(scene, number)
            await next_round(clock, number)
            await asked_in_vain(server, clock, number * MOST_TRIES)
        await nothing_due(scene)
        (entry,) = [entry for entry in caplog.records if entry.message == GIVEN_UP]
        assert (entry.__dict__["agent_id"], entry.__dict__["response_ids"]) == ("openai", [scene.answered()])
        assert len(deletions(server)) == rounds * MOST_TRIES


async def scene_with_what_is_due(scene: StatefulScene, clock: MovableClock, *answers: Script) -> None:
    """A thread is deleted, its one response not yet."""
    scene.server.will_answer(message_item("Hello"))
    await scene.say("Hi")
    scene.server.answers(*answers)
    await delete(scene)
    await asked_in_vain(scene.server, clock, 0)
    await tried(scene, 1)


async def tried(scene: StatefulScene, rounds: int) -> None:
    """Until the store knows that so many rounds have come to nothing."""
    store = scene.gateway.application.store
    await until_answered(store.due_deletions, lambda due: [each.tries for each in due] == [rounds])


async def next_round(clock: MovableClock, number: int = 1) -> None:
    """The first one began with the process. No further than to that moment: what is asked then sleeps in its turn."""
    await clock.advance(number * ROUND_SECONDS - clock.monotonic())


async def asked_in_vain(server: ResponsesServer, clock: MovableClock, before: int) -> None:
    for number in range(1, MOST_TRIES):
        await gone(server, before + number)
        await clock.until_timer(AGAIN_SECONDS)
        await clock.advance(AGAIN_SECONDS)
    await gone(server, before + MOST_TRIES)


async def test_what_no_agent_can_ask_for_waits_for_one_that_can(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS), responses_server() as server:
        clock = MovableClock()
        async with stateful_gateway(tmp_path, server, clock=clock) as scene:
            await scene_with_what_is_due(scene, clock, *[error(503)] * MOST_TRIES)
        other = [agent("openai", openai_model(server, model_id="another"))]
        async with local_gateway(tmp_path, other) as gateway:
            await until(lambda: NOBODY in caplog.messages)
            await gateway.application.runner.removal.close()
            assert [each.tries for each in await gateway.application.store.due_deletions()] == [2]
        async with stateful_gateway(tmp_path, server) as scene:
            await nothing_due(scene)
        assert server.responses == {}


async def test_threads_of_agents_that_keep_nothing_elsewhere_ask_nobody(tmp_path: Path) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS), responses_server() as server:
        agents = [agent("plain", openai_model(server, stateful=False))]
        async with local_gateway(tmp_path, agents) as gateway:
            scene = StatefulScene(gateway, server, "plain")
            server.will_answer(message_item("Hello"))
            await scene.say("Hi")
            await delete(scene)
            await gateway.application.runner.removal.close()
        assert len(server.requests) == 1


async def test_what_lies_where_no_agent_asks_any_more_is_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS), responses_server() as server:
        async with stateful_gateway(tmp_path, server) as scene:
            server.will_answer(message_item("Hello"))
            await scene.say("Hi")
        agents = [agent("openai", openai_model(server, model_id="another"))]
        async with local_gateway(tmp_path, agents) as gateway:
            await delete(StatefulScene(gateway, server))
        (entry,) = [entry for entry in caplog.records if "no agent asks any more" in entry.message]
        assert (entry.__dict__["agent_id"], entry.__dict__["responses"]) == ("openai", 1)
        assert deletions(server) == []
