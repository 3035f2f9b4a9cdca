"""The page speaks the language of whoever looks at it, from right to left where that is so, and English to others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.page_browser import DEMONSTRATION, DESKTOP, PHONE, built_page, screen
from tests.running_gateway import agent, local_gateway, run_body, scripted

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.thorough]

ECHO = agent("echo", scripted([{"text": "Well."}]), name="Echo")
# What the page says in each language of its own: the widget's texts, and the page's.
LANGUAGES = {
    "ar": ("اكتب رسالة", "حجز طاولة"),
    "de-AT": ("Nachricht schreiben", "Tisch reservieren"),
    "es-MX": ("Escriba un mensaje", "Reservar una mesa"),
    "fr": ("Écrivez un message", "Réserver une table"),
    "he": ("כתיבת הודעה", "הזמנת שולחן"),
    "ja": ("メッセージ", "テーブルを予約"),
    "pt-BR": ("mensagem", "Reservar uma mesa"),
    "zh-TW": ("消息", "预订餐桌"),
    "en-GB": ("Write a message", "Book a table"),
    "fi": ("Write a message", "Book a table"),
}


@pytest.mark.parametrize("language", LANGUAGES)
async def test_the_page_speaks_the_browser_s_language_or_english(
    browser: Browser, tmp_path: Path, language: str
) -> None:
    placeholder, form = LANGUAGES[language]
    async with (
        local_gateway(tmp_path, [ECHO], page=built_page()) as gateway,
        screen(browser, f"{gateway.client.base_url}/", context={"locale": language}) as shown,
    ):
        await expect(shown.page.get_by_placeholder(re.compile(placeholder))).to_be_visible()
        await expect(shown.page.get_by_role("heading", name=form)).to_be_visible()
        spoken = {"fi": "en", "zh-TW": "zh-Hans"}.get(language, language)
        await expect(shown.page.locator("html")).to_have_attribute("lang", spoken)
        direction = "rtl" if language in ("ar", "he") else "ltr"
        assert await shown.evaluate("getComputedStyle(document.body).direction") == direction
        await shown.expect_no_sideways_scrolling()


async def test_everything_that_the_page_itself_says_is_said_in_that_language(browser: Browser, tmp_path: Path) -> None:
    async with (
        local_gateway(tmp_path, [DEMONSTRATION, ECHO], page=built_page()) as gateway,
        screen(browser, f"{gateway.client.base_url}/", context={"locale": "de"}) as shown,
    ):
        page, button = shown.page, shown.button
        suggestions = page.get_by_role("list", name="Vorschläge").get_by_role("button")
        await expect(suggestions).to_have_count(6)
        await expect(suggestions.filter(has_text="Ein Werkzeug, das Ihre Zustimmung braucht")).to_be_visible()
        await expect(page.get_by_role("combobox", name="Agent")).to_be_visible()
        await expect(page.get_by_text("Noch keine Unterhaltungen")).to_be_visible()
        await button("Demo-Modell, kein LLM").click()
        explained = page.get_by_role("dialog", name="Ein echtes Modell dahinter setzen")
        await expect(explained).to_contain_text("Prüfen Sie sie dann und starten Sie damit:")
        await expect(explained).to_contain_text("agui-gateway config check gateway.yaml")
        await page.keyboard.press("Escape")

        form = page.get_by_role("form", name="Tisch reservieren")
        await form.get_by_label("Name").fill("Ada")
        await form.get_by_label("Datum").fill("2027-03-01")
        await button("Reservieren").click()
        await expect(form.get_by_role("status")).to_contain_text("Für 1 am 1. März 2027 reserviert.")
        message = page.get_by_role("textbox", name="Nachricht", exact=True)

        async def say(text: str) -> None:
            await expect(button("Senden")).to_be_visible()  # while an answer is under way nothing else is sent
            await expect(page.get_by_role("log", name="Unterhaltung")).to_have_attribute("aria-busy", "false")
            await message.fill(text)
            await message.press("Enter")

        await say('Book a table for 4 guests on 2027-03-02 as "Grace"')
        await page.get_by_role("group", name=re.compile("steht schon etwas anderes")).get_by_text("Nein").click()
        await expect(button("Neu antworten")).to_be_visible()

        await say('Ask me to confirm "Ship it?"')
        await page.get_by_role("dialog", name="Ship it?").get_by_role("button", name="Ja").click()
        await say("Refund $20 for order 1234")
        await expect(page.get_by_role("group", name="Zustimmung nötig")).to_contain_text(
            "„refund“ läuft nur, wenn Sie zustimmen."
        )
        rows = page.get_by_role("navigation", name="Unterhaltungen").get_by_role("listitem")
        await rows.first.hover()
        await button(re.compile("^Löschen: ")).click()
        question = page.get_by_role("group", name=re.compile("endgültig löschen"))
        await expect(question).to_be_visible()
        await shown.expect_accessible("German")
        await question.get_by_role("button", name="Abbrechen").click()
        words = await page.locator("body").inner_text()
        assert not re.search(r"\b(Show|Guests|Conversation|Message|Approv|Deny|Delete|Theme)\b", words)


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
async def test_from_right_to_left_it_is_as_usable(browser: Browser, tmp_path: Path, size: tuple[int, int]) -> None:
    async with (
        local_gateway(tmp_path, [DEMONSTRATION], page=built_page()) as gateway,
        screen(browser, f"{gateway.client.base_url}/", size=size, context={"locale": "ar"}) as shown,
    ):
        await gateway.client.run("assistant", run_body("What was the population of Seattle in 2023?", thread_id="t"))
        await shown.until("sessionStorage.getItem('agui-thread') !== null")  # of the conversation that it began with
        await shown.evaluate("sessionStorage.setItem('agui-thread', 't')")
        await shown.page.reload()
        await expect(shown.answers.get_by_role("cell").first).to_be_visible()
        await shown.expect_accessible("from right to left")
        await shown.expect_no_sideways_scrolling()
        question = await shown.page.locator(".agui-bubble").bounding_box()
        composer = await shown.page.locator(".agui-composer").bounding_box()
        assert question is not None
        assert composer is not None
        assert question["x"] == pytest.approx(composer["x"], abs=2)  # where a line of Arabic ends


async def test_words_run_their_own_way_and_stand_where_the_page_has_them(browser: Browser, tmp_path: Path) -> None:
    text = "Yes, it is:\n\n- هذا\n- That (there)."
    async with (
        local_gateway(tmp_path, [agent("echo", scripted([{"text": text}]), name="Echo")], page=built_page()) as gateway,
        screen(browser, f"{gateway.client.base_url}/", context={"locale": "ar"}) as shown,
    ):
        area = shown.page.locator(".agui-composer textarea")
        for written, direction in [("", "rtl"), ("Is it so?", "ltr"), ("12: مرحبا", "rtl"), ("Is it so?", "ltr")]:
            await area.fill(written)
            await expect(area).to_have_css("direction", direction)
        await area.press("Enter")
        answer = shown.answers.get_by_role("list")
        await expect(answer).to_have_css("direction", "rtl")
        await expect(answer.get_by_role("listitem").last).to_have_css("text-align", "right")
        await expect(shown.answers.get_by_role("paragraph").first).to_have_css("direction", "ltr")
        row = shown.page.get_by_role("listitem").filter(has=shown.page.locator("[part=thread]"))
        places = [await each.bounding_box() for each in (row, row.locator("[dir=auto]"))]
        assert places[0] is not None
        assert places[1] is not None
        ends = [place["x"] + place["width"] for place in places if place]
        assert ends[0] - ends[1] < 20  # the title is English and begins where all titles begin


async def test_without_its_texts_the_page_speaks_english(browser: Browser, tmp_path: Path) -> None:
    expected = ["texts in de did not come", "ERR_FAILED"]
    async with (
        local_gateway(tmp_path, [ECHO], page=built_page()) as gateway,
        screen(browser, "about:blank", expected=expected, context={"locale": "de"}) as shown,
    ):
        await shown.page.route("**/texts/page/de.json", lambda route: route.abort())
        await shown.page.goto(f"{gateway.client.base_url}/")
        await shown.ask("Hello")
        await expect(shown.answers).to_have_text("Well.")
        await expect(shown.page.locator("html")).to_have_attribute("lang", "en")
        shown.foreign.clear()


async def test_a_key_is_asked_for_in_that_language(browser: Browser, tmp_path: Path) -> None:
    keys = {"api_keys": [{"name": "alice", "key": "a-key-of-alice-0123456789"}]}
    async with (
        local_gateway(tmp_path, [ECHO], page=built_page(), server=keys) as gateway,
        screen(browser, f"{gateway.client.base_url}/", expected=["401"], context={"locale": "de"}) as shown,
    ):
        dialog = shown.page.get_by_role("dialog", name="Dieser Server verlangt einen Schlüssel")
        await dialog.get_by_label("Schlüssel").fill("a wrong one")
        await dialog.get_by_role("button", name="Diesen Schlüssel verwenden").click()
        await expect(dialog.get_by_role("alert")).to_have_text("Der Server kennt diesen Schlüssel nicht.")
        await expect(dialog).to_contain_text("Er wird aufbewahrt, bis Sie diesen Tab schließen.")
        await expect(dialog.get_by_role("button", name="Schlüssel vergessen")).to_be_visible()
