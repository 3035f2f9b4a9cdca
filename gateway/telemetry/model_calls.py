"""A span for each try of a model call: put around the models where traces are collected.

Below: traces, content, model, transcript. Above: the composition root. A retry or a fallback is a span of its own, so
that one sees what failed and how long the waits between were.
https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/gen-ai-spans.md
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace
from urllib.parse import urlsplit

from gateway.agent import ModelSettings
from gateway.events import Events, ModelCallAccepted, ModelCallEnded, Usage, UsageReported
from gateway.model import Model, ModelCapabilities, ModelEnvironment, ModelProvider, ModelRequest, StatefulModel
from gateway.telemetry.content import request_content, response_content
from gateway.traces import Attributes, Span, error_type
from gateway.transcript import Transcript

_VENDORS = {"bedrock": "aws.bedrock", "gemini": "gcp.gemini"}
_PARAMETERS = ("frequency_penalty", "max_tokens", "presence_penalty", "seed", "temperature", "top_k", "top_p")


def traced_providers(providers: Mapping[str, ModelProvider]) -> Mapping[str, ModelProvider]:
    """The same providers, whose models have a span for each call."""
    return {name: replace(part, open=_Opening(part)) for name, part in providers.items()}


class _Opening:
    def __init__(self, part: ModelProvider) -> None:
        self._part = part

    def __call__(self, settings: ModelSettings, environment: ModelEnvironment) -> Model:
        model = self._part.open(settings, environment)
        traced = TracedStatefulModel if isinstance(model, StatefulModel) else TracedModel
        return traced(model, _address(settings.endpoint))


class TracedModel:
    """A model around another."""

    def __init__(self, model: Model, address: Attributes) -> None:
        self._model = model
        self._address = address

    @property
    def provider(self) -> str:
        return self._model.provider

    @property
    def model_id(self) -> str:
        return self._model.model_id

    @property
    def capabilities(self) -> ModelCapabilities:
        return self._model.capabilities

    def stream(self, request: ModelRequest) -> AsyncGenerator[Events]:
        """As Model says."""
        return self._model.stream(request) if request.trace is None else self._traced(request, request.trace)

    async def close(self) -> None:
        """As Model says."""
        await self._model.close()

    async def _traced(self, request: ModelRequest, parent: Span) -> AsyncGenerator[Events]:
        span = parent.begin(f"chat {self.model_id}", self._attributes(request), kind="client")
        answer = _Answer(span)
        try:
            if span.shows_content:
                span.add(request_content(request))
            async with aclosing(self._model.stream(replace(request, trace=span))) as batches:
                async for events in batches:
                    answer.follow(events)
                    yield events
        except BaseException as error:
            answer.end(error_type(error))
            raise
        answer.end()

    def _attributes(self, request: ModelRequest) -> Attributes:
        options = request.options
        numbers = {name: request.parameters.get(name) for name in _PARAMETERS}
        numbers |= {name: value for name in _PARAMETERS if (value := getattr(options, name)) is not None}
        return {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": vendor_of(self.provider),
            "gen_ai.request.model": self.model_id,
            "gen_ai.request.stream": self.capabilities.streaming,
            "agui_gateway.model_provider": self.provider,
            **{f"gen_ai.request.{name}": value for name, value in numbers.items() if isinstance(value, int | float)},
            **self._address,
        }


class TracedStatefulModel(TracedModel):
    """One whose provider's server keeps responses."""

    async def forget(self, response_id: str) -> None:
        """As StatefulModel says."""
        assert isinstance(self._model, StatefulModel)
        await self._model.forget(response_id)


class _Answer:
    """Collects facts about a response as its events pass."""

    def __init__(self, span: Span) -> None:
        self._span = span
        self._began = time.perf_counter()
        self._begun = False
        self._ended: ModelCallEnded | None = None
        self._usage: Usage | None = None
        self._transcript = Transcript() if span.shows_content else None

    def follow(self, events: Events) -> None:
        if self._transcript is not None:
            self._transcript.follow(events)
        if not self._begun:
            self._begun = True
            self._span.add({"gen_ai.response.time_to_first_chunk": time.perf_counter() - self._began})
        for event in events:
            if isinstance(event, UsageReported):
                self._usage = event.usage
            elif isinstance(event, ModelCallEnded):
                self._ended = event
            elif isinstance(event, ModelCallAccepted):
                self._span.add({"gen_ai.response.id": event.response_id})

    def end(self, error: str = "") -> None:
        """End the span with the facts. A response whose reader leaves once it is whole has not failed."""
        span, ended = self._span, self._ended
        if self._usage is not None:
            span.add(usage_attributes(self._usage))
        if ended is not None:
            span.add({"gen_ai.response.finish_reasons": [ended.raw_reason or ended.reason.value]})
            if ended.response_id is not None:
                span.add({"gen_ai.response.id": ended.response_id})
        if self._transcript is not None:
            span.add(response_content(self._transcript.messages, "error" if ended is None else ended.reason.value))
        span.end("" if ended is not None else error)


def vendor_of(provider: str) -> str:
    """The conventions' name for the vendor of a model provider."""
    vendor = provider.partition("/")[0]
    return _VENDORS.get(vendor, vendor)


def usage_attributes(usage: Usage) -> Attributes:
    """Token counts under the conventions' names, without those that the provider did not report."""
    counts = {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_input_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_input_tokens,
    }
    return {name: count for name, count in counts.items() if count is not None}


def _address(endpoint: str | None) -> Attributes:
    if endpoint is None:
        return {}
    parts = urlsplit(endpoint)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return {"server.address": parts.hostname or "", "server.port": port}
