"""Facts of Gemini's generateContent wire: finish reasons, token counts, addresses, schemas. Pure.

Source: https://ai.google.dev/api/generate-content (v1beta).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import quote, urlunsplit

from gateway.providers.endpoints import split_endpoint
from gateway.providers.token_counts import token_count
from gateway.wire.tool_schema import (
    UNIONS,
    JsonSchema,
    as_list,
    as_mapping,
    choices,
    is_null,
    members_of_any,
    merged,
    required_names,
    target,
)

PROVIDER_NAME = "gemini/v1beta/generatecontent"

# The kinds of opaque parts: a part's signature, the signature of a text's end, a part that only Gemini understands.
SIGNATURE = "thought_signature"
TEXT_SIGNATURE = "text_signature"
ITEM = "item"

STOP_REASONS: Mapping[str, str] = {
    "FINISH_REASON_UNSPECIFIED": "end_turn",
    "STOP": "end_turn",
    "MAX_TOKENS": "max_tokens",
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",
    "IMAGE_SAFETY": "content_filter",
    "IMAGE_PROHIBITED_CONTENT": "content_filter",
    "IMAGE_RECITATION": "content_filter",
    "MODEL_ARMOR": "content_filter",
}
"""`finishReason` to our stop reasons. Any other that is not a failure is `end_turn`."""

FAILED_REASONS: Mapping[str, str] = {
    "MALFORMED_FUNCTION_CALL": "protocol",
    "MALFORMED_RESPONSE": "protocol",
    "UNEXPECTED_TOOL_CALL": "protocol",
    "TOO_MANY_TOOL_CALLS": "protocol",
    "MISSING_THOUGHT_SIGNATURE": "invalid",
    "LANGUAGE": "invalid",
    "NO_IMAGE": "server",
    "IMAGE_OTHER": "server",
    "OTHER": "server",
}
"""The `finishReason`s that say that the response failed, to the kinds of ModelError."""

# Parts that only the provider understands: code it ran, media it made. They are sent back unchanged.
ITEM_PARTS = ("executableCode", "codeExecutionResult", "inlineData", "fileData", "toolCall", "toolResponse")

# Members of the request beside `generationConfig`; parameters of any other name go into it.
TOP_LEVEL = frozenset(
    {"safetySettings", "toolConfig", "cachedContent", "tools", "labels", "serviceTier", "store", "modelArmorConfig"}
)


# --- models --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Profile:
    """What one family of models accepts. `pattern` matches the start of the model id.

    `signed_calls`: calls of the current turn are refused without a signature. `thinking`: how a request limits its
    reasoning, by a budget of tokens or by a level; empty: not at all. `least_thinking` is the smallest such value.
    `penalties`: it takes penalties for repetition. `formats_beside_tools`: a request with functions may ask for an
    answer in JSON.
    """

    pattern: str
    signed_calls: bool = False
    thinking: Literal["", "budget", "level"] = ""
    least_thinking: int | str = 0
    penalties: bool = False
    formats_beside_tools: bool = False


_GEMINI_3 = Profile(r"gemini-", signed_calls=True, thinking="level", least_thinking="low", formats_beside_tools=True)

# The first match counts. https://ai.google.dev/gemini-api/docs/thinking,
# https://ai.google.dev/gemini-api/docs/structured-output
_PROFILES = (
    Profile(r"gemini-2\.5-pro", thinking="budget", least_thinking=128),
    Profile(r"gemini-2\.5", thinking="budget"),
    Profile(r"gemini-(1|2)(\D|$)", penalties=True),
    replace(_GEMINI_3, pattern=r"gemini-.*flash", least_thinking="minimal"),
    _GEMINI_3,
)
UNKNOWN = Profile("")
_NAMED_AFTER: Final = (("IMAGE", "-image"), ("AUDIO", "-tts"))


def profile_of(model_id: str) -> Profile:
    """The profile of a model. An unknown one gets what all models accept."""
    bare = model_id.rpartition("/")[2]
    return next((profile for profile in _PROFILES if re.match(profile.pattern, bare)), UNKNOWN)


def modalities_of(model_id: str, parameters: Mapping[str, Any]) -> Collection[str]:
    """The kinds of content that a model is asked for (`TEXT`, `IMAGE`, `AUDIO`), else those of models of its name.

    https://ai.google.dev/api/generate-content#Modality, https://ai.google.dev/gemini-api/docs/models
    """
    nested = parameters.get("generationConfig")
    for told in (nested if isinstance(nested, dict) else {}, parameters):
        if isinstance(asked := told.get("responseModalities", told.get("response_modalities")), list):
            return [str(each).upper() for each in asked]
    return ["TEXT", *(kind for kind, word in _NAMED_AFTER if word in model_id)]


# --- addresses, names ------------------------------------------------------------------------------------------------


def stream_url(endpoint: str, model_id: str) -> str:
    """The address of a model's streamGenerateContent below the base URL `endpoint`.

    Raises:
        ValueError: `endpoint` is no http or https URL with a host, or carries credentials; the text says which.
    """
    parts = split_endpoint(endpoint)
    resource = model_id if "/" in model_id else f"models/{model_id}"  # tunedModels/..., projects/.../endpoints/...
    path = f"{parts.path}/{quote(resource, safe='/@')}:streamGenerateContent"
    query = "&".join(filter(None, (parts.query, "alt=sse")))
    return urlunsplit(parts._replace(path=path, query=query))


_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.-]{0,62}")


def function_name(name: str) -> str:
    """`name` if the wire accepts it, else a replacement that it accepts. Different names get different replacements."""
    if _NAME.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"f_{re.sub('[^a-zA-Z0-9_-]', '_', name)[:50]}_{digest[:8]}"


# --- schemas ---------------------------------------------------------------------------------------------------------

_TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object"})
_KEPT = ("title", "description", "minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength", "pattern")
_FORMATS: Mapping[str, frozenset[str]] = {
    "string": frozenset({"enum", "date-time"}),
    "number": frozenset({"float", "double"}),
    "integer": frozenset({"int32", "int64"}),
}
# The limits for schemas that contain themselves, or repeat a part very often.
_DEEPEST = 12
_MOST_PLACES = 1_000


def schema_subset(schema: JsonSchema) -> dict[str, object]:
    """A JSON Schema in the subset of OpenAPI 3.0 that functions may be declared with (https://ai.google.dev/api/caching#Schema).

    What the subset cannot express is left out or put into the description. The arguments are later checked against the
    whole schema.
    """
    return _Subset(schema).of(schema, (), 0)


class _Subset:
    """`within` are the references that led to the current place. They are not followed again."""

    def __init__(self, root: JsonSchema) -> None:
        self._root = root
        self._places = 0

    def of(self, schema: JsonSchema, within: tuple[str, ...], depth: int) -> dict[str, object]:
        self._places += 1
        schema, within = self._resolved(schema, within, depth)
        schema = self._without_choice(schema, within, depth)
        kind, nullable = _type_of(schema)
        made: dict[str, object] = {name: schema[name] for name in _KEPT if schema.get(name) is not None}
        if kind is None:
            made["anyOf"] = [self.of(each, within, depth + 1) for each in choices(schema)]
        else:
            made["type"] = kind.upper()
        if nullable:
            made["nullable"] = True
        if kind == "object":
            self._object(schema, made, within, depth)
        elif kind == "array":
            items = as_mapping(schema.get("items"))
            follow = items and self._follows(depth)
            made["items"] = self.of(items, within, depth + 1) if follow else {"type": "STRING"}
        if schema.get("format") in _FORMATS.get(kind or "", ()):
            made["format"] = schema["format"]
        _place_values(schema, kind, made)
        return made

    def _follows(self, depth: int) -> bool:
        return depth < _DEEPEST and self._places < _MOST_PLACES

    def _resolved(self, schema: JsonSchema, within: tuple[str, ...], depth: int) -> tuple[JsonSchema, tuple[str, ...]]:
        """The schema with `$ref` and `allOf` merged in."""
        own = {name: value for name, value in schema.items() if name not in ("$ref", "allOf")}
        reference = schema.get("$ref")
        taken: list[JsonSchema] = []
        if isinstance(reference, str):
            if reference in within:
                taken.append({"type": "object"})
            else:
                within = (*within, reference)
                taken.append(target(self._root, reference))
        taken += map(as_mapping, as_list(schema.get("allOf")))
        for each in taken if self._follows(depth) else ():
            self._places += 1
            inner, within = self._resolved(each, within, depth + 1)
            own = merged(own, inner)
        return own, within

    def _without_choice(self, schema: JsonSchema, within: tuple[str, ...], depth: int) -> JsonSchema:
        """The schema without `anyOf` and `oneOf`, if the subset cannot express them or there is only one choice.

        The subset cannot express choices beside an object's own members (`anyOf: [{required: [a]}, ...]`). Then the
        object gets the members of all choices, and requires those that every choice requires.
        """
        branches = choices(schema)
        rest = {name: value for name, value in schema.items() if name not in UNIONS}
        if any(is_null(each) for name in UNIONS for each in as_list(schema.get(name))):
            rest["nullable"] = True
        if not branches or not self._follows(depth):
            return rest
        if len(branches) == 1:
            only, _ = self._resolved(branches[0], within, depth + 1)
            return self._without_choice(merged(rest, only), within, depth + 1)
        if schema.get("type") != "object" and "properties" not in schema:
            kind = {"type": schema["type"]} if isinstance(schema.get("type"), str) else {}
            return {
                **{name: value for name, value in rest.items() if name != "type"},
                "anyOf": [{**kind, **each} for each in branches],
            }
        resolved = [self._resolved(each, within, depth + 1)[0] for each in branches]
        return merged(rest, members_of_any(resolved))

    def _object(self, schema: JsonSchema, made: dict[str, object], within: tuple[str, ...], depth: int) -> None:
        properties = as_mapping(schema.get("properties")) if self._follows(depth) else {}
        made["properties"] = {name: self.of(as_mapping(inner), within, depth + 1) for name, inner in properties.items()}
        names = [name for name in required_names(schema) if name in properties]
        if names:
            made["required"] = names


def _type_of(schema: JsonSchema) -> tuple[str | None, bool]:
    """The type, or None if there is a choice of types; and whether null is allowed."""
    kind = schema.get("type")
    kinds = [each for each in (kind if isinstance(kind, list) else [kind]) if isinstance(each, str)]
    nullable = "null" in kinds or schema.get("nullable") is True
    named = next((each for each in kinds if each in _TYPES), None)
    if named is None:
        named = "object" if "properties" in schema else "array" if "items" in schema else "string"
    return (None if choices(schema) else named), nullable


def _place_values(schema: Mapping[str, object], kind: str | None, made: dict[str, object]) -> None:
    """Enumerations. The subset has them only for strings; others go into the description."""
    values = [schema["const"]] if "const" in schema else as_list(schema.get("enum"))
    values = [value for value in values if value is not None]
    if not values:
        return
    if kind == "string" and all(isinstance(value, str) for value in values):
        made["enum"] = values
    else:
        said = ", ".join(str(value) for value in values)
        made["description"] = " ".join(filter(None, (str(made.get("description") or ""), f"One of: {said}.")))


# --- usage -----------------------------------------------------------------------------------------------------------


class TokenCounts(NamedTuple):
    """`input` includes what tools at the provider read; `output` includes the thoughts."""

    input: int | None
    output: int | None
    reasoning: int | None
    cached: int | None


def token_counts(usage: Mapping[str, object]) -> TokenCounts:
    """The counts of a response: `usageMetadata` of its last chunk, which are cumulative."""
    prompt, tools = token_count(usage, "promptTokenCount"), token_count(usage, "toolUsePromptTokenCount")
    answer, thoughts = token_count(usage, "candidatesTokenCount"), token_count(usage, "thoughtsTokenCount")
    output = None if answer is None and thoughts is None else (answer or 0) + (thoughts or 0)
    return TokenCounts(
        None if prompt is None else prompt + (tools or 0),
        output,
        thoughts,
        token_count(usage, "cachedContentTokenCount"),
    )
