"""Tasks where several gateways share a store: who waits holds the thread, and who holds it posts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.a2a.dialects import Dialect
from gateway.a2a.push_delivery import PushDelivery
from gateway.a2a.stored_tasks import StoredTasks
from gateway.agents.open_agent import OpenAgent
from gateway.errors import ConflictError, UnavailableError
from gateway.messages import Message, TextBlock, ToolSpec
from gateway.protocol import ProtocolEnvironment, staying_here
from gateway.store import HeldElsewhereError
from tests.a2a_push_scene import ALICE, CONFIG, TAKEN, TASK, THREAD, asking_agent, kinds
from tests.a2a_scene import A2AClient, of_agent, results, said
from tests.a2a_scene import words_of as task_words
from tests.agent_inputs import agent_input
from tests.openai_chat_server import ChatServer, chat_server
from tests.openai_scene import REFUNDER, SLOW, WORDS
from tests.opensearch.index_sets import INDEX_SETS
from tests.runner_scene import HANGS, SAYS_HELLO, agent_of
from tests.several_gateways import two_gateways
from tests.shared_store_scene import Member, two_members
from tests.stored_samples import CLUSTER_KEY, within
from tests.stub_internet import internet
from tests.waiting import until, until_answered


@pytest.fixture(autouse=True)
def _node(opensearch_url: str) -> None:
    INDEX_SETS.begin_test(opensearch_url)


@dataclass(frozen=True, slots=True)
class Poster:
    """A gateway that posts. Its tasks are ALICE's."""

    member: Member
    push: PushDelivery

    @property
    def environment(self) -> ProtocolEnvironment:
        return self.member.environment

    async def begin(self, agent_id: str = "a", run_id: str = TASK, text: str = "hello", **more: Any) -> None:
        given = agent_input(
            THREAD,
            run_id,
            (Message(f"msg_{run_id}", "user", (TextBlock(text),)),),
            tools=(ToolSpec("ask_user", "Asks.", {"type": "object"}),),
            history="append",
            unattended=True,
            protocol="a2a",
            request={"task": TASK},
            **more,
        )
        (await within(self.environment.start(ALICE, agent_id, given))).close()

    async def put(self, *, first_run: str = "", **more: Any) -> None:
        config = self.push.read({**CONFIG, **more}, "/config", Dialect.V1)
        await within(self.push.put(ALICE, TASK, config, first_run=first_run))

    async def until_quiet(self) -> None:
        """Until it posts nothing, and has said so."""
        await until(lambda: not self.push._followers and not self.member.runner.driver.beginnings._releasing)


@asynccontextmanager
async def two_posters(
    folder: Path, agents: Callable[[], Sequence[OpenAgent]]
) -> AsyncGenerator[tuple[Poster, Poster, ChatServer]]:
    """The receiver takes whatever comes."""
    async with internet() as (clients, receiver, _), two_members(folder, agents, clients.fetcher) as (one, two):
        receiver.answers(TAKEN)
        receiver.repeat = True
        posters = [Poster(each, each.environment.shared(PushDelivery)) for each in (one, two)]
        try:
            yield posters[0], posters[1], receiver
        finally:
            for each in posters:
                await within(each.push.close())


async def holder(member: Member) -> str | None:
    return await within(member.store.holder(ALICE.owner, THREAD))


async def test_who_waits_for_the_next_run_of_a_task_holds_its_thread(tmp_path: Path) -> None:
    async with two_members(tmp_path, lambda: [agent_of("a", SAYS_HELLO)]) as (one, two):
        await Poster(one, one.environment.shared(PushDelivery)).begin()
        await until(lambda: not one.runner._runs)
        first = await within(one.environment.shared(StoredTasks).next_begins(ALICE, THREAD))
        second = await within(one.environment.shared(StoredTasks).next_begins(ALICE, THREAD))
        with pytest.raises(HeldElsewhereError) as held:
            await within(two.environment.shared(StoredTasks).next_begins(ALICE, THREAD))
        assert held.value.gateway_id == one.id
        with pytest.raises(HeldElsewhereError):
            await Poster(two, two.environment.shared(PushDelivery)).begin(run_id=f"{TASK}_2")
        first.stop()
        await until(lambda: not one.runner.driver.beginnings._releasing)
        assert await holder(two) == one.id, "somebody waits still"
        await Poster(one, one.environment.shared(PushDelivery)).begin(run_id=f"{TASK}_2")
        await within(second.begins.wait())
        await until(lambda: not one.runner._runs)
        assert await holder(two) == one.id, "the end of the run changes nothing"
        second.stop()
        await until(lambda: not one.runner.driver.beginnings._releasing)
        assert await holder(two) is None
        await Poster(two, two.environment.shared(PushDelivery)).begin(run_id=f"{TASK}_3")


async def test_the_gateway_that_holds_a_task_posts_and_no_other(tmp_path: Path) -> None:
    async with two_posters(tmp_path, lambda: [asking_agent("a")]) as (one, two, receiver):
        await one.begin()
        await one.put(first_run=TASK)
        await receiver.received(2)
        await one.until_quiet()
        await within(two.push.sweep())
        await two.until_quiet()
        for change in (two.put(id="other"), two.push.delete(ALICE, TASK, "hook")):
            with pytest.raises(HeldElsewhereError) as held:
                await within(change)
            assert held.value.gateway_id == one.member.id
        await one.begin(run_id=f"{TASK}_2", text="thanks")
        await receiver.received(5)
        await one.until_quiet()
        assert await holder(two.member) is None, "there is no more to post"
        await within(two.push.sweep())
        await two.until_quiet()
        assert kinds([each.json for each in receiver.requests]) == [
            "WORKING", "INPUT_REQUIRED", "WORKING", "artifact", "COMPLETED",
        ]  # fmt: skip


async def test_a_config_that_another_gateway_added_is_posted_to_by_the_one_that_goes_on(tmp_path: Path) -> None:
    async with two_posters(tmp_path, lambda: [asking_agent("a")]) as (one, two, receiver):
        await one.begin()
        await one.put(first_run=TASK)
        await receiver.received(2)
        await one.until_quiet()
        await within(one.push.close())
        await one.until_quiet()
        await two.begin(run_id=f"{TASK}_2", text="thanks")
        await within(two.push.go_on(ALICE, await within(two.environment.shared(StoredTasks).task(ALICE, TASK))))
        await receiver.received(5)
        await two.until_quiet()
        assert kinds([each.json for each in receiver.requests[2:]]) == ["WORKING", "artifact", "COMPLETED"]


async def test_the_config_of_a_message_whose_run_has_begun_begins_it_nowhere_else(tmp_path: Path) -> None:
    async with two_posters(tmp_path, lambda: [agent_of("a", SAYS_HELLO), agent_of("b", HANGS)]) as (one, two, receiver):
        await one.begin()
        await until(lambda: not one.member.runner._runs)
        await two.begin("b", f"{TASK}_2")
        await one.put(first_run=TASK)
        assert len(await within(two.push.all(ALICE, TASK, Dialect.V1))) == 1
        await one.until_quiet()
        assert not receiver.requests, "the first gateway posts it once the thread is free"


async def test_a_config_that_one_gateway_deleted_is_gone_for_the_other(tmp_path: Path) -> None:
    async with two_posters(tmp_path, lambda: [asking_agent("a")]) as (one, two, receiver):
        await one.begin()
        await one.put(first_run=TASK)
        await receiver.received(2)
        await one.until_quiet()
        await within(one.push.delete(ALICE, TASK, "hook"))
        await one.until_quiet()
        assert await holder(two.member) is None, "nobody waits any more"
        await two.begin(run_id=f"{TASK}_2", text="thanks")
        await within(two.push.go_on(ALICE, await within(two.environment.shared(StoredTasks).task(ALICE, TASK))))
        await two.until_quiet()
        assert len(receiver.requests) == 2


async def test_what_a_killed_gateway_did_not_post_is_posted_once_by_the_first_of_the_others(tmp_path: Path) -> None:
    async with two_posters(tmp_path, lambda: [agent_of("a", HANGS)]) as (one, two, receiver):
        told = asyncio.Event()

        async def end_left() -> None:
            await two.member.runner.driver.recover()
            await two.push.sweep()
            told.set()

        two.member.store.gateways.events.on_left = end_left
        await one.begin()
        await one.put(first_run=TASK)
        await receiver.received(2)
        one.member.die()
        await within(told.wait())
        await receiver.received(3)
        await two.until_quiet()
        await within(two.push.sweep())
        await two.until_quiet()
        assert kinds([each.json for each in receiver.requests]) == ["WORKING", "artifact", "task FAILED"]
        await one.member.come_back()


async def test_a_list_shows_tasks_that_another_gateway_has_under_way_as_far_as_they_are_stored(tmp_path: Path) -> None:
    async with two_gateways(tmp_path, [SLOW, WORDS]) as (one, two):
        first, second = A2AClient(one.client), A2AClient(two.client)
        at_once = {"returnImmediately": True}
        slow = (await first.call("SendMessage", said("go", configuration=at_once), to=of_agent("slow")))["task"]
        await until_answered(lambda: first.task(slow["id"]), lambda task: task_words(task) == "word by word")
        queued = said("then", configuration=at_once, contextId=slow["contextId"])
        behind = (await first.call("SendMessage", queued, to=of_agent("slow")))["task"]
        await second.call("SendMessage", said("hello"), to=of_agent("words"))

        async def listed() -> list[Any]:
            shown = await second.call("ListTasks", {"includeArtifacts": True}, to=of_agent("slow"))
            tasks: list[Any] = shown["tasks"]
            return tasks

        tasks = await until_answered(listed, lambda tasks: len(tasks) == 2)
        shown = {task["id"]: (task["status"]["state"], task_words(task)) for task in tasks}
        assert shown == {
            slow["id"]: ("TASK_STATE_WORKING", "word by word"),
            behind["id"]: ("TASK_STATE_SUBMITTED", ""),
        }


async def test_who_reads_a_run_of_another_gateway_alone_goes_there(tmp_path: Path) -> None:
    async with two_members(tmp_path, lambda: [agent_of("a", HANGS)]) as (one, two):
        await Poster(one, one.environment.shared(PushDelivery)).begin()
        for work in (
            two.environment.attach(ALICE, TASK),
            two.environment.cancel(ALICE, TASK),
            two.environment.delete(ALICE, THREAD),
            two.environment.shared(StoredTasks).task(ALICE, TASK),
        ):
            with pytest.raises(HeldElsewhereError) as held:
                await within(work)
            assert held.value.gateway_id == one.id
        with pytest.raises(ConflictError) as busy, staying_here():
            await within(two.environment.delete(ALICE, THREAD))
        assert busy.value.code == "thread_busy"


async def test_a_stream_of_a_task_that_waits_shows_the_run_whichever_gateway_is_asked_for_it(tmp_path: Path) -> None:
    async with two_gateways(tmp_path, [REFUNDER]) as (one, two):
        first, second = A2AClient(one.client), A2AClient(two.client)
        task = (await first.call("SendMessage", said("refund")))["task"]
        async with second.stream("SubscribeToTask", {"id": task["id"]}) as stream:
            await within(stream.read())
            approved = (await first.call("SendMessage", said("approve", taskId=task["id"])))["task"]
            assert approved["status"]["state"] == "TASK_STATE_COMPLETED"
            *_, last = results(await stream.rest())
        assert last["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_a_gateway_posts_what_a_killed_one_left_as_soon_as_it_knows(tmp_path: Path) -> None:
    server = {"master_keys": [CLUSTER_KEY.reveal()], "allowed_private_hosts": ["127.0.0.1"]}
    async with chat_server() as receiver, two_gateways(tmp_path, [SLOW], server=server) as (killed, two):
        receiver.answers(TAKEN)
        receiver.repeat = True
        url = f"http://127.0.0.1:{receiver.port}/hook"
        asked = {"returnImmediately": True, "taskPushNotificationConfig": {"url": url}}
        task = (await A2AClient(killed.client).call("SendMessage", said("go", configuration=asked)))["task"]
        await receiver.received(2)
        members: Any = killed.application.store.gateways
        members.stop_beating()
        await receiver.received(3)
        assert kinds([each.json for each in receiver.requests]) == ["WORKING", "artifact", "task FAILED"]
        assert (await A2AClient(two.client).task(task["id"]))["status"]["state"] == "TASK_STATE_FAILED"
        await within(members._keep_beating())


async def test_a_stream_that_waits_breaks_off_at_once_where_its_gateway_was_taken_for_dead(tmp_path: Path) -> None:
    async with two_gateways(tmp_path, [REFUNDER], server={"heartbeat_seconds": 3600}) as (paused, two):
        first, second = A2AClient(paused.client), A2AClient(two.client)
        task = (await first.call("SendMessage", said("refund")))["task"]
        members: Any = paused.application.store.gateways
        others, own = two.application.store.gateways, members.own_id
        await until(lambda: others.address_of(own) is not None)
        async with first.stream("SubscribeToTask", {"id": task["id"]}) as stream:
            await within(stream.read())
            members.stop_beating()
            await until(lambda: others.address_of(own) is None)
            await within(members._keep_beating())
            with pytest.raises(httpx.RemoteProtocolError):
                await stream.rest()
        async with second.stream("SubscribeToTask", {"id": task["id"]}) as stream:
            await within(stream.read())
            approved = (await first.call("SendMessage", said("approve", taskId=task["id"])))["task"]
            assert approved["status"]["state"] == "TASK_STATE_COMPLETED"
            *_, last = results(await stream.rest())
        assert last["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_a_gateway_that_came_back_holds_again_what_it_is_to_post(tmp_path: Path) -> None:
    async with two_posters(tmp_path, lambda: [asking_agent("a")]) as (one, two, receiver):
        await one.begin()
        await one.put(first_run=TASK)
        await receiver.received(2)
        await one.until_quiet()
        before, told = one.member.id, asyncio.Event()

        async def end_left() -> None:
            told.set()

        two.member.store.gateways.events.on_left = end_left
        one.member.die()
        await within(told.wait())
        await one.member.come_back()
        assert await holder(two.member) is None
        await within(one.push.sweep())
        await one.until_quiet()
        assert await holder(two.member) == one.member.id != before
        await one.begin(run_id=f"{TASK}_2", text="thanks")
        await receiver.received(5)
        await one.until_quiet()
        assert kinds([each.json for each in receiver.requests]) == [
            "WORKING", "INPUT_REQUIRED", "WORKING", "artifact", "COMPLETED",
        ]  # fmt: skip


async def test_a_list_waits_for_no_gateway_that_is_gone(tmp_path: Path) -> None:
    async with two_members(tmp_path, lambda: [agent_of("a", HANGS)]) as (one, two):
        await Poster(one, one.environment.shared(PushDelivery)).begin()
        one.die()

        async def alone() -> str:
            """Why nobody gets the run alone."""
            try:
                await within(two.environment.run(ALICE, TASK))
            except UnavailableError as error:
                return error.code
            except HeldElsewhereError:
                return "it is there still"
            return "it has ended"

        await until_answered(alone, lambda why: why == "gateway_gone")
        with staying_here():
            task = await within(two.environment.shared(StoredTasks).folded(ALICE, TASK))
        assert task.state.at_work
        await one.come_back()
