"""Agents that search a cluster, from a caller's request to the node: whose rights count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.opensearch.front import front_before
from tests.opensearch.two_tenants import Tenants, two_tenants
from tests.running_gateway import agent, local_gateway, run_body, scripted
from tests.website import ALICE_KEY, keys, visitor

BOB_KEY = "bob-0123456789abcdef"


def searching(tenants: Tenants) -> dict[str, Any]:
    arguments = {"index": tenants.books, "query": {"query": {"match": {"title": "stories"}}}}
    calls = scripted([{"tool": "SearchIndexTool", "arguments": arguments}], [{"text": "{{result}}"}])
    return agent("helper", calls, tools=[{"type": "SearchIndexTool"}])


@pytest.fixture(scope="module")
def tenants(opensearch_url: str) -> Any:
    with two_tenants(opensearch_url) as made:
        yield made


async def test_each_caller_searches_by_its_own_name(tmp_path: Path, tenants: Tenants) -> None:
    section = keys()
    section["publishable_keys"][0]["agents"] = ["helper"]
    section["api_keys"].append({"name": "bob", "key": BOB_KEY})
    async with front_before(tenants.url) as front:
        search = {
            "url": front.url.replace("http://", "opensearch://"),
            "indices": [f"{tenants.alice}-*"],
            "identity": "impersonate",
        }
        async with local_gateway(
            tmp_path, [searching(tenants)], server=section, search=None, sections={"search": search}
        ) as local:
            for name, key in (("alice", ALICE_KEY), ("bob", BOB_KEY)):
                front.forget()
                headers = {"authorization": f"Bearer {key}"}
                body = run_body(thread_id=name, run_id=name)
                answer = await local.client.http.post("/agents/helper/run", json=body, headers=headers)
                assert "the stories of the year" in answer.text
                asked = [request.headers["opendistro_security_impersonate_as"] for request in front.requests]
                assert asked == [name] * 3
            front.forget()
            guest = await visitor(local.client)
            said = await guest.ask("POST", "/agents/helper/run", json=run_body(thread_id="v", run_id="v"))
            assert "this caller has none" in said.response.text
            assert front.requests == []
