"""gateway.models.bedrock_converse over real sockets, against a server that speaks the wire format with its faults."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from typing import Any, TypeAlias

import pytest

from gateway.agent import ModelSettings, ModelTimeouts, Secret
from gateway.errors import ModelError, ModelErrorKind
from gateway.events import Events, StopReason, TextDelta
from gateway.http_client.clients import HttpClients
from gateway.messages import Base64Source, DocumentBlock, ImageBlock, Message, TextBlock, ToolSpec, UrlSource
from gateway.model import Model, ModelEnvironment, ModelRequest
from gateway.models.bedrock_converse import PROVIDER
from tests.bedrock_recordings import recorded_bytes, recorded_model_id, recordings
from tests.bedrock_server import (
    ACCESS_KEY,
    REGION,
    SECRET_KEY,
    BedrockServer,
    Reply,
    bedrock_server,
    exception,
    hello,
    message_stop,
    metadata,
    text,
    tool,
)
from tests.model_answers import answer_of, collect
from tests.movable_clock import MovableClock

CLAUDE = "us.anthropic.claude-sonnet-4-20250514-v1:0"
KEYS = {"access_key": Secret(ACCESS_KEY), "secret_key": Secret(SECRET_KEY)}
DEADLINE_SECONDS = 10.0

Open: TypeAlias = Callable[..., Model]


@pytest.fixture
async def server() -> AsyncGenerator[BedrockServer]:
    async with bedrock_server() as running:
        yield running


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture
async def http(clock: MovableClock) -> AsyncGenerator[HttpClients]:
    clients = HttpClients(clock)
    yield clients
    await clients.close()


@pytest.fixture
def open_model(server: BedrockServer, clock: MovableClock, http: HttpClients) -> Open:
    def opened(**settings: Any) -> Model:
        whole = {"model_id": CLAUDE, "endpoint": server.url, "region": REGION, "credential": KEYS, **settings}
        return PROVIDER.open(ModelSettings("bedrock/converse", **whole), ModelEnvironment(clock, http))

    return opened


def asked(*blocks: Any, **fields: Any) -> ModelRequest:
    return ModelRequest("turn", (Message("m", "user", blocks or (TextBlock("hi"),)),), **fields)


async def failure(model: Model, into: Events | None = None) -> ModelError:
    """The error that a question ends with."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        with pytest.raises(ModelError) as caught:
            await collect(model.stream(asked()), into)
    return caught.value


async def test_an_answer_is_streamed_and_the_request_is_signed_as_it_was_sent(
    server: BedrockServer, open_model: Open
) -> None:
    server.will_stream(hello("Hello there"))
    request = asked(system="Be brief.", tools=(ToolSpec("add", "Adds.", {}),), parameters={"max_tokens": 9})
    answer = answer_of(await collect(open_model().stream(request)))
    assert (answer.text, answer.stop) == ("Hello there", StopReason.END_TURN)
    (sent,) = server.requests
    assert (sent.method, sent.target) == (
        "POST",
        "/model/us.anthropic.claude-sonnet-4-20250514-v1%3A0/converse-stream",
    )
    assert sent.signature_problem is None
    assert sent.headers["accept"] == "application/vnd.amazon.eventstream"
    assert sent.headers["content-type"] == "application/json"
    assert "x-amz-security-token" not in sent.headers
    assert sent.json["inferenceConfig"] == {"maxTokens": 9}
    assert SECRET_KEY not in repr(sent)


@pytest.mark.parametrize(
    ("model_id", "path"),
    [
        (
            "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.amazon.nova-pro-v1:0",
            "arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Ainference-profile%2Fus.amazon.nova-pro-v1%3A0",
        ),
        ("a b/ü+~", "a%20b%2F%C3%BC%2B~"),
    ],
)
async def test_any_model_id_is_one_signed_segment_of_the_path(
    server: BedrockServer, open_model: Open, model_id: str, path: str
) -> None:
    server.will_stream(hello())
    await collect(open_model(model_id=model_id).stream(asked()))
    assert server.requests[0].target == f"/model/{path}/converse-stream"
    assert server.requests[0].signature_problem is None


async def test_a_session_token_a_path_before_the_api_and_a_large_body_are_signed_too(
    server: BedrockServer, open_model: Open
) -> None:
    server.will_stream(hello())
    model = open_model(credential={**KEYS, "session_token": Secret("token+/=")}, endpoint=server.url + "/proxy/")
    picture = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(1_500_000)).decode()
    await collect(model.stream(asked(TextBlock("see"), ImageBlock(Base64Source(picture, "image/png")))))
    (sent,) = server.requests
    assert sent.target.startswith("/proxy/model/us.")
    assert sent.headers["x-amz-security-token"] == "token+/="
    assert len(sent.body) > 2_000_000
    assert sent.signature_problem is None


async def test_a_bearer_key_takes_the_signatures_place(
    server: BedrockServer, open_model: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.will_stream(hello())
    await collect(open_model(credential={"bedrock_api_key": Secret("key-1")}).stream(asked()))
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "key-2")
    server.will_stream(hello())
    await collect(open_model(credential={}).stream(asked()))
    server.will_stream(hello())
    await collect(open_model().stream(asked()))
    first, second, third = (sent.headers["authorization"] for sent in server.requests)
    assert (first, second) == ("Bearer key-1", "Bearer key-2")
    assert third.startswith("AWS4-HMAC-SHA256")


@pytest.mark.parametrize("entry", recordings("eventstream"), ids=lambda entry: str(entry["response"]))
async def test_a_recorded_stream_comes_through_the_socket_in_pieces(
    server: BedrockServer, open_model: Open, entry: dict[str, Any]
) -> None:
    data = recorded_bytes(entry)
    server.will_stream(*(data[i : i + 97] for i in range(0, len(data), 97)))
    answer = answer_of(await collect(open_model(model_id=recorded_model_id(entry)).stream(asked())))
    assert (answer.text, answer.reasoning) == (entry["expect"]["text"], entry["expect"]["reasoning"])


async def test_what_one_read_brings_is_one_batch(server: BedrockServer, open_model: Open) -> None:
    server.will_stream(b"".join(text(f"{i} ") for i in range(200)) + message_stop() + metadata())
    async with aclosing(open_model().stream(asked())) as stream:
        batches = [batch async for batch in stream]
    assert sum(len(event.texts) for batch in batches for event in batch if isinstance(event, TextDelta)) == 200
    assert len(batches) <= 4


async def test_the_connection_is_used_again(server: BedrockServer, open_model: Open) -> None:
    model = open_model()
    for _ in range(3):
        server.will_stream(hello())
        await collect(model.stream(asked()))
    assert server.connections == 1


# --- refusals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "name", "kind", "retryable"),
    [
        (400, "ValidationException", ModelErrorKind.INVALID, False),
        (400, "ServiceQuotaExceededException", ModelErrorKind.QUOTA, False),
        (403, "AccessDeniedException", ModelErrorKind.AUTHENTICATION, False),
        (403, "ExpiredTokenException", ModelErrorKind.AUTHENTICATION, False),
        (404, "ResourceNotFoundException", ModelErrorKind.NOT_FOUND, False),
        (408, "ModelTimeoutException", ModelErrorKind.TIMEOUT, True),
        (424, "ModelErrorException", ModelErrorKind.SERVER, True),
        (429, "ThrottlingException", ModelErrorKind.THROTTLED, True),
        (429, "ModelNotReadyException", ModelErrorKind.OVERLOADED, True),
        (500, "InternalServerException", ModelErrorKind.SERVER, True),
        (503, "ServiceUnavailableException", ModelErrorKind.OVERLOADED, True),
        (529, "", ModelErrorKind.OVERLOADED, True),
    ],
)
async def test_a_refusal_says_what_it_means_and_nothing_else(
    server: BedrockServer, open_model: Open, status: int, name: str, kind: ModelErrorKind, retryable: bool
) -> None:
    server.will_refuse(status, name, "the details at arn:aws:secret")
    error = await failure(open_model())
    assert (error.kind, error.retryable) == (kind, retryable)
    assert "secret" not in error.message
    assert "Exception" not in error.message
    assert "the details" in error.provider_message


async def test_the_name_may_stand_in_the_body_and_the_wait_in_a_header(server: BedrockServer, open_model: Open) -> None:
    body = json.dumps({"__type": "com.amazon.coral#ThrottlingException", "Message": "slow down"}).encode()
    server.will_reply(Reply([body], 400, {"content-type": "application/json", "retry-after": "7"}))
    error = await failure(open_model())
    assert (error.kind, error.retry_after_seconds) == (ModelErrorKind.THROTTLED, 7.0)
    assert error.provider_message == "ThrottlingException: slow down"


async def test_an_overflow_is_told_apart_from_other_refusals(server: BedrockServer, open_model: Open) -> None:
    server.will_refuse(400, "ValidationException", "Input is too long for requested model.")
    assert (await failure(open_model())).kind is ModelErrorKind.CONTEXT_OVERFLOW


@pytest.mark.parametrize(
    "reply",
    [
        Reply([b"<html>Login</html>"], 200, {"content-type": "text/html"}),
        Reply([b"<html>Login</html>"], 200),
        Reply([b"{}"], 200, {"content-type": "application/json"}),
        Reply([], 302, {"location": "http://127.0.0.1:1/elsewhere"}),
    ],
)
async def test_what_is_no_stream_is_a_protocol_error_and_redirects_are_not_followed(
    server: BedrockServer, open_model: Open, reply: Reply
) -> None:
    server.will_reply(reply)
    assert (await failure(open_model())).kind is ModelErrorKind.PROTOCOL
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [500, 502, 403])
async def test_a_refusal_in_html_is_mapped_by_its_status(server: BedrockServer, open_model: Open, status: int) -> None:
    server.will_reply(Reply([b"<html>\xff</html>"], status, {"content-type": "text/html"}))
    expected = ModelErrorKind.SERVER if status >= 500 else ModelErrorKind.AUTHENTICATION
    assert (await failure(open_model())).kind is expected


async def test_a_wrong_secret_is_noticed_by_the_servers_check(server: BedrockServer, open_model: Open) -> None:
    server.will_stream(hello())
    await collect(open_model(credential={**KEYS, "secret_key": Secret("wrong")}).stream(asked()))
    assert server.requests[0].signature_problem == "the signature is another one"


# --- faults ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "internalServerException",
        "modelStreamErrorException",
        "validationException",
        "throttlingException",
        "serviceUnavailableException",
    ],
)
async def test_an_exception_in_the_middle_comes_after_what_was_said(
    server: BedrockServer, open_model: Open, name: str
) -> None:
    server.will_stream(text("Hel") + exception(name, "no more"))
    said: Events = []
    error = await failure(open_model(), said)
    assert [event.text for event in said if isinstance(event, TextDelta)] == ["Hel"]
    assert error.provider_message.endswith("no more")


@pytest.mark.parametrize(("keep", "then"), [(0, "reset"), (50, "reset"), (200, "reset"), (200, "close"), (0, "close")])
async def test_a_connection_that_breaks_is_a_network_error_and_what_came_before_is_kept(
    server: BedrockServer, open_model: Open, keep: int, then: Any
) -> None:
    server.will_stream(*[hello()[:keep]] * bool(keep), then=then)
    error = await failure(open_model())
    assert error.kind is ModelErrorKind.NETWORK
    assert error.retryable


async def test_a_stream_that_ends_without_its_stop_is_truncated(server: BedrockServer, open_model: Open) -> None:
    server.will_stream(text("Hel"), tool(1, "a", "add", '{"x"'))
    said: Events = []
    error = await failure(open_model(), said)
    assert error.kind is ModelErrorKind.TRUNCATED
    assert any(isinstance(event, TextDelta) for event in said)


async def test_a_broken_checksum_is_a_protocol_error_after_what_was_said(
    server: BedrockServer, open_model: Open
) -> None:
    broken = bytearray(text("lo"))
    broken[-1] ^= 1
    server.will_stream(text("Hel") + bytes(broken))
    said: Events = []
    assert (await failure(open_model(), said)).kind is ModelErrorKind.PROTOCOL
    assert [event.text for event in said if isinstance(event, TextDelta)] == ["Hel"]


async def test_a_break_after_the_stop_only_costs_the_costs(server: BedrockServer, open_model: Open) -> None:
    server.will_stream(text("Hello") + message_stop(), then="close")
    answer = answer_of(await collect(open_model().stream(asked())))
    assert (answer.text, answer.stop, answer.usage) == ("Hello", StopReason.END_TURN, None)


async def test_the_operators_timeouts_count(server: BedrockServer, open_model: Open, clock: MovableClock) -> None:
    server.will_stream(text("Hel"), then="silence")
    said: Events = []
    task = asyncio.create_task(failure(open_model(timeouts=ModelTimeouts(idle_seconds=5)), said))
    await clock.until(lambda: said)
    await clock.until_timer(5.0)
    await clock.advance(6.0)
    assert (await task).kind is ModelErrorKind.TIMEOUT


async def test_silence_in_the_middle_is_a_timeout(server: BedrockServer, open_model: Open, clock: MovableClock) -> None:
    server.will_stream(text("Hel"), then="silence")
    said: Events = []
    task = asyncio.create_task(failure(open_model(), said))
    await clock.until(lambda: said)
    await clock.until_timer(120.0)
    await clock.advance(121.0)
    assert (await task).kind is ModelErrorKind.TIMEOUT
    await server.until_client_left()


async def test_silence_before_the_headers_is_a_timeout(
    server: BedrockServer, open_model: Open, clock: MovableClock
) -> None:
    server.will_reply(Reply(headers_sent=False, then="silence"))
    task = asyncio.create_task(failure(open_model()))
    await clock.until(lambda: server.requests)
    await clock.advance(131.0)
    assert (await task).kind is ModelErrorKind.TIMEOUT


async def test_silence_after_the_stop_is_an_answer(
    server: BedrockServer, open_model: Open, clock: MovableClock
) -> None:
    server.will_stream(text("Hello") + message_stop(), then="silence")
    said: Events = []
    task = asyncio.create_task(collect(open_model().stream(asked()), said))
    await clock.until(lambda: said)
    await clock.until_timer(120.0)
    await clock.advance(121.0)
    async with asyncio.timeout(DEADLINE_SECONDS):
        assert answer_of(await task).stop is StopReason.END_TURN


async def test_nobody_listens_at_the_endpoint(server: BedrockServer, open_model: Open) -> None:
    error = await failure(open_model(endpoint="http://127.0.0.1:1"))
    assert error.kind is ModelErrorKind.NETWORK


async def test_closing_the_generator_closes_the_socket_at_once(server: BedrockServer, open_model: Open) -> None:
    server.will_stream(text("Hel"), then="silence")
    stream = open_model().stream(asked())
    assert await anext(stream)
    await stream.aclose()
    await server.until_client_left()


async def test_cancelling_the_task_closes_the_socket_at_once(
    server: BedrockServer, open_model: Open, clock: MovableClock
) -> None:
    server.will_stream(text("Hel"), then="silence")
    said: Events = []
    task = asyncio.create_task(collect(open_model().stream(asked()), said))
    await clock.until(lambda: said)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    await server.until_client_left()


# --- credentials, region, media ----------------------------------------------------------------------------------


@pytest.fixture
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> pytest.MonkeyPatch:
    """An environment in which AWS's chain finds nothing, and asks no metadata service."""
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "PROFILE", "DEFAULT_REGION", "REGION"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    for name in ("AWS_BEARER_TOKEN_BEDROCK", "AWS_DEFAULT_PROFILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("BOTO_CONFIG", str(tmp_path / "boto"))
    return monkeypatch


async def test_credentials_and_region_come_from_the_environment_where_none_are_configured(
    server: BedrockServer, open_model: Open, bare_environment: pytest.MonkeyPatch
) -> None:
    bare_environment.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    bare_environment.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    bare_environment.setenv("AWS_DEFAULT_REGION", REGION)
    server.will_stream(hello())
    await collect(open_model(credential={}, region=None).stream(asked()))
    assert server.requests[0].signature_problem is None


async def test_without_credentials_or_region_the_error_says_what_to_set(
    server: BedrockServer, open_model: Open, bare_environment: pytest.MonkeyPatch
) -> None:
    error = await failure(open_model(credential={}))
    assert error.kind is ModelErrorKind.AUTHENTICATION
    assert "access_key" in error.message
    error = await failure(open_model(region=None, endpoint=None))
    assert (error.kind, error.retryable) == (ModelErrorKind.INVALID, False)
    assert "region" in error.message
    bare_environment.setenv("AWS_PROFILE", "nobody")
    error = await failure(open_model(credential={}))
    assert error.kind is ModelErrorKind.AUTHENTICATION
    assert "nobody" not in error.message


async def test_the_region_of_an_arn_is_the_models(
    server: BedrockServer, open_model: Open, bare_environment: pytest.MonkeyPatch
) -> None:
    server.will_stream(hello())
    model_id = f"arn:aws:bedrock:{REGION}:123456789012:inference-profile/us.amazon.nova-pro-v1:0"
    await collect(open_model(region=None, model_id=model_id).stream(asked()))
    assert server.requests[0].signature_problem is None


async def test_media_behind_urls_are_fetched_and_a_refused_one_leaves_a_note(
    server: BedrockServer, clock: MovableClock
) -> None:
    png = b"\x89PNG\r\n\x1a\n" + bytes(20)
    async with bedrock_server() as files:
        files.will_reply(Reply([png], 200, {"content-type": "image/png"}))
        http = HttpClients(clock, allowed_private_hosts=frozenset({"127.0.0.1"}))
        settings = ModelSettings("bedrock/converse", CLAUDE, server.url, KEYS, REGION)
        model = PROVIDER.open(settings, ModelEnvironment(clock, http))
        blocks = (
            TextBlock("see"),
            ImageBlock(UrlSource(f"{files.url}/a.png")),
            DocumentBlock(UrlSource("http://169.254.169.254/latest/secret.pdf")),
        )
        for _ in range(2):  # the second time nothing is fetched
            server.will_stream(hello())
            await collect(model.stream(asked(*blocks)))
        assert len(files.requests) == 1
        await http.close()
    for sent in server.requests:
        content = sent.json["messages"][0]["content"]
        assert content[1] == {"image": {"format": "png", "source": {"bytes": base64.b64encode(png).decode()}}}
        assert content[2]["text"].startswith("(a document was left out")
        assert "169.254" not in sent.body.decode()
