"""Only a gateway of the same store can say who a request's client is, only for this request, and only for a while."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import replace

import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from gateway.cluster.entry import HopEntry
from gateway.cluster.signatures import HOPPED, Hop, HopSignatures, read_hop, target_of, write_hop
from gateway.errors import ForbiddenError
from gateway.wire.mounts import below_mount
from tests.hop_scene import SECRET, Neighbours, hopping
from tests.movable_clock import MovableClock
from tests.running_gateway import NO_TLS

HOP = Hop(1_800_000_000, "https", ("2001:db8::1", 4711), "a", "b", "0" * 64)
TARGET = "/threads/t1?cursor=7"
BODY = b'{"text": "hello"}'


@pytest.mark.parametrize("client", [("10.0.0.1", 1), ("fe80::1%eth0", 65_535), ("a;b~c ä", 0), None])
def test_a_header_says_what_was_written(client: tuple[str, int] | None) -> None:
    hop = replace(HOP, client=client)
    text = write_hop(hop, "POST", TARGET, SECRET)
    assert read_hop(text, "POST", TARGET, SECRET) == hop
    assert text.isascii()
    assert text.isprintable()


def test_a_header_is_of_one_request_and_one_store() -> None:
    text = write_hop(HOP, "POST", TARGET, SECRET)
    assert read_hop(text, "PUT", TARGET, SECRET) is None
    assert read_hop(text, "POST", "/threads/t2?cursor=7", SECRET) is None
    assert read_hop(text, "POST", "/threads/t1", SECRET) is None
    assert read_hop(text, "POST", TARGET, b"another secret") is None


@pytest.mark.parametrize("text", ["", ";", "1", "1;2;3", "ä", "x" * 5_000, "1;0;http;;0;a;b;;" + "0" * 64])
def test_anything_else_is_no_header(text: str) -> None:
    assert read_hop(text, "POST", TARGET, SECRET) is None


def test_a_changed_header_is_none() -> None:
    text = write_hop(HOP, "POST", TARGET, SECRET)
    for place in range(len(text)):
        changed = text[:place] + ("0" if text[place] != "0" else "1") + text[place + 1 :]
        assert read_hop(changed, "POST", TARGET, SECRET) is None, place
        assert read_hop(text[:place], "POST", TARGET, SECRET) is None


# --- the entry


def scope_of(header: str = "", **more: object) -> Scope:
    headers = [(b"agui-gateway-hop", header.encode())] if header else []
    return {
        "type": "http", "method": "POST", "path": "/threads/t1", "raw_path": b"/threads/t1", "query_string": b"",
        "scheme": "http", "client": ("10.9.9.9", 1), "headers": [(b"x-a", b"1"), *headers], "state": {}, **more,
    }  # fmt: skip


class Seen:
    """An application that reads a request and notes it."""

    def __init__(self) -> None:
        self.scope: Scope = {}
        self.body = b""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        while (message := await receive())["type"] == "http.request":
            self.body += message["body"]
            if not message["more_body"]:
                return


async def entered(scope: Scope, *pieces: bytes, own_id: str = "b", seconds: float = 0, secret: bytes = SECRET) -> Seen:
    """What is behind the entry of a gateway."""
    clock = MovableClock()
    await clock.advance(seconds)
    messages: list[Message] = [{"type": "http.request", "body": each, "more_body": True} for each in pieces]
    messages[-1]["more_body"] = False
    given = iter(messages)

    async def receive() -> Message:
        return next(given)

    async def send(message: Message) -> None:
        raise AssertionError

    seen = Seen()
    await HopEntry(seen, HopSignatures(Neighbours(own_id, {}), clock, secret))(scope, receive, send)
    return seen


def header(body: bytes = BODY, scope: Scope | None = None) -> str:
    """The header as the gateway `a` writes it for `b`."""
    scope = {**(scope or scope_of()), "scheme": "https", "client": ("192.0.2.7", 4711)}
    signatures = HopSignatures(Neighbours("a", {}), MovableClock(), SECRET)
    return signatures.header_for(scope, "b", hashlib.sha256(body).hexdigest())


async def test_a_request_comes_in_as_its_client_sent_it() -> None:
    seen = await entered(scope_of(header()), BODY[:5], BODY[5:])
    assert (seen.scope["client"], seen.scope["scheme"], seen.body) == (("192.0.2.7", 4711), "https", BODY)
    assert seen.scope["headers"] == [(b"x-a", b"1")]
    assert seen.scope["state"][HOPPED]


async def test_a_request_without_the_header_is_left_alone() -> None:
    scope = scope_of()
    assert (await entered(scope, BODY)).scope is scope


async def test_a_mounted_gateway_knows_the_path_below_its_mount() -> None:
    mounted = scope_of(root_path="/chat", path="/chat/threads/t1", raw_path=b"/chat/threads/t1")
    signed = header(scope=below_mount(mounted))
    mounted["headers"] = scope_of(signed)["headers"]
    seen = await entered(mounted, BODY)
    assert (seen.scope["client"], seen.scope["path"]) == (("192.0.2.7", 4711), "/threads/t1")
    assert seen.scope["state"][HOPPED]


@pytest.mark.parametrize(
    "gateway",
    [{"own_id": "c"}, {"seconds": 31}, {"secret": b"another"}, {"secret": b""}],
    ids=["of another gateway", "too old", "of another store", "before the store is open"],
)
async def test_a_header_that_is_not_right_is_taken_away(
    gateway: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        seen = await entered(scope_of(header()), BODY, **gateway)  # type: ignore[arg-type]
    assert seen.scope["client"] == ("10.9.9.9", 1)
    assert seen.scope["headers"] == [(b"x-a", b"1")]
    assert [record.levelname for record in caplog.records] == ["WARNING"]


async def test_clocks_may_differ_by_30_seconds() -> None:
    seen = await entered(scope_of(header()), BODY, seconds=30)
    assert seen.scope["client"] == ("192.0.2.7", 4711)


@pytest.mark.parametrize("pieces", [(BODY[:-1],), (BODY, b"x"), (b"",), (BODY.upper(),)])
async def test_another_body_than_the_signed_one_is_refused(pieces: tuple[bytes, ...]) -> None:
    with pytest.raises(ForbiddenError):
        await entered(scope_of(header()), *pieces)


async def test_another_body_gets_the_client_an_error() -> None:
    async def read(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass
        raise AssertionError

    clock = MovableClock()
    async with hopping("b", read, {}, clock=clock) as gateway, httpx.AsyncClient(verify=NO_TLS) as client:
        url = f"http://127.0.0.1:{gateway.port}/threads/t1"
        answer = await client.post(url, json={}, headers={"agui-gateway-hop": header()})
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


@pytest.mark.parametrize("path", [b"/a|b", b"/../x", b"/%zz", b"/\xc3\xa4", b"/plain/a%2Fb"])
def test_the_spelling_of_a_target_is_its_own_spelling(path: bytes) -> None:
    once = target_of({"raw_path": path, "query_string": path})
    again, _, query = once.partition("?")
    assert target_of({"raw_path": again.encode(), "query_string": query.encode()}) == once
