"""A change of a JSON object: members that it has are set, objects are merged, and null removes. Pure.

Source: https://www.rfc-editor.org/rfc/rfc7396
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merge_patch(target: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """The object as `patch` changes it; both stay as they are. Arrays are replaced."""
    merged = {**target}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict):
            before = merged.get(name)
            merged[name] = merge_patch(before if isinstance(before, dict) else {}, value)
        else:
            merged[name] = value
    return merged
