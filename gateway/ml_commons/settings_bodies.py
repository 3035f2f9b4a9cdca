"""The bodies of `_cluster/settings`: nested or flat names, and values as texts. Pure.

Below: feature_settings. Above: the protocol of the settings.
https://docs.opensearch.org/latest/api-reference/cluster-api/cluster-settings/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Final, get_args

from gateway.errors import FieldProblem, InvalidRequestError
from gateway.messages import JsonObject, JsonValue, json_kind
from gateway.ml_commons.cluster_settings import Changes, Lifetime
from gateway.ml_commons.errors import EXCEPTION
from gateway.ml_commons.feature_settings import DEFAULTS, PREFIX, SettingValue, read_setting
from gateway.wire.json_pointer import escaped

_LIFETIMES: Final = get_args(Lifetime)
_MOST_SETTINGS: Final = 1_000  # of a lifetime; there are not as many


def read_changes(body: JsonObject) -> dict[Lifetime, Changes]:
    """The settings that a body sets and removes, for each lifetime.

    Raises:
        InvalidRequestError: 400, a member or a setting is unknown, a value is wrong, or there is nothing to set.
    """
    for name in body.keys() - {*_LIFETIMES}:
        right = "send 'persistent' and 'transient'"
        raise _refused(f"[cluster_update_settings_request] unknown field [{name}]; {right}", f"/{name}")
    changes: dict[Lifetime, Changes] = {lifetime: _read(body, lifetime) for lifetime in _LIFETIMES}
    if not any(changes.values()):
        raise _refused("Validation Failed: 1: no settings to update;", "", "action_request_validation_exception")
    return changes


def _read(body: JsonObject, lifetime: Lifetime) -> Changes:
    value = body.get(lifetime)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _refused(f"[{lifetime}] is {json_kind(value)}; it must be an object", f"/{lifetime}")
    changes: dict[str, SettingValue | None] = {}
    for place, (name, pointer, given) in enumerate(_flat(value, "", f"/{lifetime}")):
        if place == _MOST_SETTINGS:
            raise _refused(f"{lifetime} has more than {_MOST_SETTINGS} settings; send fewer", pointer)
        known = _known(name, removes=given is None)
        if not known:
            raise _refused(f"{lifetime} setting [{name}], not recognized", pointer, "settings_exception")
        try:
            changes |= {each: None if given is None else read_setting(each, given) for each in known}
        except InvalidRequestError as error:
            raise _refused(error.message, pointer) from None
    return changes


def _known(name: str, *, removes: bool) -> list[str]:
    """The settings of that name, without the prefix; `*` in a name stands for any text where settings are removed."""
    if removes and "*" in name:
        return [each for each in DEFAULTS if fnmatchcase(PREFIX + each, name)]
    short = name.removeprefix(PREFIX)
    return [short] if name.startswith(PREFIX) and short in DEFAULTS else []


def _flat(value: JsonObject, before: str, at: str) -> Iterator[tuple[str, str, JsonValue]]:
    """Each setting's full name, the pointer to its place, and its value."""
    for name, inner in value.items():
        pointer = f"{at}/{escaped(name)}"
        if isinstance(inner, dict):
            yield from _flat(inner, f"{before}{name}.", pointer)
        else:
            yield before + name, pointer, inner


def written(values: Mapping[str, SettingValue], *, flat: bool) -> JsonObject:
    """Settings as answers show them: all values are texts, as OpenSearch has them."""
    texts: JsonObject = {PREFIX + name: _text(value) for name, value in sorted(values.items())}
    return texts if flat else _nested(texts)


def _text(value: SettingValue) -> JsonValue:
    if isinstance(value, bool):
        return "true" if value else "false"
    return [*value] if isinstance(value, list) else str(value)


def _nested(flat: JsonObject) -> JsonObject:
    nested: JsonObject = {}
    for name, value in flat.items():
        *path, last = name.split(".")
        inner = nested
        for part in path:
            below = inner.setdefault(part, {})
            assert isinstance(below, dict), "no setting's name goes on behind another's"
            inner = below
        inner[last] = value
    return nested


def _refused(message: str, pointer: str, kind: str = "illegal_argument_exception") -> InvalidRequestError:
    problems = [FieldProblem(pointer, message)] if pointer else []
    return InvalidRequestError(message, status=400, problems=problems, members={EXCEPTION: kind})
