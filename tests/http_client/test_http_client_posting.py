"""What is posted to URLs of callers: under the fetch policy, without redirects. Nothing here leaves the machine."""

from __future__ import annotations

import asyncio

import pytest

from gateway.errors import InvalidRequestError
from gateway.http_client.clients import HttpClients
from gateway.http_client.fetcher import Fetcher
from tests.movable_clock import MovableClock
from tests.openai_chat_server import Script
from tests.stub_internet import PUBLIC, internet

HOOK = "http://media.example/hook"


async def post(fetcher: Fetcher, url: str = HOOK) -> int:
    headers = {"content-type": "application/json", "authorization": "Bearer x"}
    return await fetcher.post(url, headers=headers, content=b"{}", timeout_seconds=10)


async def refusal(fetcher: Fetcher, url: str = HOOK) -> str:
    with pytest.raises(InvalidRequestError) as caught:
        await post(fetcher, url)
    return caught.value.code


async def test_a_body_is_posted_to_the_address_that_was_checked() -> None:
    async with internet(Script(202)) as (clients, server, net):
        assert await post(clients.fetcher) == 202
        assert (net.asked, net.reached) == (["media.example"], [(PUBLIC, 80)])
        (request,) = server.requests
        assert (request.method, request.target, request.body) == ("POST", "/hook", b"{}")
        assert request.headers["authorization"] == "Bearer x"
        assert request.headers["content-type"] == "application/json"


async def test_a_posted_request_is_never_redirected() -> None:
    for status in (302, 307, 308):
        moved = Script(status, headers=[("location", "http://media.example/elsewhere")])
        async with internet(moved) as (clients, server, _):
            assert await post(clients.fetcher) == status
            assert len(server.requests) == 1


async def test_an_answer_without_an_end_is_not_waited_for() -> None:
    async with internet(Script(pieces=(b"x" * 100_000,), ending="silence")) as (clients, server, _):
        assert await post(clients.fetcher) == 200
        await server.requests[0].disconnected.wait()


async def test_a_name_that_leads_inside_by_the_time_of_the_call_is_refused() -> None:
    async with internet(Script()) as (clients, server, net):
        clients.fetcher.check(HOOK)
        net.names["media.example"] = [PUBLIC, "10.0.0.1"]
        assert await refusal(clients.fetcher) == "fetch_refused"
        assert not server.requests


async def test_a_receiver_that_never_answers_is_left_in_time() -> None:
    clock = MovableClock()
    async with internet(Script(headers_after=asyncio.Event()), clock=clock) as (clients, server, _):
        task = asyncio.create_task(refusal(clients.fetcher))
        request = await server.received()
        await clock.advance(10)
        assert await task == "fetch_failed"
        await request.disconnected.wait()


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/hook",
        "http://169.254.169.254/latest",
        "http://[::1]/",
        "http://2130706433/",
        "https://user:word@media.example/",
        "https://media.example:8443/",
        "ftp://media.example/",
        "nonsense",
    ],
)
async def test_urls_that_the_policy_forbids_are_recognised_before_anything_is_sent(url: str) -> None:
    clients = HttpClients(MovableClock())
    with pytest.raises(InvalidRequestError) as caught:
        clients.fetcher.check(url)
    assert caught.value.code == "fetch_refused"
    assert await refusal(clients.fetcher, url) == "fetch_refused"


async def test_hosts_that_the_operator_opens_may_be_posted_to_on_any_port() -> None:
    async with internet(Script(), allowed_private_hosts=frozenset({"inner.example"})) as (clients, _, net):
        clients.fetcher.check("http://inner.example:9000/")
        assert await post(clients.fetcher, "http://inner.example:9000/") == 200
        assert net.reached == [("10.0.0.1", 9000)]
