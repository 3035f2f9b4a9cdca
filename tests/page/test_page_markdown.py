"""Answers as the page shows them: markdown while it streams, and what somebody hides in it."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.movable_clock import MovableClock
from tests.page_browser import CLIPBOARD, paced, shown_page, tell
from tests.running_gateway import agent, scripted

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.thorough]

ANSWER = """\
## Cities

Some **bold**, *slanted*, ~~struck~~ and `plain` words.

| City | People |
| :--- | ---: |
| Oslo | 700,000 |
| Rome | 2,800,000 |

1. first
2. second
   - inner

- [x] done
- [ ] to do

```python
if a < b and c:
    print("x")
```

> somebody said

A [link](https://elsewhere.example/a?b=c&d) and ![a map](https://elsewhere.example/map.png).
"""


async def test_an_answer_is_laid_out_as_markdown(browser: Browser, tmp_path: Path) -> None:
    talker = agent("talker", scripted([{"text": ANSWER, "chunk_characters": 3}], switch_every_delta=True))
    async with shown_page(browser, tmp_path, [talker]) as screen:
        await screen.ask("Tell me")
        answer = screen.answers

        await expect(answer.get_by_role("heading", name="Cities")).to_be_visible()
        for tag, words in [("strong", "bold"), ("em", "slanted"), ("del", "struck"), ("p > code", "plain")]:
            await expect(answer.locator(tag)).to_have_text(words)
        await expect(answer.get_by_role("columnheader")).to_have_text(["City", "People"])
        await expect(answer.get_by_role("cell")).to_have_text(["Oslo", "700,000", "Rome", "2,800,000"])
        right = "getComputedStyle(document.querySelector('td:last-child')).textAlign"
        assert await screen.evaluate(right) in ("right", "end")
        await expect(answer.locator("ol > li")).to_have_count(2)
        await expect(answer.locator("ol > li ul > li")).to_have_text("inner")
        await expect(answer.get_by_role("checkbox", checked=True)).to_have_count(1)
        await expect(answer.get_by_role("checkbox")).to_have_count(2)
        await expect(answer.locator("pre code")).to_have_text('if a < b and c:\n    print("x")')
        await expect(answer.locator("figcaption")).to_contain_text("python")
        await expect(answer.locator("blockquote")).to_have_text("somebody said")


async def test_the_cells_of_a_wide_table_do_not_lie_over_each_other(browser: Browser, tmp_path: Path) -> None:
    head = "A head of a column that is longer than the column is ever wide, as models like to write them"
    table = f"| City | {head} | {head} |\n| --- | --- | --- |\n| Oslo | {'words ' * 30} | few |"
    async with shown_page(browser, tmp_path, [agent("talker", scripted([{"text": table}]))]) as screen:
        await screen.ask("Tell me")
        await expect(screen.answers.get_by_role("columnheader")).to_have_count(3)
        over = "[...document.querySelectorAll('th, td')].filter((cell) => cell.scrollWidth > cell.clientWidth).length"
        assert await screen.evaluate(over) == 0
        await screen.expect_no_sideways_scrolling()


async def test_a_link_leads_to_a_new_tab_and_a_picture_is_a_link_to_it(browser: Browser, tmp_path: Path) -> None:
    talker = agent("talker", scripted([{"text": ANSWER}]))
    async with shown_page(browser, tmp_path, [talker]) as screen:
        await screen.ask("Tell me")
        link = screen.answers.get_by_role("link", name="link", exact=True)
        picture = screen.answers.get_by_role("link", name=re.compile("Image: a map"))

        await expect(link).to_have_attribute("href", "https://elsewhere.example/a?b=c&d")
        await expect(picture).to_have_attribute("href", "https://elsewhere.example/map.png")
        await expect(picture).to_contain_text("(elsewhere.example)")
        for each in (link, picture):
            await expect(each).to_have_attribute("target", "_blank")
            await expect(each).to_have_attribute("rel", re.compile("noopener noreferrer"))
        await expect(screen.answers.locator("img")).to_have_count(0)


async def test_a_code_block_is_copied_by_its_button(browser: Browser, tmp_path: Path) -> None:
    talker = agent("talker", scripted([{"text": ANSWER}]))
    async with shown_page(browser, tmp_path, [talker], context=CLIPBOARD) as screen:
        await screen.ask("Tell me")
        await screen.answers.get_by_role("button", name="Copy the code").click()

        await screen.expect_named("Copied")
        assert await screen.evaluate("navigator.clipboard.readText()") == 'if a < b and c:\n    print("x")'


async def test_markdown_is_laid_out_before_it_is_whole(browser: Browser, tmp_path: Path) -> None:
    """What is begun is shown as what it becomes: no stars, pipes or fences that turn into something else later."""
    clock = MovableClock(time.time())
    parts = [
        "| City | People |\n| --- | --- |\n| Os",
        "lo | 700,000 |\n\nvery **bo",
        "ld** words\n\n```py\nprint(",
        "1)",
    ]
    async with shown_page(browser, tmp_path, [agent("talker", paced("".join(parts)))], clock=clock) as screen:
        answer = screen.answers
        await screen.say("Tell me")
        await tell(clock, len(parts[0]))
        await expect(answer.get_by_role("cell").first).to_have_text("Os")
        await tell(clock, len(parts[1]))
        await expect(answer.locator("strong")).to_have_text("bo")
        await expect(answer.get_by_role("cell")).to_have_text(["Oslo", "700,000"])
        await tell(clock, len(parts[2]))
        await expect(answer.locator("pre code")).to_have_text("print(")
        assert not set("*`|") & set(await answer.inner_text())
        await tell(clock, len(parts[3]))
        await expect(answer.locator("pre code")).to_have_text("print(1)")
        await screen.expect_idle()
