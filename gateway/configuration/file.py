"""The configuration file as text: YAML (and so JSON) with the place of each value, references expanded.

Below: errors, messages. Above: sections, which give the keys their meaning. Scalars follow YAML 1.2's core schema, not
PyYAML's 1.1: `no` is text, `1e-3` a number, `12:30` and dates are text, so that JSON in it means the same as everywhere
(https://yaml.org/spec/1.2.2/#103-core-schema).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TypeAlias

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from gateway.errors import ConfigurationError
from gateway.messages import JsonObject, JsonValue

FieldPath: TypeAlias = "tuple[str | int, ...]"
FieldProblem: TypeAlias = "tuple[FieldPath, str]"
"""A field's path, wherever it was read from: for a file it becomes a line, for a request body a pointer."""

MOST_PROBLEMS = 100
"""As many problems are told; who has more does not read them, and finding words for each takes its time."""

_MAX_VALUES = 100_000  # aliases of aliases can make a small file enormous
_MAX_DEPTH = 64
_MAX_REFERENCED_BYTES = 1_000_000
_LONGEST_NAME = 100  # that is compared with others: what a name is near to takes the square of its length

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"[-+]?[0-9]+\Z")
_BASED_INTEGER = re.compile(r"0o[0-7]+\Z|0x[0-9a-fA-F]+\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_NOT_A_NUMBER = re.compile(r"[-+]?\.(inf|Inf|INF)\Z|\.(nan|NaN|NAN)\Z")
_TAG = "tag:yaml.org,2002:"
_ANCHOR = re.compile(r"\A&\S+\s+")

# `$${` first: an escaped reference is none.
_REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)(\}?)")
_ENVIRONMENT_REFERENCE = re.compile(r"env:([^:]*)(:-(.*))?\Z", re.DOTALL)
_TEMPLATE = re.compile(r"[a-z_]+\.")  # ${parameters.x}: filled in per run, not here


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem: its place (in the file, an environment variable or a flag), its field, and its message."""

    place: str
    path: FieldPath
    message: str

    def __str__(self) -> str:
        where = f"{self.place}: {spell_path(self.path)}" if self.path else self.place
        return f"{where}: {self.message}"


class InvalidConfigurationError(ConfigurationError):
    """The configuration has problems; the message lists all of them, a line each."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)


@dataclass(slots=True)
class ConfigurationText:
    """A file's values, and the place of each.

    `places` maps a path to `file:line:column` of its key (of the item, in a list); the root, `()`, is always there.
    `expanded` are the paths of texts that contained a reference: they may be secret, and no message quotes them.
    """

    values: JsonObject
    places: dict[FieldPath, str]
    problems: list[Problem] = field(default_factory=list)
    expanded: set[FieldPath] = field(default_factory=set)
    _wrong: set[FieldPath] = field(default_factory=set)

    def place(self, path: FieldPath) -> str:
        """The place of `path`, or of its nearest parent that has one."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places[path]

    def report(self, path: FieldPath, message: str) -> None:
        """Note a problem with the field at `path`, unless it or a parent has one already, which is its cause."""
        if not any(path[:length] in self._wrong for length in range(1, len(path) + 1)):
            self.note(Problem(self.place(path), path, message))

    def report_all(self, problems: Iterable[FieldProblem]) -> None:
        """`report` each of them, in order, as far as there is room."""
        for path, message in problems:
            if self.is_full:
                return
            self.report(path, message)

    def note(self, problem: Problem) -> None:
        """Note a problem, also where its field has one already."""
        self.problems.append(problem)
        self._wrong.add(problem.path)

    @property
    def is_full(self) -> bool:
        """Whether there are MOST_PROBLEMS."""
        return len(self.problems) >= MOST_PROBLEMS

    def override(self, path: tuple[str, ...], value: JsonValue, place: str) -> None:
        """Put `value` at `path` as if the file had it; `place` names its source."""
        target = self.values
        for part in path[:-1]:
            inner = target.get(part)
            if not isinstance(inner, dict):
                inner = target[part] = {}
            target = inner
        target[path[-1]] = value
        self.places[path] = place
        self.expanded.discard(path)


def spell_path(path: FieldPath) -> str:
    """`agents[0].model.region`."""
    spelled = ""
    for part in path:
        spelled += f"[{part}]" if isinstance(part, int) else f".{part}" if spelled else part
    return spelled


def below(path: FieldPath, problems: Iterable[FieldProblem]) -> Iterator[FieldProblem]:
    """The problems of a value as problems of the structure around it, in which it stands at `path`."""
    for inner, message in problems:
        yield (*path, *inner), message


def did_you_mean(name: str, known: Iterator[str] | list[str]) -> str:
    """`; did you mean 'x'?`, or nothing if no name is similar."""
    if len(name) > _LONGEST_NAME:
        return ""
    spellings = {candidate.lower(): candidate for candidate in known}
    close = get_close_matches(name.lower(), spellings, n=1, cutoff=0.5)
    return f"; did you mean {spellings[close[0]]!r}?" if close else ""


def read_configuration(file: Path, environ: Mapping[str, str]) -> ConfigurationText:
    """Read the file and expand its references; its problems are in `problems`.

    Raises:
        InvalidConfigurationError: it cannot be read, or is not YAML.
    """
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InvalidConfigurationError(
            [Problem(str(file), (), f"cannot be read: {error.strerror or error}")]
        ) from error
    except UnicodeDecodeError as error:
        raise InvalidConfigurationError(
            [Problem(str(file), (), f"byte {error.start} is not UTF-8; save the file as UTF-8")]
        ) from error
    configuration = parse_configuration(text, str(file))
    expand_references(configuration, environ, file.parent)
    return configuration


def parse_configuration(text: str, name: str) -> ConfigurationText:
    """The values of a YAML text; `name` is its name in problems.

    Raises:
        InvalidConfigurationError: it is not YAML, or not a mapping.
    """
    if text.lstrip().startswith("{"):
        text = text.replace("\t", " ")  # JSON may be indented with tabs, YAML may not; a JSON string holds no raw tab
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        raise InvalidConfigurationError([_syntax_problem(error, text, name)]) from error
    except yaml.reader.ReaderError as error:
        place = f"{name}:{text.count(chr(10), 0, error.position) + 1}"
        character = f"the character U+{error.character:04X}" if isinstance(error.character, int) else "a character"
        raise InvalidConfigurationError([Problem(place, (), f"{character} may not stand in YAML")]) from error
    configuration = ConfigurationText({}, {(): f"{name}:1:1"})
    if root is None:
        return configuration
    values = _Builder(name, configuration).build(root, ())
    if not isinstance(values, dict):
        configuration.report((), "the file must be a mapping with keys such as 'server' and 'agents'")
        raise InvalidConfigurationError(configuration.problems)
    configuration.values = values
    return configuration


def _syntax_problem(error: yaml.MarkedYAMLError, text: str, name: str) -> Problem:
    mark = error.problem_mark or error.context_mark
    place = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
    if mark and (found := _REFERENCE.match(text, mark.index - 1)):  # the mark is at the brace after the dollar
        return Problem(place, (), f'inside of braces or brackets, put a reference in quotes: "{found[0]}"')
    what = " ".join(part for part in (error.context, error.problem) if part)
    return Problem(place, (), f"this is not YAML: {what}")


class _Builder:
    """Turns PyYAML's nodes, which know where they stand, into values."""

    def __init__(self, name: str, configuration: ConfigurationText) -> None:
        self._name = name
        self._configuration = configuration
        self._count = 0

    def build(self, node: Node, path: FieldPath) -> JsonValue:
        self._count += 1
        if self._count > _MAX_VALUES or len(path) > _MAX_DEPTH:
            place = self._place(node)
            raise InvalidConfigurationError(
                [Problem(place, (), "too many or too deeply nested values; do aliases ('*name') repeat them?")]
            )
        self._configuration.places.setdefault(path, self._place(node))
        match node:
            case MappingNode():
                return self._mapping(node, path)
            case SequenceNode():
                return [self.build(item, (*path, index)) for index, item in enumerate(node.value)]
            case ScalarNode():
                return self._scalar(node, path)
            case _:
                raise AssertionError(f"PyYAML has no other node: {node!r}")

    def _mapping(self, node: MappingNode, path: FieldPath) -> JsonObject:
        values: JsonObject = {}
        merged: list[Node] = []
        first_places: dict[str, str] = {}
        for key_node, value_node in node.value:
            if key_node.tag == f"{_TAG}merge":
                merged.append(value_node)
                continue
            key = self._key(key_node, path)
            if key is None:
                continue
            place = self._place(key_node)
            if key in first_places:
                problem = f"the key stands twice; the first time at {first_places[key]}; remove one of them"
                self._configuration.note(Problem(place, (*path, key), problem))
                continue
            first_places[key] = place
            self._configuration.places[(*path, key)] = place
            values[key] = self.build(value_node, (*path, key))
        for value_node in merged:
            self._merge(value_node, path, values)
        return values

    def _merge(self, node: Node, path: FieldPath, values: JsonObject) -> None:
        # https://yaml.org/type/merge.html: existing keys win, earlier mappings before later ones
        for source in node.value if isinstance(node, SequenceNode) else [node]:
            if not isinstance(source, MappingNode):
                self._problem(node, path, "'<<' takes a mapping or a list of mappings")
                return
            known = set(values)
            inherited = self._mapping(source, path)
            values.update({key: value for key, value in inherited.items() if key not in known})

    def _key(self, node: Node, path: FieldPath) -> str | None:
        value = self._scalar(node, path) if isinstance(node, ScalarNode) else None
        if isinstance(value, str):
            return value
        shown = node.value if isinstance(node, ScalarNode) else "this"
        self._problem(node, path, f"a key must be text, and {shown!r} is not; put it in quotes")
        return None

    def _scalar(self, node: ScalarNode, path: FieldPath) -> JsonValue:
        text: str = node.value
        plain = node.style is None
        match node.tag.removeprefix(_TAG):
            case _ if plain and not self._is_tagged(node):
                return self._plain(node, path)
            case "str" | "timestamp":
                return _joined(text)
            case "null" | "bool" | "int" | "float":
                return self._plain(node, path)
            case _:
                self._problem(node, path, f"the tag {node.tag!r} is not known here; write a plain value")
                return text

    def _is_tagged(self, node: ScalarNode) -> bool:
        """Whether the author wrote a tag (`!!str 5`); PyYAML's own guess looks the same in the node."""
        source = node.start_mark.buffer or ""
        return _ANCHOR.sub("", source[node.start_mark.pointer : node.end_mark.pointer], count=1).startswith("!")

    def _plain(self, node: ScalarNode, path: FieldPath) -> JsonValue:
        text: str = node.value
        if text in _NULL:
            return None
        if text in _BOOLEANS:
            return _BOOLEANS[text]
        if _INTEGER.match(text) and len(text) < 64:
            return int(text)
        if _BASED_INTEGER.match(text) and len(text) < 64:
            return int(text, 0)
        if _NOT_A_NUMBER.match(text) or (_FLOAT.match(text) and not math.isfinite(float(text))):
            self._problem(node, path, f"{text} is not a number that JSON knows; write a finite one")
            return None
        if _FLOAT.match(text):
            return float(text)
        return _joined(text)

    def _place(self, node: Node) -> str:
        return f"{self._name}:{node.start_mark.line + 1}:{node.start_mark.column + 1}"

    def _problem(self, node: Node, path: FieldPath, message: str) -> None:
        self._configuration.note(Problem(self._place(node), path, message))


def _joined(text: str) -> str:
    """PyYAML reads JSON's `\\ud83d\\ude00` as two halves: join them."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def expand_references(configuration: ConfigurationText, environ: Mapping[str, str], directory: Path) -> None:
    """Replace `${env:NAME}`, `${env:NAME:-default}` and `${file:path}` in every text by their values.

    The values are text and cannot become structure. `$${` stays as `${`.
    """

    def walk(value: JsonValue, path: FieldPath) -> JsonValue:
        match value:
            case dict():
                return {key: walk(inner, (*path, key)) for key, inner in value.items()}
            case list():
                return [walk(inner, (*path, index)) for index, inner in enumerate(value)]
            case str() if "${" in value:
                return expand(value, path)
            case _:
                return value

    def expand(text: str, path: FieldPath) -> str:
        def replaced(found: re.Match[str]) -> str:
            if found[0] == "$${":
                return "${"
            try:
                value = _referenced(found, environ, directory)
            except ConfigurationError as error:
                configuration.report(path, error.message)
                return ""
            if value is None:
                return found[0]
            configuration.expanded.add(path)
            return value

        return _REFERENCE.sub(replaced, text)

    values = walk(configuration.values, ())
    assert isinstance(values, dict)
    configuration.values = values


def _referenced(found: re.Match[str], environ: Mapping[str, str], directory: Path) -> str | None:
    """The reference's value; None if it belongs to a template and not to this file."""
    name, closed = found[1], found[2]
    if _TEMPLATE.match(name):
        return None
    if not closed:
        raise ConfigurationError("a reference '${' has no '}'; close it, or write '$${' for the characters themselves")
    if variable := _ENVIRONMENT_REFERENCE.match(name):
        return _environment_value(variable[1], variable[3], environ)
    if name.startswith("file:"):
        return _file_value(directory / name.removeprefix("file:"))
    suggestion = f"'${{env:{name}}}'" if re.fullmatch(r"\w+", name) else "'${env:NAME}' or '${file:/path}'"
    raise ConfigurationError(
        f"'${{{name}}}' is not a known reference; write {suggestion}, or '$${{' for the characters"
    )


def _environment_value(name: str, default: str | None, environ: Mapping[str, str]) -> str:
    # An empty variable counts as missing, as in the shell's ${NAME:-default}: an empty key only fails later.
    value = environ.get(name) or default
    if value is None:
        state = "empty" if name in environ else "not set"
        raise ConfigurationError(
            f"the environment variable {name!r} is {state}; set it, or write '${{env:{name}:-default}}'"
        )
    return value


def _file_value(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            content = stream.read(_MAX_REFERENCED_BYTES + 1)
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise ConfigurationError(f"the file {str(file)!r} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"the file {str(file)!r} is not UTF-8 text") from error
    except ValueError as error:  # a NUL in the path
        raise ConfigurationError(f"{str(file)!r} is not a file name; write '${{file:/path}}'") from error
    if len(content) > _MAX_REFERENCED_BYTES:
        raise ConfigurationError(f"the file {str(file)!r} is larger than {_MAX_REFERENCED_BYTES:,} bytes")
    # editors and `echo` end a file with a line break that is not part of the secret
    return text.removesuffix("\n").removesuffix("\r")
