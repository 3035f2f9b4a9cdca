"""What the renderer writes, read by the real clients of both generations: nothing refused, nothing lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from gateway.ag_ui.events import Renderer
from gateway.ag_ui.input import parse_run_input
from gateway.ag_ui.messages import ag_ui_messages
from gateway.ag_ui.peer import PeerProfile
from gateway.agent import ABSENT, AgentInput
from gateway.events import (
    ActivityReplaced,
    Cancelled,
    Completed,
    Custom,
    Event,
    Incomplete,
    MediaGiven,
    ModelCallEnded,
    ModelCallStarted,
    Outcome,
    Raw,
    ReasoningDelta,
    ReasoningEnded,
    ReasoningStarted,
    RunFinished,
    RunStarted,
    StateChanged,
    StateReplaced,
    StepEnded,
    StepStarted,
    StopReason,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    ToolReturned,
    Usage,
    UsageReported,
)
from gateway.messages import Base64Source, ImageBlock, JsonObject, Message, Opaque, TextBlock, ToolCall
from gateway.sse import EventStreamResponse, OpenStreams
from gateway.transcript import Transcript
from tests.agui_client import CLIENT_VERSIONS, ClientVersion, agui_clients
from tests.asgi_server import serving

each_version = pytest.mark.parametrize("version", CLIENT_VERSIONS)

SEALED = Opaque("anthropic", "claude", "signature", "c2lnbmVk")
PIXEL = ImageBlock(Base64Source("iVBORw0KGgo=", "image/png"))
ANSWER: list[Event] = [
    RunStarted("thread", "run"),
    StepStarted("think"),
    StateReplaced({"a/b": 1}),
    ModelCallStarted("turn1", "demo", "m"),
    ReasoningStarted("r1", 0),
    ReasoningDelta("r1", "Hm,\r\nlet me "),
    ReasoningDelta("r1", "see\u2028."),
    ReasoningEnded("r1", SEALED),
    TextStarted("m1", index=1),
    TextDelta("m1", "I will look 👀."),
    TextEnded("m1"),
    ToolCallStarted("c1", "look", "m1", 2),
    ToolCallDelta("c1", '{"where":'),
    ToolCallStarted("c2", "show", "m1", 3),
    ToolCallDelta("c1", '"here"}'),
    ToolCallEnded("c1", SEALED),
    ToolCallDelta("c2", "{}"),
    ToolCallEnded("c2"),
    MediaGiven("p1", PIXEL),
    UsageReported(Usage("demo", "m", 1, 2)),
    ModelCallEnded(StopReason.TOOL_CALLS),
    StepEnded("think"),
    ToolReturned("t1", "c1", (TextBlock("a chart"), PIXEL)),
    StateChanged(({"op": "add", "path": "/c", "value": [None]},), {"a/b": 1, "c": [None]}),
    ActivityReplaced("x1", "PLAN", {"steps": [1]}),
    Custom("my.event", None),
    Raw({"k": 1}, "demo"),
]
OPEN_CALL = ToolCall("c2", "show", "{}")


@dataclass
class Server:
    """Answers every request with the same run; with `cut`, as to a viewer that joins after so many of its events."""

    run: list[Event] = field(default_factory=list)
    cut: int = 0
    asked: Message | None = None
    inputs: list[tuple[AgentInput, PeerProfile]] = field(default_factory=list)
    streams: OpenStreams = field(default_factory=OpenStreams)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given, profile = parse_run_input(await Request(scope, receive).body())
        self.inputs.append((given, profile))
        frames = Once(self.answer(Renderer(profile, given.thread.id, given.run_id)))
        await EventStreamResponse(frames, self.streams)(scope, receive, send)

    def answer(self, renderer: Renderer) -> bytes:
        if self.asked is None:
            return renderer.render(self.run, 1)
        so_far = Transcript()
        so_far.follow(self.run[: self.cut])
        changes = [event for event in self.run[: self.cut] if isinstance(event, StateReplaced | StateChanged)]
        state = changes[-1].state if changes else ABSENT
        told = renderer.prelude((self.asked, *so_far.closed_messages()), state, so_far.open_items())
        return told + renderer.render(self.run[self.cut :], self.cut + 1)


@dataclass
class Once:
    frames: bytes
    ended: bool = False

    async def next(self, timeout_seconds: float) -> bytes:
        self.ended = True
        return self.frames

    def close(self) -> None:
        pass


def folded(events: list[Event], profile: PeerProfile) -> list[JsonObject]:
    """The messages that the events make, as that client should then have them."""
    transcript = Transcript()
    transcript.follow(events)
    return ag_ui_messages(transcript.messages, profile)


def without_results(messages: Sequence[JsonObject]) -> list[JsonObject]:
    return [message for message in messages if message["role"] not in ("tool", "activity")]


OUTCOMES: list[Outcome] = [
    Completed(),
    Completed((OPEN_CALL,)),
    Incomplete(StopReason.MAX_TOKENS),
    Cancelled(),
]


@each_version
async def test_a_whole_run_is_taken_by_every_client(version: ClientVersion) -> None:
    server = Server()
    async with serving(server) as port, agui_clients(version) as clients:
        for outcome in OUTCOMES:
            run = [*ANSWER, RunFinished(outcome, (Usage("demo", "m", 1, 2),))]
            server.run = run
            agent = await clients.create(f"http://127.0.0.1:{port}/")
            report = await agent.run(run_id="run")

            assert report.rejection is None
            assert clients.console == []
            assert clients.unhandled == []
            profile = server.inputs[-1][1]
            assert profile is (PeerProfile.FULL if version == "1.0.0" else PeerProfile.LEGACY)
            expected = folded(run, profile)
            assert without_results(report.messages) == without_results(expected)
            [picture] = [message for message in report.messages if message["id"] == "p1"]
            assert picture in expected
            [result] = [message for message in report.messages if message["role"] == "tool"]
            assert result in expected
            assert report.state == {"a/b": 1, "c": [None]}
            cancelled_in_the_old_way = isinstance(outcome, Cancelled) and not profile.is_full
            assert (report.run_error is not None) is cancelled_in_the_old_way
            if version == "1.0.0" and isinstance(outcome, Completed) and outcome.pending_calls:
                assert report.pending_tool_call_ids == ["c2"]


@each_version
async def test_a_client_that_joins_late_ends_up_with_the_same_messages(version: ClientVersion) -> None:
    asked = Message("u", "user", (TextBlock("What is this?"), PIXEL))
    server = Server(asked=asked, run=[*ANSWER, RunFinished(Completed((OPEN_CALL,)))])
    async with serving(server) as port, agui_clients(version) as clients:
        for cut in range(1, len(server.run)):
            server.cut = cut
            agent = await clients.create(f"http://127.0.0.1:{port}/")
            report = await agent.run(run_id="run")

            assert report.rejection is None, cut
            assert clients.unhandled == []
            profile = server.inputs[-1][1]
            expected = [*ag_ui_messages((asked,), profile), *folded(server.run, profile)]
            by_id = {str(message["id"]): message for message in report.messages if message["id"] != "x1"}
            assert by_id == {str(message["id"]): message for message in expected}, cut


@each_version
async def test_what_a_client_sends_back_means_what_it_was_shown(version: ClientVersion) -> None:
    server = Server([*ANSWER, RunFinished(Completed((OPEN_CALL,)))])
    async with serving(server) as port, agui_clients(version) as clients:
        agent = await clients.create(f"http://127.0.0.1:{port}/")
        await agent.run(run_id="run")
        await agent.add_message({"id": "t2", "role": "tool", "toolCallId": "c2", "content": "", "error": "no screen"})
        await agent.run(run_id="run2")
    given, profile = server.inputs[1]
    sent = {message.id: message for message in given.sent.messages}
    assert {"r1", "m1", "t1", "t2"} <= sent.keys()
    assert ag_ui_messages((sent["m1"],), profile)[0]["content"] == "I will look 👀."
    assert sent["m1"].tool_calls == (ToolCall("c1", "look", '{"where":"here"}'), ToolCall("c2", "show", "{}"))
    failed = sent["t2"].tool_result
    assert failed is not None
    assert (failed.is_error, failed.content) == (True, (TextBlock("no screen"),))
