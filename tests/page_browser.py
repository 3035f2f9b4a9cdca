"""The page in a real browser: Chromium, driven by Playwright, before a real gateway.

One browser for all tests of a session (`tests/page/conftest.py`), a context of its own for each: storage, cache and
network are nobody else's. What a page complains about, and what it asks other origins for, fails the test that did not
expect it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack
from urllib.parse import urlsplit

from playwright.async_api import Browser, FilePayload, Locator, Page, Route, async_playwright, expect

from gateway.clock import Clock
from gateway.page import WebPage, page_is_built, read_page
from tests.missing_parts import missing_part
from tests.movable_clock import MovableClock
from tests.running_gateway import DEADLINE_SECONDS, LocalGateway, agent, local_gateway, scripted

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
DESKTOP = (1280, 800)
PHONE = (390, 844)
CLIPBOARD = {"permissions": ["clipboard-read", "clipboard-write"]}
DEADLINE_MILLISECONDS = DEADLINE_SECONDS * 1_000

_AXE = Path(__file__).parents[1] / "web-demo/node_modules/axe-core/axe.min.js"
_BEAT_SECONDS = 1 / 64  # a number whose sums are exact
_LOUD = ("error", "warning")
_EVAL_PROBE = re.compile(r"Content Security Policy.*(?:eval|Function)", re.S)
_WATCH = """
    window.seenNames = [];
    new MutationObserver((changes) => {
        for (const { target } of changes) window.seenNames.push(target.getAttribute("aria-label"));
    }).observe(document, { subtree: true, attributeFilter: ["aria-label"] });
    window.seenViolations = [];
    document.addEventListener("securitypolicyviolation", ({ effectiveDirective, blockedURI }) =>
        window.seenViolations.push(`${effectiveDirective} ${blockedURI}`));
"""
# Colours that are fading in are no colours yet; what turns for ever is not waited for.
_UNTIL_STILL = """
    Promise.all(document.getAnimations()
        .filter((each) => each.effect.getComputedTiming().endTime !== Infinity)
        .map((each) => each.finished.catch(() => undefined))
    ).then(() => undefined)
"""
# The demonstration's agent, that speaks without pauses.
DEMONSTRATION = agent(
    "assistant",
    {"model_provider": "demo", "model_parameters": {"words_per_second": 0}},
    name="Assistant",
    description="Searches the sample documents, adds numbers, keeps a list and refunds orders once a person agrees.",
    tools=[
        {"type": "ListIndexTool"},
        {"type": "IndexMappingTool"},
        {"type": "SearchIndexTool"},
        *(
            {"type": "PythonTool", "name": name, "parameters": {"function": f"gateway.sample_tools:{name}"}, **more}
            for name, more in [
                ("add", {}),
                ("add_to_list", {}),
                ("refund", {"approval": "always", "approvers": "callers"}),
            ]
        ),
    ],
)


@cache
def built_page() -> WebPage:
    """The page as it was built; or as it lies in $PAGE_FILES, to try another build beside it."""
    if elsewhere := os.environ.get("PAGE_FILES"):
        return read_page(Path(elsewhere))
    if not page_is_built():
        missing_part("the page is not built here; 'make page' builds it")
    return read_page()


@contextlib.asynccontextmanager
async def running_browser(names: str = "MAP *.example 127.0.0.1") -> AsyncGenerator[Browser]:
    """Chromium, without a window: the system's, else Playwright's own. Without either, whoever asks is skipped, or
    fails in CI. `names`: how it resolves them; as it is, *.example are pages that are not on this machine, as it seems.
    """
    arguments = [
        "--disable-background-networking",
        f"--host-resolver-rules={names}",
        *(["--no-sandbox"] if os.geteuid() == 0 else []),
    ]
    async with async_playwright() as playwright:
        executable = CHROMIUM or shutil.which(playwright.chromium.executable_path)
        if executable is None:
            missing_part("no Chromium is installed here, nor Playwright's own; the tests of the page need one")
        browser = await playwright.chromium.launch(executable_path=executable, args=arguments)
        expect.set_options(timeout=DEADLINE_MILLISECONDS)
        try:
            yield browser
        finally:
            await browser.close()


@dataclass(slots=True)
class Screen:
    """A page that is open in a browser, as a person has it before them.

    `complaints`: what the console and the page's errors said. `foreign`: requests that left the page's own origin.
    `gateway`: where it runs in this process.
    """

    page: Page
    complaints: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    gateway: LocalGateway | None = None

    # --- what there is to see

    @property
    def conversation(self) -> Locator:
        return self.page.get_by_role("log", name="Conversation")

    @property
    def composer(self) -> Locator:
        return self.page.get_by_role("textbox", name="Message", exact=True)

    @property
    def answers(self) -> Locator:
        return self.page.get_by_test_id("answer")

    @property
    def questions(self) -> Locator:
        return self.page.get_by_test_id("user-message")

    @property
    def banner(self) -> Locator:
        return self.page.locator(".agui-banner")

    @property
    def announcer(self) -> Locator:
        return self.page.get_by_test_id("announcer")

    @property
    def threads(self) -> Locator:
        return self.page.get_by_role("navigation", name="Conversations")

    def button(self, name: str | re.Pattern[str]) -> Locator:
        return self.page.get_by_role("button", name=name, exact=isinstance(name, str))

    def card(self, tool: str) -> Locator:
        """The cards of that tool's calls."""
        named = self.page.locator(".agui-call-name", has_text=re.compile(f"^{re.escape(tool)}$"))
        return self.page.get_by_test_id("tool-card").filter(has=named)

    # --- what is done

    async def say(self, text: str) -> None:
        await self.composer.fill(text)
        await self.composer.press("Enter")

    async def ask(self, text: str) -> None:
        """Say it, and wait for the person's turn."""
        before = await self.questions.count()
        await self.say(text)
        await expect(self.questions).to_have_count(before + 1)
        await self.expect_idle()

    async def expect_idle(self) -> None:
        """It is the person's turn, and nothing is under way."""
        await expect(self.button("Send")).to_be_visible()
        await expect(self.conversation).to_have_attribute("aria-busy", "false")

    async def evaluate(self, script: str, argument: object = None, *, seconds: float = DEADLINE_SECONDS) -> Any:
        async with asyncio.timeout(seconds):
            return await self.page.evaluate(script, argument)

    async def until(self, condition: str, *, seconds: float = DEADLINE_SECONDS) -> None:
        """Wait until that JavaScript expression holds. (Playwright's own way is `eval`, which is forbidden here.)"""
        look = f"new Promise((yes) => {{ (function look() {{ {condition} ? yes() : setTimeout(look, 20) }})() }})"
        await self.evaluate(look, seconds=seconds)

    async def expect_named(self, name: str) -> None:
        """Something has been given that name since this was asked last; it may have had it for a moment only."""
        await self.until(f"window.seenNames.includes({json.dumps(name)})")
        await self.evaluate("void (window.seenNames.length = 0)")

    async def violations(self) -> list[str]:
        """What the page's policy stopped since it was loaded."""
        found: list[str] = await self.page.evaluate("window.seenViolations")
        return found

    async def expect_no_sideways_scrolling(self) -> None:
        assert await self.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0

    async def expect_accessible(self, what: str) -> None:
        """axe-core, with all its rules for WCAG 2.2 AA and good practice, finds nothing."""
        if not _AXE.is_file():
            missing_part("axe-core is not installed here; 'npm ci' in web-demo installs it")
        if not await self.evaluate("'axe' in window"):
            await self.evaluate(_axe_source())
        await self.evaluate(_UNTIL_STILL)
        found = await self.evaluate("axe.run(document).then(({ violations, passes }) => [violations, passes.length])")
        violations, passes = found
        assert passes > 10
        lines = [
            f"{each['id']}: {node['html'][:200]} {node['failureSummary']}"
            for each in violations
            for node in each["nodes"]
        ]
        assert not lines, f"{what}: " + "\n".join(lines)


@cache
def _axe_source() -> str:
    return _AXE.read_text("utf-8")


class ScreenOptions(TypedDict, total=False):
    """How a page is looked at.

    `calm` (True): the person wants no motion. `expected`: patterns of complaints that belong to the test; any other
    fails it, as does any request to another origin. `script`: runs in the page before its own. `context`: Playwright's
    further options of a context. `files`: a folder that the browser finds below `/front_ends/` of every site.
    """

    size: tuple[int, int]
    scheme: Literal["light", "dark"]
    calm: bool
    expected: Sequence[str]
    script: str
    context: Mapping[str, Any]
    files: Path


@contextlib.asynccontextmanager
async def screen(browser: Browser, url: str, **options: Unpack[ScreenOptions]) -> AsyncGenerator[Screen]:
    """The page at `url`, in a context of its own."""
    width, height = options.get("size", DESKTOP)
    context = await browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=options.get("scheme", "light"),
        reduced_motion="reduce" if options.get("calm", True) else "no-preference",
        **{"locale": "en-US", **options.get("context", {})},
    )
    context.set_default_timeout(DEADLINE_MILLISECONDS)
    try:
        await context.add_init_script(_WATCH + options.get("script", ""))
        if (files := options.get("files")) is not None:
            await context.route("**/front_ends/**", partial(_fulfil, files))
        page = await context.new_page()
        shown = Screen(page)
        origin = urlsplit(url).netloc
        page.on("console", lambda message: shown.complaints.append(message.text) if message.type in _LOUD else None)
        page.on("pageerror", lambda error: shown.complaints.append(str(error)))
        context.on("request", lambda request: _note(shown.foreign, request.url, origin))
        await page.goto(url)
        yield shown
        allowed = [_EVAL_PROBE, *map(re.compile, options.get("expected", ()))]
        unexpected = [text for text in shown.complaints if not any(each.search(text) for each in allowed)]
        assert not unexpected, f"the browser complained: {unexpected}"
        assert not shown.foreign, f"the page asked elsewhere: {shown.foreign}"
    finally:
        await context.close()


@contextlib.asynccontextmanager
async def shown_page(
    browser: Browser,
    directory: Path,
    agents: Sequence[Mapping[str, Any]] = (DEMONSTRATION,),
    *,
    clock: Clock | None = None,
    server: Mapping[str, Any] | None = None,
    callers: Mapping[str, Any] | None = None,
    **more: Unpack[ScreenOptions],
) -> AsyncGenerator[Screen]:
    """The page of a gateway in this process that has these agents, ready for the first message."""
    server = {"drain_seconds": 0, **(server or {})}
    async with (
        local_gateway(directory, agents, clock=clock, page=built_page(), server=server, callers=callers) as gateway,
        screen(browser, f"{gateway.client.base_url}/", **more) as shown,
    ):
        shown.gateway = gateway
        await shown.expect_idle()
        yield shown


def paced(text: str) -> dict[str, Any]:
    """A model that says a character of `text` with each beat of a MovableClock, which `tell` moves."""
    return scripted([{"text": text, "chunk_characters": 1, "delta_seconds": _BEAT_SECONDS}])


async def tell(clock: MovableClock, characters: int) -> None:
    """Let a paced model say so many more characters."""
    await clock.until_timer(_BEAT_SECONDS)
    await clock.advance(characters * _BEAT_SECONDS)


async def _fulfil(files: Path, route: Route) -> None:
    """A file of the folder; any other name is an empty page with the script of that name."""
    name = urlsplit(route.request.url).path.rpartition("/front_ends/")[2]
    if (files / name).is_file():
        await route.fulfill(path=files / name)
    else:
        script = f'<!doctype html><main></main><script type="module" src="{name}.js"></script>'
        await route.fulfill(body=script, content_type="text/html")


def _note(foreign: list[str], url: str, origin: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("data", "blob") and parts.netloc != origin:
        foreign.append(url)


def file(name: str, mime_type: str, content: bytes) -> FilePayload:
    """A file for a file chooser."""
    return {"name": name, "mimeType": mime_type, "buffer": content}
