"""The Responses API: OpenAI, Azure, and everything else that speaks it (OpenRouter, DeepSeek, vLLM, Ollama, ...).

Source: https://platform.openai.com/docs/api-reference/responses (API version 1). The gateway keeps the conversation and
sends all of it with each request (`store: false`). For a `stateful` model the server keeps it too, and each request
sends only the new messages. `openai/responses_request.py` writes requests, `openai/responses_reader.py` reads the
stream; the differences between servers are data in `openai/responses.py`.

`model_parameters` are sent as the operator wrote them and win over the gateway's own fields; a null removes a field.
Only `tools` and `include` are joined with the gateway's. `params` are put into the body last, exactly as they are.
"""

from __future__ import annotations

import logging
from urllib.parse import urlsplit

from gateway.agent import ModelSettings, Secret
from gateway.http_client.clients import HttpCall
from gateway.model import ModelEnvironment, ModelProvider
from gateway.openai.responses import profile_of, response_url, responses_url
from gateway.openai.responses_model import HEADERS, ResponsesModel, identity
from gateway.providers.access import checked_address, key_header
from gateway.providers.error_bodies import ProviderError

logger = logging.getLogger(__name__)

NAME = "openai/v1/responses"
DEFAULT_ENDPOINT = "https://api.openai.com/v1"
API_KEY = "openai_api_key"


class _Endpoint:
    """One address and one key."""

    def __init__(self, settings: ModelSettings) -> None:
        self.url = checked_address(settings.endpoint or DEFAULT_ENDPOINT, responses_url)
        self._headers = {**HEADERS, **key_header(settings, API_KEY, DEFAULT_ENDPOINT)}

    async def create(self, body: bytes) -> HttpCall:
        return HttpCall("POST", self.url, self._headers, body)

    async def existing(self, response_id: str, *, method: str = "GET", action: str = "", query: str = "") -> HttpCall:
        return HttpCall(method, response_url(self.url, response_id, action, query), self._headers)

    def learn(self, call: HttpCall, status: int, error: ProviderError) -> bool:
        return False


def open_responses(settings: ModelSettings, environment: ModelEnvironment) -> ResponsesModel:
    """A model. Raises ConfigurationError if the endpoint is not a URL, or the key is missing or cannot be sent."""
    endpoint = _Endpoint(settings)
    profile = profile_of(urlsplit(endpoint.url).hostname or "", settings.model_id)
    if not profile.samplers and (refused := {"temperature", "top_p"} & set(settings.model_parameters)):
        logger.warning(
            "a parameter that this model is known to refuse is sent all the same",
            extra={"model": settings.model_id, "parameters": sorted(refused)},
        )
    holder = (endpoint.url, identity(settings.credential.get(API_KEY, Secret("")).reveal()))
    return ResponsesModel(NAME, settings, endpoint, profile, environment, holder=holder)


PROVIDER = ModelProvider(
    NAME,
    open_responses,
    credentials=frozenset({API_KEY}),
    options=frozenset({"params", "stateful", "background"}),
    from_callers=True,
    endpoints=(r"^https://api\.openai\.com/.*$",),
)
