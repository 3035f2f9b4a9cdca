"""Media that models and tools make, as the page shows them: by their bytes, and never from elsewhere."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.case_tools import PIXEL, python_tool
from tests.host_site import neighbours, somebody, visit
from tests.page_browser import Screen, shown_page
from tests.running_gateway import agent, scripted

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.thorough]

SVG = base64.b64encode(b'<svg xmlns="http://www.w3.org/2000/svg"><script>document.title = 1</script></svg>').decode()
SILENCE = base64.b64encode(
    bytes.fromhex(
        "524946462c00000057415645666d74201000000001000100401f0000401f000001000800646174610800000080808080808080"
    )
).decode()
PAINTER = agent(
    "painter",
    scripted(
        [
            {"text": "Look:"},
            {"medium": PIXEL, "media_type": "image/png"},
            {"medium": SILENCE, "media_type": "audio/wav"},
            {"medium": SVG, "media_type": "image/svg+xml"},
        ]
    ),
)


async def expect_media(screen: Screen) -> None:
    media = screen.page.get_by_test_id("medium")
    await expect(media).to_have_count(3)
    await expect(media.nth(0).locator("canvas")).to_be_visible()
    await expect(media.nth(1).locator("audio")).to_be_visible()
    await expect(media.nth(2).get_by_text("Save")).to_be_visible()
    await expect(media.nth(2).locator("canvas, img, audio, video, iframe, object")).to_have_count(0)
    assert await screen.evaluate("document.querySelectorAll('img, iframe, object, embed').length") == 0


async def test_a_models_media_are_shown_by_their_bytes_also_after_a_reload(browser: Browser, tmp_path: Path) -> None:
    async with shown_page(browser, tmp_path, [PAINTER]) as screen:
        await screen.ask("Paint")
        await expect_media(screen)
        await screen.page.reload()
        await expect_media(screen)
        assert not [each for each in await screen.violations() if each.startswith(("img", "media"))]
        await screen.expect_accessible("media")


async def test_a_medium_is_saved_as_bytes_that_no_browser_opens(browser: Browser, tmp_path: Path) -> None:
    async with shown_page(browser, tmp_path, [PAINTER]) as screen:
        await screen.ask("Paint")
        link = screen.page.get_by_test_id("medium").nth(2).get_by_role("link")
        async with screen.page.expect_download() as saving:
            await link.click()
        assert (await saving.value).suggested_filename.endswith(".bin")
        href = await link.get_attribute("href")
        assert href is not None
        assert href.startswith("blob:")


async def test_the_media_of_a_tools_result_stand_with_its_call(browser: Browser, tmp_path: Path) -> None:
    model = scripted([{"tool": "picture", "arguments": {}}], [{"text": "There."}])
    async with shown_page(browser, tmp_path, [agent("tools", model, tools=[python_tool("picture")])]) as screen:
        await screen.ask("Show")
        await expect(screen.card("picture").get_by_test_id("medium").locator("canvas")).to_be_visible()
        await screen.page.reload()
        await expect(screen.card("picture").get_by_test_id("medium").locator("canvas")).to_be_visible()


@pytest.mark.parametrize("policy", ["media-src blob:", ""], ids=["blobs", "no blobs"])
async def test_on_a_site_with_a_strict_policy_pictures_are_shown_and_sounds_where_it_allows_blobs(
    browser: Browser, tmp_path: Path, policy: str
) -> None:
    painter = {**PAINTER, "id": "assistant"}
    async with neighbours(tmp_path, [painter]) as (site, _), somebody(browser) as person:
        site.policy = policy
        async with visit(person, site.origin, "" if policy else "Content Security Policy") as screen:
            await screen.open()
            await screen.ask("Paint")
            if policy:
                await expect_media(screen)
            else:
                media = screen.page.get_by_test_id("medium")
                await expect(media.nth(0).locator("canvas")).to_be_visible()
                await expect(media.nth(1).get_by_text("Save")).to_be_visible()
                await expect(media.locator("audio")).to_have_count(0)
                assert {each.split()[0] for each in await screen.violations()} == {"media-src"}
                await screen.evaluate("void (window.seenViolations.length = 0)")
