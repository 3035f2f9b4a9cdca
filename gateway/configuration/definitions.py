"""From an agent's section to its definition, and the problems of the parts that it names.

Below: sections, file, known_parts. Above: settings, which has agents of the file; agent_body, which has agents of
callers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import unquote, urlsplit

from gateway.agent import (
    AgentDefinition,
    Budgets,
    ClientInstructions,
    ContextSettings,
    ModelSettings,
    ModelTimeouts,
    Secret,
    ToolSettings,
)
from gateway.configuration.file import FieldPath, FieldProblem, below
from gateway.configuration.known_parts import KnownParts, provider_name
from gateway.configuration.sections import AgentSection, FallbackSection, ModelSection, OptionsSection
from gateway.errors import ConfigurationError
from gateway.history.context_limits import HistoryLimits
from gateway.loop import LoopEnvironment
from gateway.messages import JsonValue
from gateway.model import ModelEnvironment
from gateway.options.generation import NO_OPTIONS, GenerationOptions
from gateway.options.run_options import LOCKABLE
from gateway.providers.headers import is_secret_header
from gateway.tool import ToolEnvironment

_SettingsT = TypeVar("_SettingsT")
_EnvironmentT = TypeVar("_EnvironmentT")

# For texts that may be secret or not: shorter ones would mask ordinary words.
SHORTEST_UNKNOWN_SECRET = 8
_ORDINARY_HEADERS = frozenset({"accept", "accept-language", "content-type", "user-agent"})


@dataclass(frozen=True, slots=True)
class PartEnvironments:
    """The environments in which an agent's parts are opened."""

    models: ModelEnvironment
    tools: ToolEnvironment
    loops: LoopEnvironment


def agent_definition(section: AgentSection, parts: KnownParts) -> AgentDefinition:
    """The definition that a section without problems means."""
    return AgentDefinition(
        id=section.id,
        name=section.name or section.id,
        type=section.type,
        description=section.description,
        system_prompt=section.system_prompt,
        model=_model_settings(section.model, parts),
        tools=tuple(
            ToolSettings(
                tool.type,
                tool.name,
                tool.description,
                tool.parameters or {},
                tool.approval,
                tool.approvers,
                tool.expose_errors,
                tool.idempotent,
            )
            for tool in section.tools
        ),
        on_disconnect=section.on_disconnect,
        on_takeover=section.on_takeover,
        on_concurrent_run=section.on_concurrent_run,
        history=section.history,
        budgets=Budgets(**section.parameters.model_dump()),
        context=ContextSettings(
            HistoryLimits(
                section.context.max_messages, section.context.max_tokens, section.context.max_earlier_messages
            ),
            section.context.summarize,
            frozenset(section.context.model_fields_set),
        ),
        client_instructions=ClientInstructions(**section.client_instructions.model_dump()),
        locked=LOCKABLE if "all" in section.locked else frozenset(section.locked),
        usage_event=section.usage_event,
        protocol_settings=_protocol_settings(section),
        allow_models=section.allow_models,
    )


def _protocol_settings(section: AgentSection) -> Mapping[str, object]:
    names = type(section).model_fields.keys() - AgentSection.model_fields.keys()
    found = {name: getattr(section, name) for name in sorted(names)}
    return {name: settings for name, settings in found.items() if settings is not None}


def _model_settings(section: FallbackSection, parts: KnownParts) -> ModelSettings:
    return ModelSettings(
        model_provider=provider_name(section.model_provider, section.api, parts.models),
        model_id=section.model_id,
        endpoint=section.endpoint,
        credential={name: Secret(value) for name, value in (section.credential or {}).items()},
        region=section.region,
        model_parameters=section.model_parameters or {},
        options=_options(section.options) if isinstance(section, ModelSection) else NO_OPTIONS,
        params=section.params or {},
        headers={name: Secret(value) for name, value in (section.headers or {}).items()},
        compute_environment=section.compute_environment,
        stateful=isinstance(section, ModelSection) and section.stateful,
        background=isinstance(section, ModelSection) and section.background,
        timeouts=ModelTimeouts(**section.timeouts.model_dump()),
        fallback=tuple(
            _model_settings(other, parts) for other in (section.fallback if isinstance(section, ModelSection) else ())
        ),
    )


def _options(section: OptionsSection) -> GenerationOptions:
    options = GenerationOptions(**section.model_dump())
    return options if options.named else NO_OPTIONS


def opening_problems(
    agent: AgentDefinition, parts: KnownParts, environments: PartEnvironments, path: FieldPath = ()
) -> Iterator[FieldProblem]:
    """Open the agent's loop, models and tools, which does no I/O, and give the problems; their paths begin with
    `path`.
    """
    agent_type = parts.agent_types[agent.type]
    if agent.on_takeover == "continue" and not agent_type.goes_on:
        detail = f"agents of type {agent.type!r} cannot go on with a run of another process: only 'end' is possible"
        yield (*path, "on_takeover"), detail
    yield from opening_problem(path, agent_type.open, agent, environments.loops)
    models = [((*path, "model"), agent.model)]
    models += [((*path, "model", "fallback", number), other) for number, other in enumerate(agent.model.fallback)]
    models += [
        ((*path, "allow_models", number), agent.with_model(id).model) for number, id in enumerate(agent.allow_models)
    ]
    for at, model in models:
        yield from opening_problem(at, parts.models[model.model_provider].open, model, environments.models)
    for number, tool in enumerate(agent.tools):
        yield from opening_problem((*path, "tools", number), parts.tools[tool.type].open, tool, environments.tools)


def opening_problem(
    path: FieldPath,
    open_part: Callable[[_SettingsT, _EnvironmentT], object],
    settings: _SettingsT,
    environment: _EnvironmentT,
) -> Iterator[FieldProblem]:
    """The problem of a part's settings, found by opening the part."""
    try:
        open_part(settings, environment)
    except ConfigurationError as error:
        yield from fields_of(error, path)


def fields_of(error: ConfigurationError, path: FieldPath) -> Iterator[FieldProblem]:
    """The error's wrong fields, else the section itself."""
    return below(path, error.fields or [((), error.message)])


def agent_secrets(agent: AgentSection) -> Iterator[str]:
    """The secrets of an agent that no log may show: credentials, passwords in URLs, and headers that look secret."""
    for model in (agent.model, *agent.model.fallback):
        yield from url_secrets(model.endpoint)
        yield from (model.credential or {}).values()
        yield from _header_secrets(model.headers)
    for tool in agent.tools:
        yield from _header_secrets((tool.parameters or {}).get("headers"))


def url_secrets(url: str | None) -> Iterator[str]:
    """The password in a URL, as it stands there and as it is meant."""
    if url and (password := urlsplit(url).password):
        yield from {password, unquote(password)}


def _header_secrets(headers: JsonValue | Mapping[str, str]) -> Iterator[str]:
    """The headers' values, and for `Bearer <key>` also the key alone."""
    if not isinstance(headers, Mapping):
        return
    for name, value in headers.items():
        if isinstance(value, str) and name.lower() not in _ORDINARY_HEADERS:
            candidates = (value, value.strip().partition(" ")[2].strip())
            yield from (each for each in candidates if len(each) >= SHORTEST_UNKNOWN_SECRET)
            if is_secret_header(name):
                yield value
