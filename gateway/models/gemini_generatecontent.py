"""Gemini by its own API: streamGenerateContent, at the Gemini API or at Vertex AI.

Source: https://ai.google.dev/api/generate-content (v1beta). The request's writer and the answer's reader are in
`gemini/`.

`model_parameters` that are members of the request (`safetySettings`, `toolConfig`, `tools`, ...) are sent as they are.
All others (`temperature`, `maxOutputTokens`, `thinkingConfig`, ...) go into `generationConfig`. For Vertex AI set
`endpoint` to `https://aiplatform.googleapis.com/v1beta1/projects/<project>/locations/global/publishers/google`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from functools import partial

from gateway.agent import ModelSettings
from gateway.events import Events
from gateway.gemini.generate_content import PROVIDER_NAME, modalities_of, profile_of, stream_url
from gateway.gemini.options import gemini_options
from gateway.gemini.reader import LIKENESS, GenerateContentReader
from gateway.gemini.request import gemini_request, media_refusal
from gateway.http_client.clients import HttpCall, StreamTimeouts
from gateway.messages import MEDIA_KINDS
from gateway.model import ModelCapabilities, ModelEnvironment, ModelProvider, ModelRequest
from gateway.providers.access import checked_address, key_header
from gateway.providers.answer_reader import read_answer
from gateway.providers.media_fetch import MediaFetcher
from gateway.providers.repeated_events import RepeatedEventsReader
from gateway.wire import strict_json

DEFAULT_ENDPOINT = "https://generativelanguage.googleapis.com/v1beta"
API_KEY = "gemini_api_key"

# A request may have 20 MB in all: https://ai.google.dev/gemini-api/docs/files
_LARGEST_MEDIUM = 14_000_000


class GeminiModel:
    """One Gemini model."""

    provider = PROVIDER_NAME

    def __init__(self, settings: ModelSettings, environment: ModelEnvironment) -> None:
        self._url = checked_address(
            settings.endpoint or DEFAULT_ENDPOINT, lambda endpoint: stream_url(endpoint, settings.model_id)
        )
        self.model_id = settings.model_id
        self._profile = profile_of(settings.model_id)
        gives = modalities_of(settings.model_id, {**settings.model_parameters, **settings.params})
        self.capabilities = ModelCapabilities(
            reasoning=True,
            image_output="IMAGE" in gives,
            audio_output="AUDIO" in gives,
            image_input=True,
            audio_input=True,
            video_input=True,
            document_input=True,
            options=gemini_options(self._profile).taken,
            media_refusal=media_refusal,
        )
        self._headers = {
            "accept": "text/event-stream",
            "content-type": "application/json",
            **key_header(settings, API_KEY, DEFAULT_ENDPOINT, "x-goog-api-key"),
        }
        self._environment = environment
        self._media = MediaFetcher(environment.http, environment.clock, dict.fromkeys(MEDIA_KINDS, _LARGEST_MEDIUM))
        self._timeouts = StreamTimeouts.of_model(settings.timeouts)

    def stream(self, request: ModelRequest) -> AsyncGenerator[Events]:
        """As model.Model says."""
        reader = RepeatedEventsReader(GenerateContentReader(request, self.model_id), LIKENESS)
        return read_answer(self._environment, partial(self._call, request), self._timeouts, reader)

    async def close(self) -> None:
        """Nothing to close: the HTTP clients belong to the process."""

    async def _call(self, request: ModelRequest) -> HttpCall:
        request = replace(request, messages=await self._media.inline(request.messages))
        body = gemini_request(request, self.model_id, self._profile)
        return HttpCall("POST", self._url, self._headers, strict_json.dump_to_keep(body)).part_of(request.trace)


def open_gemini(settings: ModelSettings, environment: ModelEnvironment) -> GeminiModel:
    """A model. Raises ConfigurationError if the endpoint is not a URL, or the key is missing or cannot be sent."""
    return GeminiModel(settings, environment)


PROVIDER = ModelProvider(
    PROVIDER_NAME,
    open_gemini,
    credentials=frozenset({API_KEY}),
    from_callers=True,
    endpoints=(r"^https://generativelanguage\.googleapis\.com/.*$",),
)
