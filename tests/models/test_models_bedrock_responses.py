"""Bedrock's Responses API over real sockets: hosts, paths, signatures, keys, regions, and what is only its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from typing import Any, TypeAlias

import pytest

from gateway.agent import ModelSettings, Secret
from gateway.bedrock.responses_hosts import host_of
from gateway.errors import ConfigurationError, ModelError, ModelErrorKind
from gateway.http_client.clients import HttpClients
from gateway.messages import Base64Source, ImageBlock, Message, TextBlock, ToolSpec, UrlSource
from gateway.model import Model, ModelEnvironment, ModelProvider, ModelRequest
from gateway.models.bedrock_responses import PROVIDER, _Endpoint
from gateway.parts import collect as collect_parts
from tests.bedrock_server import ACCESS_KEY, REGION, SECRET_KEY, signature_problem
from tests.model_answers import answer_of, collect
from tests.movable_clock import MovableClock
from tests.openai_chat_server import Script
from tests.responses_events import message_item, reasoning_item
from tests.responses_recordings import recorded_bytes, recording
from tests.responses_rules import accept
from tests.responses_server import ResponsesServer, responses_server

GPT = "openai.gpt-5.6-luna"
OSS = "openai.gpt-oss-120b"
PROFILE = "us.openai.gpt-5.6-sol"
KEYS = {"access_key": Secret(ACCESS_KEY), "secret_key": Secret(SECRET_KEY)}
REQUEST = ModelRequest("turn", (Message("u", "user", (TextBlock("Hi"),)),), tools=(ToolSpec("add", "", {}),))
DEADLINE_SECONDS = 10.0

Open: TypeAlias = Callable[..., Model]


@pytest.fixture
async def server() -> AsyncGenerator[ResponsesServer]:
    async with asyncio.timeout(DEADLINE_SECONDS), responses_server() as running:
        running.not_found_status = 404
        running.data_first = True
        yield running


@pytest.fixture
async def http() -> AsyncGenerator[HttpClients]:
    clients = HttpClients(MovableClock())
    yield clients
    await clients.close()


@pytest.fixture
def open_model(server: ResponsesServer, http: HttpClients) -> Open:
    def opened(**settings: Any) -> Model:
        endpoint = f"http://127.0.0.1:{server.port}"
        whole = {"model_id": GPT, "endpoint": endpoint, "region": REGION, "credential": KEYS, **settings}
        return PROVIDER.open(ModelSettings("bedrock/responses", **whole), ModelEnvironment(MovableClock(), http))

    return opened


def problem_of(server: ResponsesServer, service: str, number: int = -1) -> str | None:
    request = server.requests[number]
    return signature_problem(request.method, request.target, request.headers, request.body, service)


# --- hosts, paths, signatures ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model_id", "service", "target", "named"),
    [
        (GPT, "bedrock-mantle", "/openai/v1/responses", GPT),
        (OSS, "bedrock-mantle", "/v1/responses", OSS),
        (f"{OSS}-1:0", "bedrock-mantle", "/v1/responses", OSS),
        (PROFILE, "bedrock", "/openai/v1/responses", PROFILE),
    ],
)
async def test_a_call_is_signed_for_its_host_and_goes_to_its_path(
    server: ResponsesServer, open_model: Open, model_id: str, service: str, target: str, named: str
) -> None:
    server.will_answer(reasoning_item(encrypted="x"), message_item("Hello"))
    found = answer_of(await collect(open_model(model_id=model_id).stream(REQUEST)))
    assert found.text == "Hello"
    assert found.usage is not None
    assert (found.usage.provider, found.usage.model) == ("bedrock/responses", model_id)
    assert (found.opaques[0].provider, found.opaques[0].model) == ("bedrock/responses", model_id)
    (sent,) = server.requests
    assert sent.target == target
    assert problem_of(server, service) is None
    assert sent.json["model"] == named
    assert sent.json["store"] is False
    accept(sent.json)
    assert SECRET_KEY not in repr(sent)


async def test_a_model_that_is_under_the_other_path_is_asked_for_there_and_from_then_on(
    server: ResponsesServer, open_model: Open
) -> None:
    server.served_under = {"new.model": "/openai/v1"}
    model = open_model(model_id="new.model")
    for _ in range(2):
        server.will_answer(message_item("Hi"))
        assert answer_of(await collect(model.stream(REQUEST))).text == "Hi"
    assert [request.target for request in server.requests] == ["/v1/responses"] + ["/openai/v1/responses"] * 2
    assert problem_of(server, "bedrock-mantle") is None


async def test_requests_side_by_side_learn_the_same_path_and_seal(server: ResponsesServer, open_model: Open) -> None:
    server.served_under = {"new.model": "/openai/v1"}
    server.sealed_reasoning = False
    model = open_model(model_id="new.model")
    found = await asyncio.gather(*(collect(model.stream(REQUEST)) for _ in range(4)))
    assert len(found) == 4


async def test_a_model_that_is_under_no_path_is_refused_once_it_was_looked_for_at_both(
    server: ResponsesServer, open_model: Open
) -> None:
    server.served_under = {GPT: "/elsewhere"}
    with pytest.raises(ModelError) as caught:
        await collect(open_model().stream(REQUEST))
    assert caught.value.kind is ModelErrorKind.INVALID
    assert [request.target for request in server.requests] == ["/openai/v1/responses", "/v1/responses"]


async def test_path_and_sealed_reasoning_can_both_be_learnt_in_one_call(
    server: ResponsesServer, open_model: Open
) -> None:
    server.served_under = {"new.model": "/openai/v1"}
    server.sealed_reasoning = False
    server.will_answer(message_item("Hi"))
    assert answer_of(await collect(open_model(model_id="new.model").stream(REQUEST))).text == "Hi"
    assert len(server.requests) == 3


async def test_an_endpoint_with_a_path_is_taken_at_its_word(server: ResponsesServer, open_model: Open) -> None:
    server.paths = ("/proxy/v1",)
    server.will_answer(message_item("Hi"))
    await collect(open_model(endpoint=f"http://127.0.0.1:{server.port}/proxy/v1/").stream(REQUEST))
    assert server.requests[0].target == "/proxy/v1/responses"


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ({"model_id": GPT, "region": "us-east-1"}, "https://bedrock-mantle.us-east-1.api.aws/openai/v1/responses"),
        ({"model_id": OSS, "region": "us-east-1"}, "https://bedrock-mantle.us-east-1.api.aws/v1/responses"),
        (
            {"model_id": PROFILE, "region": "us-east-1"},
            "https://bedrock-runtime.us-east-1.amazonaws.com/openai/v1/responses",
        ),
        (
            {"model_id": "arn:aws:bedrock:eu-west-3:1:inference-profile/eu.openai.gpt-5.6"},
            "https://bedrock-runtime.eu-west-3.amazonaws.com/openai/v1/responses",
        ),
        (
            {"model_id": GPT, "endpoint": "https://bedrock-runtime.eu-west-1.amazonaws.com"},
            "https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1/responses",
        ),
        (
            {"model_id": PROFILE, "endpoint": "https://bedrock-mantle.eu-west-1.api.aws/v1"},
            "https://bedrock-mantle.eu-west-1.api.aws/v1/responses",
        ),
    ],
)
async def test_without_a_private_endpoint_the_address_is_awss(settings: dict[str, Any], url: str) -> None:
    whole = ModelSettings("bedrock/responses", credential={"bedrock_api_key": Secret("k")}, **settings)
    call = await _Endpoint(whole, host_of(whole.model_id, whole.endpoint)).create(b"{}")
    assert call.url == url


async def test_the_region_is_found_as_boto3_finds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "ap-south-1")
    whole = ModelSettings("bedrock/responses", PROFILE, credential={"bedrock_api_key": Secret("k")})
    call = await _Endpoint(whole, host_of(PROFILE, None)).create(b"{}")
    assert call.url.startswith("https://bedrock-runtime.ap-south-1.")


async def test_without_a_region_the_first_call_says_so(
    server: ResponsesServer, open_model: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE", "AWS_DEFAULT_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(ModelError, match="region"):
        await collect(open_model(region=None).stream(REQUEST))
    assert server.requests == []


async def test_a_bearer_key_takes_the_signatures_place(
    server: ResponsesServer, open_model: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "key-of-the-environment")
    await collect(open_model(credential={"bedrock_api_key": Secret("key-1")}).stream(REQUEST))
    await collect(open_model(credential={}).stream(REQUEST))
    await collect(open_model().stream(REQUEST))
    sent = [request.headers["authorization"] for request in server.requests]
    assert sent[:2] == ["Bearer key-1", "Bearer key-of-the-environment"]
    assert sent[2].startswith("AWS4-HMAC-SHA256"), "keys that were given come before the environment's"


async def test_a_session_token_is_signed_too(server: ResponsesServer, open_model: Open) -> None:
    await collect(open_model(credential={**KEYS, "session_token": Secret("token+/=")}).stream(REQUEST))
    assert server.requests[0].headers["x-amz-security-token"] == "token+/="
    assert problem_of(server, "bedrock-mantle") is None


# --- what is sent ----------------------------------------------------------------------------------------------------


async def test_params_go_out_last_and_the_compute_environment_is_a_field(
    server: ResponsesServer, open_model: Open
) -> None:
    model = open_model(params={"store": True, "metadata": {"a": "b"}}, compute_environment="agentcore")
    await collect(model.stream(ModelRequest("t", REQUEST.messages, parameters={"metadata": {"a": "c"}})))
    body = server.requests[0].json
    assert (body["store"], body["metadata"], body["compute_environment"]) == (True, {"a": "b"}, "agentcore")


async def test_media_behind_urls_go_inline(server: ResponsesServer, open_model: Open, http: HttpClients) -> None:
    picture = "data:image/png;base64,iVBORw0KGgo="
    blocks = (
        ImageBlock(UrlSource(picture)),
        ImageBlock(UrlSource("https://127.0.0.1/private.png")),
        ImageBlock(Base64Source("iVBORw0KGgo=", "image/png")),
    )
    await collect(open_model().stream(ModelRequest("t", (Message("u", "user", blocks),))))
    parts = server.requests[0].json["input"][0]["content"]
    image = {"type": "input_image", "detail": "auto", "image_url": picture}
    assert [parts[0], parts[2]] == [image, image]
    assert "left out" in parts[1]["text"]


# --- what comes ------------------------------------------------------------------------------------------------------


async def test_a_recorded_stream_of_mantle_is_read(server: ResponsesServer, open_model: Open) -> None:
    server.answers(Script(pieces=(recorded_bytes(recording("test_reused_tool_call_ids_stream___1")),)))
    found = answer_of(await collect(open_model().stream(REQUEST)))
    assert [name for _, name, _ in found.calls] == ["second_tool"]
    assert found.opaques[0].kind == "reasoning_item"


@pytest.mark.parametrize(
    ("status", "name", "kind"),
    [
        (429, "ThrottlingException", "throttled"),
        (403, "AccessDeniedException", "authentication"),
        (403, "UnrecognizedClientException", "authentication"),
        (400, "ServiceQuotaExceededException", "quota"),
        (408, "ModelTimeoutException", "timeout"),
        (500, "InternalServerException", "server"),
        (400, "ValidationException", "invalid"),
    ],
)
async def test_an_error_in_awss_words_is_known_by_its_name(
    server: ResponsesServer, open_model: Open, status: int, name: str, kind: str
) -> None:
    body = json.dumps({"message": "no"}).encode()
    named = [("x-amzn-errortype", f"{name}:http://internal.amazon.com/")]
    server.answers(Script(status, (body,), "application/json", named, framing="length"))
    with pytest.raises(ModelError) as caught:
        await collect(open_model().stream(REQUEST))
    assert caught.value.kind == kind


# --- settings --------------------------------------------------------------------------------------------------------


def test_it_is_a_part() -> None:
    assert collect_parts("models", ModelProvider)["bedrock/responses"] is PROVIDER


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"model_id": ""}, "needs a model_id"),
        ({"credential": {"openai_api_key": Secret("x")}}, "knows no credential"),
        ({"credential": {"access_key": Secret("x")}}, "without 'secret_key'"),
        ({"endpoint": "ftp://h"}, "is not an http"),
        ({"endpoint": "https://u:secret@h"}, "of this model carries credentials"),
        ({"endpoint": "https://bedrock-mantle.eu-west-1.api.aws", "region": "us-east-1"}, "is in 'eu-west-1'"),
        ({"model_id": PROFILE, "endpoint": None, "compute_environment": "agentcore"}, "bare id"),
    ],
)
def test_settings_that_can_never_work_are_refused(open_model: Open, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as caught:
        open_model(**settings)
    assert "secret@" not in str(caught.value)
