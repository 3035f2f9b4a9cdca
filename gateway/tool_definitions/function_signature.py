"""A Python function as a model may call it: its JSON Schema, its description, and arguments bound to its parameters.

Above: the tools that are functions. Below: errors, messages.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from gateway.errors import ConfigurationError, ToolError
from gateway.messages import JsonObject


@dataclass(frozen=True, slots=True)
class Documentation:
    """A parsed docstring: its text without the section of the parameters, and the description of each parameter."""

    text: str
    parameters: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FunctionSignature:
    """A function's parameters. `given_parameters` are annotated with the hidden type; the gateway passes them."""

    documentation: Documentation
    input_schema: JsonObject
    given_parameters: tuple[str, ...]
    _model: type[BaseModel]
    _parameters: tuple[inspect.Parameter, ...]

    def bind(self, arguments: JsonObject) -> tuple[list[Any], dict[str, Any]]:
        """The positional and named arguments of a call, converted to the types that the function declares.

        Raises:
            ToolError: an argument does not fit its parameter; the message says which and why.
        """
        try:
            values = self._model.model_validate(arguments)
        except ValidationError as error:
            raise ToolError(f"wrong arguments: {_problems(error)}") from None
        positional: list[Any] = []
        named: dict[str, Any] = dict(values.model_extra or {})
        for index, parameter in enumerate(self._parameters):
            key = f"argument_{index}"
            left_out = key not in values.model_fields_set and not isinstance(parameter.default, FieldInfo)
            if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
                # an omitted argument in the middle is passed explicitly, or the next one would take its place
                positional.append(parameter.default if left_out else getattr(values, key))
            elif not left_out:
                named[parameter.name] = getattr(values, key)
        return positional, named


def read_signature(function: Callable[..., Any], hidden: type) -> FunctionSignature:
    """The signature of `function`. Parameters of the type `hidden` are hidden from the model.

    Raises:
        ConfigurationError: it has a parameter that no JSON object can fill; the message says which.
    """
    documentation = read_documentation(function)
    parameters = _parameters(function)
    given = tuple(parameter.name for parameter in parameters if _is_hidden(parameter.annotation, hidden))
    if any(parameter.name in given and parameter.kind is parameter.POSITIONAL_ONLY for parameter in parameters):
        raise ConfigurationError(f"the {hidden.__name__} of a tool cannot be a positional-only parameter")
    visible = [parameter for parameter in parameters if parameter.name not in given]
    open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in visible)
    visible = [parameter for parameter in visible if parameter.kind is not parameter.VAR_KEYWORD]
    fields = {
        f"argument_{index}": _field(parameter, documentation.parameters.get(parameter.name))
        for index, parameter in enumerate(visible)
    }
    try:
        config = ConfigDict(extra="allow" if open_ended else "forbid", protected_namespaces=())
        model: type[BaseModel] = create_model("Arguments", __config__=config, **fields)  # type: ignore[call-overload]
        schema = _schema(model)
    except (PydanticUserError, PydanticInvalidForJsonSchema, TypeError, NameError) as error:
        raise ConfigurationError(
            f"a parameter has a type that JSON cannot express ({str(error).splitlines()[0]}); use numbers, text, "
            "lists, dictionaries, enums, literals, dataclasses, TypedDicts or pydantic models"
        ) from error
    return FunctionSignature(documentation, schema, given, model, tuple(visible))


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        parameters = list(inspect.signature(function, eval_str=True).parameters.values())
    except NameError as error:
        raise ConfigurationError(
            f"an annotation names {error.name!r}, which is not there at run time; import it outside `if TYPE_CHECKING`"
        ) from error
    except (ValueError, TypeError, SyntaxError, AttributeError) as error:
        raise ConfigurationError("its signature cannot be read; write a function in Python around it") from error
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        raise ConfigurationError("it takes *arguments, which have no names for a model to use; take a list instead")
    if isinstance(function, functools.partial):
        # the model neither sees nor changes arguments that the operator filled in
        parameters = [parameter for parameter in parameters if parameter.name not in function.keywords]
    return parameters


def _is_hidden(annotation: Any, hidden: type) -> bool:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _is_hidden(get_args(annotation)[0], hidden)
    if origin in (Union, UnionType):
        return any(_is_hidden(part, hidden) for part in get_args(annotation) if part is not NoneType)
    return annotation is hidden


def _field(parameter: inspect.Parameter, documented: str | None) -> tuple[Any, FieldInfo]:
    annotation = Any if parameter.annotation is parameter.empty else parameter.annotation
    default: Any = ... if parameter.default is parameter.empty else parameter.default
    if isinstance(default, FieldInfo):
        annotation = Annotated[annotation, default]
        documented = default.description or documented
        if default.default_factory is not None:
            return annotation, Field(
                default_factory=default.default_factory, alias=parameter.name, description=documented
            )
        default = ... if default.is_required() else default.default
    described = _own_description(annotation) or documented
    return annotation, Field(default, alias=parameter.name, description=described)


def _own_description(annotation: Any) -> str | None:
    """The description in `Annotated[int, Field(description="...")]` or `Annotated[int, "..."]`; None without one."""
    if get_origin(annotation) is Annotated:
        for extra in get_args(annotation)[1:]:
            if isinstance(extra, FieldInfo) and extra.description:
                return extra.description
            if isinstance(extra, str):
                return extra
    return None


class _PlainSchema(GenerateJsonSchema):
    """Makes schemas without titles, which would repeat every name, and without a warning for a default that has no JSON
    form.
    """

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012  # as the base class has it

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _schema(model: type[BaseModel]) -> JsonObject:
    schema: dict[str, Any] = model.model_json_schema(by_alias=True, schema_generator=_PlainSchema)
    schema.pop("title", None)
    for definition in schema.get("$defs", {}).values():
        definition.pop("title", None)
    schema.setdefault("properties", {})
    return schema


def _problems(error: ValidationError) -> str:
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, problem['loc'])) or 'arguments'}: {problem['msg']}" for problem in problems)


# Docstrings in the three styles that are in use: Google's, NumPy's and Sphinx's.

_GOOGLE_SECTION = re.compile(r"^(Args|Arguments|Parameters|Params):\s*$")
_GOOGLE_PARAMETER = re.compile(r"^(\s*)\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
_NUMPY_PARAMETER = re.compile(r"^\*{0,2}(\w+)\s*(?::.*)?$")
_SPHINX_PARAMETER = re.compile(r"^:param\s+(?:[^:]*\s)?\*{0,2}(\w+):\s*(.*)$")
_SPHINX_TYPE = re.compile(r"^:(type|rtype)\b")


def read_documentation(function: Callable[..., Any]) -> Documentation:
    """The docstring of a function, of an object's `__call__`, or of a partial's function."""
    target: Any = function.func if isinstance(function, functools.partial) else function
    text = inspect.getdoc(target) if inspect.isroutine(target) else inspect.getdoc(type(target).__call__)
    if not inspect.isroutine(target) and (not text or text == inspect.getdoc(object.__call__)):
        text = type(target).__doc__
    lines = inspect.cleandoc(text or "").splitlines()
    words: list[str] = []
    parameters: dict[str, str] = {}
    index = 0
    while index < len(lines):
        found, end = _parameter_section(lines, index)
        parameters.update(found)
        if end == index:
            words.append(lines[index])
            end += 1
        index = end
    return Documentation(re.sub(r"\n{3,}", "\n\n", "\n".join(words)).strip(), parameters)


def _parameter_section(lines: list[str], start: int) -> tuple[dict[str, str], int]:
    """The parameters that are described from line `start` on, and the line after them, which is `start` if there are
    none.
    """
    line = lines[start]
    if _GOOGLE_SECTION.match(line):
        end = next((i for i in range(start + 1, len(lines)) if lines[i] and not lines[i][0].isspace()), len(lines))
        return dict(_google_parameters(lines[start + 1 : end])), end
    if line.strip() in ("Parameters", "Other Parameters") and _is_underlined(lines, start):
        end = next((i for i in range(start + 2, len(lines)) if _is_underlined(lines, i)), len(lines))
        return dict(_numpy_parameters(lines[start + 2 : end])), end
    if match := _SPHINX_PARAMETER.match(line):
        end = _indented_until(lines, start + 1)
        rest = [match[2], *(part.strip() for part in lines[start + 1 : end])]
        return {match[1]: " ".join(filter(None, rest))}, end
    if _SPHINX_TYPE.match(line):
        return {}, _indented_until(lines, start + 1)
    return {}, start


def _is_underlined(lines: list[str], index: int) -> bool:
    return index + 1 < len(lines) and bool(lines[index].strip()) and bool(re.match(r"^-{3,}\s*$", lines[index + 1]))


def _indented_until(lines: list[str], start: int) -> int:
    return next((i for i in range(start, len(lines)) if not lines[i][:1].isspace()), len(lines))


def _google_parameters(lines: list[str]) -> Iterator[tuple[str, str]]:
    name, words, indentation = "", [""], -1
    for line in filter(str.strip, lines):
        match = _GOOGLE_PARAMETER.match(line)
        if match and (indentation < 0 or len(match[1]) <= indentation):
            if name:
                yield name, " ".join(filter(None, words))
            name, words, indentation = match[2], [match[3].strip()], len(match[1])
        else:
            words.append(line.strip())
    if name:
        yield name, " ".join(filter(None, words))


def _numpy_parameters(lines: list[str]) -> Iterator[tuple[str, str]]:
    name, words = "", [""]
    for line in filter(str.strip, lines):
        match = _NUMPY_PARAMETER.match(line) if not line[0].isspace() else None
        if match:
            if name:
                yield name, " ".join(filter(None, words))
            name, words = match[1], [""]
        else:
            words.append(line.strip())
    if name:
        yield name, " ".join(filter(None, words))
