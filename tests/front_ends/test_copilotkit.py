"""The page of examples/copilotkit in a browser, with its runtime: reloads, approvals, suggestions."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Locator, expect

from tests.front_end_pages import REFUNDING, bundled_pages, copilotkit_runtime, type_complaints
from tests.page_browser import Screen, screen
from tests.running_gateway import GatewayClient, gateway_process, write_configuration

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

# the runtime with HttpAgent 0.0.59, and with the subclass of 1.0.0
RUNTIMES = ("runtime", "runtime-1.0.0")


@contextlib.asynccontextmanager
async def chat(
    browser: Browser, directory: Path, runtime: str = "runtime", query: str = ""
) -> AsyncGenerator[tuple[Screen, GatewayClient]]:
    async with (
        gateway_process(write_configuration(directory, [REFUNDING])) as gateway,
        copilotkit_runtime(gateway.client.base_url, runtime) as address,
        screen(browser, f"{address}/front_ends/copilotkit?thread=t1{query}", files=bundled_pages()) as shown,
    ):
        yield shown, gateway.client


async def say(shown: Screen, text: str) -> None:
    """Say it once the page has its agent and the conversation: what is said before is lost, or stays unsent."""
    await shown.page.wait_for_load_state("networkidle")
    await shown.page.get_by_role("textbox").fill(text)
    await shown.page.get_by_role("textbox").press("Enter")


def approval(shown: Screen) -> Locator:
    return shown.page.get_by_role("region", name="Approval")


async def results(gateway: GatewayClient) -> list[str]:
    """What the thread's tools gave."""
    page = await gateway.get("/threads/t1/messages")
    return [message["content"] for message in page["messages"] if message["role"] == "tool"]


async def test_the_documented_code_fits_the_real_packages() -> None:
    assert type_complaints() == ""


@pytest.mark.parametrize("runtime", RUNTIMES)
async def test_a_conversation_is_there_again_after_a_reload_and_goes_on(
    browser: Browser, tmp_path: Path, runtime: str
) -> None:
    async with chat(browser, tmp_path, runtime) as (shown, gateway):
        await say(shown, "hello")
        await expect(shown.page.get_by_text("I heard: hello")).to_be_visible()
        await shown.page.reload()
        await expect(shown.page.get_by_text("I heard: hello")).to_be_visible()
        await say(shown, "more")
        await expect(shown.page.get_by_text("I heard: more")).to_be_visible()
        page = await gateway.get("/threads/t1/messages")
    assert [message["content"] for message in page["messages"]] == ["hello", "I heard: hello", "more", "I heard: more"]


async def test_an_answer_that_is_under_way_is_shown_to_its_end_after_a_reload(browser: Browser, tmp_path: Path) -> None:
    async with chat(browser, tmp_path) as (shown, _):
        await say(shown, "slowly")
        await expect(shown.page.get_by_text("One")).to_be_visible()
        await shown.page.reload()
        await expect(shown.page.get_by_text("One word after the other.")).to_be_visible()


async def test_a_conversation_outlives_the_runtime(browser: Browser, tmp_path: Path) -> None:
    async with gateway_process(write_configuration(tmp_path, [REFUNDING])) as gateway:
        await gateway.client.run("assistant", {"threadId": "t1", "runId": "r1", "messages": [
            {"id": "m1", "role": "user", "content": "hello"}]})  # fmt: skip
        async with (
            copilotkit_runtime(gateway.client.base_url) as address,
            screen(browser, f"{address}/front_ends/copilotkit?thread=t1", files=bundled_pages()) as shown,
        ):
            await expect(shown.page.get_by_text("I heard: hello")).to_be_visible()


@pytest.mark.parametrize(
    ("runtime", "reload"),
    [("runtime", False), ("runtime", True), ("runtime-1.0.0", True)],
    ids=["at once", "after a reload", "after a reload, with 1.0.0"],
)
@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("Approve", '"amount":99'),
        ("Edit", '"amount":10'),
        ("Deny", "The user denied this call: not today."),
        ("Cancel", "The user denied this call"),
    ],
    ids=["approve", "edit", "deny", "cancel"],
)
async def test_an_approval_is_answered(
    browser: Browser, tmp_path: Path, answer: str, told: str, runtime: str, reload: bool
) -> None:
    async with chat(browser, tmp_path, runtime) as (shown, gateway):
        await say(shown, "refund it")
        await expect(approval(shown)).to_be_visible()
        if reload:
            await shown.page.reload()
        await approval(shown).get_by_role("button", name=answer).click()
        await expect(shown.page.get_by_text("It said:")).to_be_visible()
        await expect(approval(shown)).to_have_count(0)
        [result] = await results(gateway)
        assert told in result

        await say(shown, "thanks")
        await expect(shown.page.get_by_text("I heard: thanks")).to_be_visible()


async def test_suggestions_are_shown_and_their_threads_are_listed_nowhere(browser: Browser, tmp_path: Path) -> None:
    async with chat(browser, tmp_path, query="&suggest") as (shown, gateway):
        await expect(shown.page.get_by_text("Ask about tents")).to_be_visible()
        assert (await gateway.get("/threads"))["threads"] == []
        await say(shown, "hello")
        await expect(shown.page.get_by_text("I heard: hello")).to_be_visible()
        await expect(shown.page.get_by_text("Ask about tents")).to_be_visible()
        page = await gateway.get("/threads")
    assert [thread["id"] for thread in page["threads"]] == ["t1"]
