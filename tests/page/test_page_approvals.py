"""Tools that run only if a person agrees: what they see, what they may change, and what becomes of their answer."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Locator, expect

from tests.movable_clock import MovableClock
from tests.page_browser import DEMONSTRATION, Screen, shown_page
from tests.running_gateway import agent, scripted

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.thorough]

DEPOT = """
import json
from pathlib import Path


async def ship(order_id: int, weight: float, parts: dict[str, list[float | int]], note: str) -> str:
    "Ship an order."
    got = {"order_id": order_id, "weight": weight, "parts": parts, "note": note}
    Path(__file__).with_name("got.json").write_text(json.dumps(got))
    return "Shipped."
"""


def refunder(*calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    """An agent that wants to refund, and then says what came of it."""
    steps = [{"tool": "refund", "arguments": call} for call in calls or ({"order_id": "1234", "amount": 20},)]
    rules = [{"when": {"turn": 0}, "response": steps}, {"when": {}, "response": [{"text": "It said: {{result}}"}]}]
    return {**DEMONSTRATION, "model": scripted(rules=rules), **more}


def approval(screen: Screen) -> Locator:
    return screen.page.get_by_role("group", name="Approval needed")


async def test_the_arguments_are_shown_by_their_schema_and_agreed_to(browser: Browser, tmp_path: Path) -> None:
    async with shown_page(browser, tmp_path, [refunder()]) as screen:
        await screen.say("Refund")
        card = approval(screen)
        await expect(card).to_be_focused()
        await expect(card).to_contain_text("“refund” runs only if you agree.")
        await expect(card).to_contain_text(re.compile("Expires in 1[45] minutes"))
        await expect(card.get_by_label("Order id")).to_have_value("1234")
        await expect(card.get_by_label("Amount")).to_have_value("20")
        await expect(screen.card("refund")).to_have_attribute("data-status", "approval")
        await card.get_by_role("button", name="Approve").click()
        await expect(screen.answers).to_contain_text('"status":"refunded"')
        await expect(screen.answers).to_contain_text('"amount":20')
        await expect(screen.card("refund")).to_have_attribute("data-status", "done")
        await expect(card).to_have_count(0)


async def test_what_is_changed_is_what_runs_and_what_is_wrong_is_said(browser: Browser, tmp_path: Path) -> None:
    async with shown_page(browser, tmp_path, [refunder()]) as screen:
        await screen.say("Refund")
        card = approval(screen)
        amount = card.get_by_label("Amount")
        for wrong, words in [("much", "This has to be a number."), ("", "This is needed.")]:
            await amount.fill(wrong)
            await card.get_by_role("button", name="Approve").click()
            await expect(card.get_by_text(words)).to_be_visible()
            await expect(amount).to_be_focused()
            await expect(amount).to_have_attribute("aria-invalid", "true")
        await amount.fill("7.5")
        await card.get_by_role("button", name="Approve").click()
        await expect(screen.answers).to_contain_text('"amount":7.5')
        await screen.card("refund").get_by_role("button").click()
        await expect(screen.card("refund").locator("pre").last).to_contain_text(re.compile('"amount": ?7.5'))


async def test_denying_is_an_answer_with_or_without_a_reason(browser: Browser, tmp_path: Path) -> None:
    async with shown_page(browser, tmp_path, [refunder()]) as screen:
        await screen.say("Refund")
        await approval(screen).get_by_role("button", name="Deny", exact=True).click()
        await expect(screen.answers).to_contain_text("denied")
        await expect(screen.card("refund")).to_have_attribute("data-status", re.compile("declined|failed"))

        await screen.say("Refund again")
        await approval(screen).get_by_role("button", name="Deny with a reason").click()
        reason = approval(screen).get_by_label("Reason")
        await expect(reason).to_be_focused()
        await reason.fill("The order is too old.")
        await reason.press("Enter")
        await expect(screen.answers.last).to_contain_text("The order is too old.")
        await expect(screen.card("refund").last).to_contain_text("The order is too old.")


async def test_several_approvals_are_answered_one_by_one_and_go_on_together(browser: Browser, tmp_path: Path) -> None:
    calls = [{"order_id": str(number), "amount": number} for number in (1, 2, 3)]
    async with shown_page(browser, tmp_path, [refunder(*calls)]) as screen:
        await screen.say("Refund them")
        cards = approval(screen)
        await expect(cards).to_have_count(3)
        await cards.nth(1).get_by_role("button", name="Deny", exact=True).click()
        await cards.nth(0).get_by_role("button", name="Approve").click()
        await expect(cards.nth(0)).to_contain_text("Approved")
        await expect(cards.nth(1)).to_contain_text("Denied")
        await expect(screen.answers).to_have_count(0)
        await cards.nth(2).get_by_role("button", name="Approve").click()
        await expect(screen.answers).to_have_count(1)
        statuses = [await each.get_attribute("data-status") for each in await screen.card("refund").all()]
        assert statuses[0] == statuses[2] == "done"
        assert statuses[1] != "done"


async def test_an_approval_expires_before_the_person_s_eyes(browser: Browser, tmp_path: Path) -> None:
    clock = MovableClock(time.time())
    async with shown_page(browser, tmp_path, [refunder()], clock=clock) as screen:
        await screen.page.clock.install()
        await screen.page.reload()
        await screen.say("Refund")
        card = approval(screen)
        await expect(card).to_contain_text(re.compile(r"Expires in 1[45] minutes"))
        await clock.advance(16 * 60)
        await screen.page.clock.fast_forward("16:00")
        await expect(card).to_contain_text("This has expired")
        await expect(card.get_by_role("button", name="Approve")).to_be_disabled()
        await card.get_by_role("button", name="Deny", exact=True).click()
        await expect(screen.answers).to_have_count(1)
        await expect(screen.answers).not_to_contain_text("refunded")


async def test_an_approval_is_there_again_after_a_reload_and_writing_something_else_is_no_yes(
    browser: Browser, tmp_path: Path
) -> None:
    async with shown_page(browser, tmp_path, [refunder()]) as screen:
        await screen.say("Refund")
        await expect(approval(screen)).to_be_visible()
        await screen.page.reload()
        await expect(approval(screen).get_by_label("Amount")).to_have_value("20")
        await screen.say("Rather not")
        await expect(screen.questions).to_have_count(2)
        await expect(screen.card("refund").first).to_have_attribute("data-status", re.compile("declined|failed"))
        await expect(screen.card("refund").first).not_to_contain_text("refunded")


async def test_numbers_that_javascript_cannot_hold_are_shown_and_run_as_the_model_wrote_them(
    browser: Browser, tmp_path: Path
) -> None:
    """Also where another argument is changed. What the tool got is compared as text: 1 is not 1.0 there.

    Of an argument that the model gave twice, the last is shown and runs.
    """
    (tmp_path / "depot.py").write_text(DEPOT, "utf-8")
    written = (
        '{"order_id": 12345678901234567890, "weight": 1.0, "parts": {"ids": [9007199254740993, -0.0]}, "note": "now"}'
    )
    twice = '{"note": "never", ' + written[1:]
    rules = [
        {"when": {"turn": 0}, "response": [{"tool": "ship", "arguments": twice}]},
        {"when": {}, "response": [{"text": "It said: {{result}}"}]},
    ]
    tool = {"type": "PythonTool", "name": "ship", "parameters": {"function": "depot:ship"}, "approval": "always"}
    shipper = agent("shipper", scripted(rules=rules), tools=[tool])
    async with shown_page(browser, tmp_path, [shipper]) as screen:
        for number, note in enumerate(("now", "later")):
            await screen.say("Ship it")
            card = approval(screen)
            await expect(card.get_by_label("Order id")).to_have_value("12345678901234567890")
            await expect(card.get_by_label("Weight")).to_have_value("1.0")
            await expect(card.get_by_label("Parts")).to_have_value(re.compile(r"9007199254740993,\s+-0\.0\s"))
            shown = screen.card("ship").nth(number)
            await expect(shown.locator(".agui-call-preview")).to_contain_text("12345678901234567890 · 1.0")
            await expect(card.get_by_label("Note")).to_have_value("now")
            await card.get_by_label("Note").fill(note)
            await card.get_by_role("button", name="Approve").click()
            await expect(screen.answers).to_have_count(number + 1)
            await screen.expect_idle()
            assert (tmp_path / "got.json").read_text("utf-8") == written.replace("now", note)
            await shown.get_by_role("button").click()
            await expect(shown.locator("pre").first).to_contain_text('"order_id": 12345678901234567890')
            await expect(shown.locator("pre").first).to_contain_text(f'"note": "{note}"')
