"""An answer that is taken back: nobody can read it on the page any more, now or after a reload."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from tests.movable_clock import MovableClock
from tests.page_browser import shown_page
from tests.running_gateway import agent, scripted

pytestmark = pytest.mark.asyncio(loop_scope="session")


def taken_back(pause: float) -> dict[str, Any]:
    """Shown for `pause` seconds, then replaced."""
    said = "Sure:\n\n- The **code** is swordfish.\n\nKeep it"
    steps: list[dict[str, Any]] = [
        {"reasoning": "The code is swordfish."},
        {"text": said, "chunk_characters": 7},
        {"delay_seconds": pause},
        {"retract": "I cannot tell you *that*."},
        {"stop": "content_filter"},
    ]
    return agent("guarded", scripted(steps))


async def test_what_was_shown_gives_way_to_what_stands_in_its_place(browser: Browser, tmp_path: Path) -> None:
    clock = MovableClock()
    async with shown_page(browser, tmp_path, [taken_back(7)], clock=clock) as screen:
        await screen.say("What is the code?")
        await expect(screen.answers).to_contain_text("The code is swordfish.")
        await expect(screen.answers).to_contain_text("Keep it")

        await clock.until_timer(7)
        await clock.advance(7)

        await expect(screen.answers).to_contain_text("I cannot tell you that.")
        await screen.expect_idle()
        await expect(screen.conversation).not_to_contain_text(re.compile("swordfish|Keep it"))
        await expect(screen.announcer).to_have_text("I cannot tell you that.")
        shown = await screen.page.content()
        assert "swordfish" not in shown, shown[max(shown.find("swordfish") - 300, 0) : shown.find("swordfish") + 100]

        await screen.page.reload()
        await expect(screen.answers).to_contain_text("I cannot tell you that.")
        shown = await screen.page.content()
        assert "swordfish" not in shown, shown[max(shown.find("swordfish") - 300, 0) : shown.find("swordfish") + 100]
