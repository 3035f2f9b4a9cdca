"""What may be fetched for a caller or a model. Nothing here leaves the machine: names and addresses are stubs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gateway.clock import SystemClock
from gateway.errors import InvalidRequestError
from gateway.http_client.clients import HttpClients
from gateway.http_client.fetch_policy import address_allowed
from gateway.http_client.special_addresses import SPECIAL_RANGES, SpecialRange
from tests.local_certificate import tls_contexts, write_certificate
from tests.movable_clock import MovableClock
from tests.openai_chat_server import Script
from tests.stub_internet import PUBLIC, internet

NEVER = [
    "169.254.169.254",
    "169.254.0.1",
    "fe80::1",
    "fd00:ec2::254",
    "168.63.129.16",
    "100.100.100.200",
    "0.0.0.0",
    "::",
    "224.0.0.1",
    "ff02::1",
    "255.255.255.255",
    "240.0.0.1",
    "192.0.0.192",
    "192.0.2.1",
    "198.18.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b:1::1",
    "2002:7f00:1::",
    "2001:0:1::1",
    "::127.0.0.1",
    "::ffff:169.254.169.254",
    "2001:db8::1",
    "fec0::1",
    "3fff::1",
    "192.88.99.1",
    "::ffff:192.88.99.1",
    "100::1",
    "100:0:0:1::1",
    "5f00::1",
    "2001:2::1",
    "2001:1ff::1",
    "4000::1",
    "fe00::1",
    "fd20:ce::254",
    "fe80::1%eth0",
    "nonsense",
    "",
]
PRIVATE = ["127.0.0.1", "127.8.8.8", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "::1"]
PRIVATE += ["fc00::1", "fd12:3456::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1"]


@pytest.mark.parametrize("address", NEVER)
def test_some_addresses_are_never_fetched_from(address: str) -> None:
    assert not address_allowed(address)
    assert not address_allowed(address, private_allowed=True)


@pytest.mark.parametrize("special", SPECIAL_RANGES, ids=lambda special: str(special.network))
def test_no_end_of_a_special_range_is_fetched_from(special: SpecialRange) -> None:
    for address in (special.network[0], special.network[-1]):
        assert not address_allowed(str(address))
        if not special.is_private:
            assert not address_allowed(str(address), private_allowed=True)


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_are_fetched_from_only_where_allowed(address: str) -> None:
    assert not address_allowed(address)
    assert address_allowed(address, private_allowed=True)


@pytest.mark.parametrize("address", [PUBLIC, "1.1.1.1", "172.32.0.1", "2606:4700::1111", "::ffff:1.1.1.1"])
def test_public_addresses_are_fetched_from(address: str) -> None:
    assert address_allowed(address)


def moved(location: str, status: int = 302) -> Script:
    return Script(status, headers=[("location", location)])


PICTURE = Script(pieces=(b"PNG", b"..."), content_type="Image/PNG; q=1")


async def refusal(clients: HttpClients, url: str, **more: Any) -> str:
    """The code of the error; its message must not tell what the inside looks like."""
    with pytest.raises(InvalidRequestError) as caught:
        await clients.fetcher.fetch(url, **{"max_bytes": 1000, **more})
    assert "10.0.0.1" not in caught.value.message
    return caught.value.code


async def test_a_public_url_is_fetched_from_the_address_that_was_checked() -> None:
    async with internet(PICTURE) as (clients, server, net):
        fetched = await clients.fetcher.fetch("http://media.example/a%20b.png?x=1#part", max_bytes=1000)
    assert (fetched.content, fetched.media_type, fetched.status) == (b"PNG...", "image/png", 200)
    assert (net.asked, net.reached) == (["media.example"], [(PUBLIC, 80)])
    (request,) = server.requests
    assert (request.method, request.target) == ("GET", "/a%20b.png?x=1")
    assert request.headers == {
        "host": "media.example",
        "accept": "*/*",
        "accept-encoding": "identity",
        "connection": "close",
        "user-agent": "agui-gateway",
    }


@pytest.mark.parametrize(
    "addresses", [["10.0.0.1"], [PUBLIC, "10.0.0.1"], ["169.254.169.254"], ["::1", PUBLIC], ["::ffff:127.0.0.1"]]
)
async def test_a_name_with_any_address_inside_is_refused_unasked(addresses: list[str]) -> None:
    async with internet(PICTURE) as (clients, server, net):
        net.names["media.example"] = addresses
        assert await refusal(clients, "http://media.example/") == "fetch_refused"
        assert (server.requests, net.reached) == ([], [])


async def test_a_name_that_changes_its_address_after_the_check_changes_nothing() -> None:
    async with internet(PICTURE) as (clients, _, net):
        answers = iter([[PUBLIC], ["127.0.0.1"]])

        async def rebinding(host: str, port: int) -> Sequence[str]:
            net.asked.append(host)
            return next(answers)

        clients = HttpClients(SystemClock(), resolver=rebinding, route=net.route)
        assert (await clients.fetcher.fetch("http://media.example/", max_bytes=1000)).content == b"PNG..."
    assert (net.asked, net.reached) == (["media.example"], [(PUBLIC, 80)])


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://127.1/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0x7f.0.0.1/",
        "http://0177.0.0.1/",
        "http://[::1]/",
        "http://[::]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://[fe80::1%25eth0]/",
        "http://0.0.0.0/",
        "http://169.254.169.254/latest/meta-data/",
        "http://inner.example/",
        "http://①②⑦.⓪.⓪.①/",
        "http://user@media.example/",
        "http://user:secret@media.example/",
        "http://media.example@127.0.0.1/",
        "http://media.example\\@127.0.0.1/",
        "http://media.example/a b",
        "http://media.example/\r\nx: y",
        "file:///etc/passwd",
        "gopher://media.example/",
        "ftp://media.example/",
        "data:text/plain,x",
        "//media.example/",
        "media.example",
        "http:///x",
        "http://",
        "",
        "http://media.example:99999/",
        "http://media.example:22/",
        "http://[::1/",
        "http://media.example/" + "x" * 9000,
    ],
)
async def test_urls_that_lead_elsewhere_are_refused_unasked(url: str) -> None:
    async with internet(PICTURE) as (clients, server, net):
        assert await refusal(clients, url) == "fetch_refused"
        assert (server.requests, net.reached) == ([], [])


async def test_a_name_that_nobody_knows_has_failed() -> None:
    async with internet() as (clients, _, _net):
        assert await refusal(clients, "http://nowhere.example/") == "fetch_failed"


async def test_three_redirects_are_followed_and_each_is_checked() -> None:
    hops = (moved("/b"), moved("//other.example/c", 307), moved("http://media.example/d", 308), PICTURE)
    async with internet(*hops) as (clients, server, net):
        assert (await clients.fetcher.fetch("http://media.example/a", max_bytes=1000)).content == b"PNG..."
    assert [(request.headers["host"], request.target) for request in server.requests] == [
        ("media.example", "/a"),
        ("media.example", "/b"),
        ("other.example", "/c"),
        ("media.example", "/d"),
    ]
    assert net.asked == ["media.example", "media.example", "other.example", "media.example"]


async def test_a_fourth_redirect_is_one_too_many() -> None:
    async with internet(moved("/again")) as (clients, server, _):
        server.repeat = True
        assert await refusal(clients, "http://media.example/") == "fetch_failed"
        assert len(server.requests) == 4


@pytest.mark.parametrize(
    "location",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://inner.example/",
        "http://127.0.0.1/",
        "file:///etc/passwd",
        "http://user:pw@other.example/",
        "http://media.example:22/",
        "http://[::1/",
        "/a b",
    ],
)
async def test_a_redirect_to_where_nobody_may_go_is_refused(location: str) -> None:
    async with internet(moved(location), PICTURE) as (clients, server, _):
        assert await refusal(clients, "http://media.example/") == "fetch_refused"
        assert len(server.requests) == 1


async def test_headers_and_body_stay_with_the_first_origin() -> None:
    async with internet(moved("/b", 303), moved("http://other.example/c"), PICTURE) as (clients, server, _):
        await clients.fetcher.fetch(
            "http://media.example/a",
            max_bytes=1000,
            method="POST",
            headers={"authorization": "Bearer x"},
            content=b"form",
        )
    sent = [(r.method, r.headers.get("authorization"), r.body) for r in server.requests]
    assert sent == [("POST", "Bearer x", b"form"), ("GET", "Bearer x", b""), ("GET", None, b"")]


async def test_a_body_is_not_carried_to_another_host() -> None:
    async with internet(moved("http://other.example/c", 307)) as (clients, _, _net):
        assert await refusal(clients, "http://media.example/a", method="POST", content=b"x") == "fetch_refused"


@pytest.mark.parametrize(
    "script",
    [
        Script(pieces=(b"x" * 1001,)),
        Script(pieces=(b"x" * 600, b"x" * 600), ending="silence"),
        Script(pieces=(b"x",), framing="length", declared=10**12, ending="silence"),
    ],
    ids=["whole", "without end", "declared"],
)
async def test_more_than_the_limit_is_not_read(script: Script) -> None:
    async with internet(script) as (clients, _, _net):
        assert await refusal(clients, "http://media.example/") == "fetch_too_large"


async def test_as_much_as_the_limit_is_read() -> None:
    async with internet(Script(pieces=(b"x" * 1000,))) as (clients, _, _net):
        assert len((await clients.fetcher.fetch("http://media.example/", max_bytes=1000)).content) == 1000


@pytest.mark.parametrize(
    "script", [Script(headers_after=asyncio.Event()), Script(pieces=(b"x",), ending="silence")], ids=["headers", "body"]
)
async def test_a_server_that_never_ends_is_left_in_time(script: Script) -> None:
    clock = MovableClock()
    async with internet(script, clock=clock) as (clients, server, _):
        task = asyncio.create_task(refusal(clients, "http://media.example/", timeout_seconds=5))
        request = await server.received()
        await clock.advance(5)
        assert await task == "fetch_failed"
        await request.disconnected.wait()


@pytest.mark.parametrize(
    "script",
    [
        Script(404, (b"no",)),
        Script(500),
        Script(304),
        Script(302),
        Script(pieces=(b"x",), ending="close"),
        Script(raw=b"nonsense\r\n\r\n"),
        Script(headers=[("content-encoding", "gzip")]),
    ],
    ids=["404", "500", "304", "no location", "cut", "no HTTP", "compressed"],
)
async def test_what_the_other_side_does_not_deliver_has_failed(script: Script) -> None:
    async with internet(script) as (clients, _, _net):
        assert await refusal(clients, "http://media.example/") == "fetch_failed"


async def test_any_status_is_given_to_who_asks_for_it() -> None:
    async with internet(Script(404, (b"no",), "application/json")) as (clients, _, _net):
        fetched = await clients.fetcher.fetch("http://media.example/", max_bytes=1000, any_status=True)
    assert (fetched.status, fetched.content, fetched.media_type) == (404, b"no", "application/json")


async def test_an_operator_may_open_private_hosts_by_name() -> None:
    async with internet(PICTURE, PICTURE, allowed_private_hosts=frozenset({"inner.example"})) as (clients, _, net):
        assert (await clients.fetcher.fetch("http://inner.example:8080/", max_bytes=1000)).content == b"PNG..."
        assert net.reached == [("10.0.0.1", 8080)]
        net.names["inner.example"] = ["169.254.169.254"]
        assert await refusal(clients, "http://inner.example/") == "fetch_refused"
        net.names["other.example"] = ["10.0.0.2"]
        assert await refusal(clients, "http://other.example/") == "fetch_refused"
        more = frozenset({"other.example"})
        await clients.fetcher.fetch("http://other.example/", max_bytes=1000, allowed_private_hosts=more)


async def test_ports_are_those_that_the_operator_lists() -> None:
    async with internet(PICTURE, fetch_ports=frozenset({8443})) as (clients, _, net):
        assert await refusal(clients, "http://media.example/") == "fetch_refused"
        await clients.fetcher.fetch("http://media.example:8443/", max_bytes=1000)
        assert net.reached == [(PUBLIC, 8443)]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_certificate(tmp_path_factory.mktemp("tls") / "media.pem", "media.example")


async def test_https_asks_for_and_checks_the_name_though_it_connects_to_an_address(certificate: Path) -> None:
    async with internet(PICTURE, tls=tls_contexts(certificate)) as (clients, server, net):
        assert (await clients.fetcher.fetch("https://media.example/", max_bytes=1000)).content == b"PNG..."
        assert server.server_names == ["media.example"]
        assert net.reached == [(PUBLIC, 443)]
        assert await refusal(clients, "https://other.example/") == "fetch_failed"
        assert len(server.requests) == 1


async def test_https_does_not_become_http(certificate: Path) -> None:
    hops = (moved("http://media.example/"), PICTURE)
    async with internet(*hops, tls=tls_contexts(certificate)) as (clients, server, _):
        assert await refusal(clients, "https://media.example/") == "fetch_refused"
        assert len(server.requests) == 1
