"""The methods on push notification configs in every form of a request, and the config that comes with a message."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from a2a.compat.v0_3 import types
from a2a.types import ListTaskPushNotificationConfigsResponse, TaskPushNotificationConfig
from google.protobuf.json_format import ParseDict

from gateway.a2a.push_configs import CONFIGS
from gateway.owners import LOCAL_OWNER
from tests.a2a_push_scene import kinds
from tests.a2a_scene import A2AScene, a2a_gateway, said, state_of
from tests.openai_chat_server import ChatServer, Script, chat_server
from tests.running_gateway import agent, gateway_process, scripted, write_configuration
from tests.waiting import until_answered

WORDS: Final = agent("words", scripted(rules=[{"when": {}, "response": [{"text": "I heard: {{user}}"}]}]))
ASKS: Final = agent(
    "asks",
    scripted(
        [{"tool": "ask_user", "arguments": {}}],
        rules=[{"when": {"last_user_contains": "thanks"}, "response": [{"text": "welcome"}]}],
    ),
)
ASK_USER: Final = {"name": "ask_user", "description": "Asks.", "parameters": {"type": "object"}}
LOCAL: Final = {"allowed_private_hosts": ["127.0.0.1"]}
TAKEN: Final = Script(202)


@asynccontextmanager
async def with_receiver(tmp_path: Path) -> AsyncGenerator[tuple[A2AScene, ChatServer, str]]:
    async with chat_server() as receiver, a2a_gateway(tmp_path, [WORDS, ASKS], server=LOCAL) as a2a:
        receiver.answers(TAKEN)
        receiver.repeat = True
        yield a2a, receiver, f"http://127.0.0.1:{receiver.port}/hook"


async def bodies(receiver: ChatServer, count: int) -> list[Any]:
    await receiver.received(count)
    return [request.json for request in receiver.requests]


async def test_the_config_of_a_message_is_posted_what_becomes_of_its_task(tmp_path: Path) -> None:
    async with with_receiver(tmp_path) as (a2a, receiver, url):
        config = {"url": url, "token": "t"}
        sent = said("hello", configuration={"taskPushNotificationConfig": config})
        task = (await a2a.call("SendMessage", sent))["task"]
        assert kinds(await bodies(receiver, 3)) == ["WORKING", "artifact", "COMPLETED"]
        assert receiver.requests[0].headers["x-a2a-notification-token"] == "t"
        shown = {"taskId": task["id"], "id": task["id"], "url": url}
        asked = await a2a.call("ListTaskPushNotificationConfigs", {"taskId": task["id"]})
        assert asked == {"configs": [shown], "nextPageToken": ""}


async def test_the_config_of_a_streamed_message_in_0_3_gets_whole_tasks(tmp_path: Path) -> None:
    async with with_receiver(tmp_path) as (a2a, receiver, url):
        message = {"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "hello"}]}
        await a2a.frames(
            "message/stream", {"message": message, "configuration": {"pushNotificationConfig": {"url": url}}}
        )
        while (await bodies(receiver, 1))[-1]["status"]["state"] != "completed":
            await receiver.received(len(receiver.requests) + 1)
        last = types.Task.model_validate(receiver.requests[-1].json)
        assert last.artifacts is not None
        assert [part.root.text for part in last.artifacts[0].parts if part.root.kind == "text"] == ["I heard: hello"]


async def test_a_large_message_is_posted_whole_in_0_3(tmp_path: Path) -> None:
    parts = [{"kind": "text", "text": "word " * 30_000}]
    async with with_receiver(tmp_path) as (a2a, receiver, url):
        message = {"kind": "message", "messageId": "m", "role": "user", "parts": parts}
        await a2a.call("message/send", {"message": message, "configuration": {"pushNotificationConfig": {"url": url}}})
        (first,) = (await bodies(receiver, 1))[:1]
    assert types.Task.model_validate(first).history
    assert first["history"][0]["parts"] == parts


async def test_a_bad_config_of_a_message_begins_no_run(tmp_path: Path) -> None:
    async with with_receiver(tmp_path) as (a2a, _, _):
        sent = said("hello", configuration={"taskPushNotificationConfig": {"url": "http://10.0.0.1/"}})
        error = await a2a.error("SendMessage", sent)
        assert error["code"] == -32602
        assert "configuration.taskPushNotificationConfig.url" in str(error["data"])
        assert (await a2a.call("ListTasks", {}))["tasks"] == []


async def test_configs_are_created_read_listed_and_deleted_over_json_rpc(tmp_path: Path) -> None:
    async with with_receiver(tmp_path) as (a2a, _, url):
        task_id = (await a2a.call("SendMessage", said("hello")))["task"]["id"]
        config = {"id": "hook", "url": url, "authentication": {"scheme": "Bearer", "credentials": "secret"}}
        created = await a2a.call("CreateTaskPushNotificationConfig", {"task_id": task_id, **config})
        ParseDict(created, TaskPushNotificationConfig())
        assert created["taskId"] == task_id
        assert "secret" not in str(created)
        named = {"taskId": task_id, "id": "hook"}
        assert await a2a.call("GetTaskPushNotificationConfig", named) == created
        by_its_second_run = {**named, "taskId": f"{task_id}_2"}
        assert await a2a.call("GetTaskPushNotificationConfig", by_its_second_run) == created
        listed = await a2a.call("ListTaskPushNotificationConfigs", {"taskId": f"{task_id}_2"})
        assert listed["configs"] == [created]
        for _ in range(2):
            assert await a2a.call("DeleteTaskPushNotificationConfig", named) == {}
        assert (await a2a.error("GetTaskPushNotificationConfig", named))["code"] == -32001
        for method in ("Create", "Get", "Delete"):
            other = {**named, "taskId": "task_none", "url": url}
            assert (await a2a.error(f"{method}TaskPushNotificationConfig", other))["code"] == -32001
        missing = await a2a.error("CreateTaskPushNotificationConfig", {"url": url})
        assert (missing["code"], "taskId" in missing["message"]) == (-32602, True)


async def test_configs_are_created_read_listed_and_deleted_over_rest(tmp_path: Path) -> None:
    async with with_receiver(tmp_path) as (a2a, _, url):
        task_id = (await a2a.call("SendMessage", said("hello")))["task"]["id"]
        path = f"/a2a/tasks/{task_id}/pushNotificationConfigs"
        headers = {"A2A-Version": "1.0"}
        created = (await a2a.http.post(path, json={"id": "a/b", "url": url}, headers=headers)).json()
        assert created == {"taskId": task_id, "id": "a/b", "url": url}
        assert (await a2a.http.get(f"{path}/a%2Fb", headers=headers)).json() == created
        listed = (await a2a.http.get(path, headers=headers)).json()
        ParseDict(listed, ListTaskPushNotificationConfigsResponse())
        assert listed["configs"] == [created]
        for _ in range(2):
            assert (await a2a.http.delete(f"{path}/a%2Fb", headers=headers)).status_code == 200
        gone = await a2a.http.get(f"{path}/a%2Fb", headers=headers)
        assert (gone.status_code, gone.json()["error"]["status"]) == (404, "NOT_FOUND")
        wrong = await a2a.http.post(path, json={"url": "file:///etc/passwd"}, headers=headers)
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (400, 400)


async def test_configs_are_set_read_listed_and_deleted_in_0_3(tmp_path: Path) -> None:
    async with with_receiver(tmp_path) as (a2a, _, url):
        task_id = (await a2a.call("SendMessage", said("hello")))["task"]["id"]
        prefix = "tasks/pushNotificationConfig/"
        created = await a2a.call(prefix + "set", {"taskId": task_id, "pushNotificationConfig": {"url": url}})
        assert types.TaskPushNotificationConfig.model_validate(created).push_notification_config.id == task_id
        assert await a2a.call(prefix + "get", {"id": task_id}) == created
        assert await a2a.call(prefix + "list", {"id": task_id}) == [created]
        named = {"id": task_id, "pushNotificationConfigId": task_id}
        assert await a2a.call(prefix + "get", named) == created
        assert await a2a.call(prefix + "delete", named) is None
        assert (await a2a.error(prefix + "get", {"id": task_id}))["code"] == -32001
        error = await a2a.error(prefix + "set", {"taskId": task_id, "pushNotificationConfig": {"url": 1}})
        assert error["code"] == -32602


async def test_a_task_that_waits_is_posted_as_it_goes_on(tmp_path: Path) -> None:
    async with with_receiver(tmp_path) as (a2a, receiver, url):
        asks = "/agents/asks/a2a"
        sent = said("hello", configuration={"taskPushNotificationConfig": {"url": url}}, metadata={"tools": [ASK_USER]})
        task = (await a2a.call("SendMessage", sent, to=asks))["task"]
        assert state_of(task) == "INPUT_REQUIRED"
        assert kinds(await bodies(receiver, 2)) == ["WORKING", "INPUT_REQUIRED"]
        await a2a.call("SendMessage", said("thanks", taskId=task["id"]), to=asks)
        assert kinds(await bodies(receiver, 5))[2:] == ["WORKING", "artifact", "COMPLETED"]


async def until_over(a2a: A2AScene, task_id: str) -> None:
    """Until it is noted that the task's end was posted: a gateway that is stopped before leaves it to the next one."""
    documents = a2a.gateway.application.store.documents

    async def over_at() -> Any:
        kept = await documents.get(CONFIGS, task_id, LOCAL_OWNER)
        assert kept is not None
        return kept.body["over_at"]

    await until_answered(over_at, bool)


@pytest.mark.timeout(120)
async def test_after_kill_9_the_next_process_posts_the_failed_task_once(tmp_path: Path) -> None:
    async with chat_server() as receiver:
        url = f"http://127.0.0.1:{receiver.port}/hook"
        receiver.answers(TAKEN)
        receiver.repeat = True
        hangs = agent("hangs", scripted([{"text": "one", "chunk_characters": 3}, {"hang": True}]))
        configuration = write_configuration(tmp_path, [hangs], server=LOCAL)
        async with gateway_process(configuration) as first:
            config = {"returnImmediately": True, "taskPushNotificationConfig": {"url": url, "token": "t"}}
            call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": said("hello", configuration=config)}
            task = (await first.client.http.post("/a2a", json=call)).json()["result"]["task"]
            assert kinds(await bodies(receiver, 2)) == ["WORKING", "artifact"]
            first.process.kill()
            await first.wait()
        for _ in range(2):
            async with a2a_gateway(tmp_path, [hangs], server=LOCAL) as a2a:
                await receiver.received(3)
                await until_over(a2a, task["id"])
        told = [request.json for request in receiver.requests]
        assert kinds(told) == ["WORKING", "artifact", "task FAILED"]
        assert told[2]["task"]["id"] == task["id"]
        assert receiver.requests[2].headers["x-a2a-notification-token"] == "t"
