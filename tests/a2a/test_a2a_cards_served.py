"""A2A over real sockets: who is shown which card."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from tests.a2a_scene import a2a_gateway, of_agent
from tests.openai_scene import ADDER, WORDS

CARD = "/.well-known/agent-card.json"
KEY = "alice-0123456789abcdef"
KEYED: dict[str, Any] = {"api_keys": [{"name": "alice", "key": KEY}]}
SHOWN = {**ADDER, "a2a": {"card": {"name": "Adder", "description": "It adds.", "version": "2.1.0"}}}


async def test_a_private_gateway_shows_a_card_of_each_agent(tmp_path: Path) -> None:
    async with a2a_gateway(tmp_path, [WORDS, ADDER]) as a2a:
        default = (await a2a.http.get(CARD)).json()
        for path in ("/.well-known/agent.json", "/a2a" + CARD, "/a2a/.well-known/agent.json"):
            assert (await a2a.http.get(path)).json() == default
        own = (await a2a.http.get(of_agent("adder") + CARD)).json()
        assert (await a2a.http.get("/agents/adder" + CARD)).json() == own
        assert (await a2a.http.get(of_agent("nobody") + CARD)).status_code == 404
        base = a2a.client.base_url
    assert (default["name"], default["url"]) == ("words", f"{base}/a2a")
    assert own["supportedInterfaces"][0]["url"] == f"{base}/agents/adder/a2a"


async def test_what_a_caller_says_of_proxies_is_not_on_a_card(tmp_path: Path) -> None:
    said = {"x-forwarded-prefix": "/x", "x-forwarded-host": "evil.example", "forwarded": "host=evil.example"}
    async with a2a_gateway(tmp_path) as a2a:
        plain = (await a2a.http.get(CARD)).json()
        assert (await a2a.http.get(CARD, headers=said)).json() == plain


async def test_a_card_is_sent_again_only_once_it_has_changed(tmp_path: Path) -> None:
    async with a2a_gateway(tmp_path) as a2a:
        first = await a2a.http.get(CARD)
        tag = first.headers["etag"]
        for known in (tag, f'"other", W/{tag}', "*"):
            again = await a2a.http.get(CARD, headers={"if-none-match": known})
            assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        other = await a2a.http.get(CARD, headers={"if-none-match": '"other"'})
    assert first.headers["cache-control"].startswith("public, max-age=")
    assert (other.status_code, other.content) == (200, first.content)


async def test_strangers_see_only_the_cards_that_the_operator_wrote(tmp_path: Path) -> None:
    server = {**KEYED, "public_url": "https://agents.example.com/x"}
    async with a2a_gateway(tmp_path, [WORDS, SHOWN], server=server) as a2a:
        hidden = await a2a.http.get(CARD)
        shown = await a2a.http.get(of_agent("adder") + CARD)
        assert (await a2a.http.get(of_agent("words") + CARD)).status_code == 404
        assert (await a2a.http.post("/a2a", json={})).status_code == 401
    assert (hidden.status_code, hidden.json()["error"]["status"]) == (404, "NOT_FOUND")
    card = shown.json()
    assert (card["name"], card["description"], card["version"]) == ("Adder", "It adds.", "2.1.0")
    assert card["supportedInterfaces"][0]["url"] == "https://agents.example.com/x/agents/adder/a2a"
    assert card["securitySchemes"]
    assert card["capabilities"]["extendedAgentCard"] is True
    assert [skill["id"] for skill in card["skills"]] == ["adder"]


async def test_the_default_agent_s_card_may_be_written_for_the_protocol(tmp_path: Path) -> None:
    sections = {"protocols": {"a2a": {"card": {"name": "Front desk"}}}}
    async with a2a_gateway(tmp_path, [WORDS, SHOWN], server=KEYED, sections=sections) as a2a:
        assert (await a2a.http.get(CARD)).json()["name"] == "Front desk"
        assert (await a2a.http.get(of_agent("adder") + CARD)).json()["name"] == "Adder"


async def test_a_key_shows_the_agent_s_tools_on_its_card(tmp_path: Path) -> None:
    async with a2a_gateway(tmp_path, [WORDS, SHOWN], server=KEYED) as a2a:
        a2a.headers = {"authorization": f"Bearer {KEY}"}
        by_call = await a2a.call("GetExtendedAgentCard", {}, to=of_agent("adder"))
        by_old_call = await a2a.call("agent/getAuthenticatedExtendedCard", None, to=of_agent("adder"))
        by_rest: httpx.Response = await a2a.http.get(of_agent("adder") + "/extendedAgentCard", headers=a2a.headers)
    assert by_call == by_old_call == by_rest.json()
    assert [skill["id"] for skill in by_call["skills"]] == ["adder", "add"]


async def test_a_website_whose_name_leads_here_reads_no_card_that_nobody_wrote(tmp_path: Path) -> None:
    async with a2a_gateway(tmp_path, [WORDS, SHOWN]) as a2a:
        rebound = {"host": "rebound.example.org"}
        assert (await a2a.http.get(CARD, headers=rebound)).status_code == 404
        assert (await a2a.http.get(of_agent("adder") + CARD, headers=rebound)).status_code == 200
        assert (await a2a.http.get(CARD, headers={"host": "localhost:8000"})).status_code == 200
