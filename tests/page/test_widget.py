"""The widget on pages of other sites, in a real browser: what a site's owner, its scripts and its visitors do with it.

Its conversations are in test_widget_conversations.py beside it, its visitors by publishable keys in
test_widget_visitors.py.
"""

from __future__ import annotations

import gzip
import json
import re
import struct
import time
import zlib
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from tests.host_site import ECHO, SLOW, TAG, WORDS, neighbours, somebody, visit
from tests.movable_clock import MovableClock
from tests.page_browser import DEMONSTRATION, DESKTOP, PHONE, built_page, file, tell
from tests.running_gateway import agent, local_gateway, scripted

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.thorough]

BUDGET_BYTES = 62_000


def png(width: int, height: int) -> bytes:
    """A picture, all red."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = (b"\0" + b"\xff\0\0" * width) * height
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


# --- one tag


async def test_the_widget_is_one_small_file() -> None:
    widget = built_page().files["/widget.js"].content

    assert len(gzip.compress(widget, 9)) <= BUDGET_BYTES


async def test_one_tag_is_a_chat_on_a_page_of_another_origin_under_a_strict_policy(
    browser: Browser, tmp_path: Path
) -> None:
    async with neighbours(tmp_path) as (site, _), somebody(browser) as person, visit(person, site.origin) as page:
        await expect(page.launcher).to_have_attribute("aria-expanded", "false")
        await expect(page.panel).to_have_count(0)
        assert page.requests == []  # nobody opened it: nothing is asked

        await page.open()
        await expect(page.launcher).to_have_attribute("aria-expanded", "true")
        await page.ask("What was the population of Seattle in 2023?")
        await expect(page.page.get_by_role("cell", name="3,519,000")).to_be_visible()
        await expect(page.card("SearchIndexTool")).to_be_visible()
        await expect(page.button(re.compile("Thought for"))).not_to_have_count(0)

        await page.say("Refund order 1234, 20 dollars")
        await page.page.get_by_label("Amount").fill("7")
        await page.button("Approve").click()
        await expect(page.answers.last).to_contain_text("refunded")
        await page.expect_idle()
        told = await page.answers.all_text_contents()

        await page.page.reload()
        await expect(page.answers).to_have_text(told)
        await expect(page.panel).to_be_visible()  # as it was left


async def test_what_few_chats_need_comes_when_it_is_needed_under_the_same_policy(
    browser: Browser, tmp_path: Path
) -> None:
    coder = agent("assistant", scripted([{"text": "```python\nreturn 1  # one\n```"}]))
    asked: list[str] = []
    async with (
        neighbours(tmp_path, [coder]) as (site, _),
        somebody(browser) as person,
        visit(person, site.origin) as page,
    ):
        page.page.on("request", lambda request: asked.append(request.url))
        colours = f"{site.gateway}/widget/code_colours.js"
        await page.open()
        assert colours not in asked
        await page.ask("Code, please")
        await expect(page.answers.locator(".agui-code-word")).to_have_text("return")
        assert asked.count(colours) == 1


async def test_the_styles_of_page_and_widget_never_meet(browser: Browser, tmp_path: Path) -> None:
    look = """(element) => {
        const { color, font, display, letterSpacing, textTransform, padding, visibility } = getComputedStyle(element);
        return [color, font, display, letterSpacing, textTransform, padding, visibility];
    }"""
    hostile = """
        * { color: rgb(255, 0, 0) !important; font: 40px cursive !important; letter-spacing: 9px !important;
            text-transform: uppercase !important; padding: 33px !important; line-height: 4 !important; }
        button, dialog, textarea, header, h2, svg { display: none !important; }
    """

    async with neighbours(tmp_path) as (site, _), somebody(browser) as person:
        looks: list[Any] = []
        for style in ("", hostile):
            site.style = style
            async with visit(person, site.origin) as page:
                await page.open()
                parts = [page.launcher, page.panel.locator("h2").first, page.composer, page.button("Send")]
                looks.append([await part.evaluate(look) for part in parts])
        site.style = ""
        async with visit(person, site.origin) as page:
            await page.open()
            with_widget = await page.page.locator("#words").evaluate(look)
            traces = await page.evaluate(
                "[document.querySelectorAll('style, body [style]').length, document.adoptedStyleSheets.length]"
            )
            site.page()
        async with visit(person, site.origin) as page:
            without = await page.page.locator("#words").evaluate(look)

    assert looks[0] == looks[1]
    assert with_widget == without
    assert traces == [0, 0]


async def test_a_page_themes_it_by_properties_parts_and_colour_scheme(browser: Browser, tmp_path: Path) -> None:
    background = "(element) => getComputedStyle(element).backgroundColor"
    async with neighbours(tmp_path) as (site, _), somebody(browser) as person:
        site.style = "agui-chat { --agui-accent: rgb(1, 2, 3) } agui-chat::part(launcher) { border-radius: 4px }"
        site.page(TAG.replace("data-agent", 'data-position="start" data-heading="Help" data-agent'))
        async with visit(person, site.origin) as page:
            assert await page.launcher.evaluate(background) == "rgb(1, 2, 3)"
            assert await page.launcher.evaluate("(it) => getComputedStyle(it).borderRadius") == "4px"
            box = await page.launcher.bounding_box()
            assert box is not None
            assert box["x"] < 100
            await page.open()
            panel = page.page.get_by_role("dialog", name="Help")
            grounds = [await panel.evaluate(background)]
            await page.evaluate("document.documentElement.style.colorScheme = 'dark'")  # auto: as the page is
            grounds.append(await panel.evaluate(background))
            await page.evaluate("document.querySelector('agui-chat').setAttribute('theme', 'light')")
            grounds.append(await panel.evaluate(background))

    assert grounds[0] == grounds[2] != grounds[1]


# --- what a page's scripts do with it


async def test_a_page_gives_tools_context_and_state_and_hears_what_happens(browser: Browser, tmp_path: Path) -> None:
    script = """
        await customElements.whenDefined("agui-chat");
        const chat = document.querySelector("agui-chat");
        window.chat = chat;
        window.called = [];
        chat.registerTool({
            name: "paint_wall",
            description: "Paint the wall of the room in a colour.",
            parameters: { type: "object", properties: { colour: { type: "string", enum: ["red", "blue"] } },
                          required: ["colour"] },
            handler: ({ colour }) => { window.called.push(colour); return `The wall is ${colour}.`; },
            render: (call) => Object.assign(document.createElement("b"), { textContent: `drawn for ${call.name}` }),
        });
        chat.registerTool({ name: "burn_house", description: "Burn the house down.", confirm: () => "Burn it all?",
                            handler: () => "It burns." });
        let visits = 0;
        chat.context = () => [{ description: "visits", value: ++visits }, { description: "who", value: "Ann" }];
        chat.state = { list: ["bread"] };
    """
    async with neighbours(tmp_path) as (site, _), somebody(browser) as person:
        site.page(TAG, site.script("/host.js", script))
        async with visit(person, site.origin) as page:
            await page.open()
            await page.ask("Paint the wall blue")
            await expect(page.answers.last).to_contain_text("The wall is blue.")
            await expect(page.panel.get_by_text("drawn for paint_wall")).to_be_visible()
            await page.say("Burn the house")
            await page.button("No").click()
            await expect(page.card("burn_house")).to_have_attribute("data-status", "declined")
            await page.expect_idle()
            await page.ask("Add milk to my list")
            state = await page.evaluate("chat.state")
            await page.evaluate("chat.state = { list: [] }")
            await page.evaluate("chat.unregisterTool('burn_house')")
            await page.evaluate("chat.send('Hello')")
            await page.expect_idle()
            called, heard = await page.evaluate("called"), await page.heard()

    assert called == ["blue"]
    assert state == {"list": ["bread", "milk"]}
    first, last = page.requests[0], page.requests[-1]
    assert {tool["name"] for tool in first["tools"]} == {"paint_wall", "burn_house"}
    assert first["context"] == [{"description": "visits", "value": "1"}, {"description": "who", "value": "Ann"}]
    assert first["state"] == {"list": ["bread"]}
    assert last["state"] == {"list": []}
    assert {tool["name"] for tool in last["tools"]} == {"paint_wall"}
    assert last["context"][0]["value"] == str(len(page.requests))
    names = [name for name, _ in heard if name != "thread"]
    assert names[:5] == ["ready", "open", "message", "run-started", "tool-call"]
    calls = [detail for name, detail in heard if name == "tool-call"]
    assert [(call["name"], json.loads(call["arguments"])) for call in calls][:2] == [
        ("paint_wall", {"colour": "blue"}),
        ("burn_house", {}),
    ]
    said = [(detail["role"], detail["text"]) for name, detail in heard if name == "message"]
    assert said[0] == ("user", "Paint the wall blue")
    assert said[-2] == ("user", "Hello")
    assert names.count("run-started") == names.count("run-finished") == len(page.requests)
    assert {"list": ["bread", "milk"]} in [detail["state"] for name, detail in heard if name == "state"]


async def test_what_a_page_sets_before_the_widget_is_there_counts(browser: Browser, tmp_path: Path) -> None:
    early = """
        const chat = document.querySelector("agui-chat");
        Object.assign(chat, { context: [{ description: "early", value: "bird" }], state: { early: true },
                              suggestions: ["Early question"], texts: { welcome: "You are early" } });
    """
    async with neighbours(tmp_path, [ECHO]) as (site, _), somebody(browser) as person:
        tag = TAG.replace(' data-agent="assistant"', "")
        site.page(site.script("/early.js", early), tag, body='<agui-chat agent="echo"></agui-chat>')
        async with visit(person, site.origin) as page:
            await page.open()
            await expect(page.panel.get_by_text("You are early")).to_be_visible()
            await page.button("Early question").click()
            await expect(page.answers).to_have_text(["You said: Early question"])

    assert page.requests[0]["context"] == [{"description": "early", "value": "bird"}]
    assert page.requests[0]["state"] == {"early": True}


async def test_several_chats_on_one_page_are_each_their_own(browser: Browser, tmp_path: Path) -> None:
    async with neighbours(tmp_path, [DEMONSTRATION, ECHO]) as (site, _), somebody(browser) as person:
        second = TAG.replace('data-agent="assistant"', 'data-agent="echo" data-position="start" data-heading="Second"')
        by_hand = '<agui-chat agent="echo" inline heading="Third" id="third"></agui-chat>'
        site.page(TAG, second, body=by_hand)
        async with visit(person, site.origin) as page:
            third = page.page.get_by_role("region", name="Third")
            await third.get_by_role("textbox").fill("one")
            await third.get_by_role("textbox").press("Enter")
            await expect(third.get_by_test_id("answer")).to_have_text("You said: one")
            launchers = page.page.get_by_role("button", name="Open the chat")
            await expect(launchers).to_have_count(2)
            await launchers.nth(1).click()
            panel = page.page.get_by_role("dialog", name="Second")
            await expect(panel.get_by_text("You said: one")).to_have_count(0)
            await panel.get_by_role("textbox").fill("two")
            await panel.get_by_role("textbox").press("Enter")
            await expect(panel.get_by_test_id("answer")).to_have_text("You said: two")
            await expect(third.get_by_test_id("answer")).to_have_text("You said: one")
            threads = await page.evaluate("[...document.querySelectorAll('agui-chat')].map((chat) => chat.threadId)")

    assert len(set(threads)) == 3


async def test_a_tag_that_comes_late_is_a_chat_too(browser: Browser, tmp_path: Path) -> None:
    async with neighbours(tmp_path, [ECHO]) as (site, _), somebody(browser, bypass_csp=True) as person:
        site.page(TAG.replace("assistant", "echo"))
        async with visit(person, site.origin) as page:
            await expect(page.launcher).to_be_visible()
            for heading in ("Late", "Later"):
                await page.evaluate(
                    """(heading) => {
                        const tag = document.createElement("script");
                        Object.assign(tag, { type: "module", src: document.querySelector("script[data-agent]").src });
                        Object.assign(tag.dataset, { agent: "echo", heading, target: "main", inline: "" });
                        document.body.append(tag);
                    }""",
                    heading,
                )
                await expect(page.page.get_by_role("region", name=heading, exact=True)).to_be_visible()
            await expect(page.page.locator("agui-chat")).to_have_count(3)


async def test_pictures_may_be_sent_where_the_site_says_so_and_no_policy_minds(
    browser: Browser, tmp_path: Path
) -> None:
    picture = file("dot.png", "image/png", png(3, 2))
    async with neighbours(tmp_path) as (site, _), somebody(browser) as person:
        async with visit(person, site.origin) as page:
            await page.open()
            await expect(page.page.get_by_test_id("file-input")).to_have_count(0)
        site.page(TAG.replace("data-agent", "data-uploads data-agent"))
        async with visit(person, site.origin) as page:
            await page.open()
            await page.page.get_by_test_id("file-input").set_input_files([picture])
            await page.ask("Look at this")
            shown = page.page.get_by_role("img", name="Attachment: dot.png")
            await expect(shown).to_be_visible()
            await page.page.reload()
            await expect(shown).to_have_js_property("width", 3)
            await expect(shown).to_have_js_property("height", 2)


# --- languages


async def test_it_speaks_the_page_s_language_from_right_to_left_where_that_is_so(
    browser: Browser, tmp_path: Path
) -> None:
    async with neighbours(tmp_path, [ECHO]) as (site, _), somebody(browser) as person:
        site.page(TAG.replace("assistant", "echo"), language="he")
        async with visit(person, site.origin) as page:
            launcher = page.page.get_by_role("button", name="פתיחת הצ׳אט")
            await launcher.click()
            launcher = page.page.get_by_role("button", name="סגירת הצ׳אט").first
            panel = page.page.get_by_role("dialog")
            assert await panel.evaluate("(it) => getComputedStyle(it).direction") == "rtl"
            box, button = await panel.bounding_box(), await launcher.bounding_box()
            assert box is not None
            assert button is not None
            assert box["x"] < 100
            assert button["x"] < 100
            await page.evaluate("document.querySelector('agui-chat').setAttribute('lang', 'de-AT')")
            await expect(page.page.get_by_role("textbox", name="Nachricht")).to_be_visible()
            await page.evaluate("document.querySelector('agui-chat').texts = { send: 'Ab die Post' }")
            await expect(page.button("Ab die Post")).to_be_visible()
            assert await panel.evaluate("(it) => getComputedStyle(it).direction") == "ltr"


# --- pages come and go


async def test_an_answer_goes_on_over_a_reload_and_another_page(browser: Browser, tmp_path: Path) -> None:
    clock = MovableClock(time.time())
    async with neighbours(tmp_path, [SLOW], clock=clock) as (site, gateway), somebody(browser) as person:
        site.page(TAG.replace("assistant", "slow"))
        site.page(TAG.replace("assistant", "slow"), path="/other")
        async with visit(person, site.origin) as page:
            await page.open()
            await page.say("Talk")
            await tell(clock, 100)
            await expect(page.answers).to_have_text([WORDS[:100].strip()])
            await page.page.goto(f"{site.origin}/other")
            await expect(page.answers).to_have_text([WORDS[:100].strip()])
            await tell(clock, 100)
            await expect(page.answers).to_have_text([WORDS[:200].strip()])
            await page.page.reload()
            await tell(clock, len(WORDS))
            await expect(page.answers).to_have_text([WORDS])
            await page.expect_idle()
        [thread] = (await gateway.client.get("/threads"))["threads"]
        messages = (await gateway.client.get(f"/threads/{thread['id']}/messages"))["messages"]

    assert [message["role"] for message in messages] == ["user", "assistant"]
    assert len(page.requests) == 1


async def test_an_answer_that_comes_while_the_panel_is_closed_is_counted(browser: Browser, tmp_path: Path) -> None:
    clock = MovableClock(time.time())
    async with neighbours(tmp_path, [SLOW], clock=clock) as (site, _), somebody(browser) as person:
        site.page(TAG.replace("assistant", "slow"))
        async with visit(person, site.origin) as page:
            await page.open()
            await page.say("Talk")
            await tell(clock, 20)
            await expect(page.answers).to_contain_text("word1")
            await page.page.keyboard.press("Escape")
            await expect(page.panel).to_have_count(0)
            await expect(page.launcher).to_be_focused()
            await tell(clock, len(WORDS))
            await expect(page.button("Open the chat. 1 new answer")).to_be_visible()
            await page.page.reload()
            await page.button("Open the chat. 1 new answer").click()
            await expect(page.answers).to_have_text([WORDS])
            await expect(page.button("Close the chat").first).to_be_visible()
            counts = [detail["count"] for name, detail in await page.heard() if name == "unread"]

    assert counts == [1, 0]


async def test_a_panel_that_is_open_at_once_stays_closed_once_it_was_closed(browser: Browser, tmp_path: Path) -> None:
    async with neighbours(tmp_path, [ECHO]) as (site, _), somebody(browser) as person:
        site.page(TAG.replace("data-agent", "data-open data-agent"))
        async with visit(person, site.origin) as page:
            await expect(page.panel).to_be_visible()
            await expect(page.page.locator("body")).to_be_focused()  # nobody asked for it: it takes no focus
            await page.launcher.click()
            await page.page.reload()
            await expect(page.launcher).to_have_attribute("aria-expanded", "false")
            await expect(page.panel).to_have_count(0)


async def test_another_tab_follows_live(browser: Browser, tmp_path: Path) -> None:
    async with neighbours(tmp_path, [ECHO]) as (site, _), somebody(browser) as person:
        site.page(TAG.replace("assistant", "echo"))
        async with visit(person, site.origin) as one:
            await one.open()
            await one.ask("first")
            async with visit(person, site.origin) as other:
                await other.open()
                await expect(other.answers).to_have_text(["You said: first"])
                await other.ask("second")
                await expect(one.answers).to_have_text(["You said: first", "You said: second"])


async def test_a_tab_that_cannot_hear_of_others_follows_when_it_is_looked_at(browser: Browser, tmp_path: Path) -> None:
    async with neighbours(tmp_path, [ECHO]) as (site, _), somebody(browser) as person:
        await person.add_init_script("delete window.BroadcastChannel;")
        site.page(TAG.replace("assistant", "echo"))
        async with visit(person, site.origin) as one:
            await one.page.clock.install()
            await one.page.reload()
            await one.open()
            await one.ask("first")
            async with visit(person, site.origin) as other:
                await other.open()
                await expect(other.answers).to_have_text(["You said: first"])
                await other.ask("second")
            await expect(one.answers).to_have_count(1)
            await one.page.clock.fast_forward(10_000)
            await one.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
            await expect(one.answers).to_have_text(["You said: first", "You said: second"])


# --- everybody can use it


async def test_the_keyboard_reaches_everything_and_gets_back(browser: Browser, tmp_path: Path) -> None:
    async with neighbours(tmp_path, [ECHO]) as (site, _), somebody(browser) as person:
        site.page(TAG.replace("assistant", "echo"))
        async with visit(person, site.origin) as page:
            await page.launcher.focus()
            await page.page.keyboard.press("Enter")
            await expect(page.composer).to_be_focused()
            await page.page.keyboard.type("Hello")
            await page.page.keyboard.press("Enter")
            await expect(page.answers).to_have_text(["You said: Hello"])
            await page.page.keyboard.press("Escape")
            await expect(page.panel).to_have_count(0)
            await expect(page.launcher).to_be_focused()


async def test_the_panel_has_the_keyboard_also_where_no_frame_is_painted(browser: Browser, tmp_path: Path) -> None:
    async with neighbours(tmp_path, [ECHO]) as (site, _), somebody(browser) as person:
        await person.add_init_script("window.requestAnimationFrame = () => 0;")
        site.page(TAG.replace("assistant", "echo"))
        async with visit(person, site.origin) as page:
            for _ in range(2):
                await page.launcher.press("Enter")
                inside = "document.activeElement.shadowRoot.activeElement.getAttribute('aria-label')"
                await page.until(f"document.activeElement.localName === 'agui-chat' && {inside} === 'Message'")
                await page.page.keyboard.press("Escape")
                await expect(page.panel).to_have_count(0)


async def test_on_a_phone_it_is_a_sheet_that_keeps_the_focus(browser: Browser, tmp_path: Path) -> None:
    async with neighbours(tmp_path, [ECHO]) as (site, _), somebody(browser, size=PHONE) as person:
        site.page(TAG.replace("assistant", "echo"), body='<a href="#words">A link of the page</a>')
        async with visit(person, site.origin) as page:
            await page.launcher.click()
            box = await page.panel.bounding_box()
            assert box == {"x": 0, "y": 0, "width": PHONE[0], "height": PHONE[1]}
            places = set()
            for _ in range(12):
                await page.page.keyboard.press("Tab")
                places.add(await page.evaluate("document.activeElement.tagName"))
            assert places <= {"AGUI-CHAT", "BODY"}  # never the link
            await page.page.keyboard.press("Escape")
            await expect(page.launcher).to_be_focused()


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
async def test_escape_ends_what_one_is_at_before_it_closes_the_panel(
    browser: Browser, tmp_path: Path, size: tuple[int, int]
) -> None:
    async with neighbours(tmp_path) as (site, _), somebody(browser, size=size) as person:
        site.page(TAG)
        async with visit(person, site.origin) as page:
            await page.launcher.click()
            await page.ask("Hello")
            await page.questions.hover()
            await page.button("Edit").click()
            await expect(page.page.get_by_label("Edit your message")).to_be_focused()
            await page.page.keyboard.press("Escape")
            await expect(page.button("Edit")).to_be_focused()
            await page.say("Refund order 1234, 20 dollars")
            reason = page.button(re.compile("^Deny with a reason"))
            await reason.click()
            await expect(page.page.get_by_label("Reason")).to_be_focused()
            await page.page.keyboard.press("Escape")
            await expect(reason).to_be_focused()
            await page.page.keyboard.press("Escape")
            await expect(page.panel).to_have_count(0)


async def test_at_400_percent_most_of_the_window_is_there_to_read_in(browser: Browser, tmp_path: Path) -> None:
    async with neighbours(tmp_path, [ECHO]) as (site, _), somebody(browser, size=(320, 256)) as person:
        site.page(TAG.replace("assistant", "echo"))
        async with visit(person, site.origin) as page:
            await page.launcher.click()
            await page.ask("Hello")
            await expect(page.composer).to_be_in_viewport(ratio=1)
            room = await page.conversation.bounding_box()
            assert room is not None
            assert room["height"] > 256 / 2
            await page.expect_no_sideways_scrolling()


@pytest.mark.thorough
@pytest.mark.parametrize("size", [DESKTOP, PHONE])
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_nothing(browser: Browser, tmp_path: Path, size: tuple[int, int], scheme: str) -> None:
    bypass = {"bypass_csp": True}  # for axe, which is no part of the page
    async with (
        neighbours(tmp_path) as (site, _),
        somebody(browser, size=size, color_scheme=scheme, **bypass) as person,
    ):
        site.style = ":root { color-scheme: light dark }"
        site.page(TAG.replace("data-agent", 'data-suggestions="One|Two" data-agent'))
        async with visit(person, site.origin) as page:
            await page.expect_accessible("closed")
            await page.launcher.click()
            await page.expect_accessible("empty")
            await page.ask("What was the population of Seattle in 2023?")
            await page.say("Refund order 1234, 20 dollars")
            await expect(page.button("Approve")).to_be_visible()
            await page.expect_accessible("an answer and an approval")
            await page.button("Show the conversations").click()
            row = page.panel.get_by_role("navigation").get_by_role("listitem")
            await row.hover()
            await page.button(re.compile("^Delete")).click()
            await page.expect_accessible("a deletion")
            await page.button("Cancel").click()
            await row.hover()
            await page.button(re.compile("^Rename")).click()
            await page.expect_accessible("a new title")
            await page.page.keyboard.press("Escape")
            await page.expect_accessible("earlier conversations")


# --- the sample shop


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1440, 900), PHONE, (320, 700)], ids=["desktop", "phone", "small phone"])
async def test_the_sample_shop_is_accessible_with_its_cart_and_its_chat(
    browser: Browser, tmp_path: Path, size: tuple[int, int], scheme: str
) -> None:
    async with (
        local_gateway(tmp_path, [DEMONSTRATION], page=built_page()) as gateway,
        somebody(browser, size=size, color_scheme=scheme, bypass_csp=True) as person,  # for axe, as above
        visit(person, f"{gateway.client.base_url}/shop") as page,
    ):
        await page.button("Add to cart: Enamel mug").click()
        await page.page.locator("#cart-button").click()
        await page.expect_no_sideways_scrolling()
        await page.expect_accessible("the shop with its cart")
        await page.launcher.click()
        await page.expect_idle()
        await page.expect_accessible("the shop with the chat")


async def test_the_sample_shop_works_with_the_demonstration(browser: Browser, tmp_path: Path) -> None:
    async with (
        local_gateway(tmp_path, [DEMONSTRATION], page=built_page()) as gateway,
        somebody(browser) as person,
        visit(person, f"{gateway.client.base_url}/shop") as page,
    ):
        await page.page.get_by_role("button", name="Ask about our things").click()
        await page.ask("Put two enamel mugs into my cart")
        await expect(page.page.locator("#cart-count")).to_have_text("2")
        await page.ask("Show me the walnut tray")
        await expect(page.page.locator(".good.shown h2")).to_have_text("Walnut tray")
        await page.ask("Filter the products: tea, at most 20 euros")
        await expect(page.page.locator(".good:visible")).to_have_count(2)
        await page.say("Checkout")
        await page.button("Yes").click()
        await expect(page.answers.last).to_contain_text("Ordered 2 things for € 36.")
        await expect(page.page.locator("#cart-count")).to_have_text("0")
        await expect(page.page.locator("#heard")).to_contain_text("run-finished")
