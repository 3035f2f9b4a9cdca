"""An answer survives what happens to pages: a reload, a network that goes and comes, a server that dies.

Whatever happens, every word is there once, and the page says calmly how things are.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser, expect

from tests.held_ports import held_port
from tests.movable_clock import MovableClock
from tests.page_browser import PHONE, built_page, paced, screen, shown_page, tell
from tests.running_gateway import (
    DEADLINE_SECONDS,
    GatewayClient,
    agent,
    gateway_process,
    local_gateway,
    scripted,
    write_configuration,
)

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.thorough]

WORDS = " ".join(f"word{number}" for number in range(60))
LOST = "The connection was lost. Trying to go on"
OFFLINE = "You are offline. The answer goes on when you are back."
FAILED_TO_LOAD = "Failed to load resource|ERR_|Failed to fetch|network error"


async def test_a_gateway_without_agents_says_so(browser: Browser, tmp_path: Path) -> None:
    async with (
        local_gateway(tmp_path, [], page=built_page()) as empty,
        screen(browser, f"{empty.client.base_url}/") as shown,
    ):
        status = shown.page.get_by_role("status").filter(has_text="no agents")
        await expect(status).to_have_text(
            "This gateway has no agents yet. Add one to its configuration file, and start it again."
        )
        await shown.expect_accessible("a gateway without agents")
        async with shown.page.expect_response("**/agents"):
            await shown.button("Try again").click()
        await expect(status).to_be_visible()


async def test_a_reload_in_mid_answer_goes_on_where_it_was(browser: Browser, tmp_path: Path) -> None:
    clock = MovableClock(time.time())
    async with shown_page(browser, tmp_path, [agent("talker", paced(WORDS))], clock=clock) as shown:
        await shown.say("Talk")
        await tell(clock, 100)
        await expect(shown.answers).to_contain_text("word14")
        await shown.page.reload()
        await expect(shown.answers).to_have_text(WORDS[:100].strip())
        await expect(shown.button("Stop")).to_be_visible()
        await tell(clock, 100)
        await expect(shown.answers).to_have_text(WORDS[:200].strip())
        await tell(clock, len(WORDS))
        await expect(shown.answers).to_have_text(WORDS)
        await shown.expect_idle()
        await expect(shown.questions).to_have_text(["Talk"])
        await expect(shown.banner).to_have_count(0)


async def test_a_reload_while_the_page_is_asked_something_asks_again(browser: Browser, tmp_path: Path) -> None:
    model = scripted([{"tool": "confirm", "arguments": {"question": "Ship it?"}}], [{"text": "It said: {{result}}"}])
    async with shown_page(browser, tmp_path, [agent("a", model)]) as shown:
        await shown.say("Ask me")
        dialog = shown.page.get_by_role("dialog", name="Ship it?")
        await expect(dialog).to_be_visible()
        await shown.page.reload()
        # Whether the tool took effect nobody knows: it is not run a second time, and the agent is told so.
        await expect(shown.answers).to_contain_text("The page was left while this tool was at work")
        await expect(dialog).to_have_count(0)


async def test_another_tab_shows_the_same_answer(browser: Browser, tmp_path: Path) -> None:
    clock = MovableClock(time.time())
    async with shown_page(browser, tmp_path, [agent("talker", paced(WORDS))], clock=clock) as shown:
        await shown.say("Talk")
        await tell(clock, 50)
        await expect(shown.answers).to_have_text(WORDS[:50].strip())
        other = await shown.page.context.new_page()
        await other.goto(shown.page.url)
        await (
            other.get_by_role("navigation", name="Conversations").get_by_role("button", name="Talk", exact=True).click()
        )
        await expect(other.get_by_test_id("answer")).to_have_text(WORDS[:50].strip())
        await tell(clock, len(WORDS))
        for each in (shown.page, other):
            await expect(each.get_by_test_id("answer")).to_have_text(WORDS)


async def test_offline_in_mid_answer_is_a_calm_line_and_the_answer_goes_on_afterwards(
    browser: Browser, tmp_path: Path
) -> None:
    clock = MovableClock(time.time())
    async with shown_page(
        browser, tmp_path, [agent("talker", paced(WORDS))], clock=clock, expected=[FAILED_TO_LOAD]
    ) as shown:
        await shown.say("Talk")
        await tell(clock, 50)
        await expect(shown.answers).to_have_text(WORDS[:50].strip())
        await shown.page.context.set_offline(True)
        await expect(shown.page.get_by_role("status").filter(has_text=OFFLINE)).to_be_visible()
        await expect(shown.banner).to_have_count(0)
        await expect(shown.answers).to_have_text(WORDS[:50].strip())
        await tell(clock, 100)
        await shown.page.context.set_offline(False)
        await expect(shown.answers).to_have_text(WORDS[:150].strip())
        await expect(shown.page.get_by_text(OFFLINE)).to_have_count(0)
        await tell(clock, len(WORDS))
        await expect(shown.answers).to_have_text(WORDS)
        await shown.expect_idle()


async def test_what_is_sent_without_a_network_is_answered_when_there_is_one(browser: Browser, tmp_path: Path) -> None:
    talker = agent("talker", scripted([{"text": "You said: {{user}}"}]))
    async with shown_page(browser, tmp_path, [talker], expected=[FAILED_TO_LOAD]) as shown:
        await shown.page.context.set_offline(True)
        await shown.say("Is anybody there?")
        await expect(shown.questions).to_have_text("Is anybody there?")
        await expect(shown.page.get_by_role("status").filter(has_text=OFFLINE)).to_be_visible()
        await shown.page.context.set_offline(False)
        await expect(shown.answers).to_have_text("You said: Is anybody there?")
        await shown.expect_idle()
        await expect(shown.banner).to_have_count(0)


async def test_a_stream_that_breaks_goes_on_without_losing_a_word(browser: Browser, tmp_path: Path) -> None:
    words = " ".join(f"word{number}" for number in range(200))
    talker = agent("talker", scripted([{"text": words, "chunk_characters": 5, "delta_seconds": 0.001}]))
    async with (
        local_gateway(tmp_path, [talker], page=built_page()) as gateway,
        cutting_proxy(gateway.client, cuts=[3_000, 800]) as (address, cut),
        screen(browser, address, expected=[FAILED_TO_LOAD]) as shown,
    ):
        await shown.expect_idle()
        await shown.say("Talk")
        await expect(shown.answers).to_have_text(words)
        await shown.expect_idle()
        await expect(shown.questions).to_have_text(["Talk"])
        assert cut == [3_000, 800]


async def test_a_server_that_is_killed_in_mid_answer_is_waited_for_and_what_it_lost_is_said(
    browser: Browser, tmp_path: Path
) -> None:
    rules = [
        {"when": {"last_user_contains": "slowly"}, "response": [{"text": WORDS}, {"hang": True}]},
        {"when": {}, "response": [{"text": "You said: {{user}}"}]},
    ]
    assert built_page().is_built
    async with contextlib.AsyncExitStack() as stack:
        port = stack.enter_context(held_port())
        configuration = write_configuration(tmp_path, [agent("talker", scripted(rules=rules))], server={"port": port})
        first = await stack.enter_async_context(gateway_process(configuration))
        shown = await stack.enter_async_context(
            screen(browser, f"{first.client.base_url}/", size=PHONE, expected=[FAILED_TO_LOAD])
        )
        await shown.expect_idle()
        await shown.say("Talk slowly")
        await expect(shown.answers).to_contain_text("word9 ")
        await first.signal(signal.SIGKILL)
        line = shown.page.get_by_role("status").filter(has_text=LOST)
        await expect(line).to_be_visible()
        await expect(shown.banner).to_have_count(0)
        await expect(shown.answers).to_contain_text("word9 ")
        await shown.expect_no_sideways_scrolling()

        await stack.enter_async_context(gateway_process(configuration))
        await expect(shown.banner).to_contain_text("The server stopped in the middle of the answer. Try again.")
        await expect(line).to_have_count(0)
        await expect(shown.answers).to_contain_text("word9 ")
        await expect(shown.questions).to_have_text(["Talk slowly"])
        await shown.expect_idle()

        await shown.say("Quickly, please")
        await expect(shown.answers.last).to_have_text("You said: Quickly, please")
        await expect(shown.banner).to_have_count(0)


async def test_a_page_whose_server_goes_on_with_the_answer_shows_one_answer(browser: Browser, tmp_path: Path) -> None:
    def configure(*script: Mapping[str, Any]) -> Path:
        agents = [agent("talker", scripted(script), on_takeover="continue")]
        return write_configuration(tmp_path, agents, server={"port": port})

    assert built_page().is_built
    async with contextlib.AsyncExitStack() as stack:
        port = stack.enter_context(held_port())
        configuration = configure({"reasoning": "Hm"}, {"text": WORDS}, {"hang": True})
        first = await stack.enter_async_context(gateway_process(configuration))
        shown = await stack.enter_async_context(
            screen(browser, f"{first.client.base_url}/", size=PHONE, expected=[FAILED_TO_LOAD])
        )
        await shown.expect_idle()
        await shown.say("Talk")
        await expect(shown.answers).to_contain_text("word9 ")
        await first.signal(signal.SIGKILL)
        await expect(shown.page.get_by_role("status").filter(has_text=LOST)).to_be_visible()
        configure({"text": "I begin anew."})
        await stack.enter_async_context(gateway_process(configuration))
        await expect(shown.answers).to_have_text(["I begin anew."])
        await expect(shown.questions).to_have_text(["Talk"])
        await expect(shown.banner).to_have_count(0)
        await shown.expect_idle()
        await shown.page.reload()
        await expect(shown.answers).to_have_text(["I begin anew."])


async def test_a_server_that_is_away_when_the_page_is_opened_is_asked_again(browser: Browser, tmp_path: Path) -> None:
    talker = agent("talker", scripted([{"text": "Here I am."}]))
    async with (
        local_gateway(tmp_path, [talker], page=built_page()) as gateway,
        screen(browser, "about:blank", expected=[FAILED_TO_LOAD]) as shown,
    ):
        shown.foreign.clear()
        await shown.page.route("**/agents", lambda route: route.abort())
        await shown.page.goto(f"{gateway.client.base_url}/")
        await expect(shown.page.get_by_role("alert")).to_contain_text("The server cannot be reached.")
        await shown.page.unroute("**/agents")
        await shown.button("Try again").click()
        await shown.ask("Hello")
        await expect(shown.answers).to_have_text("Here I am.")
        shown.foreign.clear()


# --- ways to a gateway


@contextlib.asynccontextmanager
async def cutting_proxy(target: GatewayClient, cuts: Sequence[int]) -> AsyncGenerator[tuple[str, list[int]]]:
    """A way to the gateway that breaks: the first streams end after so many bytes, without any goodbye.

    Gives its address, and the cuts that were made.
    """
    port = urlsplit(target.base_url).port
    made: list[int] = []
    relays: dict[asyncio.Task[None] | None, tuple[asyncio.StreamWriter, ...]] = {}

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream = await asyncio.open_connection("127.0.0.1", port)
        task: asyncio.Task[None] | None = asyncio.current_task()
        relays[task] = (writer, upstream)
        upward = asyncio.create_task(pump(reader, upstream))
        passed, streaming = 0, False
        try:
            while data := await upstream_reader.read(1_000):
                streaming = streaming or b"content-type: text/event-stream" in data
                passed += len(data) * streaming
                if len(made) < len(cuts) and passed > cuts[len(made)]:
                    made.append(cuts[len(made)])
                    writer.transport.abort()
                    return
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass  # the browser closes its connections as it likes
        finally:
            upward.cancel()
            upstream.close()
            writer.close()
            await asyncio.wait([upward])
            del relays[task]

    async with await asyncio.start_server(relay, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", made
        server.close()
        for end in chain.from_iterable(relays.values()):
            end.transport.abort()  # what relays between them sees it, and leaves
        if tasks := [each for each in relays if each]:
            await asyncio.wait(tasks, timeout=DEADLINE_SECONDS)


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
