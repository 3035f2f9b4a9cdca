"""Reads the members of an agent's body one by one: its name, type, memory, parameters.

Below: fields, agent_form. Above: registration. Problems are noted in the fields. Members that are right but not
supported here are noted apart: only a body without problems is refused for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast, get_args

from gateway.agents.stored import expect_few_values
from gateway.errors import FieldProblem, InvalidRequestError
from gateway.messages import JsonObject, JsonValue
from gateway.ml_agents.agent_form import AgentForm, AgentKind, MemoryKind
from gateway.ml_agents.generation_options import (
    CREDENTIAL,
    is_credential,
    option_name,
    read_option,
    read_whole_number,
    shown,
    text_of,
)
from gateway.ml_commons.answers import new_document_id
from gateway.protocol.fields import Fields

_KINDS: Final = get_args(AgentKind)
_LATER_KINDS: Final = ("flow", "conversational_flow", "plan_execute_and_reflect")
_MEMORIES: Final = get_args(MemoryKind)
_HOOKS: Final = ("PRE_TOOL", "POST_TOOL", "PRE_LLM", "POST_LLM", "PRE_EXECUTION", "POST_EXECUTION", "POST_MEMORY")
_LONGEST_NAME: Final = 128
_KNOWN: Final = frozenset(
    {
        "access_mode",
        "agent_id",
        "app_type",
        "context_management",
        "context_management_name",
        "created_time",
        "description",
        "is_hidden",
        "last_updated_time",
        "llm",
        "memory",
        "model",
        "name",
        "parameters",
        "tools",
        "type",
    }
)
_V2_CONTEXT: Final = (
    "V2 agents (CONVERSATIONAL_V2) do not support context management. Context management (context_management or "
    "context_management_name) is only supported for V1 agents. Please remove the context management configuration "
    "from your V2 agent."
)
_V2_MEMORY: Final = (
    "V2 agents (CONVERSATIONAL_V2) are not compatible with conversation_index memory. Found memory type: {kind}. "
    "Please use 'agentic_memory' or 'remote_agentic_memory' instead."
)


@dataclass(frozen=True, slots=True)
class MemoryBlock:
    """`made_id` is the id of a container to make for it, `named_id` the id of one that the body names; None: there is
    none.
    """

    kind: MemoryKind
    container_id: str | None
    shown: JsonValue
    made_id: str | None = None
    named_id: str | None = None


@dataclass(frozen=True, slots=True)
class AgentParameters:
    """An agent's parameters: `texts` as ml-commons keeps them, the rest as the gateway understands them.

    `history_limit`: how many earlier messages the model is shown. `options` are in the configuration's words. `places`:
    see registration_model.ModelBlock.
    """

    texts: dict[str, str] = field(default_factory=dict)
    system_prompt: str | None = None
    max_iteration: int | None = None
    history_limit: int | None = None
    options: JsonObject = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)


class AgentMembers:
    """The members of one body."""

    def __init__(self, body: JsonObject) -> None:
        """Raises InvalidRequestError for a body of very many values."""
        expect_few_values(body, status=400)
        self.fields = Fields(body)
        self.unknown = [f"/{name}" for name in sorted(body.keys() - _KNOWN)]
        self.is_of_later_kind = False
        self._later: list[FieldProblem] = []

    def check(self) -> None:
        """Raises InvalidRequestError for the problems, else for the members that are not supported here."""
        self.fields.check()
        if self._later:
            said = "; ".join(each.detail for each in self._later)
            raise InvalidRequestError(said, code="not_supported", status=400, problems=self._later)

    def name(self) -> str:
        value = self.fields.value.get("name")
        if value is None:
            self.fields.wrong("name", "Agent name can't be null")
        elif not isinstance(value, str) or not 0 < len(value) <= _LONGEST_NAME:
            longest = f"Agent name cannot be empty or exceed max length of {_LONGEST_NAME} characters"
            self.fields.wrong("name", longest)
        else:
            return value
        return ""

    @property
    def kind_name(self) -> str:
        """The type that the body gives, as it is called here; empty where it gives none."""
        value = self.fields.value.get("type")
        return value.lower().replace("/", "_") if isinstance(value, str) else ""

    def kind(self) -> AgentKind:
        """The type, which may be written as in the RFC: `conversational/v2`."""
        value, name = self.fields.value.get("type"), self.kind_name
        if value is None:
            return "conversational"
        if name in _KINDS:
            return cast(AgentKind, name)
        supported = ", ".join(_KINDS)
        if name in _LATER_KINDS:
            self.is_of_later_kind = True
            self.later("/type", f"agents of the type '{name}' are not supported here yet; supported are: {supported}")
        else:
            self.fields.wrong("type", f"Invalid Agent Type: '{shown(value)}'. Supported types: {supported}")
        return "conversational"

    def context_management(self, kind: AgentKind) -> None:
        given = self.fields.value
        name, inline = given.get("context_management_name"), given.get("context_management")
        if name is None and inline is None:
            return
        at = "context_management_name" if inline is None else "context_management"
        if name is not None and inline is not None:
            self.fields.wrong(at, "Cannot specify both context_management_name and context_management")
        elif kind == "conversational_v2":
            self.fields.wrong(at, _V2_CONTEXT)
        elif inline is not None and (problem := _hook_problem(inline)):
            self.fields.wrong(at, problem)
        else:
            self.later(f"/{at}", f"{at} is not supported here yet; leave it out")

    def memory(self, kind: AgentKind, before: AgentForm | None = None, stored: JsonObject | None = None) -> MemoryBlock:
        """The memory; if the body has none, the usual one of the agent's type. `before` and `stored` are the form and
        the memory of an agent that is changed.
        """
        fields = self.fields.inner("memory")
        given: JsonObject = {} if fields is None else fields.value
        value: JsonObject = {name: each for name, each in {**(stored or {}), **given}.items() if each is not None}
        named = value.get("type")
        if fields is not None and named is None:
            fields.wrong("type", f"memory type is null; supported types: {', '.join(_MEMORIES)}")
        usual: MemoryKind = "agentic_memory" if kind == "conversational_v2" else "conversation_index"
        name = named.lower() if isinstance(named, str) else usual
        if name == "remote_agentic_memory":
            self.later("/memory/type", f"memory of the type '{name}' is not supported here; use agentic_memory")
        elif name not in _MEMORIES and fields is not None:
            fields.wrong("type", f"Invalid memory type: {shown(named)}. Supported types: {', '.join(_MEMORIES)}")
        elif name == "conversation_index" and kind == "conversational_v2" and fields is not None:
            fields.wrong("type", _V2_MEMORY.format(kind=name))
        found = cast(MemoryKind, name) if name in _MEMORIES else usual
        return self._container(fields, found, value, before)

    def _container(
        self, fields: Fields | None, kind: MemoryKind, value: JsonObject, before: AgentForm | None
    ) -> MemoryBlock:
        shown_memory: JsonObject = {**value, "type": kind}
        shown_memory.pop("memory_container_id", None)
        if kind == "conversation_index":
            return MemoryBlock(kind, None, shown_memory)
        given = None if fields is None else fields.text("memory_container_id")
        had = None if before is None else before.memory_container_id
        made = None if given or had else new_document_id()
        container_id = given or had or made
        shown_memory["memory_container_id"] = container_id
        return MemoryBlock(kind, container_id, shown_memory, made, given)

    def public(self) -> bool | None:
        """Whether everybody may use it; None: the body does not say."""
        mode = self.fields.text("access_mode")
        if mode is None:
            return None
        if mode.lower() not in ("public", "private"):
            self.fields.wrong("access_mode", f"access_mode is '{shown(mode)}'; it must be public or private")
        return mode.lower() == "public"

    def llm(self) -> None:
        """A model that was registered before, and that does not exist here."""
        llm = self.fields.inner("llm")
        if llm is None:
            return
        if llm.value.get("model_id") is None:
            llm.wrong("model_id", "model id is null")
        else:
            self.later(
                "/llm/model_id",
                "llm.model_id names a registered model, which is not supported here yet; describe the model in 'model'",
            )

    def parameters(self, of_model: JsonObject, own: JsonObject) -> AgentParameters:
        """The agent's parameters. `own` win over those `of_model`, which stood among the model's."""
        texts: dict[str, str] = {}
        options: JsonObject = {}
        places: dict[str, str] = {}
        problems = self.fields.problems
        mine, models = Fields(own, "/parameters", problems), Fields(of_model, "/model/model_parameters", problems)
        given = dict.fromkeys(of_model, models) | dict.fromkeys(own, mine)
        for name, fields in given.items():
            if (value := fields.value[name]) is None:
                continue
            if is_credential(name):
                fields.wrong(name, CREDENTIAL.format(name=name))
                continue
            texts[name] = text_of(value)
            place = fields.pointer(name)
            if (option := option_name(name)) is not None:
                options[option] = read_option(fields, name)
                places[f"/model/options/{option}"] = place
            elif name in _PLACES:
                places[_PLACES[name]] = place
        if "mcp_connectors" in texts:
            self.later(
                given["mcp_connectors"].pointer("mcp_connectors"),
                "MCP connectors by id are not supported here yet; give each server as a tool: "
                '{"type": "McpServer", "parameters": {"url": "https://..."}}',
            )
        iterations = _whole(given, "max_iteration", least=1)
        earlier = _whole(given, "message_history_limit", least=0)
        return AgentParameters(texts, texts.get("system_prompt"), iterations, earlier, options, places)

    def later(self, pointer: str, message: str) -> None:
        """Note that something is right, but not supported here."""
        self._later.append(FieldProblem(pointer, message))


_PLACES: Final = {
    "system_prompt": "/system_prompt",
    "max_iteration": "/parameters/max_iteration",
    "message_history_limit": "/context/max_earlier_messages",
}


def _whole(given: Mapping[str, Fields], name: str, *, least: int) -> int | None:
    return None if (fields := given.get(name)) is None else read_whole_number(fields, name, least=least)


def _hook_problem(inline: JsonValue) -> str | None:
    hooks: Any = inline.get("hooks", {}) if isinstance(inline, dict) else None
    if not isinstance(hooks, dict):
        return "Invalid context management configuration"
    for name, managers in hooks.items():
        if name not in _HOOKS:
            return f"Invalid hook name: {name}. Valid hook names are: [{', '.join(_HOOKS)}]"
        if not isinstance(managers, list) or not managers:
            return f"Hook {name} must have at least one context manager configuration"
    return None
