"""Strangers on a website: the widget with a publishable key, for several visitors, and with what a site gets wrong.

A visitor reads in words of their language that there is no chat here; whoever put it there reads in the console why.
"""

from __future__ import annotations

import contextlib
import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from tests.asgi_server import serving
from tests.held_ports import held_port
from tests.host_site import ECHO, TAG, WORDS, Site, neighbours, somebody, visit
from tests.running_gateway import agent, gateway_process, scripted, write_configuration

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.thorough]

KEY: dict[str, Any] = {"name": "shop", "key": "pk_shop_0123456789", "origins": ["SITE"], "agents": ["echo"]}


def tag_of(agent_id: str, key: str | None = KEY["key"]) -> str:
    return TAG.replace('"assistant"', f'"{agent_id}"' + (f' data-key="{key}"' if key else ""))


async def test_each_visitor_has_threads_of_their_own(browser: Browser, tmp_path: Path) -> None:
    tag = tag_of("echo")
    async with neighbours(tmp_path, [ECHO], publishable_keys=[KEY], cors_origins=[]) as (site, _):
        site.page(tag)
        tokens, thread = [], ""
        for name in ("Ann", "Bob"):
            async with somebody(browser) as person, visit(person, site.origin) as page:
                await page.open()
                await page.ask(name)
                await page.page.reload()
                await expect(page.answers).to_have_text([f"You said: {name}"])
                await page.button("Show the conversations").click()
                listed = page.panel.get_by_role("navigation").get_by_role("listitem")
                await expect(listed).to_have_text(re.compile(name))
                tokens.append(
                    await page.evaluate("Object.entries(localStorage).find(([key]) => /visitor/.test(key))[1]")
                )
                thread = await page.evaluate("document.querySelector('agui-chat').threadId")
        async with somebody(browser) as person, visit(person, site.origin) as page:
            await page.open()
            await page.evaluate("(id) => document.querySelector('agui-chat').openThread(id)", thread)
            await page.expect_idle()
            await expect(page.answers).to_have_count(0)  # Bob's thread is nobody else's

    assert len({json.loads(token)["visitorToken"] for token in tokens}) == 2


async def test_a_token_that_the_gateway_no_longer_takes_is_renewed(browser: Browser, tmp_path: Path) -> None:
    tag = tag_of("echo")
    async with neighbours(tmp_path, [ECHO], publishable_keys=[KEY], cors_origins=[]) as (site, _):
        site.page(tag)
        async with somebody(browser) as person, visit(person, site.origin, expected=r"40[0-9]") as page:
            await page.open()
            await page.ask("before")
            await page.evaluate("""() => {
                const [place, ticket] = Object.entries(localStorage).find(([key]) => /visitor/.test(key));
                const broken = JSON.parse(ticket).visitorToken.slice(0, -4) + "AAAA";
                localStorage.setItem(place, JSON.stringify({ ...JSON.parse(ticket), visitorToken: broken }));
            }""")
            await page.page.reload()
            await page.expect_idle()
            await page.ask("after")
            await expect(page.answers.last).to_have_text("You said: after")


async def test_a_key_of_another_site_is_refused_in_words(browser: Browser, tmp_path: Path) -> None:
    key = {**KEY, "origins": ["https://shop.example"]}
    tag = tag_of("echo")
    async with neighbours(tmp_path, [ECHO], publishable_keys=[key]) as (site, _), somebody(browser) as person:
        site.page(tag)
        async with visit(person, site.origin, expected=r"403|CORS|Failed to load|agui-chat: ") as page:
            await page.open()
            await page.say("Hello")
            await expect(page.banner).to_contain_text("This chat may not be used on this page.")
            heard = [detail for name, detail in await page.heard() if name == "error"]

    assert heard[-1]["code"] == "origin_not_allowed"


async def test_too_much_at_once_is_told_with_the_time_to_wait(browser: Browser, tmp_path: Path) -> None:
    key = {**KEY, "limits": {"visitor_runs_per_minute": 1}}
    tag = tag_of("echo")
    async with neighbours(tmp_path, [ECHO], publishable_keys=[key], cors_origins=[]) as (site, _):
        site.page(tag)
        async with somebody(browser) as person, visit(person, site.origin, expected="429") as page:
            await page.open()
            await page.ask("one")
            await page.say("two")
            await expect(page.banner).to_contain_text("That was a lot at once.")
            await expect(page.banner).to_contain_text("Possible again in")
            await expect(page.button("Try again")).to_be_disabled()


# --- what a site gets wrong


@pytest.mark.parametrize(
    ("tag", "status", "words", "reason"),
    [
        pytest.param(
            tag_of("echo", "pk_shop_of_no_gateway"),
            401,
            "This chat may not be used on this page.",
            "agui-chat: this key is not known; send one of server.publishable_keys",
            id="a key that the gateway does not know",
        ),
        pytest.param(
            tag_of("ehco"),
            404,
            "This conversation or agent no longer exists.",
            "agui-chat: there is no agent 'ehco'; GET /agents lists them",
            id="an agent that is not there",
        ),
        pytest.param(
            tag_of("internal"),
            404,
            "This conversation or agent no longer exists.",
            "agui-chat: there is no agent 'internal'; GET /agents lists them",
            id="an agent that the key is not for",
        ),
        pytest.param(
            tag_of("echo", None),
            401,
            "You are not signed in here",
            "agui-chat: a key is needed; send it as 'Authorization: Bearer <key>'",
            id="no key",
        ),
    ],
)
async def test_a_mistake_of_the_site_is_told_to_visitors_in_words_and_to_its_owner_in_the_console(
    browser: Browser, tmp_path: Path, tag: str, status: int, words: str, reason: str
) -> None:
    agents = [ECHO, agent("internal", scripted([{"text": "a trade secret"}]))]
    async with (
        neighbours(tmp_path, agents, publishable_keys=[KEY], cors_origins=[]) as (site, _),
        somebody(browser) as person,
    ):
        site.page(tag)
        async with visit(person, site.origin, expected=f"agui-chat: |{status}") as page:
            await page.open()
            assert page.complaints == []  # nothing was asked of the gateway yet
            await page.say("Hello")
            await expect(page.banner).to_contain_text(words)
            assert [text for text in page.complaints if text.startswith("agui-chat")] == [reason]


@pytest.mark.parametrize(
    ("key", "asked", "place"),
    [
        pytest.param(KEY["key"], "/visitors", "the `origins` of this publishable key", id="with a key"),
        pytest.param(None, "/agents/echo/run", "server.cors_origins", id="without one"),
    ],
)
async def test_a_page_of_an_origin_that_is_not_allowed_stops_after_three_tries_and_says_so_once(
    browser: Browser, tmp_path: Path, key: str | None, asked: str, place: str
) -> None:
    """A browser keeps the refusal to itself: to scripts it is a connection that failed."""
    elsewhere = {**KEY, "origins": ["https://shop.example"]}
    keys = [elsewhere] if key else []
    tries: list[str] = []
    async with neighbours(tmp_path, [ECHO], publishable_keys=keys, cors_origins=[]) as (site, _):
        site.page(tag_of("echo", key))
        reason = f"agui-chat: the gateway lets in no page of {site.origin}; add that to {place}"
        async with (
            somebody(browser) as person,
            visit(person, site.origin, expected="CORS|ERR_FAILED|agui-chat: ") as page,
        ):
            page.page.on("requestfailed", lambda request: tries.append(request.url))
            await page.open()
            for number in (1, 2):
                await page.say("Hello")
                await expect(page.banner).to_contain_text("This chat may not be used on this page.")
                await page.expect_idle()
                assert tries.count(f"{site.gateway}{asked}") == 2 + number  # who asks again is one more try
                errors = [detail for name, detail in await page.heard() if name == "error"]
                assert [detail["code"] for detail in errors] == ["origin_not_allowed"] * number
            assert [text for text in page.complaints if text.startswith("agui-chat")] == [reason]


# --- a gateway that dies


async def test_a_visitor_whose_gateway_is_killed_in_mid_answer_is_the_same_visitor_afterwards(
    browser: Browser, tmp_path: Path
) -> None:
    rules = [
        {"when": {"last_user_contains": "slowly"}, "response": [{"text": WORDS}, {"hang": True}]},
        {"when": {}, "response": [{"text": "You said: {{user}}"}]},
    ]
    site = Site()
    async with contextlib.AsyncExitStack() as stack:
        site.origin = f"http://127.0.0.1:{await stack.enter_async_context(serving(site))}"
        port = stack.enter_context(held_port())
        configuration = write_configuration(
            tmp_path,
            [agent("echo", scripted(rules=rules))],
            server={"port": port, "publishable_keys": [{**KEY, "origins": [site.origin]}]},
        )
        first = await stack.enter_async_context(gateway_process(configuration))
        site.gateway = first.client.base_url
        site.page(tag_of("echo"))
        person = await stack.enter_async_context(somebody(browser))
        page = await stack.enter_async_context(visit(person, site.origin, expected="Failed to load resource|ERR_"))
        await page.open()
        await page.ask("Before")
        await page.say("Talk slowly")
        await expect(page.answers.last).to_contain_text("word9 ")
        await first.signal(signal.SIGKILL)
        line = page.page.get_by_role("status").filter(has_text="The connection was lost. Trying to go on")
        await expect(line).to_be_visible()
        await expect(page.answers.last).to_contain_text("word9 ")

        await stack.enter_async_context(gateway_process(configuration))
        await expect(page.banner).to_contain_text("The server stopped in the middle of the answer. Try again.")
        await expect(line).to_have_count(0)
        await page.ask("After")
        await expect(page.answers.last).to_have_text("You said: After")
        await page.page.reload()
        await expect(page.questions).to_have_text(["Before", "Talk slowly", "After"])  # the thread is still theirs


async def test_a_visitor_waits_until_the_shop_approves_and_then_sees_what_came_of_it(
    browser: Browser, tmp_path: Path
) -> None:
    refund = {"type": "PythonTool", "parameters": {"function": "gateway.sample_tools:refund"}, "approval": "always"}
    asks: dict[str, Any] = {"tool": "refund", "arguments": {"order_id": "1234", "amount": 20}}
    clerk = agent("clerk", scripted([asks], [{"text": "It is refunded."}]), tools=[refund])
    staff = {"name": "staff", "key": "staff-0123456789abcdef", "approvals": True}
    keys: dict[str, Any] = {"publishable_keys": [{**KEY, "agents": ["clerk"]}], "api_keys": [staff]}
    async with neighbours(tmp_path, [clerk], cors_origins=[], **keys) as (site, gateway):
        site.page(tag_of("clerk"))
        async with somebody(browser) as person, visit(person, site.origin) as page:
            await page.open()
            await page.say("refund 1234")
            card = page.panel.get_by_role("group", name="Approval needed")
            await expect(card).to_contain_text("“refund” waits for somebody else’s approval.")
            await expect(card.get_by_role("button")).to_have_text(["Cancel"])
            await page.expect_accessible("a question for somebody else")

            gateway.client.http.headers["authorization"] = f"Bearer {staff['key']}"
            [approval] = (await gateway.client.get("/approvals"))["approvals"]
            answer = await gateway.client.http.post(f"/approvals/{approval['id']}", json={"approved": True})

            assert answer.status_code == 202
            await expect(page.answers.last).to_have_text("It is refunded.")
            await expect(card).to_have_count(0)
