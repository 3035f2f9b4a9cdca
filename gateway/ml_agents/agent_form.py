"""The members of an agent that ml-commons' users see, and runs do not need: its type there, its memory, its
parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, cast

from gateway.messages import JsonObject, JsonValue

AgentKind: TypeAlias = Literal["conversational", "conversational_v2", "ag_ui"]
MemoryKind: TypeAlias = Literal["conversation_index", "agentic_memory"]


@dataclass(frozen=True, slots=True)
class AgentForm:
    """An agent as it was registered. `memory_container_id` is set where the memory is `agentic_memory`.

    `parameters` are as texts, as ml-commons keeps them. An agent that was made in another way has the usual form.
    """

    kind: AgentKind = "conversational"
    memory: MemoryKind = "conversation_index"
    memory_container_id: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_unified(self) -> bool:
        """Whether executions answer in the form of `conversational_v2`."""
        return self.kind == "conversational_v2"


def agent_form(about: JsonObject) -> AgentForm:
    """The form of the agent that was stored with `about` (OpenAgent.about); of one without, the usual form."""
    stored = about.get("ml_commons")
    if not isinstance(stored, dict):
        return AgentForm()
    return AgentForm(
        cast(AgentKind, stored["kind"]),
        cast(MemoryKind, stored["memory"]),
        cast("str | None", stored.get("memory_container_id")),
        cast("dict[str, str]", stored.get("parameters", {})),
    )


def form_record(form: AgentForm, of_model: JsonObject) -> JsonObject:
    """The form as it is stored, see `agent_form`. `of_model` are the parameters that were written in the model's block;
    they stay when the agent's own parameters are replaced.
    """
    container: JsonObject = (
        {} if form.memory_container_id is None else {"memory_container_id": form.memory_container_id}
    )
    return {
        # OpenAgent.collection_of: its threads are the container's sessions
        "collection": form.memory_container_id or "",
        "ml_commons": {
            "kind": form.kind,
            "memory": form.memory,
            **container,
            "parameters": {**form.parameters},
            "of_model": of_model,
        },
    }


def shown_memory(memory: JsonValue, container_id: str | None, *, public: bool) -> JsonValue:
    """An agent's `memory` as searches find and show it. Everybody finds a public agent, so the id of its owner's
    container is left out there.
    """
    if not isinstance(memory, dict):
        return memory
    others: JsonObject = {name: value for name, value in memory.items() if name != "memory_container_id"}
    return others if public or container_id is None else {**others, "memory_container_id": container_id}


def is_registered(about: JsonObject) -> bool:
    """Whether an agent was registered here, and not made in another way."""
    return "ml_commons" in about


def parameters_of_model(about: JsonObject) -> JsonObject:
    """The `of_model` that `form_record` was given."""
    stored = about.get("ml_commons")
    found = stored.get("of_model") if isinstance(stored, dict) else None
    return found if isinstance(found, dict) else {}
