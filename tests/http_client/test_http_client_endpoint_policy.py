"""Which endpoints the agents of callers reach. Nothing here leaves the machine: names and addresses are stubs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import yarl

from gateway.clock import SystemClock
from gateway.errors import ConfigurationError, ModelError, ModelErrorKind
from gateway.http_client.clients import HttpCall, HttpClients
from gateway.http_client.endpoint_policy import EndpointPolicy
from tests.openai_chat_server import Script
from tests.stub_internet import PUBLIC, internet

TRUSTED = r"^https://api\.example\.com/.*$"
# as OpenSearch's own default has it
GREEDY = r"^https://bedrock-runtime\..*[a-z0-9-]\.amazonaws\.com/.*$"


@pytest.mark.parametrize(
    "url", ["https://api.example.com/v1/chat", "https://api.example.com:443/v1", "https://API.example.com/"]
)
def test_a_url_that_a_pattern_matches_may_be_called(url: str) -> None:
    assert EndpointPolicy([r"^https://other\.example/.*$", TRUSTED]).refusal(url) is None


@pytest.mark.parametrize(
    "url",
    [
        "http://api.example.com/v1",
        "https://api.example.com.evil.test/v1",
        "https://evil.test/https://api.example.com/v1",
        "https://api.example.com@evil.test/v1",
        "https://user:word@api.example.com/v1",
        "https://api.example.com:8443/v1",
        "https://apiXexample.com/v1",
        "https://evil.test\\@api.example.com/v1",
        "https://evil.test#@api.example.com/v1",
        "https://evil.test?@api.example.com/v1",
        "https://api.example.com\n.evil.test/v1",
        "https://аpi.example.com/v1",
        "ftp://api.example.com/v1",
        "file:///etc/passwd",
        "",
    ],
)
def test_what_only_looks_like_a_trusted_endpoint_is_refused(url: str) -> None:
    assert EndpointPolicy([TRUSTED]).refusal(url)


@pytest.mark.parametrize(
    "url",
    ["https://bedrock-runtime.evil.test/x.amazonaws.com/y", "https://bedrock-runtime.evil.test/.a.amazonaws.com/"],
)
def test_a_pattern_for_the_host_does_not_reach_into_the_path(url: str) -> None:
    policy = EndpointPolicy([GREEDY])
    assert policy.refusal(url)
    assert policy.refusal("https://bedrock-runtime.eu-west-1.amazonaws.com/model/x/converse") is None


@pytest.mark.parametrize(
    "pattern", ["https://mcp.example.com", r"^https://mcp\.example\.com$", r"^https?://.*\.example\.com(:8443)?$"]
)
def test_a_pattern_that_is_an_origin_trusts_the_paths_of_that_origin_alone(pattern: str) -> None:
    policy = EndpointPolicy([pattern])
    for url in ("", "/", "/mcp", "/sse?session=1", "/a/b"):
        assert policy.refusal(f"https://mcp.example.com{url}") is None
    for url in (
        "https://mcp.example.com.evil.test/mcp",
        "https://evil.test/https://mcp.example.com",
        "https://mcp.example.com@evil.test/",
        "https://mcp.example.com:9999/mcp",
        "ftp://mcp.example.com/mcp",
    ):
        assert policy.refusal(url)


def test_a_pattern_with_a_path_trusts_that_path_alone() -> None:
    policy = EndpointPolicy([r"^https://mcp\.example\.com/$", r"^https://mcp\.example\.com/mcp$"])
    assert policy.refusal("https://mcp.example.com") is None
    assert policy.refusal("https://mcp.example.com/mcp") is None
    assert policy.refusal("https://mcp.example.com/other")


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "[::1]",
        "10.1.2.3",
        "169.254.169.254",
        "[fd00:ec2::254]",
        "[::ffff:10.0.0.1]",
        "0x7f000001",
        "127.1",
        "2130706433",
        "0.0.0.0",
    ],
)
def test_an_address_inside_is_refused_though_a_pattern_matches(host: str) -> None:
    assert EndpointPolicy([r"^http://.*/.*$"]).refusal(f"http://{host}/v1")


def test_private_addresses_are_reached_where_the_operator_says_so_but_no_metadata() -> None:
    policy = EndpointPolicy([r"^http://.*/.*$"], private_addresses=True)
    assert policy.refusal("http://127.0.0.1:9200/v1") is None
    assert policy.refusal("http://10.1.2.3/v1") is None
    assert policy.refusal("http://169.254.169.254/latest")
    assert policy.refusal("http://[fd00:ec2::254]/latest")


@pytest.mark.parametrize(
    "pattern", ["", ".*", "api.example.com", "https:/api.example.com/", "https:///.*", "^https://$"]
)
def test_a_pattern_that_names_no_host_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigurationError, match="names no host"):
        EndpointPolicy([pattern])


@pytest.mark.parametrize(
    "pattern", [r"^https://(api\.example\.com/.*$", r"^https://(a/b|c)\.example/.*$", r"^https://[a/"]
)
def test_a_pattern_whose_host_is_no_expression_by_itself_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigurationError, match="not a regular expression"):
        EndpointPolicy([pattern])


def test_a_url_that_two_parsers_read_differently_is_refused() -> None:
    policy = EndpointPolicy([TRUSTED])
    assert policy.refusal("https://api.example.com/v1", sent_to=yarl.URL("https://evil.test/v1"))


TRUSTING = EndpointPolicy([r"^http://[a-z.]+\.example/.*$"])


async def ask(clients: HttpClients, url: str) -> int:
    async with clients.stream(HttpCall("POST", url, {}, b"{}")) as response:
        return response.status


async def refused(clients: HttpClients, url: str) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await ask(clients, url)
    assert caught.value.kind is ModelErrorKind.INVALID
    assert not caught.value.retryable
    assert "10.0.0.1" not in caught.value.message
    return caught.value


async def test_a_call_goes_to_the_address_that_was_checked() -> None:
    async with internet(Script(), endpoints=TRUSTING) as (clients, _, net):
        assert await ask(clients, "http://media.example/v1") == 200
    assert net.reached == [(PUBLIC, 80)]


@pytest.mark.parametrize(
    "addresses", [["10.0.0.1"], [PUBLIC, "10.0.0.1"], ["169.254.169.254"], ["::1"], ["::ffff:10.0.0.1"]]
)
async def test_a_trusted_name_that_leads_inside_is_not_called(addresses: Sequence[str]) -> None:
    async with internet(Script(), endpoints=TRUSTING) as (clients, server, net):
        net.names["media.example"] = addresses
        await refused(clients, "http://media.example/v1")
    assert (net.reached, server.requests) == ([], [])


async def test_a_name_that_turns_inside_after_the_first_call_is_refused() -> None:
    async with internet(Script(headers=[("connection", "close")]), endpoints=TRUSTING) as (clients, server, net):
        assert await ask(clients, "http://media.example/v1") == 200
        net.names["media.example"] = ["10.0.0.1"]
        await refused(clients, "http://media.example/v1")
    assert len(server.requests) == 1


async def test_once_private_addresses_are_closed_no_connection_to_one_is_used_again() -> None:
    policy = EndpointPolicy([r"^http://[a-z.]+\.example/.*$"], private_addresses=True)
    async with internet(Script(), Script(), endpoints=policy) as (clients, server, _):
        url = "http://inner.example/v1"
        async with clients.stream(HttpCall("POST", url, {}, b"{}")) as response:
            await response.read()
        policy.open_private(False)
        await refused(clients, url)
        policy.open_private(True)
        assert await ask(clients, url) == 200
    assert len(server.requests) == 2


async def test_an_endpoint_that_is_not_trusted_is_not_even_resolved() -> None:
    async with internet(Script(), endpoints=TRUSTING) as (clients, _, net):
        await refused(clients, "http://media.test/v1")
        await refused(clients, "http://127.0.0.1/v1")
    assert net.asked == []


@pytest.mark.parametrize("path", ["/team-a/../team-b/", "/team-a/%2e%2e/team-b/", "/team-a/..%2fteam-b/"])
async def test_a_path_that_leaves_its_pattern_is_not_called(path: str) -> None:
    team = EndpointPolicy([r"^http://media\.example/team-a/.*$"])
    assert team.refusal(f"http://media.example{path}", sent_to=yarl.URL(f"http://media.example{path}", encoded=True))
    async with internet(Script(), endpoints=team) as (clients, _, net):
        await refused(clients, f"http://media.example{path}")
    assert net.asked == []


async def test_any_number_of_endpoints_shares_one_client(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []
    open_client = HttpClients._open_client

    def counted(self: HttpClients, *given: Any) -> Any:
        opened.append(given)
        return open_client(self, *given)

    monkeypatch.setattr(HttpClients, "_open_client", counted)
    async with internet(Script(), Script(), Script(), endpoints=TRUSTING) as (clients, server, net):
        for host in ("a.example", "b.example", "a.example"):
            net.names[host] = [PUBLIC]
            assert await ask(clients, f"http://{host}/v1") == 200
    assert [request.headers["host"] for request in server.requests] == ["a.example", "b.example", "a.example"]
    assert len(opened) == 1


async def test_a_redirect_is_not_followed() -> None:
    moved = Script(307, headers=[("location", "http://other.example/v1")])
    async with internet(moved, endpoints=TRUSTING) as (clients, server, net):
        assert await ask(clients, "http://media.example/v1") == 307
    assert net.asked == ["media.example"]
    assert len(server.requests) == 1


async def test_no_proxy_of_the_environment_sees_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    async with internet(Script(), endpoints=TRUSTING, environment_proxies=True) as (clients, _, _net):
        assert await ask(clients, "http://media.example/v1") == 200


async def test_without_a_policy_calls_go_where_the_operator_points_them() -> None:
    async with internet(Script()) as (_, server, _net):
        clients = HttpClients(SystemClock())
        try:
            assert await ask(clients, f"http://127.0.0.1:{server.port}/v1") == 200
        finally:
            await clients.close()
