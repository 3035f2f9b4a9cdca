"""Files that go with a message: by button, paste and drop; their limits are told before, and kept."""

from __future__ import annotations

import asyncio
import base64
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Locator, Route, expect

from tests.page_browser import Screen, file, shown_page
from tests.running_gateway import agent, scripted

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.thorough]

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
THANKS = agent("thanks", scripted(rules=[{"when": {}, "response": [{"text": "Thanks."}]}]))
DRAWN = """
    (() => {
        const [shown, blank] = [document.querySelector(".agui-sent-image"), document.createElement("canvas")];
        if (!shown) return false;
        [blank.width, blank.height] = [shown.width, shown.height];
        return shown.toDataURL() !== blank.toDataURL();
    })()
"""
# A paste or a drop as the browser tells the page of it, with files in it.
GIVE = """
    (target, [how, files]) => {
        const data = new DataTransfer();
        for (const [name, type, text] of files)
            data.items.add(new File([Uint8Array.from(atob(text), (each) => each.charCodeAt(0))], name, { type }));
        const more = { bubbles: true, cancelable: true };
        const events = how === "paste"
            ? [new ClipboardEvent("paste", { clipboardData: data, ...more })]
            : ["dragenter", "dragover", "drop"].map((each) => new DragEvent(each, { dataTransfer: data, ...more }));
        return events.map((each) => target.dispatchEvent(each)).at(-1);
    }
"""


def chips(screen: Screen) -> Locator:
    return screen.page.get_by_role("list", name="Attached files").get_by_role("listitem")


async def give(target: Locator, how: str, *files: tuple[str, str, bytes]) -> None:
    encoded = [(name, mime_type, base64.b64encode(content).decode()) for name, mime_type, content in files]
    taken_by_the_page = not await target.evaluate(GIVE, [how, encoded])
    assert taken_by_the_page


async def sent_content(screen: Screen) -> list[dict[str, Any]]:
    """The parts of the last user message, as the gateway has them."""
    assert screen.gateway is not None
    thread = (await screen.gateway.client.get("/threads"))["threads"][0]["id"]
    messages = (await screen.gateway.client.get(f"/threads/{thread}/messages"))["messages"]
    content: list[dict[str, Any]] = next(each for each in reversed(messages) if each["role"] == "user")["content"]
    return content


async def test_a_message_waits_for_files_that_are_still_read(browser: Browser, tmp_path: Path) -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def hold(route: Route) -> None:
        asked.set()
        await go_on.wait()
        await route.continue_()

    async with shown_page(browser, tmp_path, [THANKS]) as screen:
        await screen.page.route("**/file_reading*", hold)
        await screen.page.get_by_test_id("file-input").set_input_files([file("dot.png", "image/png", PIXEL)])
        await asked.wait()
        await screen.say("Look")
        await expect(screen.questions).to_have_count(0)
        go_on.set()
        await expect(screen.page.get_by_test_id("answer")).to_have_text("Thanks.")
        await expect(chips(screen)).to_have_count(0)
        assert [part["type"] for part in await sent_content(screen)] == ["image", "text"]


async def test_files_are_chosen_by_the_button_that_tells_the_limits_and_are_sent(
    browser: Browser, tmp_path: Path
) -> None:
    async with shown_page(browser, tmp_path, [THANKS]) as screen:
        button = screen.button(re.compile("^Attach files"))
        await expect(button).to_have_accessible_name("Attach files. Images and documents, up to 5 MB each")
        await expect(button).to_have_attribute("title", "Images and documents, up to 5 MB each")
        async with screen.page.expect_file_chooser() as choosing:
            await button.click()
        chooser = await choosing.value
        assert chooser.is_multiple()
        await chooser.set_files([file("dot.png", "image/png", PIXEL), file("notes.md", "", b"# Notes")])
        await expect(chips(screen)).to_have_count(2)
        await expect(chips(screen).first).to_contain_text("dot.png")
        await expect(chips(screen).last).to_contain_text("7 byte")

        await screen.ask("Look")
        await expect(chips(screen)).to_have_count(0)
        picture = screen.questions.get_by_role("img", name="Attachment: dot.png")
        await expect(picture).to_be_visible()
        await screen.until(DRAWN)
        await expect(screen.questions).to_contain_text("notes.md")
        content = await sent_content(screen)
        assert {each["type"] for each in content} == {"text", "image", "document"}

        await screen.page.reload()
        await expect(picture).to_be_visible()
        await screen.until(DRAWN)
        await expect(screen.questions).to_contain_text("notes.md")


@pytest.mark.parametrize("how", ["paste", "drop"])
async def test_files_are_pasted_and_dropped(browser: Browser, tmp_path: Path, how: str) -> None:
    async with shown_page(browser, tmp_path, [THANKS]) as screen:
        target = screen.composer if how == "paste" else screen.conversation
        await give(target, how, ("dot.png", "image/png", PIXEL), ("report.pdf", "application/pdf", b"%PDF-1.4 ..."))
        await expect(chips(screen)).to_have_count(2)
        await screen.button("Remove report.pdf").click()
        await expect(chips(screen)).to_have_count(1)
        await screen.button("Send").click()
        await screen.expect_idle()
        await expect(screen.questions.get_by_role("img", name="Attachment: dot.png")).to_be_visible()
        assert [each["type"] for each in await sent_content(screen)] == ["image"]


async def test_a_drop_says_where_and_words_are_pasted_as_words(browser: Browser, tmp_path: Path) -> None:
    over = (
        "(target) => { const dataTransfer = new DataTransfer(); dataTransfer.items.add(new File([], 'x.png'));"
        " target.dispatchEvent(new DragEvent(%r, { dataTransfer, bubbles: true, cancelable: true })); }"
    )
    async with shown_page(browser, tmp_path, [THANKS]) as screen:
        await screen.conversation.evaluate(over % "dragover")
        await expect(screen.page.get_by_text("Drop the files here")).to_be_visible()
        await screen.conversation.evaluate(over % "dragleave")
        await expect(screen.page.get_by_text("Drop the files here")).to_have_count(0)
        assert await screen.composer.evaluate(GIVE, ["paste", []]), "the browser's own affair"


async def test_files_stay_with_a_message_that_is_said_differently(browser: Browser, tmp_path: Path) -> None:
    async with shown_page(browser, tmp_path, [THANKS]) as screen:
        await screen.page.get_by_test_id("file-input").set_input_files([file("dot.png", "image/png", PIXEL)])
        await expect(chips(screen)).to_have_count(1)
        await screen.ask("What is this?")
        picture = screen.conversation.get_by_role("img", name="Attachment: dot.png")
        await expect(picture).to_be_visible()
        await screen.questions.hover()
        await screen.button("Edit").click()
        await expect(picture).to_be_visible()
        await screen.page.get_by_label("Edit your message").fill("And this?")
        await screen.page.keyboard.press("Enter")
        await expect(screen.questions).to_have_text("And this?")
        await screen.expect_idle()
        await expect(picture).to_be_visible()
        assert [part["type"] for part in await sent_content(screen)] == ["image", "text"]


async def test_what_is_too_large_or_of_no_use_is_refused_and_said(browser: Browser, tmp_path: Path) -> None:
    async with shown_page(browser, tmp_path, [THANKS]) as screen:
        chooser = screen.page.get_by_test_id("file-input")
        refused = screen.page.locator(".agui-refused")
        await chooser.set_input_files([file("big.pdf", "application/pdf", bytes(5_000_001))])
        await expect(refused).to_have_text("big.pdf is too large: 5 MB, and 5 MB is the most.")
        await chooser.set_input_files([file("setup.exe", "application/x-msdownload", b"MZ")])
        await expect(refused).to_have_text("setup.exe is of a kind that cannot be sent.")
        await expect(refused).to_have_attribute("role", "alert")
        await chooser.set_input_files(
            [file("a.pdf", "application/pdf", bytes(4_000_000)), file("b.pdf", "application/pdf", bytes(4_000_000))]
        )
        await expect(refused).to_have_text("Together the files are too large: 7 MB is the most.")
        await expect(chips(screen)).to_have_count(1)
        await screen.ask("One of them")
        assert [each["type"] for each in await sent_content(screen)] == ["document", "text"]
        await expect(refused).to_have_count(0)
