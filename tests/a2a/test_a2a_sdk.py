"""The official client of A2A 1.0, the a2a-sdk package, before a gateway on a real socket, by JSON-RPC and by REST."""

from __future__ import annotations

import contextlib
import itertools
from base64 import b64decode
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.helpers.proto_helpers import get_data_parts, get_text_parts, new_data_part, new_raw_part, new_text_part
from a2a.types import (
    AgentCard,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import TaskNotCancelableError, TaskNotFoundError, UnsupportedOperationError
from google.protobuf.json_format import ParseDict

from tests.a2a_scene import of_agent
from tests.openai_chat_server import Script, chat_server
from tests.openai_scene import ADDER, AGENTS, PICTURE
from tests.running_gateway import agent, local_gateway, scripted

SEPARATORS: Final = "one\u2028two\u2029three\u0085four\nfive"
LINES: Final = agent("lines", scripted([{"text": SEPARATORS, "chunk_characters": 4}]))
WORDY: Final = agent("wordy", scripted([{"text": "0123456789" * 2_000, "chunk_characters": 5}]))
ASK_USER: Final = {"name": "ask_user", "description": "Asks.", "parameters": {"type": "object"}}
ASKS: Final = agent("asks", scripted([{"tool": "ask_user", "arguments": {"q": 1}}], [{"text": "It said {{result}}."}]))
_numbers: Final = itertools.count(1)
KEY: Final = "a-key-of-sixteen-characters"


@dataclass(slots=True)
class Speaker:
    """A client of one agent, which speaks to it in one context."""

    client: Client
    card: AgentCard

    async def send(self, parts: Sequence[Part] | str, **more: Any) -> list[StreamResponse]:
        """All that comes of a message. `more` are members of the request's `message`, and `configuration`."""
        return [event async for event in self.stream(parts, **more)]

    def stream(
        self, parts: Sequence[Part] | str, *, configuration: Any = None, **message: Any
    ) -> AsyncIterator[StreamResponse]:
        given = [new_text_part(parts)] if isinstance(parts, str) else parts
        said = ParseDict({"messageId": f"m-{next(_numbers)}", **message}, Message())
        said.role = Role.ROLE_USER
        said.parts.extend(given)
        request = ParseDict({"configuration": configuration or {}}, SendMessageRequest())
        request.message.CopyFrom(said)
        return self.client.send_message(request)

    async def task(self, task_id: str, **more: Any) -> Task:
        return await self.client.get_task(GetTaskRequest(id=task_id, **more))


@contextlib.asynccontextmanager
async def speaker(
    tmp_path: Path, agent_id: str, binding: str, *, streaming: bool = True, key: str = "", **server: Any
) -> AsyncGenerator[Speaker]:
    agents = [*AGENTS, LINES, WORDY, ASKS]
    headers = {"authorization": f"Bearer {key}"} if key else {}
    async with (
        local_gateway(tmp_path, agents, server=server) as gateway,
        httpx.AsyncClient(timeout=20, trust_env=False, headers=headers) as http,
    ):
        card = await A2ACardResolver(http, gateway.client.base_url + of_agent(agent_id)).get_agent_card()
        config = ClientConfig(streaming, httpx_client=http, supported_protocol_bindings=[binding])
        yield Speaker(ClientFactory(config).create(card), card)


BINDINGS: Final = ["JSONRPC", "HTTP+JSON"]
by_each_binding: Final = pytest.mark.parametrize("binding", BINDINGS)


def kinds(events: Sequence[StreamResponse]) -> list[str]:
    return [str(event.WhichOneof("payload")) for event in events]


def streamed(events: Sequence[StreamResponse]) -> str:
    return "".join(
        text
        for event in events
        if event.HasField("artifact_update")
        for text in get_text_parts(event.artifact_update.artifact.parts)
    )


def words_of(task: Task) -> str:
    return "".join(text for artifact in task.artifacts for text in get_text_parts(artifact.parts))


@by_each_binding
async def test_a_message_is_answered_whole_and_its_task_is_read_and_listed(tmp_path: Path, binding: str) -> None:
    async with speaker(tmp_path, "words", binding, streaming=False) as a2a:
        [answer] = await a2a.send("hello")
        assert answer.task.status.state == TaskState.TASK_STATE_COMPLETED
        assert words_of(answer.task) == "I heard: hello"

        task = await a2a.task(answer.task.id, history_length=1)
        assert (words_of(task), len(task.history)) == ("I heard: hello", 1)
        assert not (await a2a.task(answer.task.id, history_length=0)).history
        listed = await a2a.client.list_tasks(ListTasksRequest(context_id=task.context_id, page_size=5))
        assert [each.id for each in listed.tasks] == [task.id]
        assert (listed.total_size, listed.next_page_token) == (1, "")
        with pytest.raises(TaskNotFoundError):
            await a2a.task("task_none")


@by_each_binding
async def test_a_stream_begins_with_the_task_and_ends_with_its_state(tmp_path: Path, binding: str) -> None:
    async with speaker(tmp_path, "words", binding) as a2a:
        events = await a2a.send("hello")
        assert kinds(events)[:2] == ["task", "status_update"]
        assert set(kinds(events)[2:-1]) == {"artifact_update"}
        assert streamed(events) == "I heard: hello"
        assert events[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED


@by_each_binding
async def test_line_separators_in_a_stream_stay_what_they_are(tmp_path: Path, binding: str) -> None:
    async with speaker(tmp_path, "lines", binding) as a2a:
        assert streamed(await a2a.send("hello")) == SEPARATORS


@by_each_binding
async def test_a_long_stream_comes_whole(tmp_path: Path, binding: str) -> None:
    async with speaker(tmp_path, "wordy", binding) as a2a:
        events = await a2a.send("hello")
        assert streamed(events) == "0123456789" * 2_000
        assert len(events) > 4_000


@by_each_binding
async def test_a_task_is_watched_again_and_cancelled(tmp_path: Path, binding: str) -> None:
    async with speaker(tmp_path, "slow", binding) as a2a:
        stream = a2a.stream("hello")
        first = await anext(stream)
        task_id = first.task.id
        again = a2a.client.subscribe(SubscribeToTaskRequest(id=task_id))
        assert (await anext(again)).task.id == task_id
        cancelled = await a2a.client.cancel_task(CancelTaskRequest(id=task_id))
        assert cancelled.status.state == TaskState.TASK_STATE_CANCELED
        for events in ([event async for event in again], [event async for event in stream]):
            assert events[-1].status_update.status.state == TaskState.TASK_STATE_CANCELED
        with pytest.raises(TaskNotCancelableError):
            await a2a.client.cancel_task(CancelTaskRequest(id=task_id))
        with pytest.raises(UnsupportedOperationError):
            await anext(a2a.client.subscribe(SubscribeToTaskRequest(id=task_id)))
        with pytest.raises(UnsupportedOperationError):
            await a2a.send("more", taskId=task_id)


@by_each_binding
async def test_a_tool_of_the_client_is_asked_for_and_answered(tmp_path: Path, binding: str) -> None:
    async with speaker(tmp_path, "asks", binding) as a2a:
        asked = await a2a.send("hello", metadata={"tools": [ASK_USER]})
        status = asked[-1].status_update.status
        assert status.state == TaskState.TASK_STATE_INPUT_REQUIRED
        [call] = get_data_parts(status.message.parts)
        assert (call["name"], call["arguments"]) == ("ask_user", {"q": 1})
        output = new_data_part({"tool_call_id": call["tool_call_id"], "output": "yes"})
        answered = await a2a.send([output], taskId=asked[0].task.id)
        assert (answered[0].task.id, streamed(answered)) == (asked[0].task.id, "It said yes.")
        assert answered[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED


@by_each_binding
@pytest.mark.parametrize("as_text", [True, False], ids=["as the word", "as data"])
async def test_an_approval_is_asked_for_and_given(tmp_path: Path, binding: str, as_text: bool) -> None:
    async with speaker(tmp_path, "refunder", binding) as a2a:
        asked = await a2a.send("hello")
        status = asked[-1].status_update.status
        assert status.state == TaskState.TASK_STATE_INPUT_REQUIRED
        [question] = get_data_parts(status.message.parts)
        assert question["name"] == "refund"
        given = new_text_part("approve") if as_text else new_data_part({"decision": "approve"})
        answered = await a2a.send([given], taskId=asked[0].task.id)
        assert streamed(answered).startswith("It said: ")
        assert answered[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED


@by_each_binding
async def test_files_go_in_and_come_out(tmp_path: Path, binding: str) -> None:
    async with speaker(tmp_path, "painter", binding, streaming=False) as a2a:
        file = new_raw_part(b"some bytes", media_type="image/png", filename="in.png")
        [answer] = await a2a.send([new_text_part("look"), file])
        task = await a2a.task(answer.task.id)
        assert [part.raw for part in task.history[0].parts] == [b"", b"some bytes"]
        [picture] = [part for artifact in task.artifacts for part in artifact.parts if part.raw]
        assert (picture.raw, picture.media_type) == (b64decode(PICTURE), "image/png")


@by_each_binding
async def test_a_failure_ends_the_stream_with_a_failed_task_that_says_why(tmp_path: Path, binding: str) -> None:
    async with speaker(tmp_path, "breaking", binding) as a2a:
        events = await a2a.send("hello")
        status = events[-1].status_update.status
        assert status.state == TaskState.TASK_STATE_FAILED
        assert get_text_parts(status.message.parts)[0]
        assert streamed(events).startswith("one")


@by_each_binding
async def test_push_configs_are_kept_and_served(tmp_path: Path, binding: str) -> None:
    async with (
        chat_server() as receiver,
        speaker(tmp_path, "words", binding, allowed_private_hosts=["127.0.0.1"]) as a2a,
    ):
        receiver.answers(Script(202))
        receiver.repeat = True
        url = f"http://127.0.0.1:{receiver.port}/hook"
        events = await a2a.send("hello", configuration={"taskPushNotificationConfig": {"url": url, "token": "t"}})
        await receiver.received(3)
        states = [ParseDict(request.json, StreamResponse()) for request in receiver.requests]
        assert kinds(states) == ["status_update", "artifact_update", "status_update"]

        task_id = events[0].task.id
        config = TaskPushNotificationConfig(task_id=task_id, id="mine", url=url)
        assert await a2a.client.create_task_push_notification_config(config) == config
        named = GetTaskPushNotificationConfigRequest(task_id=task_id, id="mine")
        assert await a2a.client.get_task_push_notification_config(named) == config
        listing = ListTaskPushNotificationConfigsRequest(task_id=task_id)
        assert len((await a2a.client.list_task_push_notification_configs(listing)).configs) == 2
        deleting = DeleteTaskPushNotificationConfigRequest(task_id=task_id, id="mine")
        await a2a.client.delete_task_push_notification_config(deleting)
        with pytest.raises(TaskNotFoundError):
            await a2a.client.get_task_push_notification_config(named)


@by_each_binding
async def test_an_extended_card_is_shown_to_a_key(tmp_path: Path, binding: str) -> None:
    server: dict[str, Any] = {"api_keys": [{"name": "alice", "key": KEY}]}
    card = {"name": "Adder", "description": "Adds."}
    agents = [{**ADDER, "a2a": {"card": card}}]
    async with (
        local_gateway(tmp_path, agents, server=server) as gateway,
        httpx.AsyncClient(timeout=20, trust_env=False) as http,
    ):
        public = await A2ACardResolver(http, gateway.client.base_url).get_agent_card()
        assert (public.name, public.capabilities.extended_agent_card) == ("Adder", True)
        http.headers["authorization"] = f"Bearer {KEY}"
        client = ClientFactory(ClientConfig(httpx_client=http, supported_protocol_bindings=[binding])).create(public)
        extended = await client.get_extended_agent_card(GetExtendedAgentCardRequest())
        assert "add" in [skill.name for skill in extended.skills]
        assert "add" not in [skill.name for skill in public.skills]
