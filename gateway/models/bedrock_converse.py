"""Amazon Bedrock's ConverseStream.

Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html. The request's writer,
the answer's reader, the errors and the signatures are in `bedrock/`.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from dataclasses import replace
from urllib.parse import quote

from gateway.agent import ModelSettings
from gateway.bedrock.converse import PROVIDER_NAME
from gateway.bedrock.converse_reader import ConverseReader
from gateway.bedrock.converse_request import converse_request, encoded, media_refusal
from gateway.bedrock.errors import protocol_error, provider_error, refusal
from gateway.bedrock.families import family_of
from gateway.bedrock.media import MAX_BYTES
from gateway.bedrock.options import converse_options
from gateway.bedrock.parameters import MODEL_FAMILY, request_fields
from gateway.bedrock.responses_hosts import RUNTIME_HOSTS
from gateway.bedrock.signing import BEDROCK_API_KEY, CREDENTIAL_NAMES, AwsSigner, bedrock_signer
from gateway.errors import ConfigurationError, ModelError, ModelErrorKind
from gateway.events import Events
from gateway.http_client.clients import HttpCall, HttpStream, StreamTimeouts
from gateway.messages import MEDIA_KINDS
from gateway.model import ModelCapabilities, ModelEnvironment, ModelProvider, ModelRequest
from gateway.providers.access import checked_address
from gateway.providers.answer_builder import AnswerBuilder
from gateway.providers.answer_reader import AnswerStream
from gateway.providers.endpoints import address_below
from gateway.providers.error_bodies import retry_after_seconds
from gateway.providers.failures import with_answer
from gateway.providers.media_fetch import MediaFetcher

EVENT_STREAM = "application/vnd.amazon.eventstream"


class BedrockConverseModel:
    """One Bedrock model in one region, or at one private endpoint."""

    provider = PROVIDER_NAME

    def __init__(self, settings: ModelSettings, environment: ModelEnvironment) -> None:
        self.model_id = settings.model_id
        family = settings.model_parameters.get(MODEL_FAMILY)
        self._family = family_of(family if isinstance(family, str) else settings.model_id)
        self._path = path = f"/model/{quote(settings.model_id, safe='')}/converse-stream"
        endpoint = settings.endpoint
        self._url = checked_address(endpoint, lambda base: address_below(base, path)) if endpoint else None
        self._signer = _open_signer(settings, own_identity=environment.own_identity)
        self._environment = environment
        self._timeouts = StreamTimeouts.of_model(settings.timeouts)
        most = {block: MAX_BYTES[kind] for block, kind in MEDIA_KINDS.items()}
        self._media = MediaFetcher(environment.http, environment.clock, most)
        media = self._family.input_media
        self.capabilities = ModelCapabilities(
            reasoning=self._family.reasons,
            image_input="image" in media,
            audio_input="audio" in media,
            video_input="video" in media,
            document_input="document" in media,
            options=converse_options(self._family).taken,
            media_refusal=media_refusal,
        )

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Events]:
        """As model.Model says. It makes one HTTP request; the loop retries."""
        inline = replace(request, messages=await self._media.inline(request.messages))
        try:
            asked = converse_request(inline, self.model_id, self._family)
        except ValueError as error:
            raise ModelError(ModelErrorKind.INVALID, str(error)) from None
        call = (await self._signer.sign(await self._call(encoded(asked.body)))).part_of(request.trace)
        builder = AnswerBuilder(request, PROVIDER_NAME, self.model_id)
        reader = ConverseReader(builder, self.model_id, self._family, asked.names, asked.guardrail)
        async with self._environment.http.stream(call, self._timeouts) as response:
            await self._expect_stream(response)
            answer = AnswerStream(response, reader, self._environment.window)
            while not reader.done:
                if events := await answer.next():
                    yield events
            await response.settle()

    async def close(self) -> None:
        """Nothing to close: the HTTP clients belong to the process."""

    async def _call(self, content: bytes) -> HttpCall:
        url = self._url or _public_endpoint(await self._signer.region()) + self._path
        headers = {"content-type": "application/json", "accept": EVENT_STREAM}
        return HttpCall("POST", url, headers, content)

    async def _expect_stream(self, response: HttpStream) -> None:
        content_type = response.headers.get("content-type", EVENT_STREAM)
        if response.status == 200 and content_type.startswith(EVENT_STREAM):
            return
        body = await response.read(20_000)
        if response.status < 400:  # a redirect, or a page instead of the stream
            raise protocol_error(f"status {response.status}, {content_type}: {body[:200]!r}")
        name, text = refusal(response.headers, body)
        wait = retry_after_seconds(response.headers, self._environment.clock.now())
        error = provider_error(
            name,
            text,
            self.model_id,
            status=response.status,
            retry_after_seconds=wait,
            address=response.address,
        )
        raise with_answer(error, response.status, body)


def _open_signer(settings: ModelSettings, *, own_identity: bool) -> AwsSigner:
    region = settings.region or _region_of(settings.model_id, r"^arn:[^:]+:[a-z]+:([a-z0-9-]+):")
    if settings.endpoint:
        region = region or _region_of(settings.endpoint, r"bedrock-runtime(?:-fips)?\.([a-z0-9-]+)\.")
    return bedrock_signer("bedrock", settings.credential, region, own_identity=own_identity)


def _region_of(text: str, pattern: str) -> str | None:
    found = re.search(pattern, text)
    return found.group(1) if found else None


def _public_endpoint(region: str) -> str:
    domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"https://bedrock-runtime.{region}.{domain}"


def open_bedrock_converse(settings: ModelSettings, environment: ModelEnvironment) -> BedrockConverseModel:
    """A model. Region and credentials that are not in the settings are looked up at the first call.

    Raises:
        ConfigurationError: an unknown name among the credentials, half a pair of keys, an endpoint that is no URL, a
            parameter that Bedrock can never accept.
    """
    if not settings.model_id:
        raise ConfigurationError(
            f"{PROVIDER_NAME} needs a model_id, such as 'us.anthropic.claude-sonnet-4-5-20250929-v1:0'"
        )
    if unknown := sorted(set(settings.credential) - PROVIDER.credentials):
        known = ", ".join(sorted(PROVIDER.credentials))
        raise ConfigurationError(f"{PROVIDER_NAME} knows no credential {unknown[0]!r}; there are: {known}")
    try:
        request_fields(settings.model_parameters)
    except ValueError as error:
        raise ConfigurationError(f"model_parameters: {error}") from None
    return BedrockConverseModel(settings, environment)


PROVIDER = ModelProvider(
    PROVIDER_NAME,
    open_bedrock_converse,
    credentials=CREDENTIAL_NAMES | {BEDROCK_API_KEY},
    from_callers=True,
    endpoints=(RUNTIME_HOSTS,),
)
