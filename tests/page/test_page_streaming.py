"""How an answer of ten thousand tokens streams: work per frame, not per token; and whose the reader's place is."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, CDPSession, Page, expect

from tests.movable_clock import MovableClock
from tests.page_browser import DESKTOP, PHONE, Screen, paced, shown_page, tell
from tests.running_gateway import agent, run_body, scripted

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.thorough]

TOKENS = 10_000
UNHURRIED_SECONDS = 100  # for a page that is given a tenth of a processor
TOKEN_CHARACTERS = 4
NO_FRAME_MILLISECONDS = 250  # as frames.ts has it: so long without a frame, and the page is changed all the same
SECTION = """\
### What section {number} says

Some **words** about `things`, that goes on for a while, with a [link](https://elsewhere.example/{number}) in it.

- one thing, and *another*
- a second thing

| Thing | Count |
| --- | ---: |
| apples | {number} |
| pears | 17 |

```python
def section_{number}(value: int) -> int:
    return value * {number}
```

"""
# Notes each frame's length, whether the page changed in it and by how many elements, and what kept it from drawing one.
WATCH = """
    window.frames_seen = { deltas: [], changes: [], longTasks: [], elements: 0 };
    document.addEventListener("DOMContentLoaded", () => {
        let last = performance.now(), changes = 0;
        const view = document.body;
        const elements = (node) => node.nodeType === 1 ? 1 + node.querySelectorAll("*").length : 0;
        new MutationObserver((records) => {
            changes++;
            for (const { addedNodes } of records)
                for (const node of addedNodes) window.frames_seen.elements += elements(node);
        }).observe(view, { subtree: true, childList: true, characterData: true });
        new PerformanceObserver((list) => {
            for (const { duration } of list.getEntries()) window.frames_seen.longTasks.push(duration);
        }).observe({ type: "longtask" });
        const frame = (now) => {
            window.frames_seen.deltas.push(now - last);
            window.frames_seen.changes.push(changes);
            last = now;
            changes = 0;
            requestAnimationFrame(frame);
        };
        requestAnimationFrame(frame);
    });
"""


@dataclass(frozen=True, slots=True)
class Work:
    """What the page's process did until now: how often it laid out and styled, what it put into the page, and the
    processor's seconds for it. `kept`: the elements of the answer at its end."""

    layouts: float
    styles: float
    frames: int
    elements: int
    kept: int
    processor_seconds: float

    def since(self, before: Work) -> Work:
        return Work(
            self.layouts - before.layouts,
            self.styles - before.styles,
            self.frames - before.frames,
            self.elements - before.elements,
            self.kept,
            self.processor_seconds - before.processor_seconds,
        )


async def look_at_work(page: Page, tools: CDPSession) -> Work:
    answer = await tools.send("Performance.getMetrics")
    metrics: dict[str, float] = {each["name"]: each["value"] for each in answer["metrics"]}
    frames, elements = await page.evaluate("[window.frames_seen.deltas.length, window.frames_seen.elements]")
    kept = await page.evaluate("document.querySelectorAll('.agui-answer *').length")
    return Work(metrics["LayoutCount"], metrics["RecalcStyleCount"], frames, elements, kept, metrics["TaskDuration"])


def long_answer(tokens: int) -> str:
    text = ""
    number = 0
    while len(text) < tokens * TOKEN_CHARACTERS:
        text += SECTION.format(number=number)
        number += 1
    return text[: tokens * TOKEN_CHARACTERS]


async def follow_answer(browser: Browser, directory: Path, tokens: int) -> tuple[Work, dict[str, list[float]]]:
    """An answer of so many tokens as fast as they come: what it cost, and the frames meanwhile."""
    step = {"text": long_answer(tokens), "chunk_characters": TOKEN_CHARACTERS}
    talker = agent("talker", scripted([step], switch_every_delta=True))
    async with shown_page(browser, directory, [talker], script=WATCH) as screen:
        tools = await screen.page.context.new_cdp_session(screen.page)
        await tools.send("Performance.enable", {"timeDomain": "threadTicks"})
        await screen.evaluate("window.frames_seen.longTasks.length = 0")
        begin = await look_at_work(screen.page, tools)
        await screen.say("Go on")
        # not by roles: to look for them costs the page more than what is measured
        over = "document.querySelector('.agui-usage, .agui-answer .agui-tools')"
        await screen.until(over, seconds=UNHURRIED_SECONDS)
        end = await look_at_work(screen.page, tools)
        seen: dict[str, list[float]] = await screen.evaluate("window.frames_seen")
        assert await screen.evaluate("document.querySelector('.agui-answer').innerText.length") > 2 * tokens
        return end.since(begin), {
            "deltas": seen["deltas"][begin.frames : end.frames],
            "changes": seen["changes"][begin.frames : end.frames],
            "longTasks": seen["longTasks"],
        }


@pytest.mark.timeout(3 * UNHURRIED_SECONDS)
async def test_ten_thousand_tokens_are_laid_out_once_per_frame(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Counted: how long a frame takes, and what a processor takes for it, is this machine's affair, and only told."""
    quarter, _ = await follow_answer(browser, tmp_path_factory.mktemp("quarter"), TOKENS // 4)
    whole, seen = await follow_answer(browser, tmp_path_factory.mktemp("whole"), TOKENS)

    print(f"\n{TOKENS // 4} tokens: {quarter}\n{TOKENS} tokens: {whole}\nframes: {describe(seen['deltas'])}")
    print(
        f"long tasks: {[round(each) for each in seen['longTasks']]} ms; most changes in a frame: {max(seen['changes'])}"
    )
    turns = [1 + length // NO_FRAME_MILLISECONDS for length in seen["deltas"]]
    assert whole.layouts <= 1.5 * sum(turns) + 10
    assert whole.layouts < TOKENS / 4
    # what is done in one frame may be told in two or three portions
    assert all(changes <= 3 * turn for changes, turn in zip(seen["changes"], turns, strict=True))
    assert sum(seen["changes"]) <= 1.5 * sum(turns)
    for work in (quarter, whole):
        assert work.elements <= 1.5 * work.kept + 100, (
            "what is there stays: an answer costs by its length, not its square"
        )


# In this browser: the rows of tables and the items of lists, how many of each are laid out, and the columns' edges.
LAID_OUT = """() => {
    const isLaidOut = (element) => element.checkVisibility({ contentVisibilityAuto: true });
    const rows = [...document.querySelectorAll("td:first-child")], items = [...document.querySelectorAll("li > em")];
    return [rows.length, rows.filter(isLaidOut).length, items.length, items.filter(isLaidOut).length];
}"""
EDGES = """async () => {
    for (let frame = 0; frame < 3; frame++) await new Promise((shown) => requestAnimationFrame(shown));
    const rows = [...document.querySelectorAll("tbody > tr")];
    const shown = rows.filter((row) => row.checkVisibility({ contentVisibilityAuto: true }));
    const edges = (row) => [...row.cells].map((cell) => Math.round(cell.getBoundingClientRect().right)).join(" ");
    return [...new Set(shown.map(edges))];
}"""


@pytest.mark.timeout(3 * UNHURRIED_SECONDS)
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
async def test_of_a_table_or_a_list_without_end_what_is_near_is_laid_out(
    browser: Browser, tmp_path: Path, size: tuple[int, int]
) -> None:
    """A table is laid out whole for each row that comes, and 200 kB of one kept the page busy for seconds."""
    rows = "".join(f"| pear {number} | {number} | some **words** |\n" for number in range(1_500))
    items = "".join(f"- a pear, *number {number}*\n" for number in range(1_500))
    text = f"Here:\n\n{items}\n| Thing | Count | What |\n| --- | ---: | --- |\n{rows}\nThe end."
    talker = agent("talker", scripted([{"text": text, "chunk_characters": 200}]))
    async with shown_page(browser, tmp_path, [talker], script=WATCH, size=size) as screen:
        await screen.say("Go on")
        await screen.until("document.querySelector('.agui-answer .agui-tools')", seconds=UNHURRIED_SECONDS)
        await screen.until("!document.querySelector('.agui-markdown[aria-busy]')", seconds=UNHURRIED_SECONDS)
        await screen.until(f"{TO_END} < 2")
        all_rows, laid_out_rows, all_items, laid_out_items = await screen.evaluate(LAID_OUT)
        assert (all_rows, all_items) == (1_500, 1_500)
        assert 0 < laid_out_rows < 400
        assert laid_out_items < 400
        kept = await screen.evaluate("document.querySelectorAll('.agui-answer *').length")
        assert await screen.evaluate("window.frames_seen.elements") <= 1.5 * kept + 500
        for row in (38, 700, 1_499):
            await screen.evaluate(f"document.querySelectorAll('tbody > tr')[{row}].scrollIntoView()")
            assert len(await screen.evaluate(EDGES)) == 1, "all rows have the same columns"
        await screen.page.set_viewport_size({"width": 320, "height": 700})
        assert len(await screen.evaluate(EDGES)) == 1, "also where they become narrower"
        await screen.expect_no_sideways_scrolling()


def describe(deltas: list[float]) -> str:
    """A distribution of milliseconds."""
    points = statistics.quantiles(deltas, n=100)
    late = sum(each > 25 for each in deltas)
    return (
        f"{len(deltas)}, p50 {points[49]:.1f}, p95 {points[94]:.1f}, p99 {points[98]:.1f}, most {max(deltas):.1f} ms; "
        f"{late} of more than 25 ms"
    )


# --- the reader's place

PARAGRAPHS = "".join(f"Paragraph {number} of the answer.\n\n" for number in range(200))
PLACE = "document.querySelector('.agui-view').scrollTop"
BOTTOM = "document.querySelector('.agui-view').getBoundingClientRect().bottom"
TO_END = f"(document.querySelector('.agui-content').getBoundingClientRect().bottom - {BOTTOM})"


async def test_the_page_follows_the_answer_until_the_reader_scrolls_up_and_again_when_they_return(
    browser: Browser, tmp_path: Path
) -> None:
    clock = MovableClock(time.time())
    async with shown_page(browser, tmp_path, [agent("talker", paced(PARAGRAPHS))], clock=clock) as screen:
        view, to_end = screen.conversation, screen.button("To the latest message")
        await screen.say("Go on")
        await tell(clock, 1_500)
        await screen.until(f"{PLACE} > 100 && {TO_END} < 2")
        await expect(to_end).to_have_count(0)

        await view.hover()
        await screen.page.mouse.wheel(0, -400)
        await expect(to_end).to_be_visible()
        await screen.until(f"{TO_END} > 395")  # the wheel may take its time
        place = await screen.evaluate(PLACE)
        await tell(clock, 1_500)
        await expect(screen.answers).to_contain_text("Paragraph 90")
        assert await screen.evaluate(PLACE) == place
        assert await screen.evaluate(TO_END) > 1_000

        await to_end.click()
        await screen.until(f"{TO_END} < 2")
        await expect(to_end).to_have_count(0)
        await tell(clock, 600)
        await expect(screen.answers).to_contain_text("Paragraph 110")
        await screen.until(f"{TO_END} < 2")

        await view.hover()
        await screen.page.mouse.wheel(0, -300)
        await expect(to_end).to_be_visible()
        await screen.page.mouse.wheel(0, 3_000)
        await expect(to_end).to_have_count(0)
        await tell(clock, 600)
        await expect(screen.answers).to_contain_text("Paragraph 130")
        await screen.until(f"{TO_END} < 2")


async def test_what_the_browser_scrolls_by_itself_is_not_the_reader_s_doing(browser: Browser, tmp_path: Path) -> None:
    """Where something above becomes lower, the browser scrolls up as much; when it tells, more has come below."""
    async with shown_page(browser, tmp_path, [agent("talker", scripted([{"text": PARAGRAPHS}]))]) as screen:
        await screen.ask("One")
        await screen.until(f"{TO_END} < 2")
        await screen.evaluate("""() => {
            document.querySelector(".agui-view").scrollBy(0, -12);
            document.querySelector(".agui-answer").style.paddingBlockEnd = "300px";
        }""")
        await screen.until(f"{TO_END} < 2")
        await expect(screen.button("To the latest message")).to_have_count(0)


async def test_a_question_keeps_its_lines_when_the_next_one_comes(browser: Browser, tmp_path: Path) -> None:
    async with shown_page(browser, tmp_path, [agent("talker", scripted([{"text": "Well."}]))], size=PHONE) as screen:
        heights = []
        for _ in range(2):
            await screen.ask("These are so many words that there is just no room for another one" * 2)
            box = await screen.page.locator(".agui-bubble").first.bounding_box()
            assert box is not None
            heights.append((box["width"], box["height"]))
        assert heights[0] == heights[1]


async def test_a_reader_who_has_no_hand_in_it_is_let_go_too(browser: Browser, tmp_path: Path) -> None:
    """A search in the page, or a screen reader, scrolls without a wheel or a key."""
    clock = MovableClock(time.time())
    async with shown_page(browser, tmp_path, [agent("talker", paced(PARAGRAPHS))], clock=clock) as screen:
        await screen.say("Go on")
        await tell(clock, 1_500)
        await expect(screen.answers).to_contain_text(PARAGRAPHS[:1_500].split("\n\n")[-1])
        await screen.until(f"{PLACE} > 100 && {TO_END} < 2")
        await screen.evaluate("document.querySelector('.agui-view').scrollTo(0, 20)")
        await expect(screen.button("To the latest message")).to_be_visible()
        await tell(clock, 1_000)
        await expect(screen.answers).to_contain_text("Paragraph 80")
        assert await screen.evaluate(PLACE) == 20


async def test_a_message_that_is_sent_is_seen_wherever_the_reader_was(browser: Browser, tmp_path: Path) -> None:
    async with shown_page(browser, tmp_path, [agent("talker", scripted([{"text": PARAGRAPHS}]))]) as screen:
        await screen.ask("One")
        await screen.conversation.hover()
        await screen.page.mouse.wheel(0, -2_000)
        await expect(screen.button("To the latest message")).to_be_visible()
        await screen.ask("Two")
        await screen.until(f"{TO_END} < 2")


async def test_a_long_thread_shows_its_end_and_older_messages_when_the_reader_goes_there(
    browser: Browser, tmp_path: Path
) -> None:
    async with shown_page(browser, tmp_path, [agent("talker", scripted([{"text": "Well."}]))]) as screen:
        await open_long_thread(screen, 150)
        await expect(screen.questions.last).to_be_in_viewport()
        assert await screen.questions.count() < 100
        for _ in range(40):
            if await screen.questions.count() == 150:
                break
            before = await screen.evaluate(PLACE)
            await screen.conversation.hover()
            await screen.page.mouse.wheel(0, -3_000)
            await screen.until(f"{PLACE} !== {before}")
        await expect(screen.questions).to_have_count(150)
        await screen.conversation.press("Home")
        await expect(screen.questions.first).to_be_in_viewport()


async def open_long_thread(screen: Screen, questions: int) -> None:
    assert screen.gateway is not None
    messages: list[dict[str, Any]] = [
        {"id": f"{role}-{number}", "role": role, "content": f"{role} {number}"}
        for number in range(questions)
        for role in ("user", "assistant")
    ]
    await screen.gateway.client.run("talker", run_body(thread_id="long", messages=messages[:-1]))
    await screen.evaluate("sessionStorage.setItem('agui-thread', 'long')")
    await screen.page.reload()
