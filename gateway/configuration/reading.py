"""Reads a configuration file into its sections, and words its problems for the operator.

Below: sections, file, known_words. Above: checks, settings. pydantic validates the sections; its own messages are never
shown.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from gateway.configuration.file import ConfigurationText, FieldPath, did_you_mean, spell_path
from gateway.configuration.known_words import credential_for, key_for, model_for
from gateway.configuration.sections import MINIMUM_KEY_LENGTH, ConfigurationSection


def read_sections(
    text: ConfigurationText, kind: type[ConfigurationSection] = ConfigurationSection
) -> ConfigurationSection | None:
    """The file's sections, which are those of `kind`; their problems are in `text.problems`.

    Invalid values are left out or replaced, so that the caller can check the rest and report every problem at once.
    None: too much is invalid for that.
    """
    values = copy.deepcopy(text.values)
    values.pop("$schema", None)  # JSON files name their schema for editors with this key
    for _ in range(_MAX_PASSES):
        try:
            return kind.model_validate(values)
        except ValidationError as error:
            for details in error.errors(include_url=False):
                if text.is_full:
                    return None
                if details["type"] == "too_short" and details["input"]:
                    continue  # pydantic counts only valid entries; the others have problems of their own
                text.report(details["loc"], _message(text, kind, details))
                _replace(values, details["loc"], details["type"], kind)
    return None


# Each pass may find problems that the one before could not reach: a missing model, then its missing provider.
_MAX_PASSES = 8
_PLACEHOLDER = "x" * MINIMUM_KEY_LENGTH  # valid as an id, a name and a key


def _replace(values: Any, path: FieldPath, problem: str, kind: type[ConfigurationSection]) -> None:
    *parents, last = path
    for part in parents:
        values = values[part]
    if problem == "missing" or isinstance(last, int):
        section, is_list = _kind_of(path, kind)
        values[last] = {} if section is not None else [_PLACEHOLDER] if is_list else _PLACEHOLDER
    else:
        values.pop(last, None)


def _kind_of(path: FieldPath, kind: type[ConfigurationSection]) -> tuple[type[BaseModel] | None, bool]:
    """The section at `path` of a file with the sections of `kind`, None if there is none; and whether it is a list of
    sections.
    """
    section: type[BaseModel] | None = kind
    is_list = False
    for part in path:
        if isinstance(part, int):
            is_list = False
        elif section is not None:
            field = section.model_fields.get(part)
            section, is_list = (None, False) if field is None else _kind_of_type(field.annotation)
    return section, is_list


def _kind_of_type(annotation: Any) -> tuple[type[BaseModel] | None, bool]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, False
    is_list = get_origin(annotation) is tuple
    for inner in get_args(annotation):
        section, inner_is_list = _kind_of_type(inner)
        if section is not None or inner_is_list:
            return section, is_list or inner_is_list
    return None, is_list


# --- the operator's messages ------------------------------------------------------------------------------------------


_KINDS: dict[type, str] = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "this text",
    list: "a list",
    dict: "a mapping",
}
_NEEDED = {
    "string_type": "must be text (in quotes where it looks like something else)",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing_size": "must be a whole number of less than 4,300 digits",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "boolean": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "tuple_type": "must be a list, each entry beginning with '- '",
    "dict_type": "must be a mapping of keys to values",
    "model_type": "must be a mapping of keys to values",
    "model_attributes_type": "must be a mapping of keys to values",
}
_PATTERNS = {
    "id": "use letters, digits and '.', '_', '~', '-', beginning with a letter or digit, at most 128",
    "name": "use letters, digits and '.', '_', '@', '-', beginning with a letter or digit, at most 64",
    "publishable name": "use letters, digits and '.', '_', '-', beginning with a letter or digit, at most 64",
    "key": "use visible ASCII characters without spaces",
    "indices": "write a name, or a pattern with '*', in small letters: 'books-*'",
    "thread_headers": "write the name of a header: 'X-OpenWebUI-Chat-Id'",
}
_LIMITS = {
    "greater_than_equal": "is too small; it must be at least {ge}",
    "greater_than": "is too small; it must be more than {gt}",
    "less_than_equal": "is too large; it must be at most {le}",
    "string_too_short": "is too short; use at least {min_length} characters",
    "string_too_long": "is too long; use at most {max_length} characters",
    "too_long": "has too many entries; use at most {max_length}",
}


def _message(text: ConfigurationText, sections: type[ConfigurationSection], details: ErrorDetails) -> str:
    kind, path, context, value = details["type"], details["loc"], details.get("ctx", {}), details["input"]
    shown = _shown(text, path, value)
    is_protocol = path[-2:-1] == ("protocols",)
    match kind:
        case "missing":
            return "is missing; add it"
        case "extra_forbidden" if is_protocol:
            known = _known_keys(path[:-1], sections)
            near = did_you_mean(str(path[-1]), known)
            return f"no protocol with settings has this name{near}; there are: {', '.join(known)}"
        case "model_type" | "model_attributes_type" if is_protocol:
            return f"must be a mapping of keys to values, or false, not {shown}"
        case "extra_forbidden":
            known = _known_keys(path[:-1], sections)
            if (word := key_for(str(path[-1]), known, _credential(text, path[:-1]))) is not None:
                return f"is not a known key; did you mean '{word}'?"
            if places := _places_of(path, sections):
                return (
                    f"is not a known key here; did you mean {' or '.join(repr(spell_path(place)) for place in places)}?"
                )
            near = did_you_mean(str(path[-1]), known) or f"; the keys here are: {', '.join(known)}"
            return f"is not a known key{near}"
        case "literal_error":
            words = str(context["expected"]).replace(" or ", ", ").replace("'", "").split(", ")
            near = did_you_mean(value, words) if isinstance(value, str) else ""
            return f"{shown} is not one of {', '.join(words)}{near}"
        case "too_short":
            return "is empty; at least one entry is needed"
        case "string_pattern_mismatch":
            field = next(str(part) for part in reversed(path) if isinstance(part, str))
            if path[1:2] == ("publishable_keys",) and field == "name":
                field = "publishable name"
            right = _PATTERNS.get(field, f"it must match {context['pattern']}")
            return f"{shown} cannot be used; {right}"
        case "value_error":  # of a protocol's own section
            return f"{shown} cannot be used: {context['error']}"
        case _ if kind in _LIMITS:
            return f"{shown} {_LIMITS[kind].format(**context)}"
        case _:
            return f"{_NEEDED.get(kind, 'must be something else')}, not {shown}{_instead(text, path, value, shown)}"


def _instead(text: ConfigurationText, path: FieldPath, value: object, shown: str) -> str:
    """The right form, if a text stands in the place of a model or a credential."""
    if isinstance(value, str) and path[-1] == "credential":
        return f"; write '{_credential(text, path[:-1])}'"
    if isinstance(value, str) and path[-1] == "model" and shown == repr(value):
        return f"; write '{model_for(value)}'"
    return ""


def _credential(text: ConfigurationText, path: FieldPath) -> str:
    """How the model at `path` is given its key."""
    value: Any = text.values
    for part in path:
        value = value[part]
    provider = value.get("model_provider") if isinstance(value, dict) else None
    return credential_for(provider, is_file=text.places.get(()) != "body")


def _known_keys(path: FieldPath, sections: type[ConfigurationSection]) -> list[str]:
    """The keys of the section at `path`."""
    section, _ = _kind_of(path, sections)
    assert section is not None, f"{path} is a section"
    return list(section.model_fields)


# Keys inside mappings that take any key, for those who look for them.
_USUAL_KEYS: dict[FieldPath, frozenset[str]] = {
    ("agents", 0, "model", "model_parameters"): frozenset(
        {"frequency_penalty", "max_completion_tokens", "max_output_tokens", "max_tokens", "presence_penalty"}
        | {"reasoning", "reasoning_effort", "seed", "stop", "temperature", "thinking", "top_k", "top_p"}
    ),
    ("agents", 0, "tools", 0, "parameters"): frozenset({"args", "command", "env", "function", "input_schema", "url"}),
}


def _places_of(path: FieldPath, sections: type[ConfigurationSection]) -> list[FieldPath]:
    """Where else a key of this name belongs: the places nearest to `path`. In a list that `path` is not in, the first
    entry stands for all.
    """
    key = str(path[-1])
    places = [place for place in _section_places(sections) if place[-1] == key]
    nearest = sorted(places, key=lambda place: (-_shared(place, path), len(place)))[:1]
    nearest += [(*place, key) for place, keys in _USUAL_KEYS.items() if key in keys]
    most = max((_shared(place, path) for place in nearest), default=0)
    return [(*path[:most], *place[most:]) for place in nearest if _shared(place, path) == most]


def _shared(place: FieldPath, path: FieldPath) -> int:
    """How many leading parts they share; all entries of a list count as the same."""
    shared = 0
    for ours, theirs in zip(place, path, strict=False):
        if ours != theirs and not (isinstance(ours, int) and isinstance(theirs, int)):
            break
        shared += 1
    return shared


@functools.lru_cache(maxsize=1)
def _section_places(sections: type[ConfigurationSection]) -> tuple[FieldPath, ...]:
    """The path of every key that a section has, in the first entry of each list."""

    def walk(section: type[BaseModel], path: FieldPath) -> Iterator[FieldPath]:
        for name, field in section.model_fields.items():
            yield (*path, name)
            inner, is_list = _kind_of_type(field.annotation)
            if inner is not None:
                yield from walk(inner, (*path, name, 0) if is_list else (*path, name))

    return tuple(walk(sections, ()))


_SECRET_FIELDS = frozenset({"credential", "api_keys", "visitor_secret", "master_keys"})


def _shown(text: ConfigurationText, path: FieldPath, value: object) -> str:
    """The value for a message: itself where it is short and cannot be secret, else only its kind."""
    secret = path in text.expanded or not _SECRET_FIELDS.isdisjoint(path)
    if isinstance(value, (str, int, float)) and not isinstance(value, bool) and not secret and len(str(value)) <= 60:
        return repr(value)
    return _KINDS.get(type(value), "this")
