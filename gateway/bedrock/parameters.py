"""An agent's `model_parameters` as the fields of a ConverseStream request.

Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html. OpenAI's names are
understood, too. Any other parameter is sent to the model as an additional field.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from gateway.bedrock.guardrails import GUARD_CONTENT, check_guardrail

# Names for the gateway itself; they are not sent.
PROMPT_CACHING = "prompt_caching"
MODEL_FAMILY = "model_family"

_INFERENCE = MappingProxyType(
    {
        "temperature": "temperature",
        "top_p": "topP",
        "topP": "topP",
        "max_tokens": "maxTokens",
        "maxTokens": "maxTokens",
        "max_completion_tokens": "maxTokens",
        "max_output_tokens": "maxTokens",
        "stop": "stopSequences",
        "stop_sequences": "stopSequences",
        "stopSequences": "stopSequences",
    }
)
_ADDITIONAL = "additionalModelRequestFields"
_FIELDS = MappingProxyType(
    {
        "inferenceConfig": "inferenceConfig",
        "inference_config": "inferenceConfig",
        "additionalModelRequestFields": _ADDITIONAL,
        "additional_model_request_fields": _ADDITIONAL,
        "additionalModelResponseFieldPaths": "additionalModelResponseFieldPaths",
        "additional_model_response_field_paths": "additionalModelResponseFieldPaths",
        "guardrailConfig": "guardrailConfig",
        "guardrail_config": "guardrailConfig",
        "performanceConfig": "performanceConfig",
        "performance_config": "performanceConfig",
        "serviceTier": "serviceTier",
        "service_tier": "serviceTier",
        "requestMetadata": "requestMetadata",
        "request_metadata": "requestMetadata",
        "promptVariables": "promptVariables",
        "prompt_variables": "promptVariables",
        "outputConfig": "outputConfig",
        "output_config": "outputConfig",
    }
)
_LISTS = frozenset({"additionalModelResponseFieldPaths"})


def request_fields(parameters: Mapping[str, object], *, one_sampler: bool = False) -> dict[str, object]:
    """The request's fields beside messages, system and tools; none of them empty.

    `one_sampler`: top_p is left out if there is a temperature. None and an empty list count as absent.

    Raises:
        ValueError: a value that the service can never accept; the message names the parameter.
    """
    inference: dict[str, object] = {}
    fields: dict[str, object] = {}
    rest: dict[str, object] = {}
    for name, value in parameters.items():
        if value is None or value == [] or name in (PROMPT_CACHING, MODEL_FAMILY, GUARD_CONTENT):
            continue
        if name in _INFERENCE:
            inference[_INFERENCE[name]] = _checked(name, _INFERENCE[name], value)
        elif name in _FIELDS:
            fields[_FIELDS[name]] = _shaped(name, _FIELDS[name], value)
        else:
            rest[name] = value
    inference |= _mapping(fields.pop("inferenceConfig", {}))
    if one_sampler and "temperature" in inference:
        inference.pop("topP", None)
    rest |= _mapping(fields.pop(_ADDITIONAL, {}))
    check_guardrail(_mapping(fields.get("guardrailConfig")), parameters.get(GUARD_CONTENT))
    return {name: value for name, value in {**fields, "inferenceConfig": inference, _ADDITIONAL: rest}.items() if value}


def _mapping(value: object) -> dict[str, object]:
    return dict(value) if isinstance(value, Mapping) else {}


def _shaped(name: str, field: str, value: object) -> object:
    if field == "serviceTier" and isinstance(value, str):
        return {"type": value}
    if field in _LISTS:
        if not isinstance(value, list):
            raise ValueError(f"{name} is {value!r}: it must be a list")
    elif not isinstance(value, Mapping):
        raise ValueError(f"{name} is {value!r}: it must be a mapping")
    return value


def _checked(name: str, field: str, value: object) -> object:
    if field == "stopSequences":
        sequences = [value] if isinstance(value, str) else value
        if not isinstance(sequences, list) or not all(isinstance(item, str) and item for item in sequences):
            raise ValueError(f"{name} is {value!r}: it must be a text or a list of texts, none of them empty")
        return sequences
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name} is {value!r}: it must be a number")
    if field == "maxTokens":
        if not 1 <= value < 2**31 or value % 1:
            raise ValueError(f"{name} is {value!r}: it must be a whole number from 1 on")
        return int(value)
    if not 0 <= value <= 1:
        raise ValueError(f"{name} is {value!r}: Bedrock takes 0 to 1")
    return value
