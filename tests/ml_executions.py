"""Executions of ml-commons' agents: their bodies, their answers, and agents on local servers of each provider."""

from __future__ import annotations

from typing import Any, Final

from tests.bedrock_server import ACCESS_KEY, REGION, SECRET_KEY, BedrockServer
from tests.gemini_chunks import chunk
from tests.ml_commons_scene import MlGateway
from tests.openai_chat_server import ChatServer, Script
from tests.running_gateway import agent, scripted

ECHO: Final = agent("echo", scripted([{"text": "you said {{user}}"}]))
PNG: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
CLAUDE: Final = "us.anthropic.claude-3-7-sonnet-20250219-v1:0"


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def medium(kind: str, source: str, form: str, data: str) -> dict[str, Any]:
    return {"type": kind, "source": {"type": source, "format": form, "data": data}}


# --- agents


def bedrock_model(server: BedrockServer, **parameters: Any) -> dict[str, Any]:
    return {
        "model_id": CLAUDE,
        "model_provider": "bedrock/converse",
        "endpoint": server.url,
        "credential": {"access_key": ACCESS_KEY, "secret_key": SECRET_KEY},
        "region": REGION,
        "model_parameters": parameters,
    }


def openai_model(server: ChatServer, **parameters: Any) -> dict[str, Any]:
    return {
        "model_id": "gpt-4o",
        "model_provider": "openai/v1/chat/completions",
        "endpoint": server.endpoint,
        "credential": {"openai_api_key": "sk-test"},
        "model_parameters": parameters,
    }


def gemini_model(server: ChatServer, **parameters: Any) -> dict[str, Any]:
    return {
        "model_id": "gemini-2.5-pro",
        "model_provider": "gemini/v1beta/generatecontent",
        "endpoint": server.endpoint,
        "credential": {"gemini_api_key": "AIza-test"},
        "model_parameters": parameters,
    }


def gemini_answer(words: str) -> Script:
    return Script(pieces=(chunk({"text": words}, finish="STOP"),))


# --- answers


def tensors(answer: Any) -> dict[str, Any]:
    """The tensors of an answer by name."""
    (result,) = answer["inference_results"]
    return {each["name"]: each.get("dataAsMap", each.get("result")) for each in result["output"]}


async def executed(ml: MlGateway, agent_id: str, body: object) -> dict[str, Any]:
    status, answer = await ml.call("POST", f"/agents/{agent_id}/_execute", body)
    assert status == 200, answer
    return tensors(answer)


async def refused(ml: MlGateway, agent_id: str, body: object) -> tuple[int, Any]:
    status, answer = await ml.call("POST", f"/agents/{agent_id}/_execute", body)
    assert status >= 400
    assert answer["status"] == status
    return status, answer["error"]
