"""Everybody can use the page: with a keyboard alone, by ear, on a phone, in the dark, and without things that move."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal

import pytest
from playwright.async_api import Browser, expect

from tests.movable_clock import MovableClock
from tests.page_browser import DEMONSTRATION, DESKTOP, PHONE, Screen, file, paced, shown_page, tell
from tests.running_gateway import agent, scripted

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.thorough]

MARKDOWN = """\
## A heading

Words, a [link](https://elsewhere.example/), `code` and ![a map](https://elsewhere.example/map.png).

| City | People | Something long that makes the table wider than any phone is | And another column |
| --- | ---: | --- | --- |
| Oslo | 700,000 | words words words words words words words words | more words |

- [x] done
- [ ] to do

> a quotation

```python
a_line_of_code_that_is_much_longer_than_the_width_of_a_phone = "and so it has to scroll by itself" + "in its own box"
```

AverylongwordwithoutanyplacetobreakitaveryLongwordwithoutanyplacetobreakitaverylongwordwithoutanyplacetobreakit.
"""
RULES = [
    {"when": {"last_user_contains": "markdown"}, "response": [{"reasoning": "Hm **so**."}, {"text": MARKDOWN}]},
    {
        "when": {"last_user_contains": "ask", "turn": 0},
        "response": [{"tool": "confirm", "arguments": {"question": "Ship it?"}}],
    },
    {
        "when": {"last_user_contains": "form", "turn": 0},
        "response": [{"tool": "fill_form", "arguments": {"name": "Ada"}}],
    },
    {
        "when": {"last_user_contains": "refund", "turn": 0},
        "response": [{"tool": "refund", "arguments": {"order_id": "1", "amount": 2}}],
    },
    {
        "when": {"last_user_contains": "list", "turn": 0},
        "response": [{"tool": "add_to_list", "arguments": {"item": "milk"}}],
    },
    {"when": {"last_user_contains": "nothing", "turn": 0}, "response": [{"tool": "no_such_tool"}]},
    {"when": {"last_user_contains": "fail"}, "response": [{"text": "Half"}, {"error": "quota"}]},
    {"when": {"last_user_contains": "hang"}, "response": [{"text": "One moment"}, {"hang": True}]},
    {"when": {}, "response": [{"text": "Well."}]},
]
EVERYTHING = {**DEMONSTRATION, "model": scripted(rules=RULES)}
OTHER = agent("other", scripted([{"text": "Well."}]), name="Another agent")


# --- states of the page, each to be looked at by itself


async def first_view(shown: Screen) -> None:
    await expect(shown.page.get_by_text("How can I help you?")).to_be_visible()


async def long_answer(shown: Screen) -> None:
    await shown.ask("markdown")
    await shown.page.get_by_test_id("reasoning").get_by_role("button").click()


async def cards(shown: Screen) -> None:
    await shown.ask("list")
    await shown.ask("nothing")
    for head in await shown.page.locator(".agui-call-head").all():
        await head.click()


async def approval(shown: Screen) -> None:
    await shown.say("refund")
    await shown.page.get_by_label("Amount").fill("much")
    await shown.button("Approve").click()
    await expect(shown.page.get_by_text("This has to be a number.")).to_be_visible()


async def denial(shown: Screen) -> None:
    await shown.say("refund")
    await shown.page.get_by_role("button", name="Deny with a reason").click()


async def dialog(shown: Screen) -> None:
    await shown.say("ask")
    await expect(shown.page.get_by_role("dialog")).to_be_visible()


async def failure(shown: Screen) -> None:
    await shown.say("fail")
    await expect(shown.banner).to_be_visible()


async def streaming(shown: Screen) -> None:
    await shown.say("hang")
    await expect(shown.answers).to_contain_text("One moment")


async def attachments(shown: Screen) -> None:
    files = [file("notes.md", "", b"# Notes"), file("setup.exe", "x/y", b"MZ")]
    await shown.page.get_by_test_id("file-input").set_input_files(files)
    await expect(shown.page.locator(".agui-refused")).to_be_visible()


async def editing(shown: Screen) -> None:
    await shown.ask("Hello")
    await shown.button("Edit").click()


async def explanation(shown: Screen) -> None:
    await shown.page.get_by_role("button", name=re.compile("^Demo model")).click()
    await expect(shown.page.get_by_role("dialog")).to_be_visible()


async def sides(shown: Screen) -> None:
    await shown.ask("Hello")
    for name in ("Show the conversations", "This page’s form"):
        if await shown.button(name).is_visible() and await shown.button(name).get_attribute("aria-expanded") == "false":
            await shown.button(name).click()
            await shown.expect_accessible(name)
            await shown.expect_no_sideways_scrolling()
            await shown.page.keyboard.press("Escape")


async def offline(shown: Screen) -> None:
    await shown.page.context.set_offline(True)
    await shown.say("Hello")
    await expect(shown.page.get_by_text("You are offline.")).to_be_visible()


STATES: list[Callable[[Screen], Awaitable[None]]] = [
    first_view, long_answer, cards, approval, denial, dialog, failure, streaming, attachments, editing, explanation,
    sides, offline,
]  # fmt: skip


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_state_of_the_page_is_accessible_and_as_wide_as_the_window(
    browser: Browser, tmp_path: Path, scheme: Literal["light", "dark"], size: tuple[int, int]
) -> None:
    """axe-core finds nothing, with all its rules; and nothing scrolls sideways but tables and code in themselves."""
    expected = ["ERR_INTERNET_DISCONNECTED"]
    async with shown_page(browser, tmp_path, [EVERYTHING, OTHER], size=size, scheme=scheme, expected=expected) as shown:
        dark = await shown.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
        assert dark == (scheme == "dark")
        for state in STATES:
            await state(shown)
            await shown.expect_accessible(f"{state.__name__}, {scheme}, {size[0]}")
            await shown.expect_no_sideways_scrolling()
            await shown.page.context.set_offline(False)
            await shown.evaluate("sessionStorage.clear()")
            await shown.page.reload()
            await shown.expect_idle()


# --- light and dark


async def test_the_theme_follows_the_system_until_the_person_chooses_and_is_remembered(
    browser: Browser, tmp_path: Path
) -> None:
    background = (
        "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + +b, 0)"
    )
    async with shown_page(browser, tmp_path) as shown:
        await shown.until(f"{background} > 600")
        await shown.page.emulate_media(color_scheme="dark", reduced_motion="reduce")
        await shown.until(f"{background} < 150")
        await expect(shown.page.get_by_role("radio", name="As the system")).to_be_checked()
        await shown.page.get_by_role("radio", name="As the system").focus()
        await shown.page.keyboard.press("ArrowRight")
        await expect(shown.page.get_by_role("radio", name="Light")).to_be_checked()
        await shown.until(f"{background} > 600")
        await shown.page.reload()
        await expect(shown.page.get_by_role("radio", name="Light")).to_be_checked()
        await shown.until(f"{background} > 600")


# --- a phone


async def test_on_a_phone_the_sides_lie_over_the_chat_and_go_away(browser: Browser, tmp_path: Path) -> None:
    async with shown_page(browser, tmp_path, [EVERYTHING], size=PHONE) as shown:
        await shown.ask("Hello")
        await expect(shown.threads).to_be_hidden()
        await shown.button("Show the conversations").click()
        await expect(shown.threads).to_be_visible()
        await shown.threads.get_by_role("button", name="New conversation").click()
        await expect(shown.threads).to_be_hidden()
        await expect(shown.questions).to_have_count(0)
        await shown.button("Show the conversations").click()
        await shown.page.mouse.click(380, 400)  # beside it
        await expect(shown.threads).to_be_hidden()

        await shown.ask("form")
        await expect(shown.page.get_by_role("form", name="Book a table")).to_be_hidden()
        await shown.button("Show the form").click()
        await expect(shown.page.get_by_role("textbox", name="Name")).to_have_value("Ada")
        await shown.page.keyboard.press("Escape")
        await expect(shown.page.get_by_role("form", name="Book a table")).to_be_hidden()
        await expect(shown.composer).to_be_in_viewport(ratio=1)


# --- low windows

ZOOMED = (320, 256)
"""1280 by 1024 pixels at 400 %."""


async def test_at_400_percent_most_of_the_window_is_there_to_read_in(browser: Browser, tmp_path: Path) -> None:
    async with shown_page(browser, tmp_path, [EVERYTHING], size=ZOOMED) as shown:
        for state in (first_view, long_answer, approval, streaming):
            await state(shown)
            await shown.expect_accessible(state.__name__)
            await shown.expect_no_sideways_scrolling()
            await expect(shown.composer).to_be_in_viewport(ratio=1)
            room = await shown.conversation.bounding_box()
            assert room is not None
            assert room["height"] > ZOOMED[1] / 2
            await shown.evaluate("sessionStorage.clear()")
            await shown.page.reload()
            await shown.expect_idle()

        await shown.page.get_by_test_id("file-input").set_input_files([file("notes.md", "", b"# Notes")])
        chip, composer = shown.page.get_by_text("notes.md"), shown.composer
        above, below = await chip.bounding_box(), await composer.bounding_box()
        assert above is not None
        assert below is not None
        assert above["y"] + above["height"] <= below["y"]
        await expect(shown.button("Send")).to_be_in_viewport(ratio=1)


# --- by keyboard alone


async def test_a_whole_conversation_by_keyboard_alone(browser: Browser, tmp_path: Path) -> None:
    async with shown_page(browser, tmp_path, [EVERYTHING]) as shown:
        press = shown.page.keyboard.press

        async def tab_to(name: str, most: int = 40) -> None:
            focused = shown.page.locator(":focus")
            for _ in range(most):
                await press("Tab")
                if await focused.count() and name in (
                    await focused.get_attribute("aria-label") or await focused.inner_text()
                ):
                    return
            raise AssertionError(f"{name!r} was not reached by Tab")

        await expect(shown.composer).to_be_focused()
        await shown.page.keyboard.type("refund, please")
        await press("Enter")
        await expect(shown.page.get_by_role("group", name="Approval needed")).to_be_focused()
        await press("Tab")
        await expect(shown.page.get_by_label("Order id")).to_be_focused()
        await press("Tab")
        await press("Control+a")
        await shown.page.keyboard.type("3")
        await press("Enter")
        await expect(shown.answers).to_have_count(1)
        await shown.expect_idle()
        await shown.card("refund").get_by_role("button").focus()
        await press("Enter")
        await expect(shown.card("refund").locator("pre").last).to_contain_text(re.compile('"amount": ?3'))

        await shown.composer.focus()
        await shown.page.keyboard.type("ask me")
        await press("Enter")
        await expect(shown.page.get_by_role("dialog")).to_be_visible()
        await tab_to("Yes", most=3)
        await press("Enter")
        await expect(shown.answers).to_have_count(2)
        await shown.expect_idle()
        await expect(shown.composer).to_be_focused()

        await press("Shift+Tab")
        await tab_to("Message", most=3)
        await shown.conversation.focus()
        top = "document.querySelector('.agui-view').scrollTop"
        before = await shown.evaluate(top)
        await press("Home")
        await shown.until(f"{top} <= {before}")
        await tab_to("Edit")
        await press("Enter")
        await shown.page.keyboard.type("!")
        await press("Enter")
        await expect(shown.page.get_by_role("dialog")).to_be_visible()
        await press("Escape")
        await shown.expect_idle()
        await expect(shown.questions.last).to_contain_text("ask me!")
        await tab_to("Stop" if await shown.button("Stop").is_visible() else "Answer again")


# --- by ear

# What a screen reader says: every new text of a live region.
LISTEN = """
    window.said = [];
    const regions = "[role=status], [role=alert], [aria-live]:not([aria-live=off])";
    const listen = () => {
        for (const { textContent } of document.querySelectorAll(regions))
            if (textContent.trim() && !window.said.includes(textContent)) window.said.push(textContent);
    };
    document.addEventListener("DOMContentLoaded", () => {
        new MutationObserver(listen).observe(document.body, { subtree: true, childList: true, characterData: true });
    });
"""


async def test_a_finished_answer_is_announced_once_and_not_while_it_comes(browser: Browser, tmp_path: Path) -> None:
    clock = MovableClock(time.time())
    text = "It is **bold** and ends."
    async with shown_page(browser, tmp_path, [agent("talker", paced(text))], clock=clock, script=LISTEN) as shown:
        await shown.say("Talk")
        await tell(clock, 12)
        await expect(shown.answers).to_have_text("It is bold")
        assert await shown.evaluate("window.said.filter((each) => each.includes('bold'))") == []
        await tell(clock, len(text))
        await shown.expect_idle()
        await expect(shown.announcer).to_have_text("It is bold and ends.")
        assert await shown.evaluate("window.said") == ["It is bold and ends."]
        await expect(shown.conversation).to_have_attribute("aria-live", "off")


async def test_questions_to_the_person_are_announced(browser: Browser, tmp_path: Path) -> None:
    async with shown_page(browser, tmp_path, [EVERYTHING]) as shown:
        await shown.say("refund")
        await expect(shown.announcer).to_contain_text("Approval needed")


# --- without motion

# What moves or turns for longer than a blink; to fade is no motion.
MOVING = """
    document.getAnimations()
        .filter(({ playState, effect: { target } }) => playState === "running" && target?.checkVisibility())
        .filter(({ effect }) => effect.getComputedTiming().endTime > 250)
        .flatMap(({ effect }) => effect.getKeyframes().flatMap(Object.keys))
        .filter((each) => ["rotate", "scale", "translate", "transform", "inset", "backgroundPosition"].includes(each))
"""


@pytest.mark.parametrize("calm", [True, False])
async def test_nothing_moves_for_whoever_wants_no_motion(browser: Browser, tmp_path: Path, calm: bool) -> None:
    clock = MovableClock(time.time())
    call = {"tool": "add", "arguments": '{"a": 2, "b": 40}', "chunk_characters": 1, "delta_seconds": 1 / 64}
    writer = {**DEMONSTRATION, "model": scripted([call], [{"text": "Done."}])}
    async with shown_page(browser, tmp_path, [writer], clock=clock, calm=calm) as shown:
        await shown.say("Add")
        await tell(clock, 6)
        await expect(shown.card("add")).to_contain_text("Preparing")
        assert (await shown.evaluate(MOVING) == []) == calm
        await tell(clock, 11)
        await shown.expect_idle()
        assert await shown.evaluate(MOVING) == []
