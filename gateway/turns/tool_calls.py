"""Parses the arguments that a model wrote as JSON text, and checks them against the tool's schema.

Below: messages, errors. Above: the loop, and the checks of arguments that a person edited. A ToolError describes the
problem for the model.
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass
from itertools import islice

import jsonschema_rs
import orjson

from gateway.errors import ToolError
from gateway.lru import LruCache
from gateway.messages import JsonObject, JsonValue, ToolSpec, json_kind
from gateway.records import dump_json
from gateway.wire import strict_json
from gateway.wire.pattern_cost import BYTES_PER_UNIT
from gateway.wire.schema_cost import MAX_PLACES, SchemaCost, schema_cost

logger = logging.getLogger(__name__)

_SHOWN_PROBLEMS = 5
_SHOWN_CHARACTERS = 300

# How much one check may do on the event loop: 20 ms and 20 MB at most (`make benchmark` shows it).
_MOST_CHECKS = 300_000  # places in the schema times values
# Bytes copied to describe a problem: each failing place copies its value.
_MOST_DESCRIBED = 100_000
_DESCRIPTION_BYTES = 64  # the cost of a place besides its value
_TEXT_BYTES = 64  # of text: a pattern reads so many in the time of one check
_KEPT_PLACES = 40_000  # of all validators that one agent keeps
_LARGEST_PATTERN = MAX_PLACES * BYTES_PER_UNIT
_LEAST_PLACES = 16  # the cost of an entry without a validator

_TOO_LARGE = "The arguments are too large, or nested too deep, to be checked against the schema of {name!r}."


def parse_arguments(text: str) -> JsonObject:
    """The JSON object in `text`. For an empty text and `null`, which many models write for "no arguments", an empty
    object.

    Raises:
        ToolError: it is not JSON, not an object, or nested too deep.
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
    if strict_json.is_too_deep(arguments, text):
        raise ToolError(
            f"The arguments are nested more than {strict_json.MAX_DEPTH} deep. Make them flatter and call again."
        )
    return arguments


def are_same_arguments(text: str, arguments: JsonObject) -> bool:
    """Whether the JSON `text` that a model wrote means these arguments: as in JSON, 1 equals 1.0 but not true."""
    try:
        return jsonschema_rs.is_valid({"const": parse_arguments(text)}, arguments)
    except (ToolError, ValueError):  # ValueError: numbers that the validator does not know
        return False


@dataclass(frozen=True, slots=True)
class CompiledSchema:
    """A schema's validator and the cost of a check."""

    schema: JsonObject
    cost: SchemaCost
    validator: jsonschema_rs.Validator

    def can_check(self, written: bytes) -> bool:
        """Whether arguments, given as JSON, can be checked in a negligible time."""
        values = 1 + written.count(b",") + written.count(b"[") + written.count(b"{")
        if self.cost.has_patterns:
            values += len(written) // _TEXT_BYTES
        return values * self.cost.checks <= _MOST_CHECKS

    def can_describe(self, written: bytes, arguments: JsonObject) -> bool:
        """Whether the problem with the arguments can be described in a negligible time."""
        checks = self.cost.checks
        if (_DESCRIPTION_BYTES + len(written)) * checks > _MOST_DESCRIBED:
            return False
        levels = _levels(arguments)
        if self.cost.is_recursive:
            checks = schema_cost(self.schema, levels).checks
        return (_DESCRIPTION_BYTES + levels * len(written)) * checks <= _MOST_DESCRIBED


class CompiledSchemas:
    """Recently used schemas, compiled: compiling takes 80 us, and an agent's runs share their tools.

    A schema that is invalid or costs too much is remembered as well, so that it is logged once. The cache is bounded by
    the schemas' cost.
    """

    def __init__(self, most_places: int = _KEPT_PLACES) -> None:
        self._compiled: LruCache[bytes, CompiledSchema | None] = LruCache(most_places)

    def get(self, spec: ToolSpec) -> CompiledSchema | None:
        """The compiled schema; None if arguments cannot be checked against it."""
        try:
            key = hashlib.blake2b(dump_json(spec.input_schema), digest_size=16).digest()
        except ValueError:  # nested too deeply to make a key
            return _compile_or_warn(spec)
        if key in self._compiled:
            return self._compiled.get(key)
        compiled = _compile_or_warn(spec)
        self._compiled.keep(key, compiled, _kept_places(compiled))
        return compiled


def _kept_places(compiled: CompiledSchema | None) -> int:
    return _LEAST_PLACES if compiled is None else compiled.cost.places + compiled.cost.size // BYTES_PER_UNIT


class ArgumentChecks:
    """The schemas of one run's tools, each compiled at its first use, or taken from `compiled`.

    No `$ref` leaves the schema, and neither compiling it nor a check of arguments takes more than some milliseconds:
    frontend tools bring schemas from anywhere. A schema that costs more, or cannot be compiled, accepts every object,
    with a warning in the log.
    """

    def __init__(self, compiled: CompiledSchemas | None = None) -> None:
        self._compiled = compiled or CompiledSchemas()
        self._of_tools: dict[str, CompiledSchema | None] = {}

    def parse(self, spec: ToolSpec, text: str, *, checked: bool = True) -> JsonObject:
        """The arguments of a call of the tool `spec`. `checked` as in `problem`.

        Raises:
            ToolError: they are no JSON object, or do not fit the schema.
        """
        arguments = parse_arguments(text)
        problem = self.problem(spec, arguments, checked=checked)
        if problem is not None:
            raise ToolError(f"{problem} Correct them and call again.")
        return arguments

    def problem(self, spec: ToolSpec, arguments: JsonObject, *, checked: bool = True) -> str | None:
        """The problem with the arguments, in one sentence; None if they fit the schema.

        Arguments that are too large to check are wrong too, unless `checked` is False.
        """
        if spec.name not in self._of_tools:
            self._of_tools[spec.name] = self._compiled.get(spec)
        compiled = self._of_tools[spec.name]
        if compiled is None:
            return None
        try:
            written = orjson.dumps(arguments)
            if not compiled.can_check(written):
                logger.warning("a call's arguments are too large to be checked", extra={"tool": spec.name})
                return _TOO_LARGE.format(name=spec.name) if checked else None
            if compiled.validator.is_valid(arguments):
                return None
            what = f"The arguments do not fit the schema of {spec.name!r}"
            if not compiled.can_describe(written, arguments):
                return f"{what}."
            errors = [_describe(error) for error in islice(compiled.validator.iter_errors(arguments), _SHOWN_PROBLEMS)]
        except (ValueError, TypeError):  # nested too deeply, or numbers that JSON or the validator does not know
            return "The arguments are nested too deeply or hold numbers out of range."
        return f"{what}: {'; '.join(errors)}."


def _levels(arguments: JsonObject) -> int:
    """How deep the values are nested; an empty object is one level."""
    levels = 0
    values: list[JsonValue] = [arguments]
    while values:
        levels += 1
        holders = [value for value in values if isinstance(value, dict | list)]
        values = [item for each in holders for item in (each.values() if isinstance(each, dict) else each)]
    return levels


def argument_problem(spec: ToolSpec, arguments: JsonObject) -> str | None:
    """The problem with arguments for the tool `spec`, for a person to read; None if they fit its schema."""
    return ArgumentChecks().problem(spec, arguments)


def approval_schema(spec: ToolSpec) -> JsonObject:
    """The JSON Schema of a person's answer to an approval of this tool."""
    arguments: JsonObject = {"type": "object", **spec.input_schema}
    # `#/$defs/...` counts from the root of the whole schema, so definitions have to stand there.
    definitions: JsonObject = {name: arguments.pop(name) for name in ("$defs", "definitions") if name in arguments}
    arguments.pop("$schema", None)
    return {
        "type": "object",
        "properties": {"approved": {"type": "boolean"}, "arguments": arguments, "reason": {"type": "string"}},
        "required": ["approved"],
        **definitions,
    }


def canonical_call(name: str, arguments: JsonObject) -> bytes:
    """Bytes that are equal for equal calls, whatever the order of the arguments' members."""
    return dump_json(name) + orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS)


def schema_problem(schema: JsonObject) -> str | None:
    """The reason why arguments cannot be checked against a tool's schema; None if they can."""
    compiled = _compile(schema)
    return compiled if isinstance(compiled, str) else None


def _compile(schema: JsonObject) -> CompiledSchema | str:
    """The schema's validator, or the reason why there is none."""
    try:
        cost = schema_cost(schema)
        if cost.places > MAX_PLACES or cost.checks > MAX_PLACES:
            return f"it has too many places once its references are followed, or patterns ({MAX_PLACES:,} are the most)"
        validator = jsonschema_rs.validator_for(
            schema,
            retriever=_refuse_retrieval,
            pattern_options=jsonschema_rs.RegexOptions(_LARGEST_PATTERN, _LARGEST_PATTERN),
            validate_formats=False,
        )
    except (ValueError, TypeError, RecursionError) as error:  # ValidationError is a ValueError
        return str(error).partition("\n")[0][:_SHOWN_CHARACTERS]
    return CompiledSchema(schema, cost, validator)


def _compile_or_warn(spec: ToolSpec) -> CompiledSchema | None:
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
