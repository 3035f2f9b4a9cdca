"""The page about AG-UI names what the gateway's code has, and its request is sent."""

from __future__ import annotations

import json
import re
from pathlib import Path

from gateway.events import StopReason
from tests.documentation import PAGES, ROOT, code_words, first_column, section, snippet
from tests.running_gateway import agent, local_gateway, scripted

PAGE = "docs/ag-ui.md"
SOURCE = {path: path.read_text("utf-8") for path in (ROOT / "gateway").rglob("*.py")}
OF_AG_UI = "\n".join(text for path, text in SOURCE.items() if path.parent.name == "ag_ui")
UNSEEN = {"agui_gateway.end_with_input", "agui_gateway.unread"}
"""Extensions of the gateway's own ASGI scopes: no client sees them."""


def test_every_name_of_the_gateway_is_explained() -> None:
    """Those of traces have a page of their own."""
    names = {name for text in SOURCE.values() for name in re.findall(r"\bagui_gateway\.\w+(?:\.\w+)*\b", text)}
    said = set(re.findall(r"\bagui_gateway\.\w+(?:\.\w+)*\b", PAGES[PAGE] + PAGES["docs/traces.md"]))

    assert {"agui_gateway.waiting", "agui_gateway.media"} <= names
    assert names - UNSEEN <= said
    assert names >= UNSEEN


def test_every_event_that_is_sent_is_listed_and_no_other() -> None:
    listed = set(code_words(first_column(section(PAGE, "Events"))))
    written = set(re.findall(r'(?:"type": |_contents\(|\(b)"([A-Z_]+)"', OF_AG_UI))

    assert listed == written


def test_every_stop_reason_of_a_run_that_ends_early_is_explained() -> None:
    whole = {StopReason.END_TURN, StopReason.TOOL_CALLS, StopReason.STOP_SEQUENCE}
    goes_on = {StopReason.PAUSE}
    words = code_words(first_column(section(PAGE, "How a run ends")))

    assert {word for word in words if re.fullmatch("[a-z_]+", word)} - {"outcome"} == set(StopReason) - whole - goes_on


def test_every_member_of_forwarded_props_that_is_read_is_explained() -> None:
    said = set(code_words(first_column(section(PAGE, "forwardedProps")))) - {"member"}
    read = set(re.findall(r'"(\w+)" (?:not )?in forwarded\b', OF_AG_UI))
    ours = set(re.findall(r'"(\w+)" (?:not )?in options\b', OF_AG_UI))

    assert said == read | {f"agui_gateway.{name}" for name in ours}


async def test_the_request_is_a_run(tmp_path: Path) -> None:
    body = json.loads(snippet("docs/ag-ui.md", "json", "protocolVersion"))
    async with local_gateway(tmp_path, [agent("assistant", scripted([{"text": "Hi"}]))]) as gateway:
        frames = await gateway.client.run("assistant", body)

    assert [frame.type for frame in frames] == [
        "RUN_STARTED",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "RUN_FINISHED",
    ]
    assert frames[-1].data["outcome"] == {"type": "success"}
