"""The page of examples/assistant-ui in a browser: text, approvals, and an approval after a reload."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Route, expect

from tests.front_end_pages import REFUNDING, bundled_pages
from tests.page_browser import Screen, screen
from tests.running_gateway import GatewayClient, gateway_process, write_configuration

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]


@contextlib.asynccontextmanager
async def chat(browser: Browser, directory: Path) -> AsyncGenerator[tuple[Screen, GatewayClient]]:
    async with (
        gateway_process(write_configuration(directory, [REFUNDING])) as gateway,
        screen(
            browser,
            f"{gateway.client.base_url}/front_ends/assistant-ui?thread=t1",
            files=bundled_pages(),
            expected=["404"],  # there is no such thread yet
        ) as shown,
    ):
        yield shown, gateway.client


async def test_a_question_is_answered(browser: Browser, tmp_path: Path) -> None:
    async with chat(browser, tmp_path) as (shown, _):
        await shown.say("hello")
        await expect(shown.page.get_by_text("I heard: hello")).to_be_visible()
        await shown.say("hello again")
        await expect(shown.page.get_by_text("I heard: hello again")).to_be_visible()


async def test_nothing_can_be_said_before_the_conversation_is_there(browser: Browser, tmp_path: Path) -> None:
    answer = asyncio.Event()

    async def once_asked_for(route: Route) -> None:
        await answer.wait()
        await route.continue_()

    async with chat(browser, tmp_path) as (shown, gateway):
        await shown.page.route("**/threads/t1/messages?*", once_asked_for)
        async with shown.page.expect_request("**/threads/t1/messages?*"):
            await shown.page.reload(wait_until="domcontentloaded")
        await expect(shown.composer).to_be_hidden()
        answer.set()
        await shown.say("hello")
        await expect(shown.page.get_by_text("I heard: hello")).to_be_visible()
        page = await gateway.get("/threads/t1/messages")
    assert [message["role"] for message in page["messages"]] == ["user", "assistant"]


@pytest.mark.parametrize("reload", [False, True], ids=["at once", "after a reload"])
@pytest.mark.parametrize(("answer", "told"), [("Approve", '{"orderId":"1234"'), ("Deny", "The user denied this call")])
async def test_an_approval_is_answered(browser: Browser, tmp_path: Path, answer: str, told: str, reload: bool) -> None:
    async with chat(browser, tmp_path) as (shown, gateway):
        await shown.say("refund it")
        await expect(shown.button(answer)).to_be_visible()
        if reload:
            await shown.page.reload()
        await shown.button(answer).click()
        await expect(shown.page.get_by_text(f"It said: {told}")).to_be_visible()
        page = await gateway.get("/threads/t1/messages")
    assert [message["role"] for message in page["messages"]] == ["user", "assistant", "tool", "assistant"]
