"""Opens agents: makes a definition's loop, model and tools.

Below: the known parts, open_agent. Above: the composition root. All agents share the process's HTTP clients and
circuits, so a model's circuit outlives the agents that use it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gateway.agent import AgentDefinition, ModelSettings
from gateway.agents.open_agent import AllowedModel, OpenAgent
from gateway.configuration.definitions import PartEnvironments
from gateway.configuration.known_parts import KnownParts
from gateway.model import Alternative, Fallback, Model
from gateway.parts import find
from gateway.providers.headers import with_headers
from gateway.turns.circuit import Circuits


@dataclass(frozen=True, slots=True)
class AgentOpening:
    """The resources with which a process opens its agents."""

    parts: KnownParts
    environments: PartEnvironments
    circuits: Circuits

    def open_for_caller(self, agent: AgentDefinition, owner: str) -> OpenAgent:
        """Open an agent that a caller made. It has circuits of its own: its failures say nothing about the operator's
        models.

        Raises:
            ConfigurationError: it can never work.
        """
        return replace(self, circuits=Circuits()).open(agent, owner)

    def open(self, agent: AgentDefinition, owner: str | None = None) -> OpenAgent:
        """Open an agent. `owner`: the caller who made it; None: the operator did. Raises ConfigurationError if it can
        never work.
        """
        loops, tools = self.environments.loops, self.environments.tools
        return OpenAgent(
            agent,
            find(self.parts.agent_types, agent.type, "agent type").open(agent, loops),
            self._model(agent.model),
            [(tool, find(self.parts.tools, tool.type, "tool type").open(tool, tools)) for tool in agent.tools],
            self._fallback(agent.model),
            owner=owner,
            allowed={id: self._allowed(agent.with_model(id).model) for id in agent.allow_models},
        )

    def _allowed(self, model: ModelSettings) -> AllowedModel:
        return AllowedModel(self._model(model), self.circuits.of(model) if model.fallback else None)

    def _model(self, model: ModelSettings) -> Model:
        provider = find(self.parts.models, model.model_provider, "model provider")
        return provider.open(model, with_headers(self.environments.models, model.headers))

    def _fallback(self, model: ModelSettings) -> Fallback:
        if not model.fallback:
            return Fallback()
        others = [
            Alternative(self._model(other), other.model_parameters, self.circuits.of(other)) for other in model.fallback
        ]
        return Fallback(tuple(others), self.circuits.of(model))
