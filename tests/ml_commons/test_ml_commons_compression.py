"""opensearch-py with `http_compress=True`, as its user guide sets it."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from opensearchpy import AsyncOpenSearch

from tests.ml_commons_scene import MlGateway, P, ml_gateway

LONG = "a rather long question " * 100


@asynccontextmanager
async def compressing(ml: MlGateway) -> AsyncIterator[AsyncOpenSearch]:
    client = AsyncOpenSearch(hosts=[str(ml.http.base_url)], http_compress=True, max_retries=0)
    try:
        yield client
    finally:
        await client.close()


async def test_the_official_client_compresses_what_it_sends_and_takes_what_is_compressed(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml, compressing(ml) as client:
        asked = {"parameters": {"question": LONG}}
        answer: Any = await client.transport.perform_request("POST", f"{P}/agents/configured/_execute", body=asked)
        outputs = answer["inference_results"][0]["output"]
        memory_id = next(each["result"] for each in outputs if each["name"] == "memory_id")
        found: Any = await client.transport.perform_request("GET", f"{P}/memory/{memory_id}/messages")
        assert found["messages"][0]["input"].strip() == LONG.strip()
        query = {"query": {"match": {"name": "x " * 600}}}
        none: Any = await client.transport.perform_request("GET", f"{P}/memory/_search", body=query)
        assert none["hits"]["hits"] == []
        assert (await client.info())["tagline"]


async def test_a_repeated_request_is_the_same_whether_it_is_compressed_or_not(tmp_path: Path) -> None:
    body = json.dumps({"model": "configured", "messages": [{"role": "user", "content": "hi"}]}).encode()
    async with ml_gateway(tmp_path) as ml:
        headers = {"content-type": "application/json", "idempotency-key": "once"}
        first = await ml.http.post("/v1/chat/completions", content=body, headers=headers)
        packed = {**headers, "content-encoding": "gzip"}
        again = await ml.http.post("/v1/chat/completions", content=gzip.compress(body), headers=packed)
    assert first.status_code == again.status_code == 200
    assert first.json()["id"] == again.json()["id"]
