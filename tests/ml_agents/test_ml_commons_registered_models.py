"""What a registered model's provider is sent: its key under any of its names, and the options as its own words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.agents.stored import PartsForCallers
from gateway.errors import InvalidRequestError
from gateway.messages import JsonObject, JsonValue
from gateway.ml_agents.registration import read_registration
from tests.bedrock_server import ACCESS_KEY, REGION, SECRET_KEY, bedrock_server, hello
from tests.gemini_chunks import chunk
from tests.ml_commons_scene import MlGateway, ml_gateway
from tests.openai_chat_server import Script, chat_server, completion
from tests.running_gateway import run_body

AWS_KEYS = {"access_key": ACCESS_KEY, "secret_key": SECRET_KEY}
OPTIONS = {
    "temperature": "0.5",
    "top_p": 0.9,
    "max_tokens": "100",
    "stop_sequences": ["END"],
    "system_prompt": "Be brief.",
}


async def run(ml: MlGateway, model: dict[str, Any], **more: Any) -> None:
    agent_id = await ml.register({"name": "n", "model": model, "tools": [], **more})
    frames = await ml.gateway.client.run(agent_id, run_body(thread_id=agent_id, run_id=agent_id))
    assert frames[-1].type == "RUN_FINISHED", frames


def block(provider: str, model_id: str, endpoint: str, credential: dict[str, str], **more: Any) -> dict[str, Any]:
    model = {"model_provider": provider, "model_id": model_id, "endpoint": endpoint, "credential": credential}
    return {**model, "model_parameters": OPTIONS, **more}


@pytest.mark.parametrize(
    ("credential", "more"),
    [
        (AWS_KEYS | {"session_token": "token", "region": REGION}, {}),
        (AWS_KEYS, {"region": REGION}),
        (AWS_KEYS | {"service_name": "bedrock"}, {"model_parameters": OPTIONS | {"region": REGION}}),
    ],
)
async def test_bedrock_is_called_with_the_callers_keys_and_region(
    tmp_path: Path, credential: dict[str, str], more: dict[str, Any]
) -> None:
    async with bedrock_server() as bedrock, ml_gateway(tmp_path) as ml:
        bedrock.will_stream(hello())
        await run(ml, block("bedrock/converse", "amazon.nova-lite-v1:0", bedrock.url, credential, **more))
    [request] = bedrock.requests
    assert request.signature_problem is None
    assert request.headers.get("x-amz-security-token") == credential.get("session_token")
    assert request.json["inferenceConfig"] == {
        "temperature": 0.5,
        "topP": 0.9,
        "maxTokens": 100,
        "stopSequences": ["END"],
    }
    assert request.json["system"] == [{"text": "Be brief."}]
    assert "additionalModelRequestFields" not in request.json


def test_bedrocks_region_is_us_east_1_where_nobody_names_one() -> None:
    bedrock = PartsForCallers({"bedrock/converse": frozenset({"access_key", "secret_key"})})
    keys: JsonObject = {"access_key": "a", "secret_key": "b"}
    arn = "arn:aws:bedrock:eu-west-1:123456789012:inference-profile/x"
    for more, region in (({}, "us-east-1"), ({"model_id": arn}, None), ({"endpoint": "https://e.example"}, None)):
        model: JsonObject = {"model_id": "m", "model_provider": "bedrock/converse", "credential": keys, **more}
        [section] = [read_registration({"name": "n", "model": model}, bedrock).agent.definition["model"]]
        assert isinstance(section, dict)
        assert section.get("region") == region, more


async def test_f19_nothing_is_sent_that_nobody_set(tmp_path: Path) -> None:
    async with bedrock_server() as bedrock, chat_server() as chat, ml_gateway(tmp_path) as ml:
        bedrock.will_stream(hello())
        chat.answers(completion("hi"))
        none: dict[str, Any] = {"model_parameters": {}}
        model = block("bedrock/converse", "amazon.nova-lite-v1:0", bedrock.url, AWS_KEYS, region=REGION, **none)
        await run(ml, model)
        await run(ml, block("openai/v1/chat/completions", "gpt-4o", chat.endpoint, {"openai_api_key": "sk"}, **none))
    assert "inferenceConfig" not in bedrock.requests[0].json
    assert not {"temperature", "top_p", "max_tokens", "max_completion_tokens", "stop"} & chat.requests[0].json.keys()


@pytest.mark.parametrize("name", ["openai_api_key", "api_key", "openAI_key"])
async def test_openai_is_called_with_its_key_under_any_name(tmp_path: Path, name: str) -> None:
    async with chat_server() as chat, ml_gateway(tmp_path) as ml:
        chat.answers(completion("hi"))
        await run(ml, block("openai/v1/chat/completions", "gpt-4o", chat.endpoint, {name: "sk-named"}))
    [request] = chat.requests
    assert request.headers["authorization"] == "Bearer sk-named"
    assert (request.json["temperature"], request.json["top_p"], request.json["stop"]) == (0.5, 0.9, ["END"])
    assert request.json["messages"][0] == {"role": "system", "content": "Be brief."}


@pytest.mark.parametrize("name", ["gemini_api_key", "api_key"])
async def test_gemini_is_called_with_its_key_under_any_name(tmp_path: Path, name: str) -> None:
    async with chat_server() as gemini, ml_gateway(tmp_path) as ml:
        gemini.answers(Script(pieces=[chunk({"text": "hi"}, finish="STOP")]))
        endpoint = f"http://127.0.0.1:{gemini.port}/v1beta"
        await run(ml, block("gemini/v1beta/generatecontent", "gemini-2.5-flash", endpoint, {name: "key-named"}))
    [request] = gemini.requests
    assert request.headers["x-goog-api-key"] == "key-named"
    config = request.json["generationConfig"]
    sent = {name: config[name] for name in ("temperature", "topP", "maxOutputTokens", "stopSequences")}
    assert sent == {"temperature": 0.5, "topP": 0.9, "maxOutputTokens": 100, "stopSequences": ["END"]}


async def test_parameters_of_the_agent_win_over_those_of_the_model(tmp_path: Path) -> None:
    async with chat_server() as chat, ml_gateway(tmp_path) as ml:
        chat.answers(completion("hi"))
        model = block("OpenAI/v1/chat/completions", "gpt-4o", chat.endpoint, {"openai_api_key": "sk"})
        own = {"temperature": 1, "system_prompt": "Be long.", "_llm_interface": "openai/v1/chat/completions"}
        await run(ml, model, parameters=own)
    request = chat.requests[0].json
    assert (request["temperature"], request["messages"][0]["content"]) == (1, "Be long.")
    assert "_llm_interface" not in request


async def test_an_owners_system_prompt_takes_the_place_of_the_agents_and_that_of_others_is_added(
    tmp_path: Path,
) -> None:
    async with chat_server() as chat:
        model = block("openai/v1/chat/completions", "gpt-4o", chat.endpoint, {"openai_api_key": "sk"})
        configured = {"id": "configured", "model": {**model, "model_parameters": {}}, "system_prompt": "The file's."}
        keys = [{"name": name, "key": f"{name}-0123456789abcdef"} for name in ("alice", "bob")]
        async with ml_gateway(tmp_path, [configured], server={"api_keys": keys}) as ml:
            alice, bob = ({"headers": {"authorization": f"Bearer {key['key']}"}} for key in keys)
            own = {"name": "Own", "model": model, "parameters": {"system_prompt": "Own."}, "access_mode": "public"}
            agent_id = await ml.register(own, **alice)
            asked = {"input": "hi", "parameters": {"system_prompt": "Asked."}}
            for path, caller in ((agent_id, alice), (agent_id, bob), ("configured", alice)):
                chat.answers(completion("hi"))
                assert (await ml.call("POST", f"/agents/{path}/_execute", asked, **caller))[0] == 200
    told = [request.json["messages"] for request in chat.requests]
    assert told[0][0] == {"role": "system", "content": "Asked."}
    assert not any("Own." in str(message) for message in told[0])
    for messages, prompt in ((told[1], "Own."), (told[2], "The file's.")):
        assert (prompt in messages[0]["content"], "Asked." in str(messages)) == (True, True)


async def test_what_is_no_option_is_sent_unchanged(tmp_path: Path) -> None:
    async with chat_server() as chat, ml_gateway(tmp_path) as ml:
        chat.answers(completion("hi"))
        model = block("openai/v1/chat/completions", "gpt-4o", chat.endpoint, {"openai_api_key": "sk"})
        await run(ml, model | {"model_parameters": {"logprobs": True, "metadata": {"a": "b"}}})
    assert (chat.requests[0].json["logprobs"], chat.requests[0].json["metadata"]) == (True, {"a": "b"})


async def test_a_stateful_model_is_registered_as_any_other(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        model = {
            "model_provider": "openai/v1/responses",
            "model_id": "gpt-5",
            "credential": {"openai_api_key": "sk"},
            "stateful": True,
        }
        await ml.register({"name": "n", "model": model})
        status, answer = await ml.call("POST", "/agents/_register", {"name": "n", "model": model | {"stateful": "so"}})
        assert (status, answer["error"]["fields"][0]["field"]) == (400, "/model/stateful")
        wrong = model | {"model_provider": "openai/v1/chat/completions"}
        status, answer = await ml.call("POST", "/agents/_register", {"name": "n", "model": wrong})
        assert (status, answer["error"]["fields"][0]["field"]) == (400, "/model/stateful")


def test_without_a_search_engine_the_usual_tools_are_none() -> None:
    body: JsonObject = {"name": "n", "model": {"model_id": "m", "model_provider": "p"}}
    found = [
        read_registration(body, PartsForCallers({"p": frozenset()}, searches=searches)).agent.definition["tools"]
        for searches in (True, False)
    ]
    assert found == [[{"type": name} for name in ("ListIndexTool", "SearchIndexTool", "IndexMappingTool")], []]


async def test_a_tools_config_wins_and_its_schema_is_understood(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
    tool = {
        "type": "SearchIndexTool",
        "name": "find",
        "description": "Finds words",
        "parameters": {"index": "overridden", "query": {"query": {"match": {"text": "${parameters.word}"}}}},
        "config": {"index": "words"},
        "attributes": {"input_schema": json.dumps(schema)},
    }
    async with chat_server() as chat, ml_gateway(tmp_path) as ml:
        chat.answers(completion("hi"))
        model = block("openai/v1/chat/completions", "gpt-4o", chat.endpoint, {"openai_api_key": "sk"})
        await run(ml, model, tools=[tool])
    [sent] = chat.requests[0].json["tools"]
    function = sent["function"]
    assert (function["name"], function["description"]) == ("find", "Finds words")
    assert function["parameters"]["properties"]["word"] == {"type": "string"}


def test_an_agent_of_very_many_values_is_refused_before_it_is_read() -> None:
    tools: list[JsonValue] = [{"type": "ListIndexTool", "name": f"t{number}"} for number in range(4_000)]
    with pytest.raises(InvalidRequestError, match="more than 10,000 values") as caught:
        read_registration({"name": "n", "tools": tools}, PartsForCallers({}, searches=True))
    assert caught.value.status == 400
