"""What a person does in a conversation: first words, stop, again, differently, copy; and what they see of failures."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from tests.movable_clock import MovableClock
from tests.page_browser import CLIPBOARD, paced, shown_page, tell
from tests.running_gateway import agent, scripted

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.thorough]

ECHO = agent("echo", scripted(rules=[{"when": {}, "response": [{"text": "You said: {{user}}"}]}]))


# --- the demonstration


async def test_the_demonstration_says_what_it_is_and_how_to_put_a_real_model_behind_it(
    browser: Browser, tmp_path: Path
) -> None:
    async with shown_page(browser, tmp_path) as screen:
        await expect(screen.page.get_by_text("it is not a language model")).to_be_visible()
        for opener in (screen.button("Demo model, not an LLM"), screen.button("Put a real one behind it")):
            await opener.click()
            dialog = screen.page.get_by_role("dialog", name="Put a real model behind it")
            await expect(dialog.get_by_text("agui-gateway config check gateway.yaml")).to_be_visible()
            await expect(dialog.get_by_text("model_provider: openai/v1/chat/completions")).to_be_visible()
            await screen.page.keyboard.press("Escape")
            await expect(dialog).to_have_count(0)
            await expect(opener).to_be_focused()


async def test_a_real_model_is_not_called_a_demonstration(browser: Browser, tmp_path: Path) -> None:
    model = {"model_provider": "openai/v1/chat/completions", "model_id": "m", "endpoint": "http://127.0.0.1:9/v1"}
    async with shown_page(browser, tmp_path, [agent("real", model)]) as screen:
        await screen.page.wait_for_load_state("networkidle")
        await expect(screen.page.get_by_text("How can I help you?")).to_be_visible()
        await expect(screen.page.get_by_text(re.compile("demo model", re.I))).to_have_count(0)
        await expect(screen.page.get_by_role("list", name="Suggestions")).to_have_count(0)


async def test_every_suggestion_shows_what_it_promises(browser: Browser, tmp_path: Path) -> None:
    async with shown_page(browser, tmp_path) as screen:
        suggestions = screen.page.get_by_role("list", name="Suggestions").get_by_role("button")
        await expect(suggestions).to_have_count(6)
        titles = await suggestions.locator("strong").all_inner_texts()
        for title in titles:
            await suggestions.filter(has_text=title).click()
            match title:
                case "Search, with reasoning":
                    await expect(
                        screen.answers.get_by_role("cell", name=re.compile("Seattle was 3,519,000"))
                    ).to_be_visible()
                    await expect(screen.page.get_by_test_id("reasoning").first).to_contain_text("Thought for")
                case "A tool that needs your approval":
                    await screen.button("Approve").click()
                    await expect(screen.answers).to_contain_text("refunded")
                case "A tool of this page":
                    await expect(screen.page.get_by_role("textbox", name="Name")).to_have_value("Ada Lovelace")
                    await expect(screen.page.get_by_role("spinbutton", name="Guests")).to_have_value("4")
                    filled = date.fromisoformat(
                        await screen.page.get_by_role("form").get_by_label("Date").input_value()
                    )
                    assert timedelta(12) < filled - datetime.now(UTC).date() < timedelta(16)
                case "Two of them at once":
                    await expect(screen.card("set_theme")).to_have_attribute("data-status", "done")
                    await expect(screen.card("highlight")).to_have_attribute("data-status", "done")
                case "A list that we both edit":
                    await expect(screen.page.get_by_test_id("shared_list")).to_contain_text("oat cookies")
                case "A dialog":
                    await screen.page.get_by_role("dialog").get_by_role("button", name="Yes").click()
                    await expect(screen.answers).to_contain_text("confirmed")
                case other:
                    raise AssertionError(f"what does {other!r} show?")
            await screen.expect_idle()
            await screen.button("New conversation").click()


# --- its course


async def test_an_answer_is_stopped_where_it_is_and_the_next_message_is_served(
    browser: Browser, tmp_path: Path
) -> None:
    rules = [
        {"when": {"last_user_contains": "hang"}, "response": [{"text": "One moment"}, {"hang": True}]},
        {"when": {}, "response": [{"text": "You said: {{user}}"}]},
    ]
    async with shown_page(browser, tmp_path, [agent("moody", scripted(rules=rules))]) as screen:
        await screen.say("hang")
        await expect(screen.answers).to_contain_text("One moment")
        await screen.composer.fill("not yet")
        await screen.composer.press("Enter")
        await expect(screen.composer).to_have_value("not yet")
        await screen.button("Stop").click()
        await screen.expect_idle()
        await expect(screen.answers).to_contain_text("One moment")
        await expect(screen.banner).to_have_count(0)
        await expect(screen.composer).to_have_value("not yet")
        await screen.composer.press("Enter")
        await expect(screen.answers.last).to_have_text("You said: not yet")
        await screen.expect_idle()


async def test_a_question_that_was_stopped_before_its_answer_is_asked_again(browser: Browser, tmp_path: Path) -> None:
    steps: list[Mapping[str, Any]] = [{"reasoning": "Hm."}, {"hang": True}]
    async with shown_page(browser, tmp_path, [agent("thinker", scripted(steps))]) as screen:
        await screen.say("Why?")
        for _ in range(2):
            await expect(screen.page.get_by_test_id("reasoning")).to_have_count(1)
            await expect(screen.button("Answer again")).to_have_count(0)
            await screen.button("Stop").click()
            await screen.expect_idle()
            await screen.button("Answer again").click()
        await expect(screen.questions).to_have_text(["Why?"])
        await screen.button("Stop").click()
        await screen.expect_idle()


async def test_an_answer_is_given_again(browser: Browser, tmp_path: Path) -> None:
    clock = MovableClock(time.time())
    async with shown_page(browser, tmp_path, [agent("talker", paced("One two"))], clock=clock) as screen:
        await screen.say("Talk")
        await tell(clock, 7)
        await expect(screen.answers).to_have_text("One two")
        await screen.expect_idle()
        await screen.button("Answer again").click()
        await tell(clock, 3)
        await expect(screen.answers).to_have_text("One")
        await tell(clock, 4)
        await expect(screen.answers).to_have_text("One two")
        await screen.expect_idle()
        await expect(screen.questions).to_have_count(1)
        await screen.page.reload()
        await expect(screen.questions).to_have_text(["Talk"])
        await expect(screen.answers).to_have_text(["One two"])


async def test_the_last_message_is_said_differently(browser: Browser, tmp_path: Path) -> None:
    async with shown_page(browser, tmp_path, [ECHO]) as screen:
        await screen.ask("first")
        await screen.ask("secnod")
        await expect(screen.button("Edit")).to_have_count(1)
        await screen.button("Edit").click()
        area = screen.page.get_by_label("Edit your message")
        await expect(area).to_be_focused()
        await expect(area).to_have_value("secnod")
        await area.fill("something else")
        await area.press("Escape")
        await expect(screen.questions).to_have_text(["first", "secnod"])
        await expect(screen.button("Edit")).to_be_focused()
        await screen.button("Edit").click()
        await area.fill("second")
        await area.press("Enter")
        await expect(screen.answers).to_have_text(["You said: first", "You said: second"])
        await expect(screen.questions).to_have_text(["first", "second"])
        await screen.expect_idle()
        await screen.page.reload()
        await expect(screen.questions).to_have_text(["first", "second"])
        await expect(screen.answers).to_have_text(["You said: first", "You said: second"])


async def test_messages_are_copied_as_they_were_written(browser: Browser, tmp_path: Path) -> None:
    talker = agent("talker", scripted([{"text": "A **bold** answer\n\n- with a list"}]))
    async with shown_page(browser, tmp_path, [talker], context=CLIPBOARD) as screen:
        await screen.ask("A *plain* question")
        for message, text in [
            (screen.answers, "A **bold** answer\n\n- with a list"),
            (screen.questions, "A *plain* question"),
        ]:
            await message.hover()
            await message.get_by_role("button", name="Copy").click()
            await screen.expect_named("Copied")
            assert await screen.evaluate("navigator.clipboard.readText()") == text


async def test_the_usage_of_a_turn_is_shown_with_all_its_runs(browser: Browser, tmp_path: Path) -> None:
    first: list[Mapping[str, Any]] = [
        {"tool": "set_theme", "arguments": {"theme": "dark"}},
        {"usage": {"input_tokens": 1000, "output_tokens": 4}},
    ]
    model = scripted(first, [{"text": "Done."}, {"usage": {"input_tokens": 234, "output_tokens": 5}}])
    async with shown_page(browser, tmp_path, [agent("counter", model)]) as screen:
        await screen.ask("Count")
        await expect(screen.page.get_by_test_id("usage")).to_have_text("1,234 tokens in, 9 out")


async def test_a_new_line_is_no_message_and_nothing_is_no_message(browser: Browser, tmp_path: Path) -> None:
    async with shown_page(browser, tmp_path, [ECHO]) as screen:
        await expect(screen.button("Send")).to_be_disabled()
        await screen.composer.fill("   ")
        await screen.composer.press("Enter")
        await screen.composer.fill("one")
        await screen.composer.press("Shift+Enter")
        await screen.composer.press_sequentially("two")
        await screen.composer.press("Enter")
        await expect(screen.questions).to_have_text("one\ntwo", use_inner_text=True)
        await screen.expect_idle()
        await expect(screen.questions).to_have_count(1)


# --- what goes wrong


async def test_a_failed_run_is_explained_and_tried_again(browser: Browser, tmp_path: Path) -> None:
    steps: list[Mapping[str, Any]] = [{"text": "Half an "}, {"error": "server", "times": 1}, {"text": "answer."}]
    async with shown_page(browser, tmp_path, [agent("moody", scripted(steps))]) as screen:
        await screen.say("Try")
        await expect(screen.banner).to_contain_text("The model failed. Try again.")
        await expect(screen.banner).to_have_attribute("role", "alert")
        await expect(screen.banner).to_have_attribute("data-code", "model_server")
        await screen.expect_idle()
        await screen.banner.get_by_role("button", name="Try again").click()
        await expect(screen.answers.last).to_contain_text("answer.")
        await expect(screen.banner).to_have_count(0)
        await expect(screen.questions).to_have_text(["Try"])
        await screen.expect_idle()


async def test_a_banner_is_dismissed(browser: Browser, tmp_path: Path) -> None:
    async with shown_page(browser, tmp_path, [agent("moody", scripted([{"error": "content_filter"}]))]) as screen:
        await screen.say("Try")
        await expect(screen.banner).to_contain_text("The model may not answer this. Put it differently.")
        await screen.banner.get_by_role("button", name="Dismiss").click()
        await expect(screen.banner).to_have_count(0)


async def test_a_refused_request_says_what_to_do_and_the_words_are_not_lost(browser: Browser, tmp_path: Path) -> None:
    small = {"max_body_bytes": 20_000}
    async with shown_page(browser, tmp_path, [ECHO], server=small, expected=["413"]) as screen:
        await screen.say("long " * 5_000)
        await expect(screen.banner).to_contain_text("This message is too large.")
        await screen.expect_idle()
        await screen.button("Edit").click()
        await screen.page.get_by_label("Edit your message").fill("short")
        await screen.page.get_by_label("Edit your message").press("Enter")
        await expect(screen.answers).to_have_text("You said: short")
        await expect(screen.banner).to_have_count(0)
