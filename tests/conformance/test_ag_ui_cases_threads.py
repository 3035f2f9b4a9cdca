"""AG-UI cases 48 to 50 and 58: one thread and several requests; viewers that come late, again, or several at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.ag_ui_verifier import read_stream, verify_server
from tests.agui_client import NodeClients
from tests.case_tools import executions, python_tools
from tests.observed_runs import check_run, observe, post, read_observed, run_client, said, thread_messages
from tests.openai_chat_server import DONE, ChatServer, Script, chunk, completion, record
from tests.running_gateway import LocalGateway, OpenStream, agent, run_body, scripted
from tests.waiting import until_answered

pytestmark = pytest.mark.asyncio(loop_scope="session")

Fresh = Callable[[str], str]
Json = dict[str, Any]

PICK: Json = {"name": "pick", "description": "Pick.", "parameters": {"type": "object"}}
ADD = {"tool": "add", "arguments": {"a": 2, "b": 3}}
TALK_OR_HANG = scripted(
    [{"text": "Hello there"}],
    rules=[{"when": {"last_user_contains": "hang"}, "response": [{"text": "So far"}, {"hang": True}]}],
)

AGENTS = [
    agent("greeter", scripted([{"text": "Hello there"}])),
    agent("picker", scripted([{"tool": "pick"}], [{"text": "You picked {{result}}."}])),
    agent("calculator", scripted([ADD], [{"text": "It is {{result}}."}]), tools=python_tools("add")),
    agent("rejecting", TALK_OR_HANG),
    agent("continuing", TALK_OR_HANG, on_disconnect="continue"),
    agent("enqueuing", TALK_OR_HANG, on_concurrent_run="enqueue"),
    agent("replacing", TALK_OR_HANG, on_concurrent_run="cancel_previous"),
]


def user(text: str, id: str = "u1") -> Json:
    return {"id": id, "role": "user", "content": text}


def in_two_halves(first: Json, second: Json, reason: str, hold: asyncio.Event) -> Script:
    """An upstream's answer that stops in the middle until `hold` is set."""
    return Script(
        pieces=[record(chunk(first))], hold=hold, pieces_after=[record(chunk(second)), record(chunk({}, reason)), DONE]
    )


def text_in_two_halves(hold: asyncio.Event) -> Script:
    return in_two_halves({"content": "So far"}, {"content": ", so good."}, "stop", hold)


def call_in_two_halves(hold: asyncio.Event) -> Script:
    begun = {"index": 0, "id": "c1", "type": "function", "function": {"name": "pick", "arguments": '{"of": "the'}}
    rest = {"index": 0, "function": {"arguments": ' sky"}'}}
    return in_two_halves({"tool_calls": [begun]}, {"tool_calls": [rest]}, "tool_calls", hold)


def whole(stream: OpenStream) -> list[Json]:
    return [sent.event for sent in read_stream(bytes(stream.body))]


async def until_known(gateway: LocalGateway, run_id: str) -> None:
    """Until the server has the run."""
    await until_answered(lambda: gateway.client.http.get(f"/runs/{run_id}"), lambda answer: answer.status_code != 404)


# --- 48: a second run on a busy thread


async def test_case_48_a_second_run_on_a_watched_thread_is_a_conflict(
    gateway: LocalGateway, clients: NodeClients, fresh: Fresh
) -> None:
    """409 or one after the other: 409 unless the agent says otherwise. Nothing of the second one is kept."""
    thread_id, first, second = fresh("thread"), fresh("run"), fresh("run")
    one, other = [await clients.create(gateway.client.run_url("rejecting"), thread_id=thread_id) for _ in "12"]
    await one.add_message(user("hang"))
    running = one.start_run(run_id=first)
    await one.wait_for("TEXT_MESSAGE_CONTENT")

    refused = await other.run(run_id=second)

    clients.console.clear()  # its own report of the refusal
    assert refused.rejection is not None
    assert refused.rejection.status == 409
    assert isinstance(refused.rejection.payload, dict)
    assert refused.rejection.payload["code"] == "thread_busy"
    assert (await gateway.client.http.get(f"/runs/{second}")).status_code == 404
    await gateway.client.http.post(f"/runs/{first}/cancel")
    await running
    await check_run(gateway, first)


async def test_case_48_after_a_stop_in_the_client_the_next_run_is_served_at_once(
    gateway: LocalGateway, clients: NodeClients, fresh: Fresh
) -> None:
    """HttpAgent's only Stop is to close its socket: the run that nobody watches any more is ended first."""
    run_id = fresh("run")
    agent = await clients.create(gateway.client.run_url("rejecting"), thread_id=fresh("thread"))
    await agent.add_message(user("hang"))
    running = agent.start_run(run_id=run_id)
    await agent.wait_for("TEXT_MESSAGE_CONTENT")
    await agent.abort()
    await running
    clients.console.clear()  # some versions report the abort

    report = await run_client(gateway, agent, fresh("run"), text="again")

    assert report.messages[-1]["content"] == "Hello there"
    assert (await gateway.client.get(f"/runs/{run_id}"))["status"] == "cancelled"


async def test_case_48_under_continue_a_run_that_nobody_watches_still_keeps_its_thread(
    gateway: LocalGateway, fresh: Fresh
) -> None:
    thread_id, first = fresh("thread"), fresh("run")
    async with gateway.client.stream("continuing", run_body("hang", thread_id=thread_id, run_id=first)) as stream:
        await stream.until("TEXT_MESSAGE_CONTENT")

    refused = await post(gateway, "/agents/continuing/run", run_body("hi", thread_id=thread_id, run_id=fresh("run")))

    assert refused.status_code == 409
    assert (await gateway.client.get(f"/runs/{first}"))["status"] == "running"
    await gateway.client.http.post(f"/runs/{first}/cancel")
    await gateway.client.until_status(first, "cancelled")


async def test_case_48_enqueued_runs_wait_their_turn_with_heartbeats_and_the_ninth_is_refused(
    gateway: LocalGateway, fresh: Fresh
) -> None:
    thread_id, first, second = fresh("thread"), fresh("run"), fresh("run")
    client = gateway.client
    waiting: list[asyncio.Task[Any]] = []
    async with (
        client.stream("enqueuing", run_body("hang", thread_id=thread_id, run_id=first)) as one,
        client.stream("enqueuing", run_body("hi", thread_id=thread_id, run_id=second)) as other,
    ):
        await one.until("TEXT_MESSAGE_CONTENT")
        assert other.response.status_code == 200
        assert await other.read()
        assert bytes(other.body).startswith(b":")
        assert other.frames == []
        assert (await client.get(f"/runs/{second}"))["status"] == "queued"
        ids = [fresh("run") for _ in range(7)]
        for run_id in ids:
            waiting.append(
                asyncio.create_task(client.run("enqueuing", run_body("hi", thread_id=thread_id, run_id=run_id)))
            )
            await until_known(gateway, run_id)
        refused = await post(gateway, "/agents/enqueuing/run", run_body("hi", thread_id=thread_id, run_id=fresh("run")))

        await client.http.post(f"/runs/{first}/cancel")
        await one.rest()
        await other.rest()
        streams = await asyncio.gather(*waiting)

    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) >= 1
    verify_server(whole(other), thread_id=thread_id, run_id=second)
    times = [(await client.get(f"/runs/{run_id}"))["finishedAt"] for run_id in (first, second, *ids)]
    assert times == sorted(times)
    assert [stream[-1].type for stream in streams] == ["RUN_FINISHED"] * 7


async def test_case_48_a_waiting_run_can_be_cancelled(gateway: LocalGateway, fresh: Fresh) -> None:
    thread_id, first, second = fresh("thread"), fresh("run"), fresh("run")
    client = gateway.client
    async with (
        client.stream("enqueuing", run_body("hang", thread_id=thread_id, run_id=first)) as one,
        client.stream("enqueuing", run_body("hi", thread_id=thread_id, run_id=second)) as other,
    ):
        await one.until("TEXT_MESSAGE_CONTENT")
        assert (await client.http.post(f"/runs/{second}/cancel")).status_code == 202
        await client.http.post(f"/runs/{first}/cancel")
        await one.rest()
        await other.rest()

    assert (await client.get(f"/runs/{second}"))["status"] == "cancelled"
    assert whole(other)[-1]["outcome"] == {"type": "cancelled"}


async def test_case_48_cancel_previous_ends_the_run_before_and_serves_the_new_one(
    gateway: LocalGateway, clients: NodeClients, fresh: Fresh
) -> None:
    thread_id, first = fresh("thread"), fresh("run")
    one, other = [await clients.create(gateway.client.run_url("replacing"), thread_id=thread_id) for _ in "12"]
    await one.add_message(user("hang"))
    running = one.start_run(run_id=first)
    await one.wait_for("TEXT_MESSAGE_CONTENT")

    served = await run_client(gateway, other, fresh("run"), text="hi")
    ended = await running

    assert served.messages[-1]["content"] == "Hello there"
    if clients.version == "1.0.0":
        assert ended.events[-1]["outcome"] == {"type": "cancelled"}
        assert ended.events[-1]["metadata"] == {"code": "superseded"}
    else:
        assert ended.run_error is not None
        assert ended.run_error["code"] == "superseded"


# --- 49: the same request again


async def test_case_49_the_same_request_again_replays_and_runs_nothing_twice(
    gateway: LocalGateway, fresh: Fresh
) -> None:
    body = run_body("2+3?", thread_id=fresh("thread"), run_id=fresh("run"))
    first = await observe(gateway, "calculator", body)

    again = await observe(gateway, "calculator", body)

    assert again.sent == first.sent
    assert list(executions.values()) == [1]


async def test_case_49_without_message_ids_it_is_the_same_request_all_the_same(
    gateway: LocalGateway, fresh: Fresh
) -> None:
    body = run_body(messages=[{"role": "user", "content": "2+3?"}], thread_id=fresh("thread"), run_id=fresh("run"))
    first = await observe(gateway, "calculator", body)

    assert (await observe(gateway, "calculator", body)).sent == first.sent
    assert list(executions.values()) == [1]


async def test_case_49_a_client_that_has_the_answer_already_gets_it_once(
    gateway: LocalGateway, clients: NodeClients, fresh: Fresh
) -> None:
    """HttpAgent sends what it has with every run: what this very run produced is not held against the request."""
    run_id = fresh("run")
    agent = await clients.create(gateway.client.run_url("greeter"), thread_id=fresh("thread"))
    first = await run_client(gateway, agent, run_id, text="hi")

    again = await agent.run(run_id=run_id)

    assert again.rejection is None
    assert said(again.messages) == said(first.messages)


@pytest.mark.parametrize("change", ["messages", "thread", "agent"])
async def test_case_49_a_run_id_with_anything_else_is_a_conflict(
    gateway: LocalGateway, fresh: Fresh, change: str
) -> None:
    body = run_body("hi", thread_id=fresh("thread"), run_id=fresh("run"))
    await observe(gateway, "greeter", body)
    other: dict[str, Json] = {
        "messages": {"messages": [user("something else")]},
        "thread": {"threadId": fresh("thread")},
        "agent": {},
    }

    refused = await post(
        gateway, f"/agents/{'picker' if change == 'agent' else 'greeter'}/run", {**body, **other[change]}
    )

    assert refused.status_code == 409
    assert refused.json()["code"] == "run_exists"


async def test_case_49_the_same_request_joins_a_run_that_is_under_way(
    gateway: LocalGateway, upstream: ChatServer, clients: NodeClients, fresh: Fresh
) -> None:
    """A page that was reloaded and sends its request again: what there is so far, then the tail."""
    hold = asyncio.Event()
    upstream.answers(text_in_two_halves(hold))
    thread_id, run_id = fresh("thread"), fresh("run")
    question = user("hi", fresh("user"))
    url = gateway.client.run_url("openai")
    one = await clients.create(url, thread_id=thread_id, initial_messages=[question])
    other = await clients.create(url, thread_id=thread_id, initial_messages=[question])
    running = one.start_run(run_id=run_id)
    await one.wait_for("TEXT_MESSAGE_CONTENT")

    joined = other.start_run(run_id=run_id)
    await other.wait_for("TEXT_MESSAGE_CONTENT")
    hold.set()
    first, second = await running, await joined

    assert len(upstream.requests) == 1
    assert first.rejection is None
    assert second.rejection is None
    assert second.event_types[:3] == ["RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT"]
    assert said(first.messages) == said(second.messages) == said(await thread_messages(gateway, thread_id))
    assert second.messages[-1]["content"] == "So far, so good."


# --- 50 and 58: attach


async def attached(gateway: LocalGateway, clients: NodeClients, fresh: Fresh, thread_id: str) -> tuple[Any, Any]:
    """An unmodified HttpAgent on the thread's `/connect`, and its run as a task."""
    page = await clients.create(f"{gateway.client.base_url}/agents/openai/connect", thread_id=thread_id)
    return page, page.start_run(run_id=fresh("connect"))


async def test_case_58_a_reloaded_page_gets_the_history_then_the_tail_of_the_live_run(
    gateway: LocalGateway, upstream: ChatServer, clients: NodeClients, fresh: Fresh
) -> None:
    """Case 50 too: the snapshot has every message that is closed, the last user's among them, under the streamed ids,
    and none that is open."""
    hold = asyncio.Event()
    upstream.answers(completion("First."), text_in_two_halves(hold))
    thread_id, run_id = fresh("thread"), fresh("run")
    before = await clients.create(
        gateway.client.run_url("openai"), thread_id=thread_id, initial_state={"cart": ["tea"]}
    )
    await run_client(gateway, before, fresh("run"), text="one")
    await before.add_message(user("two", fresh("user")))
    running = before.start_run(run_id=run_id)
    await before.wait_for("TEXT_MESSAGE_CONTENT")

    page, joined = await attached(gateway, clients, fresh, thread_id)
    so_far = await page.wait_for("TEXT_MESSAGE_CONTENT")
    hold.set()
    live, report = await running, await joined

    assert report.rejection is None
    assert [event["type"] for event in so_far] == [
        "RUN_STARTED",
        "STATE_SNAPSHOT",
        "MESSAGES_SNAPSHOT",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
    ]
    assert so_far[0]["runId"] == run_id
    assert [message["content"] for message in so_far[2]["messages"]] == ["one", "First.", "two"]
    assert so_far[4]["delta"] == "So far"
    assert report.state == {"cart": ["tea"]}
    assert said(report.messages) == said(live.messages) == said(await thread_messages(gateway, thread_id))
    assert report.messages[-1]["content"] == "So far, so good."


async def test_case_58_an_open_call_arrives_once_and_whole(
    gateway: LocalGateway, upstream: ChatServer, clients: NodeClients, fresh: Fresh
) -> None:
    """Inside the snapshot, 0.0.47 would get it twice."""
    hold = asyncio.Event()
    upstream.answers(call_in_two_halves(hold))
    thread_id = fresh("thread")
    before = await clients.create(gateway.client.run_url("openai"), thread_id=thread_id)
    await before.add_message(user("a color"))
    running = before.start_run(run_id=fresh("run"), tools=[PICK])
    await before.wait_for("TOOL_CALL_ARGS")

    page, joined = await attached(gateway, clients, fresh, thread_id)
    await page.wait_for("TOOL_CALL_ARGS")
    hold.set()
    live, report = await running, await joined

    assert report.rejection is None
    assert report.event_types.count("TOOL_CALL_START") == 1
    (call,) = [call for message in report.messages for call in message.get("toolCalls", [])]
    assert call["function"] == {"name": "pick", "arguments": '{"of": "the sky"}'}
    assert said(report.messages) == said(live.messages)
    assert report.pending_tool_call_ids == live.pending_tool_call_ids


async def test_case_58_pending_calls_of_the_last_run_come_back_with_its_end(
    gateway: LocalGateway, clients: NodeClients, fresh: Fresh
) -> None:
    thread_id, run_id = fresh("thread"), fresh("run")
    before = await clients.create(gateway.client.run_url("picker"), thread_id=thread_id)
    ended = await run_client(gateway, before, run_id, text="a color", tools=[PICK])
    page = await clients.create(f"{gateway.client.base_url}/agents/picker/connect", thread_id=thread_id)

    report = await page.run(run_id=fresh("connect"))

    assert report.rejection is None
    assert report.event_types == ["RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    assert report.events[0]["runId"] == run_id
    assert said(report.messages) == said(ended.messages)
    assert report.pending_tool_call_ids == ended.pending_tool_call_ids


async def test_case_58_a_thread_that_does_not_exist_is_an_empty_run(
    gateway: LocalGateway, clients: NodeClients, fresh: Fresh
) -> None:
    page = await clients.create(f"{gateway.client.base_url}/agents/greeter/connect", thread_id=fresh("thread"))

    report = await page.run(run_id=fresh("connect"))

    assert report.event_types == ["RUN_STARTED", "RUN_FINISHED"]
    assert (await gateway.client.http.get(f"/threads/{page.thread_id}/messages")).status_code == 404


async def test_case_58_the_prelude_carries_no_ids_and_the_tail_those_of_the_log(
    gateway: LocalGateway, upstream: ChatServer, fresh: Fresh
) -> None:
    hold = asyncio.Event()
    upstream.answers(text_in_two_halves(hold))
    thread_id, run_id = fresh("thread"), fresh("run")
    body = run_body("hi", thread_id=thread_id, run_id=run_id)
    connect = run_body(messages=[], thread_id=thread_id, run_id=fresh("connect"))
    async with gateway.client.stream("openai", body) as live:
        await live.until("TEXT_MESSAGE_CONTENT")
        async with gateway.client.stream("openai", connect, to="connect") as page:
            await page.until("TEXT_MESSAGE_CONTENT")
            hold.set()
            await live.rest()
            tail = (await page.rest())[4:]

    assert [frame.id for frame in page.frames[:4]] == [None] * 4
    assert tail == live.frames[3:]
    verify_server(whole(page), thread_id=thread_id, run_id=run_id)


# --- the log of a run, by cursor


async def test_the_log_is_read_from_any_cursor(gateway: LocalGateway, fresh: Fresh) -> None:
    run_id = fresh("run")
    body = run_body("2+3?", thread_id=fresh("thread"), run_id=run_id)
    seen = await observe(gateway, "calculator", body)
    http, path = gateway.client.http, f"/runs/{run_id}/events"
    ids = [sent.id for sent in seen.sent if sent.id is not None]
    last = ids[-1]

    for cursor in (0, *ids[:-1]):
        expected = [sent for sent in seen.sent if sent.id is not None and sent.id > cursor]
        by_query = await http.get(path, params={"after": str(cursor)})
        by_header = await http.get(path, headers={"last-event-id": str(cursor)})
        assert read_stream(by_query.content) == read_stream(by_header.content) == expected
    at_the_end = await http.get(path, params={"after": str(last)})
    assert (at_the_end.status_code, at_the_end.content) == (204, b"")
    for garbage in ("x", "-1", "1.5", "٣", "9" * 30, str(last + 1)):
        refused = await http.get(path, params={"after": garbage})
        assert refused.status_code == 400, garbage
        assert refused.json()["code"] == "invalid_cursor"
    assert (await http.get("/runs/nowhere/events")).status_code == 404
    assert (await http.get(path, params={"protocolVersion": "3.0"})).status_code == 400
    legacy = await http.get(path, params={"protocolVersion": "0.0"})
    assert "outcome" not in read_stream(legacy.content)[-1].event


async def test_a_cut_stream_is_picked_up_without_losing_a_word(
    gateway: LocalGateway, upstream: ChatServer, fresh: Fresh
) -> None:
    hold = asyncio.Event()
    upstream.answers(text_in_two_halves(hold))
    run_id = fresh("run")
    body = run_body("hi", thread_id=fresh("thread"), run_id=run_id)
    async with gateway.client.stream("openai", body) as stream:
        await stream.until("TEXT_MESSAGE_CONTENT")
        before = [frame for frame in stream.frames if frame.id is not None]

    async with gateway.client.events(run_id, after=before[-1].id) as stream:
        assert stream.response.status_code == 200
        hold.set()
        after = await stream.rest()

    async with gateway.client.events(run_id) as stream:
        assert before + after == await stream.rest()
    assert after[0].data["delta"] == ", so good."


async def test_several_viewers_see_the_same_run(gateway: LocalGateway, upstream: ChatServer, fresh: Fresh) -> None:
    hold = asyncio.Event()
    upstream.answers(text_in_two_halves(hold))
    run_id = fresh("run")
    body = run_body("hi", thread_id=fresh("thread"), run_id=run_id)
    async with (
        gateway.client.stream("openai", body) as one,
        gateway.client.events(run_id) as two,
        gateway.client.events(run_id) as three,
    ):
        for viewer in (one, two, three):
            await viewer.until("TEXT_MESSAGE_CONTENT")
        hold.set()
        streams = [await viewer.rest() for viewer in (one, two, three)]

    assert streams[0] == streams[1] == streams[2]


async def test_a_viewer_that_leaves_does_not_stop_a_run_that_another_one_watches(
    gateway: LocalGateway, upstream: ChatServer, fresh: Fresh
) -> None:
    hold = asyncio.Event()
    upstream.answers(text_in_two_halves(hold))
    run_id = fresh("run")
    body = run_body("hi", thread_id=fresh("thread"), run_id=run_id)
    async with AsyncExitStack() as leaving:
        stream = await leaving.enter_async_context(gateway.client.stream("openai", body))
        await stream.until("TEXT_MESSAGE_CONTENT")
        async with gateway.client.events(run_id) as other:
            await other.until("TEXT_MESSAGE_CONTENT")
            await leaving.aclose()
            hold.set()
            assert (await other.rest())[-1].type == "RUN_FINISHED"

    assert (await gateway.client.get(f"/runs/{run_id}"))["status"] == "completed"


async def test_the_stream_of_a_run_that_waits_can_be_read_before_it_starts(gateway: LocalGateway, fresh: Fresh) -> None:
    thread_id, first, second = fresh("thread"), fresh("run"), fresh("run")
    client = gateway.client
    body = run_body("hi", thread_id=thread_id, run_id=second)
    async with (
        client.stream("enqueuing", run_body("hang", thread_id=thread_id, run_id=first)) as one,
        client.stream("enqueuing", body) as waiting,
        client.events(second) as watching,
        client.stream("enqueuing", body) as again,
    ):
        await one.until("TEXT_MESSAGE_CONTENT")
        await client.http.post(f"/runs/{first}/cancel")
        streams = [await each.rest() for each in (waiting, watching, again)]

    assert streams[0] == streams[1] == streams[2]
    assert streams[0][-1].type == "RUN_FINISHED"


async def test_a_replayed_log_is_what_was_seen_and_a_legal_stream(
    gateway: LocalGateway, upstream: ChatServer, fresh: Fresh
) -> None:
    upstream.answers(Script(pieces=[record(chunk({"content": "So "}))], ending="reset"))
    body = run_body("hi", thread_id=fresh("thread"), run_id=fresh("run"))

    seen = await observe(gateway, "openai", body)  # which compares the replay

    replay = await gateway.client.http.get(f"/runs/{body['runId']}/events")
    assert read_observed(replay, body["threadId"], body["runId"]).types == seen.types
