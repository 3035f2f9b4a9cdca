"""An agent that a caller made: from the JSON of a request, by the rules of the file and those for callers.

Below: reading, checks, definitions. Above: the protocols that take agents, and the directory, which reads them again
when they are used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gateway.agent import AgentDefinition, ModelSettings
from gateway.agents.stored import PartsForCallers, expect_few_values
from gateway.configuration.checks import agent_problems
from gateway.configuration.definitions import PartEnvironments, agent_definition, opening_problems
from gateway.configuration.file import ConfigurationText, FieldPath, FieldProblem
from gateway.configuration.known_parts import KnownParts
from gateway.configuration.reading import read_sections
from gateway.errors import FieldProblem as WrongField
from gateway.errors import InvalidRequestError
from gateway.messages import JsonObject, JsonValue
from gateway.wire.json_pointer import pointer_to

_REGION = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")  # it becomes a part of the host's name
_REFERENCE = re.compile(r"\$\{(?:env|file):")
_AGENT: FieldPath = ("agents", 0)  # where an agent stands in the file whose rules it follows


@dataclass(frozen=True, slots=True)
class CallerRules:
    """The environment in which agents of callers are opened: an HTTP client that checks endpoints, and perhaps no
    identity.

    `keys_approve`: there is an API key that may approve.
    """

    parts: KnownParts
    environments: PartEnvironments
    keys_approve: bool = False


def parts_for_callers(rules: CallerRules) -> PartsForCallers:
    """The parts that agents under these rules may have."""
    providers = {name: part.credentials for name, part in rules.parts.for_callers.models.items()}
    return PartsForCallers(providers, searches=rules.environments.tools.search is not None)


def read_agent(agent_id: str, values: JsonObject, rules: CallerRules) -> AgentDefinition:
    """The definition of the agent `agent_id`, whose fields are those of an agent in the configuration file.

    Raises:
        InvalidRequestError: lists every wrong field, or the first 100.
    """
    expect_few_values(values)
    text = ConfigurationText({"agents": [{"id": agent_id, **values}]}, {(): "body"})
    given_id = values.get("id", agent_id)
    if given_id != agent_id:
        text.report((*_AGENT, "id"), f"is not the agent's id in the path, {agent_id!r}; leave it out")
    text.report_all(_references(values, _AGENT))
    _raise(text)
    section = read_sections(text)
    agents = None if section is None else section.agents
    _raise(text)
    assert agents, "a file without problems has the agent that it was made with"
    parts = rules.parts
    problems = agent_problems(agents[0], parts, keys_approve=rules.keys_approve, path=_AGENT, offered=parts.for_callers)
    text.report_all(problems)
    _raise(text)
    definition = agent_definition(agents[0], parts)
    text.report_all(_not_for_callers(definition, rules))
    _raise(text)
    text.report_all(opening_problems(definition, parts, rules.environments, _AGENT))
    _raise(text)
    return definition


def _references(value: JsonValue, path: FieldPath) -> Iterator[FieldProblem]:
    """References to this process's environment and files, which are the operator's."""
    match value:
        case str() if _REFERENCE.search(value):
            yield path, "refers to the gateway's own environment or files; write the value itself"
        case dict():
            for name, inner in value.items():
                yield from _references(inner, (*path, name))
        case list():
            for index, inner in enumerate(value):
                yield from _references(inner, (*path, index))
        case _:
            return


def _not_for_callers(agent: AgentDefinition, rules: CallerRules) -> Iterator[FieldProblem]:
    """The problems of members that only the operator's agents may have. All parts that the agent names are there."""
    models: list[tuple[FieldPath, ModelSettings]] = [((*_AGENT, "model"), agent.model)]
    models += [((*_AGENT, "model", "fallback", index), other) for index, other in enumerate(agent.model.fallback)]
    endpoints, offered = rules.environments.models.http.endpoints, rules.parts.for_callers
    for path, model in models:
        if model.model_provider not in offered.models:
            yield (*path, "model_provider"), _for_operators(model.model_provider, offered.models)
        if model.region and not _REGION.fullmatch(model.region):
            yield (*path, "region"), f"{model.region[:64]!r} is no name of a region, such as 'us-east-1'"
        if model.endpoint and endpoints is not None and (refusal := endpoints.refusal(model.endpoint)):
            yield (*path, "endpoint"), f"may not be reached: {refusal}"
    for index, tool in enumerate(agent.tools):
        if tool.type not in offered.tools:
            yield (*_AGENT, "tools", index, "type"), _for_operators(tool.type, offered.tools)


def _for_operators(name: str, offered: Mapping[str, object]) -> str:
    there_are = ", ".join(sorted(offered))
    return f"{name!r} is for the agents of the configuration file; agents that callers make may have: {there_are}"


def _raise(text: ConfigurationText) -> None:
    if not text.problems:
        return
    problems = list(dict.fromkeys(text.problems))
    raise InvalidRequestError(
        f"the agent has {len(problems)} wrong field{'s' * (len(problems) > 1)}; `errors` names each",
        code="invalid_agent",
        problems=[WrongField(pointer_to(problem.path[len(_AGENT) :]), problem.message) for problem in problems],
    )
