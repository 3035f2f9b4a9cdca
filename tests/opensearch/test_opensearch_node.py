"""OpenSearch nodes for tests: they are what they say, keep what they acknowledged, and leave nothing behind."""

from __future__ import annotations

import os
from pathlib import Path

import httpx
import pytest

from tests.opensearch.installation import VERSION

ROOT = Path(__file__).parents[2]


async def asked(url: str, method: str = "GET", body: object = None) -> dict[str, object]:
    async with httpx.AsyncClient(trust_env=False, timeout=30.0) as http:
        answer = await http.request(method, url, json=body) if body else await http.request(method, url)
    document: dict[str, object] = answer.raise_for_status().json()
    return document


async def test_the_shared_node_answers_its_version(opensearch_url: str) -> None:
    if "OPENSEARCH_URL" in os.environ:
        pytest.skip("OPENSEARCH_URL names another cluster")
    told = await asked(opensearch_url)
    assert isinstance(told["version"], dict)
    assert told["version"]["number"] == VERSION
