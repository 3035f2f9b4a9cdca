"""Whatever histories clients send, no message of a conversation is lost, and a run sees what it was sent."""

from __future__ import annotations

from itertools import count

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.events import RunFailed, RunFinished
from gateway.frozen import replace
from gateway.history.merging import merge_history
from gateway.messages import Message, TextBlock
from tests.agent_inputs import agent_input
from tests.runner_scene import OWNER, Scene, agent_of, read, runner_scene

ECHO = [[{"text": "I heard: {{user}}"}]]
KINDS = ["say", "edit", "reword", "regenerate", "recent", "new alone", "program", "switch", "fork", "delete version"]
STEPS = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 20)), min_size=1, max_size=12)


class Walk:
    """Clients' requests on threads, the last one first."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.threads = ["t"]
        self.said: set[tuple[str, str]] = set()
        self._numbers = count(1)

    def fresh(self) -> Message:
        number = next(self._numbers)
        return Message(f"m{number}", "user", (TextBlock(f"words {number}"),))

    async def step(self, kind: str, choice: int) -> None:
        thread_id = self.threads[choice % len(self.threads)]
        thread = await self.scene.store.load_thread(OWNER, thread_id)
        stored = () if thread is None else thread.messages
        place = choice % len(stored) if stored else 0
        versions = self.scene.runner.versions
        match kind:
            case "edit":
                await self.run(thread_id, stored, (*stored[:place], self.fresh()))
            case "reword":
                reworded = [replace(each, content=self.fresh().content) for each in stored[place : place + 1]]
                await self.run(thread_id, stored, (*stored[:place], *reworded, *stored[place + 1 :], self.fresh()))
            case "regenerate":
                await self.run(thread_id, stored, stored[:-1] or (self.fresh(),))
            case "recent":
                await self.run(thread_id, stored, (*stored[place:], self.fresh()))
            case "new alone":
                await self.run(thread_id, stored, (self.fresh(),))
            case "program":
                program = replace(self.fresh(), role="system")
                talk = tuple(each for each in stored if each.role != "system")
                await self.run(thread_id, stored, (program, *talk, self.fresh()))
            case "switch" if thread is not None:
                page = await versions.page(OWNER, thread_id, limit=100, cursor=None)
                await versions.select(OWNER, thread_id, page.items[choice % len(page.items)].number)
            case "fork" if stored:
                self.threads.append(await versions.fork(OWNER, thread_id, stored[place].id))
            case "delete version" if thread is not None:
                await self.delete_version(thread_id, choice)
            case _:
                await self.run(thread_id, stored, (*stored, self.fresh()))

    async def run(self, thread_id: str, stored: tuple[Message, ...], sent: tuple[Message, ...]) -> None:
        run_id = f"run {next(self._numbers)}"
        events = await read(await self.scene.start("echo", agent_input(thread_id, run_id, sent)))
        assert isinstance(events[-1], RunFinished | RunFailed)  # a script knows no answer to an answer
        await self.scene.until_idle()
        thread = await self.scene.store.load_thread(OWNER, thread_id)
        assert thread is not None
        merged = merge_history(stored, sent)
        assert thread.messages[: len(merged)] == merged, "the thread is what was sent"
        self.said |= {(each.id, each.text) for each in thread.messages if each.role != "system"}

    async def delete_version(self, thread_id: str, choice: int) -> None:
        page = await self.scene.runner.versions.page(OWNER, thread_id, limit=100, cursor=None)
        others = [each.number for each in page.items if not each.is_current]
        if others:
            number = others[choice % len(others)]
            gone = await self.messages(thread_id, number)
            await self.scene.runner.versions.delete(OWNER, thread_id, number)
            self.said -= gone - await self.everything()

    async def messages(self, thread_id: str, version: int) -> set[tuple[str, str]]:
        page = await self.scene.store.list_messages(OWNER, thread_id, limit=1000, cursor=None, version=version)
        return {(each.id, each.text) for each in page.items}

    async def everything(self) -> set[tuple[str, str]]:
        """What all versions of all threads have."""
        found: set[tuple[str, str]] = set()
        for thread_id in self.threads:
            page = await self.scene.store.list_versions(OWNER, thread_id, limit=1000, cursor=None)
            for each in page.items:
                found |= await self.messages(thread_id, each.number)
        return found


async def test_words_that_were_taken_back_are_in_no_version_and_no_fork() -> None:
    guarded = agent_of("echo", [[{"text": "The code is 4711."}, {"retract": "Not that."}]])
    async with runner_scene(guarded) as scene:
        walk = Walk(scene)
        first = (walk.fresh(),)
        await walk.run("t", (), first)
        thread = await scene.store.load_thread(OWNER, "t")
        assert thread is not None
        await walk.run("t", thread.messages, first)
        await scene.runner.versions.select(OWNER, "t", 1)
        walk.threads.append(await scene.runner.versions.fork(OWNER, "t", thread.messages[-1].id))
        said = await walk.everything()
        assert [text for _, text in said].count("Not that.") == 2  # of a set: the fork has the first version's
        assert not any("4711" in text for _, text in said)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS)
async def test_no_message_is_ever_lost(steps: list[tuple[str, int]]) -> None:
    async with runner_scene(agent_of("echo", ECHO)) as scene:
        walk = Walk(scene)
        for step in steps:
            await walk.step(*step)
            assert walk.said <= await walk.everything()
