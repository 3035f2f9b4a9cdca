"""The gateway behind real proxies, configured as `deploy/` says: nothing is held back, nobody is forgotten."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import yaml

from gateway.configuration.sections import ServerSection
from gateway.page import WebPage, read_page
from gateway.server.connection import Connection
from tests.held_ports import held_port
from tests.local_certificate import tls_contexts, write_certificate
from tests.local_proxies import DEPLOY, Place, needs, needs_nginx, nginx_command, replaced, running, write_bare_nginx
from tests.running_gateway import (
    DEADLINE_SECONDS,
    GatewayClient,
    LocalGateway,
    agent,
    local_gateway,
    parse_frames,
    run_body,
    scripted,
)

HANGING = scripted([{"text": "One moment"}, {"hang": True}])
BRIEF = agent("brief", scripted([{"text": "Yes."}]))
PUBLIC_URL = "https://agents.example"

CADDY_FRAME = "{{\n\tadmin off\n\tauto_https disable_redirects\n}}\n{site}"


def write_nginx(place: Place) -> list[str]:
    values = {
        "server 127.0.0.1:8000;": f"server {place.upstream};",
        "listen 80;": f"listen 127.0.0.1:{place.plain_port};",
        "listen 443 ssl http2;": f"listen 127.0.0.1:{place.port} ssl http2;",
        "/etc/ssl/agents.example/fullchain.pem": str(place.certificate),
        "/etc/ssl/agents.example/privkey.pem": str(place.certificate),
    }
    site = replaced((DEPLOY / "nginx.conf").read_text("utf-8"), values)
    return nginx_command(place.directory, site)


def write_nginx_below_a_path(place: Place) -> list[str]:
    """The same beside other things: the gateway is what stands below /chat/."""
    command = write_nginx(place)
    site = place.directory / "agui-gateway.conf"
    values = {
        "location / {": "location /chat/ {",
        "proxy_pass http://agui_gateway;": "proxy_pass http://agui_gateway/;",
    }
    site.write_text(replaced(site.read_text("utf-8"), values), "utf-8")
    return command


def write_caddy(place: Place) -> list[str]:
    values = {
        "agents.example {": f"https://:{place.port} {{\n\ttls {place.certificate} {place.certificate}",
        "reverse_proxy 127.0.0.1:8000 {": f"reverse_proxy {place.upstream} {{",
    }
    site = replaced((DEPLOY / "Caddyfile").read_text("utf-8"), values)
    (place.directory / "Caddyfile").write_text(CADDY_FRAME.format(site=site), "utf-8")
    return [str(CADDY), "run", "--config", str(place.directory / "Caddyfile"), "--adapter", "caddyfile"]


CADDY = shutil.which("caddy")


nginx = pytest.param(write_nginx, id="nginx", marks=needs_nginx)
bare_nginx = pytest.param(write_bare_nginx, id="bare nginx", marks=needs_nginx)
nginx_below_a_path = pytest.param(write_nginx_below_a_path, id="nginx", marks=needs_nginx)
caddy = pytest.param(write_caddy, id="caddy", marks=needs(CADDY, "Caddy"))
needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="no curl is installed here")
by_proxy = pytest.mark.parametrize("write_proxy", [nginx, caddy])


@dataclass(slots=True)
class Proxied:
    """`client` speaks to the gateway through the proxy, `gateway.client` directly."""

    client: GatewayClient
    gateway: LocalGateway
    place: Place


@asynccontextmanager
async def proxied(
    write_proxy: Callable[[Place], list[str]],
    directory: Path,
    *agents: Mapping[str, Any],
    page: WebPage | None = None,
    **server: Any,
) -> AsyncGenerator[Proxied]:
    if "api_keys" not in server:
        server = {"allow_unauthenticated": True, "trusted_proxies": ["127.0.0.1"], **server}
    certificate = write_certificate(directory / "certificate.pem", "localhost")
    async with local_gateway(directory, agents, page=page, server=server) as gateway:
        upstream = urlsplit(gateway.client.base_url).netloc
        with held_port() as port, held_port() as plain_port:
            place = Place(directory, port, plain_port, upstream, certificate)
            async with running(write_proxy(place), place):
                client = GatewayClient(f"https://localhost:{place.port}")
                await client.close()
                trusting = tls_contexts(certificate)[1]
                client.http = httpx.AsyncClient(
                    base_url=client.base_url, timeout=DEADLINE_SECONDS, trust_env=False, verify=trusting
                )
                try:
                    yield Proxied(client, gateway, place)
                finally:
                    await client.close()


# --- streams


@pytest.mark.parametrize("write_proxy", [nginx, bare_nginx])
async def test_a_stream_that_was_cut_off_does_not_look_whole(
    write_proxy: Callable[[Place], list[str]], tmp_path: Path
) -> None:
    """Also where a proxy asks in HTTP/1.0, in which the end of the connection is the end of a stream. (Caddy ends all
    streams alike.)
    """
    async with (
        proxied(write_proxy, tmp_path, agent("slow", HANGING), drain_seconds=0) as through,
        through.client.stream("slow", run_body("hi", run_id="r1")) as stream,
    ):
        await stream.until("TEXT_MESSAGE_CONTENT")
        for connection in list(through.gateway.server.server_state.connections):
            assert isinstance(connection, Connection)
            connection.transport.abort()
        with pytest.raises(httpx.RemoteProtocolError):
            await stream.rest()


@pytest.mark.parametrize("write_proxy", [nginx, bare_nginx, caddy])
async def test_events_and_heartbeats_come_while_the_run_goes_on(
    write_proxy: Callable[[Place], list[str]], tmp_path: Path
) -> None:
    async with (
        proxied(write_proxy, tmp_path, agent("slow", HANGING), heartbeat_seconds=0.1) as through,
        through.client.stream("slow", run_body("hi", run_id="r1")) as stream,
    ):
        await stream.until("TEXT_MESSAGE_CONTENT")
        assert (await through.gateway.client.get("/runs/r1"))["status"] == "running"
        async with asyncio.timeout(DEADLINE_SECONDS):
            while stream.body.count(b": keep-alive\n\n") < 3:
                assert await stream.read()
        await through.client.http.post("/runs/r1/cancel")
        frames = await stream.rest()

    assert stream.response.headers["content-type"].startswith("text/event-stream")
    assert frames[-1].type in ("RUN_FINISHED", "RUN_ERROR")


@by_proxy
async def test_a_client_that_goes_away_is_noticed(write_proxy: Callable[[Place], list[str]], tmp_path: Path) -> None:
    async with proxied(write_proxy, tmp_path, agent("slow", HANGING), disconnect_grace_seconds=0) as through:
        async with through.client.stream("slow", run_body("hi", run_id="r1")) as stream:
            await stream.until("TEXT_MESSAGE_CONTENT")
        run = await through.gateway.client.until_status("r1", "cancelled", "completed", "failed")

    assert run["status"] == "cancelled"


@by_proxy
@needs_curl
async def test_the_same_over_http_2(write_proxy: Callable[[Place], list[str]], tmp_path: Path) -> None:
    async with proxied(write_proxy, tmp_path, agent("slow", HANGING), disconnect_grace_seconds=0) as through:
        async with posting_over_http_2(through, "slow", run_body("hi", run_id="r1")) as answer:
            head = await answer.readuntil(b"\r\n\r\n")
            await answer.readuntil(b"TEXT_MESSAGE_CONTENT")
        run = await through.gateway.client.until_status("r1", "cancelled", "completed", "failed")

    assert head.startswith(b"HTTP/2 200")
    assert run["status"] == "cancelled"


@asynccontextmanager
async def posting_over_http_2(
    through: Proxied, agent_id: str, body: Mapping[str, Any], *headers: str
) -> AsyncGenerator[asyncio.StreamReader]:
    """curl's output, head and all, until the block is left; then curl goes away."""
    process = await asyncio.create_subprocess_exec(
        "curl", "--http2", "--no-buffer", "--silent", "--include", "--cacert", str(through.place.certificate),
        *(word for each in ("Content-Type: application/json", "Expect:", *headers) for word in ("--header", each)),
        "--data-binary", "@-", through.client.run_url(agent_id),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(body).encode())
        process.stdin.close()
        async with asyncio.timeout(DEADLINE_SECONDS):
            yield process.stdout
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@by_proxy
async def test_a_stream_that_was_cut_off_goes_on(write_proxy: Callable[[Place], list[str]], tmp_path: Path) -> None:
    words: list[dict[str, Any]] = [
        {"text": "Once upon a time", "chunk_characters": 1},
        {"delay_seconds": 0.05},
        {"text": " there was."},
    ]
    async with proxied(write_proxy, tmp_path, agent("teller", scripted(words), on_disconnect="continue")) as through:
        async with through.client.stream("teller", run_body("hi", run_id="r1")) as stream:
            await stream.until("TEXT_MESSAGE_CONTENT", 3)
            seen = [frame for frame in stream.frames if frame.id is not None]
        last = {"last-event-id": str(seen[-1].id)}
        rest = parse_frames((await through.client.http.get("/runs/r1/events", headers=last)).content)

    text = "".join(frame.data.get("delta", "") for frame in (*seen, *rest))
    assert text == "Once upon a time there was."
    assert rest[-1].type == "RUN_FINISHED"


# --- requests


@by_proxy
@needs_curl
async def test_a_body_of_ten_megabytes_passes_and_a_larger_one_is_refused_by_the_gateway(
    write_proxy: Callable[[Place], list[str]], tmp_path: Path
) -> None:
    origin = "https://app.example"
    async with proxied(write_proxy, tmp_path, BRIEF, cors_origins=[origin]) as through:
        url = through.client.run_url("brief")
        large = await through.client.http.post(url, json=run_body("x" * 9_900_000), headers={"origin": origin})
        async with posting_over_http_2(through, "brief", run_body("x" * 10_000_000), f"Origin: {origin}") as answer:
            head = await answer.readuntil(b"\r\n\r\n")

    assert large.status_code == 200
    assert parse_frames(large.content)[-1].type == "RUN_FINISHED"
    assert large.headers.get_list("access-control-allow-origin") == [origin]
    assert head.startswith(b"HTTP/2 413")
    assert b"content-type: application/problem+json" in head.lower(), "a proxy's own refusal is no problem document"
    assert head.lower().count(b"access-control-allow-origin: https://app.example") == 1


@by_proxy
async def test_the_gateway_knows_how_it_was_asked(write_proxy: Callable[[Place], list[str]], tmp_path: Path) -> None:
    async with proxied(write_proxy, tmp_path, BRIEF) as through:
        http = through.client.http
        agents = await http.get("/agents", headers={"x-request-id": "from-the-client"})
        # a page of the gateway's own, at the address that the browser knows
        same_origin = await http.get("/agents", headers={"origin": through.client.base_url})
        foreign = await http.get("/agents", headers={"origin": "https://elsewhere.example"})
        unknown_host = await http.get("/agents", headers={"host": "elsewhere.example"})

    assert agents.headers["x-request-id"] == "from-the-client"
    assert agents.headers["strict-transport-security"]
    assert agents.json()["agents"][0]["url"].startswith(f"{through.client.base_url}/")
    assert same_origin.status_code == 200
    assert (foreign.status_code, foreign.json()["code"]) == (403, "origin_not_allowed")
    assert (unknown_host.status_code, unknown_host.json()["code"]) == (403, "host_not_allowed")


@by_proxy
async def test_the_recipe_lets_nobody_in_without_a_key(
    write_proxy: Callable[[Place], list[str]], tmp_path: Path
) -> None:
    key = "a-key-that-is-long-enough"
    text = (DEPLOY / "gateway.yaml").read_text("utf-8").replace("${env:AGUI_GATEWAY_KEY}", key)
    server = yaml.safe_load(text)["server"]
    async with proxied(write_proxy, tmp_path, BRIEF, **server) as through:
        http = through.client.http
        stranger = await http.get("/agents")
        alice = await http.get("/agents", headers={"authorization": f"Bearer {key}"})
        ready = await http.get("/readyz")

    assert server["trusted_proxies"] == ["127.0.0.1"]
    assert (stranger.status_code, alice.status_code) == (401, 200)
    assert (ready.status_code, ready.json()["warnings"]) == (200, [])


@by_proxy
@pytest.mark.parametrize("trusted", [[], ["127.0.0.1"]])
async def test_a_proxy_on_this_machine_is_believed_only_where_it_is_named(
    write_proxy: Callable[[Place], list[str]], tmp_path: Path, trusted: list[str]
) -> None:
    async with proxied(write_proxy, tmp_path, BRIEF, trusted_proxies=trusted) as through:
        agents = await through.client.http.get("/agents")

    expected = "https" if trusted else "http"
    assert urlsplit(agents.json()["agents"][0]["url"]).scheme == expected


@by_proxy
async def test_a_public_url_is_what_the_gateway_is_called(
    write_proxy: Callable[[Place], list[str]], tmp_path: Path
) -> None:
    async with proxied(write_proxy, tmp_path, BRIEF, public_url=PUBLIC_URL) as through:
        agents = await through.client.http.get("/agents", headers={"host": "agents.example", "origin": PUBLIC_URL})

    assert agents.status_code == 200
    assert agents.json()["agents"][0]["url"] == f"{PUBLIC_URL}/agents/brief/run"


@by_proxy
async def test_the_page_keeps_its_encodings_and_tags(write_proxy: Callable[[Place], list[str]], tmp_path: Path) -> None:
    built = tmp_path / "page_files"
    built.mkdir()
    (built / "widget.js").write_text("export {};" * 100)
    (built / "widget.js.br").write_bytes(b"stands for Brotli")
    async with proxied(write_proxy, tmp_path, BRIEF, page=read_page(built)) as through:
        http = through.client.http
        brotli = await http.head("/widget.js", headers={"accept-encoding": "br"})
        again = await http.get("/widget.js", headers={"accept-encoding": "br", "if-none-match": brotli.headers["etag"]})

    assert brotli.headers["content-encoding"] == "br"
    assert brotli.headers["access-control-allow-origin"] == "*"
    assert again.status_code == 304


@pytest.mark.parametrize("write_proxy", [nginx_below_a_path])
async def test_the_gateway_may_stand_below_a_path(write_proxy: Callable[[Place], list[str]], tmp_path: Path) -> None:
    built = tmp_path / "page_files"
    built.mkdir()
    (built / "index.html").write_text('<!doctype html><script type="module" src="./widget.js"></script>')
    (built / "widget.js").write_text("export {};")
    public = f"{PUBLIC_URL}/chat"
    async with proxied(write_proxy, tmp_path, BRIEF, page=read_page(built), public_url=public) as through:
        http = through.client.http
        page, script = await http.get("/chat/"), await http.get("/chat/widget.js")
        agents = await http.get("/chat/agents")
        run = await http.post("/chat/agents/brief/run", json=run_body("hi"))
        outside = await http.get("/agents")

    assert "./widget.js" in page.text
    assert script.text == "export {};"
    assert agents.json()["agents"][0]["url"] == f"{public}/agents/brief/run"
    assert parse_frames(run.content)[-1].type == "RUN_FINISHED"
    assert outside.status_code == 404


@pytest.mark.parametrize("write_proxy", [nginx])
async def test_plain_http_is_sent_to_https(write_proxy: Callable[[Place], list[str]], tmp_path: Path) -> None:
    async with proxied(write_proxy, tmp_path, BRIEF) as through, httpx.AsyncClient(trust_env=False) as http:
        answer = await http.get(
            f"http://127.0.0.1:{through.place.plain_port}/shop?x=1", headers={"host": "agents.example"}
        )

    assert (answer.status_code, answer.headers["location"]) == (301, f"{PUBLIC_URL}/shop?x=1")


def test_nginx_bears_a_longer_silence_than_there_is() -> None:
    [seconds] = re.findall(r"proxy_read_timeout (\d+)s;", (DEPLOY / "nginx.conf").read_text("utf-8"))
    assert int(seconds) >= 60
    heartbeat_seconds = ServerSection().heartbeat_seconds
    assert heartbeat_seconds is not None
    assert int(seconds) > 2 * heartbeat_seconds
