"""The page about searches in a cluster: its keys, role and bounds are those of the code."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path

import yaml

from gateway.opensearch import search_body, search_doctor
from gateway.opensearch.ppl import parse_ppl
from gateway.opensearch.search_body import MOST_HITS
from gateway.query_dsl.search_size import MAX_SEARCH_BYTES
from gateway.search_engine import SearchEnvironment, SearchSettings
from gateway.search_engines.opensearch import open_opensearch
from tests.documentation import PAGES, code_words, first_column, section, snippet

PAGE = "docs/search.md"


def test_every_key_is_explained_with_its_default() -> None:
    table = section(PAGE, "Search a cluster")
    defaults = SearchSettings("")

    assert code_words(first_column(table)) == [each.name for each in fields(SearchSettings)]
    assert f"| `timeout_seconds` | {defaults.timeout_seconds:g} |" in table
    assert f"| `max_response_bytes` | {defaults.max_response_bytes:,} |" in table
    assert f"| `identity` | `{defaults.identity}` |" in table


def test_the_role_is_what_doctor_asks_for() -> None:
    role = json.loads(snippet("docs/search.md", "json", "cluster_permissions"))
    configured = yaml.safe_load(snippet("docs/search.md", "yaml", "SEARCH_PASSWORD"))["search"]
    of_cluster, of_indices = search_doctor._ROLE.split(" the index permissions ")
    [on_indices] = role["index_permissions"]

    assert role["cluster_permissions"] == re.findall(r"cluster_\w+", of_cluster)
    assert on_indices["allowed_actions"] == re.split(", | and ", of_indices)
    assert on_indices["index_patterns"] == configured["indices"]


def test_the_url_is_one_of_a_cluster_with_tls() -> None:
    configured = yaml.safe_load(snippet("docs/search.md", "yaml", "SEARCH_PASSWORD"))["search"]
    settings = SearchSettings(configured["url"], tuple(configured["indices"]))

    assert open_opensearch(settings, SearchEnvironment(Path())).address.tls


def test_the_bounds_are_those_of_the_code() -> None:
    said = section(PAGE, "Bounds")

    assert f"at most {MAX_SEARCH_BYTES:,} bytes, {search_body._MOST_LEVELS} levels, {MOST_HITS:,} hits" in said
    assert f"{search_body._MOST_NAMES} other indices" in said


def test_what_is_said_to_be_refused_is_refused() -> None:
    [said] = re.findall(r"refuses what it does not know by its name: (.+?)\.", PAGES[PAGE], re.DOTALL)

    for name in code_words(said):
        for known in (search_body._QUERIES, search_body._BODY, search_body._AGGREGATIONS):
            rule = known.get(name)
            assert rule is None or rule.__qualname__.startswith("_refused")


def test_the_commands_of_ppl_are_those_that_are_named() -> None:
    named = code_words(section(PAGE, "Tools").split("nothing else. Behind it come")[1].split("other commands")[0])

    for name in named:
        parse_ppl(f"source = books | {name} x")
