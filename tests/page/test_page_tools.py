"""Tools on the page: cards that say how a call goes, and tools of the page that do something to be seen."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from gateway.tool import ToolError
from tests.movable_clock import MovableClock
from tests.page_browser import shown_page, tell
from tests.running_gateway import DEADLINE_SECONDS, agent, scripted

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.thorough]

ADD = {"type": "PythonTool", "name": "add", "parameters": {"function": "gateway.sample_tools:add"}}
BOOKING = {"name": "Ada", "email": "ada@example.org", "date": "2027-03-01", "guests": 4}


# --- cards


async def test_a_card_shows_name_side_arguments_result_and_duration(browser: Browser, tmp_path: Path) -> None:
    steps = [{"tool": "add", "arguments": {"a": 2, "b": 40}}, {"tool": "set_theme", "arguments": {"theme": "dark"}}]
    async with shown_page(browser, tmp_path, [agent("a", scripted(steps, [{"text": "Done."}]), tools=[ADD])]) as screen:
        await screen.ask("Both")
        for name, side, badge, result in [
            ("add", "backend", "Gateway", "42.0"),
            ("set_theme", "frontend", "This page", "dark now"),
        ]:
            card = screen.card(name)
            await expect(card).to_have_attribute("data-status", "done")
            await expect(card).to_have_attribute("data-side", side)
            await expect(card.locator(".agui-badge")).to_have_text(badge)
            await expect(card.locator(".agui-call-time")).to_have_text(re.compile(r"^[\d.]+ m?s(ec)?$"))
            head = card.get_by_role("button", name=re.compile(f"{name}.*Done"))
            await expect(head).to_have_attribute("aria-expanded", "false")
            await head.click()
            await expect(card.locator("pre").first).to_have_text(re.compile(r"^\{\n  "))
            await expect(card.locator("pre").last).to_contain_text(result)
            await head.click()
            await expect(card.locator("pre")).to_have_count(0)


async def test_arguments_are_shown_while_they_are_written(browser: Browser, tmp_path: Path) -> None:
    clock = MovableClock(time.time())
    call = {"tool": "add", "arguments": '{"a": 2, "b": 40}', "chunk_characters": 1, "delta_seconds": 1 / 64}
    writer = agent("writer", scripted([call], [{"text": "Done."}]), tools=[ADD])
    async with shown_page(browser, tmp_path, [writer], clock=clock) as screen:
        await screen.say("Add")
        await tell(clock, 6)
        card = screen.card("add")
        await expect(card).to_have_attribute("data-status", "arguments")
        await expect(card).to_contain_text("Preparing")
        await card.get_by_role("button").click()
        await expect(card.locator("pre")).to_have_text('{"a": ')
        await tell(clock, 5)
        await expect(card.locator("pre")).to_have_text('{"a": 2, "b')
        await tell(clock, 6)
        await expect(card).to_have_attribute("data-status", "done")
        await expect(card.locator("pre").last).to_have_text("42.0")


oven_opened = threading.Event()


def bake() -> str:
    """Bake until somebody opens the oven."""
    oven_opened.wait(DEADLINE_SECONDS)
    raise ToolError("the oven is cold")


async def test_a_tool_at_work_says_so_and_one_that_failed_says_why(browser: Browser, tmp_path: Path) -> None:
    oven_opened.clear()
    tools = [{"type": "PythonTool", "name": "bake", "parameters": {"function": f"{__name__}:bake"}}]
    baker = agent("baker", scripted([{"tool": "bake"}], [{"text": "It failed."}]), tools=tools)
    async with shown_page(browser, tmp_path, [baker]) as screen:
        card = screen.card("bake")
        await screen.say("Bake")
        await expect(card).to_have_attribute("data-status", "running")
        await expect(card).to_contain_text("Working")
        oven_opened.set()
        await expect(card).to_have_attribute("data-status", "failed")
        await expect(card).to_contain_text("Failed")
        await expect(card.locator(".agui-call-problem")).to_contain_text("the oven is cold")
        await expect(screen.answers).to_have_text("It failed.")


# --- tools of the page


async def test_the_theme_is_changed(browser: Browser, tmp_path: Path) -> None:
    background = "getComputedStyle(document.querySelector('.page')).backgroundColor"
    async with shown_page(browser, tmp_path) as screen:
        before = await screen.evaluate(background)
        await screen.ask("Use the dark theme")
        assert await screen.evaluate("document.documentElement.dataset.theme") == "dark"
        await screen.until(f"{background} !== {json.dumps(before)}")
        await expect(screen.page.get_by_role("radio", name="Dark")).to_be_checked()
        await screen.ask("Use the light theme")
        await screen.until(f"{background} === {json.dumps(before)}")


async def test_a_tool_whose_arguments_could_not_be_checked_is_not_run_and_the_model_is_told(
    browser: Browser, tmp_path: Path
) -> None:
    rules = [
        {"when": {"turn": 0}, "response": [{"tool": "set_theme", "arguments": {"theme": "dark"}}]},
        {"when": {}, "response": [{"text": "It said: {{result}}"}]},
    ]
    painter = agent("painter", scripted(rules=rules))
    async with shown_page(browser, tmp_path, [painter], expected=("Failed to load resource",)) as screen:
        await screen.page.route("**/schema_check*", lambda route: route.abort())
        await screen.ask("Dark, please")
        await expect(screen.answers).to_have_text(
            "It said: The tool failed: its arguments could not be checked, so it was not run"
        )
        await expect(screen.card("set_theme")).to_have_attribute("data-status", "failed")
        assert await screen.evaluate("document.documentElement.dataset.theme") != "dark"
        await screen.page.unroute("**/schema_check*")
        await screen.ask("Once more")
        await expect(screen.card("set_theme").last).to_have_attribute("data-status", "done")
        assert await screen.evaluate("document.documentElement.dataset.theme") == "dark"


async def test_a_form_is_filled_and_asks_before_it_loses_what_is_in_it(browser: Browser, tmp_path: Path) -> None:
    other = {**BOOKING, "name": "Grace"}
    rules = [
        {"when": {"last_user_contains": "first", "turn": 0}, "response": [{"tool": "fill_form", "arguments": BOOKING}]},
        {"when": {"turn": 0}, "response": [{"tool": "fill_form", "arguments": other}]},
        {"when": {"turn": 1}, "response": [{"text": "It said: {{result}}"}]},
    ]
    async with shown_page(browser, tmp_path, [agent("a", scripted(rules=rules))]) as screen:
        form = screen.page.get_by_role("form", name="Book a table")
        name = form.get_by_label("Name")
        await screen.ask("first")
        await expect(name).to_have_value("Ada")
        await expect(form.get_by_label("E-mail")).to_have_value("ada@example.org")
        await expect(form.get_by_label("Date")).to_have_value("2027-03-01")
        await expect(form.get_by_label("Guests")).to_have_value("4")

        await screen.say("another")
        question = screen.page.get_by_role("group", name="The booking form has something else in it. Replace it?")
        await expect(question).to_be_visible()
        await expect(screen.card("fill_form").last).to_have_attribute("data-status", "waiting")
        await question.get_by_role("button", name="No").click()
        await expect(screen.card("fill_form").last).to_have_attribute("data-status", "declined")
        await expect(screen.answers.last).to_contain_text("The user declined this call")
        await expect(name).to_have_value("Ada")

        await screen.say("and again")
        await question.get_by_role("button", name="Yes").click()
        await expect(screen.answers.last).to_contain_text("Filled in: name")
        await expect(name).to_have_value("Grace")


@pytest.mark.parametrize(("button", "confirmed"), [("Yes", "true"), ("No", "false"), (None, "false")])
async def test_a_dialog_asks_and_its_answer_is_told(
    browser: Browser, tmp_path: Path, button: str | None, confirmed: str
) -> None:
    model = scripted([{"tool": "confirm", "arguments": {"question": "Ship it?"}}], [{"text": "It said: {{result}}"}])
    async with shown_page(browser, tmp_path, [agent("a", model)]) as screen:
        await screen.say("Ask me")
        dialog = screen.page.get_by_role("dialog", name="Ship it?")
        await expect(dialog).to_be_visible()
        if button is None:
            await screen.page.keyboard.press("Escape")
        else:
            await dialog.get_by_role("button", name=button).click()
        await expect(dialog).to_have_count(0)
        await expect(screen.answers).to_have_text(f'It said: {{"confirmed":{confirmed}}}')


async def test_parts_of_the_page_are_highlighted_for_a_moment(browser: Browser, tmp_path: Path) -> None:
    parts = ["conversations", "theme switch", "message field", "shared list", "booking form"]
    rules = [
        {
            "when": {"last_user_contains": part, "turn": 0},
            "response": [{"tool": "highlight", "arguments": {"part": part}}],
        }
        for part in parts
    ]
    told = {"when": {"turn": 1}, "response": [{"text": "It said: {{result}}"}]}
    watch = """
        window.marked = [];
        document.addEventListener("DOMContentLoaded", () => {
            const look = ({ target, oldValue }) => {
                if (!target.classList.contains("page-highlighted") || oldValue?.includes("page-highlighted")) return;
                const { top, right, bottom, left } = target.getBoundingClientRect();
                const isInView = bottom > 0 && right > 0 && top < innerHeight && left < innerWidth;
                window.marked.push([target.className, getComputedStyle(target).outlineStyle, isInView]);
            };
            const attributes = { attributeFilter: ["class"], attributeOldValue: true };
            new MutationObserver((all) => all.forEach(look)).observe(document.body, { subtree: true, ...attributes });
        });
    """
    highlighter = agent("a", scripted(rules=[*rules, told]))
    async with shown_page(browser, tmp_path, [highlighter], script=watch) as screen:
        for part in parts:
            await screen.ask(f"Where is the {part}?")
            if part == "shared list":  # there is none before somebody puts something into it
                await expect(screen.answers.last).to_contain_text("there is no shared list on the page at the moment")
            else:
                await expect(screen.answers.last).to_contain_text("is highlighted")
        marked = await screen.evaluate("window.marked")
        assert len({name for name, _, _ in marked}) == len(marked) == 4
        assert [(outline, is_in_view) for _, outline, is_in_view in marked] == [("solid", True)] * 4
        await expect(screen.page.locator(".page-highlighted")).to_have_count(0)


async def test_several_calls_wait_at_once_and_the_answer_comes_when_all_are_answered(
    browser: Browser, tmp_path: Path
) -> None:
    first: list[Mapping[str, Any]] = [
        {"tool": "fill_form", "arguments": BOOKING},
        {"tool": "confirm", "arguments": {"question": "Really?"}},
        {"tool": "set_theme", "arguments": {"theme": "dark"}},
        {"tool": "set_theme", "arguments": {"theme": "purple"}},
        {"tool": "tool_of_another_page", "arguments": {}},
    ]
    async with shown_page(browser, tmp_path, [agent("a", scripted(first, [{"text": "All done."}]))]) as screen:
        await screen.page.get_by_role("textbox", name="Name").fill("Somebody else")
        await screen.say("Go")
        await expect(screen.page.get_by_role("dialog", name="Really?")).to_be_visible()
        await expect(screen.card("fill_form")).to_have_attribute("data-status", "waiting")
        await expect(screen.card("set_theme").first).to_have_attribute("data-status", "done")
        await expect(screen.card("set_theme").last).to_have_attribute("data-status", "failed")
        await expect(screen.answers).to_have_count(0)

        await screen.page.get_by_role("dialog").get_by_role("button", name="Yes").click()
        await expect(screen.card("confirm")).to_have_attribute("data-status", "done")
        await expect(screen.answers).to_have_count(0)
        await screen.card("fill_form").get_by_role("button", name="No", exact=True).click()
        await expect(screen.answers).to_have_text("All done.")
        await expect(screen.card("fill_form")).to_have_attribute("data-status", "declined")


async def test_writing_instead_of_answering_declines_what_was_asked(browser: Browser, tmp_path: Path) -> None:
    rules = [
        {"when": {"last_user_contains": "book", "turn": 0}, "response": [{"tool": "fill_form", "arguments": BOOKING}]},
        {"when": {}, "response": [{"text": "You said: {{user}}"}]},
    ]
    async with shown_page(browser, tmp_path, [agent("a", scripted(rules=rules))]) as screen:
        await screen.page.get_by_role("textbox", name="Name").fill("Somebody else")
        await screen.say("book")
        await expect(screen.card("fill_form")).to_have_attribute("data-status", "waiting")
        await screen.say("Never mind")
        await expect(screen.answers).to_have_text("You said: Never mind")
        await expect(screen.card("fill_form")).to_have_attribute("data-status", "declined")
        await expect(screen.page.get_by_role("textbox", name="Name")).to_have_value("Somebody else")


# --- reasoning


async def test_reasoning_is_folded_away_and_says_how_long_it_took(browser: Browser, tmp_path: Path) -> None:
    steps: list[Mapping[str, Any]] = [
        {"reasoning": "The user wants **this**."},
        {"delay_seconds": 0.2},
        {"text": "Here."},
    ]
    async with shown_page(browser, tmp_path, [agent("a", scripted(steps))]) as screen:
        await screen.ask("Think")
        reasoning = screen.page.get_by_test_id("reasoning")
        head = reasoning.get_by_role("button", name=re.compile(r"^Thought for (a moment|[\d.]+ s)"))
        await expect(head).to_have_attribute("aria-expanded", "false")
        await expect(reasoning.get_by_text("The user wants")).to_have_count(0)
        await head.click()
        await expect(reasoning.locator("strong")).to_have_text("this")
        await head.click()
        await expect(reasoning.get_by_text("The user wants")).to_have_count(0)


async def test_reasoning_says_that_it_is_under_way(browser: Browser, tmp_path: Path) -> None:
    clock = MovableClock(time.time())
    steps: list[Mapping[str, Any]] = [
        {"reasoning": "Hmm, well", "chunk_characters": 1, "delta_seconds": 1 / 64},
        {"text": "Here."},
    ]
    async with shown_page(browser, tmp_path, [agent("a", scripted(steps))], clock=clock) as screen:
        reasoning = screen.page.get_by_test_id("reasoning")
        await screen.say("Think")
        await tell(clock, 3)
        await expect(reasoning).to_contain_text("Thinking")
        await reasoning.get_by_role("button").click()
        await expect(reasoning.locator("p")).to_have_text("Hmm")
        await tell(clock, 6)
        await expect(reasoning).to_contain_text("Thought")
        await expect(reasoning.locator("p")).to_have_text("Hmm, well")


# --- the shared list


async def test_a_list_is_edited_by_both_sides(browser: Browser, tmp_path: Path) -> None:
    async with shown_page(browser, tmp_path) as screen:
        shared = screen.page.get_by_test_id("shared_list")
        items = shared.get_by_role("listitem")
        await expect(shared).to_have_count(0)
        await screen.ask("Add milk to my list")
        await expect(items).to_have_text(["milk"])

        await shared.get_by_label("Add an item").fill("bread")
        await shared.get_by_label("Add an item").press("Enter")
        await expect(items).to_have_text(["milk", "bread"])
        await shared.get_by_role("checkbox", name="milk").check()
        await shared.get_by_role("button", name="Remove bread").click()
        await shared.get_by_label("Add an item").fill("eggs")
        await shared.get_by_label("Add an item").press("Enter")
        await expect(items).to_have_text(["milk", "eggs"])

        await screen.ask("Add oat cookies to my list")
        await expect(screen.card("add_to_list").last).to_have_attribute("data-status", "done")
        await expect(items).to_have_text(["milk", "eggs", "oat cookies"])
        await expect(shared.get_by_role("checkbox", name="milk")).to_be_checked()
        await expect(shared).to_contain_text("1 / 3")

        await screen.page.reload()
        await expect(items).to_have_text(["milk", "eggs", "oat cookies"])
        await expect(shared.get_by_role("checkbox", name="milk")).to_be_checked()
