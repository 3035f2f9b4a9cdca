"""The requests of the proposals that this API comes from work as they stand there, with Bedrock, OpenAI and Gemini.

https://github.com/opensearch-project/ml-commons/issues/4552 (one call registers an agent, three kinds of input) and
https://github.com/opensearch-project/ml-commons/issues/4409 (AG-UI). `seed_requests.json` has their bodies. Only what
stands for something is filled in: credentials, a model's address, and what is written as `...`.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.bedrock_server import ACCESS_KEY, REGION, SECRET_KEY, BedrockServer, bedrock_server, hello
from tests.gemini_chunks import chunk
from tests.ml_commons_scene import MlGateway, P, ml_gateway
from tests.openai_chat_server import ChatServer, Script, chat_server, completion

SEEDS: dict[str, Any] = json.loads(Path(__file__).with_name("seed_requests.json").read_text("utf-8"))


class Provider(ABC):
    """A provider's local server. `model` is what changes in an agent's model block."""

    def __init__(self, server: Any, **model: Any) -> None:
        self.server = server
        self.model = model

    @abstractmethod
    def answers(self, words: str) -> None:
        """The next request gets these words."""

    @property
    def asked(self) -> str:
        """The last request, as text."""
        return json.dumps(self.server.requests[-1].json)


class Bedrock(Provider):
    server: BedrockServer

    def answers(self, words: str) -> None:
        self.server.will_stream(hello(words))


class OpenAi(Provider):
    server: ChatServer

    def answers(self, words: str) -> None:
        self.server.answers(completion(words))


class Gemini(Provider):
    server: ChatServer

    def answers(self, words: str) -> None:
        self.server.answers(Script(pieces=(chunk({"text": words}, finish="STOP"),)))


@asynccontextmanager
async def provider(name: str) -> AsyncGenerator[Provider]:
    async with bedrock_server() as bedrock, chat_server() as http:
        keys = {"access_key": ACCESS_KEY, "secret_key": SECRET_KEY, "session_token": "token"}
        match name:
            case "bedrock":
                yield Bedrock(bedrock, endpoint=bedrock.url, region=REGION, credential=keys)
            case "openai":
                yield OpenAi(
                    http, endpoint=http.endpoint, credential={"openai_api_key": "sk"}, model_id="gpt-4o",
                    model_provider="openai/v1/chat/completions",
                )  # fmt: skip
            case _:
                yield Gemini(
                    http, endpoint=http.endpoint, credential={"gemini_api_key": "k"}, model_id="gemini-2.5-pro",
                    model_provider="gemini/v1beta/generatecontent",
                )  # fmt: skip


PROVIDERS = pytest.mark.parametrize("name", ["bedrock", "openai", "gemini"])


async def registered(ml: MlGateway, seed: str, models: Provider, **more: Any) -> str:
    body = SEEDS[seed]
    return await ml.register({**body, "model": {**body["model"], **models.model}, **more})


async def executed(ml: MlGateway, agent_id: str, seed: str, **more: Any) -> Any:
    status, answer = await ml.call("POST", f"/agents/{agent_id}/_execute", {**SEEDS[seed], **more})
    assert status == 200, answer
    return answer


def output(answer: Any) -> dict[str, Any]:
    """The named parts of an answer."""
    parts = answer["inference_results"][0]["output"]
    return {part["name"]: part.get("result", part.get("dataAsMap")) for part in parts}


async def frames(ml: MlGateway, agent_id: str, body: object) -> list[Any]:
    answer = await ml.http.post(f"{P}/agents/{agent_id}/_execute/stream", json=body)
    assert answer.status_code == 200, answer.text
    return [json.loads(line.removeprefix("data: ")) for line in answer.text.splitlines() if line.startswith("data: ")]


@PROVIDERS
async def test_an_agent_is_registered_executed_streamed_and_its_memory_read(name: str, tmp_path: Path) -> None:
    async with provider(name) as models, ml_gateway(tmp_path) as ml:
        agent_id = await registered(ml, "register", models)
        models.answers("Three of them.")
        first = output(await executed(ml, agent_id, "execute text"))
        assert first["response"]["response"] == "Three of them."
        assert all(tool in models.asked for tool in ("ListIndexTool", "SearchIndexTool", "IndexMappingTool"))

        models.answers("And that.")
        memory_id = first["memory_id"]
        parts = await frames(ml, agent_id, {**SEEDS["simple text"], "parameters": {"memory_id": memory_id}})
        contents = [each["inference_results"][0]["output"][-1]["dataAsMap"] for each in parts]
        assert "".join(each["content"] for each in contents) == "And that."
        assert contents[-1]["is_last"] is True
        assert "Three of them." in models.asked

        status, answer = await ml.call("GET", f"/memory/{memory_id}/messages")
    said = [(each["input"], each["response"]) for each in answer["messages"]]
    assert said == [("what tools do you have access to?", "Three of them."), ("simple text", "And that.")]
    assert status == 200


@PROVIDERS
async def test_every_kind_of_input_reaches_the_model(name: str, tmp_path: Path) -> None:
    async with provider(name) as models, ml_gateway(tmp_path) as ml:
        agent_id = await registered(ml, "register v2", models, tools=[])
        image = SEEDS["execute an image"]["input"][1]["source"]["data"]
        for seed, seen in (
            ("simple text", "simple text"),
            ("legacy", "text"),
            ("execute blocks", "what can you see in this new image?"),  # the image itself is cut off there: `...`
            ("execute an image", image),
            ("execute messages", "What colour do I like?"),
        ):
            models.answers("hello")
            answer = await executed(ml, agent_id, seed)
            assert answer["message"] == {"content": [{"text": "hello"}], "role": "assistant"}
            assert seen in models.asked
        assert models.asked.index("I like red") < models.asked.index("Thanks for telling me that!")


@PROVIDERS
async def test_whole_turns_with_their_images_are_in_the_agents_memory_container(name: str, tmp_path: Path) -> None:
    async with provider(name) as models, ml_gateway(tmp_path) as ml:
        status, container = await ml.call("POST", "/memory_containers/_create", SEEDS["container"])
        assert status == 200
        container_id = container["memory_container_id"]
        memory = {"type": "agentic_memory", "memory_container_id": container_id}
        agent_id = await registered(ml, "register v2", models, tools=[], memory=memory)
        models.answers("Hello World!!")
        answer = await executed(ml, agent_id, "execute an image")
        by_session = {"query": {"term": {"namespace.session_id": answer["memory_id"]}}, "sort": [{"message_id": "asc"}]}
        path = f"/memory_containers/{container_id}/memories/working/_search"
        status, found = await ml.call("POST", path, by_session)
    assert status == 200
    messages = [hit["_source"]["structured_data_blob"]["message"] for hit in found["hits"]["hits"]]
    assert [message["role"] for message in messages] == ["user", "assistant"]
    assert SEEDS["execute an image"]["input"][1]["source"]["data"] in json.dumps(messages[0])


@PROVIDERS
async def test_the_body_of_ag_ui_is_answered_with_events(name: str, tmp_path: Path) -> None:
    async with provider(name) as models, ml_gateway(tmp_path) as ml:
        agent_id = await registered(ml, "register", models, type="ag_ui")
        models.answers("Two documents.")
        events = await frames(ml, agent_id, SEEDS["ag_ui"])
    kinds = [event["type"] for event in events]
    assert (kinds[0], kinds[-1], kinds.count("RUN_FINISHED")) == ("RUN_STARTED", "RUN_FINISHED", 1)
    assert (events[0]["threadId"], events[0]["runId"]) == ("thread_abc123", "run_def456")
    assert "".join(event["delta"] for event in events if "delta" in event) == "Two documents."
    assert "two documents" in models.asked, "the frontend tool's result"
