"""Push notification configs: what is accepted, what is kept and shown, and what is never shown."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from gateway.a2a.dialects import Dialect
from gateway.a2a.push_configs import CONFIGS
from gateway.access.callers import Caller
from gateway.errors import InvalidRequestError, NotFoundError
from gateway.messages import JsonObject
from tests.a2a_push_scene import ALICE, CONFIG, CREDENTIALS, TASK, THREAD, TOKEN, PushScene, push_scene
from tests.runner_scene import SAYS_HELLO, agent_of

BOB = Caller("bob", "bob")
URL = "https://media.example/hook"


async def with_task(scene: PushScene) -> None:
    await scene.begin("a")
    await scene.until_ended()


@pytest.mark.parametrize(
    ("config", "pointer", "told"),
    [
        (None, "", "an object with a url"),
        ([], "", "an object with a url"),
        ({}, "/url", "needs a url"),
        ({"url": 7}, "/url", "a text"),
        ({"url": "ftp://media.example/"}, "/url", "only http and https"),
        ({"url": "http://127.0.0.1/hook"}, "/url", "public internet"),
        ({"url": "http://[::ffff:10.0.0.1]/hook"}, "/url", "public internet"),
        ({"url": "http://169.254.169.254/latest"}, "/url", "public internet"),
        ({"url": "https://media.example:22/"}, "/url", "port 22"),
        ({"url": "https://user:word@media.example/"}, "/url", "credentials"),
        ({"url": URL, "id": "x" * 257}, "/id", "at most 256"),
        ({"url": URL, "token": "a\r\nx-evil: 1"}, "/token", "printable ASCII"),
        ({"url": URL, "token": ["a"]}, "/token", "a text"),
        ({"url": URL, "authentication": "Bearer x"}, "/authentication", "an object"),
        ({"url": URL, "authentication": {}}, "/authentication/scheme", "scheme"),
        ({"url": URL, "authentication": {"scheme": "a b"}}, "/authentication/scheme", "scheme"),
        ({"url": URL, "authentication": {"scheme": "x" * 65}}, "/authentication/scheme", "scheme"),
        (
            {"url": URL, "authentication": {"scheme": "Bearer", "credentials": "ü"}},
            "/authentication/credentials",
            "printable ASCII",
        ),
    ],
)
async def test_a_config_that_cannot_be_used_is_refused_with_the_member(config: Any, pointer: str, told: str) -> None:
    async with push_scene() as scene:
        with pytest.raises(InvalidRequestError) as caught:
            scene.push.read(config, "/config", Dialect.V1)
    [problem] = caught.value.problems
    assert problem.pointer == f"/config{pointer}"
    assert told in problem.detail


async def test_a_config_is_shown_without_its_secrets_in_the_form_of_who_asks() -> None:
    async with push_scene(agent_of("a", SAYS_HELLO)) as scene:
        await with_task(scene)
        shown = {"taskId": TASK, "id": "hook", "url": CONFIG["url"], "authentication": {"scheme": "Bearer"}}
        assert await scene.put() == shown
        assert await scene.push.get(ALICE, TASK, "hook", Dialect.V1) == shown
        assert await scene.push.all(ALICE, TASK, Dialect.V1) == [shown]
        assert await scene.push.get(ALICE, TASK, "", Dialect.V03) == {
            "taskId": TASK,
            "pushNotificationConfig": {
                "id": "hook",
                "url": CONFIG["url"],
                "authentication": {"schemes": ["Bearer"]},
            },
        }


async def test_secrets_are_kept_sealed() -> None:
    async with push_scene(agent_of("a", SAYS_HELLO)) as scene:
        await with_task(scene)
        await scene.put()
        documents = scene.environment.documents(ALICE)
        plain = await documents.get(CONFIGS, TASK)
        opened = await documents.get(CONFIGS, TASK, unsealed=True)
        assert plain is not None
        assert opened is not None
        for secret in (TOKEN, CREDENTIALS, str(CONFIG["url"])):
            assert secret not in str(plain.body)
            assert secret in str(opened.body)


async def test_a_config_whose_url_was_kept_readable_is_shown_and_sealed_with_its_next_change() -> None:
    async with push_scene(agent_of("a", SAYS_HELLO)) as scene:
        await with_task(scene)
        documents = scene.environment.documents(ALICE)
        old: JsonObject = {"id": "old", "url": URL, "version": "1.0", "token": TOKEN}
        kept_then = replace(CONFIGS, sealed=("/configs/*/token", "/configs/*/credentials"))
        await documents.put(kept_then, TASK, {"over_at": 0, "configs": [old]}, 0, thread_id=THREAD)
        assert await scene.push.get(ALICE, TASK, "old", Dialect.V1) == {"taskId": TASK, "id": "old", "url": URL}
        await scene.put()
        assert [each["url"] for each in await scene.push.all(ALICE, TASK, Dialect.V1)] == [URL, CONFIG["url"]]
        plain = await documents.get(CONFIGS, TASK)
        assert plain is not None
        assert URL not in str(plain.body)


async def test_the_same_id_replaces_and_others_are_added_up_to_eight() -> None:
    async with push_scene(agent_of("a", SAYS_HELLO)) as scene:
        await with_task(scene)
        await asyncio.gather(*[scene.put({**CONFIG, "id": f"hook-{number}"}) for number in range(8)])
        again = await scene.put({"url": URL, "id": "hook-3"})
        assert again == {"taskId": TASK, "id": "hook-3", "url": URL}
        with pytest.raises(InvalidRequestError) as caught:
            await scene.put({"url": URL})
        assert "at most 8" in caught.value.message
        assert len(await scene.push.all(ALICE, TASK, Dialect.V1)) == 8
        await scene.push.delete(ALICE, TASK, "hook-0")
        added = await scene.put({"url": URL})
        assert added["id"].startswith("push_")
        with pytest.raises(InvalidRequestError):
            await scene.put({"url": URL}, task_id=f"{TASK}_7")  # it is the same task


async def test_the_config_of_0_3_without_an_id_is_the_one_of_its_task() -> None:
    async with push_scene(agent_of("a", SAYS_HELLO)) as scene:
        await with_task(scene)
        configs: list[Mapping[str, Any]] = [{"url": URL}, {"url": URL + "/2"}]
        for config in configs:
            shown = await scene.put(config, dialect=Dialect.V03)
            assert shown == {"taskId": TASK, "pushNotificationConfig": {"id": TASK, **config}}
        assert len(await scene.push.all(ALICE, TASK, Dialect.V03)) == 1


async def test_another_caller_sees_no_config() -> None:
    async with push_scene(agent_of("a", SAYS_HELLO)) as scene:
        await with_task(scene)
        await scene.put()
        assert await scene.push.all(BOB, TASK, Dialect.V1) == []
        await scene.push.delete(BOB, TASK, "hook")
        with pytest.raises(NotFoundError) as caught:
            await scene.push.get(BOB, TASK, "hook", Dialect.V1)
        assert caught.value.code == "task_not_found"
        with pytest.raises(NotFoundError):
            await scene.push.put(BOB, TASK, scene.push.read(dict(CONFIG), "", Dialect.V1))
        assert len(await scene.push.all(ALICE, TASK, Dialect.V1)) == 1
