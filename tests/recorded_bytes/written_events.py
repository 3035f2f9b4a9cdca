"""Runs whose events are written by hand or drawn at random: of every kind, in any order, in batches of any size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from gateway.events import (
    ActivityChanged,
    ActivityReplaced,
    Cancelled,
    Completed,
    Custom,
    Event,
    Executor,
    Incomplete,
    Interrupt,
    Interrupted,
    MediaGiven,
    MessageRetracted,
    MessagesReplaced,
    ModelCallAccepted,
    ModelCallEnded,
    ModelCallStarted,
    Outcome,
    Raw,
    ReasoningDelta,
    ReasoningEnded,
    ReasoningStarted,
    RemoteError,
    RunFailed,
    RunFinished,
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
from gateway.messages import (
    AudioBlock,
    Base64Source,
    DocumentBlock,
    ImageBlock,
    Message,
    Opaque,
    Role,
    TextBlock,
    ToolCall,
    UrlSource,
)
from tests.case_tools import PIXEL

Batches = Sequence[Sequence[Event]]

_SEEDS: Final = 14
_NAMES: Final = ("a", "b", "c")
_EXECUTORS: Final[Sequence[Executor]] = ("backend", "client")
_ROLES: Final[Sequence[Role]] = ("assistant", "assistant", "user")
_OPAQUE: Final = Opaque("p", "m", "signature", "c2ln")
_USAGE: Final = Usage("p", "m", 10, 5, 2, 1, 3)
_PICTURE: Final = ImageBlock(Base64Source(PIXEL, "image/png"))
_ASKED: Final = ModelCallStarted("turn 1", "p", "m")
_ENDED: Final = ModelCallEnded(StopReason.END_TURN, "stop")
_ODD: Final = ["\x00\x1f", '"\\', "\u2028\u2029", "\x85", "\ufeff", "\U0001f600", "</script>", "é\n\r\n", " "]
_WAITS: Final = ToolCall("c2", "pick", '{"of":[1]}')
_ASKS: Final = Interrupt(
    "int-c1", "tool_call", "May it run?", "c1", {"type": "object"}, 1_700_000_000.5, {"a": 1}, "owner"
)
_REMOTE: Final = RemoteError(429, '{"error":"slow down"}')


def _text(name: str, texts: Sequence[str]) -> list[Event]:
    return [TextStarted(name), *(TextDelta(name, text) for text in texts), TextEnded(name)]


def _call(name: str, pieces: Sequence[str], executor: Executor = "backend", *, asks: bool = False) -> list[Event]:
    started = ToolCallStarted(name, f"tool {name}", "m1", 1, None, executor, "server" if asks else None, asks)
    return [started, *(ToolCallDelta(name, piece) for piece in pieces), ToolCallEnded(name)]


_EVERY_KIND: Final[Batches] = [
    [StepStarted("step"), StepStarted("inner"), _ASKED, ModelCallAccepted("resp_1", {"a": 1})],
    [
        ReasoningStarted("r1", 0),
        ReasoningDelta("r1", "Hm"),
        ReasoningDelta("r1", ", well."),
        ReasoningEnded("r1", _OPAQUE),
    ],
    [TextStarted("m1", "assistant", 1), TextDelta("m1", "Hel"), TextDelta("m1", "lo"), TextEnded("m1", _OPAQUE)],
    [*_call("c1", ['{"a"', ":1}"]), *_call("c2", [], "client"), ToolCallEnded("c2", _OPAQUE)],
    [UsageReported(_USAGE), ModelCallEnded(StopReason.TOOL_CALLS, "tool_calls", "resp_1", "resp_0")],
    [ToolReturned("t1", "c1", (TextBlock("42"), _PICTURE)), ToolReturned("t0", "earlier", (TextBlock("no"),), True)],
    [StateReplaced({"n": 1}), StateChanged(({"op": "replace", "path": "/n", "value": 2},), {"n": 2})],
    [ActivityReplaced("a1", "plan", {"steps": []}), ActivityChanged("a1", "plan", ({"op": "test", "path": ""},))],
    [Custom("custom", {"value": [None, 1.5]}), Raw({"type": "odd"}, "p"), Raw(["no source"])],
    [MediaGiven("p1", _PICTURE), MediaGiven("p2", AudioBlock(UrlSource("https://example.com/a.mp3", "audio/mpeg")))],
    [MediaGiven("p3", DocumentBlock(Base64Source("aGk=", "application/pdf")))],
    [TextStarted("u1", "user"), TextDelta("u1", "of a user"), TextEnded("u1")],
    [TextStarted("m2", "assistant", 2, True), TextDelta("m2", "I will not."), TextEnded("m2")],
    [MessageRetracted("m2", "Taken back."), MessageRetracted("p1"), MessageRetracted("r1", "")],
    [MessagesReplaced((Message("m1", "assistant", (TextBlock("Hello"), _PICTURE)),))],
    [StepEnded("inner"), StepEnded("step")],
]
_OUTCOMES: Final[Mapping[str, Outcome]] = {
    "completed": Completed(),
    "waits for the client": Completed((_WAITS,), "max_iterations"),
    "asks": Interrupted((_ASKS, Interrupt("int-2", "confirmation", "Sure?")), (_WAITS,)),
    "cut off": Incomplete(StopReason.MAX_TOKENS),
    "filtered": Incomplete(StopReason.CONTENT_FILTER),
    "refused": Incomplete(StopReason.REFUSAL),
    "out of iterations": Incomplete(StopReason.MAX_ITERATIONS, "max_iterations"),
    "cancelled": Cancelled(),
    "shut down": Cancelled("server_shutdown"),
}
_FAILURES: Final[Mapping[str, RunFailed]] = {
    "failed": RunFailed("model_throttled", "the model is busy", (_USAGE,), _REMOTE),
    "over a limit": RunFailed("limit_max_tokens", "too many tokens"),
}


def _ending(terminal: Event) -> Batches:
    said: list[Event] = [TextStarted("m1"), TextDelta("m1", "One "), TextDelta("m1", "mo")]
    return [[_ASKED], said, [*_call("c1", ["{}"], asks=True), *_call("c2", ['{"of"', ":[1]}"], "client")], [terminal]]


def _by_hand() -> dict[str, Batches]:
    many = [f"{number} " for number in range(150)]
    thoughts: list[Event] = [ReasoningDelta("r1", text) for text in many[:40]]
    arguments: list[Event] = [ToolCallDelta("c1", text) for text in many[:40]]
    by_turns: list[Event] = [TextDelta(f"m{number % 2}", text) for number, text in enumerate(many[:40])]
    finished = RunFinished(Completed(), (_USAGE, Usage("q", "n")))
    return {
        "every kind of event": [*_EVERY_KIND, [finished]],
        "every kind of event at once": [[event for batch in _EVERY_KIND for event in batch] + [finished]],
        "many deltas": [
            [_ASKED, *_text("m1", many)],
            [*_text("m2", many[:7]), *_text("m3", many[:33]), _ENDED, finished],
        ],
        "many deltas of reasoning and of a call": [
            [_ASKED, ReasoningStarted("r1"), *thoughts, ReasoningEnded("r1")],
            [ToolCallStarted("c1", "add", "m1", executor="client"), *arguments, ToolCallEnded("c1")],
            [_ENDED, RunFinished(Completed((ToolCall("c1", "add", "".join(many[:40])),)))],
        ],
        "texts by turns": [
            [_ASKED, TextStarted("m0"), TextStarted("m1"), *by_turns[:9]],
            [*by_turns[9:], *thoughts[:3], *by_turns[:2], *thoughts[3:], _ENDED, finished],
        ],
        "odd characters": [
            [_ASKED, *_text("m1", _ODD), *_text("m\u2028 2", ["a" + text for text in _ODD * 4])],
            [
                ReasoningStarted("r1"),
                *(ReasoningDelta("r1", text) for text in _ODD),
                *_call("c1", _ODD, "client"),
            ],
            [_ENDED, finished],
        ],
        "half a surrogate pair": [
            [_ASKED, *_text("m1", ["a", "\ud83d", "b"] * 15), TextStarted("m2")],
            [TextDelta("m2", "\ude00"), TextDelta("m2", "c"), _ENDED, finished],
        ],
        "a long delta": [
            [_ASKED, *_text("m1", ["long" * 66_000, "short"])],
            [*_call("c1", ["long" * 66_000]), finished],
        ],
        "deltas without a start": [
            [TextDelta("m1", "a"), TextDelta("m1", ""), ReasoningDelta("m1", "b"), TextDelta("m1", "c")],
            [ToolCallDelta("c1", "{"), TextEnded("m1"), TextDelta("m1", "d"), TextDelta("m1", "e"), finished],
            [TextDelta("m1", "after the end")],
        ],
    }


def _events_at_random(random: Random) -> Sequence[Event]:
    """Any events of few names, so that they collide; deltas come in rows."""
    name, other = random.choice(_NAMES), random.choice(_NAMES)
    texts = [random.choice(["x", "yz", " é", "\n", ""]) for _ in range(random.choice([1, 2, 3, 12, 40]))]
    whose, role = random.choice(_EXECUTORS), random.choice(_ROLES)
    is_so, index = random.random() < 0.3, random.randint(-1, 2)
    makers: list[Sequence[Event]] = [
        [TextStarted(name, role, index, is_so)],
        [TextDelta(name, text) for text in texts],
        [TextDelta(random.choice(_NAMES), text) for text in texts],
        [TextEnded(name, random.choice([None, _OPAQUE]))],
        [ReasoningStarted(name)],
        [ReasoningDelta(name, text) for text in texts],
        [ReasoningEnded(name)],
        [ToolCallStarted(name, "tool", other, executor=whose, asks=is_so)],
        [ToolCallDelta(name, text) for text in texts],
        [ToolCallEnded(name)],
        [ToolReturned(other, name, (TextBlock("result"),), is_so)],
        [MediaGiven(name, _PICTURE)],
        [MessageRetracted(name, random.choice(["", "instead"]))],
        [ModelCallStarted(f"turn {index}", "p", "m")],
        [_ENDED],
        [UsageReported(_USAGE)],
        [Custom("custom", 1)],
        [StepStarted(name)],
        [StepEnded(name)],
    ]
    return random.choice(makers)


def _at_random(seed: int) -> Batches:
    random = Random(seed)
    batches = [
        [event for _ in range(random.randint(1, 6)) for event in _events_at_random(random)]
        for _ in range(random.randint(2, 9))
    ]
    calls = tuple(ToolCall(name, "tool", "{}") for name in _NAMES)
    ends: list[Event] = [
        RunFinished(Completed()),
        RunFinished(Completed(calls)),
        RunFinished(Interrupted((_ASKS,), calls[:1])),
        RunFinished(Incomplete(StopReason.MAX_TOKENS)),
        _FAILURES["failed"],
    ]
    return [*batches, [random.choice(ends)]]


def written_runs() -> Mapping[str, Batches]:
    """The batches of each, without RunStarted, by the run's name."""
    return {
        **_by_hand(),
        **{f"a run that is {name}": _ending(RunFinished(outcome, (_USAGE,))) for name, outcome in _OUTCOMES.items()},
        **{f"a run that {name}": _ending(failure) for name, failure in _FAILURES.items()},
        **{f"events at random {seed}": _at_random(seed) for seed in range(_SEEDS)},
    }
