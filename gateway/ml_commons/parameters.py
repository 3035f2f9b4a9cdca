"""The parameters of an execution: what they wish of its run, and which memory and interaction it concerns.

Below: content (errors), wishes. Above: agent_input. Values come as JSON or as texts of it. What is not known here is
the agent's own business, and left alone. Pure.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from gateway.messages import JsonObject, JsonValue, json_kind
from gateway.ml_commons.content import INVALID_FORM, wrong
from gateway.wishes.generation import NO_OPTIONS, GenerationOptions

_MEMORY_NAMES: Final = ("memory_id", "session_id")
_PARENT_NAMES: Final = ("parent_interaction_id", "parent_message_id")
_WRONG_ID: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_LONGEST_ID: Final = 256


@dataclass(frozen=True, slots=True)
class Parameters:
    """None: the request does not say.

    `memory_id` is the thread. `parent_id` is an interaction that waits for its answer, `regenerate_id` one that is to
    be answered again. `selected_tools` are names in the order of the request. `history_limit`: how many earlier
    messages the model is shown.
    """

    question: str | None = None
    memory_id: str | None = None
    parent_id: str | None = None
    regenerate_id: str | None = None
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
        """Whether an earlier interaction is to be answered, so that no input is needed."""
        return self.parent_id is not None or self.regenerate_id is not None


def read_parameters(body: Mapping[str, Any]) -> Parameters:
    """The parameters of a body, and what stands beside them.

    Raises:
        InvalidRequestError
    """
    given = body.get("parameters")
    if given is not None and not isinstance(given, dict):
        message = f"parameters is {json_kind(given)}; it must be an object"
        raise wrong(message, "/parameters", "write parameters as an object", code=INVALID_FORM)
    reader = _Reader(given or {})
    parent_id, regenerate_id = reader.identifier(*_PARENT_NAMES), reader.identifier("regenerate_interaction_id")
    memory_id = _memory_id(body)
    if regenerate_id is not None:
        at = "/parameters/regenerate_interaction_id"
        if parent_id is not None:
            message = (
                "Provide either `parent_interaction_id` to update an existing interaction, or "
                "`regenerate_interaction_id` to create a new one."
            )
            raise wrong(message, at, "leave one of the two out")
        if memory_id is None:
            raise wrong("A memory ID must be provided to regenerate.", at, "send the memory_id beside it")
    return Parameters(
        question=reader.text("question"),
        memory_id=memory_id,
        parent_id=None if memory_id is None else parent_id,
        regenerate_id=regenerate_id,
        selected_tools=reader.names("selected_tools"),
        system_prompt=reader.text("system_prompt") or "",
        max_iteration=reader.count("max_iteration", least=1),
        history_limit=reader.count("message_history_limit", least=0),
        verbose=reader.flag("verbose"),
        token_usage=reader.flag("include_token_usage"),
        is_async=is_true(body.get("isAsync")),
        options=reader.options(),
    )


def is_true(value: JsonValue) -> bool:
    """Whether a flag is set: `true` or `"true"`."""
    return value is True or (isinstance(value, str) and value.lower() == "true")


def _memory_id(body: Mapping[str, Any]) -> str | None:
    for at, place in _memory_places(body):
        for name in _MEMORY_NAMES:
            if (found := _identifier(place.get(name), f"{at}/{name}")) is not None:
                return found
    return None


def _memory_places(body: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    parameters = body.get("parameters") or {}
    yield "/parameters", parameters
    yield "", body
    for at, value in (("/parameters/memory", parameters.get("memory")), ("/memory", body.get("memory"))):
        found = _parsed(value) if isinstance(value, str) else value
        if isinstance(found, dict):
            yield at, found


def _identifier(value: Any, at: str) -> str | None:
    if value is None or value == "":
        return None
    if not isinstance(value, str) or len(value) > _LONGEST_ID or _WRONG_ID.search(value):
        name = at.rpartition("/")[2]
        message = f"{name} must be a text of 1 to {_LONGEST_ID} characters without control characters"
        raise wrong(message, at, "send the id as an earlier answer has it, or leave it out", code=INVALID_FORM)
    return value


def _parsed(text: str) -> Any:
    try:
        return orjson.loads(text)
    except ValueError:
        return None


class _Reader:
    """Reads the parameters one by one."""

    def __init__(self, given: JsonObject) -> None:
        self._given: dict[str, Any] = given

    def text(self, name: str) -> str | None:
        """A text; what is no text is its JSON, as ml-commons takes it."""
        value = self._given.get(name)
        return value if value is None or isinstance(value, str) else orjson.dumps(value).decode()

    def flag(self, name: str) -> bool:
        return is_true(self._given.get(name))

    def identifier(self, *names: str) -> str | None:
        for name in names:
            if (found := _identifier(self._given.get(name), f"/parameters/{name}")) is not None:
                return found
        return None

    def number(self, name: str) -> float | None:
        value = self._given.get(name)
        if value is None or value == "":
            return None
        if isinstance(value, str):
            try:
                value = float(value)
            except ValueError:
                raise self._wrong(name, "must be a valid number") from None
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise self._wrong(name, "must be a valid number")
        return value

    def count(self, name: str, *, least: int) -> int | None:
        value = self.number(name)
        if value is None:
            return None
        if value != int(value) or value < least:
            raise self._wrong(name, f"must be a whole number of at least {least}")
        return int(value)

    def names(self, name: str) -> tuple[str, ...] | None:
        """An array of texts, or the text of one."""
        value = self._given.get(name)
        if value is None or value == "":
            return None
        found = _parsed(value) if isinstance(value, str) else value
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            raise self._wrong(name, "must be a JSON array of texts")
        return tuple(dict.fromkeys(found))

    def options(self) -> GenerationOptions:
        stop = self._given.get("stop")
        if isinstance(stop, str) and stop and not isinstance(_parsed(stop), list):
            stops: tuple[str, ...] | None = (stop,)
        else:
            stops = self.names("stop")
        options = GenerationOptions(
            temperature=self._bounded("temperature", 2),
            top_p=self._bounded("top_p", 1),
            max_tokens=self.count("max_tokens", least=1),
            stop=stops or None,
        )
        return NO_OPTIONS if options == NO_OPTIONS else options

    def _bounded(self, name: str, most: int) -> float | None:
        value = self.number(name)
        if value is not None and not 0 <= value <= most:
            raise self._wrong(name, f"must be a number from 0 to {most}")
        return value

    def _wrong(self, name: str, right: str) -> Exception:
        value = self._given[name]
        shown = value[:64] if isinstance(value, str) else orjson.dumps(value).decode()[:64]
        return wrong(f"{name} {right}, got: {shown}", f"/parameters/{name}", right, code=INVALID_FORM)
