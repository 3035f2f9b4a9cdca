"""What a viewer that joins late is shown first as AG-UI: what is closed, then what is open."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from gateway.ag_ui.events import Renderer
from gateway.ag_ui.peer import PeerProfile
from gateway.agent import ABSENT
from gateway.errors import InvalidRequestError
from gateway.messages import (
    Base64Source,
    DocumentBlock,
    ImageBlock,
    Message,
    TextBlock,
    UrlSource,
)
from gateway.transcript import OpenCall, OpenItems, OpenReasoning, OpenText
from tests.ag_ui_frames import read

IMAGE = ImageBlock(Base64Source("AAAA", "image/png"))
FULL, LEGACY = PeerProfile.FULL, PeerProfile.LEGACY


NOTHING_OPEN = OpenItems()


def prelude(
    messages: Sequence[Message] = (),
    state: Any = ABSENT,
    open_items: OpenItems = NOTHING_OPEN,
    profile: PeerProfile = FULL,
) -> list[dict[str, Any]]:
    frames = read(Renderer(profile, "thread", "run").prelude(messages, state, open_items))
    assert {number for number, _ in frames} == {None}
    return [payload for _, payload in frames]


def test_a_viewer_that_joins_a_fresh_run_is_told_that_it_started() -> None:
    assert prelude() == [{"type": "RUN_STARTED", "threadId": "thread", "runId": "run", "protocolVersion": "1.0"}]


def test_a_viewer_that_joins_late_is_told_what_is_closed_then_what_is_open() -> None:
    told = prelude(
        (Message("u", "user", (TextBlock("Hi"),)),),
        {"k": 1},
        OpenItems(
            ("step",),
            (OpenText("m", "assistant", "Hel"), OpenText("m2", "assistant", "")),
            (OpenReasoning("r", "Hm"),),
            (OpenCall("c1", "pay", "m", '{"a"', ended=False), OpenCall("c2", "pay", "m", "{}", ended=True)),
        ),
    )
    assert [(p["type"], p.get("delta")) for p in told] == [
        ("RUN_STARTED", None),
        ("STATE_SNAPSHOT", None),
        ("MESSAGES_SNAPSHOT", None),
        ("STEP_STARTED", None),
        ("REASONING_START", None),
        ("REASONING_MESSAGE_START", None),
        ("REASONING_MESSAGE_CONTENT", "Hm"),
        ("TEXT_MESSAGE_START", None),
        ("TEXT_MESSAGE_CONTENT", "Hel"),
        ("TEXT_MESSAGE_START", None),
        ("TOOL_CALL_START", None),
        ("TOOL_CALL_ARGS", '{"a"'),
        ("TOOL_CALL_START", None),
        ("TOOL_CALL_ARGS", "{}"),
        ("TOOL_CALL_END", None),
    ]
    assert told[10]["parentMessageId"] == "m"


def test_a_state_of_null_is_shown_and_one_that_never_was_is_not() -> None:
    assert [p["type"] for p in prelude(state=None)] == ["RUN_STARTED", "STATE_SNAPSHOT"]


def test_what_is_open_and_huge_comes_in_pieces() -> None:
    text = "y" * 12_000_000
    told = prelude(open_items=OpenItems(texts=(OpenText("m", "assistant", text),)))
    assert "".join(p["delta"] for p in told[2:]) == text


def test_a_snapshot_for_a_legacy_peer_has_the_parts_that_it_knows() -> None:
    document = DocumentBlock(UrlSource("https://x.test/a.pdf"), "a.pdf")
    picture = ImageBlock(Base64Source("AAAA", "image/png"), "a.png")
    asked = (Message("u", "user", (IMAGE, picture, document)),)
    frames = Renderer(LEGACY, "t", "r").prelude(asked, ABSENT, OpenItems())
    snapshot = json.loads(frames.split(b"\n\n")[1].removeprefix(b"data: "))
    assert snapshot["messages"][0]["content"] == [
        {"type": "binary", "mimeType": "image/png", "data": "AAAA"},
        {"type": "binary", "mimeType": "image/png", "data": "AAAA", "filename": "a.png"},
        {"type": "binary", "mimeType": "application/*", "url": "https://x.test/a.pdf", "filename": "a.pdf"},
    ]


def test_a_thread_that_no_client_would_read_whole_is_not_shown_in_part() -> None:
    huge = "x" * 11_000_000
    for messages, state in (((Message("u", "user", (TextBlock(huge),)),), ABSENT), ((), huge)):
        with pytest.raises(InvalidRequestError, match="page by page") as refused:
            prelude(messages, state)
        assert refused.value.code == "thread_too_large"
