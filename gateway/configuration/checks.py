"""Problems of a configuration whose single fields are right: unknown names, a server that is open to all by mistake.

Below: sections, known_parts, key_checks. Above: settings.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Protocol
from urllib.parse import urlsplit

from gateway.access.origins import origin_problem
from gateway.configuration.file import FieldPath, FieldProblem, below, did_you_mean, spell_path
from gateway.configuration.key_checks import key_problems, unknown_agent
from gateway.configuration.known_parts import KnownParts, provider_name, scheme
from gateway.configuration.known_words import name_for
from gateway.configuration.sections import (
    AgentSection,
    ConfigurationSection,
    FallbackSection,
    ServerSection,
    ToolSection,
)
from gateway.errors import ConfigurationError
from gateway.model import ModelProvider
from gateway.providers.headers import header_problem
from gateway.wire.endpoint_patterns import EndpointPattern

_OPTIONS = frozenset({"params", "compute_environment", "stateful", "background"})
_OPEN_TO_ALL = (
    "{way_in}, and no keys are configured; add server.api_keys, {otherwise}, or set server.allow_unauthenticated: true "
    "to let whoever reaches the gateway use every agent"
)
# By the setting that opens the gateway to others: how they reach it, and what to do if they should not.
_WAYS_IN = {
    "host": ("other machines can reach {value!r}", "listen on 127.0.0.1"),
    "public_url": ("clients reach the gateway at {value!r}", "leave it out where nobody else uses the gateway"),
    "trusted_proxies": ("proxies pass on what others ask", "leave them out where no proxy stands before the gateway"),
}
_HOST_NAME = re.compile(r"[a-zA-Z0-9_]([a-zA-Z0-9_-]*[a-zA-Z0-9_])?(\.[a-zA-Z0-9_]([a-zA-Z0-9_-]*[a-zA-Z0-9_])?)*\.?")


def configuration_problems(
    section: ConfigurationSection, parts: KnownParts, expanded: Set[FieldPath]
) -> Iterator[FieldProblem]:
    """The problems of a file's fields taken together. `expanded`: as in ConfigurationText."""
    agents = section.agents or ()
    server = section.server
    yield from below(("server",), _server_problems(server, [agent.id for agent in agents]))
    yield from below(
        ("store",), _url_problems(section.store, parts.stores, "store", "sqlite:///", ("store",) in expanded)
    )
    if section.search is not None:
        is_expanded = not expanded.isdisjoint({("search",), ("search", "url")})
        found = _url_problems(section.search.url, parts.search_engines, "search engine", "embedded:", is_expanded)
        yield from below(("search",), found)
        if section.search.identity == "impersonate" and not server.api_keys:
            yield ("search", "identity"), "'impersonate' needs callers with names; add server.api_keys"
    yield from below(("cluster",), _cluster_problems(section, parts))
    yield from below(("callers", "endpoints"), _endpoint_problems(section.callers.endpoints or ()))
    trusted = section.ml_commons.trusted_connector_endpoints_regex
    yield from below(("ml_commons", "trusted_connector_endpoints_regex"), _endpoint_problems(trusted or ()))
    if trusted is not None and section.callers.endpoints is not None:
        yield ("ml_commons", "trusted_connector_endpoints_regex"), "is another name of callers.endpoints; leave one out"
    if section.ml_commons.connector.private_ip_enabled and not section.callers.private_addresses:
        opens = "opens nothing by itself; set callers.private_addresses: true"
        yield ("ml_commons", "connector", "private_ip_enabled"), opens
    yield from _not_unique(("agents",), "id", [agent.id for agent in agents])
    may_approve = any(key.approvals for key in server.api_keys)
    for index, agent in enumerate(agents):
        yield from agent_problems(agent, parts, keys_approve=may_approve, path=("agents", index))


def agent_problems(
    agent: AgentSection,
    parts: KnownParts,
    *,
    keys_approve: bool,
    path: FieldPath = (),
    offered: KnownParts | None = None,
) -> Iterator[FieldProblem]:
    """The problems of one agent's fields taken together, wherever it was read from; paths begin with `path`.

    `keys_approve`: there is an API key that may approve. `offered`: the parts that messages name; None: all.
    """
    offered = offered or parts
    yield from below((*path, "type"), _part_problems(agent.type, parts.agent_types, "agent type"))
    yield from below((*path, "model"), _model_problems(agent.model, parts, offered))
    for index, other in enumerate(agent.model.fallback):
        yield from below((*path, "model", "fallback", index), _model_problems(other, parts, offered))
    for index, tool in enumerate(agent.tools):
        at: FieldPath = (*path, "tools", index)
        yield from below((*at, "type"), _part_problems(tool.type, parts.tools, "tool type", offered.tools))
        if problem := _approvers_problem(tool, keys_approve=keys_approve):
            yield (*at, "approvers"), problem
    yield from _not_unique((*path, "tools"), "name", [tool.name for tool in agent.tools])


def _endpoint_problems(patterns: Sequence[str]) -> Iterator[FieldProblem]:
    for index, pattern in enumerate(patterns):
        try:
            EndpointPattern.parse(pattern)
        except ConfigurationError as error:
            yield (index,), error.message


def _server_problems(server: ServerSection, agent_ids: Sequence[str]) -> Iterator[FieldProblem]:
    for index, origin in enumerate(server.cors_origins):
        if problem := origin_problem(origin):
            yield ("cors_origins", index), problem
    for index, host in enumerate(server.allowed_hosts):
        if not _HOST_NAME.fullmatch(host):
            problem = f"{host!r} is not a host name; write it without scheme, port and '*': 'agents.example'"
            yield ("allowed_hosts", index), problem
    if server.public_url is not None and (problem := _http_url_problem(server.public_url)):
        yield ("public_url",), problem
    if server.default_agent is not None and (problem := unknown_agent(server.default_agent, agent_ids)):
        yield ("default_agent",), problem
    yield from key_problems(server, agent_ids)
    has_keys = server.api_keys or server.publishable_keys
    if not (has_keys or server.allow_unauthenticated) and (field := outside_reach(server)):
        way_in, otherwise = _WAYS_IN[field]
        yield (field,), _OPEN_TO_ALL.format(way_in=way_in.format(value=getattr(server, field)), otherwise=otherwise)


def _cluster_problems(section: ConfigurationSection, parts: KnownParts) -> Iterator[FieldProblem]:
    if (url := section.cluster.advertise) is None:
        return
    if not _is_http_url(url) or urlsplit(url).query or "@" in urlsplit(url).netloc:
        yield ("advertise",), "must be a URL without user and query, such as 'http://10.0.0.7:8000'"
    store = parts.stores.get(scheme(section.store))
    if store is not None and store.gateways is None:
        yield (
            ("advertise",),
            f"a {store.name}: store takes one gateway; leave this out, or keep the threads in an opensearch: store",
        )


def _approvers_problem(tool: ToolSection, *, keys_approve: bool) -> str | None:
    if tool.approvers is None:
        return None
    if tool.approval == "never":
        return "has no effect without 'approval: always'; add it, or leave this out"
    if tool.approvers == "keys" and not keys_approve:
        return "'keys' needs a key that may approve; add 'approvals: true' to one of server.api_keys"
    return None


def _model_problems(model: FallbackSection, parts: KnownParts, offered: KnownParts) -> Iterator[FieldProblem]:
    if model.endpoint is not None and (problem := _http_url_problem(model.endpoint)):
        yield ("endpoint",), problem
    try:
        name = provider_name(model.model_provider, model.api, parts.models)
    except ConfigurationError as error:
        yield ("api",), error.message
        return
    if name not in parts.models:
        yield from below(("model_provider",), _part_problems(name, parts.models, "model provider", offered.models))
        return
    provider = parts.models[name]
    for option in sorted(_OPTIONS - provider.options):
        if getattr(model, option, None) not in (None, False):
            has = [other for other, part in sorted(offered.models.items()) if option in part.options]
            yield (option,), f"{name!r} does not know it; providers that do: {', '.join(has)}"
    if provider.needs_model_id and not model.model_id:
        yield ("model_id",), f"is missing; {provider.name!r} needs the name of a model"
    for name, value in (model.headers or {}).items():
        if problem := header_problem(name, value):
            yield ("headers", name), problem
    yield from below(("credential",), _credential_problems(model.credential or {}, provider))


def _credential_problems(credential: Mapping[str, str], provider: ModelProvider) -> Iterator[FieldProblem]:
    known = sorted(provider.credentials)
    for name, value in credential.items():
        if name not in provider.credentials:
            near = did_you_mean(name, known) or (f"; it knows: {', '.join(known)}" if known else "; it needs none")
            yield (name,), f"{provider.name!r} knows no such credential{near}"
        elif not value.strip() or not value.isprintable():
            yield (name,), "must be printable text, and not empty"


def _url_problems(
    url: str, known: Mapping[str, object], what: str, usual: str, is_expanded: bool
) -> Iterator[FieldProblem]:
    """`usual` is the beginning of a file's URL: a bare file name probably lacks it."""
    if ":" not in url and not is_expanded:
        yield (), f"must be a URL; did you mean {usual + url!r}?"
    else:
        yield from _part_problems(scheme(url), known, what)


def _part_problems(
    name: str, known: Mapping[str, object], what: str, offered: Mapping[str, object] | None = None
) -> Iterator[FieldProblem]:
    if name not in known:
        names = list(known if offered is None else offered)
        there_are = f"there are: {', '.join(sorted(names)) or 'none'}"
        word = name_for(name, what)
        near = did_you_mean(name, names) if word is None else f"; did you mean '{word}'?"
        yield (), f"no {what} is called {name!r}{near}; {there_are}"


def _not_unique(path: FieldPath, key: str, names: Sequence[str | None]) -> Iterator[FieldProblem]:
    first: dict[str, int] = {}
    for index, name in enumerate(names):
        earlier = index if name is None else first.setdefault(name, index)
        if earlier != index:
            yield (*path, index, key), f"{name!r} is taken by {spell_path((*path, earlier))}; choose another"


class Reach(Protocol):
    """The fields that say where requests come from; both a server's section and its settings have them."""

    @property
    def host(self) -> str: ...

    @property
    def public_url(self) -> str | None: ...

    @property
    def trusted_proxies(self) -> tuple[str, ...]: ...


def outside_reach(server: Reach) -> str | None:
    """The field that makes the gateway reachable for other machines; None if no field does."""
    if not is_loopback(server.host):
        return "host"
    if server.public_url is not None:
        return "public_url"
    return "trusted_proxies" if server.trusted_proxies else None


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens on `host`."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _http_url_problem(url: str) -> str | None:
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
