"""Records what ml-commons answers to the table of requests, as test data for `test_ml_commons_oracle.py`:

    python -m tests.ml_commons.record_oracle http://127.0.0.1:9200

The cluster has to be new and without security, with ml-commons 3.6 and on this machine: its models are pointed at a
server here. Its trusted endpoints and its switch for private addresses are changed for that, and stay changed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re

import httpx

from tests.ml_commons.oracle import RECORDED, Oracle
from tests.ml_commons.oracle_models import oracle_models

_SETTINGS = {
    "trusted_connector_endpoints_regex": [r"^http://127\.0\.0\.1:\d+/.*$", r"^https://.*$"],
    "connector.private_ip_enabled": True,
    "unified_agent_api_enabled": True,
    "ag_ui_enabled": True,
    "stream_enabled": True,
    "agentic_memory_enabled": True,
    "only_run_on_ml_node": False,
}
_PROVIDERS = re.compile(r"https://(api\.openai\.com|bedrock-runtime\.[^/]*amazonaws\.com)")


async def record(url: str) -> None:
    async with httpx.AsyncClient(base_url=url) as cluster, oracle_models() as models:

        async def refresh(_: httpx.Request) -> None:
            await cluster.post("/_refresh")  # else a search would find what was there a second ago

        async def registered(agent_id: str) -> None:
            await _point_at(cluster, agent_id, models)

        persistent = {f"plugins.ml_commons.{name}": value for name, value in _SETTINGS.items()}
        (await cluster.put("/_cluster/settings", json={"persistent": persistent})).raise_for_status()
        version = (await cluster.get("/")).json()["version"]["number"]
        async with httpx.AsyncClient(base_url=url, event_hooks={"request": [refresh]}) as http:
            answers = await Oracle(http, models, registered).answers()
    RECORDED.parent.mkdir(exist_ok=True)
    text = json.dumps({"opensearch": version, "answers": answers}, indent=1, ensure_ascii=False)
    RECORDED.write_text(text + "\n", "utf-8")
    print(f"{len(answers)} answers of OpenSearch {version} are in {RECORDED}")


async def _point_at(cluster: httpx.AsyncClient, agent_id: str, models: str) -> None:
    """Let the model that was made for an agent ask the server here. ml-commons itself asks the provider, whatever
    `endpoint` says.
    """
    agent = (await cluster.get(f"/_plugins/_ml/agents/{agent_id}")).json()
    if "model" not in agent:
        return
    model = f"/_plugins/_ml/models/{agent['llm']['model_id']}"
    actions = (await cluster.get(model)).json()["connector"]["actions"]
    for action in actions:
        action["url"] = _PROVIDERS.sub(models, action["url"])
        action["action_type"] = action["action_type"].lower()
    (await cluster.put(model, json={"connector": {"actions": actions}})).raise_for_status()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.ml_commons.record_oracle", description=__doc__)
    parser.add_argument("url", help="the cluster's address")
    asyncio.run(record(parser.parse_args().url.rstrip("/")))


if __name__ == "__main__":
    main()
