"""The codes of errors that the source of the gateway names, with the statuses that it raises them with.

A code is found where it is written: as the `default_code` of a class, as an argument for a parameter or a field called
`code` (of a run that was cancelled: `reason`), or as the name of a budget or of a provider's failure, which make codes.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from http import HTTPStatus
from typing import Any, Final

from gateway.access.limits import KeyLimits, VisitorLimits
from gateway.errors import LIMIT_CODE, ModelErrorKind
from tests.documentation import ROOT

_SOURCE: Final = ROOT / "gateway"
_CODE: Final = re.compile(r"[a-z]+(_[a-z0-9]+)*")
_PARAMETERS: Final = ("code", "reused_code")
_BUDGETS: Final = ("limit_reached", "limit_error", "_reach_limit")
"""Functions whose first argument is the name of a budget."""
_STOPS: Final = ("cancel", "_stop")
"""Methods whose second argument is the code of a run that was cancelled."""
_NO_ERRORS: Final = ("agent_api_builder", "demo", "providers", "openai/responses_model.py")
"""Where `code` is something else: a caller's own, a word, a provider's."""


@cache
def codes_in_source() -> Mapping[str, frozenset[int]]:
    """The statuses of each code that the source names; none where no status is written beside it."""
    trees = [
        ast.parse(path.read_text("utf-8"))
        for path in sorted(_SOURCE.rglob("*.py"))
        if not path.relative_to(_SOURCE).as_posix().startswith(_NO_ERRORS)
    ]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    reader = _Reader(trees, nodes)
    reader.read(nodes)
    made = [f"model_{kind}" for kind in ModelErrorKind] + [LIMIT_CODE + name for name in _metered()]
    return {code: frozenset(statuses) for code, statuses in (dict.fromkeys(made, ()) | reader.statuses).items()}


def _metered() -> Iterator[str]:
    """The limits that `access.limits.Meter` makes codes of."""
    for limits in (KeyLimits, VisitorLimits):
        yield from (field.name for field in dataclasses.fields(limits) if not field.name.startswith("max_"))


class _Reader:
    """Reads modules; the constants and signatures of all of them are known from the start."""

    def __init__(self, trees: list[ast.Module], nodes: list[ast.AST]) -> None:
        self.statuses: defaultdict[str, set[int]] = defaultdict(set)
        self._constants = {name: value for tree in trees for name, value in _constants(tree)}
        self._places = dict(_places_of_code(nodes))
        self._classes = {node.name: node for node in nodes if isinstance(node, ast.ClassDef)}
        for name in self._classes:
            if (code := _own(self._classes[name], "default_code")) is not None:
                self.statuses[code] |= self._status_of(name)

    def read(self, nodes: list[ast.AST]) -> None:
        for node in nodes:
            match node:
                case ast.Call():
                    self._call(node)
                case ast.FunctionDef():
                    self._defaults(node)
                case ast.Dict():
                    self._event(node)
                case ast.Assign(targets=[ast.Name(id="_ROUTER_CODES")], value=ast.Dict() as codes):
                    for status, code in ast.literal_eval(codes).items():
                        self.statuses[code].add(status)
                case _:
                    pass

    def _call(self, call: ast.Call) -> None:
        name = _simple_name(call.func)
        statuses = self._statuses(call, name)
        for keyword in call.keywords:
            if keyword.arg in _PARAMETERS:
                self._note(keyword.value, statuses)
        if name in _BUDGETS and call.args:
            self._note(call.args[0], set(), LIMIT_CODE)
        elif name == "_refuse" and call.args and _is_number(call.args[0]):
            self._refusal(call.args[0])
        elif name in _STOPS and len(call.args) > 1:
            self._note(call.args[1], set())
        elif (place := self._places.get(name)) is not None and len(call.args) > place:
            self._note(call.args[place], statuses)

    def _refusal(self, status: ast.expr) -> None:
        """What `server.connection` refuses: its code is the status's own name."""
        number = ast.literal_eval(status)
        self.statuses[HTTPStatus(number).phrase.lower().replace(" ", "_")].add(number)

    def _statuses(self, call: ast.Call, name: str) -> set[int]:
        for keyword in call.keywords:
            if keyword.arg == "status":
                return {ast.literal_eval(keyword.value)} if _is_number(keyword.value) else set()
        return self._status_of(name)

    def _status_of(self, name: str) -> set[int]:
        """The status of an error's class, or of the one that it is made of; none for any other class."""
        if (found := self._classes.get(name)) is None:
            return set()
        if isinstance(status := _own(found, "status"), int):
            return {status}
        return set().union(*(self._status_of(_simple_name(base)) for base in found.bases))

    def _defaults(self, function: ast.FunctionDef) -> None:
        named = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
        for argument, default in named:
            if argument.arg in _PARAMETERS and default is not None:
                self._note(default, set())

    def _event(self, node: ast.Dict) -> None:
        """An event of a protocol that is written as it is: it has a `message` beside its `code`."""
        pairs = zip(node.keys, node.values, strict=True)
        members = {key.value: value for key, value in pairs if isinstance(key, ast.Constant)}
        if {"code", "message"} <= members.keys():
            self._note(members["code"], set())

    def _note(self, value: ast.expr, statuses: set[int], before: str = "") -> None:
        match value:
            case ast.Constant(value=str(text)) if _CODE.fullmatch(text):
                self.statuses[before + text] |= statuses
            case ast.Name(id=name) if name in self._constants:
                self.statuses[before + self._constants[name]] |= statuses
            case ast.IfExp(body=body, orelse=other):
                self._note(body, statuses, before)
                self._note(other, statuses, before)
            case ast.BoolOp(values=values):
                for each in values:
                    self._note(each, statuses, before)
            case _:
                pass  # a code that is handed on


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The texts of the module that have a name and could be codes."""
    for node in tree.body:
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=str(text))) if _CODE.fullmatch(text):
                yield name, text


def _places_of_code(nodes: list[ast.AST]) -> Iterator[tuple[str, int]]:
    """The functions and classes that take a code by its place, and the place."""
    for node in nodes:
        match node:
            case ast.FunctionDef(name=name, args=arguments) if name != "__init__":
                names = [each.arg for each in arguments.args if each.arg != "self"]
            case ast.ClassDef(name=name, body=body):
                init = [each for each in body if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
                fields = [_simple_name(each.target) for each in body if isinstance(each, ast.AnnAssign)]
                names = [each.arg for each in init[0].args.args[1:]] if init else fields
            case _:
                continue
        for parameter in _PARAMETERS:
            if parameter in names:
                yield name, names.index(parameter)


def _own(kind: ast.ClassDef, name: str) -> Any:
    """The constant that a class itself gives to an attribute; None: it gives none."""
    for node in kind.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=target)], value=ast.Constant(value=value)) if target == name:
                return value
            case ast.AnnAssign(target=ast.Name(id=target), value=ast.Constant(value=value)) if target == name:
                return value
    return None


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int)


def _simple_name(expression: ast.expr) -> str:
    match expression:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""
