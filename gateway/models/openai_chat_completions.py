"""Chat completions: OpenAI, and everything that calls itself compatible (Ollama, vLLM, OpenRouter, LiteLLM, ...).

Source: https://platform.openai.com/docs/api-reference/chat (API version 1). The request's writer, the answer's reader
and the differences between servers are in `openai/`.

`model_parameters` are sent as the operator wrote them and win over the gateway's own fields: `max_completion_tokens`
for OpenAI's reasoning models, `max_tokens` for most other servers. A parameter that is null removes the field
(`stream_options: null` for a server that refuses it).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import partial

from gateway.agent import ModelSettings
from gateway.events import Events
from gateway.http_client.clients import HttpCall, StreamTimeouts
from gateway.model import ModelCapabilities, ModelEnvironment, ModelProvider, ModelRequest
from gateway.openai.chat_completions import PROVIDER_NAME, completions_url, dialect_of
from gateway.openai.chat_options import chat_options
from gateway.openai.chat_reader import LIKENESS, ChatCompletionReader
from gateway.openai.chat_request import chat_request, media_refusal
from gateway.providers.access import checked_address, key_header
from gateway.providers.answer_reader import read_answer
from gateway.providers.repeated_events import RepeatedEventsReader
from gateway.wire import strict_json

DEFAULT_ENDPOINT = "https://api.openai.com/v1"
API_KEY = "openai_api_key"


class ChatCompletionsModel:
    """One model at one endpoint."""

    provider = PROVIDER_NAME

    def __init__(self, settings: ModelSettings, environment: ModelEnvironment) -> None:
        self._url = checked_address(settings.endpoint or DEFAULT_ENDPOINT, completions_url)
        self.model_id = settings.model_id
        self._dialect = dialect_of(self._url)
        self._headers = {
            "accept": "text/event-stream, application/json",
            "content-type": "application/json",
            **key_header(settings, API_KEY, DEFAULT_ENDPOINT),
        }
        self._environment = environment
        self._timeouts = StreamTimeouts.of_model(settings.timeouts)
        self.capabilities = ModelCapabilities(
            reasoning=True,
            image_input=True,
            audio_input=True,
            video_input=self._dialect.videos,
            document_input=True,
            options=chat_options(self._dialect, settings.model_id).taken,
            media_refusal=media_refusal(self._dialect),
        )

    def stream(self, request: ModelRequest) -> AsyncGenerator[Events]:
        """As model.Model says."""
        reader = RepeatedEventsReader(ChatCompletionReader(request, self.model_id), LIKENESS)
        return read_answer(self._environment, partial(self._call, request), self._timeouts, reader)

    async def close(self) -> None:
        """Nothing to close: the HTTP clients belong to the process."""

    async def _call(self, request: ModelRequest) -> HttpCall:
        body = chat_request(request, self.model_id, self._dialect)
        return HttpCall("POST", self._url, self._headers, strict_json.dump_to_keep(body)).part_of(request.trace)


def open_chat_completions(settings: ModelSettings, environment: ModelEnvironment) -> ChatCompletionsModel:
    """A model. Raises ConfigurationError if the endpoint is not a URL, or the key is missing or cannot be sent."""
    return ChatCompletionsModel(settings, environment)


PROVIDER = ModelProvider(
    PROVIDER_NAME,
    open_chat_completions,
    credentials=frozenset({API_KEY}),
    from_callers=True,
    endpoints=(r"^https://api\.openai\.com/.*$",),
)
