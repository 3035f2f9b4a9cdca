"""What is read on a phone stays where it is: nothing that comes later pushes it away.

https://web.dev/articles/cls: 0.05 in a session's window, without what a browser excuses by what the person did just
before. With it all shifts of a step together are less than what counts as good; only what the keyboard does is the
person's own.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, Route, expect

from tests.host_site import neighbours, somebody, visit
from tests.page_browser import DEMONSTRATION, PHONE, Screen, built_page, shown_page
from tests.running_gateway import local_gateway

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.thorough]

MOST = 0.05
MOST_RIGHT_AFTER_INPUT = 0.1
WATCH = """
    window.shifts = [];
    const note = (entries) => window.shifts.push(...entries.map(({ value, hadRecentInput, sources }) => ({
        value, hadRecentInput, what: sources.map(({ node }) => node?.className ?? node?.nodeName).join(", "),
    })));
    window.shiftsSeen = new PerformanceObserver((list) => note(list.getEntries()));
    window.shiftsSeen.observe({ type: "layout-shift", buffered: true });
    window.takeShifts = async () => {
        for (let frame = 0; frame < 3; frame++) await new Promise((shown) => requestAnimationFrame(shown));
        note(window.shiftsSeen.takeRecords());
        return window.shifts.splice(0);
    };
"""


async def expect_still(screen: Screen, step: str, *, by_hand: bool = False) -> None:
    """Nothing moved since this was asked last. `by_hand`: but for what the person just did."""
    shifts = await screen.evaluate("takeShifts()")
    counted = [each for each in shifts if not (by_hand and each["hadRecentInput"])]
    assert sum(each["value"] for each in counted if not each["hadRecentInput"]) <= MOST, f"{step}: {counted}"
    assert sum(each["value"] for each in counted) <= MOST_RIGHT_AFTER_INPUT, f"{step}: {counted}"


@asynccontextmanager
async def page_on_a_phone(browser: Browser, tmp_path: Path) -> AsyncGenerator[Screen]:
    context = {"has_touch": True, "is_mobile": True}
    async with shown_page(browser, tmp_path, size=PHONE, script=WATCH, context=context) as screen:
        yield screen


@asynccontextmanager
async def widget_on_a_phone(browser: Browser, tmp_path: Path) -> AsyncGenerator[Screen]:
    async with (
        neighbours(tmp_path, [DEMONSTRATION]) as (site, _),
        somebody(browser, size=PHONE, is_mobile=True) as person,
    ):
        await person.add_init_script(WATCH)
        async with visit(person, site.origin) as screen:
            await screen.launcher.click()
            await screen.expect_idle()
            yield screen


@pytest.mark.parametrize("shown", [page_on_a_phone, widget_on_a_phone], ids=["page", "widget"])
async def test_nothing_that_comes_pushes_away_what_is_read(
    browser: Browser, tmp_path: Path, shown: Callable[[Browser, Path], AbstractAsyncContextManager[Screen]]
) -> None:
    async with shown(browser, tmp_path) as screen:
        await expect_still(screen, "loaded")
        await screen.ask("What was the population of Seattle in 2023?")
        await expect_still(screen, "the first answer, with a tool")
        await screen.say("Refund order 1234, 20 dollars")
        await expect(screen.button("Approve")).to_be_visible()
        await expect_still(screen, "an approval")
        await screen.button("Approve").click()
        await screen.expect_idle()
        await expect_still(screen, "approved")
        await screen.composer.focus()
        await screen.page.set_viewport_size({"width": PHONE[0], "height": 500})
        await expect_still(screen, "the keyboard", by_hand=True)
        await screen.page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
        await expect_still(screen, "without the keyboard", by_hand=True)
        await screen.ask("Add milk to my list")
        await expect(screen.page.get_by_test_id("shared_list")).to_be_visible()
        await expect_still(screen, "a list beside the conversation")
        await screen.page.reload()
        await expect(screen.page.get_by_test_id("shared_list")).to_be_visible()
        await screen.expect_idle()
        await expect_still(screen, "loaded again, with the thread")
        await screen.button("New conversation").first.click()
        await expect(screen.answers).to_have_count(0)
        await expect_still(screen, "a new thread")
        await screen.button("Show the conversations").first.click()
        threads = screen.page.get_by_role("navigation", name="Conversations")
        await threads.get_by_role("listitem").first.get_by_role("button").first.click()
        await expect(screen.page.get_by_test_id("shared_list")).to_be_visible()
        await screen.expect_idle()
        await expect_still(screen, "another thread")


@pytest.mark.parametrize("size", [(1440, 900), PHONE], ids=["desktop", "phone"])
async def test_the_sample_shop_stays_where_it_is_while_it_loads(
    browser: Browser, tmp_path: Path, size: tuple[int, int]
) -> None:
    async with (
        local_gateway(tmp_path, [DEMONSTRATION], page=built_page()) as gateway,
        somebody(browser, size=size) as person,
    ):
        await person.add_init_script(WATCH)
        await person.route("**/assets/shop-*.js", after_the_first_frame)
        async with visit(person, f"{gateway.client.base_url}/shop") as screen:
            await expect(screen.page.locator(".good")).to_have_count(8)
            await expect(screen.launcher).to_be_visible()
            await expect_still(screen, "loaded")
            await expect(screen.page.get_by_role("form", name="Filter")).to_be_visible()
            await expect(screen.page.locator("footer")).to_be_visible()


async def after_the_first_frame(route: Route) -> None:
    """The page is drawn before that file is there."""
    page = route.request.frame.page
    await page.wait_for_selector("footer", state="attached")
    await page.evaluate("new Promise((shown) => requestAnimationFrame(() => requestAnimationFrame(shown)))")
    await route.continue_()
