"""Runs over real sockets, watched closely: whatever a test asks for, the stream also has to be all that it must be.

    seen = await observe(gateway, "agent", run_body("hi"))
    assert seen.types == [...]

Every stream that is read here is held against AG-UI's rules and this server's promises (`ag_ui_verifier`), its log
against the invariants of all runs (`invariants`), and its replay against what was seen live.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from gateway.history.model_view import model_view
from gateway.store import NumberedEvent
from tests.ag_ui_verifier import SentEvent, read_stream, verify_server
from tests.agui_client import NodeAgent, RunParameters, RunReport
from tests.invariants import check_history, check_log, check_nothing_leaks, check_thread
from tests.pieces import rows_of_pieces
from tests.running_gateway import LocalGateway

OWNER = "local"  # everybody's, where no keys are configured
SECRET = "sk-conformance-secret"  # the upstream's key: in no answer
_PAGE = 100_000


@dataclass(frozen=True, slots=True)
class Observed:
    """A whole stream: its frames in order, and the answer that it came with."""

    sent: Sequence[SentEvent]
    response: httpx.Response

    @property
    def events(self) -> list[dict[str, Any]]:
        return [each.event for each in self.sent]

    @property
    def types(self) -> list[str]:
        return [each.event["type"] for each in self.sent]

    @property
    def last(self) -> dict[str, Any]:
        return self.sent[-1].event

    @property
    def body(self) -> bytes:
        return self.response.content

    def of(self, *types: str) -> list[dict[str, Any]]:
        """The events of these types."""
        return [event for event in self.events if event["type"] in types]

    def one(self, type: str) -> dict[str, Any]:
        """The only event of that type."""
        found = self.of(type)
        assert len(found) == 1, f"{len(found)} of {type} in {self.types}"
        return found[0]

    @property
    def text(self) -> str:
        """All that was said to the user."""
        return "".join(event["delta"] for event in self.of("TEXT_MESSAGE_CONTENT"))

    @property
    def results(self) -> dict[str, Any]:
        """What each call gave, by call id."""
        return {event["toolCallId"]: event["content"] for event in self.of("TOOL_CALL_RESULT")}

    @property
    def pending(self) -> list[str] | None:
        """What a client of 1.0 is told to answer; None where the outcome names nothing."""
        outcome = self.last.get("outcome") or {}
        pending: list[str] | None = outcome.get("pendingToolCallIds")
        return pending


async def post(
    gateway: LocalGateway, path: str, body: object, *, headers: Mapping[str, str] | None = None
) -> httpx.Response:
    """A POST of JSON as HttpAgent sends it; bytes go out as they are."""
    sent = {"content-type": "application/json", "accept": "text/event-stream", **(headers or {})}
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await gateway.client.http.post(path, content=content, headers=sent)


async def observe(
    gateway: LocalGateway,
    agent_id: str,
    body: Mapping[str, Any],
    *,
    headers: Mapping[str, str] | None = None,
    owner: str = OWNER,
) -> Observed:
    """Run to the end, and check everything that holds for every run."""
    response = await post(gateway, f"/agents/{agent_id}/run", body, headers=headers)
    seen = read_observed(response, body["threadId"], body["runId"], legacy="protocolVersion" not in body)
    await check_run(gateway, body["runId"], owner=owner)
    if "protocolVersion" in body:
        replay = await gateway.client.http.get(f"/runs/{body['runId']}/events", headers=dict(headers or {}))
        assert read_stream(replay.content) == list(seen.sent), "the replay differs from what was seen live"
    return seen


def read_observed(response: httpx.Response, thread_id: str, run_id: str, *, legacy: bool = False) -> Observed:
    """The stream in an answer, held against all that a stream has to be."""
    assert response.status_code == 200, response.text
    headers = response.headers
    assert headers["content-type"].startswith("text/event-stream")
    assert headers["cache-control"] == "no-store, no-transform"
    assert headers["x-accel-buffering"] == "no"
    assert headers["x-request-id"]
    assert response.content.startswith(b":"), "a comment goes out at once"
    sent = read_stream(response.content)
    verify_server([each.event for each in sent], thread_id=thread_id, run_id=run_id, legacy=legacy)
    ids = [each.id for each in sent if each.id is not None]
    assert ids == sorted(set(ids)), "ids are strictly increasing"
    assert not ids or ids[0] >= 1
    check_nothing_leaks(response.content, [SECRET])
    return Observed(sent, response)


async def log_of(gateway: LocalGateway, run_id: str, *, owner: str = OWNER) -> list[NumberedEvent]:
    """A run's canonical events."""
    return rows_of_pieces(await gateway.application.store.read_events(owner, run_id, after=0, limit=_PAGE))


async def check_run(gateway: LocalGateway, run_id: str, *, owner: str = OWNER) -> list[NumberedEvent]:
    """Hold a run that has ended, and the thread it left, against the invariants; gives its log."""
    store = gateway.application.store
    log = await log_of(gateway, run_id, owner=owner)
    record = await store.load_run(owner, run_id)
    assert record is not None
    assert record.status.ended, record.status
    thread = await store.load_thread(owner, record.thread_id)
    assert thread is not None
    tools, _ = await gateway.application.runner.agents[record.agent_id].tools()
    check_log(log, backend_tools=tools)
    if thread.last_run_id == run_id:
        check_thread(log, thread.messages)
        check_history(model_view(thread.messages))
    return log


async def run_client(
    gateway: LocalGateway, agent: NodeAgent, run_id: str, *, text: str | None = None, **parameters: Any
) -> RunReport:
    """`runAgent()` of the real client to its end, behind a user message with `text`; the run's log is checked too."""
    if text is not None:
        await agent.add_message({"id": f"user-{run_id}", "role": "user", "content": text})
    known: RunParameters = {"run_id": run_id, **parameters}  # type: ignore[typeddict-item]
    report = await agent.run(**known)
    assert report.rejection is None, report.rejection
    await check_run(gateway, run_id)
    return report


async def thread_messages(gateway: LocalGateway, thread_id: str) -> list[dict[str, Any]]:
    """The thread's messages as the server shows them."""
    answer = await gateway.client.get(f"/threads/{thread_id}/messages?limit=500")
    messages: list[dict[str, Any]] = answer["messages"]
    return messages


def said(messages: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, Any]]:
    """What a conversation comes to: (id, role, words or calls) of each message, however clients order reasoning."""
    rows = []
    for message in messages:
        calls = [
            (call["id"], call["function"]["name"], call["function"]["arguments"])
            for call in message.get("toolCalls") or []
        ]
        rows.append((message["id"], message["role"], (message.get("content") or "", calls)))
    return rows
