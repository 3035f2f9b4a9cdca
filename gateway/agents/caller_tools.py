"""Runs backend tools for callers, without an agent: the kinds of tools that agents of callers may have.

Below: tool, turns.tool_calls. Above: the composition root, which makes them, and the protocols' environment.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from gateway.agent import Budgets, ToolSettings
from gateway.clock import Deadline, DeadlineError
from gateway.errors import ConfigurationError, InvalidRequestError, ToolError
from gateway.frozen import replace
from gateway.messages import ContentBlock, JsonObject, JsonValue, ToolSpec, new_id
from gateway.tool import SharedState, Tool, ToolContext, ToolEnvironment, ToolType
from gateway.turns.tool_calls import argument_problem

_SECONDS: Final = Budgets().tool_timeout_seconds
_NOT_TEXT: Final[Mapping[str, type | tuple[type, ...]]] = {
    "array": list,
    "object": dict,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
}
_INPUT: Final = "input"
_INVALID: Final = "Invalid parameters for tool: {}. "


@dataclass(frozen=True, slots=True)
class ToolDescription:
    """A kind of tools. `input_schema` is None for the tools of a server, which have schemas of their own."""

    type: str
    description: str
    input_schema: JsonObject | None


class CallerTools:
    """The kinds of tools that callers may use, by name."""

    def __init__(self, types: Mapping[str, ToolType], environment: ToolEnvironment) -> None:
        self._types = {name: kind for name, kind in types.items() if kind.from_callers}
        self._environment = environment

    async def descriptions(self) -> Sequence[ToolDescription]:
        """All kinds, by name, without those that need parameters, or a part that this gateway lacks, such as a search
        engine.
        """
        found = []
        for name, kind in sorted(self._types.items()):
            if kind.of_server:
                found.append(ToolDescription(name, kind.of_server, None))
                continue
            with suppress(ConfigurationError):
                async with self._opened(name, {}) as tool:
                    found.append(ToolDescription(name, tool.spec.description, tool.spec.input_schema))
        return found

    async def call(
        self, name: str, parameters: JsonObject, owner: str, request_id: str = ""
    ) -> tuple[ContentBlock, ...]:
        """Run a tool of that kind once. `parameters` are its arguments and its configuration in one; each may be
        written as a text, or all of the arguments as the text `input`.

        Raises:
            InvalidRequestError: 400, there is no such tool, a parameter is wrong, or the tool says why it failed.
        """
        kind = self._types.get(name)
        if kind is None or kind.of_server:
            there_are = ", ".join(each.type for each in await self.descriptions() if each.input_schema is not None)
            raise _refused(f"Tool not found: {name}; there are: {there_are}")
        context = ToolContext(new_id("call"), owner, "", "", "", SharedState({}), request_id=request_id)
        try:
            async with self._opened(name, _needed(parameters, kind)) as usual:
                arguments, settings = _split(parameters, usual.spec)
            async with self._opened(name, settings) as tool:
                _check(tool.spec, arguments)
                return await self._called(tool, arguments, context)
        except ConfigurationError as error:
            raise _refused(error.message) from None

    async def _called(self, tool: Tool, arguments: JsonObject, context: ToolContext) -> tuple[ContentBlock, ...]:
        deadline = Deadline(self._environment.clock, _SECONDS)
        try:
            with deadline:
                return await tool.call(arguments, context)
        except ToolError as error:
            is_missing = not _required(tool.spec) <= arguments.keys()
            raise _refused(f"{_INVALID.format(tool.spec.name) if is_missing else ''}{error}") from error
        except DeadlineError as error:
            raise _refused(f"the tool {tool.spec.name!r} gave no result within {_SECONDS:g} seconds") from error
        finally:
            deadline.close()

    @asynccontextmanager
    async def _opened(self, name: str, settings: JsonObject) -> AsyncGenerator[Tool]:
        """The one tool of that kind. Raises ConfigurationError if it can never work with these settings."""
        box = self._types[name].open(ToolSettings(name, parameters=settings), self._environment)
        try:
            tools = await box.tools()
            if len(tools) != 1:
                raise ConfigurationError(f"{name!r} has {len(tools)} tools; name it in an agent's 'tools'")
            yield tools[0]
        finally:
            await box.close()


def _needed(parameters: JsonObject, kind: ToolType) -> JsonObject:
    """Those of the parameters without which there is no tool of that kind."""
    fields = {} if kind.parameters is None else kind.parameters.model_fields
    return {name: value for name, value in parameters.items() if name in fields and fields[name].is_required()}


def _check(spec: ToolSpec, arguments: JsonObject) -> None:
    """Refuse arguments that do not fit the schema. The tool itself reports missing ones, in words for its readers."""
    schema: JsonObject = {**spec.input_schema, "required": []}
    if problem := argument_problem(replace(spec, input_schema=schema), arguments):
        raise _refused(_INVALID.format(spec.name) + problem)


def _required(spec: ToolSpec) -> set[str]:
    names: Any = spec.input_schema.get("required", [])
    return set(names)


def _split(parameters: JsonObject, spec: ToolSpec) -> tuple[JsonObject, JsonObject]:
    """`parameters` split into the tool's arguments and its configuration."""
    properties: Any = spec.input_schema.get("properties", {})
    given = dict(parameters)
    if _INPUT in given and _INPUT not in properties:
        given = {**_unpacked(given.pop(_INPUT)), **given}
    given.pop("question", None)  # a question is for agents; tools have their own arguments
    arguments = {name: _typed(value, properties[name]) for name, value in given.items() if name in properties}
    return arguments, {name: value for name, value in given.items() if name not in properties}


def _unpacked(value: JsonValue) -> JsonObject:
    unpacked = _from_json(value)
    if not isinstance(unpacked, dict):
        raise _refused("'input' is no JSON object; write the tool's arguments as one, or as parameters of their own")
    return unpacked


def _typed(value: JsonValue, schema: JsonValue) -> JsonValue:
    """The value, converted to the schema's type if it was written as a text."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    if not isinstance(value, str) or not isinstance(kind, str) or kind not in _NOT_TEXT:
        return value
    meant = _from_json(value)
    if isinstance(meant, _NOT_TEXT[kind]):
        return meant
    return [value] if kind == "array" else value


def _from_json(value: JsonValue) -> JsonValue:
    if not isinstance(value, str):
        return value
    try:
        meant: JsonValue = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return meant


def _refused(message: str) -> InvalidRequestError:
    return InvalidRequestError(message, code="tool_failed", status=400)
