"""The parameters of an execution: options of its run, its memory and its interaction.

Below: fields, generation_options, options. Above: agent_input. Values come as JSON or as texts of it. Other parameters
are the agent's own, and left alone. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from gateway.errors import InvalidRequestError
from gateway.messages import JsonObject, JsonValue, json_kind
from gateway.ml_agents.generation_options import (
    option_name,
    parsed,
    read_option,
    read_whole_number,
    shown,
    text_of,
)
from gateway.ml_commons.content import INVALID_FORM, wrong
from gateway.options.generation import NO_OPTIONS, GenerationOptions
from gateway.protocol.fields import Fields

_MEMORY_NAMES: Final = ("memory_id", "session_id")
_PARENT_NAMES: Final = ("parent_interaction_id", "parent_message_id")
_OF_AGENT: Final = ("include_token_usage", "message_history_limit", "selected_tools", "verbose")
_LEAST_AND_MOST: Final = MappingProxyType(
    {
        "temperature": (0, 2),
        "top_p": (0, 1),
        "top_k": (1, None),
        "max_tokens": (1, None),
        "presence_penalty": (-2, 2),
        "frequency_penalty": (-2, 2),
    }
)
_WRONG_ID: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_LONGEST_ID: Final = 256
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Parameters:
    """None: the request does not say.

    `memory_id` is the thread. `parent_id` is an interaction that waits for its answer, `regenerate_id` one that is to
    be answered again. `selected_tools` are names in the order of the request. `history_limit`: how many earlier
    messages the model is shown. `container_id`: the memory container of a new memory, in place of the agent's.
    """

    question: str | None = None
    memory_id: str | None = None
    parent_id: str | None = None
    regenerate_id: str | None = None
    container_id: str | None = None
    selected_tools: tuple[str, ...] | None = None
    system_prompt: str = ""
    max_iteration: int | None = None
    history_limit: int | None = None
    verbose: bool = False
    token_usage: bool = False
    is_async: bool = False
    options: GenerationOptions = NO_OPTIONS

    @property
    def goes_on(self) -> bool:
        """Whether the run answers an earlier interaction, so that no input is needed."""
        return self.parent_id is not None or self.regenerate_id is not None


def read_parameters(body: Mapping[str, Any], of_agent: Mapping[str, str] = _NOTHING) -> Parameters:
    """The parameters of a body, and the members beside them. `of_agent` are the agent's own, as texts, of which some
    hold where the body does not say.

    Raises:
        InvalidRequestError
    """
    given = body.get("parameters")
    if given is not None and not isinstance(given, dict):
        message = f"parameters is {json_kind(given)}; it must be an object"
        raise wrong(message, "/parameters", "write parameters as an object", code=INVALID_FORM)
    usual: JsonObject = {name: of_agent[name] for name in _OF_AGENT if name in of_agent}
    reader = _Reader(Fields({**usual, **(given or {})}, "/parameters"))
    parent_id, regenerate_id = reader.identifier(*_PARENT_NAMES), reader.identifier("regenerate_interaction_id")
    memory_id = _memory_id(body, reader)
    found = Parameters(
        question=reader.text("question"),
        memory_id=memory_id,
        parent_id=None if memory_id is None else parent_id,
        regenerate_id=regenerate_id,
        container_id=reader.identifier("memory_container_id"),
        selected_tools=reader.names("selected_tools"),
        system_prompt=reader.text("system_prompt") or "",
        max_iteration=reader.count("max_iteration", least=1),
        history_limit=reader.count("message_history_limit", least=0),
        verbose=reader.flag("verbose"),
        token_usage=reader.flag("include_token_usage"),
        is_async=is_true(body.get("isAsync")),
        options=reader.options(),
    )
    reader.check()
    _check_regenerated(found, parent_id)
    return found


def _check_regenerated(found: Parameters, parent_id: str | None) -> None:
    if found.regenerate_id is None:
        return
    at = "/parameters/regenerate_interaction_id"
    if parent_id is not None:
        message = (
            "Provide either `parent_interaction_id` to update an existing interaction, or `regenerate_interaction_id`"
            " to create a new one."
        )
        raise wrong(message, at, "leave one of the two out")
    if found.memory_id is None:
        raise wrong("A memory ID must be provided to regenerate.", at, "send the memory_id beside it")


def is_true(value: JsonValue) -> bool:
    """Whether a flag is set: `true` or `"true"`."""
    return value is True or (isinstance(value, str) and value.lower() == "true")


def _memory_id(body: Mapping[str, Any], reader: _Reader) -> str | None:
    for fields in _memory_places(body, reader.fields):
        for name in _MEMORY_NAMES:
            if (found := _identifier(fields, name)) is not None:
                return found
    return None


def _memory_places(body: Mapping[str, Any], parameters: Fields) -> Iterator[Fields]:
    """The objects that may name the memory."""
    problems = parameters.problems
    yield parameters
    yield Fields(dict(body), "", problems)
    for at, value in (("/parameters/memory", parameters.value.get("memory")), ("/memory", body.get("memory"))):
        found = parsed(value)
        if isinstance(found, dict):
            yield Fields(found, at, problems)


def _identifier(fields: Fields, name: str) -> str | None:
    value = fields.value.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str) or len(value) > _LONGEST_ID or _WRONG_ID.search(value):
        fields.wrong(name, f"{name} must be a text of 1 to {_LONGEST_ID} characters without control characters")
        return None
    return value


class _Reader:
    """Reads the parameters one by one; `check` refuses all that is wrong."""

    def __init__(self, fields: Fields) -> None:
        self.fields = fields

    def check(self) -> None:
        if problems := self.fields.problems:
            said = "; ".join(each.detail for each in problems)
            raise InvalidRequestError(said, code=INVALID_FORM, problems=problems, status=400)

    def text(self, name: str) -> str | None:
        """A text; another value is its JSON, as ml-commons takes it."""
        value = self.fields.value.get(name)
        return None if value is None else text_of(value)

    def flag(self, name: str) -> bool:
        return is_true(self.fields.value.get(name))

    def identifier(self, *names: str) -> str | None:
        return next((found for name in names if (found := _identifier(self.fields, name)) is not None), None)

    def count(self, name: str, *, least: int) -> int | None:
        return None if self.fields.value.get(name) == "" else read_whole_number(self.fields, name, least=least)

    def names(self, name: str) -> tuple[str, ...] | None:
        """An array of texts, or the text of one."""
        value = self.fields.value.get(name)
        if value is None or value == "":
            return None
        found = parsed(value)
        if not isinstance(found, list):
            self.fields.wrong(name, f"{name} must be a JSON array of texts, got: {shown(value)}")
            return None
        return tuple(dict.fromkeys(text_of(each) for each in found))

    def options(self) -> GenerationOptions:
        said: dict[str, Any] = {}
        for name, value in self.fields.value.items():
            option = option_name(name)
            if option is None or value is None or value == "":
                continue
            if (found := read_option(self.fields, name)) is not None:
                said[option] = tuple(found) if isinstance(found, list) else found
                self._check_bounds(name, option, said[option])
        return GenerationOptions(**said) if said else NO_OPTIONS

    def _check_bounds(self, name: str, option: str, value: Any) -> None:
        least, most = _LEAST_AND_MOST.get(option, (None, None))
        if (least is not None and value < least) or (most is not None and value > most):
            bounds = f"at least {least}" if most is None else f"from {least} to {most}"
            self.fields.wrong(name, f"{name} must be {bounds}, got: {shown(self.fields.value[name])}")
