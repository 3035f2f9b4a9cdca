"""Agents with `history: by_id` serve clients that send the whole history, and those that send only what is new."""

from __future__ import annotations

from gateway.frozen import replace
from gateway.messages import Message, TextBlock
from tests.agent_inputs import changed
from tests.runner_scene import OWNER, Scene, agent_of, question, read, runner_scene

ECHO = [[{"text": "You said {{user}}."}]]
BOTH = agent_of("a", ECHO, history="by_id")


def said(message_id: str, text: str) -> Message:
    return Message(message_id, "user", (TextBlock(text),))


async def send(scene: Scene, run_id: str, *messages: Message) -> None:
    await read(await scene.start("a", changed(question(run_id=run_id), messages=messages)))


async def texts(scene: Scene) -> list[str]:
    page = await scene.store.list_messages(OWNER, "t", limit=50, cursor=None)
    return [message.text for message in page.items]


async def history(scene: Scene) -> list[Message]:
    return list((await scene.store.list_messages(OWNER, "t", limit=50, cursor=None)).items)


async def test_what_is_new_alone_is_added() -> None:
    async with runner_scene(BOTH) as scene:
        await send(scene, "r1", said("u1", "one"))
        await send(scene, "r2", said("u2", "two"))
        assert await texts(scene) == ["one", "You said one.", "two", "You said two."]


async def test_the_whole_history_is_told_by_its_first_message() -> None:
    async with runner_scene(BOTH) as scene:
        await send(scene, "r1", said("u1", "one"))
        await send(scene, "r2", *await history(scene), said("u2", "two"))
        assert await texts(scene) == ["one", "You said one.", "two", "You said two."]
        first, answer, *_ = await history(scene)
        await send(scene, "r3", first, answer, said("u3", "other"))
        assert await texts(scene) == ["one", "You said one.", "other", "You said other."]


async def test_a_programs_words_in_front_of_the_first_message_do_not_count() -> None:
    async with runner_scene(BOTH) as scene:
        rules = Message("s1", "system", (TextBlock("Be brief."),))
        await send(scene, "r1", rules, said("u1", "one"))
        await send(scene, "r2", replace(rules, id="s2"), *(await history(scene))[1:], said("u2", "two"))
        assert await texts(scene) == ["Be brief.", "one", "You said one.", "two", "You said two."]


async def test_what_a_client_sends_again_from_the_middle_is_not_added_twice() -> None:
    async with runner_scene(BOTH) as scene:
        await send(scene, "r1", said("u1", "one"))
        answer = (await history(scene))[-1]
        await send(scene, "r2", answer, said("u2", "two"))
        assert await texts(scene) == ["one", "You said one.", "two", "You said two."]
