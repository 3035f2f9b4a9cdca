"""What `agui-gateway doctor` finds about a cluster that is to be searched."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

from gateway.findings import Finding, Level
from gateway.search_engine import SearchEnvironment, SearchSettings
from gateway.search_engines.opensearch import ENGINE
from tests.local_certificate import tls_contexts, write_certificate
from tests.opensearch_answers import FORBIDDEN, Answers, answering_cluster

DEADLINE_SECONDS = 30.0
ROWS = [{"index": f"books-{number}", "health": "green"} for number in range(7)]
LISTED = {"GET /_cat/indices/books-*": (200, [*ROWS, {"index": "secrets"}])}


async def found(
    answers: Answers,
    url: str = "opensearch://g:secret-word@127.0.0.1:{port}",
    tls: ssl.SSLContext | None = None,
    **more: Any,
) -> Finding:
    assert ENGINE.examine is not None
    async with asyncio.timeout(DEADLINE_SECONDS), answering_cluster(answers, tls) as cluster:
        settings = SearchSettings(url.format(port=cluster.port), ("books-*",), **more)
        [finding] = [each async for each in ENGINE.examine(settings, SearchEnvironment(Path()))]
    assert finding.subject == "search"
    assert "secret-word" not in str(finding)
    return finding


async def test_the_indices_are_named() -> None:
    finding = await found(LISTED)
    assert finding.level is Level.OK
    assert finding.text.endswith(", 7 indices: books-0, books-1, books-2, books-3, books-4, ...")


async def test_a_cluster_with_tls_is_searched_by_its_certificate(tmp_path: Path) -> None:
    certificate = write_certificate(tmp_path / "c.pem", "localhost")
    url = "opensearch://localhost:{port}?tls=true"
    server, _ = tls_contexts(certificate)
    assert (await found(LISTED, f"{url}&ca={certificate}", server)).level is Level.OK
    assert "certificate" in (await found(LISTED, url, server)).text


async def test_patterns_that_fit_no_index_are_a_warning() -> None:
    finding = await found({"GET /_cat/indices/books-*": (200, [])})
    assert (finding.level, finding.remedy) == (Level.WARNING, "correct search.indices")
    assert finding.text.endswith("has no index that fits books-*")


async def test_rights_that_are_missing_are_a_warning() -> None:
    finding = await found({"GET /_cat/indices/books-*": (403, FORBIDDEN)})
    assert finding.level is Level.WARNING
    assert "cluster_composite_ops_ro" in finding.remedy


async def test_a_wrong_password_is_a_warning() -> None:
    finding = await found({"GET /": (401, {})})
    assert (finding.level, finding.text) == (Level.WARNING, "the cluster does not know the user 'g', or the password")


async def test_a_cluster_that_is_not_there_is_a_warning() -> None:
    finding = await found({}, "opensearch://127.0.0.1:1")
    assert (finding.level, finding.text) == (Level.WARNING, "nothing listens at http://127.0.0.1:1")


async def test_rights_of_callers_are_not_tried() -> None:
    finding = await found({}, identity="impersonate")
    assert finding.level is Level.OK
    assert "by the rights of each caller's own user" in finding.text
