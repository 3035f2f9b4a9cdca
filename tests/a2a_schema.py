"""The JSON schema of A2A 1.0, as the specification publishes it: from the compatibility kit in tests/a2a_tck."""

from __future__ import annotations

import json
import tarfile
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import jsonschema_rs

_KIT: Final = Path(__file__).parent / "a2a_tck" / "a2a-tck-357c4a8.tar.xz"
_GOOGLES: Final = frozenset({"Struct", "Timestamp", "Value"})


def problems(name: str, value: Any) -> list[str]:
    """What keeps a value from being a `name` of the specification: `Stream Response`, `Agent Card`."""
    return [f"{[*error.instance_path]}: {error.message}" for error in _validator(name).iter_errors(value)]


@cache
def _validator(name: str) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator({**_schema(), "$ref": _place(name)})


@cache
def _schema() -> dict[str, Any]:
    """Its definitions, which name each other as files that are not there."""
    with tarfile.open(_KIT) as kit:
        (member,) = [each for each in kit if each.name.endswith("specification/a2a.json")]
        file = kit.extractfile(member)
        assert file is not None, "it is a file"
        text = file.read().decode()
    definitions = json.loads(text)["definitions"]
    for name in definitions:
        package = "google.protobuf" if name in _GOOGLES else "lf.a2a.v1"
        text = text.replace(f'"{package}.{name.replace(" ", "")}.jsonschema.json"', f'"{_place(name)}"')
    return {"definitions": json.loads(text)["definitions"]}


def _place(name: str) -> str:
    return f"#/definitions/{quote(name)}"
