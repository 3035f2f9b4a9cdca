"""Chooses the form of an error before the first byte: that of the protocol to which the request's path belongs.

Below: paths, problems. Above: the composition root, which asks for every request that fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from starlette.routing import BaseRoute, Mount, Route, compile_path
from starlette.types import Scope

from gateway.problems import ErrorForm, problem_json
from gateway.protocol.paths import path_with_marked_slashes


class HasErrorForm(Protocol):
    """The members of a WireProtocol that are read here."""

    @property
    def paths(self) -> Sequence[str]: ...

    @property
    def error_form(self) -> ErrorForm: ...


class ErrorForms:
    """Chooses the form of a request's error: that of the protocol with the most specific pattern for its path.

    Of two patterns, the one that is literal further to the left is more specific, `{id}` more than `{rest:path}`.
    """

    def __init__(self, served: Iterable[tuple[HasErrorForm, Sequence[BaseRoute]]]) -> None:
        """`served`: the protocols with their routes."""
        patterns = [
            (pattern, protocol.error_form)
            for protocol, routes in served
            for pattern in (*protocol.paths, *_patterns(routes))
        ]
        patterns.sort(key=lambda each: _specificity(each[0]), reverse=True)
        self._forms = [(compile_path(pattern)[0], form) for pattern, form in patterns]

    def of(self, scope: Scope) -> ErrorForm:
        """The form for this request; problem+json if no pattern matches."""
        path = path_with_marked_slashes(scope["raw_path"])
        return next((form for pattern, form in self._forms if pattern.match(path)), problem_json)


def _patterns(routes: Sequence[BaseRoute]) -> Iterator[str]:
    for route in routes:
        if isinstance(route, Route):
            yield route.path
        elif isinstance(route, Mount):
            yield f"{route.path}/{{rest:path}}"


def _specificity(pattern: str) -> list[int]:
    parts = pattern.strip("/").split("/")
    return [0 if ":path}" in part else 1 if "{" in part else 2 for part in parts]
