"""The contract of wire protocols: what a protocol is.

Below: the environment that each of them gets; problems, openapi.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel
from starlette.routing import BaseRoute

from gateway.messages import JsonObject
from gateway.openapi.description import ApiDescription, ApiPart
from gateway.problems import ErrorForm, problem_json
from gateway.protocol.environment import ProtocolEnvironment
from gateway.store import ThreadDocuments


@dataclass(frozen=True, slots=True)
class WireProtocol:
    """A part: `routes(environment)` gives the protocol's routes.

    `paths` are patterns of further paths that belong to the protocol, written as those of routes: `/v1/{rest:path}`.
    `open_paths` need no key and allow any website, so requests for them have no `caller_of`; one that ends with `/`
    includes everything below it, and `{...}` in one is any part between two slashes. On `basic_paths`, written
    like these, a key may also be sent as the password of its name (Basic authentication). `open` is awaited before the
    first request, once the store can be used; `close` at the end, once no run is left.
    `error_form` renders errors on its routes' paths and on `paths`, also before a route is reached, as without a key,
    and where there is no route. `api` is its part of the API document. `sweep` is called at the start and then once an
    hour, to delete what is due. `thread_documents` says what the store keeps of threads in a collection; of several
    protocols the first one's counts.

    `settings` are pydantic models of its settings, by their names below `protocols` in the configuration file;
    protocols may share one. Where all of them are turned off (`protocols.<name>: false`), the protocol has no routes
    and no part of the API document; what it stored is swept and kept as before. Without any it cannot be turned off.

    `root` is the response of `GET /`, with a key, to a client that asks for JSON: clients of the protocol recognise the
    server by it. Of several protocols the first one's counts.

    `agent_settings` are pydantic models of settings that an agent of the file may have for the protocol, by the names
    of the agent's members: `ProtocolEnvironment.agent_settings` gives them.
    """

    name: str
    routes: Callable[[ProtocolEnvironment], Sequence[BaseRoute]]
    paths: Sequence[str] = ()
    error_form: ErrorForm = problem_json
    api: ApiPart = field(default_factory=ApiDescription)
    open_paths: Sequence[str] = ()
    basic_paths: Sequence[str] = ()
    open: Callable[[ProtocolEnvironment], Awaitable[None]] | None = None
    close: Callable[[ProtocolEnvironment], Awaitable[None]] | None = None
    sweep: Callable[[ProtocolEnvironment], Awaitable[None]] | None = None
    thread_documents: ThreadDocuments | None = None
    settings: Mapping[str, type[BaseModel]] = field(default_factory=dict)
    agent_settings: Mapping[str, type[BaseModel]] = field(default_factory=dict)
    root: JsonObject | None = None

    def is_off(self, names: Collection[str]) -> bool:
        """Whether it is turned off where the settings of these names are."""
        return bool(self.settings) and all(name in names for name in self.settings)
