"""Messages of a thread that are edited outside a run: other words make a version, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from gateway.access.callers import Caller
from gateway.access.limits import KeyLimits, Meter
from gateway.errors import NotFoundError, TooLargeError, TooManyRequestsError
from gateway.frozen import replace
from gateway.messages import Message, TextBlock
from gateway.protocol import ProtocolEnvironment
from gateway.runs.driver import RunOptions
from gateway.sse import OpenStreams
from tests.runner_scene import HANGS, OWNER, Scene, agent_of, question, read, runner_scene

ECHO = [[{"text": "You said {{user}}."}]]
Edit = Callable[[tuple[Message, ...]], tuple[Message, ...]]


def with_text(place: int, text: str) -> Edit:
    def edited(messages: tuple[Message, ...]) -> tuple[Message, ...]:
        said = replace(messages[place], content=(TextBlock(text),))
        return (*messages[:place], said, *messages[place + 1 :])

    return edited


async def talk(scene: Scene, *texts: str) -> None:
    for number, text in enumerate(texts, 1):
        given = question(text, run_id=f"r{number}", history="append")
        await read(await scene.start("a", given))


async def texts(scene: Scene, version: int | None = None) -> list[str]:
    page = await scene.store.list_messages(OWNER, "t", limit=50, cursor=None, version=version)
    return [message.text for message in page.items]


async def versions(scene: Scene) -> list[int]:
    page = await scene.runner.versions.page(OWNER, "t", limit=50, cursor=None)
    return [each.number for each in page.items]


async def test_an_edited_answer_makes_a_version_and_the_one_before_stays() -> None:
    async with runner_scene(agent_of("a", ECHO)) as scene:
        await talk(scene, "one", "two")
        await scene.runner.writes.edit(OWNER, "t", with_text(1, "edited"))
        assert await texts(scene) == ["one", "edited", "two", "You said two."]
        assert await texts(scene, 1) == ["one", "You said one.", "two", "You said two."]
        made = (await scene.runner.versions.page(OWNER, "t", limit=50, cursor=None)).items
        assert [(each.number, each.is_current, each.from_message) for each in made] == [
            (1, False, None),
            (2, True, "user-r1"),
        ]
        await scene.runner.versions.select(OWNER, "t", 1)
        assert await texts(scene) == ["one", "You said one.", "two", "You said two."]


async def test_a_run_goes_on_from_the_edited_answer() -> None:
    async with runner_scene(agent_of("a", ECHO)) as scene:
        await talk(scene, "one")
        await scene.runner.writes.edit(OWNER, "t", with_text(1, "edited"))
        await read(await scene.start("a", question("two", run_id="r2", history="append")))
        assert await texts(scene) == ["one", "edited", "two", "You said two."]


async def test_other_metadata_makes_no_version() -> None:
    async with runner_scene(agent_of("a", ECHO)) as scene:
        await talk(scene, "one", "two")
        await scene.runner.writes.edit(
            OWNER, "t", lambda messages: (replace(messages[0], metadata={"k": 1}), *messages[1:])
        )
        assert await versions(scene) == [1]
        assert await texts(scene) == ["one", "You said one.", "two", "You said two."]
        first = (await scene.store.list_messages(OWNER, "t", limit=1, cursor=None)).items[0]
        assert first.metadata == {"k": 1}


async def test_what_is_put_between_messages_makes_no_version() -> None:
    async with runner_scene(agent_of("a", ECHO)) as scene:
        await talk(scene, "one", "two")
        added = Message("m", "assistant", (TextBlock("added"),))
        await scene.runner.writes.edit(OWNER, "t", lambda messages: (*messages[:2], added, *messages[2:]))
        assert await versions(scene) == [1]
        assert await texts(scene) == ["one", "You said one.", "added", "two", "You said two."]


async def test_the_oldest_version_makes_room() -> None:
    async with runner_scene(agent_of("a", ECHO), options=RunOptions(max_versions=2)) as scene:
        await talk(scene, "one")
        for text in ("second", "third"):
            await scene.runner.writes.edit(OWNER, "t", with_text(1, text))
        assert await versions(scene) == [2, 3]
        assert await texts(scene, 2) == ["one", "second"]
        assert await texts(scene) == ["one", "third"]


async def test_an_edit_waits_for_the_runs_that_were_there() -> None:
    async with runner_scene(agent_of("a", HANGS)) as scene:
        await scene.start("a", question("one"))
        editing = asyncio.ensure_future(scene.runner.writes.edit(OWNER, "t", with_text(0, "edited")))
        await scene.clock.settle()
        assert not editing.done()
        await scene.runner.cancel(OWNER, "r")
        await editing
        assert (await texts(scene))[0] == "edited"


async def test_edits_that_come_together_lose_nothing() -> None:
    def with_one_more(number: int) -> Edit:
        return lambda messages: (*messages, Message(f"m{number}", "user", (TextBlock("more"),)))

    async with runner_scene(agent_of("a", ECHO)) as scene:
        await talk(scene, "one")
        await asyncio.gather(*[scene.runner.writes.edit(OWNER, "t", with_one_more(number)) for number in range(7)])
        assert len(await texts(scene)) == 9


async def test_an_unknown_thread_is_not_edited() -> None:
    async with runner_scene(agent_of("a", ECHO)) as scene:
        with pytest.raises(NotFoundError):
            await scene.runner.writes.edit(OWNER, "t", with_text(0, "edited"))


async def test_an_edit_counts_as_a_run_and_is_held_to_the_callers_limits() -> None:
    alice = Caller(OWNER, "alice", KeyLimits(runs_per_minute=2, max_message_bytes=50))
    async with runner_scene(agent_of("a", ECHO)) as scene:
        environment = ProtocolEnvironment(scene.runner, OpenStreams(), Meter(scene.clock, "runs"))
        await talk(scene, "one")
        with pytest.raises(TooLargeError):
            await environment.edit_messages(alice, "t", with_text(1, "x" * 51))
        await environment.edit_messages(alice, "t", with_text(1, "edited"))
        with pytest.raises(TooManyRequestsError):
            await environment.edit_messages(alice, "t", with_text(1, "again"))
        assert await texts(scene) == ["one", "edited"]
