"""A website of somebody else with the widget on its pages, and the people who come there, for tests in a browser.

The site is served from another origin than the gateway, under a policy that allows the gateway's script and connections
and nothing else, with Trusted Types: what the widget could not do there, it could not do anywhere.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Locator, expect
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gateway.clock import Clock
from tests.asgi_server import serving
from tests.page_browser import DEADLINE_MILLISECONDS, DEMONSTRATION, DESKTOP, PHONE, Screen, built_page, paced
from tests.running_gateway import LocalGateway, agent, local_gateway, scripted

ECHO = agent(
    "echo", scripted(rules=[{"when": {"last_user_contains": ""}, "response": [{"text": "You said: {{user}}"}]}])
)
WORDS = " ".join(f"word{number}" for number in range(150))
SLOW = agent("slow", paced(WORDS), on_disconnect="continue")
TAG = '<script type="module" src="{gateway}/widget.js" data-agent="assistant"></script>'


class Site:
    """A host's web server: pages and scripts by path, all under its strict policy."""

    def __init__(self) -> None:
        self.pages: dict[str, str] = {}
        self.scripts: dict[str, str] = {}
        self.style = ""
        self.policy = ""  # directives more
        self.gateway = ""
        self.origin = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = Request(scope).url.path
        if path in self.scripts:
            answer = Response(self.scripts[path], media_type="text/javascript")
        elif path == "/style.css":
            answer = Response(self.style, media_type="text/css")
        elif path in self.pages:
            policy = (
                f"default-src 'none'; script-src {self.gateway} {self.origin}; connect-src {self.gateway};"
                f" style-src {self.origin}; require-trusted-types-for 'script'; trusted-types 'none'; {self.policy}"
            )
            answer = Response(self.pages[path], media_type="text/html", headers={"content-security-policy": policy})
        else:
            answer = Response(status_code=204 if path == "/favicon.ico" else 404)
        await answer(scope, receive, send)

    def page(self, *tags: str, path: str = "/", language: str = "en", body: str = "") -> None:
        """Serve a page with these tags; `{gateway}` in them is the gateway's address."""
        shown = "".join(tag.replace("{gateway}", self.gateway) for tag in tags)
        self.pages[path] = (
            f'<!doctype html><html lang="{language}"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1"><title>A host</title>'
            '<link rel="stylesheet" href="/style.css"></head>'
            f"<body><main><h1>A host</h1><p id=words>Some words.</p>{body}</main>{shown}</body></html>"
        )

    def script(self, path: str, text: str) -> str:
        """Serve a script; its tag."""
        self.scripts[path] = text
        return f'<script type="module" src="{path}"></script>'


@dataclass(slots=True)
class Visit(Screen):
    """A host page that is open in a browser."""

    requests: list[dict[str, Any]] = field(default_factory=list)

    @property
    def launcher(self) -> Locator:
        return self.page.get_by_role("button", name=re.compile("^(Open|Close) the chat")).first

    @property
    def panel(self) -> Locator:
        return self.page.get_by_role("dialog", name="Chat")

    async def open(self) -> None:
        await self.launcher.click()
        await expect(self.composer).to_be_focused()

    async def heard(self) -> list[list[Any]]:
        """The chat's events that the page heard, each its name and its detail."""
        events: list[list[Any]] = await self.evaluate("window.heard")
        return events


LISTEN = """
    window.heard = [];
    for (const name of ["ready", "message", "run-started", "run-finished", "tool-call", "state", "error", "open",
                        "close", "unread", "thread"])
        document.addEventListener(`agui-chat:${name}`, (event) => window.heard.push([name, event.detail]));
"""
WATCH = """
    window.seenViolations = [];
    document.addEventListener("securitypolicyviolation", ({ effectiveDirective, blockedURI, sample }) =>
        window.seenViolations.push(`${effectiveDirective} ${blockedURI} ${sample}`));
"""


@contextlib.asynccontextmanager
async def neighbours(
    tmp_path: Path,
    agents: Sequence[Mapping[str, Any]] = (DEMONSTRATION,),
    *,
    clock: Clock | None = None,
    **server: Any,
) -> AsyncGenerator[tuple[Site, LocalGateway]]:
    """A site, and a gateway that lets it in."""
    site = Site()
    async with serving(site) as port:
        site.origin = f"http://127.0.0.1:{port}"
        rules = {"cors_origins": [site.origin], "drain_seconds": 0, **server}
        rules = json.loads(json.dumps(rules).replace("SITE", site.origin))
        async with local_gateway(tmp_path, agents, clock=clock, page=built_page(), server=rules) as gateway:
            site.gateway = gateway.client.base_url
            site.page(TAG)
            yield site, gateway


@contextlib.asynccontextmanager
async def somebody(browser: Browser, *, size: tuple[int, int] = DESKTOP, **more: Any) -> AsyncGenerator[BrowserContext]:
    """A person with a browser of their own: storage, tabs."""
    context = await browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        has_touch=size == PHONE,
        reduced_motion="reduce",
        **{"locale": "en-US", "color_scheme": "light", **more},
    )
    context.set_default_timeout(DEADLINE_MILLISECONDS)
    await context.add_init_script(WATCH + LISTEN)
    try:
        yield context
    finally:
        await context.close()


@contextlib.asynccontextmanager
async def visit(context: BrowserContext, url: str, expected: str = "") -> AsyncGenerator[Visit]:
    """A page of theirs. What it complains about fails the test, but for what fits `expected`; so does what its policy
    stopped."""
    page = await context.new_page()
    shown = Visit(page)
    page.on("console", lambda message: _complain(message, shown.complaints))
    page.on("pageerror", lambda error: shown.complaints.append(str(error)))
    page.on("request", lambda request: _note(request, shown.requests))
    await page.goto(url)
    yield shown
    assert await shown.violations() == []
    assert [text for text in shown.complaints if not (expected and re.search(expected, text))] == []


def _complain(message: ConsoleMessage, complaints: list[str]) -> None:
    if message.type in ("error", "warning"):
        complaints.append(message.text)


def _note(request: Any, requests: list[dict[str, Any]]) -> None:
    if request.method == "POST" and request.url.endswith("/run"):
        requests.append(json.loads(request.post_data or "{}"))
