"""The widget's earlier conversations, in a real browser: found, renamed, deleted, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, Route, expect

from tests.host_site import ECHO, TAG, neighbours, somebody, visit
from tests.page_browser import DEMONSTRATION, DESKTOP, PHONE
from tests.running_gateway import run_body

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.thorough]


async def test_a_visitor_finds_earlier_conversations_and_begins_new_ones(browser: Browser, tmp_path: Path) -> None:
    async with neighbours(tmp_path, [ECHO, DEMONSTRATION]) as (site, _):
        site.page(TAG.replace("assistant", "echo"))
        async with somebody(browser) as person, visit(person, site.origin) as page:
            listed = page.panel.get_by_role("navigation", name="Conversations")
            await page.open()
            await page.button("Show the conversations").click()
            await expect(listed.get_by_text("No conversations yet")).to_be_visible()
            await page.page.keyboard.press("Escape")
            await expect(page.composer).to_be_focused()
            await page.ask("first")
            await page.button("New conversation").click()
            await expect(page.answers).to_have_count(0)
            await page.ask("second")
            first, second = (listed.get_by_role("button", name=re.compile(f"^{name}")) for name in ("first", "second"))
            await page.button("Show the conversations").click()
            await expect(listed).to_be_focused()
            await expect(listed.locator("[part=thread]")).to_have_text([re.compile("^second"), re.compile("^first")])
            await expect(second).to_have_attribute("aria-current", "true")
            await first.click()
            await expect(listed).to_have_count(0)
            await expect(page.answers).to_have_text(["You said: first"])
            await expect(page.composer).to_be_focused()
            await page.ask("more")
            await page.page.reload()
            await page.button("Show the conversations").click()
            await expect(first).to_have_attribute("aria-current", "true")
            await second.click()
            await expect(page.answers).to_have_text(["You said: second"])
            await page.button("Show the conversations").click()
            await page.button("New conversation").click()
            await expect(listed).to_have_count(0)
            await expect(page.answers).to_have_count(0)
            await page.evaluate("document.querySelector('agui-chat').setAttribute('agent', 'assistant')")
            await page.button("Show the conversations").click()
            await expect(listed.get_by_text("No conversations yet")).to_be_visible()  # of this agent's

        # without a key everybody is one owner to the gateway: the widget lists what its browser began
        async with somebody(browser) as stranger, visit(stranger, site.origin) as page:
            await page.open()
            await page.button("Show the conversations").click()
            await expect(page.panel.get_by_text("No conversations yet")).to_be_visible()


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("key", [None, "pk_shop_0123456789"], ids=["no key", "publishable key"])
async def test_a_visitor_renames_and_deletes_earlier_conversations(
    browser: Browser, tmp_path: Path, size: tuple[int, int], key: str | None
) -> None:
    keys = [{"name": "shop", "key": key, "origins": ["SITE"], "agents": ["echo"]}] if key else []
    async with (
        neighbours(tmp_path, [ECHO], publishable_keys=keys) as (site, _),
        somebody(browser, size=size) as person,
    ):
        site.page(TAG.replace('"assistant"', f'"echo" data-key="{key}"' if key else '"echo"'))
        async with visit(person, site.origin) as page:
            listed = page.panel.get_by_role("navigation", name="Conversations")
            titles = listed.locator("[part=thread] > :first-child")
            await page.launcher.click()
            await page.ask("first")
            await page.button("New conversation").click()
            await page.ask("second")
            await page.button("Show the conversations").click()
            await expect(titles).to_have_text(["second", "first"])

            await listed.get_by_role("listitem").last.hover()
            await page.button("Rename: first").click()
            await expect(page.page.get_by_label("New title")).to_be_focused()
            await page.page.get_by_label("New title").dispatch_event("keydown", {"key": "Escape", "isComposing": True})
            await expect(page.page.get_by_label("New title")).to_be_focused()  # it was for the characters being chosen
            await page.page.keyboard.press("Escape")
            await expect(page.button("Rename: first")).to_be_focused()  # and neither list nor panel went away
            await page.page.keyboard.press("Enter")
            await page.page.keyboard.type("About whales")
            await page.page.keyboard.press("Enter")
            await expect(titles).to_have_text(["second", "About whales"])

            question = listed.get_by_role("group", name="Delete “second” for good?")
            await listed.get_by_role("listitem").first.hover()
            await page.button("Delete: second").click()
            await page.page.keyboard.press("Escape")
            await expect(page.button("Delete: second")).to_be_focused()
            await page.button("Delete: second").click()
            await expect(question.get_by_role("button", name="Cancel")).to_be_focused()
            await question.get_by_role("button", name="Delete").click()
            await expect(titles).to_have_text(["About whales"])
            await expect(listed.get_by_role("button", name=re.compile("^About whales"))).to_be_focused()
            await page.button("Hide the conversations").click()
            await expect(page.answers).to_have_count(0)  # it was the one that was open

            await page.page.reload()
            await page.button("Show the conversations").click()
            await expect(titles).to_have_text(["About whales"])
            await titles.click()
            await expect(page.answers).to_have_text(["You said: first"])


async def test_a_visitor_s_conversations_are_found_among_those_of_others(browser: Browser, tmp_path: Path) -> None:
    async with neighbours(tmp_path, [ECHO]) as (site, gateway):
        site.page(TAG.replace("assistant", "echo"))
        async with somebody(browser) as person, visit(person, site.origin) as page:
            for number in range(35, 70):
                await gateway.client.run("echo", run_body("theirs", thread_id=f"t{number}", run_id=f"r{number}"))
            await page.open()
            await page.ask("mine")
            await page.button("New conversation").click()
            await page.ask("also mine")
            for number in range(35):
                await gateway.client.run("echo", run_body("theirs", thread_id=f"t{number}", run_id=f"r{number}"))
            listed = page.panel.get_by_role("navigation", name="Conversations")
            titles = listed.locator("[part=thread] > :first-child")
            await page.button("Show the conversations").click()
            await expect(titles).to_have_text(["also mine", "mine"])
            await expect(page.button("Show older ones")).to_have_count(0)  # no others were begun here
            await listed.get_by_role("listitem").first.hover()
            await page.button("Delete: also mine").click()
            await page.button("Delete").click()
            await expect(titles).to_have_text(["mine"])
            await page.until("!Object.entries(localStorage).some(([key, ids]) => /begun/.test(key) && /,/.test(ids))")
            await expect(page.button("Show older ones")).to_have_count(0)
        async with somebody(browser) as stranger, visit(stranger, site.origin) as page:
            await page.open()
            await page.button("Show the conversations").click()
            await expect(page.panel.get_by_text("No conversations yet")).to_be_visible()
            await expect(page.button("Show older ones")).to_have_count(0)


async def test_the_open_conversation_that_is_not_deleted_after_all_is_there_again(
    browser: Browser, tmp_path: Path
) -> None:
    async def lose(route: Route) -> None:
        await (route.abort() if route.request.method == "DELETE" else route.fallback())

    async with neighbours(tmp_path, [ECHO]) as (site, _), somebody(browser) as person:
        site.page(TAG.replace("assistant", "echo"))
        async with visit(person, site.origin, expected="ERR_FAILED") as page:
            await page.open()
            await page.ask("mine")
            await page.page.route("**/threads/*", lose)
            await page.button("Show the conversations").click()
            listed = page.panel.get_by_role("navigation", name="Conversations")
            await listed.get_by_role("listitem").hover()
            await page.button("Delete: mine").click()
            await page.button("Delete").click()
            await expect(listed.get_by_role("alert")).to_contain_text("The server cannot be reached.")
            await expect(listed.locator("[aria-current]")).to_have_text(re.compile("^mine"))
            await page.button("Hide the conversations").click()
            await expect(page.answers).to_have_text(["You said: mine"])


async def test_a_list_of_conversations_that_does_not_come_says_why_and_goes_away_with_the_panel(
    browser: Browser, tmp_path: Path
) -> None:
    async with neighbours(tmp_path, [ECHO]) as (site, _), somebody(browser) as person:
        site.page(TAG.replace("assistant", "echo"))
        async with visit(person, site.origin, expected="ERR_INTERNET_DISCONNECTED") as page:
            await page.open()
            await person.set_offline(True)
            await page.button("Show the conversations").click()
            await expect(page.page.get_by_role("alert")).to_contain_text("The server cannot be reached.")
            await page.launcher.click()
            await expect(page.panel).to_have_count(0)
            await person.set_offline(False)
            await page.open()
            await expect(page.page.get_by_role("alert")).to_have_count(0)
