"""The settings `plugins.ml_commons.*`: their values, and the refusals of features that are off. Pure.

Below: configuration.ml_commons_sections, which has their names and defaults. Above: cluster_settings, which keeps what
callers set. Features that the gateway has are on, also if ml-commons has them off by default. Some settings are
accepted and change nothing here, so that scripts that set them work.
https://docs.opensearch.org/latest/ml-commons-plugin/cluster-settings/
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, cast

from gateway.configuration.ml_commons_sections import MlCommonsSection
from gateway.errors import ConfigurationError, ForbiddenError, InvalidRequestError
from gateway.messages import JsonValue
from gateway.ml_commons.errors import EXCEPTION
from gateway.wire.endpoint_patterns import EndpointPattern

PREFIX: Final = "plugins.ml_commons."
TRUSTED_ENDPOINTS: Final = "trusted_connector_endpoints_regex"
PRIVATE_ADDRESSES: Final = "connector.private_ip_enabled"
MAX_JSON_SIZE: Final = "max_json_size"
FEATURE_OFF: Final = "feature_off"
"""The code of a request for a feature that is off."""
SettingValue: TypeAlias = "bool | int | str | list[str]"
Feature: TypeAlias = Literal[
    "agent_framework_enabled",
    "unified_agent_api_enabled",
    "stream_enabled",
    "ag_ui_enabled",
    "agentic_memory_enabled",
    "memory_feature_enabled",
    "memory.retention_enabled",
    "execute_tools_enabled",
    "mcp_connector_enabled",
    "remote_inference.enabled",
]

STANDARDIZED_INPUT: Final = (
    "Standardized input cannot be used if unified agent API is not enabled. The agent must be created using unified "
    f"agent API. To enable, please update the setting {PREFIX}unified_agent_api_enabled"
)
"""What is said to an execution with `input` where `unified_agent_api_enabled` is off."""


@dataclass(frozen=True, slots=True)
class _Off:
    """The refusal of a feature that is off, and the type of the error. With 400 the request is wrong, else it is
    forbidden.
    """

    subject: str
    type: str = "illegal_state_exception"
    status: Literal[400, 403] = 403
    in_quotes: bool = False


_FEATURES: Mapping[Feature, _Off] = MappingProxyType(
    {
        "agent_framework_enabled": _Off("Agent Framework is currently disabled", in_quotes=True),
        "unified_agent_api_enabled": _Off("Unified agent API is not enabled", "status_exception", 400),
        "stream_enabled": _Off("Streaming is currently disabled", in_quotes=True),
        "ag_ui_enabled": _Off("The AG-UI agent feature is not enabled"),
        "agentic_memory_enabled": _Off("The Agentic Memory APIs are not enabled", "status_exception"),
        "memory_feature_enabled": _Off("The Conversation Memory feature is not enabled", "exception"),
        "memory.retention_enabled": _Off("The memory retention feature is not enabled", "status_exception"),
        "execute_tools_enabled": _Off("The Execute Tool API is not enabled"),
        "mcp_connector_enabled": _Off("The MCP connector is not enabled"),
        "remote_inference.enabled": _Off("Remote Inference is currently disabled", status=400, in_quotes=True),
    }
)
DEFAULTS: Mapping[str, SettingValue] = MappingProxyType(
    {**cast("dict[str, SettingValue]", MlCommonsSection().by_name()), PRIVATE_ADDRESSES: False, TRUSTED_ENDPOINTS: []}
)
"""Every setting, with its default. Those of the endpoints are what the section `callers` says."""


def read_setting(name: str, value: JsonValue) -> SettingValue:
    """A setting's value, which may be written as text, as OpenSearch's clients do. `name` is without the prefix.

    Raises:
        InvalidRequestError: 400, the setting cannot have this value.
    """
    match DEFAULTS[name]:
        case bool():
            return _boolean(name, value)
        case int():
            return _number(name, value)
        case list():
            return _patterns(name, value)
        case _:
            if isinstance(value, str):
                return value
            raise _wrong(name, value, "which must be a text.")


def _boolean(name: str, value: JsonValue) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return value == "true"
    raise _wrong(name, value, "as only [true] or [false] are allowed.")


def _number(name: str, value: JsonValue) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise _wrong(name, value, "which must be a whole number.")
    try:
        number = int(value)
    except ValueError:
        raise _wrong(name, value, "which must be a whole number.") from None
    if not -1 <= number < 2**31:
        raise _wrong(name, value, "which must be from -1 to 2147483647.")
    return number


def _patterns(name: str, value: JsonValue) -> list[str]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list):
        raise _wrong(name, value, "which must be a list of regular expressions.")
    patterns: list[str] = []
    for text in texts:
        if not isinstance(text, str):
            raise _wrong(name, text, "which must be a regular expression.")
        try:
            EndpointPattern.parse(text)
        except ConfigurationError as error:
            raise _wrong(name, text, f"which is no trusted endpoint: {error.message}.") from None
        patterns.append(text)
    return patterns


def _wrong(name: str, value: JsonValue, right: str) -> InvalidRequestError:
    shown = value if isinstance(value, str) else json.dumps(value)
    return InvalidRequestError(f"Failed to parse value [{shown[:200]}] {right} Setting: {PREFIX}{name}", status=400)


def feature_off(feature: Feature, message: str = "") -> InvalidRequestError:
    """The error of a request for a feature that is off, with this `message` in place of the feature's own."""
    off = _FEATURES[feature]
    name = PREFIX + feature
    if off.in_quotes:
        said = f'{off.subject}. To enable it, update the setting "{name}" to true.'
    else:
        said = f"{off.subject}. To enable, please update the setting {name}"
    kind = ForbiddenError if off.status == 403 else InvalidRequestError
    return kind(message or said, code=FEATURE_OFF, status=off.status, members={EXCEPTION: off.type})
