"""The parts that a configuration can name, by their names.

Below: parts, and the kinds of parts. Above: checks, settings and the composition root.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gateway.configuration.file import did_you_mean
from gateway.errors import ConfigurationError
from gateway.loop import AgentType
from gateway.model import ModelProvider
from gateway.parts import collect
from gateway.search_engine import SearchEngineType
from gateway.store import StoreType
from gateway.tool import ToolType

_USUAL_APIS = {"bedrock": "converse"}


@dataclass(frozen=True, slots=True)
class KnownParts:
    """The parts there are, by the names that a file may use."""

    models: Mapping[str, ModelProvider]
    tools: Mapping[str, ToolType]
    agent_types: Mapping[str, AgentType]
    stores: Mapping[str, StoreType]
    search_engines: Mapping[str, SearchEngineType]

    @property
    def for_callers(self) -> KnownParts:
        """These parts, but of the models and tools only those that agents of callers may have."""
        models = {name: part for name, part in self.models.items() if part.from_callers}
        tools = {name: part for name, part in self.tools.items() if part.from_callers}
        return replace(self, models=models, tools=tools)


def known_parts() -> KnownParts:
    """All parts of the package and of the entry points."""
    return KnownParts(
        collect("models", ModelProvider),
        collect("tools", ToolType),
        collect("loops", AgentType),
        collect("stores", StoreType),
        collect("search_engines", SearchEngineType),
    )


def scheme(url: str) -> str:
    """The part of a store's or search engine's URL that names its type."""
    return url.partition(":")[0]


def provider_name(name: str, api: str | None, models: Mapping[str, ModelProvider]) -> str:
    """The model provider that `model_provider` and `api` name together: `bedrock` and `responses` are
    `bedrock/responses`. A complete or unknown name is given back unchanged.

    Raises:
        ConfigurationError: the name has no such `api`, or needs one and has no default.
    """
    apis = sorted(known.removeprefix(f"{name}/") for known in models if known.startswith(f"{name}/"))
    if name in models:
        if api is None or name.endswith(f"/{api}"):
            return name
        vendor = name.partition("/")[0]
        others = [known for known in models if known.startswith(f"{vendor}/") and known.endswith(f"/{api}")]
        instead = f", or write model_provider: {others[0]}" if others else ""
        raise ConfigurationError(f"{name!r} names one API already; leave api out{instead}")
    if not apis:
        return name
    chosen = api or _USUAL_APIS.get(name)
    if chosen in apis:
        return f"{name}/{chosen}"
    there_are = f"{name!r} has: {', '.join(apis)}"
    if chosen is None or api is None:
        raise ConfigurationError(f"is missing; {there_are}")
    raise ConfigurationError(f"{name!r} has no api {api!r}{did_you_mean(api, apis)}; {there_are}")
