"""Reads the body that registers an agent, and the one that changes it, as an agent of the configuration file. Pure.

Below: registration_members, registration_model, registration_tools. Above: the protocol. Values come as JSON or as
texts of it. Unknown members are skipped, as ml-commons does, but for those of `model`.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.agents.stored import ABOUT, DEFINITION, AgentToStore, PartsForCallers, shown_in
from gateway.documents.document import Document
from gateway.errors import FieldProblem, InvalidRequestError
from gateway.messages import JsonObject
from gateway.ml_agents.agent_form import (
    AgentForm,
    AgentKind,
    agent_form,
    form_record,
    is_registered,
    parameters_of_model,
    shown_memory,
)
from gateway.ml_agents.generation_options import option_name, texts_of
from gateway.ml_agents.parameters import is_true
from gateway.ml_agents.registration_members import AgentMembers, AgentParameters, MemoryBlock
from gateway.ml_agents.registration_model import ModelBlock, read_model
from gateway.ml_agents.registration_tools import ToolBlocks, read_tools
from gateway.ml_commons.answers import chosen_id, new_document_id

AGENT_ID: Final = "agent id"

# The iterations of a run for which the agent names no limit, and the step after the last one, as in ml-commons.
_ITERATIONS: Final[Mapping[AgentKind, int]] = {"conversational": 10, "ag_ui": 10, "conversational_v2": 5}
_AFTER_THE_LAST: Final[Mapping[AgentKind, str]] = {
    "conversational": "summarize",
    "ag_ui": "summarize",
    "conversational_v2": "stop",
}
_MOST_REPEATED_CALLS: Final = 1000  # the iterations alone end a run, also of a model that repeats itself
_DUPLICATE: Final = "Duplicate tool defined in agent configuration"
_DUPLICATE_IN_UPDATE: Final = "Duplicate tool defined: {name}"
_DESCRIBED: Final = ("description", "app_type")


@dataclass(frozen=True, slots=True)
class Registration:
    """An agent in the form in which it is stored.

    `container_id` is the id of a memory container to make for it, `named_container_id` the id of one that must exist;
    None: there is none. `places` maps pointers into the definition to pointers into the caller's body, where the two
    differ. `unknown` are pointers to members that were skipped.
    """

    name: str
    agent: AgentToStore
    container_id: str | None = None
    named_container_id: str | None = None
    places: Mapping[str, str] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()

    def with_container(self, body: JsonObject) -> JsonObject:
        """The body with the id of the container that is made for it."""
        if self.container_id is None:
            return body
        memory: Any = body["memory"]
        return {**body, "memory": {**memory, "memory_container_id": self.container_id}}

    def in_callers_words(self, error: InvalidRequestError) -> InvalidRequestError:
        """The error of a definition with wrong fields as one of the caller's body."""
        problems = [FieldProblem(_place(each.pointer, self.places), each.detail) for each in error.problems]
        said = "; ".join(f"{each.pointer[1:].replace('/', '.')} {each.detail}" for each in problems)
        return InvalidRequestError(said or error.message, code=error.code, status=400, problems=problems)


def registered_id(body: JsonObject) -> str:
    """The id that the body chose, or a new one.

    Raises:
        InvalidRequestError: the id is not one that may be chosen.
    """
    chosen = body.get("agent_id")
    return new_document_id() if chosen is None else chosen_id(AGENT_ID, "agent_id", chosen)


def read_registration(body: JsonObject, parts: PartsForCallers) -> Registration:
    """The agent that this body registers.

    Raises:
        InvalidRequestError: lists the problems; if there are none, the members that are not supported here yet.
    """
    members = AgentMembers(body)
    name, kind = members.name(), members.kind()
    tools = read_tools(members.fields, parts, _DUPLICATE)
    members.context_management(kind)
    memory = members.memory(kind)
    model = _model(members, parts)
    of_model, own = texts_of(model.agents), members.fields.object("parameters") or {}
    parameters = members.parameters(of_model, own)
    public = members.public() or False
    described = {each: text for each in _DESCRIBED if (text := members.fields.text(each)) is not None}
    members.check()
    form = AgentForm(kind, memory.kind, memory.container_id, parameters.texts)
    definition: JsonObject = {
        "name": name,
        "description": described.get("description", ""),
        "model": model.section,
        "tools": tools.sections,
    }
    _put_parameters(definition, parameters, kind)
    shown: JsonObject = {
        "name": name,
        "type": kind,
        **described,
        **_shown_model(model.section),
        "tools": tools.shown,
        "memory": shown_memory(memory.shown, memory.container_id, public=public),
        "parameters": {**parameters.texts},
        "is_hidden": False,
    }
    agent = AgentToStore(definition, shown, form_record(form, of_model), public)
    return _registration(agent, members, memory, model, tools, parameters)


def read_change(body: JsonObject, stored: Document, parts: PartsForCallers) -> Registration:
    """The stored agent, with its credentials, as this body changes it. Members that the body does not have stay;
    `parameters`, `memory` and `model` are changed member by member, and null removes a member that an agent may be
    without.

    Raises:
        InvalidRequestError: as read_registration; or it changes a member that cannot be changed.
    """
    members = AgentMembers(body)
    before: Any = stored.body
    form, shown = agent_form(before[ABOUT]), shown_in(before)
    definition: JsonObject = {**before[DEFINITION]}
    given = {name for name, value in body.items() if value is not None}
    _change_words(members, given, form.kind, definition, shown)
    members.context_management(form.kind)
    tools, model = ToolBlocks(), ModelBlock({})
    if "tools" in body:
        tools = read_tools(members.fields, parts, _DUPLICATE_IN_UPDATE)
        definition["tools"], shown["tools"] = tools.sections, tools.shown
    members.llm()
    if (block := members.fields.inner("model")) is not None:
        model = read_model(block, parts, before[DEFINITION]["model"])
        definition["model"] = model.section
        shown |= _shown_model(model.section)
    memory = MemoryBlock(form.memory, form.memory_container_id, shown.get("memory"))
    if "memory" in given:
        memory = members.memory(form.kind, form, before["memory"])
    of_model = texts_of({**parameters_of_model(before[ABOUT]), **model.agents})
    parameters = AgentParameters({**form.parameters})
    if "parameters" in body or "model" in given:
        parameters = _change_parameters(members, before[ABOUT], of_model, definition)
        shown["parameters"] = {**parameters.texts}
    public = stored.public if (asked := members.public()) is None else asked
    if memory.shown is not None:
        shown["memory"] = shown_memory(memory.shown, memory.container_id, public=public)
    members.check()
    changed = AgentForm(form.kind, memory.kind, memory.container_id, parameters.texts)
    about = {**before[ABOUT], **form_record(changed, of_model)}
    agent = AgentToStore(definition, shown, about, public)
    return _registration(agent, members, memory, model, tools, parameters)


def _change_words(
    members: AgentMembers, given: Set[str], kind: AgentKind, definition: JsonObject, shown: JsonObject
) -> None:
    if "type" in given and members.kind_name != kind:
        members.fields.wrong("type", "Agent type cannot be updated")
    if "name" in given:
        shown["name"] = definition["name"] = members.name()
    described = {each: members.fields.text(each) for each in _DESCRIBED if each in members.fields.value}
    shown |= {each: text for each, text in described.items() if text is not None}
    for each in described.keys() - given:
        shown.pop(each, None)
    definition["description"] = shown.get("description", "")


def _change_parameters(
    members: AgentMembers, about: JsonObject, of_model: JsonObject, definition: JsonObject
) -> AgentParameters:
    """Replace the definition's earlier parameters by those that result from a change, and give them."""
    form, before = agent_form(about), parameters_of_model(about)
    own: JsonObject = {name: text for name, text in form.parameters.items() if before.get(name) != text}
    if "parameters" in members.fields.value:
        sent = members.fields.object("parameters")
        own = {} if sent is None else {name: each for name, each in {**own, **sent}.items() if each is not None}
    parameters = members.parameters(of_model, own)
    limits = definition.get("parameters", {})
    _forget_parameters(definition, form)
    _put_parameters(definition, parameters, form.kind)
    if not is_registered(about) and parameters.max_iteration is None:
        definition["parameters"] = limits  # an agent that was made in another way keeps its limits
    return parameters


def _registration(
    agent: AgentToStore,
    members: AgentMembers,
    memory: MemoryBlock,
    model: ModelBlock,
    tools: ToolBlocks,
    parameters: AgentParameters,
) -> Registration:
    places = {f"/model{pointer}": f"/model{place}" for pointer, place in model.places.items()}
    unknown = (*members.unknown, *tools.unknown)
    places |= {**tools.places, **parameters.places}
    name = str(agent.definition.get("name", ""))
    return Registration(name, agent, memory.made_id, memory.named_id, places, unknown)


def _model(members: AgentMembers, parts: PartsForCallers) -> ModelBlock:
    members.llm()
    block = members.fields.inner("model")
    if block is None:
        given = members.fields.value
        if given.get("llm") is None and given.get("model") is None and not members.is_of_later_kind:
            members.fields.wrong("model", "We need model information for the conversational agent type")
        return ModelBlock({})
    return read_model(block, parts)


def _put_parameters(definition: JsonObject, parameters: AgentParameters, kind: AgentKind) -> None:
    if parameters.system_prompt is not None:
        definition["system_prompt"] = parameters.system_prompt
    limits: Any = definition.get("parameters", {})
    definition["parameters"] = {
        **limits,
        "max_iteration": parameters.max_iteration or _ITERATIONS[kind],
        "on_max_iteration": _AFTER_THE_LAST[kind],
        "max_repeated_calls": _MOST_REPEATED_CALLS,
    }
    definition["history"] = "by_id"  # OpenSearch Dashboards sends new messages alone, HttpAgent all of them
    if parameters.history_limit is not None:
        context: Any = definition.get("context", {})
        definition["context"] = {**context, "max_earlier_messages": parameters.history_limit}
    if is_true(parameters.texts.get("include_token_usage")):
        definition["usage_event"] = True
    if parameters.options:
        model: Any = definition["model"]
        definition["model"] = {**model, "options": {**model.get("options", {}), **parameters.options}}


def _forget_parameters(definition: JsonObject, form: AgentForm) -> None:
    """Remove the members that the earlier parameters had set."""
    if "system_prompt" in form.parameters:
        definition.pop("system_prompt", None)
    if "message_history_limit" in form.parameters:
        context: Any = definition.get("context", {})
        definition["context"] = {name: value for name, value in context.items() if name != "max_earlier_messages"}
    if "include_token_usage" in form.parameters:
        definition.pop("usage_event", None)
    model: Any = definition["model"]
    names = {option_name(name) for name in form.parameters}
    options: JsonObject = {name: value for name, value in model.get("options", {}).items() if name not in names}
    definition["model"] = {**model, "options": options}


def _shown_model(section: JsonObject) -> JsonObject:
    return {"model": {name: section.get(name, "") for name in ("model_id", "model_provider")}}


def _place(pointer: str, places: Mapping[str, str]) -> str:
    """Where a pointer into the definition stands in the caller's body."""
    rest = ""
    while pointer:
        if (place := places.get(pointer)) is not None:
            return place + rest
        pointer, _, last = pointer.rpartition("/")
        rest = f"/{last}{rest}"
    return rest
