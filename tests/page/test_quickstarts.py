"""The quick starts that end in a browser: their files make the page that they promise."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, Dialog, Page, expect
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from tests.agui_client import find_node
from tests.asgi_server import serving
from tests.docs.test_snippets import no_shop_is_left as no_shop_is_left
from tests.documentation import ROOT, example
from tests.example_gateway import ADDRESS, example_gateway
from tests.page_browser import DEADLINE_MILLISECONDS, built_page
from tests.running_gateway import DEADLINE_SECONDS, LocalGateway

pytestmark = pytest.mark.asyncio(loop_scope="session")

ANSWER = "3,519,000"
WEB_DEMO = ROOT / "web-demo"


@asynccontextmanager
async def opened(browser: Browser, url: str) -> AsyncGenerator[Page]:
    """The page in a browser window of its own."""
    context = await browser.new_context(locale="en-US", reduced_motion="reduce")
    context.set_default_timeout(DEADLINE_MILLISECONDS)
    try:
        page = await context.new_page()
        await page.goto(url)
        yield page
    finally:
        await context.close()


async def test_visitors_of_the_website_chat_and_find_their_own_words_again(browser: Browser, tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    async with serving(Starlette(routes=[Mount("/", StaticFiles(directory=site, html=True))])) as port:
        origin = f"http://127.0.0.1:{port}"
        origins, configuration = {"http://127.0.0.1:8080": origin}, "website/gateway.yaml"
        async with example_gateway(configuration, tmp_path, origins, page=built_page()) as gateway:
            html = example("website/site/index.html").replace(ADDRESS, gateway.client.base_url)
            (site / "index.html").write_text(html, "utf-8")
            async with opened(browser, origin) as page:
                await page.get_by_role("button", name=re.compile("^Open the chat")).click()
                await page.get_by_role("textbox").fill("What was the population of Seattle in 2023?")
                await page.keyboard.press("Enter")
                await expect(page.get_by_text(ANSWER).first).to_be_visible()
                await page.reload()
                await expect(page.get_by_text(ANSWER).first).to_be_visible()
            async with opened(browser, origin) as another:
                await another.get_by_role("button", name=re.compile("^Open the chat")).click()
                await expect(another.get_by_role("textbox")).to_be_visible()
                await expect(another.get_by_text(ANSWER)).to_have_count(0)


async def built(directory: Path, gateway: LocalGateway) -> Path:
    """The folder of the page's files as Vite makes it."""
    source = directory / "page"
    source.mkdir()
    (source / "index.html").write_text(example("http-agent/page/index.html"), "utf-8")
    script = example("http-agent/page/main.js").replace(ADDRESS, gateway.client.base_url)
    (source / "main.js").write_text(script, "utf-8")
    (source / "node_modules").symlink_to(WEB_DEMO / "node_modules")
    vite = WEB_DEMO / "node_modules" / "vite" / "bin" / "vite.js"
    process = await asyncio.create_subprocess_exec(
        str(find_node()), str(vite), "build", "--logLevel=error", "--minify=false", cwd=source
    )
    async with asyncio.timeout(3 * DEADLINE_SECONDS):
        assert await process.wait() == 0
    return source / "dist"


@pytest.mark.usefixtures("no_shop_is_left")
@pytest.mark.skipif(not (WEB_DEMO / "node_modules" / "vite").exists(), reason="web-demo/ is not set up: make page")
async def test_the_page_has_a_frontend_tool_and_an_approval(browser: Browser, tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    questions: list[str] = []

    async def agree(dialog: Dialog) -> None:
        questions.append(dialog.message)
        await dialog.accept()

    async with serving(Starlette(routes=[Mount("/", StaticFiles(directory=site, html=True))])) as port:
        origin = f"http://127.0.0.1:{port}"
        async with example_gateway("http-agent/gateway.yaml", tmp_path, {"http://127.0.0.1:5173": origin}) as gateway:
            shutil.copytree(await built(tmp_path, gateway), site, dirs_exist_ok=True)
            async with opened(browser, origin) as page:
                page.on("dialog", agree)
                await page.get_by_label("Message").fill("Set the background color to lightblue")
                await page.keyboard.press("Enter")
                await expect(page.locator("body")).to_have_css("background-color", "rgb(173, 216, 230)")
                await expect(page.get_by_role("button")).to_be_enabled()
                await page.get_by_label("Message").fill("Refund 20 of order 1234")
                await page.keyboard.press("Enter")
                await expect(page.locator("pre")).to_contain_text("Refunded 20.0 of order 1234")
    assert len(questions) == 1
