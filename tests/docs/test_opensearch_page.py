"""The page about the store in an OpenSearch cluster: its URL, role, indices and settings are those of the code."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest
import yaml

from gateway.clock import SystemClock
from gateway.errors import ConfigurationError
from gateway.opensearch.address import DEFAULT_PREFIX, Address, parse_address
from gateway.opensearch.doctor import examine
from gateway.opensearch.indices import DOCUMENTS, MAPPINGS, SETTINGS
from gateway.opensearch.membership import BEATS_A_LEASE, LEASE_SECONDS
from gateway.opensearch.store import WINDOW
from gateway.store import StoreEnvironment
from tests.documentation import PAGES, ROOT, code_words, first_column, section, snippet
from tests.opensearch_answers import FORBIDDEN, PREFIX, answering_cluster

PAGE = "docs/opensearch.md"
DEADLINE_SECONDS = 30.0


def configured() -> Address:
    url = yaml.safe_load(snippet("docs/opensearch.md", "yaml", "master_keys"))["store"]
    return parse_address(url.replace("${env:OPENSEARCH_PASSWORD}", "a%2Fb"), Path())


def test_the_url_is_one_of_a_cluster_with_tls() -> None:
    address = configured()

    assert (address.host, address.port, address.user, address.tls) == ("search.example.com", 9200, "gateway", True)
    assert address.password is not None
    assert address.password.reveal() == "a/b", "percent-escapes from the environment are decoded"


def test_every_parameter_of_the_url_is_explained() -> None:
    table = section(PAGE, "The URL")
    with pytest.raises(ConfigurationError) as refused:
        parse_address("opensearch://localhost?none=1", Path())
    [known] = re.findall(r"there is (.+)$", str(refused.value))

    assert code_words(first_column(table)) == known.split(", ")
    assert f"| `prefix` | `{DEFAULT_PREFIX}` |" in table
    assert Address("host").port == 9200
    assert not Address("host").tls


async def test_the_role_is_what_doctor_asks_for() -> None:
    prefix = configured().prefix
    role = json.loads(snippet("docs/opensearch.md", "json", "cluster_permissions"))
    async with answering_cluster({"POST /_bulk": (403, FORBIDDEN)}) as cluster, asyncio.timeout(DEADLINE_SECONDS):
        address = parse_address(f"opensearch://127.0.0.1:{cluster.port}?prefix={PREFIX}", Path())
        environment = StoreEnvironment(SystemClock(), Path())
        [asked] = [each.remedy async for each in examine(address, environment) if each.subject == "rights"]
    of_cluster, of_indices = asked.replace(f"'{PREFIX}-*'", f"'{prefix}-*'").split(" the index permissions ")

    assert role.keys() == {"cluster_permissions", "index_permissions"}
    assert role["cluster_permissions"] == re.findall(r"cluster_\w+", of_cluster)
    [on_indices] = role["index_permissions"]
    assert on_indices["index_patterns"] == re.findall(r"'(.+)'", of_cluster)
    assert on_indices["allowed_actions"] == re.split(", | and ", of_indices)


def test_every_index_is_explained() -> None:
    prefix = configured().prefix
    table = first_column(section(PAGE, "What is in the cluster"))

    assert {*code_words(table)} == {f"{prefix}-{name}" for name in {*MAPPINGS, DOCUMENTS}}


def test_the_settings_that_have_to_stay_are_the_store_s() -> None:
    words = code_words(section(PAGE, "What is in the cluster"))

    assert f"index.translog.durability: {SETTINGS['translog']['durability']}" in words
    assert f"index.refresh_interval: {SETTINGS['refresh_interval']}" in words
    assert SETTINGS["number_of_shards"] == 1


def test_pieces_wait_as_long_as_the_pages_say() -> None:
    shortest, longest = (round(seconds * 1000) for seconds in WINDOW)

    assert f"pieces wait up to {shortest} ms, on an overloaded gateway up to {longest} ms" in PAGES[PAGE]
    assert f"({shortest} ms with OpenSearch)" in PAGES["docs/guarantees.md"]


def test_a_place_is_kept_as_long_as_the_page_says() -> None:
    assert f"free {LEASE_SECONDS:.0f} seconds after the last sign of life" in PAGES[PAGE]
    assert f"gives every {LEASE_SECONDS / BEATS_A_LEASE:.0f} seconds" in PAGES[PAGE]


def test_the_commands_are_those_of_the_compose_file() -> None:
    commands = snippet("docs/opensearch.md", "", "docker compose").splitlines()
    said = (ROOT / "deploy" / "compose.opensearch.yaml").read_text("utf-8").splitlines()
    head = [re.split(r" {2,}", line.removeprefix("# "))[0] for line in said if line.startswith("# ")]

    assert commands == head[1:]
