"""The keys of a section of the configuration file's JSON Schema, as the rows of a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from tests.reference.markdown import code, prose

Schema = Mapping[str, Any]
Link = Callable[[str], str]
"""The Markdown that leads to a section, by its name among the schema's definitions."""

HEADINGS: Final = ("Key", "Type", "Default", "Meaning")
_DEFINITIONS: Final = "#/$defs/"
_WORDS: Final = {"integer": "whole number", "number": "number", "boolean": "true or false", "string": "text"}


def rows(section: Schema, link: Link) -> Iterator[tuple[str, str, str, str]]:
    """The cells of the keys, in the order of the model behind the section."""
    for name, field in section["properties"].items():
        is_required = name in section.get("required", ())
        yield code(name), type_words(field, link), _default(field, is_required), prose(field.get("description", ""))


def sections_in(field: Schema) -> Iterator[tuple[str, bool]]:
    """The sections that a field holds: the name of each, and whether the field is a list of them."""
    for choice in field.get("anyOf", [field]):
        if (name := _referenced(choice)) is not None:
            yield name, False
        elif (name := _referenced(choice.get("items", {}))) is not None:
            yield name, True


def type_words(field: Schema, link: Link) -> str:
    """The type of a field in words."""
    choices = [choice for choice in field.get("anyOf", [field]) if "(env|file)" not in choice.get("pattern", "")]
    words = [_one_type(choice, link) for choice in choices if choice.get("type") != "null"]
    words += ["null" for choice in choices if choice.get("type") == "null"]
    return _either(words)


def _either(words: Sequence[str]) -> str:
    """`a, b or c`; with a comma before the last one where that would be read wrongly."""
    *first, last = words
    if not first:
        return last
    return ", ".join(first) + (", or " if any("," in word or " " in word for word in first) else " or ") + last


def _one_type(field: Schema, link: Link) -> str:
    if (section := _referenced(field)) is not None:
        return link(section)
    if "anyOf" in field:
        return type_words(field, link)
    match field:
        case {"const": value}:
            return code(json.dumps(value))
        case {"enum": values}:
            return _either([code(str(value)) for value in values])
        case {"type": "array", "items": items}:
            return "list of texts" if items.get("type") == "string" else f"list of {type_words(items, link)}"
        case {"type": "object", "additionalProperties": {"type": "string"}}:
            return "mapping of texts"
        case {"type": "object"}:
            return "mapping"
        case {"type": kind}:
            return ", ".join(filter(None, (_WORDS[kind], _range(field), _length(field))))
        case _:
            return "any value"


def _referenced(field: Schema) -> str | None:
    reference = str(field.get("$ref", ""))
    return reference.removeprefix(_DEFINITIONS) if reference and not reference.endswith("/JsonValue") else None


def _range(field: Schema) -> str:
    least, most = field.get("minimum"), field.get("maximum")
    above = field.get("exclusiveMinimum")
    if least is not None and most is not None:
        return f"{least:,} to {most:,}"
    words = [("above", above), ("at least", least), ("at most", most)]
    return ", ".join(f"{word} {bound:,}" for word, bound in words if bound is not None)


def _length(field: Schema) -> str:
    most = field.get("maxLength")
    return f"at most {most:,} characters" if most else ""


def _default(field: Schema, is_required: bool) -> str:
    if is_required:
        return "required"
    if any(not is_list for _, is_list in sections_in(field)) and field.get("default") is not None:
        return ""  # the section's own table has the defaults
    if "default" in field:
        value = field["default"]
        whole = isinstance(value, float) and value.is_integer()
        return code(json.dumps(int(value) if whole else value, ensure_ascii=False))
    return code("{}")
