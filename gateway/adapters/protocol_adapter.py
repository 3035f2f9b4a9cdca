"""The contract of adapters. An adapter is a protocol that a program adds to its gateway.

    class Echo(ProtocolAdapter):
        def add_endpoint(self, app, func, **kwargs):
            @app.post("/echo")
            async def echo(request):
                return await func(request.data)

Below: adapter_app, agent_function, the contract of protocols. Above: the gateway's own adapters; choice.
"""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import BaseModel
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import Scope

from gateway.adapters.adapter_app import AdapterApp
from gateway.adapters.agent_function import AgentFunction
from gateway.errors import ConfigurationError
from gateway.problems import Problem, problem_json
from gateway.protocol import ProtocolEnvironment, WireProtocol


class ProtocolAdapter(ABC):
    """A protocol that a program adds to its gateway. A subclass has `add_endpoint`."""

    @abstractmethod
    def add_endpoint(self, app: AdapterApp, func: AgentFunction, **kwargs: Any) -> Any:
        """Add the endpoints to `app`. `func(request)` asks an agent, with a request of the Agent API. The return value
        is not used.
        """

    def error_form(self, problem: Problem, scope: Scope) -> Response:
        """The response for an error on the adapter's paths, before the first byte."""
        return problem_json(problem, scope)

    def protocol(self, name: str) -> WireProtocol:
        """The adapter as a part, for a file in `gateway/protocols` or an entry point of that group."""
        return WireProtocol(name, self._routes, error_form=self.error_form)

    def protocols(self) -> Sequence[WireProtocol]:
        """The protocols that an application serves for it: one, named after the class (`echo_adapter` for EchoAdapter).
        If several adapters have one name, the later ones get a number.
        """
        return [self.protocol(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(self).__name__).lower())]

    def settings(self, written: Mapping[str, BaseModel]) -> Mapping[str, BaseModel]:
        """The settings of its protocols that differ from those that are `written` in the file, by their names."""
        return {}

    def _routes(self, environment: ProtocolEnvironment) -> Sequence[BaseRoute]:
        app = AdapterApp(environment)
        added = self.add_endpoint(app, AgentFunction(environment))
        if inspect.iscoroutine(added):  # a coroutine, which nobody runs
            added.close()
            raise ConfigurationError(f"{type(self).__name__}.add_endpoint must not be async; its handlers may be")
        return app.routes


class ServedProtocols(ProtocolAdapter):
    """An adapter of protocols that the gateway has."""

    def add_endpoint(self, app: AdapterApp, func: AgentFunction, **kwargs: Any) -> None:
        for protocol in self.protocols():
            app.add_routes(protocol.routes(app.environment))

    def protocol(self, name: str) -> WireProtocol:
        first, *others = self.protocols()
        paths = [path for each in (first, *others) for path in each.paths]
        settings = {key: kind for each in (first, *others) for key, kind in each.settings.items()}
        return replace(first, name=name, routes=self._routes, paths=paths, settings=settings)

    @abstractmethod
    def protocols(self) -> Sequence[WireProtocol]:
        """The protocols. All of them use the first one's form of errors."""
