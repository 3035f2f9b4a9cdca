"""`GET /`, by which OpenSearch's clients find out what they speak to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from opensearchpy import AsyncOpenSearch
from opensearchpy.exceptions import AuthenticationException

from tests.ml_commons_scene import ml_gateway

KEY = {"name": "alice", "key": "alice-0123456789abcdef"}
SEEN = ("name", "version", "tagline")


async def test_the_official_client_is_told_name_version_and_tagline(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        info: Any = await ml.opensearch.info()
        assert await ml.opensearch.ping()
    assert [name for name in SEEN if name not in info] == []
    assert (info["version"]["distribution"], info["version"]["number"]) == ("opensearch", "3.6.0")


async def test_where_there_are_keys_it_needs_one(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, server={"api_keys": [KEY]}) as ml:
        with pytest.raises(AuthenticationException):
            await ml.opensearch.info()
        address = str(ml.http.base_url)
        for password in (KEY["key"], "another-0123456789abcdef"):
            client = AsyncOpenSearch(hosts=[address], http_auth=("alice", password))
            try:
                assert await client.ping() is (password == KEY["key"])
            finally:
                await client.close()
        page = await ml.http.get("/")
    assert "text/html" in page.headers["content-type"]


@pytest.mark.parametrize(
    ("headers", "is_json"),
    [
        ({"accept": "application/json"}, True),
        ({"accept": "text/html,application/xhtml+xml,application/json;q=0.9"}, False),
        ({"accept": "*/*"}, False),
        ({"accept": "*/*", "content-type": "application/json"}, False),
        ({"accept": "", "content-type": "application/json"}, True),
    ],
)
async def test_only_who_asks_for_json_gets_it(tmp_path: Path, headers: dict[str, str], is_json: bool) -> None:
    async with ml_gateway(tmp_path) as ml:
        answer = await ml.http.get("/", headers=headers)
    assert ("json" in answer.headers["content-type"]) is is_json


async def test_where_the_protocol_is_turned_off_the_page_is_all_there_is(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, sections={"protocols": {"ml_commons": False}}) as ml:
        answer = await ml.http.get("/", headers={"accept": "application/json"})
    assert "text/html" in answer.headers["content-type"]
