"""One browser for all front ends, which finds no other machine, in the one event loop that they share."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest_asyncio
from playwright.async_api import Browser

from tests.front_end_pages import ONLY_LOOPBACK
from tests.page_browser import running_browser


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncGenerator[Browser]:
    async with running_browser(ONLY_LOOPBACK) as running:
        yield running
