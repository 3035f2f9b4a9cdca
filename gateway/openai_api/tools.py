"""A request's own tools, which its client runs, and which of them the model may or must call.

Below: fields. Above: the readers of both protocols' requests. Chat Completions writes a function inside of `function`,
Responses writes it flat; clients of either send both. A model knows a function in a namespace as `namespace__name`.
https://platform.openai.com/docs/api-reference/chat/create (November 2026),
https://platform.openai.com/docs/api-reference/responses/create
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterator, Mapping, Set
from dataclasses import dataclass
from itertools import count
from typing import Final, NamedTuple

from gateway.messages import JsonObject, ToolSpec
from gateway.openai_api.fields import OpenAIFields
from gateway.options.generation import OneTool, ToolChoice
from gateway.protocol.fields import shown_word
from gateway.protocol.tool_fields import function_name, function_of, function_spec, is_function

_CHOICES: Final[Mapping[str, ToolChoice]] = {"auto": "auto", "none": "none", "required": "required"}
_MODES: Final[Mapping[str, ToolChoice]] = {"auto": "auto", "required": "required"}
_LONGEST_NAME: Final = 64  # that providers take
_DIGEST_BYTES: Final = 4


class NamespacedName(NamedTuple):
    """The name of a function of a namespace, as its client writes it."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class ReadTools:
    """The tools of a request. `specs` are its functions, `namespaced` those of them that are in a namespace, by the
    name that the model knows. `left_out`: the names of its other tools.
    """

    specs: tuple[ToolSpec, ...]
    namespaced: Mapping[str, NamespacedName]
    left_out: tuple[str, ...]

    def known_names(self) -> _KnownNames:
        """The names under which the model gets the functions in namespaces."""
        of_namespaces: dict[str, set[str]] = {}
        for known, named in self.namespaced.items():
            of_namespaces.setdefault(named.namespace, set()).add(known)
        return _KnownNames({named: known for known, named in self.namespaced.items()}, of_namespaces)


class _KnownNames(NamedTuple):
    """The names that the model knows: of each function in a namespace, and all of each namespace."""

    of_functions: Mapping[NamespacedName, str]
    of_namespaces: Mapping[str, Set[str]]


def flat_name(namespace: str, name: str) -> str:
    """The name under which a model gets a function of a namespace, if no other tool has that name."""
    whole = f"{namespace}__{name}"
    return whole if len(whole) <= _LONGEST_NAME else _with_digest(namespace, name)


def read_tools(
    body: OpenAIFields, *, namespaces: bool = False, refuses_others: bool = False, taken: Container[str] = ()
) -> ReadTools:
    """The `tools` of a request; of two that have one name, the last. Problems are noted.

    What is no function is left out, or wrong if it `refuses_others`; so are functions in namespaces without
    `namespaces`. Names that are `taken` are other tools' of the model's.
    """
    tools = _Tools(taken)
    for tool in body.objects("tools"):
        kind = tool.value.get("type")
        if kind == "namespace" and namespaces:
            tools.add_namespace(tool, refuses_others=refuses_others)
        elif not _names_own_tools(tool) and not tools.leaves_out(tool, refuses_others) and is_function(tool):
            tools.add(function_spec(tool))
    return tools.read()


class _Tools:
    """Tools as they are read. Functions outside of namespaces have the names that they want."""

    def __init__(self, taken: Container[str]) -> None:
        self._taken = taken
        self._specs: dict[str | NamespacedName, ToolSpec] = {}
        self._left_out: list[str] = []

    def add(self, spec: ToolSpec, namespace: str | None = None) -> None:
        self._specs[spec.name if namespace is None else NamespacedName(namespace, spec.name)] = spec

    def add_namespace(self, tool: OpenAIFields, *, refuses_others: bool) -> None:
        namespace = tool.required("name", filled=True)
        for inner in tool.objects("tools"):
            if not self.leaves_out(inner, refuses_others) and is_function(inner):
                self.add(function_spec(inner), namespace)

    def leaves_out(self, tool: OpenAIFields, refuses: bool) -> bool:
        """Whether it is no function, and nothing that has to be refused: a server that the gateway would have to ask.

        Without a type it is a function that was written wrong.
        """
        kind = tool.value.get("type")
        if refuses or not isinstance(kind, str) or kind in ("", "function", "mcp"):
            return False
        self._left_out.append(_called(kind, tool.value))
        return True

    def read(self) -> ReadTools:
        used = {key for key in self._specs if isinstance(key, str)}
        specs: list[ToolSpec] = []
        namespaced: dict[str, NamespacedName] = {}
        for key, spec in self._specs.items():
            if isinstance(key, str):
                specs.append(spec)
                continue
            name = next(name for name in _names(*key) if name not in used and name not in self._taken)
            used.add(name)
            namespaced[name] = key
            specs.append(ToolSpec(name, spec.description, spec.input_schema))
        return ReadTools(tuple(specs), namespaced, tuple(self._left_out))


def _names(namespace: str, name: str) -> Iterator[str]:
    """The names that a function of a namespace may have, the best first."""
    yield flat_name(namespace, name)
    for number in count():
        yield _with_digest(namespace, name, number)


def _with_digest(namespace: str, name: str, number: int = 0) -> str:
    key = repr((namespace, name, number)).encode()
    digest = hashlib.blake2b(key, digest_size=_DIGEST_BYTES).hexdigest()
    return f"{f'{namespace}__{name}'[: _LONGEST_NAME - len(digest) - 1]}_{digest}"


def _called(kind: str, tool: JsonObject) -> str:
    """The name of a tool of another kind: its type, and its own name if it has one."""
    inside = tool.get(kind)
    name = tool.get("name") or (inside.get("name") if isinstance(inside, dict) else None)
    return f"{kind} {name}" if isinstance(name, str) and name else kind


# --- which the model may or must call --------------------------------------------------------------------------------


def read_tool_choice(body: OpenAIFields, tools: ReadTools) -> tuple[tuple[ToolSpec, ...], ToolChoice]:
    """The tools that the model may call, by `tool_choice`, and whether it must. Problems are noted.

    Whether a forced call can be made is known when the run begins.
    """
    specs, choice = tools.specs, body.value.get("tool_choice")
    if not isinstance(choice, dict):
        said = body.word("tool_choice", _CHOICES) or "auto"
        if said == "required" and tools.left_out and not specs:
            body.wrong("tool_choice", "tool_choice is 'required', and none of the tools is a function")
        return specs, said
    fields = body.below("tool_choice", choice)
    kind = choice.get("type")
    if kind == "function":
        return specs, OneTool(_known_name(function_of(fields), tools.known_names()))
    if kind == "allowed_tools":
        return _allowed(fields, tools)
    fields.wrong("type", f"{fields.called('type')} is {shown_word(kind)}; it must be 'function' or 'allowed_tools'")
    return specs, "auto"


def _known_name(function: OpenAIFields, known: _KnownNames) -> str:
    """The name under which the model gets a function; empty if its name is wrong, which is noted."""
    name, namespace = function_name(function), function.text("namespace")
    if not namespace:
        return name
    return known.of_functions.get(NamespacedName(namespace, name)) or flat_name(namespace, name)


def _names_own_tools(tool: OpenAIFields) -> bool:
    """Whether it stands for tools that the agent has already: it names no server that is to be asked for them.

    openai-agents takes a question about a call of a backend tool only from an agent to which such a tool was given.
    """
    fields = tool.value
    reached = fields.get("server_url") or fields.get("connector_id")
    return fields.get("type") == "mcp" and isinstance(fields.get("server_label"), str) and not reached


def _allowed(fields: OpenAIFields, tools: ReadTools) -> tuple[tuple[ToolSpec, ...], ToolChoice]:
    """Some of the tools. They stand in `allowed_tools` in Chat Completions."""
    fields = (fields.inner("allowed_tools") if fields.value.get("allowed_tools") is not None else None) or fields
    called, known = tools.known_names(), {spec.name for spec in tools.specs}
    names, namespaces, others = set[str](), set[str](), 0
    for tool in fields.objects("tools"):
        if tool.value.get("type") == "namespace":
            namespaces.add(tool.text("name") or "")
        elif tool.value.get("type") != "function" and tools.left_out:
            others += 1
        elif is_function(tool) and (name := _known_name(at := function_of(tool), called)):
            names.add(name)
            if name not in known:
                at.wrong("name", f"{at.called('name')} is {name[:64]!r}, which is none of the tools")
    names.update(*(called.of_namespaces.get(namespace, ()) for namespace in namespaces))
    if others and not names:
        fields.wrong("tools", f"{fields.called('tools')} names no function; only functions are the client's own here")
    return tuple(spec for spec in tools.specs if spec.name in names), fields.word("mode", _MODES) or "auto"
