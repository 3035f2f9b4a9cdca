"""What is wrong with a configuration whose fields are each right: names that nothing has, doors that are left open.

Below: sections, known_parts, key_checks. Above: settings.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

from gateway.access.origins import origin_problem
from gateway.configuration.file import ConfigurationText, FieldPath, did_you_mean, spell_path
from gateway.configuration.key_checks import check_keys
from gateway.configuration.known_parts import KnownParts, provider_name, scheme
from gateway.configuration.sections import (
    AgentSection,
    ConfigurationSection,
    FallbackSection,
    ServerSection,
    ToolSection,
)
from gateway.errors import ConfigurationError
from gateway.providers.headers import header_problem

_OPTIONS = frozenset({"params", "compute_environment", "stateful", "background"})
_OPEN_TO_ALL = (
    "{way_in}, and no keys are configured; add server.api_keys, {otherwise}, or set server.allow_unauthenticated: true "
    "to let whoever reaches the gateway use every agent"
)
# By the field that says so: how others than this machine reach the gateway, and what to do where they are not to.
_WAYS_IN = {
    "host": ("other machines can reach {value!r}", "listen on 127.0.0.1"),
    "public_url": ("clients reach the gateway at {value!r}", "leave it out where nobody else uses the gateway"),
    "trusted_proxies": ("proxies pass on what others ask", "leave them out where no proxy stands before the gateway"),
}
_HOST_NAME = re.compile(r"[a-zA-Z0-9_]([a-zA-Z0-9_-]*[a-zA-Z0-9_])?(\.[a-zA-Z0-9_]([a-zA-Z0-9_-]*[a-zA-Z0-9_])?)*\.?")


def check_configuration(text: ConfigurationText, section: ConfigurationSection, parts: KnownParts) -> None:
    """Note in `text` what does not fit together."""
    _Checks(text, section, parts).all()


@dataclass(frozen=True, slots=True)
class _Checks:
    text: ConfigurationText
    section: ConfigurationSection
    parts: KnownParts

    def all(self) -> None:
        self._server(self.section.server)
        self._url(("store",), self.section.store, self.parts.stores, "store", "sqlite:///")
        if self.section.search is not None:
            self._url(("search",), self.section.search, self.parts.search_engines, "search engine", "embedded:")
        agents = self.section.agents or ()
        self._unique("agents", "id", [agent.id for agent in agents])
        for index, agent in enumerate(agents):
            self._agent(agent, ("agents", index))

    def _server(self, server: ServerSection) -> None:
        for index, origin in enumerate(server.cors_origins):
            if problem := origin_problem(origin):
                self.text.report(("server", "cors_origins", index), problem)
        for index, host in enumerate(server.allowed_hosts):
            if not _HOST_NAME.fullmatch(host):
                problem = f"{host!r} is no host name; write it without scheme, port and '*': 'agents.example'"
                self.text.report(("server", "allowed_hosts", index), problem)
        if server.public_url is not None and (problem := _url_problem(server.public_url)):
            self.text.report(("server", "public_url"), problem)
        check_keys(self.text, server, [agent.id for agent in self.section.agents or ()])
        has_keys = server.api_keys or server.publishable_keys
        if not (has_keys or server.allow_unauthenticated) and (field := outside_reach(server)):
            way_in, otherwise = _WAYS_IN[field]
            problem = _OPEN_TO_ALL.format(way_in=way_in.format(value=getattr(server, field)), otherwise=otherwise)
            self.text.report(("server", field), problem)

    def _agent(self, agent: AgentSection, path: FieldPath) -> None:
        self._part((*path, "type"), agent.type, self.parts.agent_types, "agent type")
        self._model(agent.model, (*path, "model"))
        for index, other in enumerate(agent.model.fallback):
            self._model(other, (*path, "model", "fallback", index))
        for index, tool in enumerate(agent.tools):
            self._part((*path, "tools", index, "type"), tool.type, self.parts.tools, "tool type")
            if problem := self._approvers_problem(tool):
                self.text.report((*path, "tools", index, "approvers"), problem)
        self._unique((*path, "tools"), "name", [tool.name for tool in agent.tools])

    def _approvers_problem(self, tool: ToolSection) -> str | None:
        if tool.approvers is None:
            return None
        if tool.approval == "never":
            return "says nothing without 'approval: always'"
        if tool.approvers == "keys" and not any(key.approvals for key in self.section.server.api_keys):
            return "'keys' needs a key that may approve; add 'approvals: true' to one of server.api_keys"
        return None

    def _model(self, model: FallbackSection, path: FieldPath) -> None:
        if model.endpoint is not None and (problem := _url_problem(model.endpoint)):
            self.text.report((*path, "endpoint"), problem)
        try:
            name = provider_name(model.model_provider, model.api, self.parts.models)
        except ConfigurationError as error:
            self.text.report((*path, "api"), error.message)
            return
        if not self._part((*path, "model_provider"), name, self.parts.models, "model provider"):
            return
        provider = self.parts.models[name]
        for option in sorted(_OPTIONS - provider.options):
            if getattr(model, option, None) not in (None, False):
                has = [other for other, part in sorted(self.parts.models.items()) if option in part.options]
                self.text.report((*path, option), f"{name!r} does not know it; providers that do: {', '.join(has)}")
        if provider.needs_model_id and not model.model_id:
            self.text.report((*path, "model_id"), f"is missing; {provider.name!r} needs the name of a model")
        for name, value in (model.headers or {}).items():
            if problem := header_problem(name, value):
                self.text.report((*path, "headers", name), problem)
        known = sorted(provider.credentials)
        for name, value in (model.credential or {}).items():
            if name not in provider.credentials:
                near = did_you_mean(name, known) or (f"; it knows: {', '.join(known)}" if known else "; it needs none")
                self.text.report((*path, "credential", name), f"{provider.name!r} knows no such credential{near}")
            elif not value.strip() or not value.isprintable():
                self.text.report((*path, "credential", name), "must be printable text, and not empty")

    def _url(self, path: FieldPath, url: str, known: Mapping[str, object], what: str, usual: str) -> None:
        """`usual` is what the URL of a file begins with: a bare file name has forgotten it."""
        if ":" not in url and path not in self.text.expanded:
            self.text.report(path, f"must be a URL; did you mean {usual + url!r}?")
        else:
            self._part(path, scheme(url), known, what)

    def _part(self, path: FieldPath, name: str, known: Mapping[str, object], what: str) -> bool:
        if name in known:
            return True
        there_are = f"there are: {', '.join(sorted(known)) or 'none'}"
        self.text.report(path, f"no {what} is called {name!r}{did_you_mean(name, list(known))}; {there_are}")
        return False

    def _unique(self, path: FieldPath | str, key: str, names: list[str | None] | list[str]) -> None:
        path = (path,) if isinstance(path, str) else path
        first: dict[str, int] = {}
        for index, name in enumerate(names):
            earlier = index if name is None else first.setdefault(name, index)
            if earlier != index:
                other = spell_path((*path, earlier))
                self.text.report((*path, index, key), f"{name!r} is taken by {other}; choose another")


class Reach(Protocol):
    """What a server's section and its settings both say of where requests come from."""

    @property
    def host(self) -> str: ...

    @property
    def public_url(self) -> str | None: ...

    @property
    def trusted_proxies(self) -> tuple[str, ...]: ...


def outside_reach(server: Reach) -> str | None:
    """The field that says that others than this machine's own programs reach the gateway; None where none does."""
    if not is_loopback(server.host):
        return "host"
    if server.public_url is not None:
        return "public_url"
    return "trusted_proxies" if server.trusted_proxies else None


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server that listens on `host`."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _url_problem(url: str) -> str | None:
    if _is_http_url(url):
        return None
    return "must be a URL such as 'https://host.example/v1' or 'http://127.0.0.1:11434/v1'"


def _is_http_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return (
            (parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0)
            and (url.isprintable() and " " not in url)
            and not parts.fragment
        )
    except ValueError:
        return False
