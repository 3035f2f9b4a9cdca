"""The `model` of an agent's body as the section of the configuration file.

Below: fields, generation_options. Above: registration. A credential may have the names of ml-commons' connectors, and
the region may stand in it. Parameters that are the agent's are given apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final

from gateway.agents.stored import PartsForCallers
from gateway.messages import JsonObject
from gateway.ml_agents.generation_options import CREDENTIAL, is_credential, option_name
from gateway.protocol.fields import Fields

_FIRST: Final = ("bedrock/converse", "gemini/v1beta/generatecontent", "openai/v1/chat/completions")
_USUAL_REGION: Final = "us-east-1"
_OTHER_NAMES: Final = ("api_key", "openAI_key", "openai_key")  # of a provider's only key
_KEY: Final = "_api_key"
_AGENTS: Final = frozenset(
    {
        "chat_history",
        "context",
        "context_management_name",
        "datetime_format",
        "disable_trace",
        "examples",
        "include_token_usage",
        "inject_datetime",
        "llm_response_pattern",
        "max_iteration",
        "mcp_connectors",
        "message_history_limit",
        "no_escape_params",
        "opensearch_indices",
        "prompt",
        "question",
        "response_filter",
        "selected_tools",
        "service_name",
        "system_prompt",
        "tool_configs",
        "verbose",
    }
)
_AGENTS_BEGIN: Final = ("_", "prompt.", "agent.tools.", "chat_history_template.", "interaction_template.")
_MEMBERS: Final = frozenset(
    {
        "background",
        "compute_environment",
        "credential",
        "endpoint",
        "headers",
        "model_id",
        "model_parameters",
        "model_provider",
        "params",
        "region",
        "stateful",
        "timeouts",
    }
)
# Whose change means that the keys would go to somebody else.
_ADDRESSES: Final = ("model_provider", "endpoint", "region")
_KEYS: Final = ("credential", "headers")


@dataclass(frozen=True, slots=True)
class ModelBlock:
    """`section` is `model` of the configuration; `agents` are the parameters among the model's that are the agent's.

    `places` says where in the caller's body each pointer into the section stands, if it is another place.
    """

    section: JsonObject
    agents: JsonObject = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)


def read_model(fields: Fields, parts: PartsForCallers, before: JsonObject | None = None) -> ModelBlock:
    """The model that a block describes. Problems are noted. With `before` the block changes that section: members that
    it does not have stay, null removes, and keys have to be given again if they would go to another address.
    """
    for name in sorted(fields.value.keys() - _MEMBERS):
        close = get_close_matches(name, _MEMBERS, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"there are: {', '.join(sorted(_MEMBERS))}"
        fields.wrong(name, f"model has no field '{name}'; {hint}")
    sent: JsonObject = {name: value for name, value in fields.value.items() if name in _MEMBERS}
    provider = _provider(fields, parts, before)
    _check_model_id(fields, before)
    found: JsonObject = {**(before or {}), **sent}
    found["model_provider"] = provider
    places: dict[str, str] = {}
    credential = fields.inner("credential")
    if credential is not None:
        found["credential"] = _credential(credential, parts.providers.get(provider, frozenset()))
    agents = _put_parameters(fields, found, before)
    _put_region(fields, found, places)
    section: JsonObject = {name: value for name, value in found.items() if value is not None}
    if before is not None:
        _check_keys(fields, before, section)
    return ModelBlock(section, agents, places)


def _is_agents(name: str) -> bool:
    """Whether a parameter is the agent's, also where it stands among the model's: options are, since they mean the same
    with every model.
    """
    return name in _AGENTS or name.startswith(_AGENTS_BEGIN) or option_name(name) is not None


def _supported(parts: PartsForCallers) -> str:
    """The model providers for a message, ml-commons' own first."""
    first = [name for name in _FIRST if name in parts.providers]
    return ", ".join([*first, *sorted(parts.providers.keys() - set(first))])


def _provider(fields: Fields, parts: PartsForCallers, before: JsonObject | None) -> str:
    value = fields.value.get("model_provider")
    if value is None and before is not None:
        return str(before["model_provider"])
    if value is None:
        missing = "cannot be null or empty" if "model_provider" in fields.value else "must be provided"
        fields.wrong("model_provider", f"model_provider {missing}")
        return ""
    if not isinstance(value, str) or not value:
        fields.wrong("model_provider", "model_provider cannot be null or empty")
        return ""
    known = {name.lower(): name for name in parts.providers}
    if (name := known.get(value.lower())) is None:
        supported = _supported(parts)
        fields.wrong("model_provider", f"Unknown model provider type. Supported types: {supported}")
        return ""
    return name


def _check_model_id(fields: Fields, before: JsonObject | None) -> None:
    value = fields.value.get("model_id")
    if "model_id" not in fields.value:
        if before is None:
            fields.wrong("model_id", "model_id must be provided")
    elif not isinstance(value, str) or not value:
        fields.wrong("model_id", "model_id cannot be null or empty")


def _credential(fields: Fields, known: frozenset[str]) -> JsonObject:
    """The credential in the provider's own names. The region that may stand in it is taken by `_put_region`."""
    keys = [name for name in known if name.endswith(_KEY)]
    found: JsonObject = {}
    for name, value in fields.value.items():
        if name in ("region", "service_name") or value is None:
            continue
        own = keys[0] if name not in known and name in _OTHER_NAMES and len(keys) == 1 else name
        if not isinstance(value, str):
            fields.wrong(name, f"{name} must be a text")
        elif known and own not in known:
            fields.wrong(name, f"'{name}' is no credential of this provider; there are: {', '.join(sorted(known))}")
        else:
            found[own] = value
    return found


def _put_region(fields: Fields, found: JsonObject, places: dict[str, str]) -> None:
    """The region, wherever the caller wrote it; the one that ml-commons takes where Bedrock needs one."""
    for block in ("credential", "model_parameters"):
        inner = fields.value.get(block)
        if isinstance(inner, dict) and inner.get("region") is not None and fields.value.get("region") is None:
            found["region"] = inner["region"]
            places["/region"] = f"/{block}/region"
    on_bedrock = str(found["model_provider"]).startswith("bedrock/") and "credential" in found
    names_region = found.get("endpoint") or str(found.get("model_id", "")).startswith("arn:")
    if on_bedrock and not names_region and not found.get("region"):
        found["region"] = _USUAL_REGION


def _put_parameters(fields: Fields, found: JsonObject, before: JsonObject | None) -> JsonObject:
    """Put the model's own parameters into the section; the others are given."""
    given = fields.inner("model_parameters")
    if given is None:
        return {}
    earlier: Any = before or {}
    parameters: JsonObject = {**earlier.get("model_parameters", {})}
    agents: JsonObject = {}
    for name, value in given.value.items():
        if _is_agents(name):
            agents[name] = value
        elif name == "region":
            continue
        elif is_credential(name):
            given.wrong(name, CREDENTIAL.format(name=name))
        elif value is None:
            parameters.pop(name, None)
        else:
            parameters[name] = value
    found["model_parameters"] = parameters
    return agents


def _check_keys(fields: Fields, before: JsonObject, section: JsonObject) -> None:
    """Keys must not go to an address that they were not given for."""
    changed = [name for name in _ADDRESSES if before.get(name) != section.get(name)]
    for name in _KEYS if changed else ():
        if before.get(name) and fields.value.get(name) is None and name in section:
            fields.wrong(
                name,
                f"{name} must be given again, as {changed[0]} changes: the stored one was given for another address",
            )
