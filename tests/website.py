"""A website with a publishable key, and its visitors, for tests: they speak to a real gateway over real sockets."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from tests.running_gateway import (
    Frame,
    GatewayClient,
    LocalGateway,
    agent,
    local_gateway,
    parse_frames,
    run_body,
    scripted,
)

SHOP, BLOG = "https://shop.example", "https://blog.example:8443"
SHOP_KEY, BLOG_KEY = "pk_shop_0123456789abcdef", "pk_blog_0123456789abcdef"
ALICE_KEY = "alice-0123456789abcdef"
SAYS = "hello there"

AGENTS = [
    agent("helper", scripted([{"text": SAYS}])),
    agent("sleeper", scripted([{"text": "zzz "}, {"hang": True}]), on_disconnect="continue"),
    agent("internal", scripted([{"text": "a trade secret"}])),
]


def keys(shop: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A `server` section. `shop` are limits of the shop's key; all others are off."""
    off = dict.fromkeys(
        (
            *("runs_per_minute", "concurrent_runs", "visitor_runs_per_minute", "visitor_concurrent_runs"),
            *("address_runs_per_minute", "visitors_per_minute", "address_visitors_per_minute"),
        )
    )
    return {
        "publishable_keys": [
            {
                "name": "shop",
                "key": SHOP_KEY,
                "origins": [SHOP, "http://localhost:3000"],
                "agents": ["helper", "sleeper"],
                "limits": {**off, **(shop or {})},
            },
            {"name": "blog", "key": BLOG_KEY, "origins": [BLOG], "agents": ["helper"], "limits": off},
        ],
        "api_keys": [{"name": "alice", "key": ALICE_KEY}],
        "drain_seconds": 0,
        "trusted_proxies": ["127.0.0.1"],  # a test says from where a visitor comes
        **more,
    }


class Visitor:
    """Somebody's browser on a page of `origin`, who has been welcomed."""

    def __init__(self, gateway: GatewayClient, token: str, origin: str = SHOP, address: str | None = None) -> None:
        self.http = gateway.http
        self.token = token
        self.headers = {"origin": origin, "authorization": f"Bearer {token}"}
        if address is not None:
            self.headers["x-forwarded-for"] = address

    async def run(self, agent_id: str = "helper", *, headers: Mapping[str, str] | None = None, **body: Any) -> Answer:
        return Answer(
            await self.http.post(
                f"/agents/{agent_id}/run", json=run_body(**body), headers={**self.headers, **(headers or {})}
            )
        )

    @contextlib.asynccontextmanager
    async def stream(self, agent_id: str = "sleeper", **body: Any) -> AsyncGenerator[httpx.Response]:
        """A run's answer whose body is not read."""
        request = self.http.stream("POST", f"/agents/{agent_id}/run", json=run_body(**body), headers=self.headers)
        async with request as response:
            yield response

    async def ask(self, method: str, path: str, **more: Any) -> Answer:
        return Answer(await self.http.request(method, path, headers=self.headers, **more))


class Answer:
    """What came back: `status`, `code` where it is a problem."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.status = response.status_code

    @property
    def code(self) -> str:
        code: str = self.response.json()["code"]
        return code

    @property
    def json(self) -> Any:
        return self.response.json()

    @property
    def frames(self) -> Sequence[Frame]:
        return parse_frames(self.response.content)

    @property
    def types(self) -> Sequence[str]:
        return [frame.type for frame in self.frames]

    @property
    def last(self) -> Any:
        """The stream's terminal event."""
        return self.frames[-1].data

    @property
    def retry_after(self) -> int:
        return int(self.response.headers["retry-after"])


async def greet(
    gateway: GatewayClient,
    former: str | None = None,
    *,
    key: str = SHOP_KEY,
    origin: str | None = SHOP,
    address: str | None = None,
) -> Answer:
    """POST /visitors."""
    headers = {"authorization": f"Bearer {key}"}
    headers |= {} if origin is None else {"origin": origin}
    headers |= {} if address is None else {"x-forwarded-for": address}
    body = {} if former is None else {"visitorToken": former}
    return Answer(await gateway.http.post("/visitors", json=body, headers=headers))


async def visitor(
    gateway: GatewayClient, *, key: str = SHOP_KEY, origin: str = SHOP, address: str | None = None
) -> Visitor:
    """Somebody new."""
    answer = await greet(gateway, key=key, origin=origin, address=address)
    assert answer.status == 201, answer.response.text
    return Visitor(gateway, answer.json["visitorToken"], origin, address)


@contextlib.asynccontextmanager
async def website(
    directory: Path, shop: Mapping[str, Any] | None = None, *, clock: Any = None, **server: Any
) -> AsyncGenerator[LocalGateway]:
    """A gateway with a shop's and a blog's publishable keys, and alice's API key."""
    async with local_gateway(directory, AGENTS, clock=clock, server=keys(shop, **server), search=None) as local:
        yield local
