"""An opened agent: its loop, its model, its tools.

Below: the contracts. Above: the directory, which closes it; the run driver; the composition root, which opens it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gateway.agent import AgentDefinition, AgentInput, Approvers, ToolSettings
from gateway.errors import NotFoundError
from gateway.frozen import replace
from gateway.history.context_limits import FitCache
from gateway.loop import Loop
from gateway.messages import JsonObject, ToolSpec
from gateway.model import Circuit, Fallback, Model
from gateway.tool import ConfiguredTool, Tool, Toolbox
from gateway.wire.log_counts import counted

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class AllowedModel:
    """A model that a run may use in place of its agent's own. `circuit` as in Fallback, `fits` as in OpenAgent."""

    model: Model
    circuit: Circuit | None = None
    fits: FitCache = field(default_factory=FitCache)


@dataclass(frozen=True, slots=True, eq=False)
class OpenAgent:
    """Serves the runs of one agent. `toolboxes` are in the order of the definition's `tools`, `allowed` are the models
    of its `allow_models` by id.

    `fits` remembers how threads that were too long for the model were shortened; `clashes` are names of tools that
    occur twice, which are logged once. `owner` is the caller who made it; None: it is configured. `about` is further
    data of the protocol by which it was made.
    """

    definition: AgentDefinition
    loop: Loop
    model: Model
    toolboxes: Sequence[tuple[ToolSettings, Toolbox]]
    fallback: Fallback = field(default_factory=Fallback)
    fits: FitCache = field(default_factory=FitCache)
    clashes: set[str] = field(default_factory=set)
    owner: str | None = None
    about: JsonObject = field(default_factory=dict)
    allowed: Mapping[str, AllowedModel] = field(default_factory=dict)

    @property
    def models(self) -> Sequence[Model]:
        """Its own model, and the models that a run may use in its place."""
        return (self.model, *(other.model for other in self.allowed.values()))

    def collection_of(self, owner: str) -> str:
        """The collection that the owner's threads with this agent are in (store.Thread); empty: none. A collection in
        `about` is only for the agent's own owner, not for other callers of a public agent.
        """
        name = self.about.get("collection")
        return name if isinstance(name, str) and self.owner in (None, owner) else ""

    @property
    def is_stored(self) -> bool:
        """Whether a caller made it, and not the operator."""
        return self.owner is not None

    async def tools(self) -> tuple[Mapping[str, Tool], Mapping[str, Approvers | None]]:
        """The available backend tools by name, and who approves calls of those that need it."""
        found: dict[str, Tool] = {}
        approvals: dict[str, Approvers | None] = {}
        for settings, toolbox in self.toolboxes:
            for tool in await toolbox.tools():
                name = tool.spec.name
                if name in found:
                    self._warn_of_clash(name)
                    continue
                has_settings = settings.expose_errors or settings.idempotent
                found[name] = ConfiguredTool(tool, settings) if has_settings else tool
                if settings.approval == "always":
                    approvals[name] = settings.approvers
        return found, approvals

    def _warn_of_clash(self, name: str) -> None:
        if name not in self.clashes:
            self.clashes.add(name)
            extra = {"tool": name, "agent_id": self.definition.id}
            logger.warning("two tools of one name: the first is used", extra=extra)

    def problems(self) -> list[str]:
        """The reasons why tools are missing at present."""
        return [problem for _, toolbox in self.toolboxes if (problem := toolbox.problem()) is not None]

    def warn_of_ignored(self) -> None:
        """Log once the settings that have no effect: options that the model does not have, and limits of a conversation
        whose length its server handles itself.
        """
        known = self.model.capabilities.options.names
        if unknown := [name for name in self.definition.model.options.named if name not in known]:
            logger.warning(
                "the agent's model does not have these options: they are not sent",
                extra={"agent_id": self.definition.id, "ignored": unknown},
            )
        context = self.definition.context
        names = ("max_messages", "max_tokens", "max_earlier")
        ignored = [name for name in names if getattr(context.limits, name) is not None]
        if context.summarize and "summarize" in context.written:
            ignored.append("summarize")
        if ignored and self.model.capabilities.is_stateful:
            logger.warning(
                "the agent's model is stateful: its provider limits conversations itself, these limits are ignored",
                extra={"agent_id": self.definition.id, "ignored": ignored},
            )

    async def close(self) -> None:
        """Close everything that the agent holds."""
        for _, toolbox in self.toolboxes:
            await toolbox.close()
        for model in self.models:
            await model.close()
        for other in self.fallback.others:
            await other.model.close()


def with_frontend_tools(given: AgentInput, backend: Mapping[str, Tool]) -> AgentInput:
    """The input with the tools that the browser runs: without names of backend tools, and without repeated names."""
    kept: dict[str, ToolSpec] = {}
    dropped: list[str] = []
    for spec in given.application.tools:
        if spec.name in backend or spec.name in kept:
            dropped.append(spec.name)
        else:
            kept[spec.name] = spec
    if not dropped:
        return given
    logger.warning("dropped frontend tools whose names are taken", extra=counted(dropped))
    application = replace(given.application, tools=tuple(kept.values()))
    forced = given.terms.forced_tool
    return replace(
        given, application=application, terms=replace(given.terms, forced_tool=forced if forced in kept else None)
    )


def no_agent(agent_id: str) -> NotFoundError:
    """The error for an agent that does not exist, or that the caller may not use."""
    return NotFoundError(f"there is no agent {agent_id!r}; GET /agents lists them", code="agent_not_found")
