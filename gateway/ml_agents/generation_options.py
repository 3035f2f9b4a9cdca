"""Generation options as ml-commons' users write them: in any vendor's spelling, numbers also as texts.

Below: fields. Above: parameters, registration.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import orjson

from gateway.messages import JsonObject, JsonValue
from gateway.protocol.fields import Fields

_OPTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "temperature": "temperature",
        "top_p": "top_p",
        "topP": "top_p",
        "top_k": "top_k",
        "topK": "top_k",
        "max_tokens": "max_tokens",
        "maxTokens": "max_tokens",
        "max_completion_tokens": "max_tokens",
        "max_output_tokens": "max_tokens",
        "maxOutputTokens": "max_tokens",
        "stop": "stop",
        "stop_sequences": "stop",
        "stopSequences": "stop",
        "seed": "seed",
        "presence_penalty": "presence_penalty",
        "presencePenalty": "presence_penalty",
        "frequency_penalty": "frequency_penalty",
        "frequencyPenalty": "frequency_penalty",
    }
)
CREDENTIAL: Final = "'{name}' is a credential; write it into model.credential, which is kept encrypted"
_WHOLE: Final = frozenset({"top_k", "max_tokens", "seed"})


def option_name(name: str) -> str | None:
    """The option that a parameter sets, in the configuration's word for it; None: it sets none."""
    return _OPTIONS.get(name)


def is_credential(name: str) -> bool:
    """Whether a parameter is a key that must not stand among the parameters, which are shown."""
    return name.endswith(("_api_key", "_secret")) or name in ("access_key", "secret_key", "session_token", "api_key")


def read_option(fields: Fields, name: str) -> JsonValue:
    """The value of a parameter that sets an option. Problems are noted."""
    value, option = fields.value[name], _OPTIONS[name]
    if option == "stop":
        return _stops(fields, name, value)
    number = number_of(value)
    if number is None or (option in _WHOLE and number % 1):
        wanted = "a valid whole number" if option in _WHOLE else "a valid number"
        fields.wrong(name, f"{name} must be {wanted}, got: {shown(value)}")
        return None
    return int(number) if option in _WHOLE else number


def number_of(value: JsonValue) -> int | float | None:
    """The number, also if it is written as a text; None: the value is no finite number."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value


def read_whole_number(fields: Fields, name: str, *, least: int) -> int | None:
    """The whole number in a member, also if it is written as a text; None: there is none, or it is wrong, which is
    noted.
    """
    if (value := fields.value.get(name)) is None:
        return None
    number = number_of(value)
    if number is None or number % 1 or number < least:
        fields.wrong(name, f"{name} must be a whole number of at least {least}, got: {shown(value)}")
        return None
    return int(number)


def parsed(value: JsonValue) -> JsonValue:
    """The object or array that a text is; any other value as it is."""
    if isinstance(value, str) and value.strip()[:1] in ("[", "{"):
        try:
            found: JsonValue = orjson.loads(value)
        except ValueError:
            return value
        return found
    return value


def text_of(value: JsonValue) -> str:
    """A value as ml-commons keeps it: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def texts_of(values: JsonObject) -> dict[str, JsonValue]:
    """Each value as `text_of` gives it; those that are null are left out."""
    return {name: text_of(value) for name, value in values.items() if value is not None}


def shown(value: JsonValue) -> str:
    """A value for a message, not longer than a line."""
    return text_of(value)[:64]


def _stops(fields: Fields, name: str, value: JsonValue) -> JsonValue:
    found = parsed(value)
    texts = [found] if isinstance(found, str) else found
    if not isinstance(texts, list) or not all(isinstance(each, str) for each in texts):
        fields.wrong(name, f"{name} must be a text or an array of texts, got: {shown(value)}")
        return None
    return [each for each in texts if each]
