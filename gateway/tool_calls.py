"""What a model asks of a tool: from the JSON text it wrote to an object that fits the tool's schema.

Below: messages, errors. Above: the loop, and whoever checks arguments that a person edited. What is wrong is said in a
ToolError, for the model to read.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from itertools import islice

import jsonschema_rs
import orjson

from gateway.errors import ToolError
from gateway.messages import JsonObject, JsonValue, ToolSpec, json_kind
from gateway.records import dump_json

logger = logging.getLogger(__name__)

_SHOWN_PROBLEMS = 5
_SHOWN_CHARACTERS = 300


def parse_arguments(text: str) -> JsonObject:
    """The JSON object that `text` is. Nothing at all, and `null`, are what many models write for "no arguments".

    Raises:
        ToolError: it is not JSON, or not an object.
    """
    if not text or text.isspace():
        return {}
    try:
        arguments = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ToolError(
            f"The arguments are not valid JSON ({error}). Write them as one JSON object and call the tool again."
        ) from error
    if arguments is None:
        return {}
    if not isinstance(arguments, dict):
        raise ToolError(
            f"The arguments must be a JSON object, not {json_kind(arguments)}. Correct them and call again."
        )
    return arguments


def are_same_arguments(text: str, arguments: JsonObject) -> bool:
    """Whether the JSON `text` that a model wrote says these arguments: as JSON, where 1 is 1.0 but true is not 1."""
    try:
        return jsonschema_rs.is_valid({"const": parse_arguments(text)}, arguments)
    except (ToolError, ValueError):  # ValueError: numbers that the validator does not know
        return False


class CompiledSchemas:
    """Schemas that were just used, compiled: that takes 80 us, and runs of an agent have the same tools."""

    def __init__(self, limit: int = 256, largest_bytes: int = 16_384) -> None:
        self._limit = limit
        self._largest_bytes = largest_bytes
        self._validators: OrderedDict[bytes, jsonschema_rs.Validator | None] = OrderedDict()

    def validator(self, spec: ToolSpec) -> jsonschema_rs.Validator | None:
        """None: the schema cannot be compiled."""
        try:
            key = dump_json(spec.input_schema)
        except ValueError:  # nested too deeply to be told apart from others
            return _compile_or_warn(spec)
        if key in self._validators:
            self._validators.move_to_end(key)
            return self._validators[key]
        validator = _compile_or_warn(spec)
        if len(key) <= self._largest_bytes:
            self._validators[key] = validator
            if len(self._validators) > self._limit:
                self._validators.popitem(last=False)
        return validator


class ArgumentChecks:
    """The schemas of one run's tools, each compiled at its first use, or taken from `compiled`.

    No pattern of a schema can take more than linear time and no `$ref` leaves the schema: frontend tools bring schemas
    from anywhere. A schema that cannot be compiled accepts every object, with a warning in the log.
    """

    def __init__(self, compiled: CompiledSchemas | None = None) -> None:
        self._compiled = compiled or CompiledSchemas()
        self._validators: dict[str, jsonschema_rs.Validator | None] = {}

    def parse(self, spec: ToolSpec, text: str) -> JsonObject:
        """The arguments of a call of the tool `spec`.

        Raises:
            ToolError: they are no JSON object, or do not fit the schema.
        """
        arguments = parse_arguments(text)
        self.check(spec, arguments)
        return arguments

    def check(self, spec: ToolSpec, arguments: JsonObject) -> None:
        """Raises ToolError where they do not fit the schema; the message tells a model what is wrong."""
        problem = self.problem(spec, arguments)
        if problem is not None:
            raise ToolError(f"{problem} Correct them and call again.")

    def problem(self, spec: ToolSpec, arguments: JsonObject) -> str | None:
        """What is wrong with the arguments, in one sentence; None where they fit the schema."""
        if spec.name not in self._validators:
            self._validators[spec.name] = self._compiled.validator(spec)
        validator = self._validators[spec.name]
        if validator is None:
            return None
        try:
            errors = [_describe(error) for error in islice(validator.iter_errors(arguments), _SHOWN_PROBLEMS)]
        except ValueError:  # arguments nested too deeply, or numbers the validator does not know
            return "The arguments are nested too deeply or hold numbers out of range."
        return f"The arguments do not fit the schema of {spec.name!r}: {'; '.join(errors)}." if errors else None


def argument_problem(spec: ToolSpec, arguments: JsonObject) -> str | None:
    """What is wrong with arguments for the tool `spec`, for a person to read; None where they fit its schema."""
    return ArgumentChecks().problem(spec, arguments)


def approval_schema(spec: ToolSpec) -> JsonObject:
    """What a person's answer to an approval of this tool looks like, as JSON Schema."""
    edited: JsonObject = {"type": "object", **spec.input_schema}
    # `#/$defs/...` counts from the root of the whole schema, so definitions have to stand there.
    definitions: JsonObject = {name: edited.pop(name) for name in ("$defs", "definitions") if name in edited}
    edited.pop("$schema", None)
    return {
        "type": "object",
        "properties": {"approved": {"type": "boolean"}, "editedArgs": edited, "reason": {"type": "string"}},
        "required": ["approved"],
        **definitions,
    }


def canonical_call(name: str, arguments: JsonObject) -> bytes:
    """The same bytes for the same call, however the members of its arguments are ordered."""
    return dump_json(name) + orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS)


def schema_problem(schema: JsonObject) -> str | None:
    """Why arguments cannot be checked against a tool's schema; None where they can."""
    compiled = _compile(schema)
    return compiled if isinstance(compiled, str) else None


def _compile(schema: JsonObject) -> jsonschema_rs.Validator | str:
    """The schema's validator, or why there is none."""
    try:
        return jsonschema_rs.validator_for(
            schema,
            retriever=_refuse_retrieval,
            pattern_options=jsonschema_rs.RegexOptions(),
            validate_formats=False,
        )
    except (ValueError, TypeError, RecursionError) as error:  # ValidationError is a ValueError
        return str(error).partition("\n")[0][:_SHOWN_CHARACTERS]


def _compile_or_warn(spec: ToolSpec) -> jsonschema_rs.Validator | None:
    compiled = _compile(spec.input_schema)
    if not isinstance(compiled, str):
        return compiled
    logger.warning("a tool's schema cannot be used", extra={"tool": spec.name, "reason": compiled})
    return None


def _refuse_retrieval(uri: str) -> JsonValue:
    raise ValueError("schemas are not fetched")


def _describe(error: jsonschema_rs.ValidationError) -> str:
    where = "/".join(str(part) for part in error.instance_path)
    text = error.message if len(error.message) <= _SHOWN_CHARACTERS else error.message[:_SHOWN_CHARACTERS] + "..."
    return f"{where}: {text}" if where else text
