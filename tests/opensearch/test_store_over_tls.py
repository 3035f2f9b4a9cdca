"""A gateway whose cluster is behind nginx, which speaks TLS with a certificate of an authority of one's own."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from gateway.opensearch.address import Address
from gateway.opensearch.cluster import trusted
from tests.fault_scenes import check_kept, store_at
from tests.held_ports import held_port
from tests.invariants import check_nothing_leaks
from tests.local_certificate import write_certificate
from tests.local_proxies import NGINX, Place, needs, running, write_bare_nginx
from tests.opensearch.index_sets import store_url
from tests.running_gateway import agent, gateway_command, local_gateway, run_body, scripted, write_configuration

pytestmark = pytest.mark.thorough

TALKER = agent("talker", scripted([{"text": "some words"}]))
behind_nginx = needs(NGINX, "nginx")


@pytest.fixture
def plain_url(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """The store's URL without the proxy."""
    return store_url("opensearch", tmp_path, request)


@pytest_asyncio.fixture
async def url(tmp_path: Path, plain_url: str) -> AsyncGenerator[str]:
    """The store's URL through the proxy, without what makes its certificate trusted."""
    certificate = write_certificate(tmp_path / "ca.pem", "localhost")
    upstream = urlsplit(plain_url).netloc
    with held_port() as port, held_port() as plain_port:
        place = Place(tmp_path, port, plain_port, upstream, certificate)
        async with running(write_bare_nginx(place), place):
            yield plain_url.replace(upstream, f"localhost:{port}") + "&tls=true"


@behind_nginx
async def test_what_is_said_over_tls_is_in_the_cluster(tmp_path: Path, url: str, plain_url: str) -> None:
    async with local_gateway(tmp_path, [TALKER], store=f"{url}&ca=ca.pem", search=None) as gateway:
        frames = await gateway.client.run("talker", run_body())
        assert frames[-1].type == "RUN_FINISHED"
        threads = (await gateway.client.get("/threads"))["threads"]
        assert [thread["id"] for thread in threads] == ["thread-1"]
    async with store_at(tmp_path, plain_url) as store:
        await check_kept(store, "run-1")


@behind_nginx
async def test_a_certificate_that_is_not_trusted_stops_the_start(tmp_path: Path, url: str) -> None:
    assert "is not trusted; see 'agui-gateway doctor'" in await refusal(tmp_path, url)


@pytest.mark.parametrize(
    ("content", "why"), [(None, "no such file or directory"), ("no certificate", "no certificate or crl found")]
)
async def test_a_file_without_certificates_stops_the_start(tmp_path: Path, content: str | None, why: str) -> None:
    file = tmp_path / "none.pem"
    if content is not None:
        file.write_text(content)
    said = await refusal(tmp_path, "opensearch://localhost?tls=true&ca=none.pem")
    assert f"the file '{file}' of 'ca' has no certificates ({why}); name a PEM file" in said


def test_no_authority_is_trusted_but_that_of_the_file(tmp_path: Path) -> None:
    address = Address("localhost", tls=True, ca=write_certificate(tmp_path / "ca.pem", "localhost"))
    assert len(trusted(address).get_ca_certs()) == 1


async def refusal(directory: Path, url: str) -> str:
    """What a gateway says that does not start with this store."""
    configuration = write_configuration(directory, [TALKER], store=url, search=None)
    code, said = await gateway_command(directory, "serve", "--config", str(configuration))
    assert code == 1
    check_nothing_leaks(said)
    return said
