"""The section `search`: a URL, or a mapping with more for a cluster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gateway.configuration.file import InvalidConfigurationError
from gateway.search_engine import SearchSettings
from gateway.settings import Flags, Settings, check_settings, configuration_schema, load_settings, needing_restart

URL = "opensearch://127.0.0.1:9200"
KEYS = "server: {api_keys: [{name: alice, key: 0123456789abcdef}]}\n"


def loaded(directory: Path, text: str, **environ: str) -> Settings:
    file = directory / "f.yaml"
    file.write_text("agents: []\n" + text)
    return load_settings(Flags(config=file), environ=environ)


def checked(directory: Path, text: str) -> str:
    """The problems that `config check` finds."""
    file = directory / "f.yaml"
    file.write_text("agents: []\n" + text)
    with pytest.raises(InvalidConfigurationError) as caught:
        check_settings(Flags(config=file), environ={})
    return caught.value.message


def test_a_text_is_the_url(tmp_path: Path) -> None:
    assert loaded(tmp_path, "search: 'embedded:'").search == SearchSettings("embedded:")
    assert loaded(tmp_path, "search: {url: 'embedded:'}").search == SearchSettings("embedded:")
    assert loaded(tmp_path, "").search == SearchSettings("embedded:sample")
    assert loaded(tmp_path, "search: null").search is None


def test_a_cluster_has_more(tmp_path: Path) -> None:
    more = "indices: [books-*, papers], identity: impersonate, scripts: true, "
    more += "timeout_seconds: 3, max_response_bytes: 20000"
    settings = loaded(tmp_path, KEYS + f"search: {{url: '{URL}', {more}}}")
    assert settings.search == SearchSettings(URL, ("books-*", "papers"), "impersonate", True, 3.0, 20_000)


def test_the_environment_sets_the_url_and_the_rest(tmp_path: Path) -> None:
    by_url = loaded(tmp_path, f"search: {{url: '{URL}', indices: [a]}}", AGUI_GATEWAY__SEARCH="embedded:")
    assert by_url.search == SearchSettings("embedded:")
    each = loaded(
        tmp_path, "search: 'embedded:'", AGUI_GATEWAY__SEARCH__URL=URL, AGUI_GATEWAY__SEARCH__INDICES="books-*, papers"
    )
    assert each.search == SearchSettings(URL, ("books-*", "papers"))


def test_the_password_is_a_secret(tmp_path: Path) -> None:
    url = "opensearch://svc:${env:PASSWORD}@h"
    for text in (f"search: '{url}'", f"search: {{url: '{url}', indices: ['*']}}"):
        secrets = loaded(tmp_path, text, PASSWORD="p%40ssword-1").secrets
        assert {secret.reveal() for secret in secrets} >= {"p%40ssword-1", "p@ssword-1"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("search: 5", "search: must be a mapping of keys to values, not 5"),
        ("search: ''", "search: must be a URL; did you mean 'embedded:'?"),
        ("search: {indices: [a]}", "search.url: is missing; add it"),
        (
            f"search: {{url: '{URL}', indices: [a], index: b}}",
            "search.index: is not a known key; did you mean 'indices'?",
        ),
        (
            f"search: {{url: '{URL}', indices: [a], identity: me}}",
            "search.identity: 'me' is not one of service, impersonate",
        ),
        (f"search: {{url: '{URL}', indices: [a], timeout_seconds: 0}}", "search.timeout_seconds: 0 is too small"),
        (f"search: {{url: '{URL}', indices: [a], max_response_bytes: 1}}", "search.max_response_bytes: 1 is too small"),
        *(
            (
                f"search: {{url: '{URL}', indices: ['{name}']}}",
                f"search.indices[0]: '{name}' cannot be used; write a name",
            )
            for name in ("Books", ".hidden", "a,b", "far:a", "-a", "<a-{now}>", "_all", "a b", "a?")
        ),
        (f"search: {{url: '{URL}'}}", "search.indices: is missing; name what may be searched: ['books-*']"),
        (f"search: {URL}", "search.indices: is missing"),
        ("search: opensearch://h/path", "search"),
        ("search: {url: 'embedded:', indices: [a]}", "search.indices: is for an 'opensearch:' cluster; leave it out"),
        (
            f"search: {{url: '{URL}', indices: [a], identity: impersonate}}",
            "search.identity: 'impersonate' needs callers with names; add server.api_keys",
        ),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, said: str) -> None:
    assert said in checked(tmp_path, text)


@pytest.mark.parametrize("name", ["books", "books-*", "*", "a.b_c-1", "*-books"])
def test_patterns_are_names_with_stars(tmp_path: Path, name: str) -> None:
    settings = loaded(tmp_path, f"search: {{url: '{URL}', indices: ['{name}']}}")
    assert settings.search == SearchSettings(URL, (name,))


def test_tools_that_need_plugins_need_a_cluster(tmp_path: Path) -> None:
    tools = "  - {id: a, model: {model_provider: demo}, tools: [{type: PPLTool}]}\n"
    file = tmp_path / "f.yaml"
    file.write_text("agents:\n" + tools)
    with pytest.raises(InvalidConfigurationError) as caught:
        check_settings(Flags(config=file), environ={})
    assert "the tool PPLTool needs a cluster with the plugin 'opensearch-sql'; name one by 'search: {url:" in str(
        caught.value
    )
    file.write_text(f"search: {{url: '{URL}', indices: ['*']}}\nagents:\n" + tools)
    check_settings(Flags(config=file), environ={})


def test_another_cluster_needs_a_restart(tmp_path: Path) -> None:
    running = loaded(tmp_path, f"search: {{url: '{URL}', indices: [a]}}")
    assert needing_restart(running, replace(running, search=SearchSettings(URL, ("b",)))) == ["search"]


def test_the_schema_takes_a_url_and_a_mapping() -> None:
    search = configuration_schema()["properties"]["search"]  # type: ignore[index, call-overload]
    assert {"type": "string"} in search["anyOf"]  # type: ignore[index, call-overload, operator]
    assert {"type": "null"} in search["anyOf"]  # type: ignore[index, call-overload, operator]
