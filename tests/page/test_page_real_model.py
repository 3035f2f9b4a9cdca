"""The page before an operator's own agent, whose model is a real one: nothing of the demonstration is there."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Route, expect

from tests.ml_commons_scene import LOOPBACK
from tests.openai_chat_server import ChatServer, Script, chat_server, completion
from tests.page_browser import DEMONSTRATION, shown_page
from tests.running_gateway import agent, scripted

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.thorough]


def own_agent(server: ChatServer, **more: Any) -> dict[str, Any]:
    model = {"model_provider": "openai/v1/chat/completions", "model_id": "m", "endpoint": server.endpoint}
    return agent("own", {**model, "credential": {"openai_api_key": "sk-test"}}, name="Own", **more)


async def test_a_real_model_is_sent_none_of_the_demonstrations_tools(browser: Browser, tmp_path: Path) -> None:
    async with chat_server() as server, shown_page(browser, tmp_path, [own_agent(server), DEMONSTRATION]) as screen:
        server.answers(completion("Hello."))
        await screen.ask("Hi")
        await expect(screen.answers.last).to_contain_text("Hello.")
        await expect(screen.page.get_by_role("complementary", name="This page’s form")).to_have_count(0)
        await expect(screen.button("This page’s form")).to_have_count(0)
        await screen.page.get_by_label("Agent").select_option("Assistant")
        await expect(screen.button("This page’s form")).to_be_visible()
        await screen.ask("Use the dark theme")
        await expect(screen.card("set_theme")).to_have_attribute("data-status", "done")
    assert [request.json.get("tools") for request in server.requests] == [None]


async def test_what_a_wrong_key_breaks_is_not_offered_again_and_is_told_to_the_operator(
    browser: Browser, tmp_path: Path
) -> None:
    async with chat_server() as server, shown_page(browser, tmp_path, [own_agent(server)]) as screen:
        refusal = b'{"error": {"message": "Incorrect API key provided"}}'
        server.answers(Script(401, [refusal], "application/json", framing="length"))
        await screen.say("Hi")
        await expect(screen.banner).to_contain_text("The model cannot be asked.")
        await expect(screen.banner).to_contain_text("model_authentication:")
        await expect(screen.banner).to_contain_text("Request ")
        await expect(screen.banner.get_by_role("button", name="Try again")).to_have_count(0)


async def test_a_problem_that_has_no_words_of_the_page_is_told_once_and_by_its_code(
    browser: Browser, tmp_path: Path
) -> None:
    told = {"code": "odd_thing", "detail": "Something odd has happened."}
    async with shown_page(browser, tmp_path, expected=["status of 422"]) as screen:
        await screen.page.route("**/run", lambda route: route.fulfill(status=422, body=json.dumps(told)))
        await screen.say("Hi")
        await expect(screen.banner.locator("p")).to_have_text(["Something odd has happened.", "odd_thing"])


async def test_nothing_is_sent_to_the_agent_of_before_while_another_one_is_chosen(
    browser: Browser, tmp_path: Path
) -> None:
    echo = scripted(rules=[{"when": {}, "response": [{"text": "You said: {{user}}"}]}])
    agents = [agent("first", echo, name="First"), agent("second", echo, name="Second")]
    release = asyncio.Event()

    async def hold(route: Route) -> None:
        await release.wait()
        await route.continue_()

    async with shown_page(browser, tmp_path, agents) as screen:
        assert screen.gateway is not None
        await screen.page.route("**/agents/second/capabilities", hold)
        await screen.page.get_by_label("Agent").select_option("Second")
        await expect(screen.composer).to_have_count(0)
        release.set()
        await screen.ask("Hello")
        [thread] = (await screen.gateway.client.get("/threads"))["threads"]
    assert thread["agentId"] == "second"


async def test_a_conversation_whose_agent_is_gone_says_so_and_lets_the_person_choose(
    browser: Browser, tmp_path: Path
) -> None:
    echo = scripted(rules=[{"when": {}, "response": [{"text": "You said: {{user}}"}]}])
    agents = [agent("first", echo, name="First"), agent("second", echo, name="Second")]
    async with chat_server() as server, shown_page(browser, tmp_path, agents, callers=LOOPBACK) as screen:
        server.answers(completion("Hello."))
        assert screen.gateway is not None
        http = screen.gateway.client.http
        made = await http.put("/agents/third", json={"name": "Third", "model": own_agent(server)["model"]})
        assert made.status_code == 201, made.text
        await screen.page.reload()
        await screen.page.get_by_label("Agent").select_option("Third")
        await screen.ask("Hello")
        await http.delete("/agents/third")
        await screen.page.reload()
        gone = screen.page.get_by_text("The agent of this conversation is no longer there. First answers")
        await expect(gone).to_be_visible()
        await expect(screen.answers.last).to_contain_text("Hello.")
        await screen.page.get_by_label("Agent").select_option("Second")
        await expect(screen.page.get_by_text("no longer there. Second answers")).to_be_visible()
        await expect(screen.questions).to_have_text(["Hello"])
        await expect(screen.answers.last).to_contain_text("Hello.")
        await screen.expect_idle()
        await screen.ask("Again")
        await expect(screen.answers.last).to_contain_text("You said: Again")
        [thread] = (await http.get("/threads")).json()["threads"]
        assert thread["agentId"] == "second"
