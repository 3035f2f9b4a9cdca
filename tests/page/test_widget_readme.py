"""The code for the widget in web-demo/README.md, on a page of another origin."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.documentation import snippet
from tests.host_site import neighbours, somebody, visit
from tests.running_gateway import agent, scripted

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.thorough]


CLERK = agent("assistant", scripted([{"tool": "add_to_cart", "arguments": {"product": "lamp"}}], [{"text": "Done."}]))


async def test_the_readmes_tag_and_script_are_a_chat_with_a_tool(browser: Browser, tmp_path: Path) -> None:
    async with neighbours(tmp_path, [CLERK]) as (site, gateway), somebody(browser) as person:
        tag = snippet("web-demo/README.md", "html", "widget.js").replace(
            "https://gateway.example", gateway.client.base_url
        )
        script = snippet("web-demo/README.md", "js", "registerTool")
        site.page(tag, site.script("/host.js", f"window.cart = [];\n{script}"))
        async with visit(person, site.origin) as page:
            await page.button("Yes").click()
            await expect(page.answers.last).to_have_text("Done.")
            await page.expect_idle()
            cart = await page.evaluate("cart")

    assert cart == ["lamp"]
    assert page.requests[0]["context"] == [{"description": "The cart", "value": "[]"}]
    assert page.requests[0]["state"] == {"step": 2}
