"""The conversations there are, the agents one may talk to, and the key that a server asks for."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.async_api import Browser, Locator, Request, Route, expect

from tests.page_browser import Screen, built_page, screen, shown_page
from tests.running_gateway import agent, local_gateway, run_body, scripted

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.thorough]

ECHO = agent("echo", scripted(rules=[{"when": {}, "response": [{"text": "You said: {{user}}"}]}]), name="Echo")
PARROT = agent("parrot", scripted([{"text": "Polly!"}]), name="Parrot", description="Knows one word.")
KEY = "a-key-of-alice-0123456789"


def rows(shown: Screen) -> Locator:
    return shown.threads.get_by_role("listitem")


# --- threads


async def test_conversations_are_listed_under_their_first_message_the_last_one_first(
    browser: Browser, tmp_path: Path
) -> None:
    async with shown_page(browser, tmp_path, [ECHO]) as shown:
        await expect(shown.threads).to_contain_text("No conversations yet")
        await shown.ask("About whales")
        await expect(rows(shown)).to_have_text(["About whales"])
        await shown.button("New conversation").click()
        await expect(shown.questions).to_have_count(0)
        await shown.ask("About bees")
        await expect(rows(shown)).to_have_text(["About bees", "About whales"])
        await expect(shown.threads.locator("[aria-current]")).to_have_text("About bees")

        await shown.threads.get_by_role("button", name="About whales", exact=True).click()
        await expect(shown.questions).to_have_text(["About whales"])
        await expect(shown.answers).to_have_text(["You said: About whales"])
        await expect(shown.threads.locator("[aria-current]")).to_have_text("About whales")
        await shown.ask("More about them")
        await expect(rows(shown)).to_have_text(["About whales", "About bees"])
        await shown.page.reload()
        await expect(shown.questions).to_have_text(["About whales", "More about them"])


async def test_a_conversation_is_renamed_and_may_keep_its_name(browser: Browser, tmp_path: Path) -> None:
    async with shown_page(browser, tmp_path, [ECHO]) as shown:
        await shown.ask("About whales")
        rename, title = (
            shown.threads.get_by_role("button", name=re.compile("^Rename")),
            shown.page.get_by_label("New title"),
        )
        await rows(shown).hover()
        await rename.click()
        await expect(title).to_be_focused()
        await title.fill("Nothing")
        await title.press("Escape")
        await expect(rows(shown)).to_have_text(["About whales"])
        await rows(shown).hover()
        await rename.click()
        await title.fill("Large animals")
        async with shown.page.expect_response(lambda answer: answer.request.method == "PATCH"):
            await title.press("Enter")
        await expect(rows(shown)).to_have_text(["Large animals"])
        await shown.ask("And elephants")
        await expect(rows(shown)).to_have_text(["Large animals"])
        await shown.page.reload()
        await expect(rows(shown)).to_have_text(["Large animals"])


async def test_a_conversation_is_deleted_for_good_once_the_person_agrees(browser: Browser, tmp_path: Path) -> None:
    async with shown_page(browser, tmp_path, [ECHO]) as shown:
        await shown.ask("About whales")
        await shown.button("New conversation").click()
        await shown.ask("About bees")
        await expect(rows(shown)).to_have_text(["About bees", "About whales"])
        question = shown.threads.get_by_role("group", name="Delete “About bees” for good?")
        for answer, left in [("Cancel", ["About bees", "About whales"]), ("Delete", ["About whales"])]:
            await rows(shown).first.hover()
            await shown.button("Delete: About bees").dblclick()  # the second click is no answer
            await question.get_by_role("button", name=answer, exact=True).click()
            await expect(question).to_have_count(0)
            await expect(rows(shown)).to_have_text(left)
        await expect(shown.questions).to_have_count(0)
        assert shown.gateway is not None
        assert [each["title"] for each in (await shown.gateway.client.get("/threads"))["threads"]] == ["About whales"]
        await shown.page.reload()
        await expect(rows(shown)).to_have_text(["About whales"])


async def test_titles_and_deletions_need_no_mouse(browser: Browser, tmp_path: Path) -> None:
    async with shown_page(browser, tmp_path, [ECHO]) as shown:
        for text in ("First", "Second", "Third"):
            await shown.ask(text)
            await shown.button("New conversation").click()
        await expect(rows(shown)).to_have_text(["Third", "Second", "First"])
        keyboard = shown.page.keyboard
        rename, delete = shown.button("Rename: Second"), shown.button("Delete: Second")
        await rename.press("Enter")
        await expect(shown.page.get_by_label("New title")).to_be_focused()
        await keyboard.press("Escape")
        await expect(rename).to_be_focused()
        await keyboard.press("Enter")
        await keyboard.type("Other")
        await keyboard.press("Enter")
        await expect(shown.button("Rename: Other")).to_be_focused()
        await rows(shown).nth(1).get_by_role("button", name=re.compile("^Delete")).press("Enter")
        await expect(shown.button("Cancel")).to_be_focused()
        await keyboard.press("Escape")
        await expect(shown.button("Delete: Other")).to_be_focused()
        for left in (["Third", "First"], ["Third"], []):
            await keyboard.press("Enter")
            await keyboard.press("Tab")
            await keyboard.press("Enter")
            await expect(rows(shown)).to_have_text(left)
            if left:  # the row that took its place
                await expect(rows(shown).last.get_by_role("button", name=left[-1], exact=True)).to_be_focused()
                await shown.button(f"Delete: {left[-1]}").focus()
        await expect(shown.threads.get_by_text("No conversations yet")).to_be_visible()
        assert await shown.evaluate("document.activeElement.closest('nav') !== null")
        await expect(delete).to_have_count(0)


async def test_a_change_that_the_server_does_not_take_is_taken_back_and_said(browser: Browser, tmp_path: Path) -> None:
    async with shown_page(browser, tmp_path, [ECHO], expected=["ERR_INTERNET_DISCONNECTED"]) as shown:
        await shown.ask("About whales")
        await expect(rows(shown)).to_have_text(["About whales"])
        await shown.page.context.set_offline(True)
        alert = shown.threads.get_by_role("alert")
        await rows(shown).hover()
        await shown.button("Rename: About whales").click()
        await shown.page.get_by_label("New title").fill("Large animals")
        await shown.page.keyboard.press("Enter")
        await expect(alert).to_contain_text("The server cannot be reached.")
        await expect(rows(shown)).to_have_text(["About whales"])
        await shown.page.context.set_offline(False)
        await shown.button("Delete: About whales").click()
        await shown.button("Delete").click()
        await expect(rows(shown)).to_have_count(0)
        await expect(alert).to_have_count(0)


async def test_the_open_conversation_that_is_not_deleted_after_all_is_open_again(
    browser: Browser, tmp_path: Path
) -> None:
    async def lose(route: Route) -> None:
        await (route.abort() if route.request.method == "DELETE" else route.continue_())

    async with shown_page(browser, tmp_path, [ECHO], expected=["ERR_FAILED"]) as shown:
        await shown.ask("About whales")
        await shown.page.route("**/threads/*", lose)
        await rows(shown).hover()
        await shown.button("Delete: About whales").click()
        await shown.button("Delete").click()
        await expect(shown.threads.get_by_role("alert")).to_contain_text("The server cannot be reached.")
        await expect(shown.answers).to_have_text(["You said: About whales"])
        await expect(shown.threads.locator("[aria-current]")).to_have_text("About whales")


async def test_older_conversations_come_when_they_are_asked_for(browser: Browser, tmp_path: Path) -> None:
    async with shown_page(browser, tmp_path, [ECHO]) as shown:
        assert shown.gateway is not None
        for number in range(35):
            await shown.gateway.client.run(
                "echo", run_body(f"Nr {number}", thread_id=f"t{number}", run_id=f"r{number}")
            )
        await shown.page.reload()
        await expect(rows(shown)).to_have_count(30)
        await expect(rows(shown).first).to_have_text("Nr 34")
        await shown.threads.get_by_role("button", name="Show older ones").click()
        await expect(rows(shown)).to_have_count(35)
        await expect(shown.threads.get_by_role("button", name="Nr 4", exact=True)).to_be_focused()
        await expect(rows(shown).last).to_have_text("Nr 0")
        await expect(shown.threads.get_by_role("button", name="Show older ones")).to_have_count(0)
        await shown.threads.get_by_role("button", name="Nr 0", exact=True).click()
        await expect(shown.answers).to_have_text(["You said: Nr 0"])


async def test_a_conversation_that_another_tab_deleted_leaves_the_list_when_this_one_is_looked_at(
    browser: Browser, tmp_path: Path
) -> None:
    async with shown_page(browser, tmp_path, [ECHO]) as shown:
        await shown.ask("Hello")
        entry = shown.threads.get_by_role("button", name="Hello", exact=True)
        await expect(entry).to_be_visible()
        other = await shown.page.context.new_page()
        await other.goto(shown.page.url)
        threads = other.get_by_role("navigation", name="Conversations")
        await threads.get_by_role("button", name="Hello", exact=True).hover()
        await threads.get_by_role("button", name="Delete: Hello").click()
        await threads.get_by_role("group").get_by_role("button", name="Delete").click()
        await expect(threads.get_by_role("button", name="Hello", exact=True)).to_have_count(0)
        await other.close()
        await shown.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        await expect(entry).to_have_count(0)
        await expect(shown.answers).to_have_text("You said: Hello")  # what was said stays to be read


# --- several tabs


async def test_tabs_on_one_conversation_follow_each_other_and_lose_nothing(browser: Browser, tmp_path: Path) -> None:
    async with shown_page(browser, tmp_path, [ECHO]) as shown:
        await shown.ask("About whales")
        second = await shown.page.context.new_page()
        await second.goto(shown.page.url)
        await second.get_by_role("button", name="About whales", exact=True).click()
        other = replace(shown, page=second)
        await expect(other.answers).to_have_text(["You said: About whales"])

        await shown.ask("And bees")
        await expect(other.questions).to_have_text(["About whales", "And bees"])
        await expect(other.answers).to_have_text(["You said: About whales", "You said: And bees"])
        await other.ask("And ants")
        await expect(shown.answers).to_have_text(
            [f"You said: {words}" for words in ("About whales", "And bees", "And ants")]
        )


# --- agents


async def test_the_agent_is_chosen_and_each_conversation_stays_with_its_own(browser: Browser, tmp_path: Path) -> None:
    async with shown_page(browser, tmp_path, [ECHO, PARROT]) as shown:
        chooser = shown.page.get_by_role("combobox", name="Agent")
        await expect(chooser.get_by_role("option")).to_have_text(["Echo", "Parrot"])
        await shown.ask("Hello")
        await expect(shown.answers).to_have_text("You said: Hello")
        await chooser.select_option("Parrot")
        await expect(shown.questions).to_have_count(0)
        await expect(shown.page.get_by_text("Knows one word.")).to_be_visible()
        await shown.ask("Who is there?")
        await expect(shown.answers).to_have_text("Polly!")

        await shown.threads.get_by_role("button", name="Hello", exact=True).click()
        await expect(chooser).to_have_value("echo")
        await expect(shown.answers).to_have_text("You said: Hello")
        await shown.ask("Again")
        await expect(shown.answers.last).to_have_text("You said: Again")
        await chooser.select_option("Parrot")
        await shown.page.reload()
        await expect(chooser).to_have_value("parrot")


async def test_a_single_agent_needs_no_choice(browser: Browser, tmp_path: Path) -> None:
    async with shown_page(browser, tmp_path, [PARROT]) as shown:
        await expect(shown.page.locator(".page-agent")).to_have_text("Parrot")
        await expect(shown.page.get_by_role("combobox")).to_have_count(0)


# --- keys


async def test_a_server_with_keys_asks_for_one_and_it_is_kept_in_this_tab_alone(
    browser: Browser, tmp_path: Path
) -> None:
    keys = {"api_keys": [{"name": "alice", "key": KEY}]}
    async with (
        local_gateway(tmp_path, [ECHO], page=built_page(), server=keys) as gateway,
        screen(browser, "about:blank", expected=["401"]) as shown,
    ):
        requests: list[Request] = []
        shown.page.context.on("request", lambda request: requests.append(request))
        await shown.page.goto(f"{gateway.client.base_url}/")
        dialog = shown.page.get_by_role("dialog", name="This server asks for a key")
        await expect(dialog).to_be_visible()
        key = dialog.get_by_label("Key")
        await expect(key).to_be_focused()
        await expect(key).to_have_attribute("type", "password")
        await expect(dialog).to_contain_text("It is kept until you close this tab.")

        await shown.page.keyboard.press("Escape")
        await expect(dialog).to_have_count(0)
        await shown.button("Enter a key").click()
        await key.fill("a wrong one")
        await key.press("Enter")
        await expect(dialog.get_by_role("alert")).to_have_text("The server does not know this key.")
        await key.fill(KEY)
        await dialog.get_by_role("button", name="Use this key").click()
        await expect(dialog).to_have_count(0)
        await shown.ask("Hello")
        await expect(shown.answers).to_have_text("You said: Hello")
        await expect(rows(shown)).to_have_text(["Hello"])

        await shown.page.reload()
        await expect(shown.answers).to_have_text("You said: Hello")
        assert KEY in await shown.evaluate("JSON.stringify(sessionStorage)")
        assert KEY not in await shown.evaluate("JSON.stringify(localStorage) + document.cookie + location.href")
        asked = [each for each in requests if "/agents" in each.url or "/threads" in each.url]
        assert any(KEY in json.dumps(each.headers) for each in asked)
        assert not [each.url for each in requests if KEY in each.url or KEY in (each.post_data or "")]

        other = await shown.page.context.new_page()
        await other.goto(shown.page.url)
        await expect(other.get_by_role("dialog", name="This server asks for a key")).to_be_visible()
        await other.close()
        shown.foreign.clear()


async def test_a_key_is_forgotten_and_one_that_was_taken_back_is_asked_for_anew(
    browser: Browser, tmp_path: Path
) -> None:
    keys = {"api_keys": [{"name": "alice", "key": KEY}]}
    kept = f"sessionStorage.getItem('agui-key') ?? sessionStorage.setItem('agui-key', {json.dumps(KEY)});"
    async with (
        local_gateway(tmp_path, [ECHO], page=built_page(), server=keys) as gateway,
        screen(browser, f"{gateway.client.base_url}/", expected=["401"], script=kept) as shown,
    ):
        await shown.expect_idle()
        await shown.ask("Hello")
        await shown.evaluate("sessionStorage.setItem('agui-key', 'taken back')")
        await shown.say("Hello again")
        await expect(shown.banner).to_contain_text("This server asks for a key")
        dialog = shown.page.get_by_role("dialog", name="This server asks for a key")
        await dialog.get_by_label("Key").fill(KEY)
        await dialog.get_by_label("Key").press("Enter")
        await expect(dialog).to_have_count(0)
        await expect(shown.answers).to_have_text(["You said: Hello", "You said: Hello again"])
        await expect(shown.banner).to_have_count(0)
        await shown.threads.get_by_role("button", name="Change the key").click()
        await dialog.get_by_role("button", name="Forget the key").click()
        await expect(dialog).to_be_visible()
        assert await shown.evaluate("sessionStorage.getItem('agui-key')") is None
