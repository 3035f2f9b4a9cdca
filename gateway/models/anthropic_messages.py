"""Claude by Anthropic's own Messages API, and other servers of that API.

Source: https://docs.claude.com/en/api/messages (anthropic-version 2023-06-01). The request's writer and the answer's
reader are in `anthropic/`.

`model_parameters` (`thinking`, `max_tokens`, `tool_choice`, `mcp_servers`, ...) are sent as the operator wrote them and
win over the gateway's own fields; a null removes a field. Two of them are the gateway's and not Anthropic's:
`prompt_caching` (true, `5m`, `1h`), and `anthropic_beta`, a list that becomes the header of that name.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import partial

from gateway.agent import ModelSettings
from gateway.anthropic.messages_api import PROVIDER_NAME, VERSION, messages_url, profile_of
from gateway.anthropic.options import anthropic_options
from gateway.anthropic.reader import LIKENESS, MessageReader
from gateway.anthropic.request import anthropic_request, beta_header, media_refusal
from gateway.events import Events
from gateway.http_client.clients import HttpCall, StreamTimeouts
from gateway.model import ModelCapabilities, ModelEnvironment, ModelProvider, ModelRequest
from gateway.providers.access import checked_address, key_header
from gateway.providers.answer_reader import read_answer
from gateway.providers.repeated_events import RepeatedEventsReader
from gateway.wire import strict_json

DEFAULT_ENDPOINT = "https://api.anthropic.com"
API_KEY = "anthropic_api_key"


class AnthropicModel:
    """One Claude model."""

    provider = PROVIDER_NAME

    def __init__(self, settings: ModelSettings, environment: ModelEnvironment) -> None:
        self._url = checked_address(settings.endpoint or DEFAULT_ENDPOINT, messages_url)
        self.model_id = settings.model_id
        self._profile = profile_of(settings.model_id)
        self._headers = {
            "accept": "text/event-stream",
            "content-type": "application/json",
            "anthropic-version": VERSION,
            **key_header(settings, API_KEY, DEFAULT_ENDPOINT, "x-api-key"),
        }
        self._environment = environment
        self._timeouts = StreamTimeouts.of_model(settings.timeouts)
        self.capabilities = ModelCapabilities(
            reasoning=self._profile.reasons,
            image_input=True,
            document_input=self._profile.documents,
            options=anthropic_options(self._profile).taken,
            media_refusal=media_refusal(self._profile),
        )

    def stream(self, request: ModelRequest) -> AsyncGenerator[Events]:
        """As model.Model says."""
        reader = RepeatedEventsReader(MessageReader(request, self.model_id), LIKENESS)
        return read_answer(self._environment, partial(self._call, request), self._timeouts, reader)

    async def close(self) -> None:
        """Nothing to close: the HTTP clients belong to the process."""

    async def _call(self, request: ModelRequest) -> HttpCall:
        headers = dict(self._headers)
        if betas := beta_header(request):
            headers["anthropic-beta"] = betas
        body = anthropic_request(request, self.model_id, self._profile)
        return HttpCall("POST", self._url, headers, strict_json.dump_to_keep(body)).part_of(request.trace)


def open_anthropic_messages(settings: ModelSettings, environment: ModelEnvironment) -> AnthropicModel:
    """A model. Raises ConfigurationError if the endpoint is not a URL, or the key is missing or cannot be sent."""
    return AnthropicModel(settings, environment)


PROVIDER = ModelProvider(
    PROVIDER_NAME,
    open_anthropic_messages,
    credentials=frozenset({API_KEY}),
    from_callers=True,
    endpoints=(r"^https://api\.anthropic\.com/.*$",),
)
