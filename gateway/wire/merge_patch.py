"""Changes a JSON object by a merge patch, which sets its members, merges objects, and removes members by null. Pure.

Source: https://www.rfc-editor.org/rfc/rfc7396
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merge_patch(target: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the object, changed by `patch`. Arrays are replaced as a whole."""
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
