"""The page at `/`: what is served, and what a person does with it in a real browser."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Page, async_playwright, expect

from tests.running_gateway import DEADLINE_SECONDS, GatewayClient, agent, local_gateway, scripted

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
DEMONSTRATION = agent(
    "assistant",
    {"model_provider": "demo"},
    name="Demonstration",
    description="Shows what there is.",
    tools=[
        {"type": "ListIndexTool"},
        {"type": "SearchIndexTool"},
        {"type": "PythonTool", "parameters": {"function": "gateway.sample_tools:add_to_list"}},
        {"type": "PythonTool", "parameters": {"function": "gateway.sample_tools:refund"}, "approval": "always"},
    ],
)
needs_a_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed here; the page needs no other")


# --- over HTTP


class PageReader(HTMLParser):
    """What an HTML page refers to, and what in it a strict policy would stop."""

    def __init__(self) -> None:
        super().__init__()
        self.files: list[str] = []
        self.refused: list[str] = []
        self._in_script = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in_script = tag in ("script", "style")
        for name, value in attrs:
            if name.startswith("on") or name == "style":
                self.refused.append(f"{tag} {name}")
            if name == "src" or (name == "href" and tag == "link"):
                self.files.append(value or "")

    def handle_data(self, data: str) -> None:
        if self._in_script and data.strip():
            self.refused.append(data)


async def test_the_page_and_its_files_are_served_under_a_strict_policy(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [DEMONSTRATION]) as gateway:
        page = await gateway.client.http.get("/")
        reader = PageReader()
        reader.feed(page.text)
        served = {name: await gateway.client.http.get(f"/page/{name}") for name in page_files() if name != "index.html"}
        icon = await gateway.client.http.get("/favicon.ico")
        unknown = await gateway.client.http.get("/page/../application.py")

    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert reader.refused == []
    assert set(reader.files) <= {f"/page/{name}" for name in served}
    for response in (page, *served.values()):
        assert response.status_code == 200, response.url
        policy = dict(
            part.strip().partition(" ")[::2] for part in response.headers["content-security-policy"].split(";")
        )
        assert policy["default-src"] == policy["frame-ancestors"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert "unsafe" not in str(policy)
        assert response.headers["cache-control"] == "no-cache"
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["referrer-policy"] == "no-referrer"
    types = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8"}
    for name, response in served.items():
        assert response.headers["content-type"] == types[name.rpartition(".")[2]]
    assert icon.status_code == 204
    assert unknown.status_code == 404


async def test_modules_import_only_what_is_served() -> None:
    for name in page_files():
        text = files("gateway").joinpath("page_files", name).read_text("utf-8")
        assert "innerHTML" not in text
        for imported in re.findall(r'^import .* from "(.*)";$', text, re.MULTILINE):
            assert imported.removeprefix("/page/") in page_files()


async def test_the_page_is_open_where_keys_are_needed(tmp_path: Path) -> None:
    keys = {"api_keys": [{"name": "alice", "key": "k" * 16}]}
    async with local_gateway(tmp_path, [DEMONSTRATION], server=keys) as gateway:
        statuses = [(await gateway.client.http.get(path)).status_code for path in ("/", "/page/page.js", "/agents")]

    assert statuses == [200, 200, 401]


def page_files() -> list[str]:
    return sorted(each.name for each in files("gateway").joinpath("page_files").iterdir())


# --- in a browser


@dataclass(frozen=True, slots=True)
class Screen:
    """A page that is open in a browser, and what the browser complained about."""

    page: Page
    complaints: list[str]

    async def say(self, text: str) -> None:
        await self.page.get_by_label("Message", exact=True).fill(text)
        await self.page.keyboard.press("Enter")

    async def expect_text(self, text: str) -> None:
        await expect(self.page.get_by_label("Conversation")).to_contain_text(text)

    async def expect_idle(self) -> None:
        await expect(self.page.get_by_role("button", name="Send")).to_be_visible()

    async def messages(self) -> list[str]:
        texts = await self.page.locator("#messages > li").all_inner_texts()
        return [text for text in texts if text]


@contextlib.asynccontextmanager
async def screen(url: str, width: int = 1000) -> AsyncGenerator[Screen]:
    # a profile of its own under a short path: Chromium's sockets have no room for a long one
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        async with async_playwright() as playwright:
            context = await playwright.chromium.launch_persistent_context(
                profile,
                executable_path=CHROMIUM,
                args=["--disable-background-networking", *(["--no-sandbox"] if os.geteuid() == 0 else [])],
                viewport={"width": width, "height": 700},
                color_scheme="light",
            )
            try:
                context.set_default_timeout(DEADLINE_SECONDS * 1000)
                expect.set_options(timeout=DEADLINE_SECONDS * 1000)
                complaints: list[str] = []
                page = await context.new_page()
                page.on("console", lambda message: complaints.append(message.text))
                page.on("pageerror", lambda error: complaints.append(str(error)))
                await page.goto(url)
                await expect(page.locator("#agents option").first).to_be_attached()
                yield Screen(page, complaints)
            finally:
                await context.close()


@needs_a_browser
async def test_a_conversation_with_search_an_approval_a_tool_of_the_page_and_a_reload(tmp_path: Path) -> None:
    async with (
        local_gateway(tmp_path, [DEMONSTRATION]) as gateway,
        screen(gateway.client.base_url, width=375) as browser,
    ):
        page = browser.page
        await page.get_by_role("button", name="population of Seattle").click()
        await expect(page.get_by_role("cell", name="3,519,000")).to_be_visible()

        await browser.expect_idle()
        await browser.say("Refund order 1234, 20 dollars")
        arguments = page.get_by_label("Arguments, which you may change")
        await expect(arguments).to_be_in_viewport()  # and not under the composer
        await arguments.fill("no JSON")
        await page.get_by_role("button", name="Approve").click()
        await arguments.fill('{"order_id": "1234", "amount": 7}')
        await page.get_by_role("button", name="Approve").click()
        await browser.expect_text("refunded")

        await browser.expect_idle()
        await browser.say("Use the dark theme")
        await browser.expect_text("The page is dark now.")
        assert await page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"

        await browser.expect_idle()
        await browser.say("Add milk to my list")
        await expect(page.locator("#state")).to_contain_text("milk")
        await browser.expect_idle()
        before = [text for text in await browser.messages() if "needs your approval" not in text]

        await page.reload()
        await browser.expect_text("Add milk to my list")
        await browser.expect_idle()
        assert await browser.messages() == before
        await expect(page.locator("#state")).to_contain_text("milk")
        assert await page.evaluate("document.documentElement.scrollWidth") == 375
        assert browser.complaints == []


@needs_a_browser
async def test_a_question_that_is_open_is_asked_again_after_a_reload_and_may_be_denied(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [DEMONSTRATION]) as gateway, screen(gateway.client.base_url) as browser:
        await browser.say("Refund order 1234, 20 dollars")
        await expect(browser.page.get_by_role("button", name="Deny")).to_be_visible()
        await browser.page.reload()
        await browser.page.get_by_role("button", name="Deny").click()
        await browser.expect_text("denied")
        await browser.expect_idle()
        await expect(browser.page.get_by_role("button", name="Deny")).to_have_count(0)
        assert browser.complaints == []


@needs_a_browser
async def test_what_fails_or_is_stopped_is_said_and_the_next_message_is_served(tmp_path: Path) -> None:
    model = scripted(
        rules=[
            {"when": {"last_user_contains": "fail"}, "response": [{"text": "Half an "}, {"error": "quota"}]},
            {"when": {"last_user_contains": "hang"}, "response": [{"text": "One moment"}, {"hang": True}]},
            {"when": {"last_user_contains": "odd"}, "response": [{"text": "<img src=x onerror=alert(1)> **bold**"}]},
        ]
    )
    async with (
        local_gateway(tmp_path, [agent("moody", model)], server={"drain_seconds": 0}) as gateway,
        screen(gateway.client.base_url) as browser,
    ):
        await browser.say("fail")
        await browser.expect_text("model_quota")
        await browser.expect_idle()

        await browser.say("hang")
        await browser.expect_text("One moment")
        await browser.say("not yet")  # stays in the composer while a run is under way
        await browser.page.get_by_role("button", name="Stop").click()
        await browser.expect_text("Stopped.")
        await expect(browser.page.get_by_label("Message", exact=True)).to_have_value("not yet")

        await browser.say("odd")
        await browser.expect_text("<img src=x onerror=alert(1)> bold")  # words, not elements
        await browser.expect_idle()

        await browser.say("hang")
        await browser.expect_text("One moment")
        await browser.page.get_by_role("button", name="New thread").click()
        assert await browser.messages() == []
        await browser.say("odd")
        await browser.expect_text("bold")
        await browser.expect_idle()
        assert browser.complaints == []


@needs_a_browser
async def test_a_stream_that_breaks_goes_on_without_losing_a_word(tmp_path: Path) -> None:
    words = " ".join(f"word{number}" for number in range(200))
    model = scripted([{"text": words, "chunk_characters": 5, "delta_seconds": 0.001}])
    async with (
        local_gateway(tmp_path, [agent("talker", model)]) as gateway,
        cutting_proxy(gateway.client, cuts=[3_000, 5_000]) as (address, cut),
        screen(address) as browser,
    ):
        await browser.say("Talk")
        await browser.expect_text("word199")
        await browser.expect_idle()

        assert await browser.messages() == ["Talk", words]
        assert cut == [3_000, 5_000]


@contextlib.asynccontextmanager
async def cutting_proxy(target: GatewayClient, cuts: Sequence[int]) -> AsyncGenerator[tuple[str, list[int]]]:
    """A way to the gateway that breaks: the first streams end after so many bytes, without any goodbye.

    Gives its address, and the cuts that were made.
    """
    port = urlsplit(target.base_url).port
    made: list[int] = []

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream = await asyncio.open_connection("127.0.0.1", port)
        upward = asyncio.create_task(pump(reader, upstream))
        passed, streaming = 0, False
        try:
            while data := await upstream_reader.read(1_000):
                streaming = streaming or b"text/event-stream" in data
                passed += len(data) * streaming
                if len(made) < len(cuts) and passed > cuts[len(made)]:
                    made.append(cuts[len(made)])
                    writer.transport.abort()
                    return
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass  # the browser closes its connections as it likes
        finally:
            upward.cancel()
            upstream.close()
            writer.close()

    async with await asyncio.start_server(relay, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", made
        server.close()


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
