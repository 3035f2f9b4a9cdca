"""Proxies as processes of their own, which speak TLS in front of a local server."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.running_gateway import DEADLINE_SECONDS
from tests.waiting import until_listening

DEPLOY = Path(__file__).parent.parent / "deploy"
NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
NGINX_FRAME = """\
daemon off;
master_process off;
pid {directory}/nginx.pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    include {directory}/agui-gateway.conf;
}}
"""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a proxy stands in a test: what it listens on, and what it passes requests to."""

    directory: Path
    port: int
    plain_port: int
    upstream: str
    certificate: Path


def needs(program: str | None, name: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(program is None and "CI" not in os.environ, reason=f"no {name} is installed here")


def write_bare_nginx(place: Place) -> list[str]:
    """nginx as somebody has it who has read nothing."""
    address = (
        f"127.0.0.1:{place.port} ssl; ssl_certificate {place.certificate}; ssl_certificate_key {place.certificate}"
    )
    return nginx_command(
        place.directory, f"server {{ listen {address}; location / {{ proxy_pass http://{place.upstream}; }} }}"
    )


def replaced(text: str, values: Mapping[str, str]) -> str:
    """A file of `deploy/` for another place: each of these is in it, once."""
    for old, new in values.items():
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in it"
        text = text.replace(old, new)
    return text


def nginx_command(directory: Path, site: str) -> list[str]:
    """nginx with this `server`, and all of its files in this folder."""
    (directory / "agui-gateway.conf").write_text(site, "utf-8")
    (directory / "nginx.conf").write_text(NGINX_FRAME.format(directory=directory), "utf-8")
    return [str(NGINX), "-p", str(directory), "-c", str(directory / "nginx.conf")]


@asynccontextmanager
async def running(command: list[str], place: Place) -> AsyncGenerator[None]:
    """The proxy's process, once it takes connections."""
    log = place.directory / "proxy.log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output, cwd=place.directory,
            env={"PATH": os.environ["PATH"], "HOME": str(place.directory), "XDG_DATA_HOME": str(place.directory)},
        )  # fmt: skip
    try:
        await until_listening(place.port, process, log.read_text)
        yield
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(DEADLINE_SECONDS):
            await process.wait()


needs_nginx = needs(NGINX, "nginx")
