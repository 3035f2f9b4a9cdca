"""`docs/reference/configuration.md`: every key of the configuration file."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from gateway.settings import configuration_schema
from tests.reference.markdown import anchor, prose, table
from tests.reference.schema_tables import HEADINGS, Schema, rows, sections_in

_INTRODUCTION = """# Configuration keys

Every key of the configuration file, with its type, its default and its meaning. [Configuration](../configuration.md)
leads through the file. The parameters of tools have [a page of their own](tools.md).

`agents[]` stands for an item of the list `agents`. A key without a value has its default. A number, `true` and
`false` may be a reference, too: `"${env:PORT}"`.
"""
_ROOT = "The file"


def configuration_page() -> str:
    """The page's text."""
    schema: Any = configuration_schema()
    sections: Mapping[str, Schema] = schema["$defs"]
    paths = _paths(schema, sections)
    keys = {key: value for key, value in schema["properties"].items() if key != "$schema"}
    text = [_INTRODUCTION, _section(_ROOT, {**schema, "properties": keys}, paths)]
    places = [path for path in _in_order(schema, sections, "") if path in paths.values()]
    names = {path: name for name, path in paths.items()}
    text += [_section(f"`{path}`", sections[names[path]], paths) for path in dict.fromkeys(places)]
    return "\n".join(text)


def silent_keys() -> list[str]:
    """The keys of the file and of tools' parameters that have no meaning written beside them."""
    schema: Any = configuration_schema()
    return [
        f"{name}.{key}"
        for name, section in {_ROOT: schema, **schema["$defs"]}.items()
        for key, field in section.get("properties", {}).items()
        if not field.get("description") and key != "$schema"
    ]


def _section(heading: str, section: Schema, paths: Mapping[str, str]) -> str:
    text = f"## {heading}\n\n{prose(section.get('description', ''))}\n"
    if not section.get("properties"):
        return text
    return f"{text}\n{table(HEADINGS, rows(section, lambda name: _link(paths[name])))}"


def _link(path: str) -> str:
    return f"[`{path}`](#{anchor(path)})"


def _paths(schema: Schema, sections: Mapping[str, Schema]) -> dict[str, str]:
    """The shortest path to each section."""
    paths: dict[str, str] = {}
    waiting = deque([("", schema)])
    while waiting:
        path, section = waiting.popleft()
        for key, field in section.get("properties", {}).items():
            for name, is_list in sections_in(field):
                if name not in paths:
                    paths[name] = _below(path, key, is_list)
                    waiting.append((paths[name], sections[name]))
    return paths


def _in_order(section: Schema, sections: Mapping[str, Schema], path: str) -> list[str]:
    """The paths of the sections below this one, each before those in it."""
    found = []
    for key, field in section.get("properties", {}).items():
        for name, is_list in sections_in(field):
            below = _below(path, key, is_list)
            found += [below, *_in_order(sections[name], sections, below)]
    return found


def _below(path: str, key: str, is_list: bool) -> str:
    return f"{path}.{key}".lstrip(".") + "[]" * is_list
