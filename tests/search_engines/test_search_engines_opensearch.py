"""The search engine of a cluster as it is configured. How it searches: tests/opensearch/test_cluster_search.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.errors import ConfigurationError
from gateway.opensearch.cluster_search import ClusterSearchEngine
from gateway.opensearch.index_names import AllowedIndices
from gateway.search_engine import SearchEnvironment, SearchSettings
from gateway.search_engines.opensearch import ENGINE, open_opensearch

INDICES = ("books-*",)


def opened(url: str, *, store: str = "sqlite:///gateway.db", **more: Any) -> ClusterSearchEngine:
    return open_opensearch(SearchSettings(url, **{"indices": INDICES, **more}), SearchEnvironment(Path("/etc"), store))


def test_it_has_opensearch_s_plugins() -> None:
    engine = opened("opensearch://search.example.com")
    assert engine.has_plugins
    assert engine.address.shown == "http://search.example.com:9200"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (
            "opensearch://h?prefix=a",
            "unknown parameter 'prefix' in the search engine's URL; there is tls, ca, aws_region",
        ),
        ("opensearch://h?tsl=true", "did you mean 'tls'?"),
        ("opensearch://h/books", "the search engine's URL has the path '/books'"),
        ("opensearch://", "the search engine's URL names no host"),
        ("opensearch://h:port", "the search engine's URL cannot be read"),
        ("opensearch://h?tls=yes", "tls='yes' in the search engine's URL is neither true nor false"),
        ("opensearch://u:p@h?aws_region=eu", "the search engine's URL has a user and an aws_region"),
    ],
)
def test_a_wrong_url_is_named(url: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        opened(url)
    assert said in refused.value.message


def test_the_indices_have_to_be_named() -> None:
    with pytest.raises(ConfigurationError) as refused:
        ENGINE.open(SearchSettings("opensearch://h"), SearchEnvironment(Path()))
    [(path, said)] = refused.value.fields
    assert path == ("indices",)
    assert said == "is missing; name what may be searched: ['books-*'], or ['*'] for all"


@pytest.mark.parametrize(
    ("index", "is_allowed"),
    [
        ("books-1", True),
        ("books-", True),
        ("papers", True),
        ("papers-2", False),
        ("abooks-1", False),
        ("Books-1", False),
        (".books-1", False),
        ("a.b", True),
        ("aXb", False),
        ("books-\n1", True),
        ("far:books-1", False),
        ("books-store-threads", False),
        (".ds-books-log-000001", True),
        (".ds-.books-log-000001", False),
        (".ds-books-store-x-000001", False),
        (".ds-other-000001", False),
        (".ds-books-log", False),
    ],
)
def test_patterns_fit_whole_names(index: str, is_allowed: bool) -> None:
    assert AllowedIndices(("books-*", "papers", "a.b"), ("books-store-",)).has(index) is is_allowed


def test_all_is_all_but_hidden_ones_and_the_store_s() -> None:
    allowed = AllowedIndices(("*",), ("agui-gateway-", "chat-"))
    assert allowed.has("anything")
    assert not any(map(allowed.has, (".plugins-ml-config", "chat-threads", "agui-gateway-runs", "a:b")))
